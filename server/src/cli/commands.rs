//! The commands: where they get their report from, and what it means for the exit code.

use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};
use tenure_shared::PlayerId;

use super::{
    Cli, Command, Common, ConfigCommand, Exit, HistoryCommand, LedgerCommand, Outcome, WorkCommand,
    client::{self, Node, encode},
    show,
};
use crate::{
    config::Config,
    ops::{self, HistoryReport, LedgerReport, ReportError, StatusReport, WorkReport},
    runtime::Clock,
    store::{self, Store, model::Rules},
};

/// How long a command waits for the lock of the embedded store: somebody who does not answer on the admin port holds it.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// Memory for pages of the file: a command reads little of it.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// Runs a command to its end; `None` for `serve`, which is the application's.
pub fn run(cli: &Cli) -> Option<Outcome> {
    let common = &cli.common;
    let outcome = match cli.chosen() {
        Command::Serve => return None,
        Command::Config(ConfigCommand::Check) => config_check(common),
        Command::Schedule(command) => super::schedule::run(common, command),
        Command::Status { json } => with_config(common, |config| status(common, config, *json)),
        Command::Ledger(LedgerCommand::Show { player, json, limit }) => {
            with_config(common, |config| ledger_show(&Desk { common, config }, player, *limit, *json))
        }
        Command::Work(WorkCommand::List { parked, json }) => {
            with_config(common, |config| work_list(&Desk { common, config }, *parked, *json))
        }
        Command::Work(WorkCommand::Retry { room, job, key }) => {
            with_config(common, |config| work_retry(common, config, [room, job, key]))
        }
        Command::History(HistoryCommand::Check { json }) => {
            with_config(common, |config| history_check(&Desk { common, config }, *json))
        }
    };
    Some(outcome)
}

fn with_config(common: &Common, run: impl FnOnce(&Config) -> Outcome) -> Outcome {
    match Config::load(&common.sources()) {
        Ok(config) => run(&config),
        Err(mistakes) => Outcome::could_not_run(mistakes),
    }
}

fn config_check(common: &Common) -> Outcome {
    // With the mistakes of the file of schedules in the same list.
    match Config::load_with(&common.sources(), super::schedule::mistakes) {
        Ok(_) => Outcome::new(Exit::Good, "the configuration is good"),
        Err(mistakes) => Outcome::new(Exit::Problem, mistakes.to_string()),
    }
}

fn status(common: &Common, config: &Config, json: bool) -> Outcome {
    let node = match Node::find(common, config) {
        Ok(node) => node,
        Err(text) => return Outcome::could_not_run(text),
    };
    let report: StatusReport =
        match node.get("/status").map_err(|error| error.to_string()).and_then(|body| parse(&body)) {
            Ok(report) => report,
            Err(text) => return Outcome::could_not_run(text),
        };
    let exit = if report.readiness.ready() { Exit::Good } else { Exit::Problem };
    present(&report, exit, json, show::status)
}

fn ledger_show(desk: &Desk<'_>, player: &str, limit: u16, json: bool) -> Outcome {
    let id = match PlayerId::new(player) {
        Ok(id) => id,
        Err(mistake) => return Outcome::could_not_run(mistake),
    };
    let target = format!("/admin/ledger?player={}&limit={limit}", encode(player));
    let report =
        desk.report(&target, |store| async move { Ok(ops::show_ledger(&store, &id, usize::from(limit)).await?) });
    match report {
        Ok(report) => present::<LedgerReport>(&report, Exit::Good, json, show::ledger),
        Err(text) => Outcome::could_not_run(text),
    }
}

fn work_list(desk: &Desk<'_>, parked: bool, json: bool) -> Outcome {
    let shards = desk.config.shards.count;
    let target = format!("/admin/work?parked={parked}");
    match desk.report(&target, |store| async move { ops::list_work(&store, shards, parked).await }) {
        Ok(report) => {
            let any = report.items.iter().any(|item| item.parked.is_some());
            present::<WorkReport>(&report, if any { Exit::Problem } else { Exit::Good }, json, show::work)
        }
        Err(text) => Outcome::could_not_run(text),
    }
}

fn work_retry(common: &Common, config: &Config, [room, job, key]: [&String; 3]) -> Outcome {
    let node = match Node::find(common, config) {
        Ok(node) => node,
        Err(text) => return Outcome::could_not_run(text),
    };
    let target = format!("/admin/work/retry?room={}&job={}&key={}", encode(room), encode(job), encode(key));
    match node.post(&target) {
        Ok(_) => Outcome::new(Exit::Good, format!("{room} {job} {key} is due now")),
        // The node ran the command and says no: a problem with the item, not with the command.
        Err(client::Error::Refused { status: 409, text }) => Outcome::new(Exit::Problem, text),
        Err(error) => Outcome::could_not_run(error),
    }
}

fn history_check(desk: &Desk<'_>, json: bool) -> Outcome {
    let shards = desk.config.shards.count;
    match desk.report("/admin/history", |store| async move { Ok(ops::check_history(&store, shards).await?) }) {
        Ok(report) => {
            let exit = if report.problems.is_empty() { Exit::Good } else { Exit::Problem };
            present::<HistoryReport>(&report, exit, json, show::history)
        }
        Err(text) => Outcome::could_not_run(text),
    }
}

/// Where a report on the store comes from: the running node, else the store itself.
struct Desk<'a> {
    common: &'a Common,
    config: &'a Config,
}

impl Desk<'_> {
    fn report<T, F>(&self, target: &str, make: impl FnOnce(Store) -> F) -> Result<T, String>
    where
        T: DeserializeOwned,
        F: Future<Output = Result<T, ReportError>>,
    {
        match Node::find(self.common, self.config) {
            Ok(node) => match node.get(target) {
                Ok(body) => return parse(&body),
                Err(client::Error::NotRunning(_)) => {}
                Err(error) => return Err(error.to_string()),
            },
            // A ready-file that was named must be good; a port left to the system only means that a running node cannot be found.
            Err(text) if self.common.ready_file.is_some() => return Err(text),
            Err(_) => {}
        }
        let store = open(self.config)?;
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
        runtime.block_on(make(store)).map_err(|error| error.to_string())
    }
}

/// Opens the store that the configuration names, if there is one: asking must not make an empty one.
fn open(config: &Config) -> Result<Store, String> {
    let folder = &config.store.path;
    if config.store.url != "embedded" {
        return Err(format!("store.url = {:?}: this build opens the embedded store only", config.store.url));
    }
    if !folder.is_dir() {
        return Err(format!("no node runs, and there is no data folder {}", folder.display()));
    }
    let rules = Rules { keep_identities: config.ledger.keep_identities, max_checkpoint: config.room.max_checkpoint };
    let options = store::Options { rules, lock_wait: LOCK_WAIT, cache: CACHE_BYTES };
    store::embedded(folder, Clock::system(), options).map_err(|error| error.to_string())
}

fn parse<T: DeserializeOwned>(body: &str) -> Result<T, String> {
    serde_json::from_str(body).map_err(|error| format!("the node's answer cannot be read: {error}"))
}

fn present<T: Serialize>(report: &T, exit: Exit, json: bool, text: impl Fn(&T) -> String) -> Outcome {
    if !json {
        return Outcome::new(exit, text(report));
    }
    match serde_json::to_string_pretty(report) {
        Ok(text) => Outcome::new(exit, text),
        Err(error) => Outcome::could_not_run(error),
    }
}
