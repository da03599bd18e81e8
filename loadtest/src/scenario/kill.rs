//! Bots play while the server is killed (SIGKILL) and started again; then every input and every grant is audited.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{process::Command, time::sleep};

use crate::{
    args::RunArgs,
    audit::{self, Audit},
    bot::Record,
    child::{self, Launch, Running, scratch},
    report,
    run::{self, Outcome, Setup},
    verdict,
};

/// Shortest mean time between a start and the next kill.
const LIFE: Duration = Duration::from_secs(2);
/// Most lines of one ledger that are read.
const LINES: usize = 1000;
/// How often, and after which time, a ledger that could not be read is asked for again.
const ASKED_AGAIN: u32 = 5;
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Runs the scenario.
///
/// # Errors
/// When it cannot run; the folder with the server's log and data is then kept.
pub(crate) async fn run(args: &RunArgs) -> anyhow::Result<u8> {
    let program = args.server_bin.as_deref().context("--scenario kill needs --server-bin PATH")?;
    let folder = scratch("kill")?;
    // The same port each time, so that bots come back.
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let launch = Launch::server(program, &folder, port, &args.server_arg);
    let result = play(args, &launch, &folder).await;
    child::clear(&folder, &result)?;
    result
}

async fn play(args: &RunArgs, launch: &Launch, folder: &Path) -> anyhow::Result<u8> {
    let server = launch.start().await?;
    let args = RunArgs { url: server.url.clone(), ready_file: None, ..args.clone() };
    let setup = Setup::new(&args, 0).await?;
    let bar = run::progress();
    let (fleet, joined_in) = run::assemble(&args, &setup, true, &bar).await?;
    let killing = Box::pin(keep_killing(&args, launch, server));
    let ((server, down), outcome) = run::measure_during(&args, &setup, fleet, joined_in, &bar, killing).await?;

    let mut audit = Audit::default();
    let mut verdict = verdict::judge_audited(&args.bounds, &outcome);
    check_bots(&args, &outcome, &mut audit, &mut verdict);
    check_ledgers(launch, &outcome.records, &mut audit).await?;
    check_history(launch, &mut verdict).await?;
    audit.conclude(&mut verdict);
    verdict.check("SIGTERM ends the server with 0", server.stop().await?, "see the log", "exit code 0");
    let longest = down.iter().max().copied().unwrap_or_default().as_secs_f64();
    report::say(&format!(
        "  {} kills, ready again after {longest:.2} s at most; {} inputs, {} grants shown, {} ledger lines audited ({})",
        down.len(),
        audit.inputs,
        audit.grants,
        audit.lines,
        folder.display()
    ));
    let more = json!({ "kills": down.len(), "longest_restart_s": longest, "audit": audit.json() });
    report::publish(&args, "kill", &outcome, &verdict, &more)?;
    Ok(verdict.exit_code())
}

/// Kills and starts the server until it has been done often enough; returns the last one and how long each start took.
async fn keep_killing(args: &RunArgs, launch: &Launch, server: Running) -> anyhow::Result<(Running, Vec<Duration>)> {
    let mut rng = StdRng::seed_from_u64(args.seed);
    let life = (args.duration / args.kills).max(LIFE);
    let (mut server, mut down) = (server, Vec::new());
    for _ in 0..args.kills {
        sleep(life.mul_f64(rng.random_range(0.5..1.5))).await;
        server.kill().await?;
        let begin = Instant::now();
        server = launch.start().await?;
        down.push(begin.elapsed());
    }
    sleep(life).await;
    Ok((server, down))
}

pub(super) fn check_bots(args: &RunArgs, outcome: &Outcome, audit: &mut Audit, verdict: &mut verdict::Verdict) {
    outcome.records.iter().for_each(|record| audit.inputs(record));
    let counters = &outcome.stats.counters;
    verdict.check("seats lost", counters.seats_lost == 0, counters.seats_lost, 0);
    verdict.check("bots that gave up", counters.gave_up == 0, counters.gave_up, 0);
    let missing = u64::from(args.players) - (outcome.records.len() as u64).min(u64::from(args.players));
    verdict.check("bots without a record", missing == 0, missing, 0);
    let joined = counters.joins >= u64::from(args.players);
    verdict.check("bots in a room", joined, counters.joins, args.players);
}

pub(super) async fn check_ledgers(launch: &Launch, records: &[Record], audit: &mut Audit) -> anyhow::Result<()> {
    for record in records {
        let Some(player) = &record.player else { continue };
        let limit = LINES.to_string();
        let words = ["ledger", "show", player.as_str(), "--json", "--limit", &limit];
        let mut output = verb(launch, &words).await?;
        // A store that was asked while the machine stood still answers the next time.
        for _ in 0..ASKED_AGAIN {
            if output.0 == Some(0) {
                break;
            }
            sleep(ASK_AGAIN).await;
            output = verb(launch, &words).await?;
        }
        anyhow::ensure!(output.0 == Some(0), "ledger show {player}: {}", output.1);
        let ledger = audit::ledger(&output.1, LINES)?;
        audit.grants(player.as_str(), &record.grants, &ledger);
        audit.ledgers.insert(player.to_string(), ledger);
    }
    Ok(())
}

/// One owner per term, terms grow, each item done once: the server's own records must say so.
pub(super) async fn check_history(launch: &Launch, verdict: &mut verdict::Verdict) -> anyhow::Result<()> {
    let (code, output) = verb(launch, &["history", "check", "--json"]).await?;
    let problems = serde_json::from_str::<Value>(&output).map(|report| report["problems"].to_string());
    verdict.check("history check", code == Some(0), problems.unwrap_or(output), "no problem");
    Ok(())
}

/// Runs a command of the server's binary on the running server: (exit code, output).
pub(super) async fn verb(launch: &Launch, words: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    let mut command = Command::new(&launch.program);
    // The settings of `serve`, so that the command finds server and data.
    command.args(words).args(launch.args.iter().skip(1)).kill_on_drop(true);
    let output = command.output().await.with_context(|| format!("cannot run {}", launch.program.display()))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        text += &String::from_utf8_lossy(&output.stderr);
    }
    Ok((output.status.code(), text.trim().to_owned()))
}
