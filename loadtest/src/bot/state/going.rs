//! What is left of a seat when its bot goes, or when it is lost.

use tenure_shared::RoomId;

use super::State;
use crate::bot::watch::Watched;

/// A seat that was given up: what its bot could still try to resume.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) room: RoomId,
    pub(crate) session: String,
    /// Who had it.
    pub(crate) token: Option<String>,
}

impl State {
    /// The seat was given up; the next connection joins anew, which is no loss.
    pub(crate) fn left(&mut self) {
        self.noted.left();
        self.audit.iter().for_each(Watched::away);
        (self.seat, self.dropped) = (None, None);
    }

    /// The seat is gone; the next connection joins anew.
    pub(crate) fn lose_seat(&mut self) {
        self.seat = None;
    }

    /// It goes, and comes back without its session, as the same player or, `as_another`, as somebody else.
    pub(crate) fn begin_anew(&mut self, as_another: bool) {
        self.left();
        self.anew = true;
        if as_another {
            (self.player, self.token) = (None, None);
        }
    }

    /// The seat that it has, to be tried when it is over.
    pub(crate) fn ended(&self) -> Option<Ended> {
        let seat = self.seat.as_ref()?;
        Some(Ended { room: seat.room.clone(), session: seat.session.clone(), token: self.token.clone() })
    }
}
