//! Game code that panics, fails or hangs touches one room.

use std::{sync::atomic::Ordering, time::Duration};

use tenure::link::{Mode, ToGateway};
use tenure_shared::codes::{CloseCode, ErrorCode};

use crate::{
    harness::{SHARDS, World, room},
    lab::Say,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_restores_that_room_alone_and_its_inputs_come_again() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    let bob = gateway.join(&room("b"), "bob");
    gateway.say(&ann, 1, &Say::Keep(1));
    world.until("it is saved", || gateway.saved(ann.conn) == 1);
    gateway.say(&ann, 2, &Say::Keep(2));
    gateway.say(&ann, 3, &Say::Boom);
    let (member, tick) = gateway.wait("the members are told", |m| match m {
        ToGateway::Restored { room: id, members, tick, .. } if *id == room("a") => Some((members[0].clone(), *tick)),
        _ => None,
    });
    let owed = member.owed;
    // What was on its way to the failed world comes late, and changes nothing.
    gateway.say(&ann, 5, &Say::Keep(5));
    let ann = ann.renewed(&member);
    assert!((2..=3).contains(&owed.0), "what was not saved is owed: {owed}");
    // The client's ring, without what made it fail.
    for seq in owed.0..=4 {
        gateway.say(&ann, seq, &Say::Keep(seq));
    }
    world.until("it goes on", || world.view(&room("a")).book.applied["ann"] == [1, 2, 3, 4]);
    assert!(world.view(&room("a")).tick >= tick.0);
    assert_eq!((gateway.closed(ann.conn), gateway.closed(bob.conn)), (None, None));
    let said = gateway.heard.said.lock().unwrap();
    let shown =
        |m: &ToGateway| if let ToGateway::Frame(f) = m { (f.room == room("a")).then_some(f.tick) } else { None };
    let ticks: Vec<_> = said.iter().filter_map(shown).collect();
    assert!(ticks.is_sorted(), "a tick was shown again: {ticks:?}");
    assert!(!said.iter().any(|m| matches!(m, ToGateway::Restored { room: id, .. } if *id == room("b"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_room_that_keeps_failing_is_parked_and_others_play_on() {
    let mut world = World::new();
    world.config.restarts = 3;
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    for n in 1..=3u64 {
        let restored = || {
            let said = gateway.heard.said.lock().unwrap();
            said.iter().filter(|m| matches!(m, ToGateway::Restored { .. })).count() as u64
        };
        let socket = gateway.join(&room("a"), "ann");
        gateway.say(&socket, socket.attached.owed.0, &Say::Boom);
        world.until("it is restored", || restored() == n);
    }
    drop(ann);
    let socket = gateway.join(&room("a"), "ann");
    gateway.say(&socket, socket.attached.owed.0, &Say::Boom);
    world.until("its sockets are closed", || gateway.closed(socket.conn) == Some(CloseCode::RoomError));
    let status = node.host.status();
    assert_eq!(status.list[0].room, room("a"), "parked rooms come first");
    assert!(status.list[0].reason.as_ref().is_some_and(|reason| reason.contains("boom")), "{:?}", status.list[0]);
    match gateway.answer(gateway.ask(&room("a"), "bob", Mode::JoinOrCreate)) {
        Err(ToGateway::Refused { code: ErrorCode::RoomError, message, .. }) => assert!(message.contains("boom")),
        other => panic!("{other:?}"),
    }
    let bob = gateway.join(&room("b"), "bob");
    gateway.say(&bob, 1, &Say::Keep(1));
    world.until("another room plays", || world.view(&room("b")).book.applied.contains_key("bob"));
    // A person may say that it is to be tried anew, with a budget of its own.
    assert!(!node.host.unpark(&room("b")), "it is not parked");
    assert!(node.host.unpark(&room("a")));
    let socket = gateway.join(&room("a"), "ann");
    gateway.say(&socket, socket.attached.owed.0, &Say::Keep(7));
    world.until("it plays", || world.view(&room("a")).book.applied.get("ann").is_some_and(|n| n.contains(&7)));
    assert_eq!(node.host.status().stages.get("parked"), None);
    assert!(node.stop().await.is_clean());
    // A restart tries it anew, from what it had stored.
    let node = world.node().await;
    let gateway = node.gateway();
    gateway.join(&room("a"), "ann");
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_work_is_tried_again_and_parked_in_the_end() {
    let mut world = World::new();
    world.config.max_attempts = 4;
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    world.outside.work_fails.store(3, Ordering::SeqCst);
    gateway.say(&ann, 1, &Say::Later("x".into(), 0));
    world.until("the fourth attempt does it", || world.view(&room("a")).book.done == ["x"]);
    world.outside.work_fails.store(4, Ordering::SeqCst);
    gateway.say(&ann, 2, &Say::Later("y".into(), 0));
    let shard = room("a").shard(SHARDS);
    let mut parked = Vec::new();
    for _ in 0..2_000 {
        parked = world.store.work(shard, None, 10).await.unwrap().into_iter().filter(|i| i.parked.is_some()).collect();
        if !parked.is_empty() {
            break;
        }
        world.clock.park_until(Some(world.clock.now().plus(Duration::from_millis(5))));
    }
    assert_eq!(
        parked.iter().map(|item| (&*item.id.key, item.parked.as_deref())).collect::<Vec<_>>(),
        [("y", Some("not yet"))]
    );
    assert_eq!(world.view(&room("a")).book.done, ["x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_panics_counts_as_failed_and_does_not_park_the_room() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    world.outside.work_panics.store(2, Ordering::SeqCst);
    gateway.say(&ann, 1, &Say::Later("x".into(), 0));
    world.until("the third attempt does it", || world.view(&room("a")).book.done == ["x"]);
    let lines = world.store.completed(room("a").shard(SHARDS), 10);
    world.until("two restores", || {
        gateway.heard.said.lock().unwrap().iter().filter(|m| matches!(m, ToGateway::Restored { .. })).count() == 2
    });
    node.stop().await;
    assert_eq!(lines.await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_that_never_returns_loses_its_shard_and_ends_the_process() {
    let mut world = World::new();
    world.config.stall_after = Duration::from_millis(200);
    world.config.kill_after = Duration::from_millis(200);
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    // Of another shard.
    let other = (0..).map(|n| room(&format!("b{n}"))).find(|r| r.shard(SHARDS) != room("a").shard(SHARDS)).unwrap();
    let bob = gateway.join(&other, "bob");
    let fence = node.ownership.fence(room("a").shard(SHARDS)).expect("owned");
    gateway.say(&ann, 1, &Say::Hang);
    world.until("it is seen", || node.host.status().stalls == 1);
    world.until("its shard is given up", || node.ownership.fence(room("a").shard(SHARDS)) != Some(fence.clone()));
    gateway.say(&bob, 1, &Say::Keep(1));
    world.until("another room plays", || world.view(&other).book.applied.contains_key("bob"));
    world.until("the process must end", || node.killed.lock().unwrap().as_deref() == Some(room("a").as_str()));
    *world.outside.gate.0.lock().unwrap() = true;
    world.outside.gate.1.notify_all();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_does_not_listen_loses_its_sockets_and_not_the_room() {
    let world = World::new();
    let node = world.node().await;
    let (deaf, good) = (node.gateway(), node.gateway());
    let ann = deaf.join(&room("a"), "ann");
    let bob = good.join(&room("a"), "bob");
    world.until("both are there", || world.view(&room("a")).connected == 2);
    deaf.heard.deaf.store(true, Ordering::SeqCst);
    world.until("its seat is in its grace", || world.view(&room("a")).connected == 1);
    good.say(&bob, 1, &Say::Keep(1));
    world.until("the other plays", || world.view(&room("a")).book.applied.contains_key("bob"));
    deaf.heard.deaf.store(false, Ordering::SeqCst);
    world.until("its socket is closed when it listens again", || deaf.closed(ann.conn) == Some(CloseCode::MayRetry));
}
