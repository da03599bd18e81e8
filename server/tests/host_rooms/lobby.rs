//! Finding a room, and what rooms that nobody is in cost.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use tenure::{
    link::{GatewayId, Mode, ToGateway, ToNode},
    runtime::{Rng, Shutdown, Tasks},
    store::{Batch, Checkpoint, RoomSummary},
};
use tenure_shared::{RoomId, ShardId, Tick, codes::ErrorCode};

use crate::harness::{Gateway, SHARDS, World, room};

fn find(gateway: &Gateway, kind: &str) -> (tenure::link::ConnId, Option<RoomId>) {
    let conn = gateway.conn();
    let (kind, region) = (kind.to_owned(), "eu".to_owned());
    gateway.up.send(ToNode::Find { gateway: GatewayId(0), conn, attempt: 1, kind, region, make: true }).expect("taken");
    let found = gateway.wait("an answer", |m| match m {
        ToGateway::Found { conn: other, room, .. } if *other == conn => Some(room.clone()),
        _ => None,
    });
    (conn, found)
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_look_at_once_fill_rooms_one_after_another() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let found: Vec<_> = (0..40).map(|_| find(&gateway, "lab")).collect();
    for (n, (conn, found)) in found.iter().enumerate() {
        let found = found.as_ref().expect("a room");
        // The first one makes the room that all of them were told.
        gateway.ask_as(*conn, found, &format!("p{n}"), Mode::Join, None);
    }
    let mut seats = BTreeMap::new();
    for (conn, found) in &found {
        gateway.answer(*conn).expect("the seat was kept for it");
        *seats.entry(found.clone()).or_insert(0) += 1;
    }
    assert_eq!(seats.values().copied().collect::<Vec<_>>(), [4; 10]);
    assert_eq!(find(&gateway, "chess").1, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_room_whose_first_player_is_refused_is_not_told_to_others_as_one_that_exists() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let (first, told) = find(&gateway, "lab");
    let (second, same) = find(&gateway, "lab");
    assert_eq!(told, same);
    gateway.ask_as(first, told.as_ref().unwrap(), "nobody", Mode::Join, None);
    assert!(matches!(gateway.answer(first), Err(ToGateway::Refused { code: ErrorCode::Refused, word: None, .. })));
    // One who was told of it makes it, and the next one is not sent into nothing.
    gateway.ask_as(second, told.as_ref().unwrap(), "ann", Mode::Join, None);
    gateway.answer(second).expect("a seat");
    let (third, found) = find(&gateway, "lab");
    gateway.ask_as(third, found.as_ref().unwrap(), "bob", Mode::Join, None);
    gateway.answer(third).expect("a seat");
    // The game may say so in a word of its own.
    let conn = gateway.ask(told.as_ref().unwrap(), "stranger", Mode::Join);
    match gateway.answer(conn) {
        Err(ToGateway::Refused { code: ErrorCode::Refused, word, .. }) => {
            assert_eq!(word.as_deref(), Some("not_invited"));
        }
        other => panic!("{other:?}"),
    }
    // A room asked for by name that lets nobody in is not found later.
    let conn = gateway.ask(&room("x"), "nobody", Mode::Create);
    assert!(gateway.answer(conn).is_err());
    world.until("it is forgotten", || node.host.status().known == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_node_says_so() {
    let mut world = World::new();
    world.config.max_rooms = 2;
    let node = world.node().await;
    let gateway = node.gateway();
    gateway.join(&room("a"), "ann");
    gateway.join(&room("b"), "ann");
    let conn = gateway.ask(&room("c"), "ann", Mode::JoinOrCreate);
    match gateway.answer(conn) {
        Err(ToGateway::Refused { code: ErrorCode::Limit, retry_after: Some(_), .. }) => {}
        other => panic!("{other:?}"),
    }
    gateway.join(&room("a"), "bob");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_dormant_rooms_wake_no_thread() {
    const ROOMS: usize = 1_000;
    let world = World::new();
    let tasks = Tasks::new(Shutdown::new());
    let ownership = crate::harness::own(&world, &tasks, &Rng::from_entropy()).await;
    let mut batches: BTreeMap<ShardId, Batch> = BTreeMap::new();
    for n in 0..ROOMS {
        let room = room(&format!("r{n}"));
        let shard = room.shard(SHARDS);
        let summary = RoomSummary {
            room,
            seats: 0,
            max_seats: 4,
            metadata: Bytes::new(),
            dormant: true,
            private: false,
            locked: false,
        };
        let term = ownership.fence(shard).expect("owned").term();
        let checkpoint = Checkpoint { summary, term, tick: Tick(1), version: 1, body: Bytes::new() };
        batches.entry(shard).or_default().checkpoints.push(checkpoint);
    }
    for (shard, batch) in batches {
        world.store.commit(&ownership.fence(shard).expect("owned"), SHARDS, 1, batch).await.expect("stored");
    }
    ownership.leave().await;

    let node = world.node().await;
    assert_eq!((node.host.status().known, node.host.status().rooms), (ROOMS, 0));
    // The last shard's first look is over.
    world.pass(Duration::from_millis(200));
    let before = node.host.wakeups();
    let calls = world.weather.calls.load(std::sync::atomic::Ordering::SeqCst);
    world.pass(Duration::from_millis(1_500));
    assert_eq!(node.host.wakeups(), before, "room threads sleep");
    assert_eq!(world.weather.calls.load(std::sync::atomic::Ordering::SeqCst), calls, "and so do the shards");
    let gateway = node.gateway();
    assert!(find(&gateway, "lab").1.is_some_and(|found| found.name().starts_with('r')), "a dormant room is found");
}
