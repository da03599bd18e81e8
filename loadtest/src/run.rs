//! One measured run: ramp, warm-up, measurement second by second, settling.

use std::{
    cell::Cell,
    sync::Arc,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::sleep;

use crate::{
    args::RunArgs,
    bot::{Plan, Record},
    fleet::Fleet,
    host,
    net::Target,
    stats::{Counters, Stats},
};

/// Time between two looks at the figures.
const SECOND: Duration = Duration::from_secs(1);
/// Time for all bots to get a seat after the ramp.
const JOIN_TIME: Duration = Duration::from_secs(60);
/// Time for the last inputs to be shown; for an audit to be saved and counted.
const SETTLE_TIME: Duration = Duration::from_secs(5);
const AUDIT_TIME: Duration = Duration::from_secs(60);

/// The figures of one second.
#[derive(Clone, Debug)]
pub(crate) struct Second {
    /// Since the start of the measurement, s.
    pub(crate) at: f64,
    pub(crate) playing: u64,
    pub(crate) frames: f64,
    pub(crate) megabytes: f64,
    pub(crate) inputs: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) drops: u64,
    pub(crate) server_cpu: Option<f64>,
    pub(crate) server_rss: Option<f64>,
}

/// Everything a run found out.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) players: u32,
    pub(crate) rooms: u32,
    pub(crate) threads: u32,
    /// Time from the start to the last join.
    pub(crate) joined_in: Duration,
    /// Time measured.
    pub(crate) window: Duration,
    /// Counted while measuring.
    pub(crate) counters: Counters,
    /// Counted in all, with the times that were measured.
    pub(crate) stats: Stats,
    /// Sum over the seconds of bots in a room.
    pub(crate) player_seconds: f64,
    pub(crate) seconds: Vec<Second>,
    /// CPU time of the server while measuring, s.
    pub(crate) server_cpu: Option<f64>,
    /// Largest memory of the server seen, MiB.
    pub(crate) server_rss: Option<f64>,
    /// CPU time of the bots while measuring, s.
    pub(crate) own_cpu: f64,
    /// Processor time of the machine that was idle while measuring, 0 to 1.
    pub(crate) idle: Option<f64>,
    pub(crate) records: Vec<Record>,
}

/// What a run is about, resolved.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) target: Target,
    /// Further gateways of the same cluster.
    pub(crate) more_targets: Vec<Target>,
    pub(crate) pid: Option<u32>,
    pub(crate) threads: u32,
}

impl Setup {
    /// Finds the server and makes room for the sockets.
    ///
    /// # Errors
    /// When the address makes no sense or the file limit is too low.
    pub(crate) async fn new(args: &RunArgs, more_sockets: u32) -> anyhow::Result<Self> {
        let (url, pid) = match &args.ready_file {
            Some(file) => ready(&std::fs::read_to_string(file)?)?,
            None => (args.url.clone(), None),
        };
        let target = Target::resolve(&url).await?;
        host::raise_file_limit(args.players + more_sockets).map_err(anyhow::Error::msg)?;
        let all = host::processors();
        let default = if target.is_loopback() { (all / 2).max(1) } else { all };
        Ok(Self {
            target,
            more_targets: Vec::new(),
            pid: args.pid.or(pid),
            threads: args.threads.unwrap_or(default).min(args.players),
        })
    }
}

/// Address and process id out of a ready file.
pub(crate) fn ready(text: &str) -> anyhow::Result<(String, Option<u32>)> {
    let file: serde_json::Value = serde_json::from_str(text)?;
    let play = file["play"].as_str().ok_or_else(|| anyhow::anyhow!("the ready file has no text \"play\""))?;
    let base = match play.split_once("://") {
        Some((_, rest)) => rest.split('/').next().unwrap_or_default(),
        None => play,
    };
    let pid = file["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    Ok((format!("ws://{base}/ws"), pid))
}

/// Shows what happens where a terminal is watching.
pub(crate) fn progress() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}") {
        bar.set_style(style);
    }
    bar
}

/// Starts the bots and waits until all have a seat or gave up.
///
/// # Errors
/// When a bot found that the run makes no sense, or nobody got a seat.
pub(crate) async fn assemble(
    args: &RunArgs,
    setup: &Setup,
    audit: bool,
    bar: &ProgressBar,
) -> anyhow::Result<(Fleet, Duration)> {
    let targets = std::iter::once(&setup.target).chain(&setup.more_targets).cloned().collect();
    let plan = Arc::new(Plan::new(targets, args, audit));
    let started = Instant::now();
    let fleet = Fleet::start(plan, args.players, setup.threads, args.ramp_time())?;
    loop {
        sleep(Duration::from_millis(100)).await;
        let stats = fleet.stats();
        let counters = &stats.counters;
        bar.set_message(format!("joining: {} of {}, {} lost", counters.joins, args.players, stats.drop_count()));
        bar.tick();
        if let Some(text) = fleet.plan.fatal().map(str::to_owned) {
            fleet.finish().await?;
            anyhow::bail!(text);
        }
        if counters.joins + counters.gave_up >= u64::from(args.players) {
            break;
        }
        if started.elapsed() > args.ramp_time() + JOIN_TIME {
            if counters.joins == 0 {
                let why: Vec<_> = stats.drops.keys().chain(stats.own_failures.keys()).cloned().collect();
                fleet.finish().await?;
                anyhow::bail!("no bot got a seat: {}", why.join(", "));
            }
            break;
        }
    }
    Ok((fleet, started.elapsed()))
}

/// Cumulative figures at one moment.
struct Mark {
    at: Instant,
    counters: Counters,
    drops: u64,
    server_cpu: Option<f64>,
    own_cpu: f64,
    machine: Option<(f64, f64)>,
}

fn mark(fleet: &Fleet, pid: Option<u32>) -> (Mark, u64) {
    let stats = fleet.stats();
    let mark = Mark {
        at: Instant::now(),
        drops: stats.drop_count(),
        counters: stats.counters,
        server_cpu: pid.and_then(host::process_cpu),
        own_cpu: host::process_cpu(std::process::id()).unwrap_or(0.0),
        machine: host::machine_cpu(),
    };
    (mark, stats.playing)
}

/// Measures while something is done to the server, until that has ended. Gives what that came to, and what was measured.
///
/// # Errors
/// Those of `disturbing`, and of [`measure`].
pub(crate) async fn measure_during<T>(
    args: &RunArgs,
    setup: &Setup,
    fleet: Fleet,
    joined_in: Duration,
    bar: &ProgressBar,
    disturbing: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<(T, Outcome)> {
    let done = Cell::new(false);
    let disturbing = async {
        let result = disturbing.await;
        done.set(true);
        result
    };
    let measuring = measure(args, setup, fleet, joined_in, bar, |_| !done.get());
    let (disturbed, outcome) = tokio::join!(disturbing, measuring);
    let both = (disturbed?, outcome?);
    bar.finish_and_clear();
    Ok(both)
}

/// Measures while `going` says so of the time measured, then lets the bots settle and leave.
///
/// # Errors
/// When a thread of bots failed, or a bot found that the run makes no sense.
pub(crate) async fn measure(
    args: &RunArgs,
    setup: &Setup,
    fleet: Fleet,
    joined_in: Duration,
    bar: &ProgressBar,
    going: impl Fn(Duration) -> bool,
) -> anyhow::Result<Outcome> {
    sleep(args.warmup).await;
    fleet.take_recent();
    fleet.measure(true);
    let (start, _) = mark(&fleet, setup.pid);
    let (mut seconds, mut server_rss, mut player_seconds) = (Vec::new(), None::<f64>, 0.0);
    let (mut last_at, mut last, mut last_drops, mut last_cpu) =
        (start.at, start.counters.clone(), start.drops, start.server_cpu);
    while going(start.at.elapsed()) {
        // Who goes on for longer than the time that was asked for is looked at each second all the same.
        let left = args.duration.checked_sub(start.at.elapsed()).map_or(SECOND, |left| left.max(SECOND / 10));
        sleep(left.min(SECOND)).await;
        let (now, playing) = mark(&fleet, setup.pid);
        let took = now.at.saturating_duration_since(last_at).as_secs_f64().max(0.001);
        let (new, recent) = (now.counters.since(&last), fleet.take_recent());
        let rss = setup.pid.and_then(host::process_rss);
        server_rss = server_rss.into_iter().chain(rss).reduce(f64::max);
        player_seconds += playing as f64 * took;
        let second = Second {
            at: now.at.saturating_duration_since(start.at).as_secs_f64(),
            playing,
            frames: new.frames as f64 / took,
            megabytes: new.bytes as f64 / took / 1e6,
            inputs: (new.sent + new.sent_again) as f64 / took,
            p50: recent.quantile_ms(0.5),
            p99: recent.quantile_ms(0.99),
            drops: now.drops - last_drops,
            server_cpu: now.server_cpu.zip(last_cpu).map(|(now, then)| (now - then) / took),
            server_rss: rss,
        };
        bar.set_message(format!(
            "{} of {} playing, {:.0} frames/s, p50 {:.1} ms, p99 {:.1} ms, {} lost",
            playing, args.players, second.frames, second.p50, second.p99, now.drops
        ));
        bar.tick();
        (last_at, last, last_drops, last_cpu) = (now.at, now.counters, now.drops, now.server_cpu);
        seconds.push(second);
    }
    let (end, _) = mark(&fleet, setup.pid);
    fleet.measure(false);
    fleet.settle(if fleet.plan.audit { AUDIT_TIME } else { SETTLE_TIME }).await;
    let idle = end.machine.zip(start.machine).map(|(now, then)| (now.0 - then.0) / (now.1 - then.1).max(0.01));
    let fatal = fleet.plan.fatal().map(str::to_owned);
    let (rooms, players) = (fleet.plan.rooms, fleet.players);
    let (stats, records) = fleet.finish().await?;
    anyhow::ensure!(fatal.is_none(), fatal.unwrap_or_default());
    Ok(Outcome {
        players,
        rooms,
        threads: setup.threads,
        joined_in,
        window: end.at.saturating_duration_since(start.at),
        counters: end.counters.since(&start.counters),
        stats,
        player_seconds,
        seconds,
        server_cpu: end.server_cpu.zip(start.server_cpu).map(|(now, then)| now - then),
        server_rss,
        own_cpu: end.own_cpu - start.own_cpu,
        idle,
        records,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_files_are_read_with_addresses_and_urls() {
        let of = |text: &str| ready(text).expect("valid");
        assert_eq!(of(r#"{"play":"127.0.0.1:7001","pid":42}"#), ("ws://127.0.0.1:7001/ws".to_owned(), Some(42)));
        assert_eq!(of(r#"{"play":"http://127.0.0.1:7001/"}"#), ("ws://127.0.0.1:7001/ws".to_owned(), None));
        assert!(ready("{}").is_err());
    }
}
