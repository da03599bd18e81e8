//! The commands and their flags.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::daemons::DaemonsCommand;
use crate::config::Sources;

/// A parsed command line.
#[derive(Clone, Debug, Parser)]
#[command(
    about = "A game server built on Tenure: rooms that outlive the process they run in",
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 all is well, 1 a problem was found, 2 could not run."
)]
pub struct Cli {
    /// Flags of all commands.
    #[command(flatten)]
    pub common: Common,
    /// The command; `serve` when there is none.
    #[command(subcommand)]
    command: Option<Command>,
}

/// Flags of all commands.
#[derive(Clone, Debug, Default, Args)]
pub struct Common {
    /// Configuration file over the defaults.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// One key over file and environment, like `gateway.listen=127.0.0.1:0`; may be repeated.
    #[arg(long = "set", global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// serve: written once the node is ready, as JSON with its addresses and process id. Other commands: read to find the node.
    #[arg(long, global = true, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// File with schedules of rewards; the same as `--set rewards.file=FILE`.
    #[arg(long, global = true, value_name = "FILE")]
    pub rewards: Option<PathBuf>,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run the node (the default).
    Serve,
    /// Ask the running node how it is.
    Status {
        /// Print everything as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Move the shards of the running node to the others, and end it.
    Drain {
        /// Wait until it has ended.
        #[arg(long)]
        wait: bool,
    },
    /// Run a whole cluster on this machine: room nodes, gateways and a private redis-server, each of which can be killed, paused and drained.
    Cluster(ClusterArgs),
    /// Run a cluster as `cluster` does, and replace its room nodes one after another while people play.
    DemoDeploy(DeployArgs),
    /// Become another program, which ends with the process that asked for it.
    #[command(hide = true)]
    WithParent(WithParentArgs),
    /// Look at the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Look at players' ledgers.
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Look at due work.
    #[command(subcommand)]
    Work(WorkCommand),
    /// Look at daemons, and stop, start, rescale, unpark and ask them.
    #[command(subcommand)]
    Daemons(DaemonsCommand),
    /// Make a parked room run again.
    #[command(subcommand)]
    Room(RoomCommand),
    /// Look at the histories of ownership and work.
    #[command(subcommand)]
    History(HistoryCommand),
    /// Look at schedules of rewards.
    #[command(subcommand)]
    Schedule(ScheduleCommand),
}

/// `cluster …`.
#[derive(Clone, Debug, Args)]
pub struct ClusterArgs {
    /// Room nodes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=32))]
    pub nodes: u16,
    /// Gateways; 0 gives every room node both roles.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=16))]
    pub gateways: u16,
    /// Folder of the private store, logs and ready-files; `cluster` in store.path when absent.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `demo-deploy …`.
#[derive(Clone, Debug, Args)]
pub struct DeployArgs {
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Begin a round this long after the one before, like `20s`. When absent, a round begins when Enter is pressed.
    #[arg(long, value_name = "TIME", value_parser = every)]
    pub every: Option<Duration>,
    /// End everything after so many rounds; when absent, go on until Ctrl-C.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// Begin the first round at once, without Enter and without waiting.
    #[arg(long)]
    pub yes: bool,
    /// Deploy the build `<program>-v2` that is beside this one, and in the next round this one again.
    #[arg(long, value_parser = ["v2"])]
    pub to: Option<String>,
}

fn every(text: &str) -> Result<Duration, String> {
    crate::config::parse_duration(text).ok_or_else(|| "expected a time like 20s".to_owned())
}

/// `with-parent …`.
#[derive(Clone, Debug, Args)]
pub struct WithParentArgs {
    /// Process id of the parent.
    #[arg(long)]
    pub parent: i32,
    /// Terminate, do not kill.
    #[arg(long)]
    pub gently: bool,
    /// Program and arguments.
    #[arg(last = true, required = true)]
    pub line: Vec<OsString>,
}

/// `config …`.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Read all layers and say every mistake.
    Check,
}

/// `ledger …`.
#[derive(Clone, Debug, Subcommand)]
pub enum LedgerCommand {
    /// A player's balances and newest lines.
    Show {
        /// The player's id.
        player: String,
        /// Print everything as JSON.
        #[arg(long)]
        json: bool,
        /// Most lines.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=1_000))]
        limit: u16,
    },
    /// Prove ledgers: each grant once, nothing too early, balances are the sum of the lines, each reward of an occurrence that its room completed.
    Check {
        /// The players' ids.
        #[arg(required = true)]
        players: Vec<String>,
        /// Print everything as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `room …`.
#[derive(Clone, Debug, Subcommand)]
pub enum RoomCommand {
    /// Read a parked room again from its last checkpoint, with a new budget of restarts. Needs the running node that has it.
    Unpark {
        /// Which: `kind/region/name`.
        room: String,
    },
}

/// `work …`.
#[derive(Clone, Debug, Subcommand)]
pub enum WorkCommand {
    /// Work that waits, and work that was parked after too many failures. Parked work is a problem (exit code 1).
    List {
        /// Parked work alone.
        #[arg(long)]
        parked: bool,
        /// Print everything as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Completed work, oldest first: which occurrences were decided in which room, and when. Goes back as far as the store's log, the last
    /// thousand of each shard.
    Done {
        /// Only of this room.
        #[arg(long)]
        room: Option<String>,
        /// Only of this job, or `schedule/<id>`.
        #[arg(long)]
        job: Option<String>,
        /// Print everything as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make a parked item due now. Needs the running node.
    Retry {
        /// Its room.
        room: String,
        /// Its job, or `schedule/<id>`.
        job: String,
        /// Its key.
        key: String,
    },
}

/// `history …`.
#[derive(Clone, Debug, Subcommand)]
pub enum HistoryCommand {
    /// One owner per term, terms grow, each completed item once.
    Check {
        /// Print everything as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `schedule …`.
#[derive(Clone, Debug, Subcommand)]
pub enum ScheduleCommand {
    /// Read a file of schedules and say every mistake.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Make the running node read its file of schedules again. With a mistake in it the running schedules are kept.
    Reload {
        /// Print everything as JSON.
        #[arg(long)]
        json: bool,
    },
    /// What is due next, of all schedules of a file together; with --until, everything in that time.
    Next {
        /// The file.
        file: PathBuf,
        /// Rows; with --until, of each schedule: what is beyond them is counted.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1_000))]
        count: u16,
        /// After this time, like `2027-03-28T00:00:00Z`; now when absent.
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// Before this time, or so long after --from, like `7d`.
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Only this schedule.
        #[arg(long, value_name = "ID")]
        id: Option<String>,
    },
}

impl Cli {
    /// Parses a command line, the program's name first. Help and mistakes come back as an error that prints itself
    /// ([`clap::Error::exit`] ends with 0 for help and with 2 for mistakes).
    ///
    /// # Errors
    /// A mistake, or a question for help or version.
    pub fn parse_from<I, T>(name: &'static str, version: &'static str, line: I) -> Result<Self, clap::Error>
    where
        I: IntoIterator<Item = T>,
        T: Into<OsString> + Clone,
    {
        let command = Self::command().name(name).version(version);
        Self::from_arg_matches(&command.try_get_matches_from(sets_first(line))?)
    }

    /// The command.
    pub fn chosen(&self) -> &Command {
        self.command.as_ref().unwrap_or(&Command::Serve)
    }
}

/// Puts every `--set` before the command: of a flag that may stand on both sides of it, clap keeps those behind it alone, in silence.
fn sets_first<I, T>(line: I) -> Vec<OsString>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString>,
{
    let mut words = line.into_iter().map(Into::into);
    let mut first: Vec<OsString> = words.next().into_iter().collect();
    let mut rest = Vec::new();
    while let Some(word) = words.next() {
        if word == "--" {
            rest.push(word);
            rest.extend(words.by_ref());
        } else if word == "--set"
            && let Some(value) = words.next()
        {
            first.extend([word, value]);
        } else if word.as_encoded_bytes().starts_with(b"--set=") {
            first.push(word);
        } else {
            rest.push(word);
        }
    }
    first.extend(rest);
    first
}

impl Common {
    /// The layers of the configuration that these flags and the environment of the process give.
    pub fn sources(&self) -> Sources {
        let mut set = self.set.clone();
        set.extend(self.rewards.as_ref().map(|file| format!("rewards.file={}", file.display())));
        Sources::from_process(self.config.clone(), set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Result<Cli, clap::Error> {
        Cli::parse_from("demo", "1.2.3", std::iter::once("demo").chain(line.iter().copied()))
    }

    #[test]
    fn serve_is_the_default_and_flags_stand_anywhere() {
        let cli = parse(&["--set", "room.tick_rate=30", "--ready-file", "r.json", "--set", "log.format=json"])
            .expect("parsed");
        assert!(matches!(cli.chosen(), Command::Serve));
        assert_eq!(cli.common.set, ["room.tick_rate=30", "log.format=json"]);
        let cli = parse(&["ledger", "show", "guest:1", "--config", "c.toml", "--json"]).expect("parsed");
        assert_eq!(cli.common.config, Some("c.toml".into()));
        let Command::Ledger(LedgerCommand::Show { player, json, limit }) = cli.chosen() else { panic!("{cli:?}") };
        assert_eq!((player.as_str(), *json, *limit), ("guest:1", true, 20));
        let cli = parse(&["--set", "a.b=1", "status", "--set=c.d=2", "--json", "--set", "e.f=3"]).expect("parsed");
        assert_eq!(cli.common.set, ["a.b=1", "c.d=2", "e.f=3"]);
        assert!(matches!(cli.chosen(), Command::Status { json: true }));
        let cli = parse(&["cluster", "--nodes", "5", "--dir", "d"]).expect("parsed");
        let Command::Cluster(args) = cli.chosen() else { panic!("{cli:?}") };
        assert_eq!((args.nodes, args.gateways, args.dir.clone()), (5, 1, Some("d".into())));
        let cli = parse(&["with-parent", "--parent", "7", "--", "redis-server", "--port", "1", "--set", "x"])
            .expect("parsed");
        let Command::WithParent(args) = cli.chosen() else { panic!("{cli:?}") };
        assert_eq!(
            args.line,
            ["redis-server", "--port", "1", "--set", "x"],
            "what stands behind -- is another program's"
        );
        assert_eq!((args.parent, args.gently, cli.common.set.len()), (7, false, 0));
        let cli = parse(&["serve", "--rewards", "r.toml"]).expect("parsed");
        assert!(cli.common.sources().set.contains(&"rewards.file=r.toml".to_owned()));
    }

    #[test]
    fn mistakes_and_help_have_their_exit_codes() {
        for wrong in
            [&["sevre"][..], &["ledger"], &["status", "--set"], &["schedule", "next", "f", "--count", "0"], &["--nope"]]
        {
            assert_eq!(parse(wrong).expect_err("a mistake").exit_code(), 2, "{wrong:?}");
        }
        assert!(parse(&["statsu"]).expect_err("a mistake").to_string().contains("status"));
        let help = parse(&["--help"]).expect_err("help");
        assert_eq!(help.exit_code(), 0);
        assert!(help.to_string().contains("schedule") && help.to_string().contains("Exit codes"));
        assert!(parse(&["--version"]).expect_err("version").to_string().contains("1.2.3"));
        Cli::command().debug_assert();
    }
}
