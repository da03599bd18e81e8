//! What a node says on a link: whose a shard is, what is over, and what becomes of seats when the link ends.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tenure::{
    link::{Input, Mode, ToGateway, ToNode},
    runtime::mailbox::Refused,
};
use tenure_shared::{
    RoomId, SeatId, Seq, Term,
    codes::{CloseCode, ErrorCode},
};

use crate::{
    harness::{Gateway, SHARDS, Socket, World, attach, room},
    lab::Say,
    player::{Answer, ask, room_of},
};

fn heard(gateway: &Gateway, what: impl Fn(&ToGateway) -> bool) -> usize {
    gateway.heard.said.lock().unwrap().iter().filter(|m| what(m)).count()
}

fn moved(gateway: &Gateway) -> usize {
    heard(gateway, |m| matches!(m, ToGateway::Moved { .. }))
}

fn gone(gateway: &Gateway) -> usize {
    heard(gateway, |m| matches!(m, ToGateway::Gone { .. }))
}

/// Of a seat that this room may never have had.
fn input(room: &RoomId, seat: u32, socket: &Socket) -> ToNode {
    let generation = socket.attached.generation;
    let (seat, payload) = (SeatId(seat), bytes::Bytes::from_static(&[0xc0]));
    ToNode::Input(Input { room: room.clone(), seat, generation, seq: Seq(1), request: None, kind: 0, payload })
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_the_wrong_node_is_told_whose_the_shard_is() {
    let world = World::new();
    let a = world.named("a", &world.weather).await;
    let b = world.named("b", &Arc::default()).await;
    world.until("they share", || a.ownership.shards().len() == 2 && b.ownership.shards().len() == 2);
    let gateway = a.gateway();
    let other = room_of(&b);
    world.until("it is known", || a.ownership.view().owner(other.shard(SHARDS)).is_some_and(|o| o.address.is_some()));
    let term = b.ownership.fence(other.shard(SHARDS)).unwrap().term();
    // Given to it under a term before its own.
    world.until("its term is known", || a.ownership.view().owner(other.shard(SHARDS)).is_some_and(|o| o.term == term));
    let conn = gateway.conn();
    match ask(&gateway, attach(conn, &other, "ann")) {
        Answer::NotOwner(known) => assert_eq!(known, term),
        other => panic!("{other:?}"),
    }
    let socket = gateway.join(&room_of(&a), "ann");
    let before = moved(&gateway);
    for _ in 0..50 {
        gateway.up.send(input(&other, 1, &socket)).expect("taken");
    }
    assert_eq!(moved(&gateway), before + 1, "told once, not for each message");
    let (to, shard) = gateway.wait("the word", |m| match m {
        ToGateway::Moved { shard, to, .. } if *shard == other.shard(SHARDS) => Some((to.clone(), *shard)),
        _ => None,
    });
    assert_eq!((to.as_deref(), shard), (Some("b"), other.shard(SHARDS)));
    world.pass(Duration::from_millis(120));
    gateway.up.send(input(&other, 1, &socket)).expect("taken");
    assert_eq!(moved(&gateway), before + 2, "and again after a while");
    // Without a place for the answer the question is not taken.
    gateway.heard.deaf.store(true, Ordering::SeqCst);
    let unknown = RoomId::from_parts("unknown", "eu", "a").unwrap();
    let back = gateway.up.send(ToNode::Attach(attach(conn, &unknown, "ann")));
    assert!(matches!(back, Err(Refused::Full(ToNode::Attach(_)))), "{back:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_is_said_to_be_gone() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    gateway.up.send(input(&room("nowhere"), 1, &ann)).expect("taken");
    assert_eq!(gone(&gateway), 1);
    let (seat, generation) = (SeatId(1), ann.attached.generation);
    for consented in [false, true] {
        gateway.up.send(ToNode::Detach { room: room("nowhere"), seat, generation, consented }).expect("taken");
    }
    assert_eq!(gone(&gateway), 2, "only who waits for an answer gets one");
    for _ in 0..20 {
        gateway.up.send(input(&room("a"), 99, &ann)).expect("taken");
    }
    world.until("the room says so", || gone(&gateway) > 2);
    assert!(gone(&gateway) < 6, "once a tick");
    gateway.say(&ann, 1, &Say::Keep(1));
    world.until("others play on", || world.view(&room("a")).book.applied.contains_key("ann"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_link_is_a_dropped_socket_for_each_of_its_seats() {
    let world = World::new();
    let node = world.node().await;
    let (lost, good) = (node.gateway(), node.gateway());
    for (n, player) in ["ann", "bob"].into_iter().enumerate() {
        lost.join(&room(&format!("r{n}")), player);
        good.join(&room(&format!("r{n}")), "eve");
    }
    world.until("all are there", || (0..2).all(|n| world.view(&room(&format!("r{n}"))).connected == 2));
    let ear = Arc::downgrade(&lost.heard);
    drop(lost);
    world.until("nothing keeps a gateway that is gone", || ear.upgrade().is_none());
    world.until("its seats are in their grace", || (0..2).all(|n| world.view(&room(&format!("r{n}"))).connected == 1));
    world.until("the game was told", || world.outside.drops.load(Ordering::SeqCst) == 2);
    assert_eq!(world.view(&room("r0")).seats, 2);
    let back = good.join(&room("r0"), "ann");
    world.until("and is told again", || world.outside.backs.load(Ordering::SeqCst) == 1);
    assert_eq!(good.closed(back.conn), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seat_that_was_attached_through_another_link_before_stays() {
    let world = World::new();
    let node = world.node().await;
    let (old, new) = (node.gateway(), node.gateway());
    let before = old.join(&room("a"), "ann");
    let ann = new.join(&room("a"), "ann");
    assert_eq!(old.closed(before.conn), Some(CloseCode::Superseded));
    drop(old);
    let tick = world.view(&room("a")).tick;
    world.until("it ticks", || world.view(&room("a")).tick > tick + 10);
    new.say(&ann, 1, &Say::Keep(1));
    world.until("the new socket plays", || world.view(&room("a")).book.applied.contains_key("ann"));
    assert_eq!((world.view(&room("a")).connected, world.outside.drops.load(Ordering::SeqCst)), (1, 0), "C49");
    // The same socket through a new link, as after a broken one that the node has not noticed: it is no other one.
    let again = node.gateway();
    let known = attach(ann.conn, &room("a"), "ann");
    let (seat, generation) = (Some(ann.attached.seat), ann.attached.generation);
    let rejoin = tenure::link::Attach { seat, rejoin: true, generation, first: Seq(2), ..known };
    assert!(matches!(ask(&again, rejoin), Answer::Attached(_)));
    drop(new.up);
    assert!(!new.heard.said.lock().unwrap().iter().any(|m| matches!(m, ToGateway::Close { .. })));
    let tick = world.view(&room("a")).tick;
    world.until("it ticks", || world.view(&room("a")).tick > tick + 10);
    assert_eq!((world.view(&room("a")).connected, world.outside.drops.load(Ordering::SeqCst)), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_ends_takes_what_is_under_way_with_it() {
    let world = World::new();
    let node = world.node().await;
    let (lost, good) = (node.gateway(), node.gateway());
    // A room that is being made, and one that stands still.
    let ann = good.join(&room("still"), "ann");
    lost.join(&room("still"), "eve");
    world.until("both are there", || world.view(&room("still")).connected == 2);
    world.weather.hold_commits.store(true, Ordering::SeqCst);
    lost.ask(&room("a"), "bob", Mode::JoinOrCreate);
    world.until("it is being made", || node.host.status().rooms == 2);
    world.weather.no_heartbeats.store(true, Ordering::SeqCst);
    world.until("the other stands still", || node.host.status().stages.contains_key("frozen"));
    lost.ask(&room("still"), "joe", Mode::Join);
    drop(lost);
    world.weather.no_heartbeats.store(false, Ordering::SeqCst);
    world.weather.hold_commits.store(false, Ordering::SeqCst);
    world.until("the frozen room goes on without it", || world.view(&room("still")).connected == 1);
    assert_eq!(world.view(&room("still")).seats, 2, "nobody is seated whose link is gone");
    good.say(&ann, 1, &Say::Keep(1));
    world.until("the other plays on", || world.view(&room("still")).book.applied.contains_key("ann"));
    world.until("the new room has nobody", || world.view(&room("a")).connected == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_message_of_a_former_life_names_nobody() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let mut lives: Vec<Socket> = Vec::new();
    for life in 0..4 {
        let ann = gateway.join(&room("a"), "ann");
        for (before, old) in lives.iter().enumerate() {
            assert!(ann.attached.generation > old.attached.generation, "life {life} and {before}");
            assert!((ann.attached.term, ann.attached.tick) > (old.attached.term, old.attached.tick), "H7");
            gateway.say(old, 1, &Say::Keep(77));
            gateway.leave(old, old.attached.generation, true);
        }
        gateway.say(&ann, 1, &Say::Keep(life));
        world.until("it plays", || world.view(&room("a")).book.applied.get("ann").is_some_and(|n| *n == [life]));
        gateway.say(&ann, 2, &Say::End);
        world.until("it has ended", || gateway.closed(ann.conn) == Some(CloseCode::RoomEnded));
        world.until("it is gone", || node.host.status().rooms == 0);
        lives.push(ann);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_joins_a_room_that_has_ended_is_let_into_its_next_life() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    gateway.say(&ann, 1, &Say::Gift(50));
    world.until("the gift is told", || world.view(&room("a")).book.granted.len() == 1);
    // What it charges in its last tick is under way for a while.
    world.weather.hold_commits.store(true, Ordering::SeqCst);
    gateway.say(&ann, 2, &Say::Buy(10));
    gateway.say(&ann, 3, &Say::End);
    let tick = world.view(&room("a")).tick;
    world.until("it waits for its charge", || world.view(&room("a")).tick > tick + 5);
    let bob = gateway.ask(&room("a"), "bob", Mode::JoinOrCreate);
    let eve = gateway.ask(&room("a"), "eve", Mode::Join);
    let tick = world.view(&room("a")).tick;
    world.until("it waits still", || world.view(&room("a")).tick > tick + 5);
    assert_eq!(world.view(&room("a")).seats, 1, "nobody is seated in a room that ends");
    world.weather.hold_commits.store(false, Ordering::SeqCst);
    let bob = gateway.answer(bob).expect("a seat in the next life");
    gateway.answer(eve).expect("and whoever comes with him");
    assert_eq!(gateway.closed(ann.conn), Some(CloseCode::RoomEnded));
    assert_eq!(gateway.closed(bob.conn), None);
    world.until("it ticks", || world.view(&room("a")).seats == 2);
    assert_eq!(world.view(&room("a")).book.granted.len(), 0, "it is another room");
    assert_eq!(world.gold("ann").await, 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_name_may_be_of_any_shard_and_is_found_again() {
    let world = World::new();
    let a = world.named("a", &world.weather).await;
    let b = world.named("b", &Arc::default()).await;
    world.until("they share", || a.ownership.shards().len() == 2 && b.ownership.shards().len() == 2);
    let gateways = [a.gateway(), b.gateway()];
    let find = |gateway: &Gateway, make: bool| {
        let conn = gateway.conn();
        let (kind, region) = ("lab".to_owned(), "eu".to_owned());
        let find = ToNode::Find { gateway: tenure::link::GatewayId(0), conn, attempt: 1, kind, region, make };
        gateway.up.send(find).expect("taken");
        gateway.wait("an answer", |m| match m {
            ToGateway::Found { conn: of, room, .. } if *of == conn => Some((conn, room.clone())),
            _ => None,
        })
    };
    assert_eq!(find(&gateways[0], false).1, None, "nothing is made up");
    let mut shards = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let told: Vec<_> = (0..4).map(|_| find(&gateways[0], true)).collect();
        let found = told[0].1.clone().expect("a name");
        assert!(told.iter().all(|(_, room)| *room == told[0].1), "the four seats of one room: {told:?}");
        let owner = if a.holds(&found) { &gateways[0] } else { &gateways[1] };
        for (n, (conn, _)) in told.iter().enumerate() {
            match ask(owner, attach(*conn, &found, &format!("p{n}"))) {
                Answer::Attached(attached) => assert_eq!(attached.room, found),
                other => panic!("{other:?}"),
            }
        }
        shards.insert(found.shard(SHARDS));
    }
    assert!(shards.len() > 2, "also of the other node's shards: {shards:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_past_their_end_are_refused() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let known = || attach(gateway.conn(), &room("a"), "ann");
    for bad in [
        tenure::link::Attach { first: Seq(u64::MAX), ..known() },
        tenure::link::Attach { generation: tenure_shared::Generation(u32::MAX), rejoin: true, ..known() },
    ] {
        match ask(&gateway, bad) {
            Answer::Other(ToGateway::Refused { code: ErrorCode::Refused, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    // A term of which the store's clock knows nothing stops no room.
    let ann = gateway.join(&room("a"), "ann");
    gateway.up.send(ToNode::TermSeen { shard: room("a").shard(SHARDS), term: Term(u64::MAX) }).expect("taken");
    gateway.say(&ann, 1, &Say::Keep(1));
    world.until("it plays on", || world.view(&room("a")).book.applied.contains_key("ann"));
}
