//! The frame of a tick: a body that all share, encoded once, and tails for those who have private news.

use bytes::Bytes;
use tenure_shared::{
    Seq,
    wire::{write_frame_head, write_quiet, write_tail},
};

use super::RoomWorld;
use crate::link::{Frame, FrameMember, GatewayId, ToGateway};

/// How often a tick without changes is announced, nanoseconds.
const HEARTBEAT: u64 = 1_000_000_000;

/// Members and tails behind one gateway.
struct Part {
    gateway: GatewayId,
    tails: Vec<u8>,
    members: Vec<FrameMember>,
}

impl RoomWorld {
    pub(super) fn frames(&mut self) {
        let mut body = Vec::new();
        write_frame_head(&mut body, self.term, self.tick);
        let ops = self.replicator.shared(&mut self.world, &mut body);
        if ops == 0 {
            body.clear();
            // Whoever was shown a grant knows up to which tick it was shown everything: it says so when it comes back.
            if self.now.saturating_sub(self.last_body) >= HEARTBEAT || self.missed.has_shown(self.tick) {
                write_quiet(&mut body, self.term, self.tick);
            }
        }
        if !body.is_empty() {
            self.last_body = self.now;
        }
        let body = Bytes::from(body);
        self.replicator.find_private(&self.world);
        let mut parts: Vec<Part> = Vec::new();
        let mut ops = Vec::new();
        for seat in self.seats.values_mut() {
            let Some((gateway, conn)) = seat.link else { continue };
            let part = match parts.iter().position(|part| part.gateway == gateway) {
                Some(at) => &mut parts[at],
                None => {
                    parts.push(Part { gateway, tails: Vec::new(), members: Vec::new() });
                    let last = parts.len() - 1;
                    &mut parts[last]
                }
            };
            ops.clear();
            let count = self.replicator.private(&self.world, seat.entity, &mut seat.view, &mut ops);
            let start = part.tails.len();
            if count > 0 || seat.marks_moved {
                write_tail(&mut part.tails, seat.applied, seat.saved, &ops);
                seat.marks_moved = false;
            }
            part.tails.append(&mut seat.tail);
            let end = part.tails.len();
            if end > start || !body.is_empty() {
                let (start, end) = (start as u32, end as u32);
                part.members.push(FrameMember { conn, saved: seat.saved, start, end });
            }
        }
        for part in parts {
            if part.members.is_empty() {
                continue;
            }
            let frame = Frame {
                room: self.room.clone(),
                term: self.term,
                tick: self.tick,
                body: body.clone(),
                tails: part.tails.into(),
                members: part.members,
            };
            self.messages.push((part.gateway, ToGateway::Frame(frame)));
        }
    }

    /// The store has the checkpoint of this version: the `saved` marks move.
    pub fn saved(&mut self, version: u64) {
        while let Some((_, applied)) = self.saves.pop_front_if(|(stored, _)| *stored <= version) {
            for (id, applied) in applied {
                if let Some(seat) = self.seats.get_mut(&id)
                    && seat.saved < applied
                {
                    seat.saved = applied;
                    seat.marks_moved = true;
                }
            }
        }
        // Trimmed with that checkpoint: their results cannot come again.
        self.delivered.retain(|_, stored| stored.is_none_or(|stored| stored > version));
    }

    /// Remembers what a checkpoint has, for [`saved`](Self::saved).
    pub(super) fn remember_save(&mut self, version: u64) {
        /// Checkpoints under way at most; beyond that the oldest is forgotten, and a later one moves the marks.
        const UNDER_WAY: usize = 64;
        if self.saves.len() >= UNDER_WAY {
            self.saves.pop_front();
        }
        let applied: Vec<(_, Seq)> = self.seats.iter().map(|(id, seat)| (*id, seat.applied)).collect();
        self.saves.push_back((version, applied));
        self.delivered.values_mut().filter(|stored| stored.is_none()).for_each(|stored| *stored = Some(version));
    }
}
