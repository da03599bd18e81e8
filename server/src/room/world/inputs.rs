//! Inputs: queued per seat within bounds, applied in order, at most so many per tick (H4, H11).

use std::collections::VecDeque;

use bevy_ecs::entity::Entity;
use bytes::Bytes;
use tenure_shared::{SeatId, Seq, codes::ErrorCode, limits, wire::ServerMessage};

use super::{InputRefused, RoomWorld};
use crate::{
    link::Input,
    plugin::{
        Refuse, ReplyTo, RequestOutcome,
        params::{Pending, ReplyBook},
    },
};

/// Inputs of all seats in order of arrival.
#[derive(Default)]
pub(super) struct InputQueue(VecDeque<Queued>);

struct Queued {
    seat: SeatId,
    seq: Seq,
    request: Option<u32>,
    kind: u16,
    payload: Bytes,
}

/// Highest number of a message: far below the one at which a checkpoint counts as damaged.
pub(super) const LAST_SEQ: Seq = Seq(u64::MAX / 8);

/// Most requests of one seat that wait for a later answer.
const PENDING_PER_SEAT: usize = 32;

impl RoomWorld {
    /// A numbered message or request: it waits for the next tick. What is repeated or of an older generation is ignored. Numbers
    /// may be missing: their senders were told so by the gateway, which also checks that its client counts without gaps (H4).
    ///
    /// # Errors
    /// - A seat whose queue is at its bound: then nothing was taken, and nothing more is taken of this attachment, since what follows
    ///   must not overtake it.
    /// - A seat or an attachment that this world does not know, or an older attachment of a seat that has no socket now.
    pub fn input(&mut self, input: Input) -> Result<(), InputRefused> {
        let gone = InputRefused::Gone { seat: input.seat, generation: input.generation };
        let Some(seat) = self.seats.get_mut(&input.seat) else { return Err(gone) };
        if input.generation > seat.generation {
            return Err(gone);
        }
        if input.generation < seat.generation && seat.link.is_none() {
            // Nobody has it since: the world was restored behind the back of its socket, which must come back.
            return Err(gone);
        }
        if seat.generation != input.generation || seat.link.is_none() || seat.overrun || input.seq <= seat.queued {
            return Ok(());
        }
        let (count, bytes) = (seat.waiting.0 + 1, seat.waiting.1 + input.payload.len());
        if count > self.settings.unsaved_inputs || bytes > self.settings.unsaved_bytes || input.seq > LAST_SEQ {
            seat.overrun = true;
            let reason = format!("{} messages of {} bytes wait already", seat.waiting.0, seat.waiting.1);
            return Err(InputRefused::Overrun { seat: input.seat, reason });
        }
        seat.waiting = (count, bytes);
        seat.queued = input.seq;
        let Input { seat, seq, request, kind, payload, .. } = input;
        self.inputs.0.push_back(Queued { seat, seq, request, kind, payload });
        Ok(())
    }

    /// Forgets what a seat has queued: its sender sends it again from the number owed.
    pub(super) fn drop_inputs(&mut self, id: SeatId) {
        let Some(seat) = self.seats.get_mut(&id) else { return };
        if seat.waiting.0 > 0 {
            self.inputs.0.retain(|queued| queued.seat != id);
            seat.waiting = (0, 0);
        }
        seat.queued = seat.applied;
    }

    /// Applies what is queued, at most `inputs_per_tick` of a seat; the rest waits.
    pub(super) fn apply_inputs(&mut self) {
        if self.inputs.0.is_empty() {
            return;
        }
        let mut used: std::collections::BTreeMap<SeatId, usize> = std::collections::BTreeMap::new();
        for queued in std::mem::take(&mut self.inputs.0) {
            let used = used.entry(queued.seat).or_default();
            if *used >= self.settings.inputs_per_tick {
                self.inputs.0.push_back(queued);
                continue;
            }
            *used += 1;
            self.apply(&queued);
        }
    }

    fn apply(&mut self, queued: &Queued) {
        let Some(seat) = self.seats.get_mut(&queued.seat) else { return };
        seat.applied = queued.seq;
        seat.marks_moved = true;
        seat.waiting.0 = seat.waiting.0.saturating_sub(1);
        seat.waiting.1 = seat.waiting.1.saturating_sub(queued.payload.len());
        let entity = seat.entity;
        match queued.request {
            Some(request) => self.request(queued, entity, request),
            None => {
                let kind = self.kind.clone();
                let refused = match kind.registry().messages.get(usize::from(queued.kind)) {
                    None => Some((ErrorCode::UnknownMessage, format!("message kind {} is not known", queued.kind))),
                    Some((def, message)) => message
                        .push(&mut self.world, entity, &queued.payload)
                        .err()
                        .map(|e| (ErrorCode::BadPayload, format!("{}: {e}", def.name))),
                };
                if let Some((code, message)) = refused {
                    let message = Refuse::new(message);
                    let refused =
                        ServerMessage::Refused { seq: queued.seq, code: code.as_str(), message: message.reason() };
                    self.tell(queued.seat, &refused);
                }
            }
        }
    }

    fn request(&mut self, queued: &Queued, entity: Entity, request: u32) {
        let outcome = self.run_request(queued, entity, request);
        let (code, refuse) = match outcome {
            RequestOutcome::Later => return,
            RequestOutcome::Answered(payload) => {
                return self.tell(queued.seat, &ServerMessage::Reply { id: request, payload: &payload });
            }
            RequestOutcome::Bad(e) => (ErrorCode::BadPayload, Refuse::new(e)),
            RequestOutcome::Refused(refuse) => (ErrorCode::RequestFailed, refuse),
            RequestOutcome::Failed(e) => {
                self.error(format!("request kind {}: {e}", queued.kind));
                (ErrorCode::RequestFailed, Refuse::new("the request could not be handled"))
            }
        };
        self.refuse_request(queued.seat, request, code, &refuse);
    }

    /// The game's own word for a refusal. One that is no word is reported, and left out.
    pub(super) fn word_of(&mut self, refuse: &Refuse) -> Option<Box<str>> {
        let word = refuse.word().map(|word| word.map(Box::from));
        word.unwrap_or_else(|fault| {
            self.error(fault);
            None
        })
    }

    pub(super) fn refuse_request(&mut self, seat: SeatId, request: u32, code: ErrorCode, refuse: &Refuse) {
        // A game's own word is more than that it said no.
        let word = self.word_of(refuse).filter(|_| code == ErrorCode::RequestFailed);
        let code = word.as_deref().unwrap_or(code.as_str());
        self.tell(seat, &ServerMessage::Error { id: request, code, message: refuse.reason(), retry_after: None });
    }

    fn run_request(&mut self, queued: &Queued, entity: Entity, request: u32) -> RequestOutcome {
        let limit = self.settings.max_pending_replies;
        let player = self.seats.get(&queued.seat).map(|seat| seat.player.clone());
        let (Some(player), Some(mut book)) = (player, self.world.get_resource_mut::<ReplyBook>()) else {
            return RequestOutcome::Failed("the seat is gone".to_owned());
        };
        let of_seat = book.pending.values().filter(|pending| pending.seat == queued.seat).count();
        if book.pending.len() >= limit || of_seat >= PENDING_PER_SEAT {
            return RequestOutcome::Refused(Refuse::new("too many requests wait for an answer"));
        }
        book.next += 1;
        let reply = book.next;
        book.pending.insert(reply, Pending { seat: queued.seat, request });
        let marks = self.effect_marks();
        let Some(runner) = self.handlers.requests.get_mut(usize::from(queued.kind)) else {
            self.forget_reply(reply);
            let refuse = Refuse::new(format!("request kind {} is not known", queued.kind));
            self.refuse_request(queued.seat, request, ErrorCode::UnknownMessage, &refuse);
            return RequestOutcome::Later;
        };
        let outcome = runner.run(&mut self.world, entity, player, &queued.payload, ReplyTo(reply));
        if !matches!(outcome, RequestOutcome::Later) {
            self.forget_reply(reply);
        }
        if !matches!(outcome, RequestOutcome::Later | RequestOutcome::Answered(_)) {
            self.effect_rollback(marks);
        }
        outcome
    }

    fn forget_reply(&mut self, reply: u64) {
        if let Some(mut book) = self.world.get_resource_mut::<ReplyBook>() {
            book.pending.remove(&reply);
        }
    }

    /// Appends a message to what a seat gets with its next frame. A seat in its grace gets it when it is back.
    pub(super) fn tell(&mut self, id: SeatId, message: &ServerMessage<'_>) {
        let limit = self.settings.max_out_bytes;
        if !self.keep(id, message, limit) {
            self.error(format!("seat {id}: more than {limit} bytes of messages wait; one was dropped"));
        }
    }

    /// Puts a message into a seat's next tail; `false` if it is longer then than `limit`.
    pub(super) fn keep(&mut self, id: SeatId, message: &ServerMessage<'_>, limit: usize) -> bool {
        let Some(seat) = self.seats.get_mut(&id) else { return true };
        let before = seat.tail.len();
        message.encode(&mut seat.tail);
        let fits = seat.tail.len() <= limit;
        if !fits {
            seat.tail.truncate(before);
        }
        fits
    }
}

/// A close frame's reason, cut to what fits.
pub(super) fn reason(text: &str) -> String {
    let refuse = Refuse::new(text);
    debug_assert!(refuse.reason().len() <= limits::REASON_BYTES, "a reason is cut");
    refuse.reason().to_owned()
}
