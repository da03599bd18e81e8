//! From a tick's effects to a commit, and what an acknowledged commit means for the room.

use std::{collections::HashSet, sync::atomic::Ordering};

use tenure_shared::RoomId;

use super::{
    super::{
        config::{LONGEST_RETRY, MISSED_LINES, backoff},
        inbox::{Durable, Saved},
        items::{in_vain, too_many},
        lately::Said,
        names,
        shard::pending::Request,
    },
    Actor, Phase,
    opening::DISPOSE_JOB,
};
use crate::{
    room::world::{Effects, MissedGrants},
    runtime::{Mono, tasks::Kind},
    store::{Checkpoint, Command, Error, Ignored, Reply, WorkId},
};

impl Actor {
    /// A tick's effects, its checkpoint and the next occurrences: one commit (H6).
    pub(super) fn commit_effects(&mut self, effects: Effects, checkpoint: Checkpoint, now: Mono) {
        let Effects { scheduled, cancelled, completed, advanced, failed, grants, delivered } = effects;
        let mut request = Request { scheduled, cancelled, completed, advanced, grants, ..Request::default() };
        self.due.retain(|work| !request.cancelled.contains(&work.item.id));
        self.items.gone(request.cancelled.iter().chain(&request.completed));
        self.paged.extend(request.advanced.iter().cloned());
        for id in request.completed.iter().chain(&request.cancelled) {
            self.paged.remove(id);
        }
        let mut complaints = Vec::new();
        let refused = self.items.admit(&mut request.scheduled);
        for id in &refused {
            names::work(self.kind.name(), "refused");
            complaints.push(too_many(id));
        }
        self.complain(complaints, now);
        for id in &request.completed {
            names::work(self.kind.name(), "completed");
            let change = self.occurrences.done(&self.book, id, self.host.store_now());
            self.host.count_dropped(change.dropped, &self.handle.room);
            request.scheduled.extend(change.scheduled);
        }
        for (id, reason) in failed {
            self.failed(id, &reason, &mut request);
        }
        for id in &delivered {
            if let Some((position, _)) = self.results.get(id) {
                request.trimmed.push(*position);
                request.told.push(id.clone());
            }
        }
        self.grants_out += request.grants.len();
        self.send(request, checkpoint, now);
    }

    /// A handler failed: again later, or parked after too many attempts; a schedule goes on with its next occurrence.
    pub(super) fn failed(&mut self, id: WorkId, reason: &str, request: &mut Request) {
        let attempt = self.work.get(&id).map_or(0, |item| item.attempt);
        let now = self.host.store_now();
        tracing::warn!(room = %id.room, job = %id.job, key = %id.key, attempt = attempt + 1, reason, "work failed");
        if attempt + 1 >= self.host.config.max_attempts {
            names::work(self.kind.name(), "parked");
            let change = self.occurrences.done(&self.book, &id, now);
            request.scheduled.extend(change.scheduled);
            request.parked.push((id, reason.to_owned()));
        } else {
            names::work(self.kind.name(), "failed");
            let due = now.plus(backoff(self.host.config.retry_delay, attempt, LONGEST_RETRY));
            self.occurrences.put_off(&id, due);
            request.failed.push((id, due));
        }
    }

    /// Commits `request` with the room's state now. After a fault in the encoding the room is restored instead.
    pub(super) fn commit(&mut self, request: Request, live: bool, now: Mono) {
        let checkpoint = self.make(|actor| match actor.world.as_mut() {
            Some(world) => Ok(world.checkpoint(!live)),
            None => Err("the room has no world".to_owned()),
        });
        match checkpoint {
            Ok(checkpoint) => self.send(request, checkpoint, now),
            Err(reason) => self.fault(&reason, now),
        }
    }

    fn send(&mut self, request: Request, checkpoint: Checkpoint, now: Mono) {
        let (size, limit) = (checkpoint.body.len(), self.host.config.world.max_checkpoint);
        names::checkpoint(self.kind.name(), size);
        self.warn_of_size(size, limit);
        if size > limit {
            // It could never be stored: going on would only lose more.
            return self.park(&format!("its checkpoint has {size} bytes; room.max_checkpoint is {limit}"), now);
        }
        self.cancelling.extend(request.cancelled.iter().cloned());
        self.stored_as(Saved::of(&checkpoint));
        self.submit(Request { checkpoint: Some(checkpoint), ..request });
    }

    /// Its newest checkpoint, stored or about to be.
    pub(super) fn stored_as(&mut self, saved: Saved) {
        self.saved = Some(saved);
        self.handle.bytes.store(saved.bytes, Ordering::Relaxed);
    }

    /// A room that grows is told of while it can still be helped: said once, counted each time.
    fn warn_of_size(&mut self, size: usize, limit: usize) {
        let large = size > limit - limit / 5;
        if large {
            names::checkpoint_large(self.kind.name());
        }
        if large && !self.large {
            tracing::warn!(
                room = %self.handle.room, size, limit,
                "a room's checkpoint is nearly as large as room.max_checkpoint: above it the room is parked"
            );
        }
        self.large = large;
    }

    /// Hands a request over. When it is not taken, the refusal of an earlier one is on its way: it ends this world.
    pub(super) fn submit(&mut self, request: Request) {
        let said = Said::of(&request, self.host.clock.now());
        if self.shard.commit(&self.handle.room, request) {
            self.unacked += 1;
            self.lately.sent(said);
        }
    }

    /// The periodic checkpoint of a room that changed; one at a time.
    pub(super) fn maybe_checkpoint(&mut self, now: Mono) {
        if self.phase != Phase::Running || self.saving || now < self.next_checkpoint {
            return;
        }
        self.lately.forget_old(now);
        let every = self.host.config.checkpoint_every;
        while self.next_checkpoint <= now {
            self.next_checkpoint = self.next_checkpoint.plus(every.max(std::time::Duration::from_millis(1)));
        }
        if self.world.as_ref().is_some_and(crate::room::world::RoomWorld::dirty) {
            self.saving = true;
            self.commit(Request::default(), true, now);
        }
    }

    /// The room goes on from memory, perhaps on a store that fell back to an older state, or was emptied: it is told what the room has and
    /// waits for, and what it decided lately. An item that it still has, or that was done, stays as it is (H6).
    /// `forgot`: the store has forgotten something for certain. Only then what it cannot compare is said as well.
    pub(super) fn continued(&mut self, forgot: bool, now: Mono) {
        if !matches!(self.phase, Phase::Running | Phase::Saving) {
            return;
        }
        let waiting = self.occurrences.waiting(&self.book, &self.handle.room);
        let mut scheduled: Vec<_> = waiting.into_iter().filter(|item| !self.work.contains_key(&item.id)).collect();
        for item in &mut scheduled {
            // Not from its first page again: what that did to the world would be done twice.
            if let Some(page) = self.paged.get(&item.id) {
                item.payload = page.clone();
            }
        }
        // What a tick has taken is in a request on its way, which brings its item itself: told behind it, the item would be as it was before.
        scheduled.extend(self.due.iter().map(|work| work.item.clone()));
        let mut request = {
            let waits: HashSet<&WorkId> = scheduled.iter().map(|item| &item.id).collect();
            let known = |id: &WorkId| waits.contains(id) || self.work.contains_key(id);
            self.lately.again(&self.handle.room, forgot, known, |id| self.results.contains_key(id))
        };
        request.scheduled.append(&mut scheduled);
        self.commit(request, self.phase == Phase::Running, now);
    }

    /// Spread over the period, so that a thousand rooms do not save in the same moment.
    pub(super) fn first_checkpoint(&self, now: Mono) -> Mono {
        let every = u64::try_from(self.host.config.checkpoint_every.as_nanos()).unwrap_or(u64::MAX).max(1);
        let hash = xxhash_rust::xxh3::xxh3_64_with_seed(self.handle.room.as_str().as_bytes(), 1);
        Mono(now.0.saturating_add(hash % every))
    }

    pub(super) fn on_committed(&mut self, durable: &Durable, now: Mono) {
        self.unacked = self.unacked.saturating_sub(durable.merged);
        self.lately.acknowledged(durable.merged);
        self.saving = false;
        for id in &durable.items {
            self.work.remove(id);
            self.cancelling.remove(id);
        }
        self.ignored(durable, now);
        let before = self.results.len();
        self.results.retain(|_, (position, _)| !durable.trimmed.contains(position));
        self.grants_out = self.grants_out.saturating_sub(before - self.results.len());
        if let (Some(version), Some(world)) = (durable.version, self.world.as_mut()) {
            world.saved(version);
        }
        match self.phase {
            Phase::Creating if self.unacked == 0 => self.created(now),
            Phase::Saving if self.unacked == 0 => self.saved(now),
            Phase::Deleting if self.unacked == 0 => self.deleted(),
            Phase::Restoring if self.unacked == 0 => self.read_again(),
            _ => {}
        }
    }

    /// What game code scheduled in vain: it is told so in the log, and the item takes no place.
    fn ignored(&mut self, durable: &Durable, now: Mono) {
        let again = |one: &&Ignored| self.work.contains_key(&one.id);
        let vain: Vec<_> = durable.ignored.iter().filter(|one| !again(one)).collect();
        if vain.is_empty() {
            return;
        }
        vain.iter().for_each(|_| names::work(self.kind.name(), "ignored"));
        self.items.gone(vain.iter().filter(|one| !one.parked).map(|one| &one.id));
        let texts = vain.into_iter().map(in_vain).collect();
        self.complain(texts, now);
    }

    /// Says what game code did wrong, at most once in a while.
    pub(super) fn complain(&mut self, texts: Vec<String>, now: Mono) {
        if let Some((error, unsaid)) = self.complaints.take(texts, now) {
            tracing::warn!(room = %self.handle.room, %error, unsaid, "game code reported an error");
        }
    }

    pub(super) fn on_refused(&mut self, error: &Error, merged: usize, now: Mono) {
        self.shard.resume(&self.handle.room);
        self.unacked = self.unacked.saturating_sub(merged);
        self.lately.refused(merged);
        self.saving = false;
        tracing::error!(room = %self.handle.room, %error, "the store refused a commit of a room");
        match (self.phase, error) {
            (Phase::Gone | Phase::Parked, _) => {}
            (Phase::Creating, _) => self.not_created(&error.to_string()),
            // It failed already, and waited for this answer.
            (Phase::Restoring, _) if self.unacked == 0 => self.read_again(),
            (Phase::Restoring, _) => {}
            // No fault of the room: it goes back to what the store has, and what waits for it frees the outbox first.
            (_, Error::Full(_)) => self.roll_back(),
            // The world went on from something the store does not have, or cannot take: back to what it has, within the budget.
            _ => self.fault(&format!("its commit was refused: {error}"), now),
        }
    }

    /// Asks for balances, and for what players missed, one question at a time.
    pub(super) fn ask_balances(&mut self) {
        if self.balances_asked || (self.balances_wanted.is_empty() && self.missed_wanted.is_empty()) {
            return;
        }
        self.balances_asked = true;
        let players: Vec<_> = self.balances_wanted.drain(..).collect();
        let wanted: Vec<_> = self.missed_wanted.drain(..).collect();
        let (host, handle) = (self.host.clone(), self.handle.clone());
        self.host.tasks.spawn("room balances", Kind::Job, async move {
            let mut known = Vec::with_capacity(players.len());
            for player in players {
                match host.call_until_stopped(Command::Balances { player: player.clone() }).await {
                    Ok(Reply::Balances(balances)) => known.push((player, balances)),
                    Ok(_) => {}
                    Err(error) => tracing::warn!(%player, %error, "balances could not be read"),
                }
            }
            let mut missed = Vec::with_capacity(wanted.len());
            for (player, since) in wanted {
                match host.call_until_stopped(Command::Ledger { player: player.clone(), limit: MISSED_LINES }).await {
                    Ok(Reply::Ledger(lines)) => {
                        let balances = known.iter().find(|(known, _)| *known == player);
                        let balances = balances.map(|(_, balances)| balances.clone()).unwrap_or_default();
                        missed.push(MissedGrants { player, since, lines, balances });
                    }
                    Ok(_) => {}
                    Err(error) => tracing::warn!(%player, %error, "a ledger could not be read"),
                }
            }
            handle.tell(super::super::inbox::Event::Ledgers(known, missed));
        });
    }

    /// The item that deletes this room when it has been dormant long enough. The version makes it a new one each time.
    pub(super) fn dispose_item(room: &RoomId, version: u64, due: crate::runtime::Wall) -> crate::store::WorkItem {
        let id = WorkId { room: room.clone(), job: DISPOSE_JOB.into(), key: version.to_string().into() };
        crate::store::WorkItem { id, due, attempt: 0, parked: None, payload: bytes::Bytes::new() }
    }
}
