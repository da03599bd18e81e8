//! Every known-right row of `cases/cron.json`, under any zone of the host (docs/invariants.md C01-C12), and what the rows leave open.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use serde::Deserialize;
use tenure::timers::{Cron, RewardBook, zone_data_version};

use crate::{errors, file, runs, schedule};

#[derive(Deserialize)]
struct Row {
    id: String,
    expr: String,
    tz: String,
    after: String,
    expect: Vec<String>,
    kind: String,
    needs_tzdata: Option<String>,
}

fn rows() -> Vec<Row> {
    serde_json::from_str(include_str!("../cases/cron.json")).expect("the rows are JSON")
}

fn keys(row: &Row) -> String {
    let seconds = if row.expr.split_whitespace().count() == 6 { "seconds = true\n" } else { "" };
    format!("cron = \"{}\"\ntimezone = \"{}\"\n{seconds}", row.expr, row.tz)
}

#[test]
fn every_row_is_right() {
    let mut wrong = Vec::new();
    for row in rows() {
        let book = RewardBook::parse("rewards.toml", &file(&keys(&row)));
        if row.kind == "next" {
            let Ok(book) = book else {
                wrong.push(format!("{}: refused", row.id));
                continue;
            };
            let got = runs(book.get("test").expect("it is there"), &row.after, row.expect.len());
            if got != row.expect {
                wrong.push(format!("{}: {} {}: {got:?} instead of {:?}", row.id, row.expr, row.tz, row.expect));
            }
            let needed = row.needs_tzdata.clone().unwrap_or_default();
            assert!(zone_data_version() >= needed.as_str(), "zone data {needed} is needed");
        } else {
            assert!(matches!(row.kind.as_str(), "never" | "reject"), "{}: unknown kind {}", row.id, row.kind);
            match book {
                Ok(_) => wrong.push(format!("{}: {} was accepted", row.id, row.expr)),
                Err(errors) => assert!(errors.iter().all(|error| error.line > 0), "{errors:?}"),
            }
        }
        // The best of three: what takes long by its nature does so each time, a busy machine does not.
        let quick = (0..3).any(|_| {
            let started = Instant::now();
            if let (Ok(book), "next") = (RewardBook::parse("rewards.toml", &file(&keys(&row))), row.kind.as_str()) {
                drop(runs(book.get("test").expect("it is there"), &row.after, row.expect.len()));
            }
            started.elapsed() < Duration::from_millis(100)
        });
        assert!(quick, "{} takes more than 100 ms", row.id);
    }
    assert!(wrong.is_empty(), "{} wrong rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// The host's zone changes nothing (C11): this program runs again with other values of `TZ`.
#[test]
fn the_zone_of_the_host_does_not_matter() {
    let program = std::env::current_exe().expect("this program");
    for zone in ["UTC", "Europe/London", "Australia/Sydney"] {
        let run = Command::new(&program).args(["--exact", "cron::every_row_is_right"]).env("TZ", zone).output();
        let run = run.expect("it runs");
        assert!(run.status.success(), "TZ={zone}: {}", String::from_utf8_lossy(&run.stdout));
        assert!(String::from_utf8_lossy(&run.stdout).contains("1 passed"), "the test was not found");
    }
}

#[test]
fn what_the_rows_leave_open() {
    // (expression, zone, after, runs)
    let cases: [(&str, &str, &str, &[&str]); 9] = [
        (
            "0 0 * * fri-sun",
            "UTC",
            "2026-06-01T00:00:00Z",
            &["2026-06-05T00:00:00Z", "2026-06-06T00:00:00Z", "2026-06-07T00:00:00Z"],
        ),
        ("@daily", "UTC", "2026-06-01T00:00:00Z", &["2026-06-02T00:00:00Z"]),
        ("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", &["2104-02-29T00:00:00Z"]),
        // A minute that starts with `*` in a fixed hour is still a list of fixed times.
        ("*/30 2 * * *", "America/New_York", "2026-03-08T06:00:00Z", &["2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z"]),
        ("*/30 1 * * *", "America/New_York", "2026-11-01T05:00:00Z", &["2026-11-01T05:30:00Z", "2026-11-02T06:00:00Z"]),
        (
            "0,30 1-2 * * *",
            "America/New_York",
            "2026-11-01T05:00:00Z",
            &["2026-11-01T05:30:00Z", "2026-11-01T07:00:00Z"],
        ),
        // A zone whose change is at midnight: the day begins at 01:00.
        ("0 0 * * *", "America/Havana", "2026-03-07T05:00:00Z", &["2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"]),
        // Half an hour.
        (
            "*/20 * * * *",
            "Australia/Lord_Howe",
            "2026-04-04T14:30:00Z",
            &["2026-04-04T14:40:00Z", "2026-04-04T15:10:00Z", "2026-04-04T15:30:00Z"],
        ),
        // A day that Samoa skipped.
        ("0 12 30 * *", "Pacific/Apia", "2011-12-01T00:00:00Z", &["2011-12-30T10:00:00Z", "2012-01-29T22:00:00Z"]),
    ];
    for (expression, zone, after, expected) in cases {
        let schedule = schedule(&format!("cron = \"{expression}\"\ntimezone = \"{zone}\""));
        assert_eq!(runs(&schedule, after, expected.len()), expected, "{expression} {zone}");
    }
}

#[test]
fn the_dst_rule_of_a_schedule_can_be_chosen() {
    let on = |dst: &str, expression: &str, after: &str, count: usize| {
        let keys = format!("cron = \"{expression}\"\ntimezone = \"America/New_York\"\ndst = \"{dst}\"");
        runs(&schedule(&keys), after, count)
    };
    let (spring, autumn) = ("2026-03-08T05:30:00Z", "2026-11-01T04:30:00Z");
    assert_eq!(on("auto", "30 2 * * *", spring, 1), ["2026-03-08T07:00:00Z"]);
    assert_eq!(on("skip", "30 2 * * *", spring, 1), ["2026-03-09T06:30:00Z"]);
    assert_eq!(on("real", "30 2 * * *", spring, 1), ["2026-03-09T06:30:00Z"]);
    assert_eq!(on("skip", "30 1 * * *", autumn, 2), ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]);
    assert_eq!(on("real", "30 1 * * *", autumn, 2), ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]);
    assert_eq!(
        on("once", "0 * * * *", autumn, 3),
        ["2026-11-01T05:00:00Z", "2026-11-01T07:00:00Z", "2026-11-01T08:00:00Z"]
    );
    assert_eq!(on("once", "0 * * * *", spring, 2), ["2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z"]);
}

#[test]
fn what_no_one_may_mean_is_refused_with_its_place() {
    let refused = [
        ("*/90 * * * *", 2, "minute"),
        ("5/0 * * * *", 2, "minute"),
        ("*/ * * * *", 2, "minute"),
        ("0 22-2 * * *", 2, "hour"),
        ("0 0 L * *", 4, "day of month"),
        ("0 0 15W * *", 4, "day of month"),
        ("0 0 * * fri#2", 8, "weekday"),
        ("0 0 * * 5L", 8, "weekday"),
        ("0 0 * * 7/2", 8, "weekday"),
        ("H * * * *", 0, "minute"),
        ("? * * * *", 0, "minute"),
        ("1,,2 * * * *", 2, "minute"),
        ("1- * * * *", 2, "minute"),
        ("+5 * * * *", 0, "minute"),
        ("-5 * * * *", 0, "minute"),
        ("0 0 * jax *", 6, "month"),
        ("0 0 1 13 *", 6, "month"),
        ("0 0 32 * *", 4, "day of month"),
        ("1.5 * * * *", 0, "minute"),
        ("٣ * * * *", 0, "minute"),
        ("* * * *", 0, "expression"),
        ("* * * * * * *", 0, "expression"),
        ("", 0, "expression"),
        ("@dayly", 0, "expression"),
        ("@every 5m", 0, "expression"),
        ("@daily 5", 0, "expression"),
        ("@reboot", 0, "expression"),
    ];
    for (expression, at, field) in refused {
        let error = Cron::parse(expression).expect_err(expression);
        assert_eq!((error.at, error.field), (at, field), "{expression}: {error}");
    }
    assert_eq!(Cron::parse("@dayly").expect_err("unknown").hint.as_deref(), Some("@daily"));
    assert_eq!(Cron::parse("0 0 * jax *").expect_err("unknown").hint.as_deref(), Some("jan"));
    assert!(Cron::parse(&"1,".repeat(200)).expect_err("too long").found.contains("400 bytes"));
}

#[test]
fn both_day_fields_are_warned_about() {
    let warned = |expression: &str| {
        let book = RewardBook::parse("rewards.toml", &file(&format!("cron = \"{expression}\""))).expect("valid");
        book.warnings().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(warned("0 0 13 * 5").iter().any(|text| text.contains("either of them")));
    assert!(warned("0 0 */2 * 3").iter().any(|text| text.contains("only when both")));
    assert!(warned("41-59/24 5 * * 5").iter().any(|text| text.contains("41 alone")));
    assert!(warned("0 0-23 * * *").iter().any(|text| text.contains("every hour is written out")));
    assert_eq!(warned("0 0 * * 5"), Vec::<String>::new());
    assert_eq!(warned("0 0 13 * *"), Vec::<String>::new());
    assert_eq!(warned("*/15 * * * *"), Vec::<String>::new());
}

#[test]
fn six_fields_must_be_asked_for() {
    assert!(errors("cron = \"0 30 9 * * 1-5\"")[0].contains("`seconds = true`"));
    assert!(errors("cron = \"30 9 * * 1-5\"\nseconds = true")[0].contains("six fields, the second first"));
    let six = schedule("cron = \"0 30 9 * * 1-5\"\nseconds = true");
    let five = schedule("cron = \"30 9 * * 1-5\"");
    assert_eq!(runs(&six, "2026-06-01T00:00:00Z", 20), runs(&five, "2026-06-01T00:00:00Z", 20));
}
