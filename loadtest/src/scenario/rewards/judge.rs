//! The judge: completed work against the rooms' own books, against ledgers, against the file and the clock.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::file::{CAP, PERIOD, Text};
use crate::{
    audit::{Audit, Ledger},
    bot::{Record, noted::Books},
    report,
    run::Outcome,
    verdict::Verdict,
};

/// A room follows another file within two seconds and what it has in hand is finished, µs.
const FOLLOWS: u64 = 3_000_000;
/// Most faults of one kind that are told one by one.
const TOLD: usize = 5;
/// Schedules that pay at any time, and are in the file from the first to the last.
const ALWAYS: [&str; 2] = ["steady", "everyone"];

/// A work item that the store has as completed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Done {
    room: String,
    job: String,
    key: u64,
    at: u64,
}

impl Done {
    /// Of which schedule it is an occurrence.
    fn schedule(&self) -> Option<&str> {
        self.job.strip_prefix("schedule/")
    }
}

/// What is known, and what was found wrong on the way.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// Since then every bot is known to its room, µs.
    pub(super) known_since: u64,
    /// Items that were pending when all should have been done or cancelled.
    pub(super) pending: usize,
    /// Reloads that were answered otherwise than they must be.
    pub(super) reloads: Vec<String>,
    /// When which file was read.
    read: Vec<(Text, u64)>,
    done: BTreeSet<Done>,
    twice: Vec<String>,
    cut: u64,
}

impl Judge {
    pub(super) fn read(&mut self, text: Text, at: u64) {
        self.read.push((text, at));
    }

    /// How often the file was read again.
    pub(super) fn reads(&self) -> usize {
        self.read.len()
    }

    fn read_at(&self, text: Text) -> u64 {
        self.read.iter().find(|(read, _)| *read == text).map_or(u64::MAX, |(_, at)| *at)
    }

    /// Takes the output of `work done --json`.
    pub(super) fn take_done(&mut self, output: &Value) -> anyhow::Result<()> {
        self.cut = output["cut"].as_u64().context("how many shards are cut")?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        for line in output["items"].as_array().context("a list of completed work")? {
            let done = || {
                let (room, job) = (text(&line["room"])?, text(&line["job"])?);
                Some(Done { room, job, key: line["key"].as_str()?.parse().ok()?, at: line["at"].as_u64()? })
            };
            // The framework's own items have other keys.
            let Some(done) = done().filter(|done| !done.job.starts_with("tenure/")) else { continue };
            if self.done.iter().any(|known| (&known.room, &known.job, known.key) == (&done.room, &done.job, done.key)) {
                self.twice.push(format!("{} {} {}", done.room, done.job, done.key));
            }
            self.done.insert(done);
        }
        Ok(())
    }

    fn occurrences<'a>(&'a self, schedule: &'a str) -> impl Iterator<Item = &'a Done> {
        self.done.iter().filter(move |done| done.schedule() == Some(schedule))
    }

    pub(super) fn conclude(&self, outcome: &Outcome, audit: &Audit, verdict: &mut Verdict) {
        let faults = |verdict: &mut Verdict, name: &str, faults: &[String]| {
            verdict.check(name, faults.is_empty(), faults.len(), 0);
            faults.iter().take(TOLD).for_each(|text| report::say(&format!("  {name}: {text}")));
        };
        if self.cut > 0 {
            verdict
                .invalid
                .push(format!("the store's log of completed work is too short for this run, of {} shards", self.cut));
        }
        verdict.check("completed work", !self.done.is_empty(), self.done.len(), "some");
        faults(verdict, "items decided twice", &self.twice);
        let early = self.done.iter().filter(|done| done.schedule().is_some() && done.at < done.key);
        faults(verdict, "items done before they were due", &early.map(|done| format!("{done:?}")).collect::<Vec<_>>());
        faults(verdict, "rooms whose books differ from the completed work", &self.books(&outcome.records));
        faults(verdict, "occurrences left out", &self.gaps());
        faults(verdict, "grants of no completed occurrence", &self.undecided(audit));
        faults(verdict, "players who were left out", &self.left_out(&outcome.records, audit));
        faults(verdict, "grants that nobody was shown", &unseen(&outcome.records, audit));
        faults(verdict, "occurrences against the file", &self.against_file());
        faults(verdict, "caps that did not hold", &caps(audit));
        faults(verdict, "reloads with another answer", &self.reloads);
        verdict.check("items still pending or parked", self.pending == 0, self.pending, 0);
    }

    /// What each room says that it paid, against what the store says that it completed: an effect and its completion are one (H6).
    fn books(&self, records: &[Record]) -> Vec<String> {
        let mut said: BTreeMap<u32, Vec<Option<Books>>> = BTreeMap::new();
        // Bots that are away now and then may have missed the last word.
        for record in records.iter().filter(|record| record.stayed) {
            said.entry(record.room).or_default().push(record.books);
        }
        let mut faults = Vec::new();
        for (room, said) in said {
            let name = room_name(room);
            let mut has = Books::default();
            for done in self.done.iter().filter(|done| done.room.ends_with(&name)) {
                if done.schedule().is_some() {
                    has = Books { occurrences: has.occurrences + 1, due: has.due + done.key / 1_000, ..has };
                } else {
                    has = Books { works: has.works + 1, numbers: has.numbers + done.key, ..has };
                }
            }
            if said.iter().any(|said| *said != Some(has)) {
                faults.push(format!("{name}: completed {has:?}, the room says {said:?}"));
            }
        }
        faults
    }

    /// Schedules that catch up all leave out none, whatever happened in between.
    fn gaps(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for schedule in ALWAYS {
            let mut last: BTreeMap<&str, u64> = BTreeMap::new();
            for done in self.occurrences(schedule) {
                if let Some(before) = last.insert(&done.room, done.key).filter(|before| before + PERIOD != done.key) {
                    faults.push(format!("{schedule} of {}: {} after {before}", done.room, done.key));
                }
            }
        }
        faults
    }

    /// Each grant of a schedule belongs to an occurrence that its room has decided.
    fn undecided(&self, audit: &Audit) -> Vec<String> {
        let decided: BTreeSet<(&str, u64, &str)> =
            self.done.iter().filter_map(|done| Some((done.schedule()?, done.key, done.room.as_str()))).collect();
        let mut faults = Vec::new();
        for line in audit.ledgers.values().flat_map(|ledger| &ledger.lines) {
            let Some((schedule, due, room)) = parts(&line.id) else { continue };
            if !decided.contains(&(schedule, due, room)) {
                faults.push(line.id.clone());
            }
        }
        faults
    }

    /// Who is known to a room gets each occurrence that is for all who are.
    fn left_out(&self, records: &[Record], audit: &Audit) -> Vec<String> {
        let mut faults = Vec::new();
        for record in records {
            let Some(player) = &record.player else { continue };
            let (name, player) = (room_name(record.room), player.to_string());
            let lines = audit.ledgers.get(&player).map(|ledger| ledger.lines.as_slice()).unwrap_or_default();
            let has: BTreeSet<u64> = lines
                .iter()
                .filter_map(|line| parts(&line.id))
                .filter(|(schedule, _, room)| *schedule == "everyone" && room.ends_with(&name))
                .map(|(_, due, _)| due)
                .collect();
            let wanted = self.occurrences("everyone").filter(|done| done.room.ends_with(&name));
            for done in wanted.filter(|done| done.key > self.known_since && !has.contains(&done.key)) {
                faults.push(format!("{player}: {} of {}", done.key, done.room));
            }
        }
        faults
    }

    /// What was taken out of the file stops, what was put in begins, and a closed window stays closed.
    fn against_file(&self) -> Vec<String> {
        let second = self.read_at(Text::Second);
        let mut faults = Vec::new();
        for gone in ["recent", "open"] {
            let late = self.occurrences(gone).find(|done| done.key > second.saturating_add(FOLLOWS));
            faults.extend(late.map(|done| format!("{gone} went on: {done:?}")));
            if self.occurrences(gone).next().is_none() {
                faults.push(format!("{gone} was never due"));
            }
        }
        if self.occurrences("renamed").all(|done| done.key < second) {
            faults.push("renamed never began".to_owned());
        }
        faults.extend(self.occurrences("shut").next().map(|done| format!("outside of its window: {done:?}")));
        let end = self.read_at(Text::Empty).saturating_add(FOLLOWS);
        faults.extend(
            self.done
                .iter()
                .find(|done| done.schedule().is_some() && done.key > end)
                .map(|d| format!("after the end: {d:?}")),
        );
        faults
    }

    pub(super) fn line(&self) -> String {
        let crops = self.done.iter().filter(|done| done.schedule().is_none()).count();
        format!("{} occurrences and {crops} items of the game completed", self.done.len() - crops)
    }

    pub(super) fn json(&self) -> Value {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        self.done.iter().for_each(|done| *counts.entry(&done.job).or_default() += 1);
        json!({ "completed": counts, "reloads": self.reloads })
    }
}

/// What a room gave its bots and never showed them, also not when they came back.
fn unseen(records: &[Record], audit: &Audit) -> Vec<String> {
    let mut faults = Vec::new();
    for record in records {
        let Some(player) = &record.player else { continue };
        let seen: BTreeSet<(&str, Option<u64>)> =
            record.grants.iter().map(|granted| (granted.source.as_str(), granted.scheduled_for)).collect();
        let lines = audit.ledgers.get(player.as_str()).map(|ledger| ledger.lines.as_slice()).unwrap_or_default();
        for line in lines.iter().filter(|line| line.given.iter().flatten().any(|(_, amount)| *amount > 0)) {
            let Some((schedule, due, room)) = parts(&line.id) else { continue };
            if room.ends_with(&room_name(record.room)) && !seen.contains(&(schedule, Some(due / 1_000))) {
                faults.push(line.id.clone());
            }
        }
    }
    faults
}

/// Schedule, instant and room of an identity `schedule/<id>/<scheduled_for>/<kind>/<region>/<name>/<player>`.
fn parts(id: &str) -> Option<(&str, u64, &str)> {
    let (schedule, rest) = id.strip_prefix("schedule/")?.split_once('/')?;
    let (due, rest) = rest.split_once('/')?;
    let end = rest.match_indices('/').nth(2)?.0;
    Some((schedule, due.parse().ok()?, rest.get(..end)?))
}

/// How the room of this number is called, at the end of its id.
fn room_name(number: u32) -> String {
    format!("/load-{number}")
}

/// Nobody has more than the cap of a day, and somebody came up to it.
fn caps(audit: &Audit) -> Vec<String> {
    let of = |ledger: &Ledger| -> i64 {
        let given = ledger.lines.iter().filter(|line| line.source.as_deref() == Some("capped"));
        given.filter_map(|line| line.given.as_ref()?.get("silver").copied()).sum()
    };
    let sums: Vec<(&String, i64)> = audit.ledgers.iter().map(|(player, ledger)| (player, of(ledger))).collect();
    let mut faults: Vec<String> =
        sums.iter().filter(|(_, sum)| *sum > CAP).map(|(player, sum)| format!("{player} has {sum}")).collect();
    if sums.iter().all(|(_, sum)| *sum < CAP) {
        faults.push("nobody came up to it".to_owned());
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(items: &[(&str, &str, u64, u64)]) -> Judge {
        let items: Vec<Value> = items
            .iter()
            .map(
                |(room, job, key, at)| json!({ "room": room, "job": job, "key": key.to_string(), "term": 1, "at": at }),
            )
            .collect();
        let mut judge = Judge::default();
        judge.take_done(&json!({ "items": items, "cut": 0 })).expect("readable");
        judge
    }

    #[test]
    fn identities_are_taken_apart() {
        let id = "schedule/steady/1780315230000000/drill/eu/load-1/guest:77";
        assert_eq!(parts(id), Some(("steady", 1_780_315_230_000_000, "drill/eu/load-1")));
        assert_eq!(parts("drill/eu/load-1/7/8/9/1"), None);
    }

    #[test]
    fn what_is_decided_twice_left_out_or_too_early_is_found() {
        let (room, every) = ("drill/eu/load-0", "schedule/everyone");
        let found = judge(&[
            (room, every, 2_000_000, 2_000_001),
            (room, every, 4_000_000, 4_000_009),
            (room, every, 8_000_000, 7),
        ]);
        assert_eq!(found.gaps().len(), 1);
        assert!(found.twice.is_empty());
        let twice = [(room, every, 2_000_000, 2_000_001), (room, every, 2_000_000, 2_000_002)];
        assert_eq!(judge(&twice).twice.len(), 1);
    }

    #[test]
    fn books_that_differ_are_found() {
        let judge = judge(&[
            ("drill/local/load-0", "schedule/steady", 2_000_000, 2_000_001),
            ("drill/local/load-0", "crop", 3, 9),
        ]);
        let record = |due| Record {
            index: 0,
            player: None,
            sent: 0,
            all_saved: true,
            counted: None,
            refused: 0,
            grants: Vec::new(),
            room: 0,
            books: Some(Books { occurrences: 1, due, works: 1, numbers: 3 }),
            stayed: true,
        };
        assert!(judge.books(&[record(2_000)]).is_empty());
        assert_eq!(judge.books(&[record(2_000), record(2_001)]).len(), 1);
    }
}
