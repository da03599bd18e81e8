//! What is done about missed occurrences (docs/invariants.md C18), and steps of the clock (C23).

use std::time::{Duration, Instant};

use tenure::{
    runtime::Wall,
    timers::{CatchUp, CatchUpPolicy, MAX_COUNTED, preview::utc_text},
};

use crate::{schedule, wall};

const TEN_MINUTES: &str = "cron = \"*/10 * * * *\"";

fn texts(run: &[Wall]) -> Vec<String> {
    run.iter().map(|at| utc_text(*at)).collect()
}

fn down(keys: &str) -> CatchUp {
    let schedule = schedule(&format!("{TEN_MINUTES}\n{keys}"));
    schedule.catch_up(wall("2026-06-01T03:00:00Z"), wall("2026-06-01T04:05:00Z"))
}

#[test]
fn the_policies_are_as_written() {
    let next = Some(wall("2026-06-01T04:10:00Z"));
    let skip = down("catch_up = \"skip\"");
    assert_eq!((skip.run.len(), skip.dropped, skip.next), (0, 6, next));
    let latest = down("catch_up = \"latest\"");
    assert_eq!((texts(&latest.run), latest.dropped, latest.next), (vec!["2026-06-01T04:00:00Z".to_owned()], 5, next));
    assert_eq!(down(""), latest, "it is the default");
    let all = down("catch_up = \"all\"");
    assert_eq!(all.run.len(), 6);
    assert_eq!(
        (utc_text(all.run[0]), utc_text(all.run[5])),
        ("2026-06-01T03:10:00Z".into(), "2026-06-01T04:00:00Z".into())
    );
    assert_eq!((all.dropped, all.at_least, all.next), (0, false, next));
    let three = down("catch_up = \"all\"\ncatch_up_limit = 3");
    assert_eq!(texts(&three.run), ["2026-06-01T03:40:00Z", "2026-06-01T03:50:00Z", "2026-06-01T04:00:00Z"]);
    assert_eq!((three.dropped, three.next), (3, next));
    let young = down("catch_up = \"all\"\ncatch_up_max_age = \"26m\"");
    assert_eq!(texts(&young.run), ["2026-06-01T03:40:00Z", "2026-06-01T03:50:00Z", "2026-06-01T04:00:00Z"]);
    assert_eq!(young.dropped, 3);
}

#[test]
fn a_short_restart_changes_nothing() {
    for policy in ["skip", "latest", "all"] {
        let schedule = schedule(&format!("{TEN_MINUTES}\ncatch_up = \"{policy}\""));
        let pending = wall("2026-06-01T03:10:00Z");
        let back = schedule.catch_up_pending(pending, wall("2026-06-01T03:10:20Z"));
        assert_eq!((texts(&back.run), back.dropped), (vec!["2026-06-01T03:10:00Z".to_owned()], 0), "{policy}");
        let early = schedule.catch_up_pending(pending, wall("2026-06-01T03:09:59.999999Z"));
        assert_eq!((early.run.len(), early.dropped, early.next), (0, 0, Some(pending)), "{policy}: not before due");
    }
}

/// C23: a clock that was put back runs nothing again, and one put forward catches up as after downtime.
#[test]
fn steps_of_the_clock_repeat_nothing() {
    let minutes = schedule("cron = \"* * * * *\"\ncatch_up = \"all\"");
    let done = wall("2026-06-03T12:00:00Z");
    for now in ["2026-06-03T11:00:00Z", "2026-06-01T12:00:00Z", "2026-06-03T12:00:00Z"] {
        let stepped = minutes.catch_up(done, wall(now));
        assert_eq!((stepped.run.len(), stepped.dropped), (0, 0), "{now}");
        assert_eq!(stepped.next, Some(wall("2026-06-03T12:01:00Z")), "{now}");
    }
    let forward = minutes.catch_up(done, wall("2026-06-03T13:00:00Z"));
    assert_eq!((forward.run.len(), forward.dropped), (10, 50));
}

/// The cost of ten years of missed seconds is that of a minute, and the newest are found exactly.
#[test]
fn the_cost_does_not_grow_with_what_was_missed() {
    let mut slowest = Duration::ZERO;
    for keys in [
        "every = \"1s\"",
        "cron = \"* * * * * *\"\nseconds = true",
        "cron = \"*/7 9,17 * * mon-fri\"\ntimezone = \"Europe/Berlin\"",
        "every = \"1s\"\nwindow = { start = \"22:00\", end = \"22:01\", days = \"fri\" }",
    ] {
        let schedule = schedule(keys);
        let (previous, now) = (wall("2016-06-01T00:00:00Z"), wall("2026-06-01T00:00:00.5Z"));
        let started = Instant::now();
        let age = Duration::from_secs(400 * 86_400);
        let found = schedule.catch_up_by(previous, now, CatchUpPolicy::All, 100, age);
        slowest = slowest.max(started.elapsed());
        assert_eq!(found.run.len(), 100, "{keys}");
        assert!(found.at_least && found.dropped >= (MAX_COUNTED - 100) as u64);
        // The run is the newest hundred: each follows the one before it, and nothing is between the last and now.
        for pair in found.run.windows(2) {
            assert_eq!(schedule.next_after(pair[0]), Some(pair[1]), "{keys}");
        }
        let last = found.run.last().copied().expect("a hundred");
        assert!(last <= now && schedule.next_after(last).expect("it goes on") > now, "{keys}");
    }
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
}

#[test]
fn old_occurrences_are_dropped_and_counted() {
    let daily = schedule("cron = \"0 0 * * *\"\ncatch_up = \"latest\"\ncatch_up_max_age = \"6h\"");
    let found = daily.catch_up(wall("2026-06-01T00:00:00Z"), wall("2026-06-05T07:00:00Z"));
    assert_eq!((found.run.len(), found.dropped, found.at_least), (0, 4, false));
    let over =
        schedule("at = 2026-06-01T00:00:00Z").catch_up(wall("2026-05-01T00:00:00Z"), wall("2026-06-02T00:00:00Z"));
    assert_eq!((texts(&over.run), over.next), (vec!["2026-06-01T00:00:00Z".to_owned()], None));
}
