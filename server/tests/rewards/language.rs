//! The file is strict, and tells all of its mistakes at once (docs/invariants.md C24, C17).

use tenure::{plugin::Audience, timers::RewardBook};
use tenure_shared::RoomId;

use crate::{errors, file, messages, schedule};

#[test]
fn a_misspelt_key_is_named_with_the_nearest_one() {
    let typo = errors("every = \"1h\"\ncatchup = \"all\"");
    assert_eq!(
        typo,
        [
            "rewards.toml:7: schedule.test.catchup: found an unknown key; expected a key of a schedule; did you mean `catch_up`?"
        ]
    );
    assert!(errors("every = \"1h\"\ntime_zone = \"UTC\"")[0].ends_with("did you mean `timezone`?"));
    assert!(errors("every = \"1h\"\nenabled = false")[0].ends_with("did you mean `disabled`?"));
    assert!(errors("every = \"1h\"\ncolour = 1")[0].contains("expected one of id, cron, seconds, every"));
}

#[test]
fn each_mistake_is_told_by_its_own_line() {
    let cases = [
        ("every = \"0s\"", "rewards.toml:6: schedule.test.every: found \"0s\"; expected a time from 1s to"),
        ("every = \"-5m\"", "found \"-5m\", a negative length of time; expected a time from"),
        ("every = \"250ms\"", "found \"250ms\", milliseconds"),
        ("every = 30", "found 30; expected a time"),
        ("every = \"1h\"\ncron = \"@daily\"", "found cron and every at once; expected one of"),
        ("grant = {}", "duplicate key"),
        ("", "schedule.test.cron: found nothing; expected one of `cron`, `every` and `at`"),
        ("cron = \"0 25 * * *\"", "found 25 in the hour field of \"0 25 * * *\"; expected 0 to 23"),
        ("cron = \"0 0 30 2 *\"", "found \"0 0 30 2 *\", a date that no year has"),
        (
            "cron = \"@daily\"\ntimezone = \"Europe/Berlim\"",
            "found the unknown zone \"Europe/Berlim\"; expected an IANA zone",
        ),
        ("cron = \"@daily\"\ntimezone = \"+02:00\"", "found the unknown zone \"+02:00\""),
        ("cron = \"@daily\"\ntimezone = \"Local\"", "found the unknown zone"),
        ("every = \"1h\"\ndst = \"once\"", "schedule.test.dst: found a key that does nothing here"),
        (
            "cron = \"@daily\"\ndst = \"twice\"",
            "found \"twice\"; expected one of \"auto\", \"once\", \"real\", \"skip\"",
        ),
        ("at = 2026-02-30T00:00:00Z", "rewards.toml:6:"),
        ("at = \"2026-02-30T00:00:00Z\"", "schedule.test.at: found \"2026-02-30T00:00:00Z\"; expected a moment"),
        ("at = 1999", "found 1999; expected a moment or a list"),
        ("at = []", "found a list of 0"),
        ("at = 1969-12-31T00:00:00Z", "found 1969-12-31T00:00:00Z; expected a moment from 1970"),
        (
            "every = \"1h\"\nstarts = 2026-02-01\nends = 2026-01-01",
            "schedule.test.ends: found an end that is not after",
        ),
        ("every = \"1h\"\nwindow = \"22:00-02:00\"", "expected { start = \"22:00\", end"),
        ("every = \"1h\"\nwindow = { from = \"22:00\", end = \"02:00\" }", "did you mean `start`?"),
        (
            "every = \"1h\"\nwindow = { start = \"25:00\", end = \"02:00\" }",
            "window.start: found \"25:00\"; expected a time of day",
        ),
        ("every = \"1h\"\nwindow = { start = \"05:00\", end = \"24:01\" }", "window.end: found \"24:01\""),
        (
            "every = \"1h\"\nwindow = { start = \"22:00\", end = \"02:00\", days = \"frd\" }",
            "window.days: found \"frd\"",
        ),
        (
            "every = \"1h\"\ncap = { glod = 5 }",
            "cap.glod: found \"glod\", which is not granted; expected a currency of `grant`; did you mean `gold`?",
        ),
        ("every = \"1h\"\ncap = { gold = 0 }", "cap.gold: found 0; expected a whole number from 1"),
        ("every = \"1h\"\ncap = { gold = 9, day_starts_at = \"04:00\" }", "expected it beside `cap`"),
        ("every = \"1h\"\nday_starts_at = \"04:00\"", "found no cap that it belongs to"),
        ("every = \"1h\"\ncatch_up = \"al\"", "did you mean `all`?"),
        (
            "every = \"1h\"\ncatch_up = \"latest\"\ncatch_up_limit = 3",
            "catch_up_limit: found a key that does nothing here",
        ),
        (
            "every = \"1h\"\ncatch_up = \"all\"\ncatch_up_limit = 100000",
            "found 100000; expected a whole number from 1 to 1000",
        ),
        ("every = \"1h\"\ncatch_up_max_age = \"45d\"", "an age at which a reward could be paid twice"),
        ("every = \"1h\"\njitter = \"1h\"", "found a jitter as long as the period"),
        ("every = \"1h\"\ndisabled = \"no\"", "found \"no\"; expected true or false"),
    ];
    for (keys, expected) in cases {
        let found = errors(keys);
        assert!(found[0].contains(expected), "{keys}\n  gave {found:#?}\n  instead of {expected}");
        assert_eq!(found.len(), 1, "{keys}: one mistake, one message: {found:#?}");
    }
}

#[test]
fn required_keys_and_shapes() {
    let text = |line: &str, instead: &str| messages(&file("every = \"1h\"").replace(line, instead));
    assert!(text("id = \"test\"\n", "")[0].contains("schedule[0].id: found nothing; expected a name"));
    assert!(text("\"test\"", "\"The Chest\"")[0].contains("found \"The Chest\"; expected a name"));
    assert!(text("\"test\"", "7")[0].contains("found 7; expected a name"));
    assert!(text("grant = { gold = 25 }\n", "")[0].contains("grant: found nothing; expected what each player gets"));
    assert!(text("gold = 25", "gold = -25")[0].contains("grant.gold: found -25; expected a whole number from 1 to"));
    assert!(text("gold = 25", "gold = 2.5")[0].contains("grant.gold: found 2.5"));
    assert!(text("gold = 25", "gold = 99999999999999999999")[0].contains("grant.gold: found 99999999999999999999"));
    assert!(text("gold = 25", "Gold = 25")[0].contains("grant.Gold: found \"Gold\"; expected a currency"));
    assert!(
        text("arena/*/*", "arena/*")[0].contains("found \"arena/*\", 2 parts; expected a pattern kind/region/name")
    );
    assert!(text("arena/*/*", "Arena/*/*")[0].contains("'A', which no room id has"));
    assert!(text("rooms = \"arena/*/*\"\n", "")[0].contains("rooms: found nothing; expected a pattern"));
    assert!(text("\"arena/*/*\"", "[\"arena/*/*\", \"a//b\"]")[0].contains("an empty part"));
    assert!(text("\"present\"", "\"presnt\"")[0].ends_with("did you mean `present`?"));
    assert!(text("\"present\"", "{ active = \"0s\" }")[0].contains("audience.active: found \"0s\""));
    assert!(text("\"present\"", "{ since = \"5m\" }")[0].contains("audience.since: found an unknown key"));
    assert!(
        RewardBook::parse("rewards.toml", &file("every = \"1h\"").replace("gold = 25", "")).is_ok(),
        "a hook decides"
    );
    assert!(
        text("id = ", "name = ").len() == 1
            && text("grant", "amount").len() == 1
            && text("every", "interval").len() == 1
    );
}

#[test]
fn a_schedule_at_the_wrong_level_is_told_where_it_belongs() {
    assert!(
        messages("[chest]\nevery = \"30s\"\n")[0]
            .contains("chest: found a table that is no schedule; expected `[[schedule]]` with `id = \"chest\"`")
    );
    assert!(messages("[schedule]\nid = \"chest\"\n")[0].contains("found `[schedule]`, a single table"));
    assert!(messages("[schedule.chest]\nevery = \"30s\"\n")[0].contains("`[[schedule]]` in double brackets"));
    assert!(messages("every = \"30s\"\n")[0].contains("expected it below the line `[[schedule]]`"));
    assert!(messages("[[schedules]]\nid = \"chest\"\n")[0].ends_with("did you mean `schedule`?"));
    assert!(messages("schedule = 5\n")[0].contains("found 5"));
    assert!(messages("schedule = [5]\n")[0].contains("schedule[0]: found 5; expected a table"));
}

#[test]
fn one_schedule_for_each_id() {
    let twice = format!("{}{}", file("every = \"1h\""), file("every = \"2h\""));
    assert_eq!(
        messages(&twice),
        [
            "rewards.toml:8: schedule.test.id: found \"test\", the id of the schedule in line 2 too; expected one schedule for each id"
        ]
    );
}

#[test]
fn all_mistakes_come_at_once_in_the_order_of_the_lines() {
    let text = "[[schedule]]\nid = \"a\"\ncatchup = \"all\"\nevery = \"0s\"\nrooms = \"x\"\naudience = \"present\"\n\
                grant = { gold = -1 }\n\n[[schedule]]\nid = \"b\"\ncron = \"* * * *\"\ntimezone = \"Nowhere/Land\"\n";
    let found = messages(text);
    let lines: Vec<&str> = found.iter().map(|line| line.split(':').nth(1).expect("a line")).collect();
    assert_eq!(lines, ["3", "4", "5", "7", "9", "9", "9", "11", "12"], "{found:#?}");
}

#[test]
fn broken_syntax_hides_no_other_mistake_and_makes_none_up() {
    let text =
        "[[schedule]]\nid = \"a\nevery = \"1h\"\nrooms = \"arena/*/*\"\naudience = \"presnt\"\ngrant = { gold = 1 }\n";
    let found = messages(text);
    assert!(found[0].starts_with("rewards.toml:2:"), "{found:#?}");
    assert!(found.iter().any(|line| line.contains("audience")), "{found:#?}");
    assert!(found.iter().all(|line| !line.contains("found nothing")), "{found:#?}");
}

#[test]
fn large_files_and_deep_ones_are_refused() {
    assert!(messages(&"#".repeat((1 << 20) + 1))[0].contains("1048577 bytes"));
    assert!(!messages(&format!("a = {}1{}", "[".repeat(5_000), "]".repeat(5_000))).is_empty());
    let many: String = (0..1_001).map(|number| format!("[[schedule]]\nid = \"s{number}\"\n")).collect();
    assert!(messages(&many)[0].contains("1001 schedules"));
}

#[test]
fn a_book_gives_the_schedules_of_a_room() {
    let arena = file("every = \"1h\"");
    let chess = file("every = \"1h\"").replace("test", "mate").replace("arena/*/*", "chess/*/*");
    let off = file("every = \"1h\"\ndisabled = true").replace("test", "off");
    let book = RewardBook::parse("rewards.toml", &format!("{arena}{chess}{off}")).expect("valid");
    let room = |text: &str| RoomId::new(text).expect("valid");
    let of = |id: &str| book.for_room(&room(id)).map(|schedule| schedule.id().to_string()).collect::<Vec<_>>();
    assert_eq!(of("arena/eu/k3"), ["test"]);
    assert_eq!(of("chess/eu/k3"), ["mate"]);
    assert_eq!(book.ids().map(|id| &**id).collect::<Vec<_>>(), ["mate", "off", "test"]);
    assert!(RewardBook::empty().is_empty() && !book.is_empty());
    assert_eq!(schedule("every = \"1h\"").audience(), Audience::Present);
}

/// C17: a reload touches what changed and nothing else.
#[test]
fn a_reload_tells_what_changed() {
    let parse = |text: &str| RewardBook::parse("rewards.toml", text).expect("valid");
    let named = |id: &str, keys: &str| file(keys).replace("test", id);
    let old =
        parse(&[named("a", "every = \"1h\""), named("b", "cron = \"@daily\""), named("c", "every = \"1h\"")].concat());
    let same = old.diff(&old.clone());
    assert_eq!((same.unchanged.len(), same.changed.len(), same.added.len(), same.removed.len()), (3, 0, 0, 0));
    // Another spelling of the same schedule is the same schedule.
    let spelt = parse(
        &[
            named("a", "every = \"60m\""),
            named("b", "cron = \"0 0 * * *\"\ntimezone = \"utc\""),
            named("c", "every = \"1h\""),
        ]
        .concat(),
    );
    assert_eq!(old.diff(&spelt).unchanged.len(), 3);
    let new = parse(
        &[named("a", "every = \"2h\""), named("d", "cron = \"@daily\""), named("c", "every = \"1h\"\ndisabled = true")]
            .concat(),
    );
    let diff = old.diff(&new);
    let names = |list: &[std::sync::Arc<str>]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    assert_eq!((names(&diff.unchanged), names(&diff.changed)), (String::new(), "a".into()));
    assert_eq!((names(&diff.added), names(&diff.removed)), ("d".into(), "b c".into()));
    assert_eq!(names(&new.diff(&old).added), "b c");
}
