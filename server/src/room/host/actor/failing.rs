//! A fault in game code touches one room: it is restored from its last stored checkpoint, within a budget, or parked.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use tenure_shared::codes::CloseCode;

use super::{
    super::{
        inbox::Saved,
        loading::{self, Loaded},
        names,
        shard::pending::Request,
    },
    Actor, Phase,
};
use crate::{room::world::RoomWorld, runtime::Mono};

/// What a panic said.
pub(in crate::room::host) fn text(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panic: {}", said.as_deref().unwrap_or("(no text)"))
}

impl Actor {
    /// The room failed. Its commits on the way stay good: it is read again when they are through.
    pub(super) fn fault(&mut self, reason: &str, now: Mono) {
        names::fault(self.kind.name());
        tracing::error!(room = %self.handle.room, kind = self.kind.name(), reason, "a room failed");
        self.fault = reason.to_owned();
        let window = self.host.config.restart_window;
        while self.faults.front().is_some_and(|at| now.since(*at) >= window) {
            self.faults.pop_front();
        }
        self.faults.push_back(now);
        if self.phase == Phase::Creating || (self.phase == Phase::Loading && !self.withheld.is_empty()) {
            return self.not_created(reason);
        }
        if self.faults.len() as u64 > u64::from(self.host.config.restarts) {
            return self.park(reason, now);
        }
        self.roll_back();
    }

    /// Back to the last stored checkpoint, once the commits on the way are answered.
    pub(super) fn roll_back(&mut self) {
        let members = self.make(|actor| Ok(actor.world.as_ref().map(RoomWorld::attachments).unwrap_or_default()));
        match members {
            Ok(members) if !members.is_empty() => self.members = members,
            _ => {}
        }
        self.drop_world();
        self.cancel_tasks();
        self.task_epoch += 1;
        self.tasks_out = 0;
        self.task_results.clear();
        self.balances.clear();
        self.missed.clear();
        self.set_phase(Phase::Restoring);
        if self.unacked == 0 {
            self.read_again();
        }
    }

    pub(super) fn read_again(&mut self) {
        loading::start(&self.host, &self.handle);
    }

    /// The last stored state is here: seats are taken again, members are told, work and ledger answers come again.
    pub(super) fn restored(&mut self, loaded: Loaded, now: Mono) {
        let Some(checkpoint) = loaded.checkpoint else {
            // Its first checkpoint was never stored, or it was deleted.
            self.close_members(CloseCode::RoomError, "the room failed before it was stored");
            self.shard.give_back(&self.handle.room, &[]);
            self.end(true);
            return;
        };
        let members = std::mem::take(&mut self.members);
        let made = self.make(|actor| {
            let mut world = actor.restore_world(&checkpoint)?;
            let messages = world.adopt(&members);
            Ok((world, messages))
        });
        let (world, messages) = match made {
            Ok(made) => made,
            Err(reason) => {
                self.members = members;
                return self.fault(&reason, now);
            }
        };
        self.world = Some(world);
        self.stored_as(Saved::of(&checkpoint));
        for (gateway, message) in messages {
            self.mail.send(&self.host, gateway, message);
        }
        self.fresh = self.results.values().map(|(_, result)| result.clone()).collect();
        // What was at hand when it failed counts as failed; the rest comes again.
        let suspects = std::mem::take(&mut self.suspects);
        let kept: Vec<_> = suspects.iter().map(|item| item.id.clone()).collect();
        self.due.clear();
        self.work.clear();
        // Nothing is on its way any more: neither what was taken back nor grants of the world that is gone.
        self.cancelling.clear();
        self.left.clear();
        self.grants_out = 0;
        self.ending = false;
        self.work.extend(suspects.iter().map(|item| (item.id.clone(), item.clone())));
        let mut request = self.reconcile(&loaded.items, false).unwrap_or_default();
        let reason = self.fault.clone();
        let pending = |id| loaded.items.iter().any(|item| item.id == id && item.parked.is_none());
        for id in kept
            .iter()
            .filter(|id| pending((*id).clone()) && !request.cancelled.contains(id))
            .cloned()
            .collect::<Vec<_>>()
        {
            self.failed(id, &reason, &mut request);
        }
        self.shard.give_back(&self.handle.room, &kept);
        self.start_running((request != Request::default()).then_some(request), now);
    }

    /// A person has looked at it: it begins anew from its last checkpoint, with a new budget. The next fault counts as the first.
    pub(super) fn unpark(&mut self) {
        if self.phase != Phase::Parked || self.stopping {
            return;
        }
        tracing::info!(room = %self.handle.room, "a parked room is read again");
        self.faults.clear();
        self.fault.clear();
        *self.handle.reason.lock() = None;
        self.set_phase(Phase::Restoring);
        if self.unacked == 0 {
            self.read_again();
        }
        // What was due meanwhile stayed in the store.
        self.shard.look_for_work();
    }

    /// The room stays away until somebody looks at it, or another node has it: what it stored is kept.
    pub(super) fn park(&mut self, reason: &str, _now: Mono) {
        names::parked(self.kind.name());
        tracing::error!(room = %self.handle.room, reason, "the room is parked");
        self.fault = reason.to_owned();
        *self.handle.reason.lock() = Some(reason.to_owned());
        if self.phase == Phase::Creating {
            return self.not_created(reason);
        }
        self.close_members(CloseCode::RoomError, "the room failed for good");
        self.drop_world();
        self.cancel_tasks();
        self.set_phase(Phase::Parked);
        // Its items stay in the store, and are in nobody's memory.
        self.work.clear();
        self.due.clear();
        self.suspects.clear();
        self.shard.give_back(&self.handle.room, &[]);
        self.host.unlist(&self.handle.room);
        self.refuse_wishes();
    }

    /// Destructors of game values may panic too.
    pub(super) fn drop_world(&mut self) {
        self.lately.clear();
        let Some(world) = self.world.take() else { return };
        self.reached = world.reached();
        if catch_unwind(AssertUnwindSafe(|| drop(world))).is_err() {
            tracing::warn!(room = %self.handle.room, "a destructor of game code panicked");
        }
    }
}
