//! Reports on a player: balances and the newest lines of the ledger, and whether they are right.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use tenure_shared::{PlayerId, RoomId, ShardId};

use crate::{
    runtime::Wall,
    store::{Error, LedgerEntry, Store, WorkId},
};

/// Most lines of a report: what one call of the store gives.
const LINES: usize = 1_000;

/// A line of a ledger for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerLine {
    /// Identity of the grant.
    pub id: String,
    /// Schedule, job or reason.
    pub source: String,
    /// When it was due.
    pub scheduled_for: Option<Wall>,
    /// What was given or taken.
    pub given: BTreeMap<String, i64>,
    /// Whether a charge was refused.
    pub insufficient: bool,
    /// When the ledger took it.
    pub at: Wall,
}

/// A player's ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerReport {
    /// Whose.
    pub player: String,
    /// Balances.
    pub balances: BTreeMap<String, i64>,
    /// Lines, newest first.
    pub lines: Vec<LedgerLine>,
}

/// What a check of a ledger came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerCheck {
    /// Whose.
    pub player: String,
    /// Lines looked at.
    pub lines: u64,
    /// Of these, grants of a schedule whose occurrence is in the log of completed work.
    pub decided: u64,
    /// Older than that log: nothing can be said of their occurrences.
    pub before_log: u64,
    /// Whether there may be older lines; then balances are not compared with their sum.
    pub cut: bool,
    /// What is wrong; empty is good.
    pub problems: Vec<String>,
}

/// Proves a ledger: each identity once, nothing before it was due, balances are the sum of the lines, and each grant of a schedule belongs to an
/// occurrence that its room has completed (H6).
///
/// # Errors
/// The store's.
pub async fn check_ledger(store: &Store, shards: u32, player: &PlayerId) -> Result<LedgerCheck, Error> {
    // The balances first: what comes in between is in the lines, and is seen as such.
    let balances = store.balances(player).await?;
    let lines = store.ledger(player, LINES).await?;
    let mut logs: BTreeMap<ShardId, Log> = BTreeMap::new();
    for (room, ..) in lines.iter().filter_map(|line| occurrence(&line.id.0)) {
        let shard = room.shard(shards);
        if let std::collections::btree_map::Entry::Vacant(entry) = logs.entry(shard) {
            let done = store.completed(shard, LINES).await?;
            let since = if done.len() < LINES { Wall(0) } else { done.first().map_or(Wall(0), |done| done.at) };
            entry.insert(Log { since, done: done.into_iter().map(|done| done.id).collect() });
        }
    }
    let after = store.balances(player).await?;
    let mut check = check_lines(&lines, &logs, shards);
    check.player = player.to_string();
    check.cut = lines.len() >= LINES;
    if !check.cut && balances == after {
        check.problems.extend(compare(&lines, balances));
    }
    Ok(check)
}

/// The log of completed work of a shard, and since when it is whole.
struct Log {
    since: Wall,
    done: HashSet<WorkId>,
}

/// Room, job and key of the occurrence that a grant of a schedule belongs to: `schedule/<id>/<scheduled_for>/<room>/<player>`.
fn occurrence(id: &str) -> Option<(RoomId, String, String)> {
    let (schedule, rest) = id.strip_prefix("schedule/")?.split_once('/')?;
    let (key, rest) = rest.split_once('/')?;
    let end = rest.match_indices('/').nth(2)?.0;
    Some((RoomId::new(rest.get(..end)?).ok()?, format!("schedule/{schedule}"), key.to_owned()))
}

fn check_lines(lines: &[LedgerEntry], logs: &BTreeMap<ShardId, Log>, shards: u32) -> LedgerCheck {
    let mut check = LedgerCheck { lines: lines.len() as u64, ..LedgerCheck::default() };
    let mut seen = HashSet::new();
    for line in lines {
        let id = &line.id.0;
        if !seen.insert(id) {
            check.problems.push(format!("{id} was applied twice"));
        }
        if line.scheduled_for.is_some_and(|due| line.at < due) {
            check.problems.push(format!("{id} was applied before it was due"));
        }
        let Some((room, job, key)) = occurrence(id) else { continue };
        let Some(log) = logs.get(&room.shard(shards)) else { continue };
        if log.done.contains(&WorkId { room, job: job.into(), key: key.into() }) {
            check.decided += 1;
        } else if line.scheduled_for.is_none_or(|due| due < log.since) {
            check.before_log += 1;
        } else {
            // A large audience is decided in pages: the first ones are paid before the occurrence is complete.
            check.problems.push(format!("{id}: its occurrence is not complete (yet)"));
        }
    }
    check
}

/// What balances have that the lines do not give, or the other way round.
fn compare(lines: &[LedgerEntry], balances: Vec<(String, i64)>) -> Option<String> {
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for (currency, amount) in lines.iter().flat_map(|line| &line.given) {
        *sums.entry(currency.to_string()).or_default() += amount;
    }
    let balances: BTreeMap<String, i64> = balances.into_iter().filter(|(_, amount)| *amount != 0).collect();
    sums.retain(|_, amount| *amount != 0);
    (balances != sums).then(|| format!("the balances are {balances:?}, the lines give {sums:?}"))
}

/// Reads a player's balances and at most `limit` lines. A player nobody has heard of has an empty ledger.
///
/// # Errors
/// The store's.
pub async fn show_ledger(store: &Store, player: &PlayerId, limit: usize) -> Result<LedgerReport, Error> {
    let balances = store.balances(player).await?;
    let entries = store.ledger(player, limit.min(LINES)).await?;
    let lines = entries.into_iter().map(|entry| LedgerLine {
        id: entry.id.0.to_string(),
        source: entry.source.to_string(),
        scheduled_for: entry.scheduled_for,
        given: entry.given.into_iter().map(|(currency, amount)| (currency.to_string(), amount)).collect(),
        insufficient: entry.insufficient,
        at: entry.at,
    });
    Ok(LedgerReport { player: player.to_string(), balances: balances.into_iter().collect(), lines: lines.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::GrantId;

    fn line(id: &str, due: u64, at: u64, gold: i64) -> LedgerEntry {
        LedgerEntry {
            id: GrantId(id.into()),
            source: "chest".into(),
            scheduled_for: Some(Wall(due)),
            given: [("gold".into(), gold)].into(),
            insufficient: false,
            at: Wall(at),
        }
    }

    /// checks: H6
    #[test]
    fn what_is_wrong_with_a_ledger_is_said() {
        let room = RoomId::new("arena/eu/k3").expect("valid");
        let id = |due: u64| format!("schedule/chest/{due}/arena/eu/k3/guest:7");
        let done = |key: &str| WorkId { room: room.clone(), job: "schedule/chest".into(), key: key.into() };
        let log = Log { since: Wall(20), done: HashSet::from([done("30"), done("60")]) };
        let logs = BTreeMap::from([(room.shard(4), log)]);
        let good = [line(&id(30), 30, 31, 5), line(&id(60), 60, 61, 5), line(&id(10), 10, 11, 5)];
        let check = check_lines(&good, &logs, 4);
        assert_eq!((check.lines, check.decided, check.before_log, check.problems), (3, 2, 1, vec![]));
        assert_eq!(compare(&good, vec![("gold".to_owned(), 15), ("tin".to_owned(), 0)]), None);
        assert!(compare(&good, vec![("gold".to_owned(), 16)]).is_some());

        let bad = [line(&id(30), 30, 29, 5), line(&id(30), 30, 31, 5), line(&id(90), 90, 91, 5)];
        let check = check_lines(&bad, &logs, 4);
        assert_eq!(check.problems.len(), 3, "{:?}", check.problems);
        assert!(occurrence("arena/eu/k3/7/8/9/1").is_none());
    }
}
