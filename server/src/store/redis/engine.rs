//! One command: its rows are read, the model is run over them, and what it wrote is applied if its rows are still what they were (H3).

use std::{future::Future, pin::Pin, sync::Arc, task::Poll, time::Duration};

use parking_lot::Mutex;

use super::{
    Options,
    fault::Fault,
    link::Link,
    pending::Pending,
    script::{self, Script},
    slots::Tag,
    time::StoreTime,
    view::{Cache, View},
};
use crate::{
    runtime::{Clock, Mono, Rng, Wall},
    store::{
        Error, Stamped,
        model::{self, After, Needs},
    },
};

/// How often one attempt may find that it needs more rows.
const ROUNDS: usize = 32;
/// How often a command is carried out anew since others changed its rows.
const CONFLICTS: u32 = 64;
/// Longest pause after a conflict; the first one is made anew at once.
const CONFLICT_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause after a fault that passes.
const FAULT_PAUSE: Duration = Duration::from_millis(100);
/// Commands of one slot wait for one another behind one of so many locks.
pub(super) const STRIPES: usize = 1_024;

/// What both lanes share.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
    pub(super) read: Script,
    pub(super) apply: Script,
    pub(super) pending: Pending,
    /// The row in which the cluster agreed on the number of shards: a fact that does not change.
    pub(super) agreed: Mutex<Option<Vec<u8>>>,
    /// One publisher of routes at a time, so that many claims are published in one step.
    pub(super) publishing: tokio::sync::Mutex<()>,
    /// The store's time where a server's clock is behind it.
    pub(super) time: StoreTime,
    /// Told when a connection is made: the servers are looked at again.
    pub(super) connected: Arc<tokio::sync::Notify>,
    /// Commands of one slot keep the order in which they came.
    pub(super) order: Vec<tokio::sync::Mutex<()>>,
}

impl Shared {
    pub(super) fn new(options: Options, clock: Clock, rng: Rng) -> Self {
        Self {
            options,
            clock,
            rng,
            read: Script::read(),
            apply: Script::apply(),
            pending: Pending::default(),
            agreed: Mutex::default(),
            publishing: tokio::sync::Mutex::default(),
            time: StoreTime::default(),
            connected: Arc::default(),
            order: (0..STRIPES).map(|_| tokio::sync::Mutex::default()).collect(),
        }
    }
}

impl Shared {
    /// The store's time, given the clock of a server.
    fn now(&self, server: Wall) -> Wall {
        match &self.options.test_time {
            Some(_) => self.options.time(server),
            None => self.time.of(server, self.clock.now()),
        }
    }
}

/// Carries out commands over one link.
pub(super) struct Engine {
    pub(super) link: Link,
    pub(super) shared: Arc<Shared>,
}

/// How a transaction ended.
pub(super) struct Done {
    pub(super) stamped: Stamped,
    pub(super) after: After,
    /// A call of it failed in such a way that it may have been applied before: a refusal may be the echo of its own success.
    pub(super) doubtful: bool,
}

/// Why one attempt has to be made again.
enum Again {
    Conflict,
    Fault(Fault),
}

impl Engine {
    /// Runs `work` over rows of `home` (and facts of other slots) until it is applied, refused, or `until` has come.
    ///
    /// `validate`: a refusal, too, must rest on rows that stood there at one moment.
    pub(super) async fn transact(
        &self,
        home: &Tag,
        needs: &Needs,
        validate: bool,
        until: Mono,
        work: &(dyn Fn(&mut View<'_>, Wall) -> (Stamped, After) + Send + Sync),
    ) -> Result<Done, Error> {
        let mut doubtful = false;
        let (mut conflicts, mut faults) = (0, 0);
        loop {
            let pause = match self.attempt(home, needs, validate, until, work).await {
                Ok((stamped, after)) => {
                    self.shared.time.heard(stamped.at, self.shared.clock.now());
                    return Ok(Done { stamped, after, doubtful });
                }
                Err(Again::Conflict) => {
                    conflicts += 1;
                    metrics::counter!("tenure_store_conflicts_total").increment(1);
                    if conflicts >= CONFLICTS || self.shared.clock.now() >= until {
                        return Err(Error::Unavailable(format!("others changed {home} {conflicts} times meanwhile")));
                    }
                    // A Cluster's connection repeats a call by itself: the second one finds the rows changed by the first.
                    doubtful = true;
                    if conflicts == 1 { Duration::ZERO } else { self.jitter(CONFLICT_PAUSE, conflicts) }
                }
                Err(Again::Fault(Fault::Passing { text, unknown, .. })) => {
                    faults += 1;
                    doubtful |= unknown;
                    if self.shared.clock.now() >= until {
                        return Err(Error::Unavailable(text));
                    }
                    self.jitter(FAULT_PAUSE, faults)
                }
                Err(Again::Fault(fault)) => return Err(fault.error()),
            };
            self.shared.clock.sleep(pause).await;
        }
    }

    fn jitter(&self, longest: Duration, times: u32) -> Duration {
        let bound = (1_000_u64 << times.min(16)).min(u64::try_from(longest.as_micros()).unwrap_or(u64::MAX));
        Duration::from_micros(self.shared.rng.below(bound))
    }

    async fn attempt(
        &self,
        home: &Tag,
        needs: &Needs,
        validate: bool,
        until: Mono,
        work: &(dyn Fn(&mut View<'_>, Wall) -> (Stamped, After) + Send + Sync),
    ) -> Result<(Stamped, After), Again> {
        let mut cache = Cache::default();
        let known = self.known(home, &mut cache);
        let mut wanted = needs.clone();
        wanted.keys.retain(|key| !cache.rows.contains_key(key));
        for round in 1..=ROUNDS {
            self.fetch(home, &wanted, &mut cache, round == 1, until).await.map_err(Again::Fault)?;
            let mut view = View::new(&cache, home);
            let (stamped, after) = work(&mut view, cache.now);
            let seen = view.end();
            if !seen.missing.is_empty() {
                wanted = seen.missing;
                continue;
            }
            if !known {
                self.learn(&cache);
            }
            if seen.writes.is_empty() && (round == 1 || !validate) {
                return Ok((stamped, after));
            }
            let words = script::apply(home, stamped.at, seen.reads, seen.writes);
            let answer = self.link.call(&self.shared.apply, &words, until).await.map_err(Again::Fault)?;
            return match script::applied(&answer) {
                Ok(true) => Ok((stamped, after)),
                Ok(false) => Err(Again::Conflict),
                Err(error) => Err(Again::Fault(Fault::of(error))),
            };
        }
        Err(Again::Fault(Fault::Lasting(format!("a command of {home} needed rows {ROUNDS} times over"))))
    }

    /// A fact that does not change is not read again, except by who agrees on it or works next to it: the store may have forgotten it.
    /// Whether it is among the rows now.
    fn known(&self, home: &Tag, cache: &mut Cache) -> bool {
        if *home == Tag::members() {
            return false;
        }
        let row = self.shared.agreed.lock().clone();
        row.is_some_and(|row| cache.rows.insert(model::apart::shards_row(), Some(row)).is_none())
    }

    /// What this attempt has read itself.
    fn learn(&self, cache: &Cache) {
        if let Some(row) = cache.rows.get(&model::apart::shards_row()) {
            self.shared.agreed.lock().clone_from(row);
        }
    }

    /// Reads rows, those of each slot at one moment and all slots at a time.
    async fn fetch(&self, home: &Tag, needs: &Needs, cache: &mut Cache, first: bool, until: Mono) -> Result<(), Fault> {
        let mut slots: std::collections::BTreeMap<Tag, Needs> = std::collections::BTreeMap::new();
        if first {
            // For its time.
            slots.insert(home.clone(), Needs::default());
        }
        for key in &needs.keys {
            slots.entry(Tag::of(key, home)).or_default().keys.push(key.clone());
        }
        for scan in &needs.scans {
            slots.entry(Tag::of(&scan.prefix, home)).or_default().scans.push(scan.clone());
        }
        let calls = slots.iter().map(|(tag, needs)| async move {
            let answer = self.link.call(&self.shared.read, &script::read(tag, needs), until).await?;
            script::found(needs, answer).map_err(Fault::of)
        });
        for (tag, found) in slots.keys().zip(together(calls.collect()).await) {
            let found = found?;
            if tag == home {
                let highest = found.highest.map(model::encode_time).transpose();
                let highest = highest.map_err(|error| Fault::Lasting(error.to_string()))?;
                cache.rows.insert(model::TIME.to_vec(), highest);
                cache.now = self.shared.now(found.now);
            }
            cache.rows.extend(found.rows);
            cache.scans.extend(found.scans);
        }
        Ok(())
    }
}

/// Waits for all of these, which are under way at the same time; their answers in order.
pub(super) async fn together<T>(calls: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut calls: Vec<Result<T, Pin<Box<_>>>> = calls.into_iter().map(|call| Err(Box::pin(call))).collect();
    std::future::poll_fn(move |context| {
        let mut waiting = false;
        for call in &mut calls {
            if let Err(future) = call {
                match future.as_mut().poll(context) {
                    Poll::Ready(answer) => *call = Ok(answer),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting {
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut calls).into_iter().filter_map(Result::ok).collect())
    })
    .await
}
