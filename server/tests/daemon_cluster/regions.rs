//! Region coordinators: each finds rooms, lists those of its region and wakes the owners of overdue work, wherever all of them are.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use tenure::{
    daemon::{
        DEADLINE, Reach, Region, RegionAnswer, RegionQuestion, ShardedDaemonProcess, coordinators, region_daemon,
    },
    link::{
        Coordinators as _,
        lobby::{Answer, Question, Seek},
    },
    ownership::Ownership,
    plugin::{RoomBuilder, RoomKind},
    room::host::RoomNews,
    store::{Batch, Checkpoint, RoomSummary, Store, WorkId, WorkItem},
};
use tenure_shared::{Filter, PlayerId, RoomId, ShardId, Term, Tick};

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

fn sets(regions: &[&str]) -> Vec<ShardedDaemonProcess> {
    let kind = RoomKind::new("arena", |room: &mut RoomBuilder| {
        room.max_seats(4);
    });
    let regions: Vec<String> = regions.iter().map(|region| (*region).to_owned()).collect();
    coordinators(&regions, &[kind.expect("a kind")]).into_iter().map(Into::into).collect()
}

async fn names(world: &mut World, region: &'static str, open: bool) -> Vec<String> {
    let kind = Some("arena".to_owned());
    let question = Question::Rooms { kind, filter: Filter::default(), open, after: None, limit: 10 };
    match ask(world, region, RegionQuestion::Client(question)).await {
        RegionAnswer::Client(Answer::Rooms { rooms, next: None }) => {
            rooms.into_iter().map(|room| room.room.to_string()).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn wish(n: u64) -> Question {
    let player = PlayerId::new(&format!("p{n}")).expect("valid");
    Question::Seek(Seek { player, kind: "arena".into(), filter: Filter::default(), request: n, refused: None })
}

/// Asks as a node does for a gateway, again and again as long as there is no answer; how often it took.
async fn seek(world: &mut World, node: usize, n: u64) -> (RoomId, bool, u32) {
    for asked in 1..=60 {
        let reach = Reach::new(world.nodes[node].daemons.clone());
        let answer = world.during(async move { reach.ask("eu", wish(n), Duration::from_secs(1)).await }).await;
        match answer {
            Some(Answer::Room { room, make, .. }) => return (room, make, asked),
            None => {}
            other => panic!("{other:?}"),
        }
    }
    panic!("there was never an answer")
}

fn host(world: &World) -> String {
    world.nodes.iter().find(|node| !node.running("region-eu").is_empty()).expect("a host").name.clone()
}

#[tokio::test]
async fn each_lists_its_own_rooms_and_wakes_the_owners_of_late_work() {
    let mut world = World::with(&["a", "b"], |_| sets(&["eu", "us"])).await;
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
    let host = host(&world);
    world.kill(&host);
    world.run(Duration::from_secs(8)).await;
    assert_eq!(names(&mut world, "eu", false).await, ["arena/eu/free", "arena/eu/full"]);
}

#[tokio::test]
async fn a_coordinator_that_moves_answers_from_the_store_and_makes_no_twins() {
    let mut world = World::with(&["a", "b", "c"], |_| sets(&["eu"])).await;
    let there = room("eu", "there");
    let shard = there.shard(SHARDS);
    let owner = world.nodes.iter().find(|node| node.ownership.fence(shard).is_some()).expect("an owner");
    store(&owner.ownership, &owner.store, summary(&there, 3, false), None, 1).await;
    world.run(Duration::from_secs(2)).await;
    // One seat is free: it is kept for the first who asks, on whatever node; the second is to make a room.
    assert_eq!(seek(&mut world, 0, 1).await, (there.clone(), false, 1));
    let named = seek(&mut world, 1, 2).await;
    assert!(named.0 != there && named.1);
    assert_eq!(seek(&mut world, 2, 2).await, named, "asked again through another node");

    // Its node is killed. Whoever asks is held or told to ask again, and has an answer in the end.
    let gone = host(&world);
    world.kill(&gone);
    let (again, make, asked) = seek(&mut world, 0, 2).await;
    assert!(asked > 1 && host(&world) != gone, "asked {asked} times");
    // The room has its free seat again, as the store says: the seat that was kept went with the former coordinator.
    assert_eq!((again, make), (there.clone(), false));
    // The same request for a new room names the same one as before.
    let full = RoomNews {
        room: there.clone(),
        term: Term(u64::MAX / 2),
        now: Some(summary(&there, 4, false)),
        stored: true,
        comings: Vec::new(),
    };
    ask(&mut world, "eu", RegionQuestion::News(vec![full])).await;
    let refused = Some((there, "room_full".to_owned()));
    let Question::Seek(first) = wish(2) else { unreachable!("a seek") };
    let reach = Reach::new(world.nodes[0].daemons.clone());
    let question = Question::Seek(Seek { refused, ..first });
    let answer = world.during(async move { reach.ask("eu", question, DEADLINE).await }).await;
    let metadata = Bytes::new();
    assert_eq!(answer, Some(Answer::Room { room: named.0, make: true, new: true, metadata }));
}

#[tokio::test]
async fn a_planned_move_loses_no_question() {
    let mut world = World::with(&["a", "b"], |_| sets(&["eu"])).await;
    let from = host(&world);
    let to = if from == "a" { "b" } else { "a" };
    let answers: Arc<parking_lot::Mutex<Vec<bool>>> = Arc::default();
    for n in 0..40 {
        let (reach, answers) = (Reach::new(world.nodes[0].daemons.clone()), answers.clone());
        tokio::spawn(async move {
            let answer = reach.ask("eu", wish(n), Duration::from_secs(5)).await;
            answers.lock().push(matches!(answer, Some(Answer::Room { .. })));
        });
        if n == 10 {
            let daemons = world.node(&from).daemons.clone();
            assert!(world.during(async move { daemons.hand_over("region-eu", 0, to).await }).await);
        }
        world.run(Duration::from_millis(50)).await;
    }
    world.run(Duration::from_secs(6)).await;
    assert_eq!(host(&world), to);
    assert_eq!(*answers.lock(), vec![true; 40], "all of them were held and answered");
}
