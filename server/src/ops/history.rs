//! Report on the histories: one owner per term, terms grow, each completed item once (H1, H2, H6).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tenure_shared::{IncarnationId, ShardId, Term};
use tokio::task::JoinSet;

use crate::{
    runtime::Wall,
    store::{CompletedWork, Error, HistoryEntry, Key, Store, WorkId},
};

/// Completed items asked for per shard: the store's log is bounded below this.
const COMPLETED: usize = 1_000;

/// Shards read at a time: a store across a network is asked for many at once.
const AT_A_TIME: usize = 32;

/// What the histories say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryReport {
    /// Shards looked at.
    pub shards: u32,
    /// Changes of ownership looked at.
    pub changes: u64,
    /// Of these, shards that went from one owner to another.
    #[serde(default)]
    pub moves: u64,
    /// Daemons and singletons looked at, those of former numbers too.
    #[serde(default)]
    pub daemons: u64,
    /// Completed work items looked at.
    pub completed: u64,
    /// What is wrong; empty is good.
    pub problems: Vec<String>,
}

/// Checks the histories of all shards and daemons. `keep`: how long the store knows what was completed (`ledger.keep_identities`); an item
/// of which nothing was known any more is completed anew by right.
///
/// # Errors
/// The store's.
pub async fn check_history(store: &Store, shards: u32, keep: Duration) -> Result<HistoryReport, Error> {
    let mut report = HistoryReport { shards, ..HistoryReport::default() };
    let mut found: BTreeMap<ShardId, Vec<String>> = BTreeMap::new();
    let (mut calls, mut left) = (JoinSet::new(), (0..shards).map(ShardId));
    loop {
        while calls.len() < AT_A_TIME
            && let Some(shard) = left.next()
        {
            calls.spawn(check_shard(store.clone(), shard, keep));
        }
        let Some(done) = calls.join_next().await else { break };
        let one = done.map_err(|error| Error::Broken(format!("reading a history ended: {error}")))??;
        report.changes += one.changes;
        report.moves += one.moves;
        report.completed += one.completed;
        found.insert(one.shard, one.problems);
    }
    report.problems = found.into_values().flatten().collect();
    check_daemons(store, &mut report).await?;
    Ok(report)
}

/// Whatever was ever claimed and is no shard.
async fn check_daemons(store: &Store, report: &mut HistoryReport) -> Result<(), Error> {
    let (mut keys, mut since) = (BTreeSet::new(), 0);
    loop {
        let (next, page) = store.routes(since).await?;
        let whole = page.is_empty() || next <= since;
        keys.extend(page.into_iter().map(|route| route.key).filter(|key| key.as_shard().is_none()));
        since = next;
        if whole {
            break;
        }
    }
    let (mut calls, mut left) = (JoinSet::new(), keys.into_iter());
    let mut found: BTreeMap<Key, Vec<String>> = BTreeMap::new();
    loop {
        while calls.len() < AT_A_TIME
            && let Some(key) = left.next()
        {
            let store = store.clone();
            calls.spawn(async move {
                let history = store.history(&key).await?;
                Ok::<_, Error>((check_owners(&key, &history), history.len() as u64, key))
            });
        }
        let Some(done) = calls.join_next().await else { break };
        let (problems, changes, key) =
            done.map_err(|error| Error::Broken(format!("reading a history ended: {error}")))??;
        report.daemons += 1;
        report.changes += changes;
        found.insert(key, problems);
    }
    report.problems.extend(found.into_values().flatten());
    Ok(())
}

struct OneShard {
    shard: ShardId,
    changes: u64,
    moves: u64,
    completed: u64,
    problems: Vec<String>,
}

async fn check_shard(store: Store, shard: ShardId, keep: Duration) -> Result<OneShard, Error> {
    let key = Key::shard(shard);
    let history = store.history(&key).await?;
    let completed = store.completed(shard, COMPLETED).await?;
    let mut problems = check_owners(&key, &history);
    problems.extend(check_completed(&completed, keep));
    let (changes, moves) = (history.len() as u64, moves(&history));
    Ok(OneShard { shard, changes, moves, completed: completed.len() as u64, problems })
}

/// How often it went from one owner to another: who acquires again what it held, released or not, is the same one.
fn moves(history: &[HistoryEntry]) -> u64 {
    let owners: Vec<&IncarnationId> = history.iter().filter_map(|entry| entry.owner.as_ref()).collect();
    owners.windows(2).filter(|pair| pair.first() != pair.last()).count() as u64
}

fn check_owners(key: &Key, history: &[HistoryEntry]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut owners: HashMap<Term, &IncarnationId> = HashMap::new();
    let mut last = Term(0);
    for entry in history {
        let Some(owner) = &entry.owner else {
            // A release keeps the term of the owner who gave the key up.
            if entry.term < last {
                problems.push(format!("{key}: released at term {} after term {last}", entry.term));
            }
            continue;
        };
        if entry.term <= last {
            problems.push(format!("{key}: term {} of {owner} after term {last}", entry.term));
        }
        if let Some(other) = owners.insert(entry.term, owner).filter(|other| *other != owner) {
            problems.push(format!("{key}: term {} has two owners, {other} and {owner}", entry.term));
        }
        last = last.max(entry.term);
    }
    problems
}

fn check_completed(completed: &[CompletedWork], keep: Duration) -> Vec<String> {
    let mut seen: HashMap<&WorkId, Wall> = HashMap::new();
    let twice = completed.iter().filter(|done| {
        let before = seen.insert(&done.id, done.at);
        before.is_some_and(|before| done.at < before.plus(keep))
    });
    twice
        .map(|done| {
            format!(
                "work {} {} {} was completed twice, last for term {}",
                done.id.room, done.id.job, done.id.key, done.term
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(term: u64, owner: Option<&str>) -> HistoryEntry {
        HistoryEntry {
            term: Term(term),
            owner: owner.map(|name| IncarnationId::new(name).expect("valid")),
            from: None,
            cause: "acquire".to_owned(),
            at: Wall(term),
        }
    }

    /// checks: H1, H2
    #[test]
    fn terms_grow_and_have_one_owner() {
        let key = Key::shard(ShardId(3));
        let good = [entry(1, Some("a#1")), entry(1, None), entry(2, Some("b#1")), entry(7, Some("a#2"))];
        assert_eq!(check_owners(&key, &good), Vec::<String>::new());
        assert_eq!(moves(&good), 2);
        assert_eq!(moves(&[entry(1, Some("a#1")), entry(1, None), entry(2, Some("a#1")), entry(2, None)]), 0);
        let twice = check_owners(&key, &[entry(5, Some("a#1")), entry(5, Some("b#1"))]);
        assert_eq!(twice.len(), 2);
        assert!(twice[1].contains("shard/3: term 5 has two owners, a#1 and b#1"), "{twice:?}");
        assert_eq!(check_owners(&key, &[entry(5, Some("a#1")), entry(4, Some("a#1"))]).len(), 1);
        assert_eq!(check_owners(&key, &[entry(5, Some("a#1")), entry(4, None)]).len(), 1);
    }

    /// checks: H6
    #[test]
    fn an_item_is_completed_once() {
        let done = |key: &str| CompletedWork {
            id: WorkId {
                room: tenure_shared::RoomId::new("a/b/c").expect("valid"),
                job: "schedule/chest".into(),
                key: key.into(),
            },
            term: Term(1),
            at: Wall(1),
        };
        let keep = Duration::from_secs(60);
        assert!(check_completed(&[done("1"), done("2")], keep).is_empty());
        let problems = check_completed(&[done("1"), done("2"), done("1")], keep);
        assert_eq!(problems, ["work a/b/c schedule/chest 1 was completed twice, last for term 1"]);
        // Of one that was completed longer ago than identities are kept the store knew nothing any more.
        let later = |seconds: u64| CompletedWork { at: Wall(1 + seconds * 1_000_000), ..done("1") };
        assert!(check_completed(&[done("1"), later(60)], keep).is_empty());
        assert_eq!(check_completed(&[done("1"), later(59)], keep).len(), 1);
    }
}
