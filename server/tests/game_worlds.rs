//! Worlds driven by hand: what a failed one leaves to the next, and what ticks hand to the store (H4, H6, H7).
#![allow(elided_lifetimes_in_paths, clippy::needless_pass_by_value, reason = "systems read better so")]
#![allow(clippy::expect_used, clippy::type_complexity, reason = "a test says what is wrong by panicking")]

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure::{
    link::{Attach, Attached, ConnId, GatewayId, Input, Mode, ToGateway},
    plugin::{Audience, Reward, RoomKind},
    prelude::*,
    room::world::{DueWork, Effects, InputRefused, RoomWorld, TickInput, WorldSettings},
    runtime::Wall,
    store::{WorkId, WorkItem},
};
use tenure_shared::{
    Generation, PlayerId, RoomId, SeatId, Seq, Term, Tick as TickNumber,
    codes::{CloseCode, ErrorCode},
};

/// 2026-01-01.
const START: Wall = Wall(1_767_225_600_000_000);
const TICK: Duration = Duration::from_millis(50);

/// What was applied, whatever world did it.
type Log = Arc<Mutex<Vec<u8>>>;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Do(u8);

fn act(inbox: Inbox<Do>, mut due: Due, mut grants: Grants, seats: Seats) {
    let soon = Duration::from_secs(1);
    for (seat, Do(what)) in inbox.iter() {
        let player = seats.get(seat).expect("a seat").player().clone();
        match what {
            101 => {
                due.schedule_in("job", "a", soon, &1);
                due.schedule_in("job", "a", 2 * soon, &2);
            }
            102 => {
                due.schedule_in("job", "a", soon, &1);
                due.cancel("job", "a");
            }
            103 => {
                due.cancel("job", "a");
                due.schedule_in("job", "a", soon, &1);
            }
            104 => due.schedule_in("job", "late", Duration::MAX, &1),
            105 => {
                due.schedule_in("job", "a\0b", soon, &1);
                due.cancel("job", &"k".repeat(200));
                due.cancel(&"j".repeat(200), "a");
            }
            106 => {
                let names: Vec<String> = (0..17).map(|n| format!("c{n}")).collect();
                let amounts: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
                grants.give(&player, "gift", &amounts);
                grants.give(&player, "gift", &[(&"x".repeat(49), 1)]);
                grants.give(&player, "gift", &[("gold", 1), ("gold", 2)]);
            }
            107 => grants.give(&player, "gift", &[("gold", 5)]),
            _ => {}
        }
    }
}

fn kind() -> (Arc<RoomKind>, Log) {
    let log = Log::default();
    let seen = log.clone();
    let game = move |room: &mut RoomBuilder| {
        room.message::<Do>("do");
        room.work("job", |In(_): In<Work<i32>>| -> Result<(), Refuse> { Ok(()) });
        room.on_reconnect(|In(seat): In<Entity>, seats: Seats| {
            let player = seats.get(seat).expect("a seat").player();
            assert!(player.as_str() != "pan", "pan is back");
        });
        room.on_drop(|In(seat): In<Entity>, seats: Seats| {
            assert!(seats.get(seat).expect("a seat").player().as_str() != "dan", "dan drops");
        });
        room.systems(Apply, act);
        let seen = seen.clone();
        room.systems(Apply, move |inbox: Inbox<Do>| {
            seen.lock().expect("log").extend(inbox.iter().map(|(_, Do(n))| *n));
        });
    };
    (RoomKind::new("lab", game).expect("a kind"), log)
}

fn room() -> RoomId {
    RoomId::new("lab/eu/a").expect("id")
}

fn create(kind: &Arc<RoomKind>, at: Wall) -> RoomWorld {
    RoomWorld::create(kind, room(), &WorldSettings::default(), Term(5), 1, at, Bytes::new()).expect("a world")
}

fn attach(world: &mut RoomWorld, player: &str, (gateway, conn): (u32, u64), first: u64) -> Attached {
    let attach = Attach {
        gateway: GatewayId(gateway),
        conn: ConnId(conn),
        attempt: 7,
        room: room(),
        mode: Mode::JoinOrCreate,
        player: PlayerId::new(player).expect("id"),
        options: Bytes::new(),
        metadata: Bytes::new(),
        seat: None,
        rejoin: false,
        generation: Generation(0),
        resumes: 0,
        first: Seq(first),
        shown: (Term(0), TickNumber(0)),
        table: None,
    };
    world.attach(&attach).expect("a seat")
}

fn say(world: &mut RoomWorld, (seat, generation): (SeatId, Generation), seq: u64, what: u8) -> Option<ErrorCode> {
    // A small number is its own MessagePack.
    let payload = Bytes::copy_from_slice(&[what]);
    let input = Input { room: room(), seat, generation, seq: Seq(seq), request: None, kind: 0, payload };
    world.input(input).err().map(|refused| match refused {
        InputRefused::Overrun { .. } => ErrorCode::Limit,
        InputRefused::Gone { .. } => ErrorCode::BadState,
    })
}

fn tick(world: &mut RoomWorld, wall: Wall) -> (Effects, Vec<String>) {
    let out = world.tick(TickInput { wall, ..TickInput::default() });
    (out.effects, out.errors)
}

#[test]
fn numbers_may_be_missing_but_nothing_overtakes_what_was_not_taken() {
    let (kind, log) = kind();
    let settings = WorldSettings { unsaved_inputs: 3, ..WorldSettings::default() };
    let mut world = RoomWorld::create(&kind, room(), &settings, Term(5), 1, START, Bytes::new()).expect("a world");
    let Attached { seat, generation, attempt, .. } = attach(&mut world, "ada", (1, 1), 1);
    assert_eq!(attempt, 7);
    let ada = (seat, generation);
    // 2 was refused by the gateway.
    for seq in [1, 3, 4] {
        assert_eq!(say(&mut world, ada, seq, seq as u8), None);
    }
    assert_eq!(say(&mut world, ada, 3, 99), None, "again");
    assert_eq!(say(&mut world, ada, 5, 5), Some(ErrorCode::Limit));
    tick(&mut world, START);
    assert_eq!(say(&mut world, ada, 6, 6), None, "ignored: its socket is about to be closed");
    tick(&mut world, START);
    assert_eq!(*log.lock().expect("log"), [1, 3, 4]);
    let again = attach(&mut world, "ada", (1, 2), 5);
    assert_eq!((again.owed, again.rolled_back), (Seq(5), false));
    assert_eq!(say(&mut world, (again.seat, again.generation), 5, 5), None);
    tick(&mut world, START);
    assert_eq!(*log.lock().expect("log"), [1, 3, 4, 5]);
}

#[test]
fn what_was_on_its_way_to_a_failed_world_does_not_overtake_what_is_owed() {
    let (kind, log) = kind();
    let mut world = create(&kind, START);
    let before = attach(&mut world, "ada", (1, 1), 1);
    let old = (before.seat, before.generation);
    (1..=10).for_each(|seq| assert_eq!(say(&mut world, old, seq, seq as u8), None));
    (0..2).for_each(|_| drop(tick(&mut world, START)));
    let stored = world.checkpoint(false);
    (11..=20).for_each(|seq| assert_eq!(say(&mut world, old, seq, seq as u8), None));
    (0..2).for_each(|_| drop(tick(&mut world, START)));
    let (members, reached) = (world.attachments(), world.reached());
    log.lock().expect("log").clear();

    let settings = WorldSettings::default();
    let mut world = RoomWorld::restore_after(&kind, &settings, Term(5), &stored, reached).expect("a world");
    let messages = world.adopt(&members);
    let [(_, ToGateway::Restored { tick: at, members, .. })] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!((members[0].owed, members[0].seat), (Seq(11), before.seat));
    assert!(members[0].generation > before.generation);
    assert_eq!(*at, reached.tick, "nothing older than what was shown follows");
    // They arrived while it was restored.
    for seq in [21, 22] {
        assert_eq!(say(&mut world, old, seq, seq as u8), None);
    }
    let new = (before.seat, members[0].generation);
    (11..=23).for_each(|seq| assert_eq!(say(&mut world, new, seq, seq as u8), None));
    (0..2).for_each(|_| drop(tick(&mut world, START)));
    assert_eq!(*log.lock().expect("log"), (11..=23).collect::<Vec<u8>>());
    assert_eq!(world.tick_number().0, reached.tick.0 + 2);
    assert!(!world.detach(old.0, old.1, false), "the old attachment is over");
}

#[test]
fn a_socket_behind_whose_back_a_world_was_restored_is_told_to_come_back() {
    let (kind, _) = kind();
    let mut world = create(&kind, START);
    let before = attach(&mut world, "ada", (1, 1), 1);
    tick(&mut world, START);
    let (stored, reached) = (world.checkpoint(false), world.reached());
    let mut world =
        RoomWorld::restore_after(&kind, &WorldSettings::default(), Term(5), &stored, reached).expect("a world");
    let old = (before.seat, before.generation);
    assert_eq!(say(&mut world, old, 1, 1), Some(ErrorCode::BadState), "nobody hears it: it must not go on unheard");
    let again = attach(&mut world, "ada", (1, 2), 1);
    assert_eq!(say(&mut world, old, 1, 1), None, "another socket has the seat");
    assert_eq!(say(&mut world, (again.seat, again.generation), 1, 1), None);
}

#[test]
fn seat_numbers_come_once_however_often_one_checkpoint_is_restored() {
    let (kind, _) = kind();
    let mut world = create(&kind, START);
    attach(&mut world, "ada", (1, 1), 1);
    let stored = world.checkpoint(false);
    let mut last = attach(&mut world, "p0", (1, 2), 1).seat;
    for n in 1..4 {
        let (settings, reached) = (WorldSettings::default(), world.reached());
        world = RoomWorld::restore_after(&kind, &settings, Term(5), &stored, reached).expect("a world");
        let seat = attach(&mut world, &format!("p{n}"), (1, 2), 1).seat;
        assert!(seat > last, "{seat:?} after {last:?}");
        last = seat;
    }
}

#[test]
fn a_room_made_again_under_its_name_is_another_room() {
    let (kind, _) = kind();
    let mut seen = Vec::new();
    let mut wall = START;
    for life in 0..3 {
        let mut world = create(&kind, wall);
        let Attached { seat, generation, .. } = attach(&mut world, "ada", (1, 1), 1);
        let mut give = |world: &mut RoomWorld, seq| {
            assert_eq!(say(world, (seat, generation), seq, 107), None);
            let effects = tick(world, wall).0;
            assert_eq!(effects.grants.len(), 1);
            seen.push(effects.grants[0].id.0.to_string());
        };
        give(&mut world, 1);
        if life == 1 {
            // A restored one is the same room.
            let stored = world.checkpoint(false);
            let reached = world.reached();
            let mut again =
                RoomWorld::restore_after(&kind, &WorldSettings::default(), Term(5), &stored, reached).expect("a world");
            let Attached { seat, generation, .. } = attach(&mut again, "ada", (1, 2), 2);
            assert_eq!(say(&mut again, (seat, generation), 2, 107), None);
            let id = tick(&mut again, wall).0.grants[0].id.0.to_string();
            let birth = |id: &str| id.split('/').nth(3).map(str::to_owned);
            assert_eq!(birth(&id), birth(seen.last().expect("one")));
            assert!(!seen.contains(&id));
        }
        // Then it is deleted.
        wall = wall.plus(TICK);
    }
    let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "{seen:?}");
}

#[test]
fn a_socket_of_another_gateway_is_another_socket() {
    let (kind, _) = kind();
    let mut world = create(&kind, START);
    attach(&mut world, "ada", (1, 9), 1);
    attach(&mut world, "ada", (2, 9), 1);
    let closed: Vec<_> = world.take_messages();
    assert!(
        matches!(&closed[..], [(GatewayId(1), ToGateway::Close { conn: ConnId(9), code: CloseCode::Superseded, .. })]),
        "{closed:?}"
    );
    attach(&mut world, "ada", (2, 9), 1);
    assert!(world.take_messages().is_empty(), "the same socket again");
}

#[test]
fn a_hook_that_panics_leaves_no_socket_on_the_seat() {
    let (kind, _) = kind();
    let mut world = create(&kind, START);
    let pan = attach(&mut world, "pan", (1, 1), 1);
    tick(&mut world, START);
    assert!(world.detach(pan.seat, pan.generation, false));
    let failed = catch_unwind(AssertUnwindSafe(|| attach(&mut world, "pan", (1, 2), 1)));
    assert!(failed.is_err());
    // The host refuses the attach and restores the room: nobody's socket may be taken for the seat's.
    assert_eq!(world.attachments(), []);
    let dan = attach(&mut world, "dan", (1, 3), 1);
    let failed = catch_unwind(AssertUnwindSafe(|| world.detach(dan.seat, dan.generation, false)));
    assert!(failed.is_err());
    assert_eq!(world.attachments(), [], "its socket is gone, whatever the hook did");
}

fn effects_of(what: u8) -> (Effects, Vec<String>) {
    let (kind, _) = kind();
    let mut world = create(&kind, START);
    let ada = attach(&mut world, "ada", (1, 1), 1);
    assert_eq!(say(&mut world, (ada.seat, ada.generation), 1, what), None);
    tick(&mut world, START)
}

#[test]
fn the_last_word_of_a_tick_counts_for_an_item() {
    let job = WorkId { room: room(), job: "job".into(), key: "a".into() };
    let (effects, errors) = effects_of(101);
    let [item] = &effects.scheduled[..] else { panic!("{effects:?}") };
    assert_eq!((&item.id, item.due, &item.payload[..]), (&job, START.plus(Duration::from_secs(2)), &[2][..]));
    assert_eq!((effects.cancelled, errors), (vec![], vec![]));
    let (effects, errors) = effects_of(102);
    assert_eq!((effects.scheduled, effects.cancelled, errors), (vec![], vec![job.clone()], vec![]));
    let (effects, errors) = effects_of(103);
    assert_eq!((effects.scheduled.len(), effects.cancelled, errors), (1, vec![job], vec![]));
}

#[test]
fn what_the_store_would_not_take_is_the_games_fault_and_reported() {
    for (what, count) in [(104, 1), (105, 3), (106, 3)] {
        let (effects, errors) = effects_of(what);
        assert!(effects.is_empty(), "{what}: {effects:?}");
        assert_eq!(errors.len(), count, "{what}: {errors:?}");
    }
    let (kind, _) = kind();
    let mut world = create(&kind, START);
    attach(&mut world, "ada", (1, 1), 1);
    let id = WorkId { room: room(), job: "schedule/daily".into(), key: "1".into() };
    let item = WorkItem { id: id.clone(), due: START, attempt: 0, parked: None, payload: Bytes::new() };
    let amounts: BTreeMap<Arc<str>, i64> = (0..17).map(|n| (format!("c{n}").into(), 1)).collect();
    let reward = Reward {
        id: "daily".into(),
        scheduled_for: START,
        audience: Audience::Present,
        amounts,
        cap: None,
        max_grants_per_step: 10,
        max_known: 10,
    };
    let due = vec![DueWork { item, reward: Some(reward) }];
    let out = world.tick(TickInput { wall: START, due, ..TickInput::default() });
    assert_eq!((out.effects.grants, out.effects.completed), (vec![], vec![id]));
    assert_eq!(out.errors.len(), 1, "{:?}", out.errors);
}
