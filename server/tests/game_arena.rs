//! The arena, played in a `TestRoom`.
#![allow(
    elided_lifetimes_in_paths,
    unreachable_pub,
    dead_code,
    clippy::expect_used,
    reason = "the demo's own files, built into this test"
)]

#[path = "../demo/arena/mod.rs"]
mod arena;
#[path = "../demo/first.rs"]
mod first;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::test::{Fate, TestRoom, TestSeat};

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
struct Pos {
    x: f32,
    y: f32,
}
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Player {
    name: String,
    color: u8,
    score: u32,
    hat: u8,
}
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
struct Coin {
    value: u8,
}
#[derive(Serialize)]
struct Named {
    name: &'static str,
}
#[derive(Serialize)]
struct Buy {
    item: &'static str,
}
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Bought {
    item: String,
    gold: i64,
}
#[derive(Debug, PartialEq, Deserialize)]
struct Renamed {
    name: String,
}
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Chat {
    from: String,
    text: String,
}

fn room() -> TestRoom {
    TestRoom::new("arena", first::arena)
}

fn me(room: &TestRoom, seat: TestSeat) -> u64 {
    let mine = room.state(seat).all::<(i64,)>("wallet");
    assert_eq!(mine.len(), 1, "one sees one's own wallet alone");
    mine[0].0
}

fn gold(room: &TestRoom, seat: TestSeat) -> i64 {
    room.state(seat).all::<(i64,)>("wallet")[0].1.0
}

fn player(room: &TestRoom, seat: TestSeat) -> Player {
    room.state(seat).component(me(room, seat), "player").expect("a player")
}

fn pos(room: &TestRoom, seat: TestSeat, entity: u64) -> Option<Pos> {
    room.state(seat).component(entity, "pos")
}

fn fine(room: &mut TestRoom) {
    assert_eq!(room.take_errors(), Vec::<String>::new());
}

#[test]
fn players_see_each_other_walk_and_stay_inside() {
    let mut room = room();
    let ada = room.join_with("ada", &Named { name: "  Ada  " });
    let bob = room.join("guest:1234-5678");
    room.tick(1);
    let (a, b) = (me(&room, ada), me(&room, bob));
    assert_eq!(player(&room, ada).name, "Ada");
    assert_eq!(player(&room, bob).name, "Guest 1234");
    assert_ne!(player(&room, ada).color, player(&room, bob).color);
    let before = pos(&room, bob, a).expect("ada's place, seen by bob");
    room.send(ada, "steer", &(100_i8, 0_i8));
    room.tick(5);
    let after = pos(&room, bob, a).expect("ada's place, seen by bob");
    assert!((after.x - before.x - 55.0).abs() < 0.01 && after.y == before.y, "{before:?} {after:?}");
    assert_eq!(pos(&room, ada, a), Some(after));
    room.tick(200);
    assert_eq!(pos(&room, bob, a).expect("ada").x, 1000.0 - 18.0);
    assert!(pos(&room, ada, b).is_some());
    fine(&mut room);
}

#[test]
fn every_steer_counts_and_moves_and_crashes_count_none_twice() {
    let mut room = room();
    let ada = room.join("ada");
    let inputs = |room: &TestRoom| room.state(ada).all::<u64>("inputs")[0].1;
    for n in 0..60_u64 {
        room.send(ada, "steer", &(n as i8, 1_i8));
        room.send(ada, "steer", &(0_i8, 0_i8));
        match n {
            20 => room.move_now(),
            30 => room.restart(),
            40 | 45 => room.crash(),
            _ => {}
        }
        room.tick(1);
    }
    room.tick(20);
    assert_eq!(inputs(&room), 120);
    assert_eq!(room.marks(ada).0.0, 120);
    fine(&mut room);
}

#[test]
fn coins_are_picked_and_fall_again() {
    let mut room = room();
    let ada = room.join("ada");
    room.tick(1);
    let mut picked = 0;
    for _ in 0..400 {
        let state = room.state(ada);
        let at = pos(&room, ada, me(&room, ada)).expect("ada");
        let coins = state.all::<Coin>("coin");
        assert_eq!(coins.len(), 40);
        let near = |(id, _): &(u64, Coin)| {
            let c: Pos = state.component(*id, "pos").expect("a coin has a place");
            (c.x - at.x).hypot(c.y - at.y)
        };
        let goal = coins.iter().min_by(|a, b| near(a).total_cmp(&near(b))).expect("a coin");
        let c: Pos = state.component(goal.0, "pos").expect("a coin has a place");
        let far = near(goal).max(1.0);
        let steer = (((c.x - at.x) / far * 100.0) as i8, ((c.y - at.y) / far * 100.0) as i8);
        room.send(ada, "steer", &steer);
        room.tick(1);
        picked += room.events::<(u64, u8)>(ada, "picked").iter().map(|(_, value)| u32::from(*value)).sum::<u32>();
    }
    assert!(picked >= 10, "only {picked} points in 20 seconds");
    assert_eq!(player(&room, ada).score, picked);
    assert_eq!(room.state(ada).resource::<Vec<(String, u32)>>("board"), Some(vec![("ada".to_owned(), picked)]));
    fine(&mut room);
}

#[test]
fn the_chest_pays_those_present_once_and_is_shown_after_the_ledger() {
    let mut room = room();
    let ada = room.join("ada");
    let bob = room.join("bob");
    room.tick(1);
    room.drop_socket(bob);
    room.fate(Fate::Held);
    room.reward("chest", &[("gold", 25)]);
    room.tick(3);
    assert_eq!(room.granted(ada), vec![], "shown before the ledger had it (H8)");
    assert_eq!(gold(&room, ada), 0);
    room.fate(Fate::Normal);
    room.tick(2);
    assert_eq!(room.granted(ada), vec![("chest".to_owned(), vec![("gold".to_owned(), 25)])]);
    assert_eq!((gold(&room, ada), room.balance("ada", "gold"), room.balance("bob", "gold")), (25, 25, 0));
    room.restart();
    room.tick(5);
    assert_eq!((gold(&room, ada), room.balance("ada", "gold")), (25, 25));
    assert_eq!(room.granted(ada), vec![]);
    let round = |room: &TestRoom| room.state(ada).resource::<(u32, u32, u32)>("arena").expect("arena").2;
    assert_eq!(round(&room), 1);
    // Due in the first tick after a restart: who is about to be attached again is present.
    room.reward("chest", &[("gold", 25)]);
    room.restart();
    room.tick(4);
    assert_eq!((gold(&room, ada), round(&room)), (50, 2));
    let next = room.wall().plus(Duration::from_secs(30));
    room.schedule("chest", Some(next));
    room.tick(1);
    let (at, every, amount) = room.state(ada).resource::<(u64, u32, u32)>("chest").expect("chest");
    assert_eq!((at, amount), (room.state(ada).tick() + 599, 25));
    assert!((30..=31).contains(&every), "{every}");
    fine(&mut room);
}

#[test]
fn the_shop_takes_gold_and_gives_once_whatever_crashes() {
    let mut room = room();
    let ada = room.join("ada");
    room.deposit("ada", "gold", 100);
    room.tick(2);
    assert_eq!(gold(&room, ada), 100);
    let buy = room.request(ada, "buy", &Buy { item: "hat" });
    room.tick(2);
    assert_eq!(room.reply::<Bought>(ada, buy), Some(Ok(Bought { item: "hat".to_owned(), gold: 70 })));
    assert_eq!((player(&room, ada).hat, gold(&room, ada)), (1, 70));

    // The ledger has taken the gold, but the owner is lost before it hears so.
    room.fate(Fate::Unheard);
    let buy = room.request(ada, "buy", &Buy { item: "hat" });
    room.tick(2);
    assert_eq!((room.balance("ada", "gold"), player(&room, ada).hat), (40, 1));
    room.crash();
    room.fate(Fate::Normal);
    room.tick(3);
    assert_eq!((room.balance("ada", "gold"), player(&room, ada).hat), (40, 2));
    assert_eq!(room.reply::<Bought>(ada, buy), Some(Ok(Bought { item: "hat".to_owned(), gold: 40 })));
    room.crash();
    room.tick(3);
    assert_eq!((room.balance("ada", "gold"), player(&room, ada).hat), (40, 2));

    let buy = room.request(ada, "buy", &Buy { item: "boost" });
    let nonsense = room.request(ada, "buy", &Buy { item: "moon" });
    room.tick(2);
    let refused = ("not_enough".to_owned(), "not enough gold".to_owned());
    assert_eq!(room.reply_or_code::<Bought>(ada, buy), Some(Err(refused)));
    assert_eq!(room.reply::<Bought>(ada, nonsense), Some(Err("the shop does not have that".to_owned())));
    assert_eq!(room.balance("ada", "gold"), 40);
    fine(&mut room);
}

#[test]
fn who_leaves_before_the_shop_delivers_has_his_gold_back() {
    let mut room = room();
    let (ada, bob) = (room.join("ada"), room.join("bob"));
    room.deposit("ada", "gold", 100);
    room.tick(2);
    room.fate(Fate::Held);
    room.request(ada, "buy", &Buy { item: "hat" });
    room.tick(2);
    room.leave(ada);
    room.tick(1);
    room.fate(Fate::Normal);
    room.tick(1);
    assert_eq!(room.balance("ada", "gold"), 70, "paid");
    room.crash();
    room.tick(4);
    assert_eq!(room.balance("ada", "gold"), 100, "and given back, once");
    assert!(room.closed(bob).is_none());
    fine(&mut room);
}

#[test]
fn a_boost_lasts_twenty_seconds_of_room_time_over_a_move() {
    let mut room = room();
    let ada = room.join("ada");
    room.deposit("ada", "gold", 50);
    room.request(ada, "buy", &Buy { item: "boost" });
    room.tick(2);
    let speed = |room: &mut TestRoom, way: i8| {
        let id = me(room, ada);
        room.send(ada, "steer", &(0_i8, way));
        room.tick(1);
        let before = pos(room, ada, id).expect("ada");
        room.tick(1);
        let after = pos(room, ada, id).expect("ada");
        room.send(ada, "steer", &(0_i8, 0_i8));
        room.tick(1);
        ((after.y - before.y).abs() * 20.0).round()
    };
    assert_eq!(speed(&mut room, 100), 374.0);
    room.tick(200);
    room.freeze(Duration::from_secs(60));
    room.move_now();
    assert_eq!(speed(&mut room, -100), 374.0);
    room.tick(200);
    assert_eq!(speed(&mut room, 100), 220.0);
    fine(&mut room);
}

#[test]
fn who_is_gone_leaves_the_field_and_comes_back_and_then_for_good() {
    let mut room = room();
    let ada = room.join("ada");
    let bob = room.join("bob");
    room.tick(1);
    let a = me(&room, ada);
    room.drop_socket(ada);
    room.advance(Duration::from_secs(9));
    assert!(pos(&room, bob, a).is_some());
    room.move_now();
    room.advance(Duration::from_secs(2));
    assert_eq!(pos(&room, bob, a), None);
    assert!(room.state(bob).component::<Player>(a, "player").is_some());
    room.reconnect(ada);
    room.tick(1);
    assert!(pos(&room, bob, a).is_some());
    assert_eq!(me(&room, ada), a);
    room.drop_socket(ada);
    room.advance(Duration::from_secs(8));
    room.reconnect(ada);
    room.advance(Duration::from_secs(5));
    assert!(pos(&room, bob, a).is_some(), "the timer was cancelled");
    room.drop_socket(ada);
    room.advance(Duration::from_secs(31));
    assert_eq!(room.state(bob).component::<Player>(a, "player"), None);
    assert_eq!(room.state(bob).resource::<Vec<(String, u32)>>("board").map(|rows| rows.len()), Some(1));
    fine(&mut room);
}

#[test]
fn names_and_talk_have_rules() {
    let mut room = room();
    let ada = room.join("ada");
    let bob = room.join("bob");
    let bad = room.try_join("eve", &Named { name: "e\u{7}ve" });
    assert!(bad.is_err(), "a bell in a name");
    room.tick(1);
    let rename = room.request(ada, "rename", &Named { name: "  Queen of the very long names " });
    let empty = room.request(ada, "rename", &Named { name: "  " });
    room.send(ada, "chat", &("hello",));
    room.send(ada, "chat", &("again",));
    room.tick(1);
    let renamed = Renamed { name: "Queen of the very lo".to_owned() };
    assert_eq!(room.reply::<Renamed>(ada, rename), Some(Ok(renamed)));
    assert!(matches!(room.reply::<Renamed>(ada, empty), Some(Err(_))));
    let hello = Chat { from: "Queen of the very lo".to_owned(), text: "hello".to_owned() };
    assert_eq!(room.events::<Chat>(bob, "chat"), vec![hello.clone()]);
    let mine = room.events::<Chat>(ada, "chat");
    assert_eq!((mine.len(), &mine[0]), (2, &hello));
    assert_eq!((mine[1].from.as_str(), mine[1].text.as_str()), ("", "not so fast"));
    room.tick(20);
    room.send(ada, "chat", &("x".repeat(500),));
    room.tick(1);
    assert_eq!(room.events::<Chat>(bob, "chat")[0].text.len(), 200);
    fine(&mut room);
}

/// What a tick costs with 50 players who walk: `cargo test --release --test game_arena -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
#[expect(clippy::disallowed_methods, reason = "a measurement prints what it measured")]
fn tick_cost() {
    let mut room = room();
    let seats: Vec<_> = (0..50).map(|n| room.join(&format!("p{n}"))).collect();
    let mut report = |name: &str, moving: bool, inputs: bool| {
        let (mut spent, mut bytes, ticks) = (Duration::ZERO, 0, 2_000);
        for tick in 0..ticks {
            if inputs && tick % 2 == 0 || tick == 0 {
                for (n, seat) in (0_i32..).zip(&seats) {
                    let way = if moving {
                        (((tick / 16 + n) % 5 - 2) * 20, ((tick / 16 + n) % 3 - 1) * 20 + 1)
                    } else {
                        (0, 0)
                    };
                    room.send(*seat, "steer", &(way.0 as i8, way.1 as i8));
                }
            }
            let start = std::time::Instant::now();
            let output = room.world().tick(tenure::room::world::TickInput::default());
            spent += start.elapsed();
            for (_, message) in output.messages {
                if let tenure::link::ToGateway::Frame(frame) = message {
                    bytes += frame.body.len();
                }
            }
        }
        println!("{name}: {:?} per tick, body {} bytes", spent / ticks as u32, bytes / ticks as usize);
    };
    report("50 moving, 10 inputs/s each", true, true);
    report("50 moving, no inputs", true, false);
    report("50 standing", false, false);
    let start = std::time::Instant::now();
    let size = (0..100).map(|_| room.world().checkpoint(false).body.len()).sum::<usize>() / 100;
    println!("checkpoint: {:?}, {size} bytes", start.elapsed() / 100);
    let stored = room.world().checkpoint(false);
    let (kind, settings) = (room.world().kind().clone(), tenure::room::world::WorldSettings::default());
    let start = std::time::Instant::now();
    for _ in 0..100 {
        let world = tenure::room::world::RoomWorld::restore(&kind, &settings, tenure_shared::Term(9), &stored);
        assert!(world.is_ok());
    }
    println!("restore: {:?}", start.elapsed() / 100);
}
