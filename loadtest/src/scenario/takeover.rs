//! Bots play on a cluster while room nodes are killed or stopped and the store goes away; then every input, grant, rollback and pause is
//! audited.

use std::{
    cell::Cell,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::json;
use tokio::time::sleep;

use super::kill::{check_bots, check_history, check_ledgers};
use crate::{
    args::RunArgs,
    audit::Audit,
    child::scratch,
    cluster::Cluster,
    fleet::Counts,
    report,
    run::{self, Outcome, Setup},
    stats::Times,
    verdict::{self, Verdict},
};

/// The lease of the default configuration, and how long after its end rooms must tick again.
const LEASE: Duration = Duration::from_secs(3);
const AFTER_LEASE: Duration = Duration::from_secs(1);
/// How long a stopped node stands still: three leases.
const STOPPED: Duration = Duration::from_secs(9);
/// How long the store stands still.
const OUTAGE: Duration = Duration::from_secs(10);
/// Rooms play on between two faults, so that each is seen by itself.
const BETWEEN: Duration = Duration::from_secs(6);

/// What was done to the cluster.
#[derive(Debug, Default)]
struct Faults {
    kills: u32,
    cuts: u32,
    stops: u32,
    outages: u32,
    /// Between terms, before the first outage.
    between_terms: Times,
    /// Rollbacks announced while only the store was away: none may be.
    rolled_back_in_outages: u64,
    /// The same, of connections lost.
    lost_in_outages: u64,
}

/// Runs the scenario.
///
/// # Errors
/// When it cannot run; the folder with logs and data is then kept.
pub(crate) async fn run(args: &RunArgs) -> anyhow::Result<u8> {
    let program = args.server_bin.as_deref().context("--scenario takeover needs --server-bin PATH")?;
    let folder = scratch("takeover")?;
    let result = play(args, program, &folder).await;
    match &result {
        Ok(0) => std::fs::remove_dir_all(&folder)?,
        _ => report::say(&format!("note: logs and data are kept in {}", folder.display())),
    }
    result
}

async fn play(args: &RunArgs, program: &Path, folder: &Path) -> anyhow::Result<u8> {
    let mut cluster = Cluster::start(args, program, folder).await?;
    let mut targets = cluster.targets().await?;
    let first = targets.remove(0);
    let args = RunArgs { url: first.url.clone(), ready_file: None, ..args.clone() };
    let setup = Setup { more_targets: targets, ..Setup::new(&args, 0).await? };
    let bar = run::progress();
    let (fleet, joined_in) = run::assemble(&args, &setup, true, &bar).await?;
    let counts = fleet.counts();
    let done = Cell::new(false);
    let disturbing = async {
        let result = disturb(&args, &mut cluster, &counts).await;
        done.set(true);
        result
    };
    let measuring = run::measure(&args, &setup, fleet, joined_in, &bar, |_| !done.get());
    let (faults, outcome) = tokio::join!(disturbing, measuring);
    let (faults, outcome) = (faults?, outcome?);
    bar.finish_and_clear();

    let mut audit = Audit::default();
    let mut verdict = verdict::judge(&args.bounds, &outcome);
    // The audit holds on a busy machine too; only what this machine failed to do makes it void.
    verdict.invalid.retain(|why| why.contains("on this machine itself"));
    check_bots(&args, &outcome, &mut audit, &mut verdict);
    check_moves(&faults, &outcome, &mut verdict);
    let asked = &cluster.gateways.first().context("no gateway")?.launch;
    check_ledgers(asked, &outcome.records, &mut audit).await?;
    check_history(asked, &mut verdict).await?;
    audit.conclude(&mut verdict);
    let bad = cluster.stop().await?;
    verdict.check("members that SIGTERM did not end with 0", bad.is_empty(), format!("{bad:?}"), "none");
    report::say(&format!(
        "  {} kills, {} cuts and {} stops of {} s, {} outages of {} s; appendfsync always; {} inputs, {} grants shown, {} ledger lines audited",
        faults.kills,
        faults.cuts,
        faults.stops,
        STOPPED.as_secs(),
        faults.outages,
        OUTAGE.as_secs(),
        audit.inputs,
        audit.grants,
        audit.lines,
    ));
    let more = json!({
        "kills": faults.kills, "cuts": faults.cuts, "stops": faults.stops, "outages": faults.outages, "nodes": args.nodes,
        "gateways": args.gateways, "appendfsync": "always",
        "between_terms_p99_ms": faults.between_terms.quantile_ms(0.99), "between_terms": faults.between_terms.count(), "audit": audit.json(),
    });
    report::publish(&args, "takeover", &outcome, &verdict, &more)?;
    Ok(verdict.exit_code())
}

/// No socket closes, rooms are back in time, a rollback is told once, and none happens while nobody but the store is away.
fn check_moves(faults: &Faults, outcome: &Outcome, verdict: &mut Verdict) {
    let (stats, counters) = (&outcome.stats, &outcome.stats.counters);
    let bound = (LEASE + AFTER_LEASE).as_secs_f64() * 1000.0;
    let p99 = faults.between_terms.quantile_ms(0.99);
    if faults.kills + faults.stops > 0 {
        verdict.check("rooms tick again, p99", p99 <= bound, format!("{p99:.0} ms"), format!("at most {bound:.0} ms"));
    }
    verdict.check("sockets closed", stats.drop_count() == 0, stats.drop_count(), 0);
    let again = counters.rolled_back_again;
    verdict.check("rollbacks told twice", again == 0, again, 0);
    if faults.kills > 0 {
        verdict.check("terms that began", counters.terms_begun > 0, counters.terms_begun, "some");
    }
    if faults.outages > 0 {
        let (back, lost) = (faults.rolled_back_in_outages, faults.lost_in_outages);
        verdict.check("rollbacks while the store was away", back == 0, back, 0);
        verdict.check("sockets closed while the store was away", lost == 0, lost, 0);
    }
}

/// Does one fault after another, with time to recover between them; afterwards all members run.
async fn disturb(args: &RunArgs, cluster: &mut Cluster, counts: &Counts) -> anyhow::Result<Faults> {
    let mut rng = StdRng::seed_from_u64(args.seed);
    let mut faults = Faults::default();
    sleep(BETWEEN).await;
    for _ in 0..args.kills {
        let nth = rng.random_range(0..cluster.nodes.len());
        let Some(member) = cluster.nodes.get_mut(nth) else { continue };
        if let Some(running) = member.running.take() {
            running.kill().await?;
        }
        faults.kills += 1;
        // The others have taken over before it comes back, or its return would hide a takeover that fails.
        sleep(LEASE + AFTER_LEASE).await;
        member.start().await?;
        sleep(BETWEEN.mul_f64(rng.random_range(0.5..1.5))).await;
    }
    for _ in 0..args.stops {
        let nth = rng.random_range(0..cluster.nodes.len());
        let Some(running) = cluster.nodes.get(nth).and_then(|member| member.running.as_ref()) else { continue };
        running.pause(true)?;
        sleep(STOPPED).await;
        running.pause(false)?;
        faults.stops += 1;
        sleep(BETWEEN).await;
    }
    // A pause that lasts as long as its network is cut, or the store away, has no place among those of takeovers.
    faults.between_terms = counts.terms();
    for _ in 0..args.cuts {
        let nth = rng.random_range(0..cluster.nodes.len());
        let Some(member) = cluster.nodes.get(nth) else { continue };
        // Alternately the store and the gateways cannot be reached from it, and everybody else can.
        let proxy = if faults.cuts.is_multiple_of(2) { &member.store } else { &member.links };
        proxy.hold(true);
        sleep(STOPPED).await;
        proxy.hold(false);
        faults.cuts += 1;
        sleep(BETWEEN).await;
    }
    for _ in 0..args.outages {
        let before = counts.totals();
        cluster.redis.pause(true)?;
        let begin = Instant::now();
        sleep(OUTAGE).await;
        cluster.redis.pause(false)?;
        anyhow::ensure!(begin.elapsed() < OUTAGE * 2, "the outage took {:?}", begin.elapsed());
        sleep(BETWEEN + LEASE).await;
        let after = counts.totals();
        faults.rolled_back_in_outages += after.0 - before.0;
        faults.lost_in_outages += after.1 - before.1;
        faults.outages += 1;
    }
    Ok(faults)
}
