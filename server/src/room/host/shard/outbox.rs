//! Outbox → ledger: grants are applied in order per player, idempotently, and each answer goes to the room that decided the grant.
//!
//! A grant whose ledger gives an odd answer is put off and tried again with growing pauses, and with it the later ones of its player; all
//! others go on.

mod entries;
mod ledgers;
#[cfg(test)]
mod tests;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tenure_shared::RoomId;
use tokio::sync::Notify;

use self::entries::Entries;
pub(super) use self::ledgers::{kept, not_kept};
use super::Shard;
use crate::{
    room::host::{
        config::{LEDGER_LANES, backoff},
        core::Host,
        names,
    },
    runtime::{Mono, tasks::Kind},
    store::{Command, Error, OutboxEntry, Reply},
};

/// Entries read at a time.
const PAGE: usize = 500;
/// First pause before what was put off is tried again; it doubles.
const PUT_OFF: Duration = Duration::from_millis(100);
/// Longest of these pauses.
const LONGEST_PUT_OFF: Duration = Duration::from_secs(30);
/// The log says at most this often that grants cannot be applied; the metric counts each attempt.
const ALARM_EVERY: Duration = Duration::from_secs(60);

/// A shard's grants on their way to ledgers.
#[derive(Default)]
pub(super) struct Outbox {
    running: AtomicBool,
    /// Nothing is to be done but what was put off: a stop does not wait for that.
    waiting: AtomicBool,
    pub(super) again: AtomicBool,
    restart: AtomicBool,
    wake: Notify,
    /// Position up to which entries were read; only the running task changes it.
    cursor: AtomicU64,
    entries: Mutex<Entries>,
    alarmed: Mutex<Option<Mono>>,
}

impl Outbox {
    pub(super) fn depth(&self) -> usize {
        self.entries.lock().depth()
    }

    /// Of all entries, those of rooms for which `is` holds.
    pub(super) fn depth_of(&self, is: impl Fn(&RoomId) -> bool) -> usize {
        self.entries.lock().depth_of(is)
    }

    pub(super) fn is_idle(&self) -> bool {
        let at_rest = !self.running.load(Ordering::Acquire) || self.waiting.load(Ordering::Acquire);
        at_rest && !self.again.load(Ordering::Acquire)
    }

    pub(super) fn restart(&self) {
        self.restart.store(true, Ordering::Release);
        self.again.store(true, Ordering::Release);
    }

    /// Grants of rooms are in the outbox now.
    pub(super) fn committed(&self, granted: impl Iterator<Item = (RoomId, u64)>) {
        if self.entries.lock().open(granted) {
            self.again.store(true, Ordering::Release);
        }
    }

    pub(super) fn trimmed(&self, positions: &[u64]) {
        if !positions.is_empty() {
            self.entries.lock().trim(positions);
        }
    }

    /// The next page, or entry, is about to be read.
    fn begin_page(&self) {
        self.entries.lock().begin_page();
    }

    /// Runs `tell` unless the entry was trimmed since it was read. No trim comes in between (H6): a room hears of the trim after this.
    fn unless_trimmed(&self, position: u64, tell: impl FnOnce()) {
        let entries = self.entries.lock();
        if !entries.was_trimmed(position) {
            tell();
        }
    }

    /// An answer that should not be: counted, and told to people now and then.
    fn alarm(&self, host: &Host, shard: &Shard, position: u64, error: &Error) {
        names::grant("put_off");
        let now = host.clock.now();
        let mut last = self.alarmed.lock();
        if last.is_none_or(|at| now.since(at) >= ALARM_EVERY) {
            *last = Some(now);
            let waiting = self.entries.lock().put_off_count();
            tracing::error!(shard = %shard.id, position, waiting, %error, "a grant cannot be applied: it is tried again and again");
        }
    }
}

/// Starts the work on a shard's outbox if there is some and nobody is at it.
pub(super) fn kick(host: &Arc<Host>, shard: &Arc<Shard>) {
    let outbox = &shard.outbox;
    if !outbox.again.load(Ordering::Acquire) {
        return;
    }
    outbox.wake.notify_one();
    if !outbox.running.swap(true, Ordering::AcqRel) {
        let (inner, shard) = (host.clone(), shard.clone());
        host.tasks.spawn("outbox", Kind::Job, async move {
            run(&inner, &shard).await;
            shard.outbox.running.store(false, Ordering::Release);
            // Something may have come between the last look and the line above.
            shard.notify.notify_one();
            inner.progress.notify_waiters();
        });
    }
}

fn is_over(host: &Host, shard: &Shard) -> bool {
    shard.is_lost() || host.shutdown.is_stopped()
}

/// Until nothing is to be done, and nothing is put off.
async fn run(host: &Arc<Host>, shard: &Arc<Shard>) {
    let outbox = &shard.outbox;
    let pause = |attempt| backoff(PUT_OFF, attempt, LONGEST_PUT_OFF);
    let (mut attempt, mut next) = (0, host.clock.now().plus(pause(0)));
    loop {
        while outbox.again.swap(false, Ordering::AcqRel) && !is_over(host, shard) {
            drain(host, shard).await;
        }
        if is_over(host, shard) || outbox.entries.lock().put_off_count() == 0 {
            return;
        }
        let now = host.clock.now();
        if now < next {
            tokio::select! {
                biased;
                () = outbox.wake.notified() => {}
                () = rest(host, shard, next.since(now)) => {}
            }
            outbox.waiting.store(false, Ordering::Release);
        } else {
            attempt = if again(host, shard).await { 0 } else { attempt + 1 };
            next = host.clock.now().plus(pause(attempt));
        }
    }
}

/// Waits until what does not go now is tried again, or the host ends: a stop does not wait for it, the store keeps what is owed.
async fn rest(host: &Host, shard: &Shard, pause: Duration) {
    shard.outbox.waiting.store(true, Ordering::Release);
    host.progress.notify_waiters();
    tokio::select! {
        biased;
        () = host.clock.sleep(pause) => {}
        () = host.shutdown.stopped() => {}
    }
    shard.outbox.waiting.store(false, Ordering::Release);
}

async fn drain(host: &Arc<Host>, shard: &Arc<Shard>) {
    let outbox = &shard.outbox;
    let (mut limit, mut attempt) = (PAGE, 0);
    while !is_over(host, shard) {
        if outbox.restart.swap(false, Ordering::AcqRel) {
            outbox.cursor.store(0, Ordering::Release);
            outbox.entries.lock().forget_put_off();
        }
        let after = outbox.cursor.load(Ordering::Acquire);
        let page = match read(host, shard, after, limit).await {
            Ok(page) => page,
            Err(error) if error.may_retry() => return,
            Err(_) if limit > 1 => {
                // One row of them may be damaged: the others need not wait for it.
                limit = (limit / 4).max(1);
                continue;
            }
            Err(error) => {
                let position = outbox.entries.lock().next_after(after);
                outbox.alarm(host, shard, position, &error);
                if read(host, shard, position, 1).await.is_ok() {
                    outbox.entries.lock().put_off(position, None);
                    outbox.cursor.store(position, Ordering::Release);
                } else {
                    rest(host, shard, backoff(PUT_OFF, attempt, LONGEST_PUT_OFF)).await;
                    attempt += 1;
                }
                continue;
            }
        };
        (limit, attempt) = ((limit * 2).min(PAGE), 0);
        let Some(last) = page.last().map(|entry| entry.position) else { return };
        outbox.entries.lock().found(&page);
        ledgers::apply_all(host, shard, lanes(page)).await;
        if !is_over(host, shard) {
            outbox.cursor.store(last, Ordering::Release);
        }
    }
}

/// Entries of one player are in one lane, in order.
fn lanes(page: Vec<OutboxEntry>) -> impl Iterator<Item = Vec<OutboxEntry>> {
    let mut lanes: Vec<Vec<OutboxEntry>> = vec![Vec::new(); LEDGER_LANES];
    for entry in page {
        let mut hasher = DefaultHasher::new();
        entry.grant.player.hash(&mut hasher);
        lanes[hasher.finish() as usize % LEDGER_LANES].push(entry);
    }
    lanes.into_iter().filter(|lane| !lane.is_empty())
}

async fn read(host: &Host, shard: &Shard, after: u64, limit: usize) -> Result<Vec<OutboxEntry>, Error> {
    shard.outbox.begin_page();
    match host.call_until_stopped(Command::Outbox { shard: shard.id, after, limit }).await {
        Ok(Reply::Outbox(page)) => Ok(page),
        Ok(_) => Err(Host::unexpected("outbox")),
        Err(error) => Err(error),
    }
}

/// Tries again what was put off, of each player in order; whether any of it went through.
async fn again(host: &Arc<Host>, shard: &Arc<Shard>) -> bool {
    let mut through = false;
    let queues = shard.outbox.entries.lock().put_off_queues();
    for queue in queues {
        for position in queue {
            if is_over(host, shard) {
                return through;
            }
            let entry = match read(host, shard, position.saturating_sub(1), 1).await {
                Ok(page) => page.into_iter().find(|entry| entry.position == position),
                Err(error) => {
                    shard.outbox.alarm(host, shard, position, &error);
                    break;
                }
            };
            // One that is not there any more was trimmed.
            if let Some(entry) = entry
                && !ledgers::apply_one(host, shard, entry).await
            {
                break;
            }
            shard.outbox.entries.lock().through(position);
            through = true;
        }
    }
    through
}
