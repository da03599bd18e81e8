//! In a room: numbered messages, resync, leaving.

use bytes::Bytes;
use tenure_shared::{
    Generation, PlayerId, RoomId, SeatId, Seq,
    codes::{CloseCode, ErrorCode},
    wire::ServerMessage,
};

use super::{Ask, Effect, Machine, Phase, Tokens, View, attaching, between::Between, enter, error};
use crate::{
    gateway::{conn::encode, rate::Gcra},
    link::Attached,
    runtime::Mono,
};

/// Snapshots that a client may ask for at once, and the seconds per further one.
const RESYNCS: u64 = 3;

/// The seat that the client has.
#[derive(Debug)]
pub(super) struct InRoom {
    pub(super) room: RoomId,
    pub(super) seat: SeatId,
    pub(super) generation: Generation,
    /// The client's count of its resumes with which the seat was taken; without one, the number that the attachment had then.
    pub(super) resumes: u32,
    /// The number that the client's next message must have.
    pub(super) next: Seq,
    /// Numbers that may still be left out: after a resume the client does not send again what was refused to it before.
    pub(super) gaps: u64,
    /// What the client resumes it with.
    pub(super) tokens: Tokens,
    /// The session token that waits for its acknowledgement.
    pub(super) unacknowledged: Option<String>,
    pub(super) resyncs: Gcra,
    /// With what it was joined: its join record, should another owner have to join it anew.
    pub(super) options: Bytes,
    /// Set while nobody has the seat.
    pub(super) between: Option<Between>,
    /// When a node last said that it does not know the seat.
    pub(super) gone_at: Option<Mono>,
}

impl InRoom {
    /// `resumed`: by a resume, with this count.
    pub(super) fn new(attached: &Attached, options: &[u8], tokens: Tokens, resumed: Option<u32>) -> Self {
        let gaps = if resumed.is_some() { tenure_shared::limits::UNSAVED_INPUTS as u64 } else { 0 };
        let resyncs = Gcra::new(std::time::Duration::from_secs(1), 1, RESYNCS);
        let (room, seat, generation) = (attached.room.clone(), attached.seat, attached.generation);
        Self {
            room,
            seat,
            generation,
            resumes: resumed.filter(|count| *count > 0).unwrap_or(generation.0),
            next: attached.owed,
            gaps,
            tokens,
            unacknowledged: None,
            resyncs,
            // Not a part of the message they came in, which is larger.
            options: Bytes::copy_from_slice(options),
            between: None,
            gone_at: None,
        }
    }

    fn delete(&self, player: PlayerId) -> Effect {
        let (room, seat, tokens) = (self.room.clone(), self.seat, self.tokens.clone());
        Effect::Ask(Ask::Delete { player, room, seat, tokens })
    }

    /// Checks a number against the sequence (H4).
    fn take(&mut self, seq: Seq) -> Result<(), String> {
        let missing =
            seq.0.checked_sub(self.next.0).ok_or_else(|| format!("message {seq} came after {}", self.next.0 - 1))?;
        if missing > self.gaps {
            return Err(format!("message {seq} came, {} was expected", self.next));
        }
        self.gaps -= missing;
        self.next = Seq(seq.0 + 1);
        Ok(())
    }
}

impl Machine {
    pub(super) fn input(&mut self, seq: Seq, request: Option<u32>, kind: u16, payload: Bytes, out: &mut Vec<Effect>) {
        match &mut self.phase {
            Phase::Room(room) => match room.take(seq) {
                Ok(()) => out.push(Effect::Input { seq, request, kind, payload }),
                Err(why) => self.broken(&why, out),
            },
            // Sent before the client knew that its leave was on its way out.
            Phase::Leaving { .. } | Phase::Deleting { .. } => {
                let code = ErrorCode::BadState.as_str();
                out.push(Effect::Send(encode(&ServerMessage::Refused { seq, code, message: "the seat is given up" })));
            }
            _ => self.broken("a message to a room, but there is no seat", out),
        }
    }

    pub(super) fn leave(&mut self, id: u32, view: &View<'_>, out: &mut Vec<Effect>) {
        match std::mem::replace(&mut self.phase, Phase::Lobby) {
            Phase::Room(room) => {
                // Between owners the next one is told.
                if room.between.is_none() {
                    out.push(room.detach(true));
                }
                self.deadline = Some(view.now.plus(attaching::ANSWER));
                self.phase = Phase::Leaving { id, room };
            }
            other => {
                self.phase = other;
                Self::bad_state(id, "there is no seat to leave", out);
            }
        }
    }

    /// The node has taken the seat back.
    pub(super) fn left(&mut self, out: &mut Vec<Effect>) {
        match std::mem::replace(&mut self.phase, Phase::Lobby) {
            Phase::Leaving { id, room } => {
                self.deadline = None;
                out.push(Effect::Forget);
                if let Some(known) = &self.known {
                    out.push(room.delete(known.player.clone()));
                }
                self.phase = Phase::Deleting { id };
            }
            other => self.phase = other,
        }
    }

    /// The room wants the socket closed. Where that ends the seat, the session ends with it.
    pub(super) fn closed_by_room(&mut self, code: CloseCode, reason: &str, out: &mut Vec<Effect>) {
        if let (Phase::Room(room), Some(known)) = (&self.phase, &self.known)
            && code.ends_seat()
        {
            out.push(room.delete(known.player.clone()));
        }
        self.close(code, reason, out);
    }

    /// The client numbers by another name table.
    pub(super) fn speaks(&mut self, hash: u64, out: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Room(_)) {
            out.push(Effect::Speaks(hash));
        }
    }

    pub(super) fn acknowledge(&mut self, token: &str, out: &mut Vec<Effect>) {
        let Phase::Room(room) = &mut self.phase else { return };
        if room.unacknowledged.as_deref() != Some(token) {
            return out.push(error(0, ErrorCode::ResumeFailed, "not the session token that was offered", None));
        }
        room.unacknowledged = None;
        if let Some(known) = &self.known {
            let (player, room, token) = (known.player.clone(), room.room.clone(), token.to_owned());
            out.push(Effect::Ask(Ask::Acknowledge { player, room, token }));
        }
    }

    pub(super) fn resync(&mut self, view: &View<'_>, out: &mut Vec<Effect>) {
        let Phase::Room(room) = &mut self.phase else { return };
        // Between owners a snapshot comes anyway.
        if room.between.is_some() {
            return;
        }
        match room.resyncs.take(view.now, 1) {
            Ok(()) => out.push(Effect::Resync),
            Err(wait) => out.push(error(0, ErrorCode::Limit, "too many resyncs", Some(enter::millis(wait)))),
        }
    }

    /// The room was restored in place: the attachment has another number. A leave that was sent under the old one is sent again.
    pub(in crate::gateway) fn raised(&mut self, generation: Generation, out: &mut Vec<Effect>) {
        match &mut self.phase {
            Phase::Room(room) => room.generation = generation,
            Phase::Leaving { room, .. } => {
                room.generation = generation;
                if room.between.is_none() {
                    out.push(room.detach(true));
                }
            }
            // Every detach is given the newest number on its way out.
            _ => {}
        }
    }

    /// The seat from which messages may go to the room: what was sent before a leave is given to it first.
    pub(super) fn seated(&self) -> Option<&InRoom> {
        match &self.phase {
            Phase::Room(room) | Phase::Leaving { room, .. } => Some(room),
            _ => None,
        }
    }

    /// Whether there is a seat from which messages may go to the room.
    pub(in crate::gateway) fn is_seated(&self) -> bool {
        self.seated().is_some()
    }

    /// Whether a snapshot may be asked for.
    pub(in crate::gateway) fn may_resync(&self) -> bool {
        matches!(&self.phase, Phase::Room(room) if room.between.is_none())
    }

    /// What a message becomes that the room could not be given.
    pub(in crate::gateway) fn refuse(seq: Seq, why: &str) -> Bytes {
        encode(&ServerMessage::Refused { seq, code: ErrorCode::MayRetry.as_str(), message: why })
    }
}
