//! What the scenarios on a cluster share: start everything, let bots play while something is done to it, audit, stop everything.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::kill::{check_bots, check_history, check_ledgers, verb};
use crate::{
    args::RunArgs,
    audit::Audit,
    child::{self, scratch},
    cluster::Cluster,
    fleet::Counts,
    redis::Kind,
    report,
    run::{self, Outcome, Setup},
    verdict::{self, Verdict},
};

/// How long daemons may take to be all there behind the last thing that was done, and how often they are looked at.
const DAEMONS: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(250);

/// What is done to the cluster while bots play, and how it is judged.
pub(super) trait Plot {
    /// The store that the cluster has.
    fn store(&self) -> Kind {
        Kind::Always
    }

    /// Whether the store forgets what it acknowledged: then the weaker promises of such a store are audited.
    fn forgets(&self) -> bool {
        false
    }

    /// Does it; afterwards all members run.
    async fn disturb(&mut self, args: &RunArgs, cluster: &mut Cluster, counts: &Counts) -> anyhow::Result<()>;

    /// Adds the checks of its own.
    fn check(&self, outcome: &Outcome, verdict: &mut Verdict);

    /// Whether a socket that closes is no fault of the cluster.
    fn sockets_may_close(&self) -> bool {
        false
    }

    /// Adds checks of what the audit has found.
    fn audited(&self, _outcome: &Outcome, _audit: &Audit, _verdict: &mut Verdict) {}

    /// One line for people, and figures for programs.
    fn told(&self) -> (String, Value);
}

/// Runs a scenario.
///
/// # Errors
/// When it cannot run; the folder with logs and data is then kept.
pub(super) async fn run(args: &RunArgs, name: &str, plot: &mut impl Plot) -> anyhow::Result<u8> {
    let program = args.server_bin.as_deref().with_context(|| format!("--scenario {name} needs --server-bin PATH"))?;
    let folder = scratch(name)?;
    let result = play(args, name, program, &folder, plot).await;
    child::clear(&folder, &result)?;
    result
}

/// Whatever was done to the cluster, in the end every daemon runs.
async fn check_daemons(cluster: &Cluster, verdict: &mut Verdict) -> anyhow::Result<()> {
    let launch = &cluster.nodes.last().context("no node")?.launch;
    let begin = Instant::now();
    loop {
        let (code, text) = verb(launch, &["daemons", "list"]).await?;
        if code == Some(0) || begin.elapsed() > DAEMONS {
            verdict.check("daemons in the end", code == Some(0), text.lines().next().unwrap_or_default(), "all live");
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn play(args: &RunArgs, name: &str, program: &Path, folder: &Path, plot: &mut impl Plot) -> anyhow::Result<u8> {
    let mut cluster = Cluster::start(args, plot.store(), program, folder).await?;
    let mut targets = cluster.targets().await?;
    let first = targets.remove(0);
    let args = RunArgs { url: first.url.clone(), ready_file: None, ..args.clone() };
    let setup = Setup { more_targets: targets, ..Setup::new(&args, 0).await? };
    let bar = run::progress();
    let (fleet, joined_in) = run::assemble(&args, &setup, true, &bar).await?;
    let counts = fleet.counts();
    let disturbing = Box::pin(plot.disturb(&args, &mut cluster, &counts));
    let ((), outcome) = run::measure_during(&args, &setup, fleet, joined_in, &bar, disturbing).await?;

    let mut audit = Audit::new(plot.forgets());
    let mut verdict = verdict::judge_audited(&args.bounds, &outcome);
    check_bots(&args, &outcome, &mut audit, &mut verdict);
    let (stats, counters) = (&outcome.stats, &outcome.stats.counters);
    if !plot.sockets_may_close() {
        verdict.check("sockets closed", stats.drop_count() == 0, stats.drop_count(), 0);
    }
    let again = counters.rolled_back_again;
    verdict.check("rollbacks told twice", again == 0, again, 0);
    plot.check(&outcome, &mut verdict);
    let asked = &cluster.gateways.first().context("no gateway")?.launch;
    check_ledgers(asked, &outcome.records, &mut audit).await?;
    check_history(asked, &mut verdict).await?;
    check_daemons(&cluster, &mut verdict).await?;
    audit.conclude(&mut verdict);
    plot.audited(&outcome, &audit, &mut verdict);
    let bad = cluster.stop().await?;
    verdict.check("members that SIGTERM did not end with 0", bad.is_empty(), format!("{bad:?}"), "none");
    let (line, figures) = plot.told();
    let store = plot.store().name();
    report::say(&format!(
        "  {line}; {store}; {} inputs, {} grants shown, {} ledger lines audited",
        audit.inputs, audit.grants, audit.lines,
    ));
    let more = json!({
        "nodes": args.nodes, "gateways": args.gateways, "store": store, "audit": audit.json(), "plot": figures,
    });
    report::publish(&args, name, &outcome, &verdict, &more)?;
    Ok(verdict.exit_code())
}
