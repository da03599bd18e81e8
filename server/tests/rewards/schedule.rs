//! When a schedule is due: grids, long waits, windows, bounds, caps, jitter.

use tenure::{runtime::Wall, timers::preview::utc_text};
use tenure_shared::RoomId;

use crate::{errors, runs, schedule, wall};

/// C13: waits longer than 2^31 ms are ordinary instants.
#[test]
fn long_waits_are_instants() {
    let monthly = schedule("cron = \"0 4 1 * *\"");
    assert_eq!(runs(&monthly, "2026-12-01T05:00:00Z", 2), ["2027-01-01T04:00:00Z", "2027-02-01T04:00:00Z"]);
    let once = schedule("at = 2028-01-05T12:00:00Z");
    assert_eq!(runs(&once, "2026-12-01T00:00:00Z", 5), ["2028-01-05T12:00:00Z"]);
    assert_eq!(runs(&once, "2028-01-05T12:00:00Z", 5), Vec::<String>::new());
    let leap = schedule("cron = \"0 0 29 2 *\"");
    assert_eq!(runs(&leap, "2026-01-01T00:00:00Z", 1), ["2028-02-29T00:00:00Z"]);
}

/// C20: the grid is fixed, whoever asks and whenever.
#[test]
fn every_stays_on_its_grid() {
    let six_hours = schedule("every = \"6h\"\nstarts = 2026-06-01T00:00:00Z");
    for asked in ["2026-06-01T04:00:00Z", "2026-06-01T05:59:59.999999Z", "2026-06-01T00:00:00Z"] {
        assert_eq!(runs(&six_hours, asked, 1), ["2026-06-01T06:00:00Z"], "{asked}");
    }
    assert_eq!(runs(&six_hours, "2026-06-01T08:30:00Z", 1), ["2026-06-01T12:00:00Z"]);
    assert_eq!(runs(&six_hours, "2026-06-01T06:01:30Z", 1), ["2026-06-01T12:00:00Z"], "the run time does not count");
    assert_eq!(runs(&six_hours, "2020-01-01T00:00:00Z", 1), ["2026-06-01T00:00:00Z"], "not before `starts`");
    // Without `starts` the grid begins on a Monday.
    assert_eq!(runs(&schedule("every = \"1w\""), "2026-06-01T00:00:00Z", 1), ["2026-06-08T00:00:00Z"]);
    assert_eq!(runs(&schedule("every = \"1w\""), "1999-01-01T00:00:00Z", 1), ["1999-01-04T00:00:00Z"]);
    assert_eq!(
        runs(&schedule("every = \"30s\""), "2026-06-01T00:00:01Z", 2),
        ["2026-06-01T00:00:30Z", "2026-06-01T00:01:00Z"]
    );
}

#[test]
fn starts_and_ends_are_half_open() {
    let event = schedule("every = \"1h\"\nstarts = 2026-06-01T00:00:00Z\nends = 2026-06-01T03:00:00Z");
    let expected = ["2026-06-01T00:00:00Z", "2026-06-01T01:00:00Z", "2026-06-01T02:00:00Z"];
    assert_eq!(runs(&event, "2026-01-01T00:00:00Z", 9), expected);
    let local =
        schedule("cron = \"0 0 * * *\"\ntimezone = \"Europe/Berlin\"\nstarts = 2026-06-01\nends = \"2026-06-03\"");
    assert_eq!(runs(&local, "2026-01-01T00:00:00Z", 9), ["2026-05-31T22:00:00Z", "2026-06-01T22:00:00Z"]);
}

#[test]
fn moments_are_on_the_clock_of_the_zone() {
    let list = schedule(
        "timezone = \"America/New_York\"\nat = [2026-12-24T18:00:00, \"2026-03-08 02:30:00\", 2026-11-01T01:30:00, \
         2026-07-04T00:00:00+02:00, 2026-12-24T23:00:00Z]",
    );
    let expected = ["2026-03-08T07:00:00Z", "2026-07-03T22:00:00Z", "2026-11-01T05:30:00Z", "2026-12-24T23:00:00Z"];
    assert_eq!(runs(&list, "2026-01-01T00:00:00Z", 9), expected);
}

/// C22: windows across midnight, the weekday of the opening, and DST nights.
#[test]
fn windows_close_after_midnight() {
    let open = |keys: &str, at: &str| {
        let minutes = schedule(&format!("every = \"1s\"\ntimezone = \"Europe/Berlin\"\nwindow = {keys}"));
        let before = Wall(wall(at).0 - 1_000_000);
        minutes.next_after(before) == Some(wall(at))
    };
    let nightly = "{ start = \"23:00\", end = \"07:00\" }";
    let fridays = "{ start = \"22:00\", end = \"02:00\", days = \"fri\" }";
    // Berlin is UTC+2 in June. Friday is the 5th.
    assert!(!open(fridays, "2026-06-04T23:00:00Z"), "Fri 01:00");
    assert!(!open(fridays, "2026-06-05T19:59:59Z"), "Fri 21:59:59");
    assert!(open(fridays, "2026-06-05T20:00:00Z"), "Fri 22:00");
    assert!(open(fridays, "2026-06-05T23:59:00Z"), "Sat 01:59");
    assert!(!open(fridays, "2026-06-06T00:00:00Z"), "Sat 02:00");
    assert!(!open(fridays, "2026-06-06T20:00:00Z"), "Sat 22:00");
    assert!(open(nightly, "2026-06-05T23:00:00Z") && !open(nightly, "2026-06-05T05:00:00Z"));
    // The night of 24 October has nine hours, that of 28 March seven.
    let hours = |from: &str, until: &str| {
        let hourly = schedule(&format!("every = \"1h\"\ntimezone = \"Europe/Berlin\"\nwindow = {nightly}"));
        let all = runs(&hourly, from, 30);
        all.into_iter().filter(|at| at.as_str() < until).collect::<Vec<_>>()
    };
    let october = hours("2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z");
    assert_eq!(
        (october.len(), october.first(), october.last()),
        (9, Some(&"2026-10-24T21:00:00Z".into()), Some(&"2026-10-25T05:00:00Z".into()))
    );
    let march = hours("2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z");
    assert_eq!(
        (march.len(), march.first(), march.last()),
        (7, Some(&"2026-03-28T22:00:00Z".into()), Some(&"2026-03-29T04:00:00Z".into()))
    );
    assert!(
        errors("every = \"1h\"\nwindow = { start = \"22:00\", end = \"22:00\" }")[0]
            .contains("the same time as `start`")
    );
    // It does not open twice when its end is in the repeated hour.
    let early =
        schedule("every = \"30m\"\ntimezone = \"Europe/Berlin\"\nwindow = { start = \"01:00\", end = \"02:30\" }");
    assert_eq!(runs(&early, "2026-10-24T22:00:00Z", 4)[3], "2026-10-26T00:00:00Z");
    let whole = schedule("every = \"6h\"\nwindow = { start = \"00:00\", end = \"24:00\", days = \"sat,sun\" }");
    assert_eq!(runs(&whole, "2026-06-05T12:00:00Z", 9)[7..], ["2026-06-07T18:00:00Z", "2026-06-13T00:00:00Z"]);
}

#[test]
fn a_window_that_is_never_met_is_refused() {
    let started = std::time::Instant::now();
    let never = errors("cron = \"0 12 * * *\"\nwindow = { start = \"22:00\", end = \"02:00\" }");
    assert!(never[0].contains("test.window: found a schedule that is never due"), "{never:?}");
    assert!(started.elapsed() < std::time::Duration::from_millis(500), "{:?}", started.elapsed());
}

#[test]
fn a_cap_counts_from_the_day_of_the_zone() {
    let capped = |starts_at: &str| {
        let keys = format!("every = \"10m\"\ntimezone = \"Europe/Berlin\"\ncap = {{ gold = 100 }}\n{starts_at}");
        schedule(&keys)
    };
    let since = |starts_at: &str, at: &str| {
        let reward = capped(starts_at).reward(wall(at));
        assert_eq!(reward.scheduled_for, wall(at));
        let (since, limits) = reward.cap.expect("there is a cap");
        assert_eq!(limits.get("gold"), Some(&100));
        utc_text(since)
    };
    assert_eq!(since("", "2026-06-05T21:50:00Z"), "2026-06-04T22:00:00Z");
    assert_eq!(since("", "2026-06-05T22:00:00Z"), "2026-06-05T22:00:00Z");
    let four = "day_starts_at = \"04:00\"";
    assert_eq!(since(four, "2026-06-05T01:50:00Z"), "2026-06-04T02:00:00Z");
    assert_eq!(since(four, "2026-06-05T02:00:00Z"), "2026-06-05T02:00:00Z");
    // In the repeated hour the day does not begin twice.
    let half_past_two = "day_starts_at = \"02:30\"";
    assert_eq!(since(half_past_two, "2026-10-25T01:10:00Z"), "2026-10-25T00:30:00Z");
    assert_eq!(since(half_past_two, "2026-03-29T01:00:00Z"), "2026-03-29T01:00:00Z", "in the gap: at its end");
    assert_eq!(schedule("every = \"10m\"").reward(wall("2026-06-05T01:50:00Z")).cap, None);
}

#[test]
fn jitter_spreads_rooms_and_stays_with_a_room() {
    let spread = schedule("every = \"1h\"\njitter = \"60s\"");
    let at = wall("2026-06-05T01:00:00Z");
    let mut delays = Vec::new();
    for number in 0..200 {
        let room = RoomId::new(&format!("arena/eu/r{number}")).expect("valid");
        let due = spread.due(at, &room);
        assert_eq!(due, spread.due(at, &room));
        delays.push(due.0 - at.0);
    }
    assert!(delays.iter().all(|delay| *delay < 60_000_000));
    let late = delays.iter().filter(|delay| **delay > 30_000_000).count();
    assert!((60..140).contains(&late), "{late} of 200 in the second half");
    let room = RoomId::new("arena/eu/r1").expect("valid");
    assert_eq!(schedule("every = \"1h\"").due(at, &room), at);
    // An occurrence that waits for its delay is not missed, and comes once it is over.
    let skip = schedule("every = \"2h\"\njitter = \"1h\"\ncatch_up = \"skip\"");
    let late = (0..200).map(|number| RoomId::new(&format!("arena/eu/r{number}")).expect("valid"));
    let pending = wall("2026-06-05T02:00:00Z");
    let late = late.max_by_key(|room| skip.due(pending, room)).expect("some room");
    let due = skip.due(pending, &late);
    assert!(due > wall("2026-06-05T02:30:00Z"), "{due:?}");
    let waiting = skip.catch_up_pending(pending, skip.undelayed(Wall(due.0 - 1), &late));
    assert_eq!((waiting.run.len(), waiting.dropped, waiting.next), (0, 0, Some(pending)));
    let over = skip.catch_up_pending(pending, skip.undelayed(due, &late));
    assert_eq!((over.run, over.next), (vec![pending], Some(wall("2026-06-05T04:00:00Z"))));
}
