//! All bots of a run, on their own threads: each thread has its own runtime, counts and probe of its own lag.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tokio::{
    runtime,
    task::{JoinSet, LocalSet},
    time::{sleep, sleep_until},
};

use crate::{
    bot::{Bot, Phase, Plan, Record, Worker, watch::Watch},
    host,
    net::Target,
    stats::{Stats, Switch, Times},
};

/// How often a thread measures how late it wakes up.
const PROBE: Duration = Duration::from_millis(10);

/// Running bots.
pub(crate) struct Fleet {
    pub(crate) plan: Arc<Plan>,
    pub(crate) players: u32,
    workers: Vec<Arc<Worker>>,
    threads: Vec<JoinHandle<anyhow::Result<Vec<Record>>>>,
}

impl Fleet {
    /// Starts `players` bots on `threads` threads, spread over `ramp`.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub(crate) fn start(plan: Arc<Plan>, players: u32, threads: u32, ramp: Duration) -> anyhow::Result<Self> {
        let mut fleet = Self { plan, players, workers: Vec::new(), threads: Vec::new() };
        for nth in 0..threads {
            let (plan, worker) = (fleet.plan.clone(), Arc::new(Worker::new()));
            fleet.workers.push(worker.clone());
            let work = move || {
                host::take_priority();
                let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
                let bots = (nth..players).step_by(threads as usize);
                Ok(LocalSet::new().block_on(&runtime, drive(plan, worker, bots.collect(), players, ramp)))
            };
            let thread = thread::Builder::new().name(format!("bots-{nth}")).spawn(work);
            fleet.threads.push(thread.context("cannot start a thread of bots")?);
        }
        Ok(fleet)
    }

    /// The threads' counts, to look at while the bots are measured.
    #[cfg(test)]
    pub(crate) fn workers(&self) -> Vec<Arc<Worker>> {
        self.workers.clone()
    }

    /// All threads' counts together.
    pub(crate) fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        self.workers.iter().for_each(|worker| sum.add(&worker.shard.lock()));
        sum
    }

    /// A handle to the counts that outlives a measurement.
    pub(crate) fn counts(&self) -> Counts {
        Counts { workers: self.workers.clone(), plan: self.plan.clone(), watch: self.plan.watch.clone() }
    }

    /// Times are recorded while `on`.
    pub(crate) fn measure(&self, on: bool) {
        self.workers.iter().for_each(|worker| worker.shard.lock().measuring = on);
    }

    /// Latencies since the last call.
    pub(crate) fn take_recent(&self) -> Times {
        let mut sum = Times::default();
        for worker in &self.workers {
            let mut stats = worker.shard.lock();
            sum.add(&stats.recent);
            stats.recent.clear();
        }
        sum
    }

    /// Waits until no input is on its way, for an audit until all are saved and counted; at most `limit`. Bots plan
    /// nothing new meanwhile.
    pub(crate) async fn settle(&self, limit: Duration) {
        self.plan.set_phase(Phase::Settle);
        let until = Instant::now() + limit;
        while Instant::now() < until {
            let counters = self.stats().counters;
            let done = if self.plan.audit {
                let settled = u64::from(self.plan.settled.load(Ordering::Relaxed));
                settled + counters.gave_up >= u64::from(self.players)
            } else {
                counters.applied >= counters.planned - counters.withheld
            };
            if done {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Lets all bots leave; returns the counts and what each bot has to say.
    ///
    /// # Errors
    /// When a thread of bots failed.
    pub(crate) async fn finish(self) -> anyhow::Result<(Stats, Vec<Record>)> {
        self.plan.set_phase(Phase::Leave);
        while !self.threads.iter().all(JoinHandle::is_finished) {
            sleep(Duration::from_millis(20)).await;
        }
        let stats = self.stats();
        let mut records = Vec::new();
        for thread in self.threads {
            records.extend(thread.join().map_err(|_| anyhow::anyhow!("a thread of bots panicked"))??);
        }
        Ok((stats, records))
    }
}

/// The threads' counts, and where bots connect.
pub(crate) struct Counts {
    workers: Vec<Arc<Worker>>,
    plan: Arc<Plan>,
    pub(crate) watch: Arc<Watch>,
}

impl Counts {
    /// Times between terms so far.
    pub(crate) fn terms(&self) -> Times {
        let mut sum = Times::default();
        self.workers.iter().for_each(|worker| sum.add(&worker.shard.lock().terms));
        sum
    }

    /// Bots that connect from now on do so here.
    pub(crate) fn lead_to(&self, targets: Vec<Target>) {
        self.plan.set_targets(targets);
    }

    /// Changes of owners so far, by time, and the rooms and terms whose takeover was announced.
    pub(crate) fn switches(&self) -> (Vec<Switch>, BTreeSet<(u32, u64)>) {
        let (mut switches, mut rollbacks) = (Vec::new(), BTreeSet::new());
        for worker in &self.workers {
            let stats = worker.shard.lock();
            switches.extend_from_slice(&stats.switches);
            rollbacks.extend(&stats.rollbacks);
        }
        switches.sort_by_key(|switch| switch.at);
        (switches, rollbacks)
    }

    /// How late the bots' threads were since the last call.
    pub(crate) fn take_lag(&self) -> Times {
        let mut sum = Times::default();
        for worker in &self.workers {
            let mut stats = worker.shard.lock();
            sum.add(&stats.recent_lag);
            stats.recent_lag.clear();
        }
        sum
    }

    /// Rollbacks announced and connections lost so far.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let of = |worker: &Arc<Worker>| {
            let stats = worker.shard.lock();
            (stats.counters.rolled_back, stats.drop_count())
        };
        self.workers.iter().map(of).fold((0, 0), |(back, lost), (b, l)| (back + b, lost + l))
    }

    /// Grants shown so far.
    pub(crate) fn grants(&self) -> u64 {
        self.workers.iter().map(|worker| worker.shard.lock().counters.grants).sum()
    }

    /// Terms that began so far, as the bots were shown.
    pub(crate) fn terms_begun(&self) -> u64 {
        self.workers.iter().map(|worker| worker.shard.lock().counters.terms_begun).sum()
    }
}

async fn drive(plan: Arc<Plan>, worker: Arc<Worker>, bots: Vec<u32>, players: u32, ramp: Duration) -> Vec<Record> {
    let probe = tokio::task::spawn_local(probe(worker.clone()));
    let start = tokio::time::Instant::now();
    let mut running = JoinSet::new();
    for index in bots {
        let (plan, worker) = (plan.clone(), worker.clone());
        let begin = start + ramp.mul_f64(f64::from(index) / f64::from(players));
        running.spawn_local(async move {
            sleep_until(begin).await;
            Bot::new(plan, worker, index).run().await
        });
    }
    let mut records = Vec::new();
    while let Some(ended) = running.join_next().await {
        // A bot that panicked has no record; the audit misses it and says so.
        records.extend(ended);
    }
    probe.abort();
    records
}

/// Measures from planned times, so that one long stop counts as often as it should.
async fn probe(worker: Arc<Worker>) {
    let mut next = Instant::now() + PROBE;
    loop {
        sleep_until(next.into()).await;
        let now = Instant::now();
        let mut stats = worker.shard.lock();
        while next <= now {
            if stats.measuring {
                let late = now.saturating_duration_since(next);
                stats.own_lag.record(late);
                stats.recent_lag.record(late);
            }
            next += PROBE;
        }
    }
}
