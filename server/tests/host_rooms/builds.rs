//! Builds of a game that differ in what they handle, and what a room keeps.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tenure::plugin::{RoomBuilder, RoomKind};

use crate::{
    harness::{SHARDS, World, room},
    lab::{Book, Say},
};

/// The same game before anything was handled.
fn bare() -> Arc<RoomKind> {
    let build = |room: &mut RoomBuilder| {
        room.tick_rate(50).max_seats(4).dispose_after(Duration::ZERO);
        room.resource::<Book>("book").persisted();
    };
    RoomKind::new("lab", build).expect("a valid game")
}

/// Jobs of what waits for the room, parked or not.
async fn jobs(world: &World) -> Vec<(String, bool)> {
    let items = world.store.work(room("a").shard(SHARDS), None, 100).await.unwrap();
    items.into_iter().map(|item| (item.id.job.to_string(), item.parked.is_some())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_without_handlers_loses_neither_a_charge_nor_work() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    gateway.say(&ann, 1, &Say::Gift(50));
    world.until("the gift is told", || world.view(&room("a")).book.granted.len() == 1);
    world.weather.hold_ledger.store(true, Ordering::SeqCst);
    gateway.say(&ann, 2, &Say::Buy(10));
    gateway.say(&ann, 3, &Say::Later("x".into(), 200));
    world.until("both are stored", || gateway.saved(ann.conn) >= 3);
    node.crash().await;
    world.weather.hold_ledger.store(false, Ordering::SeqCst);
    // The deploy is rolled back.
    let node = world.with_kind("test", &world.weather, bare()).await;
    let gateway = node.gateway();
    gateway.join(&room("a"), "ann");
    let owed = ("tenure/owed-charge/buy".to_owned(), false);
    for _ in 0..2_000 {
        if jobs(&world).await.contains(&owed) {
            break;
        }
        world.pass(Duration::from_millis(5));
    }
    assert_eq!(jobs(&world).await, [("job".to_owned(), false), owed], "both wait, and nothing is parked");
    assert_eq!(world.gold("ann").await, 40, "the ledger has decided");
    assert!(node.stop().await.is_clean());
    // And forward again.
    let node = world.node().await;
    let gateway = node.gateway();
    gateway.join(&room("a"), "ann");
    world.until("it is handed over", || world.view(&room("a")).book.bought == 1);
    world.until("the work is done", || world.view(&room("a")).book.done == ["x"]);
    assert!(node.stop().await.is_clean());
    assert_eq!(jobs(&world).await, []);
    assert_eq!(world.gold("ann").await, 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_may_say_that_what_nobody_plays_is_gone() {
    let mut world = World::new();
    world.config.idle_after = Duration::ZERO;
    let node = world.with_kind("test", &world.weather, bare()).await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    gateway.leave(&ann, ann.attached.generation, true);
    world.until("it is deleted", || node.host.status().rooms == 0 && node.host.status().known == 0);
    assert_eq!(world.store.load(&room("a")).await.unwrap(), None);
}
