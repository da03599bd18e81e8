//! The commands: where they get their report from, and what it means for the exit code.

use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};
use tenure_shared::{PlayerId, RoomId};

use super::{
    Cli, Command, Common, ConfigCommand, Exit, HistoryCommand, LedgerCommand, Outcome, RoomCommand, WorkCommand,
    client::{self, Node, encode},
    show, stores,
};
use crate::{
    config::Config,
    ops::{
        self, ClusterReport, DoneReport, HistoryReport, LedgerCheck, LedgerReport, ReloadReport, ReportError,
        StatusReport, WorkReport,
    },
    runtime::Clock,
    store::Store,
};

/// Time between two looks at a node that drains.
const DRAIN_LOOK: Duration = Duration::from_millis(200);
/// What a drain may take beyond its configured times.
const DRAIN_SLACK: Duration = Duration::from_secs(10);

/// Runs a command to its end; `None` for what is the application's: `serve`, and a `cluster` in one process.
pub fn run(cli: &Cli) -> Option<Outcome> {
    let common = &cli.common;
    let outcome = match cli.chosen() {
        Command::Serve => return None,
        Command::Config(ConfigCommand::Check) => config_check(common),
        Command::Schedule(command) => super::schedule::run(common, command),
        Command::Cluster(args) => return super::cluster::run(common, args),
        Command::DemoDeploy(args) => super::cluster::demo_deploy(common, args),
        Command::WithParent(args) => super::cluster::with_parent(args),
        Command::Daemons(command) => with_config(common, |config| super::daemons::run(common, config, command)),
        Command::Drain { wait } => with_config(common, |config| drain(common, config, *wait)),
        Command::Status { json } => with_config(common, |config| status(common, config, *json)),
        Command::Ledger(LedgerCommand::Show { player, json, limit }) => {
            with_config(common, |config| ledger_show(&Desk { common, config }, player, *limit, *json))
        }
        Command::Ledger(LedgerCommand::Check { players, json }) => {
            with_config(common, |config| ledger_check(&Desk { common, config }, players, *json))
        }
        Command::Work(WorkCommand::List { parked, json }) => {
            with_config(common, |config| work_list(&Desk { common, config }, *parked, *json))
        }
        Command::Work(WorkCommand::Done { room, job, json }) => {
            let wanted = (room.as_deref(), job.as_deref());
            with_config(common, |config| work_done(&Desk { common, config }, wanted, *json))
        }
        Command::Work(WorkCommand::Retry { room, job, key }) => {
            with_config(common, |config| work_retry(common, config, [room, job, key]))
        }
        Command::Room(RoomCommand::Unpark { room }) => with_config(common, |config| room_unpark(common, config, room)),
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
        Ok(config) => {
            let mut text = "the configuration is good".to_owned();
            for advice in config.advice() {
                text.push_str("\nwarning: ");
                text.push_str(&advice);
            }
            Outcome::new(Exit::Good, text)
        }
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
    let well = report.readiness.ready() && report.daemons_missing.is_empty();
    let exit = if well { Exit::Good } else { Exit::Problem };
    if json {
        return present(&report, exit, true, show::status);
    }
    let cluster: Result<ClusterReport, String> =
        node.get("/admin/cluster").map_err(|error| error.to_string()).and_then(|body| parse(&body));
    let cluster = cluster.map_or_else(|error| format!("the cluster: {error}"), |report| show::cluster(&report));
    Outcome::new(exit, format!("{}{cluster}", show::status(&report)))
}

/// Asks the node to give everything away and to end.
fn drain(common: &Common, config: &Config, wait: bool) -> Outcome {
    let node = match Node::find(common, config) {
        Ok(node) => node,
        Err(text) => return Outcome::could_not_run(text),
    };
    if let Err(error) = node.post("/admin/drain") {
        return Outcome::could_not_run(error);
    }
    if !wait {
        return Outcome::new(Exit::Good, "the node gives its shards away and ends; `status` says how far it is");
    }
    let clock = Clock::system();
    let limit = config.drain.endpoint_lag + config.drain.shutdown_grace + DRAIN_SLACK;
    let end = clock.now().plus(limit);
    let gone = || Outcome::new(Exit::Problem, "the node is gone, and has not said that it ended in order: see its log");
    let mut pid = None;
    while clock.now() < end {
        match node.get("/status").map(|body| parse::<StatusReport>(&body)) {
            // Another process has its port.
            Ok(Ok(report)) if pid.is_some_and(|pid| pid != report.pid) => return gone(),
            Ok(Ok(report)) if report.ended => return Outcome::new(Exit::Good, "the node has ended in order"),
            Ok(Ok(report)) => pid = Some(report.pid),
            Err(client::Error::NotRunning(_)) => return gone(),
            // It may be busy, or close the port in the middle of an answer.
            Ok(Err(_)) | Err(_) => {}
        }
        std::thread::sleep(DRAIN_LOOK);
    }
    Outcome::new(Exit::Problem, format!("the node has not ended within {limit:?}"))
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

fn ledger_check(desk: &Desk<'_>, players: &[String], json: bool) -> Outcome {
    let mut checks = Vec::with_capacity(players.len());
    for player in players {
        let id = match PlayerId::new(player) {
            Ok(id) => id,
            Err(mistake) => return Outcome::could_not_run(mistake),
        };
        let (target, shards) = (format!("/admin/ledger/check?player={}", encode(player)), desk.config.shards.count);
        match desk.report(&target, |store| async move { Ok(ops::check_ledger(&store, shards, &id).await?) }) {
            Ok(check) => checks.push(check),
            Err(text) => return Outcome::could_not_run(text),
        }
    }
    let good = checks.iter().all(|check: &LedgerCheck| check.problems.is_empty());
    present(&checks, if good { Exit::Good } else { Exit::Problem }, json, |checks| show::ledger_checks(checks))
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

fn work_done(desk: &Desk<'_>, (room, job): (Option<&str>, Option<&str>), json: bool) -> Outcome {
    let id = match room.map(RoomId::new).transpose() {
        Ok(id) => id,
        Err(mistake) => return Outcome::could_not_run(mistake),
    };
    let words = [("room", room), ("job", job)].into_iter().filter_map(|(key, word)| Some((key, word?)));
    let words: Vec<String> = words.map(|(key, word)| format!("{key}={}", encode(word))).collect();
    let (target, shards) = (format!("/admin/work/done?{}", words.join("&")), desk.config.shards.count);
    match desk.report(&target, |store| async move { ops::list_done(&store, shards, id.as_ref(), job).await }) {
        Ok(report) => present::<DoneReport>(&report, Exit::Good, json, show::done),
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

fn room_unpark(common: &Common, config: &Config, room: &str) -> Outcome {
    let node = match Node::find(common, config) {
        Ok(node) => node,
        Err(text) => return Outcome::could_not_run(text),
    };
    match node.post(&format!("/admin/room/unpark?room={}", encode(room))) {
        Ok(_) => Outcome::new(Exit::Good, format!("{room} is read again from its last checkpoint")),
        // The node ran the command and says no: a problem with the room, not with the command.
        Err(client::Error::Refused { status: 409, text }) => Outcome::new(Exit::Problem, text),
        Err(error) => Outcome::could_not_run(error),
    }
}

/// Makes the running node read its file of schedules again.
pub(super) fn schedule_reload(common: &Common, config: &Config, json: bool) -> Outcome {
    let node = match Node::find(common, config) {
        Ok(node) => node,
        Err(text) => return Outcome::could_not_run(text),
    };
    match node.post("/admin/schedule/reload") {
        Ok(body) => match parse::<ReloadReport>(&body) {
            Ok(report) => present(&report, Exit::Good, json, show::reload),
            Err(text) => Outcome::could_not_run(text),
        },
        // The node ran the command and says no: a problem with the file, not with the command.
        Err(client::Error::Refused { status: 422, text }) => Outcome::new(Exit::Problem, text),
        Err(error) => Outcome::could_not_run(error),
    }
}

fn history_check(desk: &Desk<'_>, json: bool) -> Outcome {
    let (shards, keep) = (desk.config.shards.count, desk.config.ledger.keep_identities);
    match desk.report("/admin/history", |store| async move { Ok(ops::check_history(&store, shards, keep).await?) }) {
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
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
        runtime.block_on(async {
            let store = stores::open_for_reading(self.config).await?;
            make(store).await.map_err(|error| error.to_string())
        })
    }
}

pub(super) fn parse<T: DeserializeOwned>(body: &str) -> Result<T, String> {
    serde_json::from_str(body).map_err(|error| format!("the node's answer cannot be read: {error}"))
}

pub(super) fn present<T: Serialize>(report: &T, exit: Exit, json: bool, text: impl Fn(&T) -> String) -> Outcome {
    if !json {
        return Outcome::new(exit, text(report));
    }
    match serde_json::to_string_pretty(report) {
        Ok(text) => Outcome::new(exit, text),
        Err(error) => Outcome::could_not_run(error),
    }
}
