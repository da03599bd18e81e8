//! Shards that stand still and stay, or are not taken: what waits goes on, what is refused leaves nothing behind.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tenure::{
    link::{Mode, Package, RefuseReason, ToGateway},
    ownership::Transfer,
    room::host::Space,
};

use crate::{
    handover::{freeze, pair, transfer},
    harness::{SHARDS, World, room},
    lab::{CURSED_THING, STUBBORN_THING, STUBBORN_THINGS, Say},
    moves::{applied, hooks, world_without_checkpoints},
    player::{Answer, Player, answer, frames, room_of},
    weather::Weather,
};

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
            frozen.thaw();
        } else {
            drop(frozen);
        }
        assert!(matches!(answer(&gateways[0], conn, 1, from), Answer::Attached(_)), "who waited is let in (F14)");
        world.until("what waited is applied", || applied(&world, &ann) == (0..=round).collect::<Vec<_>>());
    }
    assert!(frames(&gateways[0], &id).iter().all(|frame| frame.0 == term), "one term");
    assert_eq!(hooks(&world), (0, 0));
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
            drop(frozen);
        } else {
            frozen.doubted();
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
    let dan = Player::join(&world, &gateways, &of_shard[1], "dan", 2);
    // One is being made.
    world.weather.hold_commits.store(true, Ordering::SeqCst);
    let before = world.weather.held.load(Ordering::SeqCst);
    let conn = gateways[0].ask(&of_shard[2], "eve", Mode::Create);
    world.until("it is being made", || world.weather.held.load(Ordering::SeqCst) > before);
    // One is on its way to be dormant; its commit waits behind the other's.
    gateways[0].leave(&dan.socket, dan.socket.attached.generation, true);
    world.until("it is being saved", || a.host.status().stages.contains_key("saving"));
    let mut frozen = freeze(&a, &id);
    let late = world.clock.sleep(Duration::from_millis(100));
    tokio::select! {
        stored = frozen.stored() => panic!("not all of it is stored: {stored:?}"),
        () = late => {}
    }
    world.weather.hold_commits.store(false, Ordering::SeqCst);
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
async fn h1_a_room_that_is_read_while_its_shard_is_given_away_begins_where_the_shard_is_then() {
    for stays in [true, false] {
        let world = world_without_checkpoints();
        let (a, b, id) = pair(&world).await;
        let gateways = [a.gateway(), b.gateway()];
        world.weather.hold_loads.store(true, Ordering::SeqCst);
        let conn = gateways[0].ask(&id, "eve", Mode::Create);
        world.until("it is being read", || a.host.status().stages.contains_key("loading"));
        let mut frozen = freeze(&a, &id);
        let package = frozen.stored().await.expect("what is being read is not waited for");
        assert_eq!(package.rooms, []);
        world.weather.hold_loads.store(false, Ordering::SeqCst);
        // Who asks after that is read, made and let in, where nothing is given away.
        let elsewhere = |other: &tenure_shared::RoomId| a.holds(other) && other.shard(SHARDS) != id.shard(SHARDS);
        let other = (0..).map(|n| room(&format!("w{n}"))).find(elsewhere).expect("it has two shards");
        gateways[0].join(&other, "flo");
        assert_eq!(world.store.load(&id).await.unwrap(), None, "it is not made here");
        assert_eq!(a.host.status().stages.get("loading"), Some(&1));
        if stays {
            frozen.thaw();
            assert!(matches!(answer(&gateways[0], conn, 1, 0), Answer::Attached(_)), "it is made now");
            continue;
        }
        b.host.hands().prepare(id.shard(SHARDS), &package).await.expect("ready");
        transfer(&a, &b, &id, &package, &mut frozen).await;
        frozen.moved(None);
        assert!(!matches!(answer(&gateways[0], conn, 1, 0), Answer::Attached(_)), "it is not here");
        world.until("it is ready there", || b.host.status().shards.1 == 3);
        let conn = gateways[1].ask(&id, "eve", Mode::Create);
        assert!(gateways[1].answer(conn).is_ok(), "and nobody has made it before");
    }
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
    let has_place = |rooms| hands.takes(shard, Space { shards: 1, rooms, bytes: 0 }).is_ok();
    let refused = async |change: &dyn Fn(&mut Package)| {
        // What was made before the last refusal is being dropped.
        world.until("all places are free", || has_place(2));
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
    world.until("all places are free", || has_place(2));
    let checksum = hands.prepare(shard, &package).await.expect("ready");
    assert!(has_place(1) && !has_place(2));
    hands.prepare(shard, &package).await.expect("the newest set counts");
    hands.drop_prepared(shard, checksum + 1);
    assert!(!has_place(2), "that is another one's");
    hands.drop_prepared(shard, checksum);
    world.until("it is free", || has_place(2));
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

/// H12: at the next owner it is no news any more that somebody came.
#[tokio::test(flavor = "multi_thread")]
async fn who_came_while_the_store_did_not_keep_up_is_seen_before_the_room_stands_still() {
    let world = world_without_checkpoints();
    let (a, b, id) = pair(&world).await;
    let gateways = vec![a.gateway(), b.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    world.until("she is seen", || world.view(&id).book.seats == 1);
    world.weather.hold_commits.store(true, Ordering::SeqCst);
    // A commit with each tick, until as many wait as may.
    let later = Duration::from_secs(3_600).as_millis() as u64;
    world.until("it ticks no more", || {
        let before = world.view(&id).tick;
        (0..4).for_each(|n| ann.say(&gateways, Say::Later(format!("{}-{n}", ann.said.len()), later)));
        world.pass(Duration::from_millis(60));
        world.view(&id).tick == before
    });
    let bob = Player::join(&world, &gateways, &id, "bob", 2);
    let mut frozen = freeze(&a, &id);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.view(&id).book.seats, 1, "it cannot tick yet");
    world.weather.hold_commits.store(false, Ordering::SeqCst);
    let package = frozen.stored().await.expect("stored");
    assert_eq!(world.view(&id).book.seats, 2, "it was seen here");
    b.host.hands().prepare(id.shard(SHARDS), &package).await.expect("ready");
    let last = world.view(&id).tick;
    transfer(&a, &b, &id, &package, &mut frozen).await;
    frozen.moved(None);
    world.until("it goes on there", || world.view(&id).tick > last);
    assert_eq!(world.view(&id).book.seats, 2, "and once");
    drop((ann, bob));
}

#[tokio::test(flavor = "multi_thread")]
async fn worlds_that_are_not_needed_are_dropped_while_no_lock_is_held() {
    let world = world_without_checkpoints();
    let (a, b, id) = pair(&world).await;
    let gateways = vec![a.gateway(), b.gateway()];
    let _ann = Player::join(&world, &gateways, &id, "ann", 1);
    let shard = id.shard(SHARDS);
    let (fence, target) = (a.ownership.fence(shard).unwrap(), b.ownership.incarnation().unwrap());
    let mut frozen = freeze(&a, &id);
    let package = frozen.stored().await.expect("stored");
    b.host.hands().prepare(shard, &package).await.expect("ready");
    // The claim comes without the package: its worlds are of no use, and their destructors take their time.
    STUBBORN_THING.store(true, Ordering::SeqCst);
    frozen.asking();
    assert!(matches!(a.ownership.transfer(&fence, &target, 0, Vec::new()).await, Transfer::Done(_)));
    world.until("it is the other's", || b.holds(&id));
    world.until("it is being dropped", || STUBBORN_THINGS.load(Ordering::SeqCst) > 0);
    let (told, done) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| told.send(b.host.status().shards));
        let status = done.recv_timeout(Duration::from_secs(5));
        STUBBORN_THING.store(false, Ordering::SeqCst);
        assert!(status.is_ok(), "nobody waits for a destructor of game code");
    });
    frozen.moved(None);
    world.until("it runs there", || b.host.status().stages.get("running") == Some(&1));
}
