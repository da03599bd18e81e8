//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::redis::Kind;

/// Bots over real WebSockets against a Tenure server.
///
/// Exit code 0: all stated bounds hold. 1: a bound or the audit failed. 2: it could not run, or the machine was too
/// busy for the figures to mean anything.
#[derive(Debug, Parser)]
#[command(name = "loadtest", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the bare baseline: one task and one bounded queue per connection, rooms at 20 Hz, nothing else.
    Baseline(BaselineArgs),
    /// Alternate rounds against a server and against the baseline; print medians and their ratios.
    Compare(CompareArgs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Bots join, steer and measure.
    Play,
    /// Bots play while bad clients attack.
    BadClients,
    /// Bots play while the server is killed and restarted; then every input and grant is audited.
    Kill,
    /// Bots play on a cluster while room nodes are killed or stopped and the store goes away; then everything is audited.
    Takeover,
    /// Bots play on a cluster while its store forgets, fails over, stands still or restarts; then everything that survived is audited.
    StoreFaults,
    /// Bots play on a cluster while hosts of daemons are killed and stopped, and replaced by a build with another number of daemons.
    Daemons,
    /// Bots play on a cluster while every room node is replaced, one after another or two at once; then everything is audited.
    RollingDeploy,
    /// Schedules and due work pay everybody, on one server or a cluster, while its owner dies at the worst moments, the store is restarted
    /// and the file changes; then ledgers, completed work and the rooms' own books are compared.
    Rewards,
    /// Bots come and go all the time, in good order and by cut sockets, in rooms with fewer seats than bots; then seats, sessions, sockets and
    /// memory are looked at.
    Churn,
    /// Players come, stay a little and go, in a cluster whose coordinator finds rooms for them, also while every room node is replaced.
    Matchmaking,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    /// What to do.
    #[arg(long, value_enum, default_value = "play")]
    pub(crate) scenario: Scenario,
    /// Address of the server.
    #[arg(long, default_value = "ws://127.0.0.1:7777/ws")]
    pub(crate) url: String,
    /// File that `serve --ready-file` wrote: gives address and process id, in place of --url.
    #[arg(long)]
    pub(crate) ready_file: Option<PathBuf>,
    /// Process id of the server on this machine, for its CPU and memory.
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// Bots.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) players: u32,
    /// Rooms, named load-0, load-1, …; bots are spread evenly. Default: one per 50 bots, of churn one per 9.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rooms: Option<u32>,
    /// Kind of the rooms. Default of rolling-deploy and rewards: drill, the arena with a local timer that checks itself; quarry has 2,000
    /// entities besides. Default of matchmaking and churn: skirmish, the arena for eight.
    #[arg(
        long,
        default_value = "arena",
        default_value_ifs([
            ("scenario", "rolling-deploy", "drill"),
            ("scenario", "rewards", "drill"),
            ("scenario", "matchmaking", "skirmish"),
            ("scenario", "churn", "skirmish"),
        ])
    )]
    pub(crate) kind: String,
    /// Region of the rooms.
    #[arg(long, default_value = "local")]
    pub(crate) region: String,
    /// Time measured, after all have joined.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Time over which the bots connect. Default: 500 bots a second, at least 2 s.
    #[arg(long, value_parser = duration)]
    pub(crate) ramp: Option<Duration>,
    /// Time between the last join and the first measurement.
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub(crate) warmup: Duration,
    /// Inputs per second and bot.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) input_rate: f64,
    /// Threads of bots. Default: half of the processors for a server on this machine, else all.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: Option<u32>,
    /// Write all figures to this file, as JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with charts to this file.
    #[arg(long)]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
    /// Bad clients (bad-clients).
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) bad: u32,
    /// The server's binary (kill, churn and all scenarios on a cluster).
    #[arg(long)]
    pub(crate) server_bin: Option<PathBuf>,
    /// A further argument for `PATH serve`; may be repeated (kill, churn and all scenarios on a cluster).
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) server_arg: Vec<String>,
    /// How often the server (kill), a room node (takeover, daemons), or in turn source, target and a gateway in the middle of a move (rolling-deploy)
    /// is killed. Default of rolling-deploy: 0.
    #[arg(long, default_value_t = 20, default_value_if("scenario", "rolling-deploy", "0"), value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub(crate) kills: u32,
    /// Room nodes (all scenarios on a cluster).
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=32))]
    pub(crate) nodes: u32,
    /// Gateways (all scenarios on a cluster).
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) gateways: u32,
    /// How often all room nodes are replaced (rolling-deploy; daemons, with --to-bin).
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) deploys: u32,
    /// Nodes replaced at a time (rolling-deploy).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub(crate) at_once: u32,
    /// Replace the gateways as well, one after another (rolling-deploy).
    #[arg(long)]
    pub(crate) with_gateways: bool,
    /// The binary of another version: every other deploy is to it, the ones between go back to --server-bin (rolling-deploy).
    #[arg(long)]
    pub(crate) to_bin: Option<PathBuf>,
    /// Players who come in a second (matchmaking, churn). Default of churn: 40.
    #[arg(long, default_value_t = 200, default_value_if("scenario", "churn", "40"), value_parser = clap::value_parser!(u32).range(1..=2_000))]
    pub(crate) joins_per_second: u32,
    /// How long a new process has been ready when the old one is told to go, as minReadySeconds (rolling-deploy, matchmaking).
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub(crate) min_ready: Duration,
    /// How long rooms play between two replacements (rolling-deploy).
    #[arg(long, default_value = "4s", value_parser = duration)]
    pub(crate) between: Duration,
    /// In place of whole deploys: drains with a fault at one step of a move each. `all`, `few`, or POINT=ACT[,POINT=ACT…], where either may be
    /// left out; --server-bin must be a development build. Acts: kill-self, kill-other, kill-gateway, restart-store (rolling-deploy).
    #[arg(long, value_name = "WHICH", num_args = 0..=1, default_missing_value = "all")]
    pub(crate) at_each_step: Option<String>,
    /// How often a room node is stopped (SIGSTOP) for three leases and goes on (takeover), or for one to three (daemons).
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) stops: u32,
    /// How often a room node is cut off for three leases, in turn from the store, from all gateways and from one of them (takeover).
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) cuts: u32,
    /// How often the store stands still for 10 s (takeover), or for 5 s in the middle of a move (rolling-deploy). Default of rolling-deploy: 0.
    #[arg(long, default_value_t = 1, default_value_if("scenario", "rolling-deploy", "0"), value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) outages: u32,
    /// How often the store forgets its scripts and is then killed (SIGKILL) and started again (takeover), or is
    /// killed in the middle of a move (rolling-deploy). Default of rolling-deploy: 0.
    #[arg(long, default_value_t = 1, default_value_if("scenario", "rolling-deploy", "0"), value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) restarts: u32,
    /// How often the store stands still for 0.9 s in the middle of a move, longer than a call waits (rolling-deploy).
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) hiccups: u32,
    /// What the store is (store-faults).
    #[arg(long, value_enum, default_value = "sentinel")]
    pub(crate) store: Kind,
    /// One server on the embedded store, no cluster (rewards).
    #[arg(long)]
    pub(crate) embedded: bool,
    /// For how long every fourth bot leaves its room, again and again (rewards).
    #[arg(long, default_value = "4s", value_parser = duration)]
    pub(crate) away: Duration,
    /// How often each of the store's faults happens (store-faults), or the owner dies at each of its points (rewards).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(crate) rounds: u32,
    /// One death at a point and one change of the file, in place of all (rewards).
    #[arg(long)]
    pub(crate) few: bool,
    /// Seed of the bots' choices.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// What must hold; each is off unless given.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Bounds {
    /// Largest p99 from an input's planned send time to the frame that shows it, ms; of a join outside of moves (matchmaking).
    #[arg(long)]
    pub(crate) max_p99: Option<f64>,
    /// Most connections lost.
    #[arg(long)]
    pub(crate) max_drops: Option<u64>,
    /// Largest p99 of tick lateness, ms.
    #[arg(long)]
    pub(crate) max_lateness: Option<f64>,
    /// Longest time a bot may see no tick, ms.
    #[arg(long)]
    pub(crate) max_pause: Option<f64>,
    /// Largest p50 of the pause of a planned move beyond a tick, from the last frame of the old owner to the first of the new one, ms.
    #[arg(long)]
    pub(crate) max_move_p50: Option<f64>,
    /// The same, p99.
    #[arg(long)]
    pub(crate) max_move_p99: Option<f64>,
    /// Most that memory may grow, percent: from the first deploys to the last ones, of six or more (rolling-deploy), or from the first seconds to
    /// the last ones, of ten or more (churn).
    #[arg(long)]
    pub(crate) max_growth: Option<f64>,
    /// Largest p99 from opening a connection to the seat, ms (churn).
    #[arg(long)]
    pub(crate) max_join_p99: Option<f64>,
    /// Largest p99 from a cut socket to the seat again, ms, the bot's own pause included (churn).
    #[arg(long)]
    pub(crate) max_resume_p99: Option<f64>,
    /// Least share of the expected frames, percent.
    #[arg(long)]
    pub(crate) min_delivered: Option<f64>,
    /// Largest memory of the server, MiB.
    #[arg(long)]
    pub(crate) max_rss: Option<f64>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct BaselineArgs {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:7790")]
    pub(crate) listen: String,
    /// Write address and process id here once ready, as JSON.
    #[arg(long)]
    pub(crate) ready_file: Option<PathBuf>,
    /// Cut every connection after this many ticks, to watch bots resume.
    #[arg(long)]
    pub(crate) cut_after: Option<u64>,
    /// Ask every connection to move after this many ticks, to watch bots change over.
    #[arg(long)]
    pub(crate) move_after: Option<u64>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CompareArgs {
    /// The server's binary; it is started as `PATH serve --ready-file … --set store.path=…`.
    #[arg(long)]
    pub(crate) server_bin: PathBuf,
    /// A further argument for `PATH serve`; may be repeated.
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) server_arg: Vec<String>,
    /// Bots.
    #[arg(long, default_value_t = 1000)]
    pub(crate) players: u32,
    /// Rounds; servers alternate within each.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Time measured in each run.
    #[arg(long, default_value = "15s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Processor for the servers, where `taskset` is available.
    #[arg(long, default_value_t = 0)]
    pub(crate) server_cpu: u32,
    /// Processor for the bots.
    #[arg(long, default_value_t = 1)]
    pub(crate) load_cpu: u32,
    /// Largest ratio of CPU per delivered frame, server to baseline.
    #[arg(long)]
    pub(crate) max_ratio: Option<f64>,
    /// Write all runs and the medians to this file, as JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
}

impl RunArgs {
    /// Rooms, with the default filled in.
    pub(crate) fn room_count(&self) -> u32 {
        self.rooms.unwrap_or_else(|| self.players.div_ceil(50)).max(1)
    }

    /// Ramp, with the default filled in.
    pub(crate) fn ramp_time(&self) -> Duration {
        let default = Duration::from_secs_f64(f64::from(self.players) / 500.0).max(Duration::from_secs(2));
        self.ramp.unwrap_or(default)
    }
}

/// A duration as people write it: `250ms`, `30s`, `2m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("unit {other:?}; expected ms, s, m or h")),
    };
    let number: f64 = number.trim().parse().map_err(|_| format!("{text:?} is no duration such as 250ms or 30s"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        for bad in ["", "s", "-1s", "3d", "1 h s", "NaNs"] {
            assert!(duration(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn the_documented_command_lines_are_read() {
        let cli = Cli::try_parse_from(["loadtest", "--players", "2000", "--rooms", "40", "--duration", "30s"])
            .expect("valid");
        assert_eq!((cli.run.players, cli.run.room_count(), cli.run.ramp_time().as_secs()), (2000, 40, 4));
        let cli = Cli::try_parse_from(["loadtest", "--scenario", "bad-clients", "--max-p99", "80"]).expect("valid");
        assert_eq!((cli.run.scenario, cli.run.bounds.max_p99), (Scenario::BadClients, Some(80.0)));
        let cli = Cli::try_parse_from(["loadtest", "--scenario", "rolling-deploy", "--restarts", "2"]).expect("valid");
        assert_eq!((cli.run.kills, cli.run.outages, cli.run.restarts, cli.run.kind.as_str()), (0, 0, 2, "drill"));
        let cli = Cli::try_parse_from(["loadtest", "--scenario", "takeover"]).expect("valid");
        assert_eq!((cli.run.kills, cli.run.outages, cli.run.restarts, cli.run.kind.as_str()), (20, 1, 1, "arena"));
        let cli = Cli::try_parse_from(["loadtest", "--scenario", "churn", "--max-growth", "10"]).expect("valid");
        assert_eq!(
            (cli.run.joins_per_second, cli.run.kind.as_str(), cli.run.bounds.max_growth),
            (40, "skirmish", Some(10.0))
        );
        assert!(matches!(
            Cli::try_parse_from(["loadtest", "baseline"]).expect("valid").command,
            Some(Command::Baseline(_))
        ));
        assert!(Cli::try_parse_from(["loadtest", "--players", "0"]).is_err());
    }
}
