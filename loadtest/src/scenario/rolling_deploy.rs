//! Every process is replaced while bots play, as a rolling update does it: a new one first, then SIGTERM to the old one. On demand in the
//! middle of it something is killed, or the store goes away.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Value, json};
use tokio::time::sleep;

use self::{
    memory::Memory,
    timeline::{Disturbance, Kind, Timeline},
};
use super::{
    kill,
    on_cluster::{self, Plot},
};
use crate::{
    args::RunArgs,
    audit::Audit,
    child::scratch,
    cluster::Cluster,
    fleet::Counts,
    host,
    owners::Owners,
    report,
    run::Outcome,
    stats::Times,
    verdict::{self, Verdict},
};

mod each_step;
mod memory;
mod steps;
mod timeline;

/// Time between two occurrences of the schedule that pays everybody.
const CHEST: Duration = Duration::from_secs(2);
/// The lease of the default configuration, and how long after its end rooms must tick again.
const LEASE: Duration = Duration::from_secs(3);
const AFTER_LEASE: Duration = Duration::from_secs(1);
/// How long the store stands still: longer than a lease.
const OUTAGE: Duration = Duration::from_secs(5);
/// The same for shorter than a lease and longer than a call waits, so that answers of transfers get lost; and how long rooms may stand still then.
const HICCUP: Duration = Duration::from_millis(900);
const AFTER_HICCUP: Duration = Duration::from_millis(1_500);
/// Share of the time between two replacements in which nothing moves any more: there the machine's idleness is measured.
const QUIET: f64 = 0.5;
/// Most a shard may move on average in a deploy, a rollback included.
const MOVES: f64 = 1.2;

/// Runs the scenario.
///
/// # Errors
/// When it cannot run.
pub(crate) async fn run(args: &RunArgs) -> anyhow::Result<u8> {
    let folder = scratch("rolling-deploy-rewards")?;
    let rewards = folder.join("rewards.toml");
    let schedule = format!(
        "# What the audit of a rolling deploy looks at.\n[[schedule]]\nid = \"chest\"\nevery = \"{}s\"\nrooms = \"{}/*/*\"\n\
         audience = \"present\"\ngrant = {{ gold = 1 }}\ncatch_up = \"all\"\n",
        CHEST.as_secs(),
        args.kind
    );
    report::write(&rewards, &schedule)?;
    let mut args = args.clone();
    args.server_arg.extend(["--set".to_owned(), format!("rewards.file={}", rewards.display())]);
    if let Some(which) = &args.at_each_step {
        let result = each_step::run(&args, which).await;
        std::fs::remove_dir_all(&folder)?;
        return result;
    }
    let result = match Deploys::new(&args) {
        Ok(mut deploys) => on_cluster::run(&with_revision(&args, 1), "rolling-deploy", &mut deploys).await,
        Err(why) => Err(why),
    };
    std::fs::remove_dir_all(&folder)?;
    result
}

/// The nodes that are started with these belong to a later deploy than those of a lower number.
fn with_revision(args: &RunArgs, revision: u32) -> RunArgs {
    let mut args = args.clone();
    args.server_arg.extend(["--set".to_owned(), format!("node.revision={revision}")]);
    args
}

/// What happens in the middle of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    KillSource,
    KillTarget,
    KillGateway,
    Outage,
    Hiccup,
    Restart,
}

/// What was replaced, what happened meanwhile, and what was seen of it.
struct Deploys {
    rng: StdRng,
    /// For each replacement of room nodes still to come, last first, what is to happen in it.
    faults: Vec<Option<Fault>>,
    started: Instant,
    /// Numbers of the last node and gateway.
    named: (u32, u32),
    replaced: u32,
    gateways_replaced: u32,
    /// Processes that SIGTERM did not end with 0 in time.
    failed: u32,
    slowest_drain: Duration,
    disturbances: Vec<Disturbance>,
    owners: Option<Owners>,
    /// Moves per shard, by deploy.
    moves: Vec<f64>,
    memory: Memory,
    /// Idle and all processor time, s, and the bots' lag, while nothing moved.
    quiet: (f64, f64, Times),
    timeline: Timeline,
    told: Value,
    with_gateways: bool,
    max_growth: Option<f64>,
    move_bounds: [(&'static str, f64, Option<f64>); 2],
}

impl Deploys {
    fn new(args: &RunArgs) -> anyhow::Result<Self> {
        let mut rng = StdRng::seed_from_u64(args.seed);
        let steps = (args.deploys * args.nodes.div_ceil(args.at_once)) as usize;
        let kills = [Fault::KillSource, Fault::KillTarget, Fault::KillGateway].into_iter().cycle();
        let mut faults: Vec<_> = kills.take(args.kills as usize).map(Some).collect();
        faults.extend((0..args.outages).map(|_| Some(Fault::Outage)));
        faults.extend((0..args.hiccups).map(|_| Some(Fault::Hiccup)));
        faults.extend((0..args.restarts).map(|_| Some(Fault::Restart)));
        anyhow::ensure!(
            faults.len() <= steps,
            "{} faults do not fit: one in each of the {steps} replacements of nodes",
            faults.len()
        );
        faults.resize(steps, None);
        faults.shuffle(&mut rng);
        Ok(Self {
            rng,
            faults,
            started: Instant::now(),
            named: (args.nodes, args.gateways),
            replaced: 0,
            gateways_replaced: 0,
            failed: 0,
            slowest_drain: Duration::ZERO,
            disturbances: Vec::new(),
            owners: None,
            moves: Vec::new(),
            memory: Memory::default(),
            quiet: (0.0, 0.0, Times::default()),
            timeline: Timeline::default(),
            told: Value::Null,
            with_gateways: args.with_gateways,
            max_growth: args.bounds.max_growth,
            move_bounds: [("p50", 0.5, args.bounds.max_move_p50), ("p99", 0.99, args.bounds.max_move_p99)],
        })
    }

    /// Rooms play on; in the second half of the time nothing moves any more, and what the machine does then is noted.
    async fn play_on(&mut self, time: Duration, counts: &Counts) {
        sleep(time.mul_f64(1.0 - QUIET)).await;
        counts.take_lag();
        let before = host::machine_cpu();
        sleep(time.mul_f64(QUIET)).await;
        if let Some((now, then)) = host::machine_cpu().zip(before) {
            self.quiet.0 += now.0 - then.0;
            self.quiet.1 += now.1 - then.1;
        }
        self.quiet.2.add(&counts.take_lag());
    }

    fn undisturbed(&self) -> bool {
        self.disturbances.is_empty()
    }

    fn kills_gateways(&self) -> bool {
        self.disturbances.iter().any(|one| one.what == steps::GATEWAY_KILLED)
    }
}

/// Shards that went from one owner to another so far, per shard.
async fn moves_so_far(cluster: &Cluster) -> anyhow::Result<f64> {
    // Not a gateway: their memory is measured, and this reads the histories of all shards.
    let launch = &cluster.nodes.last().context("no node")?.launch;
    let (code, output) = kill::verb(launch, &["history", "check", "--json"]).await?;
    anyhow::ensure!(code == Some(0), "history check: {output}");
    let report: Value = serde_json::from_str(&output)?;
    let (moves, shards) =
        report["moves"].as_f64().zip(report["shards"].as_f64()).context("history check tells no moves")?;
    Ok(moves / shards.max(1.0))
}

impl Plot for Deploys {
    async fn disturb(&mut self, args: &RunArgs, cluster: &mut Cluster, counts: &Counts) -> anyhow::Result<()> {
        self.started = Instant::now();
        self.owners = Some(Owners::watch(steps::admin_ports(cluster)));
        self.play_on(args.between, counts).await;
        let programs = [args.to_bin.clone().unwrap_or_else(|| cluster.program.clone()), cluster.program.clone()];
        let mut before = moves_so_far(cluster).await?;
        for (deploy, program) in (2..).zip(programs.iter().cycle()).take(args.deploys as usize) {
            // Forth and back between the two versions; the way back has a higher number too.
            cluster.program.clone_from(program);
            self.deploy(&with_revision(args, deploy), cluster, counts).await?;
            let now = moves_so_far(cluster).await?;
            self.moves.push(now - before);
            before = now;
        }
        let (seen, rollbacks) = counts.switches();
        self.timeline = Timeline::new(&seen, &rollbacks, &self.disturbances);
        if let Some(owners) = self.owners.take() {
            self.told = self.timeline.json(args, &owners, self.started);
        }
        Ok(())
    }

    fn sockets_may_close(&self) -> bool {
        self.kills_gateways()
    }

    fn check(&self, outcome: &Outcome, verdict: &mut Verdict) {
        let counters = &outcome.stats.counters;
        verdict.busy.extend(verdict::busy(Some(self.quiet.0 / self.quiet.1.max(0.01)), &self.quiet.2));
        verdict.check("processes that SIGTERM did not end with 0", self.failed == 0, self.failed, 0);
        let [planned, takeovers] = [Kind::Planned, Kind::Takeover].map(|kind| self.timeline.count(kind));
        verdict.check("moves seen", planned > 0, planned, "some");
        if self.undisturbed() {
            verdict.check("rollbacks in planned moves", counters.rolled_back == 0, counters.rolled_back, 0);
            let mean = self.moves.iter().sum::<f64>() / self.moves.len().max(1) as f64;
            verdict.check(
                "moves per shard and deploy",
                mean <= MOVES,
                format!("{mean:.2}"),
                format!("at most {MOVES}"),
            );
        } else {
            let mut hurt = self.timeline.worst(Kind::Takeover);
            hurt.add(&self.timeline.worst(Kind::Disturbed));
            let away =
                if self.disturbances.iter().any(|d| d.what == steps::STORE_AWAY) { OUTAGE } else { Duration::ZERO };
            let bound = if self.disturbances.iter().all(|d| d.what == steps::HICCUP_OF_STORE) {
                HICCUP + AFTER_HICCUP
            } else {
                LEASE + AFTER_LEASE + away
            };
            verdict.check_time("pauses after faults", hurt.max_ms(), bound.as_secs_f64() * 1000.0);
            let near = |at: Instant| self.disturbances.iter().any(|d| d.from <= at && at <= d.until);
            let all = self.timeline.moves.iter().filter(|one| one.kind == Kind::Takeover);
            let strange = all.filter(|one| !near(one.at)).count();
            verdict.check("takeovers that no fault explains", strange == 0, format!("{strange} of {takeovers}"), 0);
        }
        if !self.sockets_may_close() {
            let early = counters.closed_early;
            verdict.check("sockets closed before their seat was elsewhere", early == 0, early, 0);
        }
        verdict.check("local timers that fired", counters.beats > 0, counters.beats, "some");
        verdict.check("local timers that fired twice", counters.beats_again == 0, counters.beats_again, 0);
        verdict.check("local timers that fired at a wrong tick", counters.beats_wrong == 0, counters.beats_wrong, 0);
        if self.undisturbed() {
            verdict.check("local timers' fires not shown", counters.beats_unseen == 0, counters.beats_unseen, 0);
        }
        let pauses = self.timeline.pauses(Kind::Planned);
        for (name, share, bound) in self.move_bounds {
            if let Some(bound) = bound {
                verdict.check_time(&format!("pause of a move beyond a tick, {name}"), pauses.quantile_ms(share), bound);
            }
        }
        if let Some(bound) = self.max_growth {
            let (nodes, gateways) = self.memory.growth();
            for (name, growth) in [("nodes", nodes), ("gateways", gateways)] {
                let Some(growth) = growth.filter(|_| name == "nodes" || !self.with_gateways) else { continue };
                let found = format!("{growth:.1} %");
                verdict.check(&format!("memory of {name} grows"), growth <= bound, found, format!("at most {bound} %"));
            }
        }
    }

    fn audited(&self, outcome: &Outcome, audit: &Audit, verdict: &mut Verdict) {
        // Who is not connected when a chest opens gets nothing of it.
        if self.undisturbed() && outcome.stats.counters.resumes == 0 {
            verdict.check("occurrences of the schedule skipped", audit.skipped == 0, audit.skipped, 0);
        }
    }

    fn told(&self) -> (String, Value) {
        let pauses = [Kind::Planned, Kind::Disturbed, Kind::Takeover].map(|kind| {
            let (all, worst) = (self.timeline.pauses(kind), self.timeline.worst(kind));
            json!({ "moves": self.timeline.count(kind), "by_bot_ms": report::times(&all), "by_room_worst_bot_ms": report::times(&worst) })
        });
        let planned = self.timeline.pauses(Kind::Planned);
        let mut line = format!(
            "{} nodes and {} gateways replaced, slowest in {:.1} s; pause of a planned move beyond a tick p50 {:.0} ms, p99 {:.0} ms, max {:.0} ms \
             ({} moves of rooms, {} views); moves per shard by deploy {:.2?}",
            self.replaced,
            self.gateways_replaced,
            self.slowest_drain.as_secs_f64(),
            planned.quantile_ms(0.5),
            planned.quantile_ms(0.99),
            planned.max_ms(),
            self.timeline.count(Kind::Planned),
            planned.count(),
            self.moves,
        );
        if !self.undisturbed() {
            let faults: Vec<_> = self.disturbances.iter().map(|one| one.what.as_str()).collect();
            let [disturbed, takeovers] = [Kind::Disturbed, Kind::Takeover].map(|kind| self.timeline.worst(kind));
            line += &format!(
                "; {}: {} moves disturbed, longest {:.0} ms, {} takeovers, longest {:.0} ms",
                faults.join(", "),
                disturbed.count(),
                disturbed.max_ms(),
                takeovers.count(),
                takeovers.max_ms()
            );
        }
        let since = |at: Instant| at.saturating_duration_since(self.started).as_secs_f64();
        let faults: Vec<_> =
            self.disturbances.iter().map(|one| json!({ "what": one.what, "at_s": since(one.from) })).collect();
        let [planned, disturbed, takeover] = pauses;
        let figures = json!({
            "replaced": self.replaced, "gateways_replaced": self.gateways_replaced, "failed": self.failed,
            "slowest_drain_s": self.slowest_drain.as_secs_f64(), "moves_per_shard": self.moves, "faults": faults,
            "planned": planned, "disturbed": disturbed, "takeover": takeover, "memory": self.memory.json(),
            "quiet": { "idle_percent": 100.0 * self.quiet.0 / self.quiet.1.max(0.01), "own_lag_ms": report::times(&self.quiet.2) },
            "timeline": self.told,
        });
        (line, figures)
    }
}
