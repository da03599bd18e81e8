//! The task of a shard: one commit in flight, numbered, repeated until its answer is known; due work handed out; one loop, so that
//! commits, refills and answers never overtake one another.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tenure_shared::RoomId;

use super::{
    Shard,
    near::Near,
    outbox,
    pending::{Request, batch},
    refused,
};
use crate::{
    room::{
        host::{
            actor::DISPOSE_JOB,
            config::{WORK_HORIZON, WORK_PER_ROOM},
            core::Host,
            inbox::{Durable, Event, Stage},
            items::{self, is_of_game},
            names,
        },
        world::DueWork,
    },
    runtime::{Wall, Watcher, faults},
    store::{Command, Error, Fence, Ignored, Reply, WorkId, WorkItem},
};

/// Longest sleep towards a due time: long waits are cut and checked against the clock again (C13).
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// How often a shard whose rooms stand still looks whether they may go on.
const QUIET_PAUSE: Duration = Duration::from_millis(100);
/// Items read at a time.
const ITEMS: usize = 1_000;
/// Most pages of them that are read before commits have their turn again.
const PAGES: usize = 8;

pub(super) type Requests = Vec<(RoomId, Request)>;

/// What a step of the writer came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Go on.
    Going,
    /// The shard was another's: its worlds are dropped.
    Lost,
    /// The host ends.
    Ended,
}

pub(super) struct Writer {
    pub(super) host: Arc<Host>,
    pub(super) shard: Arc<Shard>,
    pub(super) fence: Fence,
    pub(super) number: u64,
    pub(super) near: Near,
    pub(super) changes: Watcher,
    quiet: bool,
    /// The store has fewer commits of this term than it acknowledged.
    pub(super) forgot: bool,
}

/// Answers "the store failed" to one batch before its rooms are tried alone, or the room at fault is told.
const BROKEN_TRIES: u32 = 8;

impl Writer {
    pub(super) fn new(host: Arc<Host>, shard: Arc<Shard>, fence: Fence) -> Self {
        let changes = host.ownership.changes();
        Self { host, shard, fence, number: 0, near: Near::default(), changes, quiet: false, forgot: false }
    }

    pub(super) async fn run(mut self) {
        let mut fate = self.take_over().await;
        while fate == Fate::Going {
            fate = self.step().await;
            if fate == Fate::Going {
                self.sleep().await;
            }
        }
        if fate == Fate::Lost {
            self.lose();
        }
    }

    async fn step(&mut self) -> Fate {
        if self.host.shutdown.is_stopped() {
            return Fate::Ended;
        }
        let question = self.shard.is_in_question(self.fence.term());
        if question || !self.is_current() {
            let fate = self.refence(Vec::new(), question).await;
            if fate != Fate::Going {
                return fate;
            }
        }
        if self.shard.look.swap(false, Ordering::AcqRel) {
            self.near.look_again();
        }
        for (room, kept) in std::mem::take(&mut *self.shard.given_back.lock()) {
            self.near.give_back(&room, &kept);
        }
        loop {
            let requests = self.shard.pending.lock().take(self.host.config.max_commit);
            // Somebody wants to see a write: an empty commit is one, fenced and numbered like any other.
            let proof = self.shard.prove.swap(false, Ordering::AcqRel);
            if requests.is_empty() && !proof {
                break;
            }
            let fate = self.commit(requests).await;
            if fate != Fate::Going {
                return fate;
            }
        }
        self.refill().await;
        self.hand_out();
        outbox::kick(&self.host, &self.shard);
        self.host.progress.notify_waiters();
        Fate::Going
    }

    /// Whether ownership still has the fence that this writer uses.
    pub(super) fn is_current(&self) -> bool {
        self.host.ownership.fence(self.shard.id).is_some_and(|fence| fence == self.fence)
    }

    /// One batch, until its fate is known.
    async fn commit(&mut self, requests: Requests) -> Fate {
        let command = Command::Commit {
            fence: self.fence.clone(),
            shards: self.host.config.shards,
            number: self.number + 1,
            batch: batch(&requests),
        };
        let completes = requests.iter().any(|(_, request)| !request.completed.is_empty());
        if completes {
            faults::point("work.committing");
        }
        let started = self.host.clock.now();
        let (mut attempt, mut broken) = (0, 0);
        loop {
            if self.host.shutdown.is_stopped() {
                return Fate::Ended;
            }
            let asked = self.host.clock.now();
            let answer = self.host.call(command.clone()).await;
            let took = self.host.clock.now().since(started);
            match answer {
                Ok(Reply::Committed { positions, ignored }) => {
                    if completes {
                        faults::point("work.committed");
                    }
                    names::commit("ok", took);
                    self.number += 1;
                    self.shard.proven.store(asked.0.saturating_add(1), Ordering::Release);
                    self.acknowledge(requests, &positions, &ignored);
                    return Fate::Going;
                }
                Ok(_) => return self.refence(requests, true).await,
                Err(error @ (Error::Conflict(_) | Error::Invalid(_) | Error::Full(_))) => {
                    names::commit("refused", took);
                    return self.refused(requests, &error).await;
                }
                Err(error @ Error::Broken(_)) if broken + 1 >= BROKEN_TRIES => {
                    // A row that cannot be read: it must not keep the rooms of other rows waiting.
                    names::commit("refused", took);
                    return self.refused(requests, &error).await;
                }
                Err(
                    error @ (Error::Fenced { .. }
                    | Error::OutOfOrder { .. }
                    | Error::Held { .. }
                    | Error::Tombstoned(_)),
                ) => {
                    names::commit("fenced", took);
                    self.forgot |= matches!(error, Error::OutOfOrder { last, .. } if last < self.number);
                    tracing::warn!(shard = %self.shard.id, %error, "a commit was refused by its fence");
                    self.host.ownership.fenced(&self.fence);
                    return self.refence(requests, true).await;
                }
                Err(error @ (Error::Unavailable(_) | Error::Broken(_) | Error::Disagreement { .. })) => {
                    // It may have been applied: the same number and the same batch again, as long as the fence stands.
                    names::commit("retried", took);
                    broken = if matches!(error, Error::Broken(_)) { broken + 1 } else { 0 };
                    tracing::debug!(shard = %self.shard.id, %error, attempt, "a commit is tried again");
                    self.host.pause(attempt).await;
                    attempt += 1;
                    if !self.is_current() {
                        return self.refence(requests, true).await;
                    }
                }
            }
        }
    }

    /// A batch was refused for what it says: each room alone, so that only the one at fault is hit.
    async fn refused(&mut self, requests: Requests, error: &Error) -> Fate {
        if requests.len() > 1 {
            for request in requests {
                let fate = Box::pin(self.commit(vec![request])).await;
                if fate != Fate::Going {
                    return fate;
                }
            }
            return Fate::Going;
        }
        for (room, request) in requests {
            if matches!(error, Error::Conflict(_)) {
                self.near.doubt(&request);
            }
            if request.merged == 0 {
                tracing::error!(%room, %error, "the store refused what no room waits for");
                // What it said of items is read again in time.
                self.near.forget(&request);
                outbox::not_kept(&self.host, &self.shard, &room, &request, error);
                continue;
            }
            // What the room did since comes from a world that the store does not have.
            if matches!(error, Error::Full(_)) {
                // Give ledgers and rooms a moment to make room.
                self.host.pause(0).await;
            }
            let merged = request.merged + self.shard.pending.lock().refuse(&room);
            let refused = Event::Refused { error: error.clone(), merged };
            if !self.host.rooms.get(&room).is_some_and(|handle| handle.tell(refused)) {
                self.shard.resume(&room);
            }
        }
        Fate::Going
    }

    /// The requests are durable.
    pub(super) fn acknowledge(&mut self, requests: Requests, positions: &[u64], ignored: &[Ignored]) {
        let rooms = requests.iter().flat_map(|(room, request)| request.grants.iter().map(|_| room.clone()));
        self.shard.outbox.committed(rooms.zip(positions.iter().copied()));
        if requests.iter().any(|(_, request)| !request.again.is_empty()) {
            // Nobody was told where its grants are.
            self.shard.outbox.restart();
        }
        for (room, request) in requests {
            self.near.settle(&room, &request);
            self.shard.outbox.trimmed(&request.trimmed);
            if request.merged == 0 {
                outbox::kept(&self.host, &self.shard, &room, &request);
                continue;
            }
            let durable = Durable {
                version: request.checkpoint.as_ref().map(|checkpoint| checkpoint.version),
                merged: request.merged,
                items: request.ends().cloned().collect(),
                ignored: ignored.iter().filter(|one| one.id.room == room && is_of_game(&one.id)).cloned().collect(),
                trimmed: request.trimmed,
            };
            if let Some(handle) = self.host.rooms.get(&room) {
                handle.tell(Event::Committed(durable));
            }
        }
    }

    /// Keeps the near future at hand. While the store is away commits go first, and what is due soon is known for a while.
    pub(super) async fn refill(&mut self) {
        for _ in 0..PAGES {
            let now = self.host.store_now();
            let Some(after) = self.near.next_page(now) else { return };
            let before = now.plus(WORK_HORIZON);
            match self.host.call(Command::Due { shard: self.shard.id, before, after, limit: ITEMS }).await {
                Ok(Reply::Work(items)) => {
                    let cut = items.len() >= ITEMS;
                    let host = &self.host;
                    self.near.page(items, (now, before), cut, |id| takes(host, id));
                }
                answer => {
                    let error = answer.err().unwrap_or_else(|| Host::unexpected("due"));
                    tracing::debug!(shard = %self.shard.id, %error, "due work could not be read");
                    return self.near.not_read(now);
                }
            }
        }
    }

    /// Gives due items to their rooms, waking those that are not loaded.
    fn hand_out(&mut self) {
        let now = self.host.store_now();
        // Work decides grants: while many of them wait for their ledgers, no more are asked for.
        self.quiet = self.host.stopping.load(Ordering::Acquire)
            || self.shard.is_crowded(|room| is_parked(&self.host, room))
            || !self.host.may_run(&self.shard, self.host.clock.now());
        while !self.quiet
            && let Some(item) = self.near.hand_out(now, WORK_PER_ROOM, |id| takes(&self.host, id))
        {
            self.give(&item, now);
        }
        let overdue = self.near.overdue(now);
        self.shard.overdue.store(overdue as u64, Ordering::Relaxed);
    }

    fn give(&self, item: &WorkItem, now: Wall) {
        let room = item.id.room.clone();
        if &*item.id.job == refused::JOB {
            // No room is needed for it, and its room may be gone.
            self.shard.push(&room, refused::again(item));
            return;
        }
        if &*item.id.job != DISPOSE_JOB {
            names::work(room.kind(), "handed");
            names::work_late(room.kind(), Duration::from_micros(now.0.saturating_sub(item.due.0)));
        }
        loop {
            let Some(handle) = self.host.open(&room, &self.shard) else {
                tracing::warn!(%room, "work is due in a room of a kind that this build does not know");
                return;
            };
            if handle.tell(Event::Work(Box::new(DueWork { item: item.clone(), reward: None }))) {
                return;
            }
            // It has just ended: it is no longer in the directory, or not for long.
            self.host.rooms.remove(&handle);
        }
    }

    async fn sleep(&mut self) {
        let now = self.host.store_now();
        let reading = self.near.next_reading(now);
        let next = self.near.next_due(now).map_or(reading, |due| due.min(reading));
        let wait = Duration::from_micros(next.0.saturating_sub(now.0)).clamp(Duration::from_millis(1), LONGEST_SLEEP);
        // While nothing may be handed out, it looks again now and then: a lease that holds again tells nobody.
        // One that is being given is woken when it stays.
        let wait = if self.quiet && self.shard.giving().is_none() { QUIET_PAUSE } else { wait };
        tokio::select! {
            biased;
            () = self.shard.notify.notified() => {}
            changed = self.changes.changed() => {
                if changed.is_err() {
                    // Ownership has ended: nothing will change any more.
                    self.host.shutdown.stopped().await;
                }
            }
            () = self.host.clock.sleep(wait) => {}
            () = self.host.shutdown.stopped() => {}
        }
    }
}

/// Whether anybody here can take an item: its kind is known and has a handler for it, and its room is not parked. What nobody can take
/// stays in the store, for a build that can.
fn takes(host: &Host, id: &WorkId) -> bool {
    let handled = || host.kinds.get(id.room.kind()).is_some_and(|kind| items::takes(kind, &id.job));
    &*id.job == refused::JOB || (handled() && !is_parked(host, &id.room))
}

fn is_parked(host: &Host, room: &RoomId) -> bool {
    host.rooms.get(room).is_some_and(|handle| handle.stage() == Stage::Parked)
}
