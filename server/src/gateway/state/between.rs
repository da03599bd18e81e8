//! Between owners: the seat's room changes hands, and the socket stays.
//!
//! The owner is asked again and again, with growing random pauses and each time under another number, as long as the socket lives.
//! Meanwhile the client's messages go into the ring, whose bounds refuse what is too much; a leave is remembered; the client's wish for
//! a snapshot is moot, since one comes with the answer.

use std::time::Duration;

use tenure_shared::{
    Seq, Term, Tick,
    codes::{CloseCode, ErrorCode},
};

use super::{Ask, Effect, Machine, Phase, View, room::InRoom};
use crate::{
    gateway::router::pause,
    link::{Attach, Attached, Mode, ToNode},
    runtime::Mono,
};

/// How long an owner may take for an answer before it is asked again.
const ANSWER: Duration = Duration::from_secs(2);
/// A room that does not know a seat, so soon after it took it up, will not know it the next time either.
const GONE: Duration = Duration::from_secs(10);

/// The wait for the next owner.
#[derive(Debug)]
pub(super) struct Between {
    /// Questions without a useful answer.
    tries: u32,
    /// Number of the question that is open.
    asked: Option<u32>,
    /// When it is given up, or asked again.
    due: Mono,
}

impl Between {
    pub(super) fn new(view: &View<'_>) -> Self {
        Self { tries: 0, asked: None, due: view.now.plus(pause(0, view.rng)) }
    }

    pub(super) fn due(&self) -> Mono {
        self.due
    }

    fn again(&mut self, view: &View<'_>, at_least: Duration) {
        self.tries = self.tries.saturating_add(1);
        self.asked = None;
        self.due = view.now.plus(pause(self.tries, view.rng).max(at_least));
    }
}

impl Machine {
    /// The seat is no longer where it was attached. `gone`: because its room, or the seat, was not there.
    pub(in crate::gateway) fn off(&mut self, view: &View<'_>, gone: bool, out: &mut Vec<Effect>) {
        match &mut self.phase {
            // `joined` goes out as it is, then the seat is taken again.
            Phase::Storing(storing) => storing.off = true,
            // There is no seat any more: that is what is wanted.
            Phase::Leaving { room, .. } if gone && room.between.is_none() => self.left(out),
            Phase::Room(room) | Phase::Leaving { room, .. } if room.between.is_none() => {
                if gone && room.gone_at.is_some_and(|at| view.now.since(at) < GONE) {
                    return self.close(CloseCode::MayRetry, "the room does not know the seat", out);
                }
                if gone {
                    room.gone_at = Some(view.now);
                }
                room.between = Some(Between::new(view));
            }
            _ => {}
        }
    }

    /// Whether the seat is between owners.
    pub(in crate::gateway) fn is_between(&self) -> bool {
        self.seated().is_some_and(|room| room.between.is_some())
    }

    fn between(&mut self) -> Option<&mut Between> {
        match &mut self.phase {
            Phase::Room(room) | Phase::Leaving { room, .. } => room.between.as_mut(),
            _ => None,
        }
    }

    /// There is somebody to ask: it is not waited any longer than to spread those who wait with this one.
    pub(in crate::gateway) fn route(&mut self, view: &View<'_>) {
        let soon = view.now.plus(pause(0, view.rng));
        if let Some(between) = self.between().filter(|between| between.asked.is_none()) {
            between.due = between.due.min(soon);
        }
    }

    /// The question of this number is not answered, or not by an owner that can be.
    pub(super) fn between_again(&mut self, view: &View<'_>, attempt: u32, at_least: Duration) {
        if let Some(between) = self.between().filter(|between| between.asked == Some(attempt)) {
            between.again(view, at_least);
        }
    }

    /// The pause is over, or the time for an answer.
    pub(super) fn between_due(&mut self, view: &View<'_>, out: &mut Vec<Effect>) {
        let attempt = self.attempt.wrapping_add(1);
        let Some(known) = &self.known else { return };
        let (Phase::Room(room) | Phase::Leaving { room, .. }) = &mut self.phase else { return };
        let Some(between) = room.between.as_mut().filter(|between| view.now >= between.due) else { return };
        if between.asked.is_some() {
            between.again(view, Duration::ZERO);
            return out.push(Effect::Unexpect);
        }
        (between.asked, between.due) = (Some(attempt), view.now.plus(ANSWER));
        let attach = Attach {
            gateway: view.gateway,
            conn: view.conn,
            attempt,
            room: room.room.clone(),
            // A room exists once its first checkpoint is stored, and this seat was taken after that.
            mode: Mode::Join,
            player: known.player.clone(),
            options: room.options.clone(),
            metadata: bytes::Bytes::new(),
            seat: Some(room.seat),
            // Also of a player who leaves: a seat that ended at a former owner is over, and only who comes again is told so.
            rejoin: true,
            generation: room.generation,
            resumes: room.resumes,
            // Filled in when it is sent.
            first: Seq(1),
            shown: (Term(0), Tick(0)),
            table: known.table,
        };
        self.attempt = attempt;
        out.push(Effect::Attach { attach: Box::new(attach), again: true });
    }

    /// The next owner has the seat; `true` if it was waited for.
    pub(super) fn between_over(&mut self, attached: &Attached, out: &mut Vec<Effect>) -> bool {
        if self.between().is_none_or(|between| between.asked != Some(attached.attempt)) {
            return false;
        }
        let Some(known) = &mut self.known else { return false };
        known.table = Some(attached.hash);
        let leaving = matches!(self.phase, Phase::Leaving { .. });
        let (Phase::Room(room) | Phase::Leaving { room, .. }) = &mut self.phase else { return false };
        if room.seat != attached.seat {
            let (player, room, from) = (known.player.clone(), room.room.clone(), room.seat);
            out.push(Effect::Ask(Ask::Reseat { player, room, from, to: attached.seat }));
        }
        room.between = None;
        (room.seat, room.generation) = (attached.seat, attached.generation);
        if leaving {
            out.push(room.detach(true));
        }
        true
    }

    /// The next owner refuses the seat; `true` if it was asked.
    pub(super) fn between_refused(
        &mut self,
        view: &View<'_>,
        attempt: u32,
        (code, message, retry_after): (ErrorCode, &str, Option<u32>),
        out: &mut Vec<Effect>,
    ) -> bool {
        if self.between().is_none_or(|between| between.asked != Some(attempt)) {
            return false;
        }
        out.push(Effect::Unexpect);
        match code {
            ErrorCode::MayRetry | ErrorCode::Limit => {
                let wait = Duration::from_millis(u64::from(retry_after.unwrap_or(0))).min(ANSWER);
                self.between_again(view, attempt, wait);
            }
            // There is no seat any more: that is what was wanted.
            _ if matches!(self.phase, Phase::Leaving { .. }) => self.left(out),
            ErrorCode::NoSuchRoom => self.closed_by_room(CloseCode::RoomEnded, message, out),
            ErrorCode::RoomError => self.closed_by_room(CloseCode::RoomError, message, out),
            // The client comes back, and is told why it cannot.
            _ => self.close(CloseCode::MayRetry, message, out),
        }
        true
    }
}

impl InRoom {
    /// The seat is given up, unless nobody has it.
    pub(super) fn give_up(&self) -> Option<Effect> {
        self.between.is_none().then(|| self.detach(false))
    }

    pub(super) fn detach(&self, consented: bool) -> Effect {
        let (seat, generation) = (self.seat, self.generation);
        Effect::GiveUp(ToNode::Detach { room: self.room.clone(), seat, generation, consented })
    }
}
