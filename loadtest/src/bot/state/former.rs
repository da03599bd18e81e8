//! The connection that a seat moves from: it shows frames until the next one has the seat, and what is said once may still be on its way.

use std::time::Instant;

use tenure_shared::{
    Term, Tick,
    msgpack::Bounds,
    wire::{ServerMessage, ServerMessages},
};

use super::State;
use crate::stats::Stats;

impl State {
    /// Takes one WebSocket message of the former connection.
    pub(crate) fn former(&mut self, bytes: &[u8], now: Instant, stats: &mut Stats) {
        stats.counters.messages += 1;
        stats.counters.bytes += bytes.len() as u64;
        for message in ServerMessages::new(bytes, &Bounds::SERVER) {
            let Ok(message) = message else {
                stats.counters.malformed += 1;
                return;
            };
            // State comes by the next one from its first snapshot on; marks and fires of timers would come out of order.
            match message {
                ServerMessage::Frame { term, tick, .. }
                | ServerMessage::Quiet { term, tick }
                | ServerMessage::Snapshot { term, tick, .. }
                    if !self.playing =>
                {
                    self.former_frame((term, tick), now, stats);
                }
                ServerMessage::Tail { applied, saved, .. } if !self.playing => self.marks(applied, saved, now, stats),
                ServerMessage::Message { .. } if !self.playing => self.said(message, now, stats),
                ServerMessage::Granted(_) | ServerMessage::Refused { .. } | ServerMessage::RolledBack { .. } => {
                    self.said(message, now, stats);
                }
                _ => {}
            }
        }
    }

    /// What is said once counts as on any connection; it ends none and asks for no answer.
    fn said(&mut self, message: ServerMessage<'_>, now: Instant, stats: &mut Stats) {
        drop(self.message(message, now, stats, &mut Vec::new()));
    }

    fn former_frame(&mut self, this: (Term, Tick), now: Instant, stats: &mut Stats) {
        let Some(seat) = self.seat.as_mut().filter(|seat| seat.shown < this) else { return };
        stats.counters.frames += 1;
        let term = seat.shown.0;
        let began = term != this.0 && term.0 > 0;
        stats.counters.terms_begun += u64::from(began);
        if let Some(last) = self.last_frame.filter(|_| stats.measuring) {
            let gap = now.saturating_duration_since(last);
            stats.pauses.record(gap);
            if began {
                stats.terms.record(gap);
                self.noted.switch(this.0, now, gap.saturating_sub(seat.period), stats);
            }
        }
        (seat.shown, self.last_frame) = (this, Some(now));
        if let Some(others) = &self.audit {
            others.heard(now);
        }
    }
}
