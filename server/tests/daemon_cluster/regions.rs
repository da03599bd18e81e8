//! Region coordinators: each lists its region's rooms and wakes the owners of overdue work, wherever both are.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use tenure::{
    daemon::{DEADLINE, Region, RegionAnswer, RegionQuestion, coordinators, region_daemon},
    ownership::Ownership,
    store::{Batch, Checkpoint, RoomSummary, Store, WorkId, WorkItem},
};
use tenure_shared::{RoomId, ShardId, Tick};

use crate::world::{SHARDS, World};

fn room(region: &str, name: &str) -> RoomId {
    RoomId::from_parts("arena", region, name).expect("valid")
}

fn summary(room: &RoomId, seats: u32, private: bool) -> RoomSummary {
    RoomSummary {
        room: room.clone(),
        seats,
        max_seats: 4,
        metadata: Bytes::new(),
        dormant: false,
        private,
        locked: false,
    }
}

/// Stores a room, with work that is due after a while.
async fn store(
    ownership: &Ownership,
    store: &Store,
    summary: RoomSummary,
    due: Option<Duration>,
    number: u64,
) -> ShardId {
    let room = summary.room.clone();
    let shard = room.shard(SHARDS);
    let fence = ownership.fence(shard).expect("it is this node's");
    let id = WorkId { room, job: "harvest".into(), key: "1".into() };
    let item = |due| WorkItem { id, due: store.now().plus(due), attempt: 0, parked: None, payload: Bytes::new() };
    let checkpoint = Checkpoint { summary, term: fence.term(), tick: Tick(1), version: 1, body: Bytes::new() };
    let batch =
        Batch { checkpoints: vec![checkpoint], scheduled: due.map(item).into_iter().collect(), ..Batch::default() };
    store.commit(&fence, SHARDS, number, batch).await.expect("stored");
    shard
}

async fn ask(world: &mut World, region: &'static str, question: RegionQuestion) -> RegionAnswer {
    let daemons = world.nodes[0].daemons.clone();
    let ask = async move { daemons.ask::<Region>(&region_daemon(region), 0, &question, DEADLINE).await };
    world.during(ask).await.expect("an answer")
}

async fn names(world: &mut World, region: &'static str, open: bool) -> Vec<String> {
    let question = RegionQuestion::Rooms { kind: Some("arena".to_owned()), open, after: None, limit: 10 };
    let RegionAnswer::Rooms { rooms, whole } = ask(world, region, question).await else { panic!("another answer") };
    assert!(whole, "every shard was read");
    rooms.into_iter().map(|room| room.room.to_string()).collect()
}

#[tokio::test]
async fn each_lists_its_own_rooms_and_wakes_the_owners_of_late_work() {
    let regions = ["eu".to_owned(), "us".to_owned()];
    let sets = |_: &_| coordinators(&regions).into_iter().map(Into::into).collect();
    let mut world = World::with(&["a", "b"], sets).await;
    assert_eq!((world.count("region-eu"), world.count("region-us")), (1, 1));
    let mut late = BTreeSet::new();
    let mut numbers = std::collections::BTreeMap::new();
    for (region, name, seats, private, due) in [
        ("eu", "full", 4, false, None),
        ("eu", "free", 1, false, Some(Duration::from_secs(1))),
        ("eu", "hidden", 1, true, None),
        ("us", "other", 0, false, Some(Duration::from_secs(1))),
        ("us", "later", 0, false, Some(Duration::from_secs(3_600))),
    ] {
        let room = room(region, name);
        let shard = room.shard(SHARDS);
        let node = world.nodes.iter().find(|node| node.ownership.fence(shard).is_some()).expect("an owner");
        let number = numbers.entry(shard).or_insert(0);
        *number += 1;
        store(&node.ownership, &node.store, summary(&room, seats, private), due, *number).await;
        if due.is_some_and(|due| due < Duration::from_secs(60)) {
            late.insert(shard);
        }
    }
    assert!(world.woken.lock().is_empty(), "nothing is late yet");
    world.run(Duration::from_secs(25)).await;
    assert_eq!(names(&mut world, "eu", false).await, ["arena/eu/free", "arena/eu/full"]);
    assert_eq!(names(&mut world, "eu", true).await, ["arena/eu/free"]);
    assert_eq!(names(&mut world, "us", false).await, ["arena/us/later", "arena/us/other"]);
    let woken: BTreeSet<ShardId> = world.woken.lock().iter().copied().collect();
    assert_eq!(woken, late, "the owners of late work were told, and no others, on whatever node they are");
    let mut swept = BTreeSet::new();
    for region in ["eu", "us"] {
        let RegionAnswer::Sweep { at, shards, late } = ask(&mut world, region, RegionQuestion::Sweep).await else {
            panic!("another answer")
        };
        assert!(at.0 > 0 && shards == SHARDS / 2, "each has its half of the shards");
        swept.extend(late);
    }
    assert_eq!(swept, late);

    // Its node is killed: the next one reads everything anew.
    let host = world.nodes.iter().find(|node| !node.running("region-eu").is_empty()).expect("one").name.clone();
    world.kill(&host);
    world.run(Duration::from_secs(8)).await;
    assert_eq!(names(&mut world, "eu", false).await, ["arena/eu/free", "arena/eu/full"]);
}
