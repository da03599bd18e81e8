//! A fault at each step of a move: one drain each, in which a process is killed, or stands still while another is, just when it comes to that
//! step (the fault points of a development build). Whoever dies is replaced; the audit is that of every cluster.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tokio::time::sleep;

use self::cases::{Act, Case, Side};
use super::with_revision;
use crate::{
    args::RunArgs,
    bot::watch::Watch,
    child::Running,
    cluster::{Cluster, Member},
    fleet::Counts,
    report,
    run::Outcome,
    scenario::on_cluster::{self, Plot},
    verdict::Verdict,
};

mod cases;

/// A new node is known to all by then.
const MIN_READY: Duration = Duration::from_secs(1);
/// Few shards, so that most have a room, and all of them go at once.
const SHARDS: u32 = 8;
/// How long a drain may take to come to the step.
const REACHED: Duration = Duration::from_secs(20);
/// From one look to the next.
const LOOK: Duration = Duration::from_millis(10);
/// How long a killed store is away: well below a lease, so that who stood still meanwhile still has its own.
const AWAY: Duration = Duration::from_millis(300);
/// The lease of the default configuration, and what comes behind its end: the others look, read, and the bots' sockets follow; and a process
/// that takes the place of one that was killed has to start.
const LEASE: Duration = Duration::from_secs(3);
const AFTER_LEASE: Duration = Duration::from_secs(3);
/// A bot that hears nothing for so long is mute.
const SILENCE: Duration = Duration::from_secs(1);
/// How long rooms play on undisturbed before the next one.
const BETWEEN: Duration = Duration::from_millis(1_500);
/// Longest wait for bots that are mute.
const BACK: Duration = Duration::from_secs(30);

/// Runs the scenario.
///
/// # Errors
/// When it cannot run.
pub(super) async fn run(args: &RunArgs, which: &str) -> anyhow::Result<u8> {
    let cases = cases::read(which)?;
    let mut args = RunArgs { nodes: 1, gateways: args.gateways.max(2), ..args.clone() };
    for setting in [format!("shards.count={SHARDS}"), "drain.endpoint_lag=0s".to_owned()] {
        args.server_arg.extend(["--set".to_owned(), setting]);
    }
    args.min_ready = args.min_ready.min(MIN_READY);
    let passes = args.room_count().min(3);
    let rng = StdRng::seed_from_u64(args.seed);
    let mut steps = EachStep { cases, rng, passes, revision: 1, seen: Vec::new(), failed: Vec::new() };
    on_cluster::run(&with_revision(&args, 1), "each-step", &mut steps).await
}

/// What one case led to.
#[derive(Debug)]
struct Seen {
    case: Case,
    /// From SIGTERM to the step; `None` if nobody came there.
    reached: Option<Duration>,
    /// The longest silence of a bot, less what its process was made to stand still.
    silence: Duration,
    rolled_back: u64,
    sockets_lost: u64,
}

struct EachStep {
    cases: Vec<Case>,
    rng: StdRng,
    /// How often a process surely comes to each point in one drain.
    passes: u32,
    /// Of the last node.
    revision: u32,
    seen: Vec<Seen>,
    /// What SIGTERM did not end with 0 in time.
    failed: Vec<String>,
}

impl Plot for EachStep {
    async fn disturb(&mut self, args: &RunArgs, cluster: &mut Cluster, counts: &Counts) -> anyhow::Result<()> {
        sleep(BETWEEN).await;
        // The first one has no fault point armed: an ordinary drain, to one that has.
        let armed = self.arm(0, Side::Source);
        let first = self.start(args, cluster, armed).await?;
        sleep(args.min_ready).await;
        let mut old = cluster.nodes.pop().context("no node")?;
        // Its networks stay until it has ended.
        if !old.running.take().context("the first node has ended")?.stop().await? {
            self.failed.push("the first node".to_owned());
        }
        cluster.nodes.push(first);
        for nth in 0..self.cases.len() {
            let Some(case) = self.cases.get(nth).copied() else { break };
            let seen = self.one(nth, case, args, cluster, counts).await.with_context(|| case.to_string())?;
            report::say(&seen.to_string());
            self.seen.push(seen);
        }
        Ok(())
    }

    fn sockets_may_close(&self) -> bool {
        true
    }

    fn check(&self, outcome: &Outcome, verdict: &mut Verdict) {
        let counters = &outcome.stats.counters;
        let missed: Vec<String> =
            self.seen.iter().filter(|seen| seen.reached.is_none()).map(|seen| seen.case.to_string()).collect();
        verdict.check("steps that nobody came to", missed.is_empty(), format!("{missed:?}"), "none");
        verdict.check("drains that did not end with 0", self.failed.is_empty(), format!("{:?}", self.failed), "none");
        verdict.check("local timers that fired twice", counters.beats_again == 0, counters.beats_again, 0);
        verdict.check("local timers that fired at a wrong tick", counters.beats_wrong == 0, counters.beats_wrong, 0);
        let longest = self.seen.iter().map(|seen| seen.silence).max().unwrap_or_default();
        verdict.check_time(
            "longest silence of a bot after a fault",
            longest.as_secs_f64() * 1000.0,
            (LEASE + AFTER_LEASE).as_secs_f64() * 1000.0,
        );
    }

    fn told(&self) -> (String, Value) {
        let line = format!("{} faults at steps of moves, {} nodes", self.seen.len(), self.revision);
        (line, json!({ "steps": self.seen.iter().map(Seen::json).collect::<Vec<_>>() }))
    }
}

impl EachStep {
    /// What arms the point of a case in a process of this side, if it is of that side.
    fn arm(&mut self, nth: usize, side: Side) -> Option<String> {
        let case = self.cases.get(nth).filter(|case| case.side == side)?;
        // Not always for the first of the shards, or of the rooms.
        Some(case.armed(self.rng.random_range(1..=self.passes)))
    }

    /// A node of a later deploy than all before.
    async fn start(&mut self, args: &RunArgs, cluster: &Cluster, faults: Option<String>) -> anyhow::Result<Member> {
        self.revision += 1;
        cluster.armed_node(&with_revision(args, self.revision), self.revision, faults).await
    }

    async fn one(
        &mut self,
        nth: usize,
        case: Case,
        args: &RunArgs,
        cluster: &mut Cluster,
        counts: &Counts,
    ) -> anyhow::Result<Seen> {
        // Whoever is the target now is the source of the next case.
        let source_next = self.arm(nth + 1, Side::Source);
        let target = self.arm(nth, Side::Target);
        let faults: Vec<String> = target.into_iter().chain(source_next.clone()).collect();
        if let Some(armed) = self.arm(nth, Side::Gateway) {
            self.arm_gateway(cluster, armed, counts).await?;
        }
        let mut new = self.start(args, cluster, (!faults.is_empty()).then(|| faults.join(","))).await?;
        sleep(args.min_ready).await;
        let mut source = cluster.nodes.pop().context("no node")?;
        let mut old = source.running.take().context("the source has ended")?;
        let (totals, begin, ear) = (counts.totals(), Instant::now(), Ear::open(counts.watch.clone()));
        old.ask_to_stop()?;
        let reached = {
            let process = match case.side {
                Side::Source => Some(&old),
                Side::Target => new.running.as_ref(),
                Side::Gateway => cluster.gateways.first().and_then(|gateway| gateway.running.as_ref()),
            };
            come(process.context("it has ended")?, case).await.then(|| begin.elapsed())
        };
        let mut stood = Duration::ZERO;
        let mut dead = Dead::default();
        if reached.is_some() {
            let since = Instant::now();
            self.act(case, &mut old, &mut new, cluster, &mut dead).await?;
            stood = if case.act == Act::KillSelf { Duration::ZERO } else { since.elapsed() };
        }
        for at in std::mem::take(&mut dead.gateways) {
            let gateway = cluster.gateways.get_mut(at).context("no such gateway")?;
            gateway.launch.faults = None;
            gateway.start().await?;
            counts.lead_to(cluster.targets().await?);
        }
        let next = if dead.target {
            drop(new);
            self.start(args, cluster, source_next).await?
        } else {
            new
        };
        cluster.nodes.push(next);
        if !dead.source && !old.ended().await? {
            self.failed.push(case.to_string());
        }
        // Until everybody has heard its room again, and for a while.
        let (since, mut quiet) = (Instant::now(), Instant::now());
        while quiet.elapsed() < BETWEEN && since.elapsed() < BACK {
            if counts.watch.longest_silence() >= SILENCE {
                quiet = Instant::now();
            }
            sleep(LOOK).await;
        }
        drop(source);
        let after = counts.totals();
        Ok(Seen {
            case,
            reached,
            silence: ear.longest().saturating_sub(stood),
            rolled_back: after.0 - totals.0,
            sockets_lost: after.1 - totals.1,
        })
    }

    /// The gateways are started again one after the other, the first one with its point armed: the bots come to it when the others end.
    async fn arm_gateway(&mut self, cluster: &mut Cluster, armed: String, counts: &Counts) -> anyhow::Result<()> {
        let mut armed = Some(armed);
        for nth in 0..cluster.gateways.len() {
            let gateway = cluster.gateways.get_mut(nth).context("no gateway")?;
            if let Some(running) = gateway.running.take() {
                running.kill().await?;
            }
            gateway.launch.faults = armed.take();
            gateway.start().await?;
            gateway.launch.faults = None;
            counts.lead_to(cluster.targets().await?);
            let since = Instant::now();
            while counts.watch.longest_silence() >= SILENCE && since.elapsed() < BACK {
                sleep(LOOK).await;
            }
        }
        sleep(BETWEEN).await;
        Ok(())
    }

    /// Does what is to happen at the step, and lets who stands there go on.
    async fn act(
        &mut self,
        case: Case,
        old: &mut Running,
        new: &mut Member,
        cluster: &mut Cluster,
        dead: &mut Dead,
    ) -> anyhow::Result<()> {
        match (case.act, case.side) {
            (Act::KillSelf, Side::Source) => dead.source = true,
            (Act::KillSelf, Side::Target) => dead.target = true,
            (Act::KillSelf, Side::Gateway) => dead.gateways.push(0),
            (Act::KillOther, Side::Source | Side::Gateway) => {
                new.running.take().context("the target has ended")?.kill().await?;
                dead.target = true;
            }
            (Act::KillOther, Side::Target) => {
                old.kill_now().await?;
                dead.source = true;
            }
            (Act::KillGateway, side) => {
                let at = if side == Side::Gateway { 1 } else { self.rng.random_range(0..cluster.gateways.len()) };
                let gateway = cluster.gateways.get_mut(at).context("no gateway")?;
                gateway.running.take().context("the gateway has ended")?.kill().await?;
                dead.gateways.push(at);
            }
            (Act::RestartStore, _) => cluster.redis.restart(AWAY).await?,
        }
        if case.act != Act::KillSelf {
            match case.side {
                Side::Source => old.pause(false)?,
                Side::Target => new.running.as_ref().context("the target has ended")?.pause(false)?,
                Side::Gateway => {
                    let gateway = cluster.gateways.first().and_then(|gateway| gateway.running.as_ref());
                    gateway.context("the gateway has ended")?.pause(false)?;
                }
            }
        }
        Ok(())
    }
}

/// Hears all the time how long the bot hears nothing that hears nothing for longest.
struct Ear {
    longest: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Ear {
    fn open(watch: Arc<Watch>) -> Self {
        let longest = Arc::<AtomicU64>::default();
        let heard = longest.clone();
        let task = tokio::spawn(async move {
            loop {
                let ms = u64::try_from(watch.longest_silence().as_millis()).unwrap_or(u64::MAX);
                heard.fetch_max(ms, Ordering::Relaxed);
                sleep(LOOK).await;
            }
        });
        Self { longest, task }
    }

    fn longest(&self) -> Duration {
        Duration::from_millis(self.longest.load(Ordering::Relaxed))
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Who died of it.
#[derive(Debug, Default)]
struct Dead {
    source: bool,
    target: bool,
    gateways: Vec<usize>,
}

/// Whether the process comes to the point in time: it has ended there, or stands still.
async fn come(process: &Running, case: Case) -> bool {
    let (since, there) = (Instant::now(), if case.act == Act::KillSelf { 'Z' } else { 'T' });
    while since.elapsed() < REACHED {
        if process.state() == Some(there) {
            return true;
        }
        sleep(LOOK).await;
    }
    false
}

impl Seen {
    fn json(&self) -> Value {
        json!({
            "step": self.case.to_string(), "reached_ms": self.reached.map(|time| time.as_millis() as u64),
            "silence_ms": self.silence.as_millis() as u64, "rolled_back": self.rolled_back, "sockets_lost": self.sockets_lost,
        })
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reached = self.reached.map_or("nobody came there".to_owned(), |time| format!("{} ms", time.as_millis()));
        let (silence, rolled, lost) = (self.silence.as_millis(), self.rolled_back, self.sockets_lost);
        write!(
            f,
            "  {}: reached after {reached}; longest silence {silence} ms, {rolled} rollbacks, {lost} sockets lost",
            self.case
        )
    }
}
