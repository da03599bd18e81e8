//! Properties: occurrences rise, agree with a clock that is watched minute by minute, and no text makes the reader panic.

use std::collections::BTreeSet;

use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{TimeZone, TimeZoneDatabase},
};
use proptest::prelude::*;
use tenure::{
    runtime::Wall,
    timers::{Cron, RewardBook},
};

use crate::{file, schedule, wall};

/// Two days around each change of the clocks, and ordinary days.
const DAYS: [(&str, &str); 7] = [
    ("Europe/Berlin", "2026-03-28T00:00:00Z"),
    ("Europe/Berlin", "2026-10-24T00:00:00Z"),
    ("America/New_York", "2026-03-07T00:00:00Z"),
    ("America/New_York", "2026-10-31T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T00:00:00Z"),
    ("UTC", "2028-02-28T00:00:00Z"),
    ("Pacific/Apia", "2011-12-29T00:00:00Z"),
];

const MINUTES: i64 = 3 * 24 * 60;

/// Sets of values as they are meant, and the expression that says so.
#[derive(Clone, Debug)]
struct Meant {
    minutes: BTreeSet<u32>,
    hours: Option<BTreeSet<u32>>,
    days: Option<BTreeSet<u32>>,
    weekdays: Option<BTreeSet<u32>>,
}

fn list(values: &BTreeSet<u32>) -> String {
    values.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

impl Meant {
    fn text(&self) -> String {
        let or_star = |values: &Option<BTreeSet<u32>>| values.as_ref().map_or_else(|| "*".to_owned(), list);
        format!(
            "{} {} {} * {}",
            list(&self.minutes),
            or_star(&self.hours),
            or_star(&self.days),
            or_star(&self.weekdays)
        )
    }

    fn matches(&self, shown: DateTime) -> bool {
        let day = self.days.as_ref().map(|days| days.contains(&(shown.day() as u32)));
        let weekday = shown.weekday().to_sunday_zero_offset() as u32;
        let weekday = self.weekdays.as_ref().map(|days| days.contains(&weekday));
        let date = match (day, weekday) {
            (Some(day), Some(weekday)) => day || weekday,
            (one, other) => one.or(other).unwrap_or(true),
        };
        let hour = self.hours.as_ref().is_none_or(|hours| hours.contains(&(shown.hour() as u32)));
        date && hour && self.minutes.contains(&(shown.minute() as u32))
    }
}

fn meant() -> impl Strategy<Value = Meant> {
    let values = |range: std::ops::Range<u32>, most: usize| prop::collection::btree_set(range, 1..most);
    let maybe =
        |range: std::ops::Range<u32>, most: usize| prop::option::of(prop::collection::btree_set(range, 1..most));
    // Many of the hours are those that a change of clocks touches.
    let hours = prop_oneof![Just(None), values(0..4, 4).prop_map(Some), values(0..24, 6).prop_map(Some)];
    (values(0..60, 5), hours, maybe(1..32, 6), maybe(0..7, 3)).prop_map(|(minutes, hours, days, weekdays)| Meant {
        minutes,
        hours,
        days,
        weekdays,
    })
}

fn minute(from: i64, number: i64) -> Timestamp {
    Timestamp::from_second(from + number * 60).expect("in range")
}

/// Watches the clock on the wall: a fixed hour runs when the clock first reaches or passes its time, an hour that is a
/// star runs whenever the clock shows it.
fn watched(meant: &Meant, zone: &TimeZone, from: i64) -> Vec<i64> {
    let mut highest = zone.to_datetime(minute(from, 0));
    let mut runs = Vec::new();
    for number in 1..=MINUTES {
        let instant = minute(from, number);
        let shown = zone.to_datetime(instant);
        let due = if meant.hours.is_none() {
            meant.matches(shown)
        } else {
            let mut passed = false;
            while highest < shown {
                highest = highest.checked_add(jiff::Span::new().minutes(1)).expect("in range");
                passed |= meant.matches(highest);
            }
            passed
        };
        if due {
            runs.push(instant.as_second());
        }
    }
    runs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cron_agrees_with_a_watched_clock(meant in meant(), at in 0..DAYS.len()) {
        let (name, start) = DAYS[at];
        let zone = TimeZoneDatabase::bundled().get(name).expect("known");
        let from = start.parse::<Timestamp>().expect("a timestamp").as_second();
        // The start itself is a time that was shown; the clock is not in a repeated hour there.
        let schedule = schedule(&format!("cron = \"{}\"\ntimezone = \"{name}\"", meant.text()));
        let (mut at, until) = (wall(start), Wall((from + MINUTES * 60) as u64 * 1_000_000));
        let mut runs = Vec::new();
        while let Some(next) = schedule.next_after(at).filter(|next| *next <= until) {
            prop_assert!(next > at);
            runs.push((next.0 / 1_000_000) as i64);
            at = next;
        }
        prop_assert_eq!(&runs, &watched(&meant, &zone, from), "{} {}", meant.text(), name);
        // Asked at any other moment, also within a repeated hour, the answer is the next of the same ones.
        for number in (0..MINUTES).step_by(11) {
            let asked = from + number * 60;
            let expected = runs.iter().find(|run| **run > asked).copied();
            let next = schedule.next_after(Wall(asked as u64 * 1_000_000 + 999)).filter(|next| *next <= until);
            prop_assert_eq!(next.map(|next| (next.0 / 1_000_000) as i64), expected, "{} {} {}", meant.text(), name, asked);
        }
    }

    /// Whatever moment is asked about, the answer is after it and is the same for all moments up to the answer.
    #[test]
    fn the_next_one_never_goes_back(which in 0..6_usize, seconds in 0..40_000_000_u64, step in 1..5_000_000_u64) {
        let keys = [
            "cron = \"30 2,14 * * *\"\ntimezone = \"America/New_York\"",
            "cron = \"*/20 * * * *\"\ntimezone = \"Australia/Lord_Howe\"",
            "cron = \"0 0 13 * 5\"\ntimezone = \"Europe/Berlin\"\ndst = \"skip\"",
            "every = \"7h\"\ntimezone = \"Europe/Berlin\"\nwindow = { start = \"22:00\", end = \"02:00\", days = \"fri,sat\" }",
            "cron = \"30 1-3 * * *\"\ntimezone = \"Europe/Berlin\"\ndst = \"real\"",
            "cron = \"0 3 * * *\"\ntimezone = \"Europe/Berlin\"\nwindow = { start = \"02:30\", end = \"03:30\" }",
        ];
        let schedule = schedule(keys[which]);
        let after = Wall(wall("2026-01-01T00:00:00Z").0 + seconds * 1_000_000 + 7);
        let next = schedule.next_after(after).expect("it goes on");
        prop_assert!(next > after);
        let later = Wall((after.0 + step * 1_000_000).min(next.0 - 1));
        prop_assert_eq!(schedule.next_after(later), Some(next));
        prop_assert!(schedule.next_after(next).expect("it goes on") > next);
    }

    /// What catch-up runs, drops and names as next are exactly the occurrences that there are.
    #[test]
    fn catch_up_loses_and_doubles_nothing(start in 0..10_000_000_u64, down in 0..200_000_u64, limit in 1..20_usize) {
        let schedule = schedule(&format!(
            "cron = \"*/7 2-9 * * *\"\ntimezone = \"Europe/Berlin\"\ncatch_up = \"all\"\ncatch_up_limit = {limit}"
        ));
        let previous = Wall(wall("2026-01-01T00:00:00Z").0 + start * 1_000_000);
        let now = Wall(previous.0 + down * 1_000_000);
        let mut missed = Vec::new();
        let mut at = previous;
        while let Some(next) = schedule.next_after(at).filter(|next| *next <= now) {
            missed.push(next);
            at = next;
        }
        let found = schedule.catch_up(previous, now);
        prop_assert_eq!(found.dropped as usize + found.run.len(), missed.len());
        prop_assert_eq!(&found.run[..], &missed[missed.len() - found.run.len()..]);
        prop_assert_eq!(found.run.len(), missed.len().min(limit));
        prop_assert_eq!(found.next, schedule.next_after(now));
    }

    #[test]
    fn no_expression_panics(text in "[ */,0-9?LW#@a-z-]{0,40}") {
        if let Ok(cron) = Cron::parse(&text) {
            prop_assert!(cron.possible() || !text.is_empty());
        }
        let _ = RewardBook::parse("rewards.toml", &file(&format!("cron = \"{text}\"")));
    }

    #[test]
    fn no_file_panics(text in "(?s).{0,200}") {
        let _ = RewardBook::parse("rewards.toml", &text);
    }

    /// Pieces of the language in any order: what is accepted has an answer, what is not has a place.
    #[test]
    fn no_mixture_of_keys_panics(pieces in prop::collection::vec(0..PIECES.len(), 0..12)) {
        let text: String = pieces.iter().map(|at| PIECES[*at]).collect();
        match RewardBook::parse("rewards.toml", &text) {
            Ok(book) => {
                for schedule in book.live() {
                    prop_assert!(schedule.next_after(Wall(0)).is_some());
                }
            }
            Err(errors) => prop_assert!(errors.iter().all(|error| error.line > 0), "{errors:?}"),
        }
    }
}

const PIECES: [&str; 24] = [
    "[[schedule]]\nid = \"a\"\nrooms = \"a/*/*\"\naudience = \"present\"\ngrant = { gold = 1 }\n",
    "[[schedule]]\nid = \"b\"\nrooms = [\"a/*/*\"]\naudience = { active = \"5m\" }\ngrant = {}\n",
    "[[schedule]]\n",
    "[schedule]\n",
    "[x]\n",
    "every = \"1h\"\n",
    "every = \"999999999999999999999h\"\n",
    "cron = \"0 0 29 2 1\"\n",
    "cron = \"* * * * * *\"\n",
    "seconds = true\n",
    "at = [2026-01-01, 9999-12-31T23:59:59Z]\n",
    "at = 0000-01-01T00:00:00+23:59\n",
    "starts = 8999-12-31\n",
    "ends = 1970-01-01T00:00:01Z\n",
    "timezone = \"Pacific/Apia\"\n",
    "timezone = \"\"\n",
    "window = { start = \"00:00\", end = \"24:00\" }\n",
    "window = { start = 23:59:59, end = 00:00:00, days = \"*/2\" }\n",
    "cap = { gold = 9007199254740991 }\n",
    "day_starts_at = \"24:00\"\n",
    "jitter = \"59m\"\n",
    "catch_up = \"all\"\ncatch_up_limit = 1000\n",
    "dst = \"skip\"\n",
    "\"\\u0000\" = \"\u{fffd}\"\n",
];
