//! What is owed outlives rooms and odd answers; what nobody can take keeps nobody waiting; a full disk is seen.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use tenure::{
    runtime::Wall,
    store::{Batch, Key, WorkId, WorkItem},
};
use tenure_shared::{RoomId, Term};

use crate::{
    harness::{Gateway, SHARDS, Socket, World, room},
    lab::Say,
    player::{Player, room_of},
    weather::Weather,
};

/// Another room of the shard of `of`.
fn neighbour(of: &RoomId) -> RoomId {
    let shard = of.shard(SHARDS);
    (0..).map(|n| room(&format!("n{n}"))).find(|room| room != of && room.shard(SHARDS) == shard).expect("found")
}

/// Waits for a player's gold.
async fn until_gold(world: &World, player: &str, gold: i64) {
    for _ in 0..4_000 {
        if world.gold(player).await == gold {
            return;
        }
        world.pass(Duration::from_millis(5));
    }
    panic!("{player} has {} gold, not {gold}", world.gold(player).await);
}

fn gift(world: &World, gateway: &Gateway, from: &Socket, seq: u64, gold: i64) {
    gateway.say(from, seq, &Say::Gift(gold));
    world.until("it is saved", || gateway.saved(from.conn) == seq);
}

/// Puts items into the store while no node lives.
async fn stock(world: &World, id: &RoomId, scheduled: Vec<WorkItem>) {
    let store = &world.store;
    store.agree(tenure::store::model::AGREED_SHARDS, &SHARDS.to_string()).await.unwrap();
    let before = tenure_shared::IncarnationId::new("before#1").unwrap();
    let info = tenure::store::MemberInfo {
        node: "before".into(),
        roles: vec![],
        version: String::new(),
        revision: 0,
        link: String::new(),
        public_url: String::new(),
        zone_data: String::new(),
    };
    store.register(&before, info, Duration::from_secs(600)).await.unwrap();
    let key = Key::shard(id.shard(SHARDS));
    let seen = store.claim(&key).await.unwrap().map(|claim| (claim.holder, claim.term));
    let fence = store.acquire(&key, &before, seen, Term(0)).await.unwrap();
    for (n, part) in scheduled.chunks(2_000).enumerate() {
        let batch = Batch { scheduled: part.to_vec(), ..Batch::default() };
        store.commit(&fence, SHARDS, n as u64 + 1, batch).await.unwrap();
    }
    store.release(&fence).await.unwrap();
    store.deregister(&before).await.unwrap();
}

fn item(room: &RoomId, key: &str) -> WorkItem {
    let id = WorkId { room: room.clone(), job: "job".into(), key: key.into() };
    WorkItem { id, due: Wall(0), attempt: 0, parked: None, payload: Bytes::from(rmp_serde::to_vec(&7u64).unwrap()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_nobody_can_take_keeps_no_other_room_waiting() {
    let world = World::new();
    // More than a page of a kind that this build does not know, due before everything else.
    let shard = room("a").shard(SHARDS);
    let unknown = (0..).map(|n| RoomId::from_parts("chess", "eu", &format!("u{n}")).unwrap());
    let unknown = unknown.into_iter().find(|room| room.shard(SHARDS) == shard).unwrap();
    stock(&world, &unknown, (0..2_500).map(|n| item(&unknown, &n.to_string())).collect()).await;
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    gateway.say(&ann, 1, &Say::Later("x".into(), 0));
    world.until("it is done", || world.view(&room("a")).book.done == ["x"]);
    assert_eq!(world.store.work(shard, None, 1).await.unwrap().len(), 1, "the others are still there");
    assert!(node.host.status().overdue >= 2_500, "and counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_of_a_parked_room_keeps_no_other_room_waiting() {
    let mut world = World::new();
    world.config.restarts = 0;
    let node = world.node().await;
    let gateway = node.gateway();
    let bad = neighbour(&room("a"));
    let eve = gateway.join(&bad, "eve");
    gateway.say(&eve, 1, &Say::Keep(1));
    world.until("it is saved", || gateway.saved(eve.conn) == 1);
    assert!(node.stop().await.is_clean());
    stock(&world, &bad, (0..1_500).map(|n| item(&bad, &n.to_string())).collect()).await;
    world.outside.work_panics.store(1, Ordering::SeqCst);
    let node = world.node().await;
    let gateway = node.gateway();
    world.until("it is parked", || node.host.status().stages.contains_key("parked"));
    let ann = gateway.join(&room("a"), "ann");
    gateway.say(&ann, 1, &Say::Later("x".into(), 0));
    world.until("it is done", || world.view(&room("a")).book.done == ["x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_grant_outlives_its_room_and_is_paid_without_it() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    world.weather.no_ledger.store(true, Ordering::SeqCst);
    gift(&world, &gateway, &ann, 1, 5);
    world.until("the room hears of it", || world.view(&room("a")).book.granted.len() == 1);
    world.until("it leaves the outbox", || node.host.status().outbox == 0);
    gateway.say(&ann, 2, &Say::End);
    world.until("the room is gone", || node.host.status().rooms == 0);
    assert_eq!(world.store.load(&room("a")).await.unwrap(), None);
    let shard = room("a").shard(SHARDS);
    let kept = world.store.work(shard, None, 10).await.unwrap();
    assert_eq!(kept.iter().filter(|item| item.parked.is_some()).count(), 1, "{kept:?}");

    // A person has seen to it; somebody who asks for the room meanwhile does not take it away.
    world.weather.no_ledger.store(false, Ordering::SeqCst);
    world.store.retry(&node.ownership.fence(shard).unwrap(), &kept[0].id).await.unwrap();
    gateway.answer(gateway.ask(&room("a"), "bob", tenure::link::Mode::Join)).expect_err("there is no such room");
    let left = world.store.work(shard, None, 10).await.unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(node.stop().await.is_clean());
    let node = world.node().await;
    until_gold(&world, "ann", 5).await;
    world.until("it leaves the outbox", || node.host.status().outbox == 0);
    assert_eq!(world.store.work(shard, None, 10).await.unwrap(), [], "done once and for ever (H6)");
    assert_eq!(world.store.load(&room("a")).await.unwrap(), None, "no world was needed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_odd_answer_of_one_ledger_is_asked_again_and_keeps_no_other_waiting() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let (ann, bob) = (gateway.join(&room("a"), "ann"), gateway.join(&room("a"), "bob"));
    *world.weather.broken_ledger.lock().unwrap() = Some("ann".to_owned());
    gift(&world, &gateway, &ann, 1, 5);
    gateway.say(&ann, 2, &Say::Buy(3));
    gift(&world, &gateway, &bob, 1, 7);
    until_gold(&world, "bob", 7).await;
    world.until("it is asked again", || world.weather.broken_asked.load(Ordering::SeqCst) >= 3);
    let parked = world.store.work(room("a").shard(SHARDS), None, 10).await.unwrap();
    assert_eq!(parked, [], "nothing is given up");
    *world.weather.broken_ledger.lock().unwrap() = None;
    // No commit is needed for that.
    until_gold(&world, "ann", 2).await;
    world.until("in order: the purchase was paid", || world.view(&room("a")).book.bought == 1);
    world.until("every grant is through", || node.host.status().outbox == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_from_before_the_shard_went_is_not_told_when_it_is_back() {
    let world = World::new();
    let weather = Arc::<Weather>::default();
    let a = world.named("a", &weather).await;
    let id = room_of(&a);
    let mut gateways = vec![a.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    weather.hold_ledger.store(true, Ordering::SeqCst);
    ann.say(&gateways, Say::Gift(5));
    ann.until_saved(&world, &gateways);
    until_gold(&world, "ann", 5).await;
    // The answer is on its way; meanwhile the shard goes to another node, which asks again and tells the room.
    let b = world.named("b", &world.weather).await;
    gateways.push(b.gateway());
    weather.no_heartbeats.store(true, Ordering::SeqCst);
    world.until("the other takes over", || b.holds(&id));
    ann.follow_to(&world, &gateways, 1..2);
    world.until("it is told", || world.view(&id).book.granted.len() == 1);
    world.until("the answer is stored", || b.host.status().outbox == 0);
    weather.no_heartbeats.store(false, Ordering::SeqCst);
    b.crash().await;
    world.until("it is back", || a.holds(&id));
    ann.follow_to(&world, &gateways, 0..1);
    // With a checkpoint of its own the room forgets what it was told: nobody can tell it again.
    ann.say(&gateways, Say::Keep(100));
    ann.until_saved(&world, &gateways);
    weather.hold_ledger.store(false, Ordering::SeqCst);
    for n in 0..10 {
        ann.say(&gateways, Say::Keep(n));
        ann.until_saved(&world, &gateways);
    }
    assert_eq!(world.view(&id).book.granted.len(), 1, "told once (H6)");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outbox_that_cannot_be_read_is_read_again_without_a_commit() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    world.weather.broken_outbox.store(true, Ordering::SeqCst);
    gift(&world, &gateway, &ann, 1, 5);
    world.until("it is read again", || world.weather.broken_asked.load(Ordering::SeqCst) >= 4);
    world.weather.broken_outbox.store(false, Ordering::SeqCst);
    until_gold(&world, "ann", 5).await;
    world.until("every grant is through", || node.host.status().outbox == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_takes_no_writes_is_seen_although_it_answers_reads() {
    const RECENT: Duration = Duration::from_millis(50);
    let world = World::new();
    let node = world.node().await;
    let asked = world.clock.now();
    world.pass(RECENT);
    let began = node.host.prove(RECENT).await.expect("a write of its own, without any room");
    assert!(began >= asked);
    world.weather.no_writes.store(true, Ordering::SeqCst);
    world.pass(RECENT);
    let late = world.clock.sleep(Duration::from_millis(400));
    tokio::select! {
        proof = node.host.prove(RECENT) => panic!("proven by {proof:?}"),
        () = late => {}
    }
    world.store.members().await.expect("reads go on");
    world.weather.no_writes.store(false, Ordering::SeqCst);
    node.host.prove(RECENT).await.expect("a write again");
}
