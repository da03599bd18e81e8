//! Daemons by the admin port: how all of them are doing, and what operators order.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    daemon::{OrderError, Refused, SetStatus, Survey},
    runtime::Wall,
    store::Error,
};

/// Daemons of one set in one report; of more, those that run are left out.
const LISTED: usize = 1_000;

/// The daemons of the cluster, as the nodes that have them say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonsReport {
    /// The node that was asked, and asked the others.
    pub node: String,
    /// The store's time, as far as known.
    pub now: Wall,
    /// The sets of its build.
    pub sets: Vec<SetReport>,
    /// Nodes that gave no answer: how the daemons there are doing is not known.
    pub silent: Vec<String>,
}

/// One set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetReport {
    /// Its daemons; those that do not run come first where there are too many to list.
    pub set: SetStatus,
    /// How many there are.
    pub count: u64,
    /// How many of them run.
    pub live: u64,
    /// How many are not listed.
    pub more: u64,
}

impl DaemonsReport {
    /// Of a survey.
    pub fn new(node: String, now: Wall, survey: Survey) -> Self {
        let set = |mut set: SetStatus| {
            let count = set.daemons.len();
            let live = set.daemons.iter().filter(|row| row.is_live()).count() as u64;
            if count > LISTED {
                set.daemons.sort_by_key(|row| (row.is_live(), row.index));
                set.daemons.truncate(LISTED);
                set.daemons.sort_by_key(|row| row.index);
            }
            SetReport { live, count: count as u64, more: (count - set.daemons.len()) as u64, set }
        };
        Self { node, now, sets: survey.sets.into_iter().map(set).collect(), silent: survey.silent }
    }

    /// Whether every daemon of every set that is to run runs.
    pub fn is_whole(&self) -> bool {
        self.sets.iter().all(|one| one.set.stopped || one.live == one.count && one.count > 0)
    }
}

/// What an operator orders.
#[derive(Clone, Debug, PartialEq)]
pub enum DaemonOrder {
    /// Stop a set on all nodes.
    Stop(String),
    /// Start a set that was stopped.
    Start(String),
    /// Change the number of a set.
    Rescale(String, u32),
    /// Try a parked one again.
    Unpark(String, u32),
    /// Ask one something in its own words.
    Ask(String, u32, Value),
}

/// Why an order was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DaemonError {
    /// As it says.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// The daemon did not answer.
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl DaemonError {
    /// The status of HTTP that says so.
    pub(super) fn status(&self) -> u16 {
        match self {
            Self::Order(OrderError::NoSet(_) | OrderError::NoIndex(..)) | Self::Refused(Refused::Unknown(..)) => 404,
            Self::Order(OrderError::Not(_)) => 409,
            Self::Refused(Refused::Parked(_) | Refused::Stopped | Refused::Failed(_)) => 409,
            Self::Order(OrderError::Store(Error::Invalid(_))) => 400,
            Self::Refused(Refused::Unreadable(_) | Refused::TooLarge(_)) => 400,
            Self::Order(OrderError::NoAnswer(_)) | Self::Refused(Refused::Unanswered) => 504,
            Self::Order(OrderError::Store(_)) | Self::Refused(Refused::Busy | Refused::Moving) => 503,
        }
    }
}

/// Reads `POST /admin/daemons/VERB?…`; `None`: there is no such verb.
pub(super) fn read(verb: &str, get: impl Fn(&str) -> Option<String>) -> Option<Result<DaemonOrder, &'static str>> {
    let Some(set) = get("set").filter(|set| !set.is_empty()) else {
        return is_verb(verb).then_some(Err("?set= names a set of daemons"));
    };
    let number = |name: &str| get(name).and_then(|text| text.parse::<u32>().ok());
    let index = || number("index").ok_or("?index= is the number of a daemon");
    Some(match verb {
        "stop" => Ok(DaemonOrder::Stop(set)),
        "start" => Ok(DaemonOrder::Start(set)),
        "rescale" => {
            number("count").map(|count| DaemonOrder::Rescale(set, count)).ok_or("?count= is a number of daemons")
        }
        "unpark" => index().map(|index| DaemonOrder::Unpark(set, index)),
        "ask" => index().and_then(|index| {
            let message = get("message").and_then(|text| serde_json::from_str(&text).ok());
            message.map(|message| DaemonOrder::Ask(set, index, message)).ok_or("?message= is JSON, such as \"Report\"")
        }),
        _ => return None,
    })
}

/// Whether there is such a verb.
pub(super) fn is_verb(verb: &str) -> bool {
    ["stop", "start", "rescale", "unpark", "ask"].contains(&verb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_and_mistakes_are_named() {
        let read = |verb: &str, pairs: &[(&str, &str)]| {
            read(verb, |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(read("stop", &[("set", "x")]), Some(Ok(DaemonOrder::Stop("x".into()))));
        assert_eq!(read("rescale", &[("set", "x"), ("count", "12")]), Some(Ok(DaemonOrder::Rescale("x".into(), 12))));
        assert_eq!(read("unpark", &[("set", "x"), ("index", "3")]), Some(Ok(DaemonOrder::Unpark("x".into(), 3))));
        let ask = read("ask", &[("set", "x"), ("index", "3"), ("message", "{\"Add\":3}")]);
        assert_eq!(ask, Some(Ok(DaemonOrder::Ask("x".into(), 3, serde_json::json!({ "Add": 3 })))));
        for bad in [&[][..], &[("set", "")], &[("set", "x")], &[("set", "x"), ("count", "-1")]] {
            assert!(matches!(read("rescale", bad), Some(Err(_))), "{bad:?}");
        }
        assert!(matches!(read("ask", &[("set", "x"), ("index", "3"), ("message", "{")]), Some(Err(_))));
        assert_eq!(read("reboot", &[("set", "x")]), None);
    }
}
