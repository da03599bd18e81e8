//! Durable work, rewards, grants, timers and tasks: once each, whatever moves or crashes (H6, H8).
#![allow(elided_lifetimes_in_paths, clippy::needless_pass_by_value, reason = "systems read better so")]
#![allow(clippy::expect_used, clippy::type_complexity, reason = "a test says what is wrong by panicking")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::{
    plugin::Audience,
    prelude::*,
    room::world::WorldSettings,
    test::{Fate, TestRoom, TestSeat},
};

#[path = "game_durable_parts/missed.rs"]
mod missed;

#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Log(Vec<String>);
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Broken(bool);
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Do(String, String);

fn act(
    inbox: Inbox<Do>,
    (mut due, mut timers, mut tasks, mut grants): (Due, Timers, Tasks, Grants),
    seats: Seats,
    mut log: ResMut<Log>,
    mut broken: ResMut<Broken>,
) {
    for (seat, Do(what, key)) in inbox.iter() {
        let n: u64 = key.parse().unwrap_or(0);
        match what.as_str() {
            "plant" => due.schedule_in("harvest", key, Duration::from_secs(10), &format!("crop {key}")),
            "dig" => due.cancel("harvest", key),
            "after" => timers.after_with("bell", n, Duration::from_secs(n), &format!("bell {n}")),
            "every" => timers.every("beat", n, Duration::from_secs(n)),
            "hush" => drop(timers.cancel("beat", n)),
            "unknown" => timers.after("nobody", n, Duration::from_secs(1)),
            "task" => log.0.push(format!("{:?}", tasks.spawn("sum", n, async move { n + 1 }))),
            "give" => grants.give(seats.get(seat).expect("a seat").player(), "gift", &[("gold", n as i64)]),
            "buy" => grants.charge(seats.get(seat).expect("a seat").player(), "shop", &[("gold", n as i64)], key),
            "move" => {
                due.cancel("harvest", key);
                due.schedule_in("harvest", key, Duration::from_secs(5), &format!("crop {key}"));
            }
            "break" => broken.0 = n == 1,
            other => panic!("{other}?"),
        }
    }
}

fn harvest(
    In(work): In<Work<String>>,
    broken: Res<Broken>,
    mut log: ResMut<Log>,
    mut grants: Grants,
    seats: Seats,
) -> Result<(), Refuse> {
    let Some((_, seat)) = seats.iter().next() else { return Err("nobody is there".into()) };
    grants.give(seat.player(), "harvest", &[("gold", 7)]);
    if broken.0 {
        return Err("the scythe is broken".into());
    }
    log.0.push(format!("{} harvested, attempt {}", work.body, work.attempt));
    Ok(())
}

fn game(room: &mut RoomBuilder) {
    room.resource::<Log>("log").replicated().persisted();
    room.resource::<Broken>("broken").persisted();
    room.message::<Do>("do");
    room.work("harvest", harvest);
    room.charge("shop", |In(charged): In<Charged<String>>, mut log: ResMut<Log>| {
        log.0.push(format!("bought {}, paid {}", charged.purchase, charged.paid));
    });
    room.task("sum", |In(done): In<TaskDone<u64>>, mut log: ResMut<Log>| {
        log.0.push(format!("{} {:?}", done.key, done.result));
    });
    room.timer("bell", |In(fired): In<Fired>, mut log: ResMut<Log>, mut timers: Timers| {
        log.0.push(fired.payload::<String>().expect("a payload"));
        // The first of two that are due together cancels the second, and sets a third anew.
        timers.cancel("bell", fired.key + 100);
    });
    room.timer("beat", |In(fired): In<Fired>, mut log: ResMut<Log>| log.0.push(format!("beat at {:?}", fired.due)))
        .guard(|In(fired): In<Fired>| fired.due != Duration::from_secs(4));
    room.on_granted(|In(granted): In<Granted>, mut log: ResMut<Log>| {
        log.0.push(format!("{} {:?}", granted.source, granted.outcome));
    });
    room.reward("daily", |In(due): In<RewardDue>, mut log: ResMut<Log>| {
        log.0.push(format!("page of {}, first {}", due.recipients.len(), due.first));
        due.recipients
    });
    room.systems(Apply, act);
}

/// An older build of it: nothing is handled yet.
fn old_game(room: &mut RoomBuilder) {
    room.resource::<Log>("log").replicated().persisted();
    room.resource::<Broken>("broken").persisted();
    room.message::<Do>("do");
    room.systems(Apply, act);
}

fn log(room: &TestRoom, seat: TestSeat) -> Vec<String> {
    room.state(seat).resource::<Vec<String>>("log").expect("a log")
}

fn tell(room: &mut TestRoom, seat: TestSeat, what: &str, key: &str) {
    room.send(seat, "do", &Do(what.to_owned(), key.to_owned()));
    room.tick(1);
}

#[test]
fn due_work_is_done_once_not_early_and_tried_again_when_it_fails() {
    let mut room = TestRoom::new("farm", game);
    let ada = room.join("ada");
    tell(&mut room, ada, "plant", "a");
    tell(&mut room, ada, "plant", "b");
    tell(&mut room, ada, "plant", "b");
    tell(&mut room, ada, "plant", "c");
    tell(&mut room, ada, "dig", "c");
    room.crash();
    room.advance(Duration::from_millis(9_500));
    assert_eq!(log(&room, ada), Vec::<String>::new());
    tell(&mut room, ada, "break", "1");
    room.advance(Duration::from_secs(2));
    assert_eq!(room.balance("ada", "gold"), 0, "grants of a failed handler are taken back");
    tell(&mut room, ada, "break", "0");
    room.move_now();
    room.advance(Duration::from_secs(3));
    room.crash();
    room.advance(Duration::from_secs(3));
    let lines = log(&room, ada);
    let done: Vec<_> = lines.iter().filter(|line| line.contains("harvested")).collect();
    assert_eq!(done.len(), 2, "{lines:?}");
    assert!(done.iter().all(|line| !line.ends_with("attempt 0")), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("harvest Given")).count(), 2);
    assert_eq!(room.balance("ada", "gold"), 14);
    assert_eq!(room.take_errors(), Vec::<String>::new());
}

#[test]
fn results_come_to_game_code_once_in_the_history_that_survives() {
    let mut room = TestRoom::new("farm", game);
    let ada = room.join("ada");
    for crash in [false, true] {
        room.fate(Fate::Unheard);
        tell(&mut room, ada, "give", "5");
        room.tick(1);
        if crash {
            room.crash();
        }
        room.fate(Fate::Normal);
        room.tick(3);
        room.crash();
        room.tick(3);
    }
    assert_eq!(log(&room, ada).len(), 2);
    assert_eq!(room.balance("ada", "gold"), 10);
    assert_eq!(room.granted(ada).len(), 2);
}

#[test]
fn large_rewards_come_in_pages_and_reach_their_audience() {
    let settings = WorldSettings { max_grants_per_step: 4, ..WorldSettings::default() };
    let mut room = TestRoom::with("farm", game, settings);
    let seats: Vec<_> = (0..10).map(|n| room.join(&format!("p{n}"))).collect();
    room.tick(1);
    room.leave(seats[9]);
    room.tick(1);
    room.advance(Duration::from_secs(90));
    room.drop_socket(seats[8]);
    room.tick(1);
    room.reward("daily", &[("gold", 1)]);
    room.tick(1);
    room.crash();
    room.tick(6);
    let balances = |room: &TestRoom| (0..10).map(|n| room.balance(&format!("p{n}"), "gold")).collect::<Vec<_>>();
    assert_eq!(balances(&room), [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
    room.reward_for("daily", &[("gold", 10)], Audience::Active(Duration::from_secs(60)));
    room.tick(6);
    assert_eq!(balances(&room), [11, 11, 11, 11, 11, 11, 11, 11, 10, 0]);
    room.reward_for("unhooked", &[("gold", 100)], Audience::AllKnown);
    room.tick(6);
    assert_eq!(balances(&room), [111, 111, 111, 111, 111, 111, 111, 111, 110, 100]);
    let pages: Vec<_> = log(&room, seats[0]).into_iter().filter(|line| line.starts_with("page")).collect();
    assert_eq!(
        pages,
        [
            "page of 4, first true",
            "page of 4, first false",
            "page of 4, first true",
            "page of 4, first false",
            "page of 1, first false"
        ]
    );
    assert_eq!(room.take_errors(), Vec::<String>::new());
}

#[test]
fn timers_run_on_room_time_once_over_moves_with_guard_and_generation() {
    let mut room = TestRoom::new("farm", game);
    let ada = room.join("ada");
    for (what, key) in [("after", "3"), ("after", "103"), ("every", "2"), ("after", "5")] {
        room.send(ada, "do", &Do(what.to_owned(), key.to_owned()));
    }
    room.tick(1);
    room.move_now();
    room.freeze(Duration::from_secs(100));
    room.advance(Duration::from_secs(2));
    assert_eq!(log(&room, ada), ["beat at 2.05s"]);
    room.restart();
    room.advance(Duration::from_secs(4));
    tell(&mut room, ada, "hush", "2");
    room.advance(Duration::from_secs(120));
    assert_eq!(log(&room, ada), ["beat at 2.05s", "bell 3", "beat at 4.05s", "bell 5", "beat at 6.05s"]);
    tell(&mut room, ada, "unknown", "1");
    assert_eq!(room.take_errors(), ["timer \"nobody\" is not registered"]);
}

#[test]
fn tasks_give_their_result_or_are_told_that_the_room_moved() {
    let settings = WorldSettings { max_tasks: 2, ..WorldSettings::default() };
    let mut room = TestRoom::with("farm", game, settings);
    let ada = room.join("ada");
    tell(&mut room, ada, "task", "41");
    room.tick(2);
    assert_eq!(log(&room, ada), ["Ok(())", "41 Ok(42)"]);
    room.fate(Fate::Held);
    for key in ["1", "2", "3"] {
        tell(&mut room, ada, "task", key);
    }
    room.move_now();
    room.tick(2);
    assert_eq!(log(&room, ada)[2..], ["Ok(())", "Ok(())", "Err(Full)", "1 Err(Moved)", "2 Err(Moved)"]);
    room.move_now();
    room.tick(2);
    assert_eq!(log(&room, ada).len(), 7, "told once");
}

#[test]
fn a_key_that_was_done_is_used_up_and_that_is_said() {
    let mut room = TestRoom::new("farm", game);
    let ada = room.join("ada");
    for _ in 0..2 {
        tell(&mut room, ada, "plant", "a");
        room.advance(Duration::from_secs(12));
    }
    assert_eq!(room.balance("ada", "gold"), 7);
    let errors = room.take_errors();
    assert!(
        matches!(&errors[..], [one] if one.contains("job \"harvest\" \"a\"") && one.contains("done")),
        "{errors:?}"
    );
}

#[test]
fn the_store_of_a_test_has_the_rules_of_every_store() {
    let mut room = TestRoom::new("farm", game);
    let ada = room.join("ada");
    // Of one tick cancels come first.
    tell(&mut room, ada, "plant", "a");
    tell(&mut room, ada, "move", "a");
    room.advance(Duration::from_secs(6));
    assert_eq!(log(&room, ada)[0], "crop a harvested, attempt 0");
    // What fails too often is parked, and waits for a person.
    tell(&mut room, ada, "break", "1");
    tell(&mut room, ada, "plant", "b");
    room.advance(Duration::from_secs(10 + 1 + 2 + 4 + 8 + 16 + 32 + 64 + 2));
    assert_eq!(room.parked(), [("harvest".to_owned(), "b".to_owned(), "the scythe is broken".to_owned())]);
    assert!(room.take_errors().iter().any(|error| error.contains("failed 8 times and is parked")));
    tell(&mut room, ada, "plant", "b");
    assert!(room.take_errors().iter().any(|error| error.contains("is parked")));
    tell(&mut room, ada, "break", "0");
    room.retry("harvest", "b");
    room.tick(2);
    assert_eq!(room.parked(), []);
    assert_eq!(room.balance("ada", "gold"), 14);
}

#[test]
fn what_a_build_has_no_handler_for_waits_for_one_that_has() {
    let mut room = TestRoom::new("farm", game);
    let ada = room.join("ada");
    room.deposit("ada", "gold", 50);
    room.fate(Fate::Held);
    for (what, key) in [("plant", "a"), ("after", "3"), ("every", "2"), ("task", "1"), ("buy", "5")] {
        tell(&mut room, ada, what, key);
    }
    let before = log(&room, ada).len();
    // The deploy is rolled back, and the older build has the room for a while.
    room.deploy(old_game);
    room.fate(Fate::Normal);
    room.advance(Duration::from_secs(20));
    room.restart();
    room.advance(Duration::from_secs(20));
    assert_eq!(log(&room, ada).len(), before, "nothing can be handed over yet");
    assert_eq!(room.balance("ada", "gold"), 45, "the ledger has decided");
    let errors = room.take_errors();
    assert!(matches!(&errors[..], [one] if one.contains("charge \"shop\" of ada waits as work")), "{errors:?}");
    // Forward again.
    room.deploy(game);
    room.tick(3);
    room.restart();
    room.advance(Duration::from_secs(3));
    let lines = log(&room, ada).split_off(before);
    for once in ["bought 5, paid true", "bell 3", "1 Err(Moved)", "crop a harvested, attempt 0"] {
        assert_eq!(lines.iter().filter(|line| **line == once).count(), 1, "{once}: {lines:?}");
    }
    // On its own grid, what was missed is not caught up.
    let beats = lines.iter().filter(|line| line.starts_with("beat")).count();
    assert!((1..=3).contains(&beats), "{lines:?}");
    assert_eq!(room.take_errors(), Vec::<String>::new());
    assert_eq!(room.balance("ada", "gold"), 45 + 7);
}

#[test]
fn a_purchase_of_another_form_is_parked_and_can_be_retried() {
    let mut room = TestRoom::new("farm", game);
    let ada = room.join("ada");
    room.deposit("ada", "gold", 50);
    room.fate(Fate::Held);
    tell(&mut room, ada, "buy", "5");
    room.deploy(|room: &mut RoomBuilder| {
        old_game(room);
        room.charge("shop", |In(charged): In<Charged<(u64, u64)>>, mut log: ResMut<Log>| {
            log.0.push(format!("{:?}", charged.purchase));
        });
    });
    room.fate(Fate::Normal);
    room.advance(Duration::from_secs(140));
    let parked = room.parked();
    let [(job, key, _)] = &parked[..] else { panic!("{parked:?}") };
    assert_eq!(job, "tenure/owed-charge/shop");
    room.deploy(game);
    room.tick(2);
    room.retry(job, key);
    room.tick(2);
    assert_eq!(log(&room, ada), ["bought 5, paid true"]);
    assert_eq!((room.balance("ada", "gold"), room.parked()), (45, vec![]));
}

#[test]
fn a_charge_that_has_no_place_to_wait_in_is_not_taken_for_handed_over() {
    const BOUGHT: i64 = 503;
    let mut room = TestRoom::new("farm", game);
    let ada = room.join("ada");
    room.deposit("ada", "gold", BOUGHT);
    room.fate(Fate::Held);
    (0..BOUGHT).for_each(|_| tell(&mut room, ada, "buy", "1"));
    // A build that cannot hand them over has the room: five hundred wait as work.
    room.deploy(old_game);
    room.fate(Fate::Normal);
    room.tick(1);
    assert_eq!(room.balance("ada", "gold"), 0, "the ledger has decided");
    // Its node is lost right after that commit, and the next one finds the others in the outbox.
    room.restart();
    room.tick(3);
    room.deploy(game);
    room.advance(Duration::from_secs(3));
    let bought = log(&room, ada).iter().filter(|line| *line == "bought 1, paid true").count();
    assert_eq!(bought, BOUGHT as usize);
}
