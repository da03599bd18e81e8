//! A move is invisible to game code (H12): counters in `Added`, in `Changed` and in an observer stand still over moves and restarts.
#![allow(elided_lifetimes_in_paths, clippy::needless_pass_by_value, reason = "systems read better so")]
#![allow(clippy::expect_used, clippy::type_complexity, reason = "a test says what is wrong by panicking")]

#[path = "game_moves_parts/all_of_it.rs"]
mod all_of_it;

use serde::{Deserialize, Serialize};
use tenure::{prelude::*, test::TestRoom};

#[derive(Component, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[require(Shadow)]
struct Crate {
    weight: u32,
}

/// Registered nowhere: it comes with every `Crate`.
#[derive(Component, Default)]
struct Shadow;

#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Counts {
    added: u32,
    changed: u32,
    shadows: u32,
    observed: u32,
    seats: u32,
    rules: u32,
    started: u32,
}

#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Rules {
    gravity: u32,
}

fn start(mut commands: Commands, mut counts: ResMut<Counts>) {
    counts.started += 1;
    for weight in 0..10 {
        commands.spawn(Crate { weight });
    }
}

fn count(
    added: Query<(), Added<Crate>>,
    changed: Query<(), Changed<Crate>>,
    shadows: Query<(), Added<Shadow>>,
    seats: Query<(), Added<Seat>>,
    rules: Res<Rules>,
    mut counts: ResMut<Counts>,
) {
    let news = [added.iter().count(), changed.iter().count(), shadows.iter().count(), seats.iter().count()];
    let rules_changed = rules.is_changed();
    if news.iter().sum::<usize>() > 0 || rules_changed {
        counts.added += news[0] as u32;
        counts.changed += news[1] as u32;
        counts.shadows += news[2] as u32;
        counts.seats += news[3] as u32;
        counts.rules += u32::from(rules_changed);
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Push(u32);

fn push(inbox: Inbox<Push>, mut crates: Query<&mut Crate>) {
    for (_, Push(weight)) in inbox.iter() {
        crates.iter_mut().filter(|c| c.weight == *weight).for_each(|mut c| c.weight += 100);
    }
}

fn game(room: &mut RoomBuilder) {
    room.component::<Crate>("crate").replicated().persisted();
    room.resource::<Counts>("counts").replicated().persisted();
    room.resource::<Rules>("rules").replicated().persisted();
    room.message::<Push>("push");
    room.startup(start).systems(Apply, push).systems(Collect, count);
    room.observe(|_: On<Add<Crate>>, mut counts: ResMut<Counts>| counts.observed += 1);
}

fn counts(room: &TestRoom, seat: tenure::test::TestSeat) -> Counts {
    room.state(seat).resource("counts").expect("counts")
}

#[test]
fn counters_stand_still_over_ten_moves_and_ten_restarts() {
    let mut room = TestRoom::new("crates", game);
    let ada = room.join("ada");
    room.tick(5);
    let before = counts(&room, ada);
    let expected = Counts { added: 10, changed: 10, shadows: 10, observed: 10, seats: 1, rules: 1, started: 1 };
    assert_eq!(before, expected);
    for round in 0..10 {
        room.move_now();
        room.tick(3);
        assert_eq!(counts(&room, ada), before, "after move {round}");
        room.restart();
        room.tick(3);
        assert_eq!(counts(&room, ada), before, "after restart {round}");
    }
    // What really happens still counts, once.
    room.send(ada, "push", &Push(3));
    room.tick(2);
    assert_eq!(counts(&room, ada), Counts { changed: 11, ..before });
    room.move_now();
    room.tick(2);
    assert_eq!(counts(&room, ada).changed, 11);
    assert_eq!(room.state(ada).all::<Crate>("crate").len(), 10);
    assert_eq!(room.take_errors(), Vec::<String>::new());
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Bell(u64);

fn rings(room: &mut RoomBuilder) {
    room.tick_rate(20);
    room.event::<Bell>("bell");
    room.systems(Simulate, |tick: Tick, mut out: Out| out.all(&Bell(tick.n)));
}

/// H12: the next owner ticks before its gateways are there, and what the room says meanwhile is for players who were never gone.
#[test]
fn what_a_room_says_before_its_gateways_have_followed_is_not_lost() {
    let mut room = TestRoom::new("rings", rings);
    let (ada, bob) = (room.join("ada"), room.join("bob"));
    room.tick(3);
    room.drop_socket(bob);
    room.move_ahead_of_gateways(4);
    room.tick(2);
    let heard: Vec<Bell> = room.events(ada, "bell");
    assert_eq!(heard, (1..=9).map(Bell).collect::<Vec<_>>());
    room.reconnect(bob);
    room.tick(1);
    let heard: Vec<Bell> = room.events(bob, "bell");
    assert_eq!(heard, [1, 2, 3, 10].map(Bell), "who has no socket misses it, as without a move");
}

#[test]
fn a_gateway_that_takes_its_time_costs_messages_and_not_memory() {
    let chatty = |room: &mut RoomBuilder| {
        room.tick_rate(20);
        room.event::<String>("news");
        room.systems(Simulate, |mut out: Out| out.all(&"n".repeat(1_000)));
    };
    let mut room = TestRoom::new("chatty", chatty);
    let ada = room.join("ada");
    room.tick(1);
    room.move_ahead_of_gateways(90);
    let heard: Vec<String> = room.events(ada, "news");
    assert_eq!(heard.len(), 1);
    room.tick(1);
    let heard: Vec<String> = room.events(ada, "news");
    assert!((31..34).contains(&heard.len()), "{}: as much as may wait, 32 KiB", heard.len());
    assert_eq!(room.take_errors(), Vec::<String>::new(), "what does not fit is no fault of the game's");
}

#[test]
fn equal_worlds_give_equal_bytes_and_a_round_trip_changes_nothing() {
    let mut room = TestRoom::new("crates", game);
    room.join("ada");
    room.tick(5);
    let first = room.world().checkpoint(false);
    let again = room.world().checkpoint(false);
    assert_eq!(first.body, again.body);
    room.move_now();
    let restored = room.world().checkpoint(false);
    // Only the seats' counter skips ahead (numbers given after a lost checkpoint are never given again), and what it skipped is noted.
    assert_eq!(restored.body.len(), first.body.len() + 7);
    room.move_now();
    assert_eq!(room.world().checkpoint(false).body.len(), restored.body.len());
}
