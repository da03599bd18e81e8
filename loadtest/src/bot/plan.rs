//! What all bots of a run share, and what the bots of one thread share.

use std::{
    sync::{
        Arc, OnceLock, PoisonError, RwLock,
        atomic::{AtomicU8, AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::sync::Semaphore;

use super::{churn::Churn, watch::Watch};
use crate::{args::Scenario, net::Target, stats::Shard};

/// Of so many bots of a room one goes away and comes back.
const AWAY_OF: u32 = 4;

/// What all bots do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Play.
    Play,
    /// Plan no more inputs, wait until all are saved.
    Settle,
    /// Leave.
    Leave,
}

/// What all bots of a run share.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Gateways; bots are spread evenly.
    targets: RwLock<Vec<Target>>,
    pub(crate) kind: String,
    pub(crate) region: String,
    pub(crate) rooms: u32,
    pub(crate) input_period: Option<Duration>,
    /// Remember what the audit needs.
    pub(crate) audit: bool,
    pub(crate) watch: Arc<Watch>,
    pub(crate) seed: u64,
    /// For how long every fourth bot is away, again and again.
    away: Option<Duration>,
    /// Bots come and go all the time.
    pub(crate) churn: Option<Churn>,
    phase: AtomicU8,
    /// Bots whose inputs are all saved and counted.
    pub(crate) settled: AtomicU32,
    pub(super) fatal: OnceLock<String>,
}

impl Plan {
    pub(crate) fn new(targets: Vec<Target>, args: &crate::args::RunArgs, audit: bool) -> Self {
        let period = (args.input_rate > 0.0).then(|| Duration::from_secs_f64(1.0 / args.input_rate.min(1000.0)));
        Self {
            targets: RwLock::new(targets),
            kind: args.kind.clone(),
            region: args.region.clone(),
            rooms: args.room_count(),
            input_period: period,
            audit,
            watch: Watch::new(args.players, args.room_count()),
            seed: args.seed,
            away: (args.scenario == Scenario::Rewards).then_some(args.away),
            churn: (args.scenario == Scenario::Churn)
                .then(|| Churn::new(args.players, args.room_count(), args.joins_per_second)),
            phase: AtomicU8::new(Phase::Play as u8),
            settled: AtomicU32::new(0),
            fatal: OnceLock::new(),
        }
    }

    /// For how long this bot leaves its room, again and again; `None`: it stays.
    pub(crate) fn away(&self, bot: u32) -> Option<Duration> {
        // Of each room some stay.
        self.away.filter(|_| bot / self.rooms % AWAY_OF == AWAY_OF - 1)
    }

    /// Whether this bot never gives its seat up.
    pub(super) fn stays(&self, bot: u32) -> bool {
        self.away(bot).is_none() && self.churn.as_ref().is_none_or(|churn| churn.keeps(bot))
    }

    /// The gateway of bot `nth`, counted round; `None` if there is none.
    pub(super) fn target(&self, nth: usize) -> Option<Target> {
        let targets = self.targets.read().unwrap_or_else(PoisonError::into_inner);
        targets.get(nth.checked_rem(targets.len())?).cloned()
    }

    /// From now on bots connect to these, as behind a Service whose members changed.
    pub(crate) fn set_targets(&self, new: Vec<Target>) {
        *self.targets.write().unwrap_or_else(PoisonError::into_inner) = new;
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(super) fn reached(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) >= phase as u8
    }

    /// Why the run makes no sense, if a bot found out.
    pub(crate) fn fatal(&self) -> Option<&str> {
        self.fatal.get().map(String::as_str)
    }
}

/// What the bots of one thread share.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) shard: Shard,
    /// Connections being opened at the same time.
    pub(super) gate: Semaphore,
}

impl Worker {
    pub(crate) fn new() -> Self {
        Self { shard: Shard::default(), gate: Semaphore::new(64) }
    }
}
