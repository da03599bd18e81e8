//! `daemons …`: its arguments, and what it asks of the running node.

use clap::Subcommand;
use serde_json::Value;

use super::{
    Common, Exit, Outcome,
    client::{self, Node, encode},
    commands::{parse, present},
    show,
};
use crate::{config::Config, ops::DaemonsReport};

/// `daemons …`. All of it needs a running node of the cluster; room nodes reach the others.
#[derive(Clone, Debug, Subcommand)]
pub enum DaemonsCommand {
    /// Where each daemon is and how it is doing. One that should run and does not is a problem (exit code 1).
    List {
        /// This set alone.
        name: Option<String>,
        /// Print everything as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Change the number of a running set: the former daemons are ended first.
    Rescale {
        /// The set.
        name: String,
        /// Its new number.
        count: u32,
    },
    /// Try a parked daemon again, on whatever node it is.
    Unpark {
        /// Its set.
        name: String,
        /// Which.
        index: u32,
    },
    /// Stop a set on ALL nodes, until `start`: after restarts and deploys too.
    Stop {
        /// The set.
        name: String,
    },
    /// Start a set that was stopped, on all nodes.
    Start {
        /// The set.
        name: String,
    },
    /// Ask one daemon something, in its own words as JSON, like `'"Report"'` or `'{"Add": 3}'`; prints its answer.
    Ask {
        /// Its set.
        name: String,
        /// Which.
        index: u32,
        /// The message.
        message: String,
    },
}

pub(super) fn run(common: &Common, config: &Config, command: &DaemonsCommand) -> Outcome {
    let node = match Node::find(common, config) {
        Ok(node) => node,
        Err(text) => return Outcome::could_not_run(text),
    };
    let order = |verb: &str, query: &str| node.post(&format!("/admin/daemons/{verb}?{query}"));
    match command {
        DaemonsCommand::List { name, json } => list(&node, name.as_deref(), *json),
        DaemonsCommand::Rescale { name: set, count } => {
            told(order("rescale", &format!("set={}&count={count}", encode(set))), |answer| {
                let agreed = agreed(answer);
                match agreed.contains("after ") {
                    true => format!(
                        "{set}: {agreed}. The former daemons are ended first; `daemons list {set}` says how far it is"
                    ),
                    false => format!("{set}: {agreed}, as before"),
                }
            })
        }
        DaemonsCommand::Unpark { name: set, index } => {
            told(order("unpark", &format!("set={}&index={index}", encode(set))), |_| {
                format!("{set}/{index} is tried again, with a new budget of restarts")
            })
        }
        DaemonsCommand::Stop { name: set } => told(order("stop", &format!("set={}", encode(set))), |answer| {
            let agreed = agreed(answer);
            format!(
                "{set}: {agreed}. Its daemons stop on ALL nodes, and stay so after restarts and deploys, until `daemons start {set}`"
            )
        }),
        DaemonsCommand::Start { name: set } => told(order("start", &format!("set={}", encode(set))), |answer| {
            format!("{set}: {}. Its daemons start, on all nodes that have them", agreed(answer))
        }),
        DaemonsCommand::Ask { name: set, index, message } => {
            let message = match serde_json::from_str::<Value>(message) {
                Ok(message) => message.to_string(),
                Err(error) => {
                    return Outcome::could_not_run(format!("the message is JSON, like '\"Report\"': {error}"));
                }
            };
            let query = format!("set={}&index={index}&message={}", encode(set), encode(&message));
            told(order("ask", &query), |answer| answer["answer"].to_string())
        }
    }
}

fn list(node: &Node, only: Option<&str>, json: bool) -> Outcome {
    let report = node.get("/admin/daemons").map_err(|error| error.to_string());
    let mut report: DaemonsReport = match report.and_then(|body| parse(&body)) {
        Ok(report) => report,
        Err(text) => return Outcome::could_not_run(text),
    };
    if let Some(only) = only {
        report.sets.retain(|one| one.set.name == only);
        if report.sets.is_empty() {
            return Outcome::could_not_run(format!("there are no daemons {only:?}"));
        }
    }
    let exit = if report.is_whole() { Exit::Good } else { Exit::Problem };
    present(&report, exit, json, show::daemons)
}

fn agreed(answer: &Value) -> &str {
    answer["agreed"].as_str().unwrap_or_default()
}

/// What came of an order. The node ran it and says no: a problem with the daemons, not with the command.
fn told(answer: Result<String, client::Error>, say: impl FnOnce(&Value) -> String) -> Outcome {
    match answer.map(|body| parse::<Value>(&body)) {
        Ok(Ok(answer)) => Outcome::new(Exit::Good, say(&answer)),
        Ok(Err(text)) => Outcome::could_not_run(text),
        Err(client::Error::Refused { status: 400 | 404 | 409 | 503 | 504, text }) => Outcome::new(Exit::Problem, text),
        Err(error) => Outcome::could_not_run(error),
    }
}
