//! What people see before it happens.

use tenure::timers::{RewardBook, preview, zone_data_version};

use crate::{file, wall};

fn rows(keys: &str, from: &str, count: usize) -> Vec<String> {
    let book = RewardBook::parse("rewards.toml", &file(keys)).expect("valid");
    preview::next(&book, None, wall(from), count).iter().map(ToString::to_string).collect()
}

#[test]
fn a_row_begins_with_the_instant_and_ends_with_what_is_paid() {
    let rows = rows("cron = \"30 2 * * *\"\ntimezone = \"America/New_York\"", "2026-03-07T12:00:00Z", 2);
    assert_eq!(
        rows[0],
        "2026-03-08T07:00:00Z  2026-03-08 03:00:00 EDT America/New_York  schedule/test/1772953200000000/<room>/<player>  \
         (clocks go forward: 02:30:00 does not exist that day)"
    );
    assert_eq!(
        rows[1],
        "2026-03-09T06:30:00Z  2026-03-09 02:30:00 EDT America/New_York  schedule/test/1773037800000000/<room>/<player>"
    );
}

#[test]
fn repeated_times_are_marked() {
    let once = rows("cron = \"30 1 * * *\"\ntimezone = \"America/New_York\"", "2026-11-01T04:00:00Z", 2);
    assert!(once[0].ends_with("(clocks go back: first pass of the repeated time)"), "{once:?}");
    assert!(once[1].starts_with("2026-11-02T06:30:00Z") && !once[1].contains("clocks"), "{once:?}");
    let real = rows("cron = \"30 * * * *\"\ntimezone = \"America/New_York\"", "2026-11-01T05:00:00Z", 2);
    assert!(real[0].contains("first pass") && real[1].contains("second pass"), "{real:?}");
    // At the instant of the change an hourly job is no moved one.
    let hourly = rows("cron = \"0 * * * *\"\ntimezone = \"America/New_York\"", "2026-03-08T06:30:00Z", 1);
    assert!(hourly[0].starts_with("2026-03-08T07:00:00Z") && !hourly[0].contains("clocks"), "{hourly:?}");
}

#[test]
fn several_schedules_come_in_the_order_of_time() {
    let text = format!("{}{}", file("every = \"1h\""), file("every = \"90m\"").replace("test", "other"));
    let book = RewardBook::parse("rewards.toml", &text).expect("valid");
    let rows = preview::next(&book, None, wall("2026-06-01T00:00:00Z"), 5);
    let order: Vec<String> =
        rows.iter().map(|row| format!("{} {}", &preview::utc_text(row.scheduled_for)[11..16], row.id)).collect();
    assert_eq!(order, ["01:00 test", "01:30 other", "02:00 test", "03:00 other", "03:00 test"]);
    assert_eq!(preview::next(&book, Some("other"), wall("2026-06-01T00:00:00Z"), 1).len(), 1);
    assert!(preview::next(&book, Some("none"), wall("2026-06-01T00:00:00Z"), 1).is_empty());
}

#[test]
fn the_report_says_what_is_loaded() {
    let text = format!(
        "{}{}",
        file("cron = \"0 0 13 * 5\""),
        file("every = \"1h\"\ndisabled = true").replace("test", "other")
    );
    let book = RewardBook::parse("rewards.toml", &text).expect("valid");
    let report = preview::report(&book, wall("2026-06-01T00:00:00Z"));
    assert_eq!(report[0], format!("zone data {}", zone_data_version()));
    assert_eq!(report[1], "other: disabled");
    assert_eq!(report[2], "test: next 2026-06-05T00:00:00Z  2026-06-05 00:00:00 UTC");
    assert!(report[3].starts_with("warning: rewards.toml:6: schedule.test.cron:"), "{report:?}");
    let over = RewardBook::parse("rewards.toml", &file("at = 2026-05-01")).expect("valid");
    assert_eq!(preview::report(&over, wall("2026-06-01T00:00:00Z"))[1], "test: not due any more");
}
