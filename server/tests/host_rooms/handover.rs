//! Shards in the hands of a handoff: stopped, stored, made ready elsewhere, gone, or back again. Nothing is lost or doubled, and no game
//! hears of it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tenure::{
    link::{Mode, Package, ToGateway},
    ownership::Transfer,
    room::host::Frozen,
};
use tenure_shared::{RoomId, Seq, Term, Tick};

use crate::{
    harness::{Node, SHARDS, World},
    lab::Say,
    moves::{applied, hooks, world_without_checkpoints},
    player::{Answer, Player, answer, frames, room_of},
};

/// Two nodes that give nothing away by themselves, and a room of the first one.
pub async fn pair(world: &World) -> (Node, Node, RoomId) {
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

pub fn freeze(node: &Node, room: &RoomId) -> Frozen {
    let fence = node.ownership.fence(room.shard(SHARDS)).expect("it is held");
    node.host.hands().freeze(&fence).expect("nobody else has it in hand")
}

/// The claim goes from one node to another with a package. Gives the new term.
pub async fn transfer(from: &Node, to: &Node, room: &RoomId, package: &Package, frozen: &mut Frozen) -> Term {
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
    let attached = &ann.attached[1];
    assert!(attached.term == term && attached.tick >= last, "it goes on from the very last tick");
    assert!(b.weather.rooms_read.load(Ordering::SeqCst) > 0, "while the list of its rooms cannot be read");
    b.weather.broken_rooms.store(false, Ordering::SeqCst);
    b.host.ready().await;
    assert_eq!(applied(&world, &ann), [0]);
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
