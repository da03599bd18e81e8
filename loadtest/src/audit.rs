//! The judge after crashes: what each bot sent and was shown, against what the room counted and the ledger says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tenure_shared::wire::Granted;

use crate::{bot::Record, verdict::Verdict};

/// Most faults that are told one by one.
const TOLD: usize = 10;

/// One line of a player's ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) id: String,
    pub(crate) given: Option<BTreeMap<String, i64>>,
    /// What gave it, where the ledger says so.
    pub(crate) source: Option<String>,
    /// When it was due and when the ledger took it, µs since 1970.
    due: Option<u64>,
    at: Option<u64>,
}

/// A player's ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub(crate) lines: Vec<Line>,
    balances: Option<BTreeMap<String, i64>>,
    /// There may be older lines than these.
    cut: bool,
}

/// Reads the output of `ledger show --json`: a list of lines, or an object that has it as `lines`. `limit`: how many lines were asked for.
///
/// # Errors
/// When it is neither, or a line has no identity.
pub(crate) fn ledger(output: &str, limit: usize) -> anyhow::Result<Ledger> {
    let value: Value = serde_json::from_str(output)?;
    let list = value.as_array().or_else(|| value["lines"].as_array());
    let list = list.ok_or_else(|| anyhow::anyhow!("the ledger's output has no list of lines"))?;
    let line = |line: &Value| {
        let id = line["id"].as_str().or_else(|| line["identity"].as_str());
        let id = id.ok_or_else(|| anyhow::anyhow!("a line of the ledger has no identity: {line}"))?.to_owned();
        let source = line["source"].as_str().map(str::to_owned);
        let (due, at) = (line["scheduled_for"].as_u64(), line["at"].as_u64());
        Ok(Line { id, given: amounts(&line["given"]), source, due, at })
    };
    let lines: Vec<Line> = list.iter().map(line).collect::<anyhow::Result<_>>()?;
    Ok(Ledger { cut: lines.len() >= limit, lines, balances: amounts(&value["balances"]) })
}

/// Amounts as `{"gold": 1}` or `[["gold", 1]]`.
fn amounts(value: &Value) -> Option<BTreeMap<String, i64>> {
    match value {
        Value::Object(map) => map.iter().map(|(name, n)| Some((name.clone(), n.as_i64()?))).collect(),
        Value::Array(list) => list.iter().map(|pair| Some((pair[0].as_str()?.to_owned(), pair[1].as_i64()?))).collect(),
        _ => None,
    }
}

/// What the audit found.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// Inputs that all bots sent.
    pub(crate) inputs: u64,
    /// Grants that the bots were shown, and lines of their ledgers.
    pub(crate) grants: u64,
    pub(crate) lines: u64,
    /// Grants shown more than once.
    pub(crate) shown_again: u64,
    /// Grants shown that are older than the lines that were read.
    pub(crate) unread: u64,
    /// Occurrences of schedules left out between two that a player was given.
    pub(crate) skipped: u64,
    /// Each player's ledger.
    pub(crate) ledgers: BTreeMap<String, Ledger>,
    faults: BTreeMap<&'static str, Vec<String>>,
    /// The store may have forgotten what it acknowledged: what went with that is told, and no fault.
    forgets: bool,
}

/// What a store that forgets may cost: nothing of it is done twice.
const FORGIVEN: [&str; 3] = ["inputs lost", "grants lost", "grants of another amount"];

impl Audit {
    /// An audit of a store that may forget, or of one that may not.
    pub(crate) fn new(forgets: bool) -> Self {
        Self { forgets, ..Self::default() }
    }

    pub(crate) fn fault(&mut self, kind: &'static str, text: String) {
        self.faults.entry(kind).or_default().push(text);
    }

    /// Compares a bot's count with the room's.
    pub(crate) fn inputs(&mut self, record: &Record) {
        self.inputs += record.sent;
        let (bot, sent) = (record.index, record.sent);
        match record.counted {
            _ if !record.all_saved => self.fault("inputs not saved in time", format!("bot {bot}")),
            None => self.fault("inputs not counted", format!("bot {bot}: the room showed no count")),
            Some(counted) if counted + record.refused != sent => {
                let kind = if counted + record.refused < sent { "inputs lost" } else { "inputs applied twice" };
                self.fault(
                    kind,
                    format!("bot {bot} sent {sent}, the room counted {counted}, refused {}", record.refused),
                );
            }
            Some(_) => {}
        }
    }

    /// Compares what a player was shown with his ledger.
    pub(crate) fn grants(&mut self, player: &str, shown: &[Granted], ledger: &Ledger) {
        let Ledger { lines: ledger, balances, cut } = ledger;
        self.grants += shown.len() as u64;
        self.lines += ledger.len() as u64;
        let oldest = ledger.iter().filter_map(|line| due_of(&line.id)).map(|(_, due)| due).min();
        self.occurrences(ledger);
        if let Some(balances) = balances.as_ref().filter(|_| !cut) {
            let mut sums: BTreeMap<String, i64> = BTreeMap::new();
            for (name, amount) in ledger.iter().filter_map(|line| line.given.as_ref()).flatten() {
                *sums.entry(name.clone()).or_default() += amount;
            }
            sums.retain(|_, amount| *amount != 0);
            if !balances.iter().filter(|(_, amount)| **amount != 0).eq(&sums) {
                self.fault("balances that are not the sum", format!("{player}: {balances:?}, the lines give {sums:?}"));
            }
        }
        let mut ids = BTreeSet::new();
        for line in ledger {
            if line.due.zip(line.at).is_some_and(|(due, at)| at < due) {
                self.fault("grants before they were due", format!("{player}: {line:?}"));
            }
            if !ids.insert(&line.id) {
                self.fault("grants doubled", format!("{player}: {} is in the ledger twice", line.id));
            }
        }
        let mut seen = BTreeSet::new();
        // Grants of game code have no time that a player is shown: they are counted.
        let mut of_game: BTreeMap<&str, usize> = BTreeMap::new();
        for granted in shown {
            if granted.scheduled_for.is_none() {
                *of_game.entry(granted.source.as_str()).or_default() += 1;
                continue;
            }
            if !seen.insert((&granted.source, granted.scheduled_for)) {
                self.shown_again += 1;
            }
            match ledger.iter().find(|line| is_of(&line.id, granted)) {
                None if *cut && granted.scheduled_for < oldest => self.unread += 1,
                None => self.fault("grants lost", format!("{player}: {granted:?} is not in the ledger")),
                Some(Line { given: Some(given), .. }) if *given != granted.grants.iter().cloned().collect() => {
                    self.fault("grants of another amount", format!("{player}: {granted:?}, the ledger has {given:?}"));
                }
                Some(_) => {}
            }
        }
        for (source, shown) in of_game.into_iter().filter(|_| !*cut) {
            let has = ledger.iter().filter(|line| line.source.as_deref() == Some(source)).count();
            if shown > has {
                self.fault("grants lost", format!("{player} was shown {shown} of {source}, the ledger has {has}"));
            }
        }
    }

    /// Counts what is missing between the occurrences of each schedule that a player was given: the shortest distance is the period.
    fn occurrences(&mut self, ledger: &[Line]) {
        let mut all: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for (source, due) in ledger.iter().filter_map(|line| due_of(&line.id)) {
            all.entry(source).or_default().insert(due);
        }
        for due in all.into_values() {
            let gaps = || due.iter().zip(due.iter().skip(1)).map(|(before, after)| after - before);
            let Some(period) = gaps().min() else { continue };
            self.skipped += gaps().map(|gap| gap / period - 1).sum::<u64>();
        }
    }

    /// Adds the checks, and tells the first faults.
    pub(crate) fn conclude(&self, verdict: &mut Verdict) {
        let kinds = [
            "inputs lost",
            "inputs applied twice",
            "inputs not saved in time",
            "inputs not counted",
            "grants lost",
            "grants doubled",
            "grants of another amount",
            "balances that are not the sum",
            "grants before they were due",
        ];
        for kind in kinds {
            let faults = self.faults.get(kind).map(Vec::as_slice).unwrap_or_default();
            if self.forgets && FORGIVEN.contains(&kind) {
                verdict.check(kind, true, faults.len(), "told, since the store may forget");
                continue;
            }
            verdict.check(kind, faults.is_empty(), faults.len(), 0);
            faults.iter().take(TOLD).for_each(|text| crate::report::say(&format!("  {kind}: {text}")));
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "inputs": self.inputs, "grants shown": self.grants, "ledger lines": self.lines,
            "grants shown again": self.shown_again, "grants too old to be looked up": self.unread,
            "occurrences skipped": self.skipped, "faults": self.faults,
        })
    }
}

/// Schedule and due time, ms, of a ledger line `schedule/<id>/<scheduled_for in µs>/<room>/<player>`.
fn due_of(id: &str) -> Option<(&str, u64)> {
    let mut parts = id.split('/');
    parts.next().filter(|word| *word == "schedule")?;
    let source = parts.next()?;
    let micros: u64 = parts.next()?.parse().ok()?;
    Some((source, micros / 1000))
}

/// Whether a ledger line is that of a grant.
fn is_of(id: &str, granted: &Granted) -> bool {
    let named = granted.source.rsplit('/').next();
    due_of(id).is_some_and(|(source, due)| named == Some(source) && granted.scheduled_for == Some(due))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sent: u64, counted: Option<u64>, refused: u64) -> Record {
        let (grants, room, books) = (Vec::new(), 0, None);
        Record { index: 3, player: None, sent, all_saved: true, counted, refused, grants, room, books, stayed: true }
    }

    fn line(id: &str) -> Line {
        Line { id: id.to_owned(), given: None, source: None, due: None, at: None }
    }

    fn kinds(audit: &Audit) -> Vec<&'static str> {
        audit.faults.keys().copied().collect()
    }

    #[test]
    fn every_input_counts_exactly_once() {
        let of = |record: Record| {
            let mut audit = Audit::default();
            audit.inputs(&record);
            kinds(&audit)
        };
        assert!(of(record(70, Some(70), 0)).is_empty());
        assert!(of(record(70, Some(68), 2)).is_empty(), "refused inputs were announced");
        assert_eq!(of(record(70, Some(69), 0)), ["inputs lost"]);
        assert_eq!(of(record(70, Some(71), 0)), ["inputs applied twice"]);
        assert_eq!(of(record(70, None, 0)), ["inputs not counted"]);
        assert_eq!(of(Record { all_saved: false, ..record(1, Some(1), 0) }), ["inputs not saved in time"]);
    }

    #[test]
    fn grants_are_held_against_the_ledger() {
        let due = |ms: u64, gold: i64| Granted {
            source: "chest".to_owned(),
            scheduled_for: Some(ms),
            grants: vec![("gold".to_owned(), gold)],
            balances: vec![],
        };
        let output = r#"{"player":"p","lines":[
            {"id":"schedule/chest/30000000/arena/local/load-0/p","given":{"gold":10}},
            {"id":"schedule/chest/60000000/arena/local/load-0/p","given":[["gold",10]]}]}"#;
        let read = ledger(output, 10).expect("readable");
        let of = |shown: &[Granted], ledger: &Ledger| {
            let mut audit = Audit::default();
            audit.grants("p", shown, ledger);
            kinds(&audit)
        };
        assert!(of(&[due(30_000, 10), due(60_000, 10)], &read).is_empty());
        assert!(of(&[], &read).is_empty(), "what a bot missed while it was away is no fault");
        assert_eq!(of(&[due(90_000, 10)], &read), ["grants lost"]);
        assert_eq!(of(&[due(30_000, 11)], &read), ["grants of another amount"]);
        let doubled = Ledger { lines: [read.lines.as_slice(), read.lines.as_slice()].concat(), ..read.clone() };
        assert_eq!(of(&[], &doubled), ["grants doubled"]);
        let wrong = output.replace(r#""player":"p""#, r#""balances":{"gold":30}"#);
        let wrong = ledger(&wrong, 10).expect("readable");
        assert_eq!(of(&[], &wrong), ["balances that are not the sum"]);
        // What game code gives has no time that is shown: as many lines of that source.
        let gift = Granted { scheduled_for: None, ..due(0, 5) };
        let of_source = |source: &str| Line { source: Some(source.to_owned()), ..line("gift/1") };
        let has = |lines: Vec<Line>| Ledger { lines, ..Ledger::default() };
        assert!(of(std::slice::from_ref(&gift), &has(vec![of_source("chest")])).is_empty());
        assert_eq!(of(std::slice::from_ref(&gift), &has(vec![of_source("other")])), ["grants lost"]);
        assert_eq!(of(&[gift.clone(), gift], &has(vec![of_source("chest")])), ["grants lost"]);
        let mut audit = Audit::default();
        audit.grants("p", &[due(30_000, 10), due(15_000, 10)], &ledger(output, 2).expect("readable"));
        assert_eq!((kinds(&audit).len(), audit.unread), (0, 1), "older than the lines that were read");
    }

    #[test]
    fn occurrences_that_are_left_out_are_counted() {
        let line = |ms: u64| line(&format!("schedule/chest/{}/a/b/c/p", ms * 1000));
        let mut audit = Audit::default();
        audit.occurrences(&[2, 4, 6, 12, 14].map(|s| line(s * 1000)));
        assert_eq!(audit.skipped, 2);
    }

    #[test]
    fn ledgers_are_read_as_list_or_object() {
        let read = ledger(r#"[{"identity":"x"}]"#, 9).expect("readable");
        assert_eq!(read.lines, [line("x")]);
        assert!(ledger("{}", 9).is_err() && ledger(r#"[{"at":1}]"#, 9).is_err());
    }

    #[test]
    fn a_store_that_forgets_may_lose_and_never_double() {
        let verdict_of = |counted: u64, forgets: bool| {
            let mut audit = Audit::new(forgets);
            audit.inputs(&record(70, Some(counted), 0));
            let mut verdict = Verdict::default();
            audit.conclude(&mut verdict);
            verdict.exit_code()
        };
        assert_eq!((verdict_of(60, true), verdict_of(60, false)), (0, 1), "lost");
        assert_eq!((verdict_of(71, true), verdict_of(71, false)), (1, 1), "twice");
    }
}
