//! Seats that nobody wants: their rooms are told so, now or when they have a place for it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tenure_shared::{Generation, RoomId, SeatId};

use super::router::Link;
use crate::{
    link::{ToNode, Uplink as _},
    runtime::{Mono, mailbox::Refused},
};

/// Detaches of one lane that wait because their rooms' queues are full. At the bound the link that most of them are for is ended: then
/// its node lets the seats go by itself, and the lane goes on with the others.
pub(super) const ORPHANS: usize = 4_096;
/// How long such a detach waits before it is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// The detaches of a lane that wait.
#[derive(Default)]
pub(super) struct Orphans {
    /// One per seat: the newest attachment of it that nobody wants.
    waiting: BTreeMap<(u64, RoomId, SeatId), (Arc<Link>, Generation)>,
    due: Option<Mono>,
}

impl Orphans {
    /// When they are to be offered again.
    pub(super) fn due(&self) -> Option<Mono> {
        self.due
    }

    /// A seat that nobody wants is given back.
    pub(super) fn give_back(
        &mut self,
        now: Mono,
        link: &Arc<Link>,
        room: RoomId,
        seat: SeatId,
        generation: Generation,
    ) {
        let detach = ToNode::Detach { room: room.clone(), seat, generation, consented: false };
        // Through a link that is broken the node has taken it for dropped already.
        if !matches!(link.send(detach), Err(Refused::Full(_))) {
            return;
        }
        if self.waiting.len() >= ORPHANS {
            self.end_busiest();
            if link.is_broken() {
                return;
            }
        }
        let (_, newest) = self.waiting.entry((link.id, room, seat)).or_insert_with(|| (link.clone(), generation));
        *newest = generation.max(*newest);
        self.due.get_or_insert_with(|| now.plus(PAUSE));
    }

    /// Ends the link that most of them are for.
    fn end_busiest(&mut self) {
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for (link, ..) in self.waiting.keys() {
            *counts.entry(*link).or_default() += 1;
        }
        let Some((busiest, _)) = counts.into_iter().max_by_key(|(_, count)| *count) else { return };
        self.waiting.retain(|(id, ..), (link, _)| {
            if *id == busiest {
                link.end("its rooms take no detaches");
            }
            *id != busiest
        });
    }

    /// If it is time, offers them all: a room that is busy does not keep the others' seats taken.
    pub(super) fn retry(&mut self, now: Mono) {
        if self.due.is_none_or(|at| now < at) {
            return;
        }
        self.waiting.retain(|(_, room, seat), (link, generation)| {
            let (room, seat, generation) = (room.clone(), *seat, *generation);
            let detach = ToNode::Detach { room, seat, generation, consented: false };
            matches!(link.send(detach), Err(Refused::Full(_)))
        });
        self.due = (!self.waiting.is_empty()).then(|| now.plus(PAUSE));
    }
}
