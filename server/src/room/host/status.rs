//! What operators see of the room host, and how it ends.

use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

use serde::Serialize;
use tenure_shared::{RoomId, ShardId, Tick};

use super::{
    RoomHost,
    config::STATUS_ROOMS,
    inbox::{Event, Stage},
};
use crate::runtime::Mono;

/// Time between two looks at what is left to end, beside what rooms and commits tell.
const STOP_LOOK: Duration = Duration::from_millis(50);

/// A snapshot for the admin page and `status`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostStatus {
    /// Loaded rooms.
    pub rooms: usize,
    /// Rooms that may be found, dormant ones too.
    pub known: usize,
    /// Stored rooms that are not loaded.
    pub dormant: usize,
    /// Loaded rooms by stage.
    pub stages: BTreeMap<String, usize>,
    /// Seats taken in loaded rooms.
    pub seats: u64,
    /// Shards that this node serves, and how many of them are taken over.
    pub shards: (usize, usize),
    /// Grants not yet in a ledger, or not yet told to their room.
    pub outbox: usize,
    /// Due items that no room has taken yet.
    pub overdue: u64,
    /// Ticks that did not return in time, so far.
    pub stalls: u64,
    /// Loaded rooms by id, parked ones first, at most 200.
    pub list: Vec<RoomStatus>,
}

/// One loaded room.
#[derive(Clone, Debug, Serialize)]
pub struct RoomStatus {
    /// Which.
    pub room: RoomId,
    /// What it is doing.
    pub stage: Stage,
    /// Seats taken.
    pub seats: u32,
    /// Seats with a socket.
    pub connected: u32,
    /// Most seats.
    pub max_seats: u32,
    /// Its last tick.
    pub tick: Tick,
    /// Ticks per second that it should make.
    pub tick_rate: u32,
    /// Ticks that ran late in a catch-up.
    pub ticks_late: u64,
    /// Ticks given up.
    pub ticks_dropped: u64,
    /// Why it is parked.
    pub reason: Option<String>,
}

/// What an end left behind. Nothing here is lost in the sense of the store: it is what the store does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopReport {
    /// Rooms whose last state could not be stored in time.
    pub unsaved: Vec<RoomId>,
    /// Grants that wait in the outbox for the next start.
    pub outbox: usize,
    /// Whether commits were still on their way.
    pub pending: bool,
}

impl StopReport {
    /// Whether everything is in the store.
    pub fn is_clean(&self) -> bool {
        self.unsaved.is_empty() && !self.pending
    }
}

impl RoomHost {
    /// A snapshot; takes each lock for a moment.
    pub fn status(&self) -> HostStatus {
        let host = &self.host;
        let mut status = HostStatus { stalls: host.stalls.load(Ordering::Relaxed), ..HostStatus::default() };
        {
            let finder = host.finder.lock();
            (status.known, status.dormant) = (finder.len(), finder.dormant());
        }
        for handle in host.rooms.all() {
            let stage = handle.stage();
            *status.stages.entry(stage.as_str().to_owned()).or_default() += 1;
            let seats = handle.seats.load(Ordering::Relaxed);
            status.rooms += 1;
            status.seats += u64::from(seats);
            let kind = host.kinds.get(handle.room.kind());
            status.list.push(RoomStatus {
                room: handle.room.clone(),
                stage,
                seats,
                connected: handle.connected.load(Ordering::Relaxed),
                max_seats: kind.map_or(0, |kind| kind.max_seats()),
                tick: Tick(handle.tick.load(Ordering::Relaxed)),
                tick_rate: kind.map_or(0, |kind| kind.tick_rate()),
                ticks_late: handle.ticks_late.load(Ordering::Relaxed),
                ticks_dropped: handle.ticks_dropped.load(Ordering::Relaxed),
                reason: handle.reason.lock().clone(),
            });
        }
        status.list.sort_by_key(|room| room.stage != Stage::Parked);
        status.list.truncate(STATUS_ROOMS);
        status.shards = self.shards();
        for shard in host.shards.iter().filter_map(|slot| slot.read().clone()) {
            status.outbox += shard.outbox_depth();
            status.overdue += shard.overdue();
        }
        status
    }

    /// Shards that this node serves, and how many of them are taken over.
    pub fn shards(&self) -> (usize, usize) {
        let shards = self.host.shards.iter().filter_map(|slot| slot.read().clone());
        shards.fold((0, 0), |(serves, ready), shard| (serves + 1, ready + usize::from(shard.is_ready())))
    }

    /// Makes a parked room run again, from its last checkpoint and with a new budget of restarts: whether it was parked here.
    pub fn unpark(&self, room: &RoomId) -> bool {
        let handle = self.host.rooms.get(room).filter(|handle| handle.stage() == Stage::Parked);
        handle.is_some_and(|handle| handle.tell(Event::Unpark))
    }

    /// Items that are overdue, and grants that wait in the outboxes.
    pub fn backlog(&self) -> (u64, usize) {
        let shards = self.host.shards.iter().filter_map(|slot| slot.read().clone());
        shards.fold((0, 0), |(overdue, outbox), shard| (overdue + shard.overdue(), outbox + shard.outbox_depth()))
    }

    /// Resolves when every shard that this node owns is taken over: its rooms can be reached. Cancel-safe.
    pub async fn ready(&self) {
        loop {
            let changed = self.host.shards_changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let ready = |id: &ShardId| self.host.held(*id).is_some_and(|shard| shard.is_ready());
            if self.host.ownership.shards().iter().all(ready) {
                return;
            }
            changed.await;
        }
    }

    /// Ends the host: no new rooms, every room is saved, grants are flushed as far as time allows (C53). Nothing is written after
    /// it returns.
    pub async fn stop(&self, deadline: Mono) -> StopReport {
        let host = &self.host;
        host.stopping.store(true, Ordering::Release);
        let late = host.clock.sleep_until(deadline);
        tokio::pin!(late);
        loop {
            let progress = host.progress.notified();
            tokio::pin!(progress);
            progress.as_mut().enable();
            let rooms = host.rooms.all();
            let shards: Vec<_> = host.shards.iter().filter_map(|slot| slot.read().clone()).collect();
            if rooms.is_empty() && shards.iter().all(|shard| shard.is_flushed()) {
                break;
            }
            for handle in &rooms {
                handle.stop();
            }
            tokio::select! {
                biased;
                () = progress => {}
                // A shard that was being given away when the end began goes without a word.
                () = host.clock.sleep(STOP_LOOK) => {}
                () = &mut late => break,
            }
        }
        let unsaved: Vec<_> = host.rooms.all().iter().map(|handle| handle.room.clone()).collect();
        let shards = host.shards.iter().filter_map(|slot| slot.read().clone());
        let (mut outbox, mut pending) = (0, false);
        for shard in shards {
            outbox += shard.outbox_depth();
            pending |= !shard.is_flushed();
        }
        if !unsaved.is_empty() {
            tracing::error!(rooms = unsaved.len(), first = %unsaved[0], "rooms could not be saved before the end");
        }
        tracing::info!(saved = host.saved(), unsaved = unsaved.len(), outbox, "the room host has ended");
        self.end();
        StopReport { unsaved, outbox, pending }
    }
}

impl super::inbox::RoomHandle {
    /// Tells it to save and end, once.
    fn stop(&self) {
        if !self.told_to_stop.swap(true, Ordering::AcqRel) {
            self.tell(Event::Stop);
        }
    }
}
