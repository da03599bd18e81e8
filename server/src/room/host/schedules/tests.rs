//! Tests of what a room has pending of its schedules.

use super::*;

const BOOK: &str = r#"
[[schedule]]
id = "chest"
every = "30s"
audience = "present"
rooms = "arena/*/*"
grant = { gold = 10 }

[[schedule]]
id = "daily"
every = "1h"
audience = "all-known"
catch_up = "all"
rooms = "arena/*/*"
grant = { gold = 100 }
"#;

const SECOND: u64 = 1_000_000;
// On the grid of both schedules.
const START: u64 = 1_764_446_400 * SECOND;

fn book() -> RewardBook {
    RewardBook::parse("rewards.toml", BOOK).expect("valid")
}

fn room() -> RoomId {
    RoomId::from_parts("arena", "eu", "a").expect("valid")
}

fn at(seconds: u64) -> Wall {
    Wall(START + seconds * SECOND)
}

fn keys(items: &[WorkItem]) -> Vec<(String, u64)> {
    items.iter().map(|i| (i.id.job.to_string(), (i.id.key.parse::<u64>().expect("µs") - START) / SECOND)).collect()
}

#[test]
fn what_waits_can_be_told_to_a_store_that_forgot_it() {
    let mut occurrences = Occurrences::default();
    let scheduled = occurrences.reconcile(&book(), &room(), &[], at(5)).scheduled;
    let sorted = |mut items: Vec<WorkItem>| {
        items.sort_by(|a, b| a.id.cmp(&b.id));
        items
    };
    assert_eq!(sorted(occurrences.waiting(&book(), &room())), sorted(scheduled.clone()));
    let chest = scheduled.iter().find(|item| item.id.job.ends_with("chest")).expect("scheduled");
    occurrences.put_off(&chest.id, at(90));
    assert!(!occurrences.waiting(&book(), &room()).contains(chest), "the store has its attempts");
}

#[test]
fn a_new_room_gets_the_next_occurrence_of_each_schedule_and_a_restart_changes_nothing() {
    let mut first = Occurrences::default();
    let change = first.reconcile(&book(), &room(), &[], at(5));
    assert_eq!(keys(&change.scheduled), [("schedule/chest".into(), 30), ("schedule/daily".into(), 3_600)]);
    for restart in [6, 20, 29] {
        let again = Occurrences::default().reconcile(&book(), &room(), &change.scheduled, at(restart));
        assert_eq!(again, Change::default(), "restart at {restart}");
    }
    // Down over the due time for a moment: late means now, once.
    let late = Occurrences::default().reconcile(&book(), &room(), &change.scheduled, at(31));
    assert_eq!((keys(&late.scheduled), late.cancelled.len()), (vec![("schedule/chest".into(), 60)], 0));
}

#[test]
fn the_next_occurrence_comes_from_the_last_one_and_never_from_now() {
    let mut occurrences = Occurrences::default();
    let change = occurrences.reconcile(&book(), &room(), &[], at(5));
    let next = occurrences.done(&book(), &change.scheduled[0].id, at(47));
    assert_eq!(keys(&next.scheduled), [("schedule/chest".into(), 60)]);
    assert_eq!(next.dropped, 0);
}

#[test]
fn missed_occurrences_follow_the_rule_of_their_schedule() {
    let stored = Occurrences::default().reconcile(&book(), &room(), &[], at(5)).scheduled;
    let mut occurrences = Occurrences::default();
    // Down for three hours and a bit.
    let change = occurrences.reconcile(&book(), &room(), &stored, at(3 * 3_600 + 5));
    let (chest, daily): (Vec<_>, Vec<_>) =
        keys(&change.scheduled).into_iter().partition(|(job, _)| job.ends_with("chest"));
    assert_eq!(chest.iter().map(|c| c.1).collect::<Vec<_>>(), [10_800, 10_830], "latest, and the next");
    assert_eq!(change.cancelled.iter().map(|id| id.key.to_string()).collect::<Vec<_>>(), [at(30).0.to_string()]);
    assert_eq!(daily.iter().map(|d| d.1).collect::<Vec<_>>(), [7_200, 10_800, 14_400], "all; 3600 is stored already");
    assert_eq!(change.dropped, 359);
    // Each of them ends alone; only the last one leads on.
    let id =
        |seconds: u64| WorkId { room: room(), job: "schedule/daily".into(), key: at(seconds).0.to_string().into() };
    for seconds in [3_600, 7_200, 10_800] {
        assert_eq!(occurrences.done(&book(), &id(seconds), at(10_900)), Change::default(), "{seconds}");
    }
    assert_eq!(
        keys(&occurrences.done(&book(), &id(14_400), at(14_400)).scheduled),
        [("schedule/daily".into(), 18_000)]
    );
}

#[test]
fn a_dormant_room_keeps_only_what_can_have_an_effect_there() {
    let mut occurrences = Occurrences::default();
    let stored = occurrences.reconcile(&book(), &room(), &[], at(5)).scheduled;
    let cancelled = occurrences.leave(&book(), &room());
    assert_eq!(cancelled, [stored[0].id.clone()]);
    assert!(!occurrences.knows(&stored[0].id) && occurrences.knows(&stored[1].id));
}

#[test]
fn an_unload_that_is_called_off_changes_nothing_however_long_it_took() {
    let mut occurrences = Occurrences::default();
    let stored = occurrences.reconcile(&book(), &room(), &[], at(5)).scheduled;
    let cancelled = occurrences.leave(&book(), &room());
    // Its moment passes while the last checkpoint is stored; then somebody comes, and the room stays.
    let back = occurrences.come_back(&book(), &cancelled);
    assert_eq!(back, stored[..1], "the occurrence itself, not the one after now");
    assert!(occurrences.knows(&stored[0].id) && occurrences.knows(&stored[1].id));
}

#[test]
fn an_old_occurrence_that_is_done_late_brings_none_back_that_is_done() {
    let mut occurrences = Occurrences::default();
    let mut stored = occurrences.reconcile(&book(), &room(), &[], at(5)).scheduled;
    let id =
        |seconds: u64| WorkId { room: room(), job: "schedule/chest".into(), key: at(seconds).0.to_string().into() };
    // One that a person made due again disturbs nothing.
    assert_eq!(occurrences.done(&book(), &id(0), at(7)), Change::default(), "the next one is pending already");
    // The first one failed and is put off beyond the next one.
    (stored[0].attempt, stored[0].due) = (1, at(70));
    let mut occurrences = Occurrences::default();
    assert_eq!(
        keys(&occurrences.reconcile(&book(), &room(), &stored, at(45)).scheduled),
        [("schedule/chest".into(), 60)]
    );
    assert_eq!(occurrences.done(&book(), &id(60), at(61)), Change::default(), "not before the last of them");
    let next = occurrences.done(&book(), &id(30), at(71));
    assert_eq!(keys(&next.scheduled), [("schedule/chest".into(), 90)], "60 is done once and for ever");
}

#[test]
fn a_removed_schedule_stops_a_begun_decision_goes_on_and_a_parked_one_waits() {
    let mut stored = Occurrences::default().reconcile(&book(), &room(), &[], at(5)).scheduled;
    let gone = WorkId { room: room(), job: "schedule/gone".into(), key: at(9).0.to_string().into() };
    stored.push(WorkItem { id: gone.clone(), ..stored[0].clone() });
    let change = Occurrences::default().reconcile(&book(), &room(), &stored, at(6));
    assert_eq!((change.cancelled, change.scheduled), (vec![gone], vec![]));

    stored.pop();
    stored[0].payload = Bytes::from_static(b"cursor");
    let change = Occurrences::default().reconcile(&book(), &room(), &stored, at(600));
    assert_eq!(change.cancelled, [], "its first page is paid: it is finished");

    stored[0].payload = Bytes::new();
    stored[0].attempt = 1;
    let change = Occurrences::default().reconcile(&book(), &room(), &stored, at(600));
    assert_eq!(change.cancelled, [], "it failed once: it is tried again, and never dropped");

    stored[0].attempt = 0;
    stored[0].parked = Some("failed".into());
    let change = Occurrences::default().reconcile(&book(), &room(), &stored, at(6));
    assert_eq!((keys(&change.scheduled), change.cancelled), (vec![], vec![]));
}

#[test]
fn the_world_hears_of_changes_once() {
    let mut occurrences = Occurrences::default();
    let stored = occurrences.reconcile(&book(), &room(), &[], at(5)).scheduled;
    assert_eq!(occurrences.news(), [("chest".into(), Some(at(30))), ("daily".into(), Some(at(3_600)))]);
    assert_eq!(occurrences.news(), []);
    occurrences.done(&book(), &stored[0].id, at(30));
    assert_eq!(occurrences.news(), [("chest".into(), Some(at(60)))]);
    occurrences.leave(&book(), &room());
    assert_eq!(occurrences.news(), [("chest".into(), None)]);
}

/// A file with these schedules, each "id rest of the lines".
fn file(schedules: &[(&str, &str)]) -> RewardBook {
    let text: String = schedules
        .iter()
        .map(|(id, when)| format!("[[schedule]]\nid = \"{id}\"\n{when}\nrooms = \"arena/*/*\"\naudience = \"all-known\"\ngrant = {{ gold = 1 }}\n"))
        .collect();
    RewardBook::parse("rewards.toml", &text).expect("valid")
}

/// C17: eleven schedules, an unchanged reload, one cron changed, one renamed, one deleted: one live occurrence per schedule throughout.
#[test]
fn a_reload_touches_what_changed_and_nothing_else() {
    let mut rows: Vec<(String, String)> =
        (0..11).map(|n| (format!("s{n:02}"), format!("cron = \"{n} * * * *\""))).collect();
    let read = |rows: &[(String, String)]| file(&rows.iter().map(|(id, when)| (&**id, &**when)).collect::<Vec<_>>());
    let (mut book, mut occurrences) = (read(&rows), Occurrences::default());
    assert_eq!(occurrences.reconcile(&book, &room(), &[], at(5)).scheduled.len(), 11);
    let none = |_: &WorkId| false;
    let mut reload = |rows: &[(String, String)], hand: &dyn Fn(&WorkId) -> bool| {
        let next = read(rows);
        let change = occurrences.follow([&book, &next], &room(), hand, at(65));
        book = next;
        let cancelled = change.cancelled.iter().map(|id| id.job.to_string()).collect::<Vec<_>>();
        (keys(&change.scheduled), cancelled, occurrences.pending.len())
    };
    assert_eq!(reload(&rows, &none), (vec![], vec![], 11), "the same text");
    rows[4].1 = "cron = \"4 * * * *\"\ndisabled = false # the same in other words".into();
    assert_eq!(reload(&rows, &none), (vec![], vec![], 11), "the same meaning");
    rows[4].1.push_str("\ncatch_up = \"all\"");
    assert_eq!(reload(&rows, &none), (vec![], vec![], 11), "changed, but not when it is due: its occurrence stays");
    rows[5].1 = "cron = \"30 * * * *\"".into();
    assert_eq!(reload(&rows, &none), (vec![("schedule/s05".into(), 1_800)], vec!["schedule/s05".into()], 11));
    rows[6].0 = "renamed".into();
    let renamed = reload(&rows, &none);
    assert_eq!(renamed, (vec![("schedule/renamed".into(), 360)], vec!["schedule/s06".into()], 11));
    rows.remove(7);
    assert_eq!(reload(&rows, &none), (vec![], vec!["schedule/s07".into()], 10));
    rows[8].1.push_str("\ndisabled = true");
    assert_eq!(reload(&rows, &none), (vec![], vec!["schedule/s09".into()], 9));
    // In hand: it is decided, and the new text comes after it.
    rows[1].1 = "cron = \"15 * * * *\"".into();
    let hand = |id: &WorkId| &*id.job == "schedule/s01";
    assert_eq!(reload(&rows, &hand), (vec![("schedule/s01".into(), 900)], vec![], 10), "60 is begun, and finished");
}

#[test]
fn what_a_reload_replaces_was_not_decided_and_what_was_is_not_wanted_again() {
    let (old, new) = (file(&[("s", "every = \"1h\"")]), file(&[("s", "every = \"30m\"\ncatch_up = \"all\"")]));
    let mut occurrences = Occurrences::default();
    let stored = occurrences.reconcile(&old, &room(), &[], at(5)).scheduled;
    assert_eq!(keys(&stored), [("schedule/s".into(), 3_600)]);
    // Overdue when the file is read: the new text decides about the time from then on.
    let late = occurrences.follow([&old, &new], &room(), |_| false, at(5_500));
    assert_eq!(keys(&late.scheduled), [("schedule/s".into(), 5_400), ("schedule/s".into(), 7_200)]);
    assert_eq!(late.cancelled, [], "3600 is an occurrence of both: the instant that is stored is its identity");
    for seconds in [3_600, 5_400] {
        let id = id_of(&room(), "s", at(seconds));
        assert_eq!(occurrences.done(&new, &id, at(5_500)), Change::default());
    }
    // Back to the old text, by a clock that has been put back: nothing that was decided is decided again.
    let back = occurrences.follow([&new, &old], &room(), |_| false, at(1_000));
    assert_eq!((keys(&back.scheduled), back.cancelled.len()), (vec![], 0));
    let id = id_of(&room(), "s", at(7_200));
    assert_eq!(keys(&occurrences.done(&old, &id, at(7_200)).scheduled), [("schedule/s".into(), 10_800)]);
}

/// C17, C12: a room moves between two nodes that have two versions of the file, for days: what is in both is never shifted, nothing is
/// decided twice, and no schedule has two occurrences that are still to come.
#[test]
fn a_room_that_moves_between_two_files_decides_each_occurrence_once() {
    let same = ("same", "cron = \"*/20 * * * *\"\ncatch_up = \"all\"\ncatch_up_limit = 1000");
    let jitter = "cron = \"7 * * * *\"\njitter = \"10m\"";
    let books = [
        file(&[same, ("changed", "cron = \"0 * * * *\""), ("delayed", "every = \"15m\""), ("old", "every = \"10m\"")]),
        file(&[same, ("changed", "cron = \"30 * * * *\"\ntimezone = \"Europe/Berlin\""), ("delayed", jitter)]),
    ];
    for seed in 1..=40u64 {
        let rng = crate::runtime::Rng::seeded(seed);
        let (mut stored, mut done): (BTreeMap<WorkId, WorkItem>, BTreeSet<WorkId>) = Default::default();
        let (mut now, mut which, mut occurrences) = (5, 0, Occurrences::default());
        let write = |change: Change, stored: &mut BTreeMap<WorkId, WorkItem>, done: &BTreeSet<WorkId>| {
            change.cancelled.iter().for_each(|id| drop(stored.remove(id)));
            for item in change.scheduled {
                // As the store does: what was done is done for ever.
                if !done.contains(&item.id) {
                    stored.insert(item.id.clone(), item);
                }
            }
        };
        let first = occurrences.reconcile(&books[0], &room(), &[], at(now));
        write(first, &mut stored, &done);
        for _ in 0..300 {
            now += rng.below(1_500);
            let items: Vec<WorkItem> = stored.values().cloned().collect();
            let change = match rng.below(3) {
                // It moves, is down for a while, or its node reads the other file.
                0 => {
                    which = 1 - which;
                    occurrences = Occurrences::default();
                    occurrences.reconcile(&books[which], &room(), &items, at(now))
                }
                1 => {
                    let old = which;
                    which = 1 - which;
                    occurrences.follow([&books[old], &books[which]], &room(), |_| false, at(now))
                }
                _ => Change::default(),
            };
            let touched = change.cancelled.iter().find(|id| &*id.job == "schedule/same");
            assert_eq!(touched, None, "seed {seed}: what both files have is not shifted");
            write(change, &mut stored, &done);
            let mut due: Vec<WorkItem> = stored.values().filter(|item| item.due <= at(now)).cloned().collect();
            due.sort_by_key(|item| item.due);
            for item in due {
                assert!(done.insert(item.id.clone()), "seed {seed}: {:?} twice", item.id);
                stored.remove(&item.id);
                let change = occurrences.done(&books[which], &item.id, at(now));
                write(change, &mut stored, &done);
            }
            let mut jobs: Vec<&str> =
                stored.values().filter(|item| item.due > at(now)).map(|item| &*item.id.job).collect();
            let all = jobs.len();
            jobs.dedup();
            assert_eq!(jobs.len(), all, "seed {seed}: {stored:?}");
            let live = books[which].live().count();
            assert_eq!(all, live, "seed {seed} at {now}: one to come for each schedule of the file");
        }
        let same: Vec<u64> = done
            .iter()
            .filter(|id| &*id.job == "schedule/same")
            .map(|id| (id.key.parse::<u64>().expect("µs") - START) / SECOND)
            .collect();
        let expected: Vec<u64> = (1..=same.len() as u64).map(|n| n * 1_200).collect();
        assert_eq!(same, expected, "seed {seed}: each once, none missing");
    }
}
