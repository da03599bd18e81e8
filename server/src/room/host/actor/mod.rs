//! One loaded room: its stages from load to unload. It runs on a room thread and never waits; all I/O is done by tasks whose
//! answers come back as events.
//!
//! ```text
//! Loading ──► Creating ──► Running ⇄ Frozen
//!    │  (first checkpoint)  │  ▲ │
//!    │                      │  │ └─► Restoring ──► Parked
//!    └─► gone ◄── Saving ◄──┘  └──── (a wish or work calls the save off)
//! ```

mod due;
mod effects;
mod ending;
mod failing;
mod follow;
mod loaded;
mod mail;
mod opening;
mod ticking;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use tenure_shared::PlayerId;

use self::mail::Mail;
pub(super) use self::{
    failing::text,
    opening::{DISPOSE_JOB, RETRY_AFTER},
};
use super::{
    attaching,
    complaints::Complaints,
    config::STOP_GRANTS,
    core::Host,
    executor::{Activity, Next},
    inbox::{Event, RoomHandle, Saved, Stage, Wish},
    items::Items,
    lately::Lately,
    loading::Loaded,
    names::TickMeters,
    pacing::Pacer,
    prepared::PreparedRoom,
    schedules::Occurrences,
    shard::Shard,
};
use crate::{
    link::{ConnId, GatewayId, Input, ToGateway},
    plugin::{RoomKind, TaskResult},
    room::world::{Attachment, DueWork, GrantResult, MissedGrants, Reached, RoomWorld},
    runtime::{Mono, Shutdown, Wall},
    store::{GrantId, WorkId, WorkItem},
    timers::RewardBook,
};

/// What the room is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing was read yet.
    Opening,
    /// The store is asked.
    Loading,
    /// The first checkpoint is on its way; answers to the first attaches wait for it.
    Creating,
    /// It ticks.
    Running,
    /// The last checkpoint before the unload is on its way.
    Saving,
    /// The deletion is on its way.
    Deleting,
    /// A fault: waits for its commits, then reads its last checkpoint.
    Restoring,
    /// Failed too often.
    Parked,
    /// Ended.
    Gone,
}

/// A room on its thread.
pub(super) struct Actor {
    host: Arc<Host>,
    handle: Arc<RoomHandle>,
    shard: Arc<Shard>,
    kind: Arc<RoomKind>,
    phase: Phase,
    world: Option<RoomWorld>,
    pacer: Pacer,
    next_checkpoint: Mono,
    frozen: bool,
    // It goes on where another node left it, and has not ticked yet.
    came: bool,
    stopping: bool,
    stop_by: Mono,
    // Requests on their way, and whether one of them is a periodic checkpoint.
    unacked: usize,
    saving: bool,
    // Answers that wait for the first checkpoint.
    withheld: Vec<(GatewayId, ToGateway)>,
    // Sockets among them that are to have the room only if it is new.
    creators: BTreeSet<(GatewayId, ConnId)>,
    mail: Mail,
    meters: TickMeters,
    // How many gateways had gone when it looked last whether one of its seats' had.
    gateways_gone: u64,
    // Empty between ticks.
    inputs: Vec<(GatewayId, Input)>,
    // Items in this room's hands, from the hand-over until their commit is acknowledged.
    work: BTreeMap<WorkId, WorkItem>,
    due: VecDeque<DueWork>,
    // Items taken back by requests on their way.
    cancelling: BTreeSet<WorkId>,
    // The schedules that the room goes by, and when it follows newer ones.
    book: Arc<RewardBook>,
    follow_at: Option<Mono>,
    // Its checkpoints come near to the largest that can be stored, and that was said.
    large: bool,
    occurrences: Occurrences,
    items: Items,
    complaints: Complaints,
    // Occurrences taken back for an unload that may be called off yet.
    left: Vec<WorkId>,
    dispose_items: BTreeSet<WorkId>,
    // When it is to be deleted, unless somebody comes.
    dispose_due: Option<Wall>,
    // Ledger answers until the commit that carries their delivery is acknowledged.
    results: BTreeMap<GrantId, (u64, GrantResult)>,
    fresh: Vec<GrantResult>,
    grants_out: usize,
    // What the store acknowledged lately, and whether it is known to have forgotten some of it.
    lately: Lately,
    forgotten: bool,
    // Somebody was there since it was dormant.
    visited: bool,
    // The answer to its load, while its shard is being given away.
    unread: Option<Result<Loaded, crate::store::Error>>,
    // The game wants the room to end: it does when what it charges and grants is told.
    ending: bool,
    balances: Vec<(PlayerId, Vec<(String, i64)>)>,
    balances_wanted: VecDeque<PlayerId>,
    missed: Vec<MissedGrants>,
    /// The book before this one: what it began is finished by it.
    former: Option<Arc<RewardBook>>,
    /// Occurrences of which a page is paid and another is to come, and where it begins. Bounded by the occurrences that are pending.
    paged: BTreeMap<WorkId, bytes::Bytes>,
    missed_wanted: VecDeque<(PlayerId, Wall)>,
    balances_asked: bool,
    // Tasks of an older epoch belong to a world that is gone.
    tasks: Shutdown,
    task_epoch: u64,
    tasks_out: usize,
    task_results: Vec<(u64, TaskResult)>,
    // Of faults.
    faults: VecDeque<Mono>,
    members: Vec<Attachment>,
    suspects: Vec<WorkItem>,
    running_work: Vec<WorkItem>,
    fault: String,
    // The checkpoint that the store has, or will have when nothing is on its way; and when the last tick was due.
    saved: Option<Saved>,
    ticked: Mono,
    /// What it begins with, if that is ready.
    pub(super) prepared: Option<Box<PreparedRoom>>,
    // How far the last world got: what is restored in its place goes on above.
    reached: Reached,
}

impl Actor {
    pub(super) fn new(host: Arc<Host>, handle: Arc<RoomHandle>, shard: Arc<Shard>, kind: Arc<RoomKind>) -> Self {
        let now = host.clock.now();
        let hash = xxhash_rust::xxh3::xxh3_64(handle.room.as_str().as_bytes());
        let period = std::time::Duration::from_secs(1) / kind.tick_rate().max(1);
        let pacer = Pacer::new(period, host.config.catch_up_ticks, hash, now);
        let tasks = host.shutdown.child();
        let meters = TickMeters::of(kind.name());
        let mail = Mail::new(shard.clone());
        let book = host.book.current();
        Self {
            host,
            handle,
            shard,
            kind,
            phase: Phase::Opening,
            world: None,
            pacer,
            next_checkpoint: now,
            frozen: false,
            came: false,
            stopping: false,
            stop_by: now,
            unacked: 0,
            saving: false,
            withheld: Vec::new(),
            creators: BTreeSet::new(),
            mail,
            gateways_gone: 0,
            meters,
            inputs: Vec::new(),
            work: BTreeMap::new(),
            due: VecDeque::new(),
            cancelling: BTreeSet::new(),
            book,
            follow_at: None,
            large: false,
            occurrences: Occurrences::default(),
            items: Items::default(),
            complaints: Complaints::default(),
            left: Vec::new(),
            dispose_items: BTreeSet::new(),
            dispose_due: None,
            results: BTreeMap::new(),
            fresh: Vec::new(),
            grants_out: 0,
            lately: Lately::default(),
            forgotten: false,
            visited: true,
            unread: None,
            ending: false,
            balances: Vec::new(),
            balances_wanted: VecDeque::new(),
            missed: Vec::new(),
            former: None,
            paged: BTreeMap::new(),
            missed_wanted: VecDeque::new(),
            balances_asked: false,
            tasks,
            task_epoch: 0,
            tasks_out: 0,
            task_results: Vec::new(),
            faults: VecDeque::new(),
            members: Vec::new(),
            suspects: Vec::new(),
            running_work: Vec::new(),
            fault: String::new(),
            saved: None,
            ticked: now,
            prepared: None,
            reached: Reached::default(),
        }
    }

    fn on_event(&mut self, event: Event, now: Mono) {
        match event {
            Event::Loaded(loaded) => self.unread = Some(loaded),
            Event::Committed(durable) => self.on_committed(&durable, now),
            Event::Refused { error, merged } => self.on_refused(&error, merged, now),
            Event::Work(work) => self.on_work(*work),
            Event::Granted(position, result) => self.on_granted(position, *result),
            Event::Ledgers(balances, missed) => {
                self.balances_asked = false;
                self.balances.extend(balances);
                self.missed.extend(missed);
                self.ask_balances();
            }
            Event::Task { epoch, id, result } => {
                if epoch == self.task_epoch {
                    self.tasks_out = self.tasks_out.saturating_sub(1);
                    self.task_results.push((id, result));
                }
            }
            Event::Continued { forgot } => self.continued(forgot, now),
            Event::Lost => self.lost(),
            Event::Stop => {
                self.stopping = true;
                self.stop_by = now.plus(STOP_GRANTS);
            }
            Event::Unpark => self.unpark(),
        }
    }

    fn on_work(&mut self, mut work: DueWork) {
        if self.phase == Phase::Parked {
            // On its way when the room was parked.
            return self.shard.give_back(&self.handle.room, &[]);
        }
        if self.cancelling.contains(&work.item.id) {
            // The commit that takes it back is still on its way.
            return;
        }
        if self.lately.did(&work.item.id) {
            self.forgotten = true;
            return;
        }
        if let Some(page) = self.paged.get(&work.item.id) {
            work.item.payload = page.clone();
        }
        // Handed over again after a fault: it is in hand already.
        if self.work.insert(work.item.id.clone(), work.item.clone()).is_none() {
            work.reward = self.reward_of(&work.item.id);
            self.due.push_back(work);
        }
    }

    fn on_granted(&mut self, position: u64, result: GrantResult) {
        let answered = self.results.get(&result.grant.id).is_some_and(|(other, _)| *other != position);
        if answered || self.lately.was_told(&result.grant.id) {
            // It was said again to a store that had it, or the store forgot that it was told.
            return self.shard.trim(&self.handle.room, position);
        }
        if self.results.insert(result.grant.id.clone(), (position, result.clone())).is_none() {
            self.fresh.push(result);
        }
    }

    fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
        self.handle.set_stage(match phase {
            Phase::Opening | Phase::Loading | Phase::Creating => Stage::Loading,
            Phase::Running if self.frozen => Stage::Frozen,
            Phase::Running => Stage::Running,
            Phase::Saving | Phase::Deleting | Phase::Gone => Stage::Saving,
            Phase::Restoring => Stage::Restoring,
            Phase::Parked => Stage::Parked,
        });
    }

    /// Ends the room if nobody waits for it; with `force` whoever waits looks it up again.
    fn end(&mut self, force: bool) -> bool {
        if !self.handle.close(force) {
            return false;
        }
        self.tasks.stop();
        self.drop_world();
        if force {
            // What came too late goes back to nobody: gateways are told to try again, or that the shard is not here.
            for wish in self.handle.take_wishes(false) {
                match wish {
                    Wish::Attach(attach) if self.shard.is_lost() => attaching::not_owner(&self.host, &attach),
                    Wish::Attach(attach) => self.refuse_retry(&attach),
                    Wish::Detach { .. } | Wish::Resync { .. } => {}
                }
            }
        }
        self.set_phase(Phase::Gone);
        self.host.rooms.remove(&self.handle);
        if self.handle.has_events() || !self.work.is_empty() || !self.results.is_empty() {
            // Work and ledger answers that it has not looked at, or whose commit it gave up, are for its next life.
            self.shard.give_back(&self.handle.room, &[]);
            self.shard.read_outbox_again();
        }
        self.host.progress.notify_waiters();
        true
    }
}

impl Activity for Actor {
    fn run(&mut self, now: Mono) -> Next {
        if self.shard.is_lost() && self.phase != Phase::Gone {
            // Also a room that was opened while its shard went: nobody else tells it.
            self.lost();
        }
        loop {
            while self.phase != Phase::Gone
                && let Some(event) = self.handle.next_event()
            {
                self.on_event(event, now);
            }
            if std::mem::take(&mut self.forgotten) {
                tracing::warn!(room = %self.handle.room, "the store handed out work that it had acknowledged as done: it is told again");
                self.continued(true, now);
            }
            self.take_loaded(now);
            match self.phase {
                Phase::Opening => self.open(now),
                Phase::Running => self.run_ticks(now),
                Phase::Parked => self.refuse_wishes(),
                _ => {}
            }
            if self.stopping {
                self.stop(now);
            }
            // While it was running, events woke nobody: one that came meanwhile must not wait for a tick that does not come.
            if matches!(self.phase, Phase::Running | Phase::Gone) || !self.handle.has_events() {
                break;
            }
        }
        self.mail.flush(&self.host);
        self.tell_still();
        match self.phase {
            Phase::Gone => Next::Done,
            // Whoever gives its shard away wakes it; only a gateway that was full is to be asked again.
            Phase::Running if self.frozen && self.shard.giving().is_some() && self.mail.is_idle() => Next::Wait,
            Phase::Running => Next::At(self.pacer.next()),
            _ => Next::Wait,
        }
    }
}
