//! The ways a room ends: unloaded when idle, deleted, stopped, lost.

use std::sync::atomic::Ordering;

use tenure_shared::codes::{CloseCode, ErrorCode};

use super::{
    super::{inbox::Packed, shard::pending::Request},
    Actor, Phase,
    opening::{DISPOSE_JOB, RETRY_AFTER},
};
use crate::{link::ToGateway, room::world::RoomWorld, runtime::Mono, store::RoomSummary};

impl Actor {
    /// Unloads a room that nobody has been in for `idle_after` of its own time and that waits for nothing.
    /// One that was dormant and that only work has woken goes as soon as that is done, unless more is due soon: of ten thousand that a schedule wakes
    /// in one moment none ticks for a minute with nobody in it.
    pub(super) fn maybe_end(&mut self, now: Mono) {
        let Some(world) = &self.world else { return };
        self.visited |= world.empty_since().is_none();
        let idle = world.empty_since().is_some_and(|since| {
            let empty = world.room_time().saturating_sub(since);
            u128::from(empty) >= self.host.config.idle_after.as_nanos()
        });
        let soon = || self.host.store_now().plus(self.host.config.idle_after);
        let idle = idle || (!self.visited && self.occurrences.next_due().is_none_or(|due| due > soon()));
        let waits = self.unacked > 0
            || !self.work.is_empty()
            || !self.results.is_empty()
            || self.grants_out > 0
            || self.tasks_out > 0
            || !self.balances_wanted.is_empty();
        if idle && !waits && self.kind.auto_dispose() && !self.handle.has_attach() {
            self.save_dormant(now);
        }
    }

    /// The last checkpoint says dormant; occurrences that need somebody present are taken back, the deletion is scheduled.
    fn save_dormant(&mut self, now: Mono) {
        let room = self.handle.room.clone();
        let cancelled = self.occurrences.leave(&self.book, &room);
        self.left.clone_from(&cancelled);
        let version = self.world.as_ref().map_or(0, |world| world.version() + 1);
        // Work that wakes an empty room for a moment does not make it young again.
        let keep = self.kind.dispose_after().unwrap_or(self.host.config.dispose_after);
        let due = self.dispose_due.unwrap_or_else(|| self.host.store_now().plus(keep));
        self.dispose_due = Some(due);
        let dispose = Self::dispose_item(&room, version, due);
        self.dispose_items.insert(dispose.id.clone());
        self.set_phase(Phase::Saving);
        self.commit(Request { cancelled, scheduled: vec![dispose], ..Request::default() }, false, now);
    }

    /// The last checkpoint is stored. Whoever came meanwhile keeps the room: the unload is called off (C48).
    pub(super) fn saved(&mut self, now: Mono) {
        // Before the end: after it another life of the room may have said something newer already.
        if let Some(world) = &self.world {
            self.host.know(RoomSummary { dormant: true, ..world.summary() }, true, Vec::new());
        }
        if self.due.is_empty() && self.results.is_empty() && self.end(self.stopping) {
            if self.stopping {
                self.host.note_saved();
            }
            return;
        }
        if self.stopping {
            self.end(true);
            return;
        }
        let request = self.call_off();
        self.start_running(Some(request), now);
    }

    /// The room stays after all: what was taken back for its unload is pending again, as it was, and it is not deleted.
    fn call_off(&mut self) -> Request {
        let scheduled = self.occurrences.come_back(&self.book, &std::mem::take(&mut self.left));
        let mut cancelled = std::mem::take(&mut self.dispose_items);
        cancelled.extend(self.work.keys().filter(|id| &*id.job == DISPOSE_JOB).cloned());
        self.work.retain(|id, _| !cancelled.contains(id));
        self.due.retain(|work| !cancelled.contains(&work.item.id));
        Request { cancelled: cancelled.into_iter().collect(), scheduled, ..Request::default() }
    }

    /// The game wants the room to end.
    pub(super) fn dispose(&mut self) {
        self.ending = false;
        self.close_members(CloseCode::RoomEnded, "the room has ended");
        self.delete();
    }

    /// Deletes the room with its items.
    pub(super) fn delete(&mut self) {
        self.drop_world();
        self.shard.note_reached(self.reached.tick);
        self.cancel_tasks();
        self.host.unlist(&self.handle.room);
        self.set_phase(Phase::Deleting);
        self.submit(Request { delete: true, ..Request::default() });
    }

    /// The room is deleted. Who came meanwhile begins anew: it finds no room, or makes a new one.
    pub(super) fn deleted(&mut self) {
        self.work.clear();
        self.due.clear();
        self.dispose_items.clear();
        if !self.end(self.stopping) {
            self.set_phase(Phase::Loading);
            super::super::loading::start(&self.host, &self.handle);
        }
    }

    /// The node stops: the last state is stored, whatever the room was doing.
    pub(super) fn stop(&mut self, now: Mono) {
        match self.phase {
            Phase::Running if self.frozen => {}
            // What is being paid is told first, so that the next life need not.
            Phase::Running if now < self.stop_by && (self.grants_out > 0 || !self.results.is_empty()) => {}
            Phase::Running => {
                let dirty = self.world.as_ref().is_some_and(RoomWorld::dirty);
                self.set_phase(Phase::Saving);
                if dirty {
                    self.commit(Request::default(), true, now);
                } else if self.unacked == 0 {
                    self.stopped();
                }
            }
            // Not touched, or safe in the store already.
            Phase::Opening | Phase::Loading | Phase::Restoring | Phase::Parked if self.unacked == 0 => {
                self.stopped();
            }
            _ => {}
        }
    }

    fn stopped(&mut self) {
        self.host.note_saved();
        self.end(true);
    }

    /// The shard is another's, or was for a while: not a word more of this world. Gateways were told of the shard, and attach its seats
    /// elsewhere; whoever waits for an answer is told the same.
    pub(super) fn lost(&mut self) {
        for (gateway, message) in std::mem::take(&mut self.withheld) {
            if let ToGateway::Attached(attached) = message {
                let (conn, attempt) = (attached.conn, attached.attempt);
                let answer = if self.creators.contains(&(gateway, conn)) {
                    // The room may be stored: sent on by its gateway, the same wish would be refused for the room that it made.
                    let (code, retry_after) = (ErrorCode::MayRetry, Some(RETRY_AFTER));
                    let message = "the room's node changed while it was made".to_owned();
                    ToGateway::Refused { conn, attempt, code, word: None, message, retry_after }
                } else {
                    self.host.not_owner(conn, attempt, self.shard.id())
                };
                // A gateway that has no place for it, or is gone, asks again by itself.
                drop(self.host.gateways.send(gateway, answer));
            }
        }
        self.end(true);
    }

    /// The shard is being given away: what is not stored of the room is, once. It stands still already.
    pub(super) fn save_for_giving(&mut self, now: Mono) {
        let dirty = self.world.as_ref().is_some_and(RoomWorld::dirty);
        if dirty && self.phase == Phase::Running && self.host.leads(&self.shard, now) {
            self.commit(Request::default(), true, now);
        }
    }

    /// Whoever gives the shard away hears when the room stands still and nothing of it is on its way. One that is being read, or was never
    /// looked at, has nothing to store.
    pub(super) fn tell_still(&mut self) {
        let Some(number) = self.shard.giving() else { return };
        let stored = self.unacked == 0 && !self.world.as_ref().is_some_and(RoomWorld::dirty);
        let still = match self.phase {
            Phase::Running => self.frozen,
            Phase::Opening | Phase::Loading | Phase::Restoring | Phase::Parked | Phase::Gone => true,
            Phase::Creating | Phase::Saving | Phase::Deleting => false,
        };
        let said = if still && stored { number } else { 0 };
        let running = self.saved.filter(|_| self.phase == Phase::Running && said != 0);
        *self.handle.packed.lock() = running.map(|saved| Packed { saved, ticked: self.ticked });
        if self.handle.still.swap(said, Ordering::AcqRel) != said {
            self.host.progress.notify_waiters();
        }
    }

    pub(super) fn close_members(&mut self, code: CloseCode, reason: &str) {
        let members = match &self.world {
            Some(_) => self.make(|actor| Ok(actor.world.as_ref().map(RoomWorld::attachments).unwrap_or_default())),
            None => Ok(Vec::new()),
        };
        let members = members.unwrap_or_default().into_iter().chain(std::mem::take(&mut self.members));
        for member in members.collect::<Vec<_>>() {
            let close = ToGateway::Close { conn: member.conn, code, reason: reason.to_owned() };
            self.mail.send(&self.host, member.gateway, close);
        }
    }

    /// Whether all that this room was woken for is its own deletion.
    pub(super) fn only_disposal(&self) -> bool {
        !self.due.is_empty() && self.due.iter().all(|work| &*work.item.id.job == DISPOSE_JOB)
    }
}
