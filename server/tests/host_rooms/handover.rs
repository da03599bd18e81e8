//! Shards in the hands of a handoff: stopped, stored, made ready elsewhere, gone, or back again. Nothing is lost or doubled, and no game
//! hears of it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tenure::{
    link::{Mode, Package, RefuseReason, ToGateway},
    ownership::Transfer,
    room::host::Frozen,
};
use tenure_shared::{RoomId, Seq, Term, Tick};

use crate::{
    harness::{Node, SHARDS, World, room},
    lab::{CURSED_THING, Say},
    moves::{applied, hooks, world_without_checkpoints},
    player::{Answer, Player, answer, frames, room_of},
    weather::Weather,
};

/// Two nodes that give nothing away by themselves, and a room of the first one.
async fn pair(world: &World) -> (Node, Node, RoomId) {
    let a = world.named("a", &world.weather).await;
    let b = world.named("b", &Arc::default()).await;
    world.until("they share", || a.ownership.shards().len() == 2 && b.ownership.shards().len() == 2);
    world.until("nothing moves", || a.ownership.gives().is_empty() && b.ownership.gives().is_empty());
    a.host.ready().await;
    b.host.ready().await;
    let room = room_of(&a);
    drop((a.host.hands(), b.host.hands()));
    (a, b, room)
}

fn freeze(node: &Node, room: &RoomId) -> Frozen {
    let fence = node.ownership.fence(room.shard(SHARDS)).expect("it is held");
    node.host.hands().freeze(&fence).expect("nobody else has it in hand")
}

/// The claim goes from one node to another with a package. Gives the new term.
async fn transfer(from: &Node, to: &Node, room: &RoomId, package: &Package, frozen: &mut Frozen) -> Term {
    let shard = room.shard(SHARDS);
    let fence = from.ownership.fence(shard).expect("it is held");
    let target = to.ownership.incarnation().expect("it lives");
    frozen.asking();
    let checksum = package.checksum();
    let Transfer::Done(term) = from.ownership.transfer(&fence, &target, checksum, package.manifest()).await else {
        panic!("the store answers")
    };
    to.ownership.transferred(shard, &target, term, checksum);
    term
}

/// A whole move.
async fn hand_over(from: &Node, to: &Node, room: &RoomId) -> Package {
    let mut frozen = freeze(from, room);
    let package = frozen.stored().await.expect("stored");
    let checksum = to.host.hands().prepare(room.shard(SHARDS), &package).await.expect("it can be made ready");
    assert_eq!(checksum, package.checksum());
    transfer(from, to, room, &package, &mut frozen).await;
    frozen.moved(Some("b".into()));
    package
}

#[tokio::test(flavor = "multi_thread")]
async fn a_world_that_was_made_ready_goes_on_with_the_next_tick() {
    let world = world_without_checkpoints();
    let (a, b, id) = pair(&world).await;
    let gateways = vec![a.gateway(), b.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    (0..20).for_each(|n| ann.say(&gateways, Say::Keep(n)));
    world.until("it is applied", || applied(&world, &ann).len() == 20);
    let before = world.view(&id).book;
    let mut frozen = freeze(&a, &id);
    assert!(a.host.hands().freeze(&a.ownership.fence(id.shard(SHARDS)).unwrap()).is_none(), "one at a time");
    let package = frozen.stored().await.expect("stored");
    let last = world.view(&id).tick;
    assert_eq!(package.rooms.iter().map(|packed| &packed.room).collect::<Vec<_>>(), [&id]);
    b.host.hands().prepare(id.shard(SHARDS), &package).await.expect("ready");
    world.pass(Duration::from_millis(100));
    assert_eq!(world.view(&id).tick, last, "nothing ticks, neither there nor here");
    assert_eq!(b.host.status().rooms, 0);
    let term = transfer(&a, &b, &id, &package, &mut frozen).await;
    frozen.moved(Some("b".into()));
    // Also when its rooms cannot be read there.
    world.until("it goes on", || world.view(&id).tick > last);
    ann.follow(&world, &gateways);
    assert_eq!((ann.at, ann.rolled_back), (1, 0));
    assert_eq!((ann.socket.attached.term, ann.socket.attached.owed), (term, Seq(21)));
    ann.say(&gateways, Say::Keep(20));
    world.until("it is applied there", || applied(&world, &ann) == (0..=20).collect::<Vec<_>>());
    assert_eq!(hooks(&world), (0, 0));
    let after = world.view(&id).book;
    let news = |book: &crate::lab::Book| [book.started, book.added, book.observed, book.changed, book.seats];
    assert_eq!(news(&after), news(&before), "no effect happens again (H12)");
    assert!(a.ownership.fence(id.shard(SHARDS)).is_none());
    assert_eq!(a.host.status().rooms, 0);
    let said = gateways[0].heard.said.lock().unwrap();
    let moved = said.iter().find_map(|m| match m {
        ToGateway::Moved { shard, to, .. } if *shard == id.shard(SHARDS) => Some(to.clone()),
        _ => None,
    });
    assert_eq!(moved.expect("told").as_deref(), Some("b"));
}

/// Rooms move back and forth, by day: how long the longest pause between two ticks was, beyond a period, is printed.
#[tokio::test(flavor = "multi_thread")]
async fn no_tick_is_left_out_or_comes_twice_in_thirty_moves() {
    let world = World::new();
    let (a, b, id) = pair(&world).await;
    let gateways = vec![a.gateway(), b.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    *world.outside.ticks.lock().unwrap() = Some(Vec::new());
    for n in 0..30 {
        ann.say(&gateways, Say::Keep(n));
        world.pass(Duration::from_millis(n % 7 * 5));
        let (from, to) = if n % 2 == 0 { (&a, &b) } else { (&b, &a) };
        // The other one may just be learning that it is gone.
        world.until("it is here", || from.host.hands().rooms(id.shard(SHARDS)) == 1 && from.holds(&id));
        from.host.ready().await;
        hand_over(from, to, &id).await;
        ann.follow(&world, &gateways);
    }
    world.until("everything is applied once", || applied(&world, &ann) == (0..30).collect::<Vec<_>>());
    let ticks = world.outside.ticks.lock().unwrap().take().expect("recorded");
    let numbers: Vec<_> = ticks.iter().map(|(tick, _)| *tick).collect();
    let expected: Vec<_> = (numbers[0]..=*numbers.last().unwrap()).collect();
    assert_eq!(numbers, expected, "each tick once, in order");
    let mut pauses: Vec<_> = ticks.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    pauses.sort_unstable();
    println!(
        "{} ticks of 20 ms; median {:?}, longest {:?}",
        pauses.len(),
        pauses[pauses.len() / 2],
        &pauses[pauses.len() - 5..]
    );
    assert_eq!((ann.rolled_back, hooks(&world)), (0, (0, 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_new_owner_ticks_before_it_can_read_anything() {
    let world = world_without_checkpoints();
    let (a, b, id) = pair(&world).await;
    let gateways = vec![a.gateway(), b.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    ann.say(&gateways, Say::Keep(0));
    world.until("it is applied", || applied(&world, &ann) == [0]);
    let mut frozen = freeze(&a, &id);
    let package = frozen.stored().await.expect("stored");
    let last = Tick(world.view(&id).tick);
    b.host.hands().prepare(id.shard(SHARDS), &package).await.expect("ready");
    b.weather.broken_rooms.store(true, Ordering::SeqCst);
    let term = transfer(&a, &b, &id, &package, &mut frozen).await;
    frozen.moved(Some("b".into()));
    ann.follow_to(&world, &gateways, 1..2);
    world.until("it ticks", || frames(&gateways[1], &id).len() > 3);
    let said = gateways[1].heard.said.lock().unwrap();
    let attached = said.iter().find_map(|m| if let ToGateway::Attached(a) = m { Some(a.clone()) } else { None });
    let attached = attached.expect("attached");
    assert!(attached.term == term && attached.tick >= last, "it goes on from the very last tick");
    drop(said);
    assert!(b.weather.rooms_read.load(Ordering::SeqCst) > 0, "while the list of its rooms cannot be read");
    b.weather.broken_rooms.store(false, Ordering::SeqCst);
    b.host.ready().await;
    assert_eq!(applied(&world, &ann), [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_stays_goes_on_under_its_term_with_all_that_waited() {
    let world = world_without_checkpoints();
    let (a, _b, id) = pair(&world).await;
    let gateways = vec![a.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    let term = ann.socket.attached.term;
    for round in 0..6 {
        let mut frozen = freeze(&a, &id);
        if round % 3 != 0 {
            frozen.stored().await.expect("stored");
        }
        ann.say(&gateways, Say::Keep(round));
        let conn = gateways[0].conn();
        let from = gateways[0].heard.said.lock().unwrap().len();
        gateways[0].ask_as(conn, &id, &format!("bob{}", round % 2), Mode::Join, None);
        if round % 2 == 0 {
            frozen.thaw()
        } else {
            drop(frozen)
        }
        assert!(matches!(answer(&gateways[0], conn, 1, from), Answer::Attached(_)), "who waited is let in (F14)");
        world.until("what waited is applied", || applied(&world, &ann) == (0..=round).collect::<Vec<_>>());
    }
    assert!(frames(&gateways[0], &id).iter().all(|frame| frame.0 == term), "one term");
    assert_eq!(hooks(&world), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_to_a_room_that_stood_still_is_applied_once_by_the_next_owner() {
    let world = world_without_checkpoints();
    let (a, b, id) = pair(&world).await;
    let gateways = vec![a.gateway(), b.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    ann.say(&gateways, Say::Keep(0));
    let mut frozen = freeze(&a, &id);
    (1..30).for_each(|n| ann.say(&gateways, Say::Keep(n)));
    let package = frozen.stored().await.expect("stored");
    (30..60).for_each(|n| ann.say(&gateways, Say::Keep(n)));
    let conn = gateways[0].conn();
    let from = gateways[0].heard.said.lock().unwrap().len();
    gateways[0].ask_as(conn, &id, "bob", Mode::Join, None);
    b.host.hands().prepare(id.shard(SHARDS), &package).await.expect("ready");
    transfer(&a, &b, &id, &package, &mut frozen).await;
    let heard = gateways[0].heard.said.lock().unwrap().len();
    frozen.moved(Some("b".into()));
    match answer(&gateways[0], conn, 1, from) {
        Answer::NotOwner(_) => {}
        other => panic!("{other:?}"),
    }
    let said = gateways[0].heard.said.lock().unwrap().split_off(heard);
    let at = |what: &dyn Fn(&ToGateway) -> bool| said.iter().position(what).expect("said");
    let told = at(&|m| matches!(m, ToGateway::Moved { .. }));
    assert!(
        told < at(&|m| matches!(m, ToGateway::NotOwner { .. })),
        "who waited is sent on behind the word where it is"
    );
    ann.follow_to(&world, &gateways, 1..2);
    world.until("each is applied once, in order (H4)", || applied(&world, &ann) == (0..60).collect::<Vec<_>>());
    assert_eq!(ann.rolled_back, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_on_its_way_and_work_that_is_due_go_on_with_the_new_owner_once() {
    let world = world_without_checkpoints();
    let (a, b, id) = pair(&world).await;
    let gateways = vec![a.gateway(), b.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    // The ledger does it, and the answer does not come: the new owner asks again.
    world.weather.hold_ledger.store(true, Ordering::SeqCst);
    ann.say(&gateways, Say::Gift(5));
    ann.say(&gateways, Say::Later("soon".into(), 60));
    ann.say(&gateways, Say::Later("late".into(), 600));
    ann.say(&gateways, Say::Keep(1));
    world.until("it is applied", || applied(&world, &ann) == [1]);
    hand_over(&a, &b, &id).await;
    ann.follow_to(&world, &gateways, 1..2);
    world.until("it is told of its gift", || world.view(&id).book.granted.len() == 1);
    world.until("its work is done", || world.view(&id).book.done.len() == 2);
    world.weather.hold_ledger.store(false, Ordering::SeqCst);
    world.pass(Duration::from_millis(200));
    let book = world.view(&id).book;
    assert_eq!((book.done, book.granted.len(), world.gold("ann").await), (vec!["soon".into(), "late".into()], 1, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn worlds_of_another_package_are_not_run() {
    let world = world_without_checkpoints();
    let (a, b, id) = pair(&world).await;
    let gateways = vec![a.gateway(), b.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    let mut first = freeze(&a, &id);
    let old = first.stored().await.expect("stored");
    b.host.hands().prepare(id.shard(SHARDS), &old).await.expect("ready");
    first.thaw();
    ann.say(&gateways, Say::Keep(1));
    world.until("it is applied", || applied(&world, &ann) == [1]);
    let mut second = freeze(&a, &id);
    let new = second.stored().await.expect("stored");
    assert_ne!(old.checksum(), new.checksum());
    transfer(&a, &b, &id, &new, &mut second).await;
    second.moved(None);
    ann.follow_to(&world, &gateways, 1..2);
    assert_eq!((ann.rolled_back, ann.socket.attached.owed), (0, Seq(2)));
    ann.say(&gateways, Say::Keep(2));
    world.until("what is stored counts", || applied(&world, &ann) == [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_doubt_only_a_new_term_goes_on_and_from_memory() {
    let world = world_without_checkpoints();
    let (a, _b, id) = pair(&world).await;
    let gateways = vec![a.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    let first = ann.socket.attached.term;
    for (round, dropped) in [(0, true), (1, false)] {
        let mut frozen = freeze(&a, &id);
        frozen.stored().await.expect("stored");
        let shown = ann.shown(&gateways).0;
        frozen.asking();
        if dropped {
            drop(frozen)
        } else {
            frozen.doubted()
        }
        ann.say(&gateways, Say::Keep(round));
        world.until("it goes on", || applied(&world, &ann) == (0..=round).collect::<Vec<_>>());
        world.until("it is shown", || frames(&gateways[0], &id).last().is_some_and(|frame| frame.0 > shown.0));
        let frames = frames(&gateways[0], &id);
        assert!(frames.is_sorted());
        let late = frames.iter().filter(|frame| frame.0 <= shown.0 && frame.1 > shown.1).count();
        assert_eq!(late, 0, "nothing more under the term that was in question (F1)");
    }
    assert!(ann.shown(&gateways).0.0 > first);
    assert!(!gateways[0].heard.said.lock().unwrap().iter().any(|m| matches!(m, ToGateway::Moved { .. })));
    ann.follow(&world, &gateways);
    assert_eq!((ann.rolled_back, hooks(&world)), (0, (0, 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_that_does_not_return_keeps_its_shard_here() {
    let world = world_without_checkpoints();
    let (a, _b, id) = pair(&world).await;
    let gateways = vec![a.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    ann.say(&gateways, Say::Hang);
    world.until("it hangs", || {
        let before = world.view(&id).tick;
        world.pass(Duration::from_millis(200));
        world.view(&id).tick == before
    });
    let mut frozen = freeze(&a, &id);
    let late = world.clock.sleep(Duration::from_millis(200));
    tokio::select! {
        stored = frozen.stored() => panic!("it cannot be stored: {stored:?}"),
        () = late => {}
    }
    frozen.thaw();
    ann.say(&gateways, Say::Keep(1));
    *world.outside.gate.0.lock().unwrap() = true;
    world.outside.gate.1.notify_all();
    world.until("it goes on", || applied(&world, &ann) == [1]);
    assert_eq!(freeze(&a, &id).stored().await.expect("now it can").rooms.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rooms_that_are_made_saved_or_parked_are_waited_for_or_left_out() {
    let mut world = World::new();
    world.config.checkpoint_every = Duration::from_secs(3_600);
    world.config.restarts = 0;
    let (a, b, id) = pair(&world).await;
    let gateways = vec![a.gateway(), b.gateway()];
    let of_shard: Vec<_> =
        (0..).map(|n| room(&format!("x{n}"))).filter(|r| r.shard(SHARDS) == id.shard(SHARDS)).take(4).collect();
    // One is parked.
    let mut cem = Player::join(&world, &gateways, &of_shard[0], "cem", 1);
    cem.say(&gateways, Say::Boom);
    world.until("it is parked", || a.host.status().stages.contains_key("parked"));
    // One is on its way to be dormant.
    world.weather.hold_dormant.store(true, Ordering::SeqCst);
    let dan = Player::join(&world, &gateways, &of_shard[1], "dan", 2);
    gateways[0].leave(&dan.socket, dan.socket.attached.generation, true);
    world.until("it is being saved", || a.host.status().stages.contains_key("saving"));
    // One is being made; its commit waits behind the other's.
    let conn = gateways[0].ask(&of_shard[2], "eve", Mode::Create);
    world.until("it is being made", || a.host.status().stages.contains_key("loading"));
    let mut frozen = freeze(&a, &id);
    let late = world.clock.sleep(Duration::from_millis(100));
    tokio::select! {
        stored = frozen.stored() => panic!("not all of it is stored: {stored:?}"),
        () = late => {}
    }
    world.weather.hold_dormant.store(false, Ordering::SeqCst);
    let package = frozen.stored().await.expect("stored");
    assert!(gateways[0].answer(conn).is_ok(), "who made it has it");
    let packed: Vec<_> = package.rooms.iter().map(|packed| &packed.room).collect();
    assert_eq!(packed, [&of_shard[2]], "the parked one is loaded there as after a takeover, the dormant one is none");
    b.host.hands().prepare(id.shard(SHARDS), &package).await.expect("ready");
    transfer(&a, &b, &id, &package, &mut frozen).await;
    frozen.moved(None);
    world.until("they run there", || {
        world.until("ready", || b.host.status().shards.1 >= 3);
        b.host.status().stages.get("running") == Some(&2)
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_room_that_is_too_large_to_be_stored_is_parked_and_holds_nobody_up() {
    let mut world = world_without_checkpoints();
    world.config.world.max_checkpoint = 1_200;
    let (a, _b, id) = pair(&world).await;
    let gateways = vec![a.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    (0..150).for_each(|n| ann.say(&gateways, Say::Keep(u64::MAX - n)));
    world.until("it has grown", || applied(&world, &ann).len() == 150);
    let package = freeze(&a, &id).stored().await.expect("stored");
    assert_eq!(package.rooms, []);
    assert_eq!(a.host.status().stages.get("parked"), Some(&1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_stored_as_said_or_has_no_place_is_refused_and_nothing_is_kept() {
    let mut world = world_without_checkpoints();
    world.config.max_rooms = 2;
    let (a, b, id) = pair(&world).await;
    let gateways = vec![a.gateway(), b.gateway()];
    let _ann = Player::join(&world, &gateways, &id, "ann", 1);
    let (shard, hands) = (id.shard(SHARDS), b.host.hands());
    let mut frozen = freeze(&a, &id);
    let package = frozen.stored().await.expect("stored");
    let refused = async |change: &dyn Fn(&mut Package)| {
        let mut package = package.clone();
        change(&mut package);
        hands.prepare(shard, &package).await.expect_err("refused").0
    };
    assert_eq!(refused(&|p| p.rooms[0].version += 1).await, RefuseReason::NotStored);
    assert_eq!(refused(&|p| p.rooms[0].hash += 1).await, RefuseReason::NotStored);
    let elsewhere = (0..).map(|n| room(&format!("y{n}"))).find(|r| r.shard(SHARDS) != shard).unwrap();
    assert_eq!(refused(&|p| p.rooms[0].room = elsewhere.clone()).await, RefuseReason::NotStored);
    let more: Vec<_> = (0..).map(|n| room(&format!("z{n}"))).filter(|r| r.shard(SHARDS) == shard).take(2).collect();
    let three = |p: &mut Package| {
        let like = p.rooms[0].clone();
        p.rooms.extend(more.iter().map(|room| tenure::link::PackedRoom { room: room.clone(), ..like.clone() }));
        p.rooms.sort_by(|a, b| a.room.cmp(&b.room));
    };
    assert_eq!(refused(&three).await, RefuseReason::Full);
    let two = |p: &mut Package| {
        p.rooms.push(tenure::link::PackedRoom { room: more[0].clone(), ..p.rooms[0].clone() });
        p.rooms.sort_by(|a, b| a.room.cmp(&b.room));
    };
    assert_eq!(refused(&two).await, RefuseReason::NotStored, "one of them was never stored");
    CURSED_THING.store(true, Ordering::SeqCst);
    assert_eq!(refused(&|_| ()).await, RefuseReason::Unreadable, "game code panics while it reads");
    CURSED_THING.store(false, Ordering::SeqCst);
    assert_eq!(a.host.hands().prepare(shard, &package).await.expect_err("it is here").0, RefuseReason::NotServing);
    // Nobody waits for the end: nothing is kept.
    let unwanted = hands.prepare(shard, &package);
    drop(unwanted);
    world.until("all places are free", || hands.has_place(2));
    let checksum = hands.prepare(shard, &package).await.expect("ready");
    assert!(hands.has_place(1) && !hands.has_place(2));
    hands.prepare(shard, &package).await.expect("the newest set counts");
    hands.drop_prepared(shard, checksum + 1);
    assert!(!hands.has_place(2), "that is another one's");
    hands.drop_prepared(shard, checksum);
    assert!(hands.has_place(2));
    frozen.thaw();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_lost_while_it_stands_still_is_not_stored() {
    let world = world_without_checkpoints();
    let wa = Arc::<Weather>::default();
    let a = world.named("a", &wa).await;
    let id = room_of(&a);
    let gateways = vec![a.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    ann.say(&gateways, Say::Keep(1));
    world.until("it is applied", || applied(&world, &ann) == [1]);
    wa.hold_commits.store(true, Ordering::SeqCst);
    let mut frozen = freeze(&a, &id);
    wa.no_heartbeats.store(true, Ordering::SeqCst);
    assert_eq!(frozen.stored().await, None, "the lease lapses before it is stored");
    drop(frozen);
    wa.no_heartbeats.store(false, Ordering::SeqCst);
    wa.hold_commits.store(false, Ordering::SeqCst);
    ann.say(&gateways, Say::Keep(2));
    world.until("it goes on from memory (H5)", || {
        if ann.is_moved(&gateways) {
            ann.follow(&world, &gateways);
        }
        applied(&world, &ann) == [1, 2]
    });
}
