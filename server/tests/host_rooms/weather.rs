//! A store that fails on demand.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tenure::{
    runtime::Clock,
    store::{Backend, BoxFuture, Command, Error, Stamped},
};
use tenure_shared::RoomId;

/// What a test can do to the store.
#[derive(Default)]
pub struct Weather {
    /// Every call fails, applied or not.
    pub down: AtomicBool,
    /// So many commits are applied and their answers lost.
    pub lose_answers: AtomicU64,
    /// Commits seen.
    pub commits: AtomicU64,
    /// Heartbeats fail: the lease lapses, and cannot be had anew, while everything else works.
    pub no_heartbeats: AtomicBool,
    /// Commits wait until this is false; and how many did.
    pub hold_commits: AtomicBool,
    pub held: AtomicU64,
    /// No claim is given or released.
    pub no_gives: AtomicBool,
    /// So many transfers of claims are done and their answers lost.
    pub lose_transfers: AtomicU64,
    /// Last checkpoints before an unload wait until this is false.
    pub hold_dormant: AtomicBool,
    /// Rooms' checkpoints are read, and the answers wait until this is false.
    pub hold_loads: AtomicBool,
    /// The next commit with grants is refused, with this error.
    pub refuse: Mutex<Option<Error>>,
    /// Commits with grants find the outbox full.
    pub full: AtomicBool,
    /// Ledgers refuse every grant.
    pub no_ledger: AtomicBool,
    /// Ledgers do what they are asked, and their answers wait until this is false.
    pub hold_ledger: AtomicBool,
    /// Every write fails, as on a full disk; reads and leases go on.
    pub no_writes: AtomicBool,
    /// Ledgers of this player answer with a failure of the store, and how often they were asked.
    pub broken_ledger: Mutex<Option<String>>,
    pub broken_asked: AtomicU64,
    /// The outbox cannot be read.
    pub broken_outbox: AtomicBool,
    /// The rows of shards cannot be read; and how often it was tried.
    pub broken_rooms: AtomicBool,
    pub rooms_read: AtomicU64,
    /// Commits with a checkpoint of this room meet a broken row.
    pub broken: Mutex<Option<RoomId>>,
    /// The next commit that leaves an item for later (another page of it, another attempt) is the last one: the store is down from then on;
    /// whether it has that commit.
    pub down_at_later: Mutex<Option<bool>>,
    /// Calls that are not about leases and claims.
    pub calls: AtomicU64,
}

impl Weather {
    /// What a command meets before the store sees it.
    fn meets(&self, command: &Command) -> Option<Error> {
        if !command.is_urgent() {
            self.calls.fetch_add(1, Ordering::SeqCst);
        }
        match command {
            Command::Commit { batch, .. } => {
                let broken = self.broken.lock().expect("weather");
                if batch.checkpoints.iter().any(|c| Some(&c.summary.room) == broken.as_ref()) {
                    return Some(Error::Broken("a row is damaged".to_owned()));
                }
                let grants = !batch.grants.is_empty();
                if grants && self.full.load(Ordering::SeqCst) {
                    return Some(Error::Full("the outbox".to_owned()));
                }
                if grants { self.refuse.lock().expect("weather").take() } else { None }
            }
            Command::Apply { grant }
                if self.broken_ledger.lock().expect("weather").as_deref() == Some(grant.player.as_str()) =>
            {
                self.broken_asked.fetch_add(1, Ordering::SeqCst);
                Some(Error::Broken("a row is damaged".to_owned()))
            }
            Command::Outbox { .. } if self.broken_outbox.load(Ordering::SeqCst) => {
                self.broken_asked.fetch_add(1, Ordering::SeqCst);
                Some(Error::Broken("a row is damaged".to_owned()))
            }
            Command::Apply { .. } if self.no_ledger.load(Ordering::SeqCst) => Some(Error::Invalid("no".to_owned())),
            Command::Rooms { .. } => {
                self.rooms_read.fetch_add(1, Ordering::SeqCst);
                self.broken_rooms.load(Ordering::SeqCst).then(|| Error::Broken("a row is damaged".to_owned()))
            }
            _ => None,
        }
    }
}

/// A store with its weather.
pub struct Stormy {
    pub inner: Box<dyn Backend>,
    pub weather: Arc<Weather>,
    /// The node is dead: none of its calls reaches the store any more.
    pub dead: Arc<AtomicBool>,
    pub clock: Clock,
}

impl Backend for Stormy {
    fn execute(&self, command: Command) -> BoxFuture<'_, Stamped> {
        Box::pin(async move {
            let weather = &self.weather;
            let fail = |text: &str| Stamped { at: self.clock.wall(), reply: Err(Error::Unavailable(text.to_owned())) };
            if weather.down.load(Ordering::SeqCst) || self.dead.load(Ordering::SeqCst) {
                return fail("down");
            }
            if weather.no_heartbeats.load(Ordering::SeqCst)
                && matches!(command, Command::Heartbeat { .. } | Command::Register { .. })
            {
                return fail("cut off");
            }
            if weather.no_gives.load(Ordering::SeqCst)
                && matches!(command, Command::Transfer { .. } | Command::Release { .. })
            {
                return fail("no claim is given");
            }
            if matches!(command, Command::Transfer { .. }) {
                let lost =
                    weather.lose_transfers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
                let answer = self.inner.execute(command).await;
                return if lost.is_ok() { fail("the answer is lost") } else { answer };
            }
            let kept = command.is_read() || command.is_urgent();
            if weather.no_writes.load(Ordering::SeqCst) && !kept {
                return fail("the disk is full");
            }
            if let Command::Commit { batch, .. } = &command {
                let dormant = batch.checkpoints.iter().any(|checkpoint| checkpoint.summary.dormant);
                while dormant && weather.hold_dormant.load(Ordering::SeqCst) {
                    tokio::task::yield_now().await;
                }
                if weather.hold_commits.load(Ordering::SeqCst) {
                    weather.held.fetch_add(1, Ordering::SeqCst);
                }
                while weather.hold_commits.load(Ordering::SeqCst) {
                    tokio::task::yield_now().await;
                }
                weather.commits.fetch_add(1, Ordering::SeqCst);
                let later = !(batch.advanced.is_empty() && batch.failed.is_empty());
                let last = later.then(|| weather.down_at_later.lock().expect("weather").take()).flatten();
                if let Some(stored) = last {
                    weather.down.store(true, Ordering::SeqCst);
                    if stored {
                        drop(self.inner.execute(command).await);
                    }
                    return fail("down");
                }
                if let Some(error) = weather.meets(&command) {
                    return Stamped { at: self.clock.wall(), reply: Err(error) };
                }
                let lost = weather.lose_answers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
                let answer = self.inner.execute(command).await;
                return if lost.is_ok() { fail("the answer is lost") } else { answer };
            }
            match weather.meets(&command) {
                Some(error) => Stamped { at: self.clock.wall(), reply: Err(error) },
                None => {
                    let ledger = matches!(command, Command::Apply { .. });
                    let load = matches!(command, Command::Load { .. });
                    let answer = self.inner.execute(command).await;
                    while ledger && weather.hold_ledger.load(Ordering::SeqCst) {
                        tokio::task::yield_now().await;
                    }
                    while load && weather.hold_loads.load(Ordering::SeqCst) {
                        tokio::task::yield_now().await;
                    }
                    answer
                }
            }
        })
    }
}
