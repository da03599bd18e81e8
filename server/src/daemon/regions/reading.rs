//! A coordinator reads the store: all of it before it answers anybody, then a page now and then, on a task beside its handlers; and it
//! sweeps its slice of the shards for overdue work.
//!
//! A sweep never does the work itself, or it would be a second writer: it tells the owner to look.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tenure_shared::{RoomId, ShardId};

use super::{super::Context, book::Book};
use crate::{
    daemon::Daemons,
    ownership::Ownership,
    runtime::{Clock, Mono, Shutdown, Tasks, Wall, tasks::Kind},
    store::{Error, RoomSummary, Store},
};

/// Between two sweeps.
const SWEEP: Duration = Duration::from_secs(10);
/// What has been due for so long should have been done: its owner does not know of it.
const LATE: Duration = Duration::from_secs(10);
/// Between two shards whose rooms are read.
const SHARD_EVERY: Duration = Duration::from_millis(50);
/// Rooms of one page of the store.
const PAGE: usize = 200;
/// Before a call that the store did not answer is made again.
const AGAIN: Duration = Duration::from_millis(200);

/// What the last sweep found.
#[derive(Clone, Debug, Default)]
pub(super) struct Swept {
    /// When, by the store's clock.
    pub(super) at: Wall,
    /// Shards looked at.
    pub(super) shards: u32,
    /// Those with late work.
    pub(super) late: Vec<ShardId>,
}

/// Reads for one coordinator.
pub(super) struct Reader {
    region: Arc<str>,
    slice: (u32, u32),
    store: Store,
    ownership: Ownership,
    daemons: Daemons,
    clock: Clock,
    book: Arc<Mutex<Book>>,
    swept: Arc<Mutex<Swept>>,
}

/// The reading beside the handlers; dropped, it ends.
#[derive(Debug)]
pub(super) struct Reading {
    tasks: Tasks,
    region: Arc<str>,
}

impl Reading {
    /// Whether it ended, which it does not by itself.
    pub(super) fn is_over(&self) -> bool {
        self.tasks.running() == 0
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.tasks.shutdown().stop();
        // Of one that is gone nothing is shown here: it runs elsewhere, and would count twice.
        show(&self.region, (0, 0));
    }
}

fn show(region: &str, (rooms, tickets): (usize, usize)) {
    metrics::gauge!("tenure_match_rooms", "region" => region.to_owned()).set(rooms as f64);
    metrics::gauge!("tenure_match_tickets", "region" => region.to_owned()).set(tickets as f64);
}

impl Reader {
    pub(super) fn new(
        ctx: &Context,
        region: &Arc<str>,
        slice: (u32, u32),
        book: Arc<Mutex<Book>>,
        swept: Arc<Mutex<Swept>>,
    ) -> Self {
        Self {
            region: region.clone(),
            slice,
            store: ctx.store().clone(),
            ownership: ctx.ownership().clone(),
            daemons: ctx.daemons().clone(),
            clock: ctx.clock().clone(),
            book,
            swept,
        }
    }

    /// Reads the rooms of all shards, once, however often the store must be asked.
    pub(super) async fn read_all(&self, ctx: &Context) -> Result<(), Error> {
        for shard in (0..self.ownership.shards_in_all()).map(ShardId) {
            while let Err(error) = self.read(shard).await {
                self.bear(error)?;
                ctx.progress();
                self.clock.sleep(AGAIN).await;
            }
            ctx.progress();
        }
        Ok(())
    }

    /// Goes on with it on a task, which ends with what is given back.
    pub(super) fn go_on(self) -> Reading {
        let tasks = Tasks::new(Shutdown::new());
        let (stop, region) = (tasks.shutdown().clone(), self.region.clone());
        tasks.spawn("region reading", Kind::Job, async move {
            tokio::select! {
                biased;
                () = stop.stopped() => {}
                error = self.run() => tracing::error!(region = &*self.region, %error, "a coordinator cannot read the store"),
            }
        });
        Reading { tasks, region }
    }

    async fn run(&self) -> Error {
        let mut sweep_at = self.clock.now().plus(SWEEP);
        loop {
            for shard in (0..self.ownership.shards_in_all()).map(ShardId) {
                self.clock.sleep(SHARD_EVERY).await;
                if let Err(error) = self.read(shard).await.or_else(|error| self.bear(error)) {
                    return error;
                }
                if self.clock.now() >= sweep_at {
                    sweep_at = self.clock.now().plus(SWEEP);
                    if let Err(error) = self.sweep().await.or_else(|error| self.bear(error)) {
                        return error;
                    }
                }
            }
        }
    }

    /// What passes by itself is only told.
    fn bear(&self, error: Error) -> Result<(), Error> {
        if !error.may_retry() {
            return Err(error);
        }
        tracing::debug!(region = &*self.region, %error, "a coordinator could not read");
        Ok(())
    }

    /// Reads the rooms of one shard.
    async fn read(&self, shard: ShardId) -> Result<(), Error> {
        let began: Mono = self.clock.now();
        let (mut found, mut after): (Vec<RoomSummary>, Option<RoomId>) = (Vec::new(), None);
        loop {
            let page = self.store.rooms(shard, after, PAGE).await?;
            after = (page.len() >= PAGE).then(|| page.last().map(|room| room.room.clone())).flatten();
            found.extend(page.into_iter().filter(|room| room.room.region() == &*self.region));
            if after.is_none() || found.len() > super::LISTED {
                break;
            }
        }
        let all = self.ownership.shards_in_all();
        let mut book = self.book.lock();
        book.read(|room| room.shard(all) == shard, began, found);
        show(&self.region, book.size());
        Ok(())
    }

    /// Looks for work of its slice that has been due for too long, and wakes whoever owns it.
    async fn sweep(&self) -> Result<(), Error> {
        let now = self.store.now();
        let before = Wall(now.0.saturating_sub(u64::try_from(LATE.as_micros()).unwrap_or(u64::MAX)));
        let (own, all) = self.slice;
        let (mut shards, mut late) = (0, Vec::new());
        for shard in (0..self.ownership.shards_in_all()).filter(|shard| shard % all == own).map(ShardId) {
            shards += 1;
            if !self.store.due(shard, before, None, 1).await?.is_empty() {
                late.push(shard);
                self.daemons.wake(shard);
            }
        }
        metrics::counter!("tenure_sweep_woken_total").increment(late.len() as u64);
        *self.swept.lock() = Swept { at: now, shards, late };
        Ok(())
    }
}
