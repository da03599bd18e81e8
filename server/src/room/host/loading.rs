//! Reads what the store has of a room: its checkpoint and its pending items.

use std::{sync::Arc, time::Duration};

use tenure_shared::RoomId;

use super::{
    config::{LONGEST_BACKOFF, backoff},
    core::Host,
    inbox::{Event, RoomHandle},
};
use crate::{
    runtime::{Wall, tasks::Kind},
    store::{Checkpoint, Command, Error, Reply, WorkItem},
};

/// Attempts before those who wait are told to come back later.
const ATTEMPTS: u32 = 8;
/// First pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// Items read at a time.
const PAGE: usize = 500;
/// Most items of one room that are looked at (the store keeps no more of a room).
const ITEMS: usize = 10_000;

/// What the store has of a room.
#[derive(Debug)]
pub(super) struct Loaded {
    /// Its state; `None`: there is no such room.
    pub(super) checkpoint: Option<Checkpoint>,
    /// Its pending and parked items.
    pub(super) items: Vec<WorkItem>,
    /// The store's time.
    pub(super) at: Wall,
}

/// Reads in the background; the answer comes as [`Event::Loaded`].
pub(super) fn start(host: &Arc<Host>, handle: &Arc<RoomHandle>) {
    let (inner, handle) = (host.clone(), handle.clone());
    host.tasks.spawn("room load", Kind::Job, async move {
        let loaded = load(&inner, &handle.room).await;
        handle.tell(Event::Loaded(loaded));
    });
}

/// Reads, with a few attempts.
pub(super) async fn load(host: &Host, room: &RoomId) -> Result<Loaded, Error> {
    let gone = || Error::Unavailable("the node is stopping".to_owned());
    let permit = host.loads.acquire().await.map_err(|_| gone())?;
    let mut attempt = 0;
    let loaded = loop {
        match read(host, room).await {
            // Also what is damaged is tried again for a while: those who ask for it must not ask in a loop.
            Err(error)
                if (error.may_retry() || matches!(error, Error::Broken(_)))
                    && attempt < ATTEMPTS
                    && !host.shutdown.is_stopped() =>
            {
                host.clock.sleep(backoff(PAUSE, attempt, LONGEST_BACKOFF)).await;
                attempt += 1;
            }
            other => break other,
        }
    };
    drop(permit);
    loaded
}

async fn read(host: &Host, room: &RoomId) -> Result<Loaded, Error> {
    let answer = host.call(Command::Load { room: room.clone() }).await;
    let at = host.store_now();
    let Reply::Checkpoint(checkpoint) = answer? else { return Err(Host::unexpected("load")) };
    let shard = room.shard(host.config.shards);
    let mut items: Vec<WorkItem> = Vec::new();
    loop {
        let after = items.last().map(|item| item.id.clone());
        let command = Command::RoomWork { shard, room: room.clone(), after, limit: PAGE };
        let Reply::Work(page) = host.call(command).await? else { return Err(Host::unexpected("work of a room")) };
        let full = page.len() == PAGE;
        items.extend(page);
        if !full || items.len() >= ITEMS {
            return Ok(Loaded { checkpoint, items, at });
        }
    }
}
