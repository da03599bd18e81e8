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

use super::{Shard, refused};
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
    pub(super) again: AtomicBool,
    restart: AtomicBool,
    /// Position up to which entries were read; only the running task changes it.
    cursor: AtomicU64,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    /// Positions not trimmed yet: as many as the store keeps.
    open: BTreeSet<u64>,
    /// Positions trimmed since the page at hand was asked for: its rooms have their answers, also when the page still names them.
    trimmed: BTreeSet<u64>,
}

impl Outbox {
    pub(super) fn depth(&self) -> usize {
        self.entries.lock().open.len()
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
            self.entries.lock().open.extend(positions);
            self.again.store(true, Ordering::Release);
        }
    }

    pub(super) fn trimmed(&self, positions: &[u64]) {
        if !positions.is_empty() {
            let mut entries = self.entries.lock();
            for position in positions {
                entries.open.remove(position);
                entries.trimmed.insert(*position);
            }
        }
    }

    /// The next page is about to be read.
    fn begin_page(&self) {
        self.entries.lock().trimmed.clear();
    }

    /// What was read.
    fn found(&self, page: &[OutboxEntry]) {
        let mut entries = self.entries.lock();
        let Entries { open, trimmed } = &mut *entries;
        open.extend(page.iter().map(|entry| entry.position).filter(|position| !trimmed.contains(position)));
    }

    /// Runs `tell` unless the entry was trimmed since it was read. No trim comes in between (H6): a room hears of the trim after this.
    fn unless_trimmed(&self, position: u64, tell: impl FnOnce()) {
        let entries = self.entries.lock();
        if !entries.trimmed.contains(&position) {
            tell();
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
        shard.outbox.begin_page();
        let Ok(Reply::Outbox(page)) = host.call_until_stopped(command).await else { return };
        let Some(last) = page.last().map(|entry| entry.position) else { return };
        shard.outbox.found(&page);
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
                names::grant("refused");
                tracing::error!(%room, player = %grant.player, grant = %grant.id.0, %error, "a ledger refused a grant");
                // Never dropped: it is kept for a person to look at, and the room hears that nothing was changed.
                let kept = refused::request(&room, position, &grant, &error);
                let mut request = match kept {
                    Ok(request) => request,
                    Err(error) => {
                        tracing::error!(%room, grant = %grant.id.0, error, "a refused grant cannot be kept");
                        continue;
                    }
                };
                let nobody_asks = grant.scheduled_for.is_some() && host.rooms.get(&room).is_none();
                if nobody_asks {
                    request.trimmed.push(position);
                }
                shard.push(&room, request);
                if nobody_asks {
                    continue;
                }
                let result = GrantResult { grant, applied: Applied::Insufficient, balances: Vec::new() };
                deliver(host, shard, position, &room, &result);
            }
        }
    }
}

fn deliver(host: &Arc<Host>, shard: &Arc<Shard>, position: u64, room: &RoomId, result: &GrantResult) {
    shard.outbox.unless_trimmed(position, || tell(host, shard, position, room, result));
}

fn tell(host: &Arc<Host>, shard: &Arc<Shard>, position: u64, room: &RoomId, result: &GrantResult) {
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
    shard.trim(room, position);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_whose_position_was_trimmed_since_the_page_was_read_is_not_told_again() {
        let outbox = Outbox::default();
        outbox.committed(&[1, 2]);
        outbox.begin_page();
        // The page with both is on its way when the commit that trims the first is acknowledged.
        outbox.trimmed(&[1]);
        let grant = |position| {
            let (id, source) = (crate::store::GrantId("g".into()), "s".into());
            let player = tenure_shared::PlayerId::new("p").expect("valid");
            let (amounts, token) = (std::collections::BTreeMap::new(), bytes::Bytes::new());
            let grant = crate::store::Grant { id, player, source, scheduled_for: None, amounts, cap: None, token };
            OutboxEntry { position, room: RoomId::from_parts("lab", "eu", "a").expect("valid"), grant }
        };
        outbox.found(&[grant(1), grant(2)]);
        assert_eq!(outbox.depth(), 1, "what is trimmed does not come back");
        let mut told = Vec::new();
        for position in [1, 2] {
            outbox.unless_trimmed(position, || told.push(position));
        }
        assert_eq!(told, [2]);
        // Of the next page it need not be remembered.
        outbox.begin_page();
        assert!(outbox.entries.lock().trimmed.is_empty());
    }
}
