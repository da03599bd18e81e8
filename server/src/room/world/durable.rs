//! Durable work in a tick: due items, answers of ledgers, and what game code decided. All of it is one commit with the tick's
//! checkpoint (H6).

use std::sync::Arc;

use tenure_shared::wire::{self, ServerMessage};
use xxhash_rust::xxh3::Xxh3;

use super::{DueWork, GrantResult, RoomWorld};
use crate::{
    plugin::{
        Outcome,
        params::{DueQueue, GrantQueue, Planned},
    },
    store::{Grant, GrantId, OWED_CHARGE, WorkId, WorkItem},
};

impl RoomWorld {
    /// An item is due: its handler runs; done or failed, never both, never neither.
    pub(super) fn due(&mut self, due: DueWork) {
        if let Some(reward) = due.reward {
            return self.reward(&due.item, &reward);
        }
        let WorkItem { id, due, attempt, payload, .. } = due.item;
        let marks = self.effect_marks();
        let result = match self.handlers.work.get_mut(&id.job) {
            None if id.job.starts_with(OWED_CHARGE) => self.pay_owed(&payload),
            // The host hands out what the kind knows: only a fault leads here.
            None => Err(format!("job {:?} is not registered in this build", id.job)),
            Some(runner) => runner
                .run(&mut self.world, id.key.clone(), due, attempt, &payload)
                .map_err(|refuse| refuse.reason().to_owned()),
        };
        match result {
            Ok(()) => self.effects.completed.push(id),
            Err(reason) => {
                self.effect_rollback(marks);
                self.effects.failed.push((id, reason));
            }
        }
    }

    /// What a ledger did is given to game code once, and shown to the player (H8).
    pub(super) fn deliver(&mut self, result: GrantResult) {
        let GrantResult { grant, applied, balances } = result;
        self.effects.delivered.push(grant.id.clone());
        if self.delivered.contains_key(&grant.id) {
            return;
        }
        self.delivered.insert(grant.id.clone(), None);
        self.learn_balances(&grant.player, &balances);
        let granted = self.granted(&grant, &applied);
        let linked = self.seat_of(&grant.player).filter(|id| self.is_linked(*id));
        let news = self.answered(&grant, linked);
        if let (Outcome::Given(given), Some(seat)) = (&granted.outcome, linked.filter(|_| news)) {
            let told = wire::Granted {
                source: grant.source.to_string(),
                scheduled_for: grant.scheduled_for.map(|at| at.millis()),
                grants: given.iter().map(|(currency, amount)| (currency.to_string(), *amount)).collect(),
                balances,
            };
            self.tell(seat, &ServerMessage::Granted(told));
        }
        self.hook(|h| &mut h.on_granted, granted.clone());
        let charge = grant.amounts.values().any(|amount| *amount < 0);
        if charge && let Err(why) = self.hand_over(&granted, &grant.token) {
            self.owe(grant, applied, &why);
        }
    }

    /// Takes what game code decided in this tick.
    pub(super) fn collect_durable(&mut self) {
        let mut faults = Vec::new();
        if let Some(mut queue) = self.world.get_resource_mut::<DueQueue>()
            && !queue.ops.is_empty()
        {
            for ((job, key), net) in queue.settle() {
                let id = WorkId { room: self.room.clone(), job, key };
                if net.cancelled {
                    self.effects.cancelled.push(id.clone());
                }
                if let Some(Planned { at, payload }) = net.planned {
                    let payload = payload.into();
                    self.effects.scheduled.push(WorkItem { id, due: at, attempt: 0, parked: None, payload });
                }
            }
        }
        if let Some(mut queue) = self.world.get_resource_mut::<DueQueue>() {
            queue.faults.take(&mut faults);
        }
        let mut grants = Vec::new();
        if let Some(mut queue) = self.world.get_resource_mut::<GrantQueue>() {
            grants = std::mem::take(&mut queue.grants);
            queue.faults.take(&mut faults);
        }
        for grant in grants {
            self.grants += 1;
            let mut grant = Grant {
                id: GrantId(Arc::from("")),
                player: grant.player,
                source: grant.source,
                scheduled_for: None,
                amounts: grant.amounts,
                cap: None,
                token: grant.token.into(),
            };
            grant.id = self.identity(&grant);
            self.effects.grants.push(grant);
        }
        faults.into_iter().for_each(|fault| self.error(fault));
    }

    /// The identity of the grant that game code decided last: which one of the room's it is, and what. It says nothing of the term or the tick: where the store forgot
    /// the commit that decided it and a ledger did not, the room decides it once more when its players' inputs come again, and it is not paid twice (H6).
    /// A room that is deleted and made again under the same name is told apart by its birth.
    fn identity(&self, grant: &Grant) -> GrantId {
        let mut hash = Xxh3::new();
        let mut part = |bytes: &[u8]| {
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(grant.player.as_str().as_bytes());
        part(grant.source.as_bytes());
        part(&grant.token);
        for (currency, amount) in &grant.amounts {
            part(currency.as_bytes());
            part(&amount.to_le_bytes());
        }
        let what = hash.digest();
        GrantId(Arc::from(format!("{}/{}/{}/{what:016x}", self.room, self.born.0, self.grants)))
    }
}
