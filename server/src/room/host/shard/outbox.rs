//! Outbox → ledger: grants are applied in order per player, idempotently, and each answer goes to the room that decided the grant.
//!
//! An answer for a room that is not loaded wakes the room when game code waits for it (grants of game code); an answer for a scheduled
//! reward is only for showing, and nobody is there to see it: its position is trimmed without waking the room.

use std::{
    collections::BTreeSet,
    future::Future,
    hash::{DefaultHasher, Hash, Hasher},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
};

use parking_lot::Mutex;
use tenure_shared::RoomId;

use super::{Shard, pending::Request};
use crate::{
    room::{
        host::{config::LEDGER_LANES, core::Host, inbox::Event, names},
        world::GrantResult,
    },
    runtime::tasks::Kind,
    store::{Applied, Command, OutboxEntry, Reply},
};

/// Entries read at a time.
const PAGE: usize = 500;
/// Attempts to give an answer to a room that ends and begins at that moment.
const DELIVERIES: usize = 16;

/// A shard's grants on their way to ledgers.
#[derive(Default)]
pub(super) struct Outbox {
    running: AtomicBool,
    again: AtomicBool,
    restart: AtomicBool,
    /// Position up to which entries were read; only the running task changes it.
    cursor: AtomicU64,
    /// Positions not trimmed yet: as many as the store keeps.
    open: Mutex<BTreeSet<u64>>,
}

impl Outbox {
    pub(super) fn depth(&self) -> usize {
        self.open.lock().len()
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.running.load(Ordering::Acquire) && !self.again.load(Ordering::Acquire)
    }

    pub(super) fn restart(&self) {
        self.restart.store(true, Ordering::Release);
        self.again.store(true, Ordering::Release);
    }

    pub(super) fn committed(&self, positions: &[u64]) {
        if !positions.is_empty() {
            self.open.lock().extend(positions);
            self.again.store(true, Ordering::Release);
        }
    }

    pub(super) fn trimmed(&self, positions: &[u64]) {
        if !positions.is_empty() {
            let mut open = self.open.lock();
            for position in positions {
                open.remove(position);
            }
        }
    }
}

/// Starts the work on a shard's outbox if there is some and nobody is at it.
pub(super) fn kick(host: &Arc<Host>, shard: &Arc<Shard>) {
    let outbox = &shard.outbox;
    if outbox.again.load(Ordering::Acquire) && !outbox.running.swap(true, Ordering::AcqRel) {
        let (inner, shard) = (host.clone(), shard.clone());
        host.tasks.spawn("outbox", Kind::Job, async move {
            while shard.outbox.again.swap(false, Ordering::AcqRel) && !shard.is_lost() && !inner.shutdown.is_stopped() {
                drain(&inner, &shard).await;
            }
            shard.outbox.running.store(false, Ordering::Release);
            // Something may have come between the last look and the line above.
            shard.notify.notify_one();
            inner.progress.notify_waiters();
        });
    }
}

async fn drain(host: &Arc<Host>, shard: &Arc<Shard>) {
    loop {
        if shard.outbox.restart.swap(false, Ordering::AcqRel) {
            shard.outbox.cursor.store(0, Ordering::Release);
        }
        let after = shard.outbox.cursor.load(Ordering::Acquire);
        let command = Command::Outbox { shard: shard.id, after, limit: PAGE };
        let Ok(Reply::Outbox(page)) = host.call_until_stopped(command).await else { return };
        let Some(last) = page.last().map(|entry| entry.position) else { return };
        shard.outbox.open.lock().extend(page.iter().map(|entry| entry.position));
        let mut lanes: Vec<Vec<OutboxEntry>> = vec![Vec::new(); LEDGER_LANES];
        for entry in page {
            let mut hasher = DefaultHasher::new();
            entry.grant.player.hash(&mut hasher);
            lanes[hasher.finish() as usize % LEDGER_LANES].push(entry);
        }
        let lanes = lanes.into_iter().filter(|lane| !lane.is_empty());
        all(lanes.map(|lane| Box::pin(apply(host, shard, lane)) as Lane<'_>).collect()).await;
        if shard.is_lost() || host.shutdown.is_stopped() {
            return;
        }
        shard.outbox.cursor.store(last, Ordering::Release);
    }
}

type Lane<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Waits for a few futures side by side.
async fn all(mut lanes: Vec<Lane<'_>>) {
    std::future::poll_fn(|context| {
        lanes.retain_mut(|lane| lane.as_mut().poll(context).is_pending());
        if lanes.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

async fn apply(host: &Arc<Host>, shard: &Arc<Shard>, lane: Vec<OutboxEntry>) {
    for entry in lane {
        if shard.is_lost() {
            return;
        }
        let OutboxEntry { position, room, grant } = entry;
        match host.call_until_stopped(Command::Apply { grant: grant.clone() }).await {
            Ok(Reply::Applied { applied, balances }) => {
                names::grant(match applied {
                    Applied::Given(_) => "given",
                    Applied::Already(_) => "already",
                    Applied::Insufficient => "insufficient",
                });
                deliver(host, shard, position, &room, &GrantResult { grant, applied, balances });
            }
            Ok(_) => tracing::error!("an unexpected kind of answer to apply"),
            Err(error) if error.may_retry() => return,
            Err(error) => {
                // Kept in the outbox for a person to look at: a grant is never dropped.
                names::grant("refused");
                tracing::error!(%room, player = %grant.player, grant = %grant.id.0, %error, "a ledger refused a grant");
            }
        }
    }
}

fn deliver(host: &Arc<Host>, shard: &Arc<Shard>, position: u64, room: &RoomId, result: &GrantResult) {
    let waited_for = result.grant.scheduled_for.is_none();
    for _ in 0..DELIVERIES {
        let handle = match host.rooms.get(room) {
            Some(handle) => Some(handle),
            // At a stop it stays in the outbox: applied again at the next start, which changes nothing.
            None if waited_for && host.stopping.load(Ordering::Acquire) => return,
            None if waited_for => host.open(room, shard),
            None => None,
        };
        let Some(handle) = handle else { break };
        if handle.tell(Event::Granted(position, Box::new(result.clone()))) {
            return;
        }
        host.rooms.remove(&handle);
    }
    shard.push(room, Request { trimmed: vec![position], ..Request::default() });
}
