//! Reports on due work: list it, list what was done, try parked items again.

use serde::{Deserialize, Serialize};
use tenure_shared::{RoomId, ShardId, Term};

use crate::{
    runtime::Wall,
    store::{CompletedWork, Error, Fence, Store, WorkId, WorkItem},
};

/// Items asked for at a time.
const PAGE: usize = 500;
/// Items in one report; more are counted, not listed.
const LISTED: usize = 5_000;
/// Completed items asked for per shard: as many as the store's log keeps.
const DONE: usize = 1_000;

/// A report could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// The store's own error.
    #[error(transparent)]
    Store(#[from] Error),
    /// This node does not hold the shard.
    #[error("this node does not hold shard {0}")]
    NotHere(ShardId),
}

/// A work item for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkLine {
    /// Its room.
    pub room: String,
    /// Its job, or `schedule/<id>`.
    pub job: String,
    /// Its key.
    pub key: String,
    /// Not before this.
    pub due: Wall,
    /// Failures so far.
    pub attempt: u32,
    /// Why it is no longer tried.
    pub parked: Option<String>,
}

/// Work items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkReport {
    /// The items, by shard.
    pub items: Vec<WorkLine>,
    /// How many there are that are not listed.
    pub more: u64,
}

/// A work item that was completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoneLine {
    /// Its room.
    pub room: String,
    /// Its job, or `schedule/<id>`.
    pub job: String,
    /// Its key; of a schedule the instant at which it was due, microseconds since 1970.
    pub key: String,
    /// Under which term.
    pub term: Term,
    /// When, by the store's clock.
    pub at: Wall,
}

/// Completed work, as far back as the store's log goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoneReport {
    /// Oldest first.
    pub items: Vec<DoneLine>,
    /// Shards of whose log the oldest lines are gone: of these there was more.
    pub cut: u32,
}

impl From<CompletedWork> for DoneLine {
    fn from(done: CompletedWork) -> Self {
        let WorkId { room, job, key } = done.id;
        let (job, key) = (job.to_string(), key.to_string());
        Self { room: room.to_string(), job, key, term: done.term, at: done.at }
    }
}

impl From<&WorkItem> for WorkLine {
    fn from(item: &WorkItem) -> Self {
        Self {
            room: item.id.room.to_string(),
            job: item.id.job.to_string(),
            key: item.id.key.to_string(),
            due: item.due,
            attempt: item.attempt,
            parked: item.parked.clone(),
        }
    }
}

/// Lists pending work of all shards, or parked items alone.
///
/// # Errors
/// The store's.
pub async fn list_work(store: &Store, shards: u32, parked_only: bool) -> Result<WorkReport, ReportError> {
    let mut report = WorkReport::default();
    for shard in (0..shards).map(ShardId) {
        let mut after: Option<WorkId> = None;
        loop {
            let items = store.work(shard, after.take(), PAGE).await?;
            for item in items.iter().filter(|item| !parked_only || item.parked.is_some()) {
                if report.items.len() < LISTED {
                    report.items.push(item.into());
                } else {
                    report.more += 1;
                }
            }
            if items.len() < PAGE {
                break;
            }
            after = items.last().map(|item| item.id.clone());
        }
    }
    Ok(report)
}

/// Lists completed work: of one room or of all, of one job or of all.
///
/// # Errors
/// The store's.
pub async fn list_done(
    store: &Store,
    shards: u32,
    room: Option<&RoomId>,
    job: Option<&str>,
) -> Result<DoneReport, ReportError> {
    let mut report = DoneReport::default();
    for shard in (0..shards).map(ShardId).filter(|shard| room.is_none_or(|room| room.shard(shards) == *shard)) {
        let all = store.completed(shard, DONE).await?;
        report.cut += u32::from(all.len() >= DONE);
        let wanted = |done: &CompletedWork| {
            room.is_none_or(|room| done.id.room == *room) && job.is_none_or(|job| &*done.id.job == job)
        };
        report.items.extend(all.into_iter().filter(wanted).map(DoneLine::from));
    }
    report.items.sort_by_key(|line| line.at);
    Ok(report)
}

/// Makes a parked item due now. Only the owner of its shard may.
///
/// # Errors
/// The store's; [`ReportError::NotHere`] without a fence.
pub async fn retry_work(store: &Store, shard: ShardId, fence: Option<Fence>, id: &WorkId) -> Result<(), ReportError> {
    let fence = fence.ok_or(ReportError::NotHere(shard))?;
    Ok(store.retry(&fence, id).await?)
}
