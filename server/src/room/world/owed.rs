//! Charges whose purchase this build cannot hand over, since it has no handler or reads another form: they wait as work items for a build
//! that can. Rolling a deploy back loses nothing.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::RoomWorld;
use crate::{
    plugin::{Granted, Outcome, decode, encode},
    store::{Applied, Grant, GrantId, OWED_CHARGE, WorkId, WorkItem},
};

/// What such an item carries: the charge, and what its ledger said.
#[derive(Serialize, Deserialize)]
struct Owed {
    grant: Grant,
    applied: Applied,
}

/// The key of a charge's item: of one charge it is always the same one.
pub(in crate::room) fn key(grant: &GrantId) -> Arc<str> {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(grant.0.as_bytes())).into()
}

/// What game code is told.
pub(super) fn outcome(applied: &Applied) -> Outcome {
    match applied {
        Applied::Given(given) | Applied::Already(given) => Outcome::Given(given.clone()),
        Applied::Insufficient => Outcome::Insufficient,
    }
}

impl RoomWorld {
    /// A ledger's answer as game code sees it.
    pub(super) fn granted(&self, grant: &Grant, applied: &Applied) -> Granted {
        let seat = self.seat_of(&grant.player).and_then(|id| self.seats.get(&id));
        Granted {
            id: grant.id.0.clone(),
            player: grant.player.clone(),
            seat: seat.map(|seat| seat.entity),
            source: grant.source.clone(),
            scheduled_for: grant.scheduled_for,
            outcome: outcome(applied),
        }
    }

    /// Gives a charge's answer to its handler. An error says that the handler did not run.
    pub(super) fn hand_over(&mut self, granted: &Granted, token: &Bytes) -> Result<(), String> {
        match self.handlers.charges.get_mut(&granted.source) {
            Some(runner) => runner.run(&mut self.world, granted, token),
            None => Err("it has no handler in this build".to_owned()),
        }
    }

    /// Keeps a charge that could not be handed over: in the commit that takes note of its ledger's answer. Where none has a place any more
    /// the answer counts as not heard, here and in the checkpoint: it stays in the outbox, and comes again when the room is loaded anew.
    pub(super) fn owe(&mut self, grant: Grant, applied: Applied, why: &str) {
        let Some(left) = self.owed_places.checked_sub(1) else {
            self.delivered.remove(&grant.id);
            self.effects.delivered.retain(|id| *id != grant.id);
            let Grant { id, player, .. } = &grant;
            return self
                .error(format!("charge {} of {player} stays in the outbox, since too many wait as work: {why}", id.0));
        };
        self.owed_places = left;
        self.error(format!("charge {:?} of {} waits as work: {why}", grant.source, grant.player));
        let job = format!("{OWED_CHARGE}{}", grant.source).into();
        let id = WorkId { room: self.room.clone(), job, key: key(&grant.id) };
        let mut payload = Vec::new();
        match encode(&mut payload, &Owed { grant, applied }) {
            Ok(()) => {
                let item = WorkItem { id, due: self.wall, attempt: 0, parked: None, payload: payload.into() };
                self.effects.scheduled.push(item);
            }
            // Plain data: this cannot fail short of a fault in the encoder.
            Err(e) => self.error(format!("charge {}: {e}", id.key)),
        }
    }

    /// A charge that is owed, in a build that may know its handler.
    pub(super) fn pay_owed(&mut self, payload: &[u8]) -> Result<(), String> {
        let Owed { grant, applied } = decode(payload)?;
        let granted = self.granted(&grant, &applied);
        self.hand_over(&granted, &grant.token)
    }
}
