//! Region coordinators, the stock daemons: one for each of `daemons.regions`. Each sweeps its slice of the shards for overdue work and wakes
//! their owners, and keeps the list of its region's rooms.
//!
//! A sweep never does the work itself, or it would be a second writer: it tells the owner to look. Both lists are read from the store
//! again and again, so a coordinator that moves has nothing to take along.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use tenure_shared::{RoomId, ShardId};

use super::{Context, Daemon, Fault, Singleton};
use crate::{
    runtime::Wall,
    store::{Error, RoomSummary},
};

/// Between two sweeps.
const SWEEP: Duration = Duration::from_secs(10);
/// What has been due for so long should have been done: its owner does not know of it.
const LATE: Duration = Duration::from_secs(10);
/// Between two pages of the list of rooms.
const PAGE_EVERY: Duration = Duration::from_millis(50);
/// Rooms of one page of the store.
const PAGE: usize = 200;
/// Most rooms of a region that are listed.
pub const LISTED: usize = 20_000;
/// Most rooms of one answer.
pub const ANSWERED: usize = 50;

/// What a coordinator is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum RegionQuestion {
    /// Its rooms that are not private, in the order of their ids.
    Rooms {
        /// Of this kind only.
        kind: Option<String>,
        /// Those that can be joined only: not locked, with a free seat.
        open: bool,
        /// Behind this one, from an earlier answer.
        after: Option<RoomId>,
        /// At most so many, and at most [`ANSWERED`].
        limit: usize,
    },
    /// What the last sweep of its slice found.
    Sweep,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegionAnswer {
    /// Rooms as their last checkpoints say; `whole`: every shard was read since the coordinator started here.
    Rooms {
        /// The rooms.
        rooms: Vec<RoomSummary>,
        /// Whether none is missing for want of a reading.
        whole: bool,
    },
    /// The last sweep.
    Sweep {
        /// When, by the store's clock; [`Wall`] 0: not yet.
        at: Wall,
        /// Shards looked at.
        shards: u32,
        /// Those with late work, whose owners were woken.
        late: Vec<ShardId>,
    },
}

/// The coordinator of one region.
#[derive(Debug)]
pub struct Region {
    region: String,
    /// Its place among the regions, and how many there are: whose shards it sweeps.
    slice: (u32, u32),
    rooms: BTreeMap<RoomId, RoomSummary>,
    /// Where the reading is, and what it found in this shard so far.
    place: (u32, Option<RoomId>),
    found: Vec<RoomSummary>,
    whole: bool,
    swept: (Wall, u32, Vec<ShardId>),
}

/// The name of a region's coordinator.
pub fn region_daemon(region: &str) -> String {
    format!("region-{region}")
}

/// The coordinators of these regions.
pub fn coordinators(regions: &[String]) -> Vec<Singleton> {
    let count = u32::try_from(regions.len()).unwrap_or(u32::MAX);
    let one = |(place, region): (u32, &String)| {
        let region = region.clone();
        Singleton::new(&region_daemon(&region), move || Region {
            region: region.clone(),
            slice: (place, count),
            rooms: BTreeMap::new(),
            place: (0, None),
            found: Vec::new(),
            whole: false,
            swept: (Wall(0), 0, Vec::new()),
        })
    };
    (0..count).zip(regions).map(one).collect()
}

impl Region {
    /// Looks for work of its slice that has been due for too long, and wakes whoever owns it.
    async fn sweep(&mut self, ctx: &Context) -> Result<(), Error> {
        let now = ctx.wall();
        let before = Wall(now.0.saturating_sub(u64::try_from(LATE.as_micros()).unwrap_or(u64::MAX)));
        let (own, all) = self.slice;
        let (mut shards, mut late) = (0, Vec::new());
        for shard in (0..ctx.ownership().shards_in_all()).filter(|shard| shard % all == own).map(ShardId) {
            shards += 1;
            if !ctx.store().due(shard, before, None, 1).await?.is_empty() {
                late.push(shard);
                ctx.daemons().wake(shard);
            }
            ctx.progress();
        }
        metrics::counter!("tenure_sweep_woken_total").increment(late.len() as u64);
        self.swept = (now, shards, late);
        Ok(())
    }

    /// Reads the next page of the rooms of all shards.
    async fn read(&mut self, ctx: &Context) -> Result<(), Error> {
        let (shard, after) = self.place.clone();
        let page = ctx.store().rooms(ShardId(shard), after, PAGE).await?;
        let last = (page.len() >= PAGE).then(|| page.last().map(|room| room.room.clone())).flatten();
        self.found.extend(page.into_iter().filter(|room| room.room.region() == self.region && !room.private));
        if last.is_some() {
            self.place.1 = last;
            return Ok(());
        }
        // The shard is read: what was known of it is replaced, and what is no more is gone.
        let all = ctx.ownership().shards_in_all();
        self.rooms.retain(|room, _| room.shard(all) != ShardId(shard));
        for room in self.found.drain(..) {
            if self.rooms.len() < LISTED {
                self.rooms.insert(room.room.clone(), room);
            }
        }
        self.place = ((shard + 1) % all.max(1), None);
        self.whole |= self.place.0 == 0;
        Ok(())
    }

    fn list(&self, kind: Option<&str>, open: bool, after: Option<RoomId>, limit: usize) -> RegionAnswer {
        use std::ops::Bound;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let fits = |room: &&RoomSummary| {
            let free = !room.locked && room.seats < room.max_seats;
            kind.is_none_or(|kind| room.room.kind() == kind) && (free || !open)
        };
        let rooms = self.rooms.range((from, Bound::Unbounded)).map(|(_, room)| room).filter(fits);
        RegionAnswer::Rooms { rooms: rooms.take(limit.min(ANSWERED)).cloned().collect(), whole: self.whole }
    }
}

impl Daemon for Region {
    type Message = RegionQuestion;
    type Answer = RegionAnswer;

    async fn start(&mut self, ctx: &mut Context) -> Result<(), Fault> {
        ctx.every("sweep", SWEEP);
        ctx.every("read", PAGE_EVERY);
        Ok(())
    }

    async fn on_message(&mut self, _ctx: &mut Context, question: RegionQuestion) -> Result<RegionAnswer, Fault> {
        Ok(match question {
            RegionQuestion::Rooms { kind, open, after, limit } => self.list(kind.as_deref(), open, after, limit),
            RegionQuestion::Sweep => {
                let (at, shards, late) = self.swept.clone();
                RegionAnswer::Sweep { at, shards, late }
            }
        })
    }

    async fn on_timer(&mut self, ctx: &mut Context, timer: &str) -> Result<(), Fault> {
        let done = if timer == "sweep" { self.sweep(ctx).await } else { self.read(ctx).await };
        match done {
            // The store is away for a moment: the next timer tries again.
            Err(error) if error.may_retry() => {
                tracing::debug!(region = self.region, %error, "a coordinator could not read");
                Ok(())
            }
            done => Ok(done?),
        }
    }
}
