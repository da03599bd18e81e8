//! Players come, stay for a few seconds and go, as fast as is asked for, and the coordinator of the region finds rooms for them; some cut
//! their socket while they wait. In the middle of it every room node is replaced. Then rooms and players are compared.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde_json::json;
use tokio::time::{sleep, sleep_until, timeout};

use self::{
    lobby::{Listed, Lobby},
    seen::Seen,
    visitor::{Manner, Visitors},
};
use crate::{
    args::RunArgs,
    child::{self, scratch},
    cluster::Cluster,
    host,
    redis::Kind,
    report,
    verdict::{self, Verdict},
};

mod lobby;
mod seen;
mod visitor;

/// Seconds' worth of players who come first, all at once filling rooms one after another, and stay to the end.
const FIRST: u32 = 1;
/// Players at the end who must find the free seats that there are.
const LAST: u32 = 20;
/// How long a seat may be kept for somebody who does not come; and the grace of one who has lost his socket.
const SETTLE: Duration = Duration::from_secs(14);
const GRACE: Duration = Duration::from_secs(5);
/// Longest time until everybody who comes first has a seat, and until everybody who goes is gone.
const ALL_HERE: Duration = Duration::from_secs(30);
/// Between two looks at the list of rooms.
const LOOK: Duration = Duration::from_millis(500);
/// How long after the end of a node what it did is still felt.
const AFTER_MOVE: Duration = Duration::from_secs(1);

/// Runs the scenario.
///
/// # Errors
/// When it cannot run; the folder with logs and data is then kept.
pub(crate) async fn run(args: &RunArgs) -> anyhow::Result<u8> {
    let program = args.server_bin.as_deref().context("--scenario matchmaking needs --server-bin PATH")?;
    let mut args = args.clone();
    for setting in [
        format!("daemons.regions=[\"{}\"]", args.region),
        format!("node.region={}", args.region),
        format!("room.reconnect_grace={}s", GRACE.as_secs()),
        "gateway.creates_per_minute=60".to_owned(),
    ] {
        args.server_arg.extend(["--set".to_owned(), setting]);
    }
    let folder = scratch("matchmaking")?;
    let cluster = Cluster::start(&args, Kind::Always, program, &folder).await?;
    let result = play(&args, cluster).await;
    child::clear(&folder, &result)?;
    result
}

async fn play(args: &RunArgs, mut cluster: Cluster) -> anyhow::Result<u8> {
    if let Err(why) = host::raise_file_limit(args.joins_per_second.saturating_mul(10).max(4_000)) {
        report::say(&format!("note: {why}"));
    }
    let targets = cluster.targets().await?;
    let seen = Arc::new(Seen::default());
    let lobby = Lobby::new(targets.first().context("no gateway")?.clone(), &args.kind);
    let visitors = Visitors::new(args, targets, seen.clone());
    let mut verdict = Verdict::default();

    // All of them stay: there are as many rooms as they fill, and not one more.
    let first = args.joins_per_second * FIRST;
    visitors.come(first, Manner::Stay).await;
    drop(timeout(ALL_HERE, visitors.until_seated(u64::from(first))).await);
    sleep(LOOK).await;
    let rooms = lobby.all().await?;
    let most = rooms.iter().map(|room| room.max_seats).max().unwrap_or(1).max(1);
    let needed = first.div_ceil(most) as usize;
    let seats: u32 = rooms.iter().map(|room| room.seats).sum();
    verdict.check("players who came at once and have a seat", seats == first, seats, first);
    verdict.check("rooms that they were given", rooms.len() == needed, rooms.len(), needed);
    rooms.iter().for_each(|room| seen.listed(room));

    // They come and go; in the middle every room node is replaced.
    let begun = Instant::now();
    let cpu = host::machine_cpu();
    let coming = visitors.keep_coming(args.joins_per_second, args.duration);
    let looking = async {
        while begun.elapsed() < args.duration {
            sleep(LOOK).await;
            match lobby.all().await {
                Ok(rooms) => rooms.iter().for_each(|room| seen.listed(room)),
                Err(error) => seen.list_failed(&error),
            }
        }
        anyhow::Ok(())
    };
    let deploying = async {
        sleep(args.duration / 4).await;
        if args.deploys > 0 { replace(args, &mut cluster, &seen).await } else { Ok(0) }
    };
    let ((), looked, failed) = tokio::join!(coming, looking, deploying);
    looked?;
    let failed = failed?;
    let idle = cpu.zip(host::machine_cpu()).map(|(then, now)| (now.0 - then.0) / (now.1 - then.1).max(0.01));
    verdict.check("nodes that SIGTERM did not end with 0", failed == 0, failed, 0);
    drop(timeout(ALL_HERE, visitors.until_gone(u64::from(first))).await);

    // Seats are given back; whoever comes now gets one of them.
    sleep(SETTLE).await;
    let before = lobby.all().await?;
    let free: u32 = before.iter().filter(|room| !room.locked).map(Listed::free).sum();
    let last = LAST.min(free);
    visitors.come(last, Manner::Stay).await;
    drop(timeout(ALL_HERE, visitors.until_seated(u64::from(first + last))).await);
    sleep(LOOK).await;
    let after = lobby.all().await?;
    let new = after.iter().filter(|room| !before.iter().any(|known| known.room == room.room)).count();
    verdict.check("rooms made while seats were free", new == 0, format!("{new} ({free} seats free)"), 0);
    after.iter().for_each(|room| seen.listed(room));
    let held = visitors.seated();
    verdict.check("players at the end who have a seat", held == u64::from(first + last), held, first + last);

    let told = seen.judge(args.bounds.max_p99, &mut verdict);
    verdict.busy.extend(verdict::busy(idle, &visitors.lag()));
    visitors.leave();
    drop(timeout(ALL_HERE, visitors.until_gone(0)).await);
    let bad = cluster.stop().await?;
    verdict.check("members that SIGTERM did not end with 0", bad.is_empty(), format!("{bad:?}"), "none");
    publish(args, &verdict, &told, idle)?;
    Ok(verdict.exit_code())
}

/// Every room node is replaced, as a rolling update does it; how many did not end with 0.
async fn replace(args: &RunArgs, cluster: &mut Cluster, seen: &Seen) -> anyhow::Result<u32> {
    let mut args = args.clone();
    args.server_arg.extend(["--set".to_owned(), "node.revision=2".to_owned()]);
    let (mut failed, mut named) = (0, args.nodes);
    for old in std::mem::take(&mut cluster.nodes) {
        named += 1;
        let new = cluster.node(&args, named).await?;
        cluster.nodes.push(new);
        sleep(args.min_ready).await;
        let began = Instant::now();
        if let Some(running) = old.running {
            failed += u32::from(!running.stop().await?);
        }
        sleep_until((Instant::now() + AFTER_MOVE).into()).await;
        seen.moved(began, Instant::now());
    }
    Ok(failed)
}

fn publish(args: &RunArgs, verdict: &Verdict, told: &seen::Told, idle: Option<f64>) -> anyhow::Result<()> {
    let checks: Vec<_> = verdict
        .checks
        .iter()
        .map(|c| json!({ "name": c.name, "found": c.found, "bound": c.bound, "holds": c.holds }))
        .collect();
    if let Some(file) = &args.json {
        let figures = json!({
            "scenario": "matchmaking", "result": verdict.word(), "exit_code": verdict.exit_code(), "joins_per_second": args.joins_per_second,
            "nodes": args.nodes, "gateways": args.gateways, "machine_idle_percent": idle.map(|idle| idle * 100.0), "checks": checks,
            "busy": verdict.busy, "told": told.json(),
        });
        report::write(file, &serde_json::to_string_pretty(&figures)?)?;
    }
    report::say(&told.text());
    for check in &verdict.checks {
        let word = if check.holds { "ok  " } else { "FAIL" };
        report::say(&format!("  {word} {}: {} ({})", check.name, check.found, check.bound));
    }
    verdict.busy.iter().for_each(|why| report::say(&format!("  INVALID as to times: {why}")));
    report::say(&format!("{} matchmaking: {}", verdict.word(), told.summary()));
    Ok(())
}
