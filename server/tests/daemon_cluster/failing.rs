//! Daemons that panic, fail, end, hang or block: each is told apart, comes back by itself, and touches no other.

use std::{sync::atomic::Ordering, time::Duration};

use tenure::daemon::{Refused, ShardedDaemonProcess};

use crate::{
    counter::{Counter, Order, Records},
    world::World,
};

fn quick(records: &Records) -> Vec<ShardedDaemonProcess> {
    vec![records.counters("work", 4).liveness_interval(Duration::from_secs(4))]
}

/// Sends an order whose answer does not matter.
async fn order(world: &mut World, index: u32, order: Order) -> Result<(), Refused> {
    let daemons = world.nodes[0].daemons.clone();
    let ask = async move { daemons.ask::<Counter>("work", index, &order, Duration::from_secs(2)).await.map(drop) };
    world.during(ask).await
}

#[tokio::test]
async fn one_that_fails_comes_back_with_its_state_and_others_are_not_touched() {
    let mut world = World::with(&["a", "b"], quick).await;
    for (bad, answer) in [
        (Order::Panic, Err(Refused::Unanswered)),
        (Order::Fail, Err(Refused::Failed("told to fail".to_owned()))),
        (Order::End, Ok(())),
    ] {
        let (before, counted) = (world.terms("work"), world.records.counted("work", 1, 2));
        assert_eq!(order(&mut world, 2, bad).await, answer);
        world.run(Duration::from_secs(5)).await;
        let after = world.terms("work");
        assert!(after[&2] > before[&2], "each start has a term of its own");
        assert!((0..4).filter(|index| *index != 2).all(|index| after[&index] == before[&index]));
        assert!(world.records.counted("work", 1, 2) > counted, "it counts on from what it stored");
        world.run(Duration::from_secs(60)).await;
    }
    let sets = world.nodes.iter().flat_map(|node| node.daemons.status());
    let restarts: u64 = sets.flat_map(|set| set.daemons).filter(|row| row.index == 2).map(|row| row.restarts).sum();
    assert_eq!(restarts, 3);
}

#[tokio::test]
async fn a_hang_is_found_by_the_daemons_own_mark_and_long_work_is_none() {
    let mut world = World::with(&["a"], quick).await;
    let before = world.terms("work");
    assert_eq!(order(&mut world, 1, Order::Hang).await, Err(Refused::Unanswered));
    world.run(Duration::from_secs(1)).await;
    assert_eq!(world.terms("work"), before, "not yet");
    world.run(Duration::from_secs(6)).await;
    let after = world.terms("work");
    assert!(after[&1] > before[&1] && after[&0] == before[&0]);
    assert_eq!(order(&mut world, 1, Order::Report).await, Ok(()));
    // Idle for much longer than the interval, and busy for less: nothing hangs.
    order(&mut world, 0, Order::Work(1_900)).await.expect("done");
    world.run(Duration::from_secs(60)).await;
    assert_eq!(world.terms("work"), after);
    assert_eq!(world.node("a").killed.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_crash_loop_is_parked_with_its_reason_and_only_that_one() {
    // C31: daemon 3 panics at start ten times.
    let mut world = World::with(&["a", "b"], quick).await;
    let before = world.terms("work");
    world.records.panics(3, 10);
    assert_eq!(order(&mut world, 3, Order::Panic).await, Err(Refused::Unanswered));
    world.run(Duration::from_secs(60)).await;
    let after = world.terms("work");
    assert_eq!(after.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    assert!((0..3).all(|index| after[&index] == before[&index]));
    let row = |world: &World| {
        let sets = world.nodes.iter().flat_map(|node| node.daemons.status());
        let mut rows = sets.flat_map(|set| set.daemons).filter(|row| row.index == 3 && row.reason.is_some());
        rows.next().expect("shown as parked")
    };
    let parked = row(&world);
    let reason = parked.reason.expect("a reason");
    assert!(reason.contains("panicked") && reason.contains("told to panic at the start"), "{reason}");
    assert!(world.nodes.iter().any(|node| !node.daemons.is_whole()), "no green check over a dead daemon");
    let host = world.nodes.iter().find(|node| node.stage("work", 3) == "parked").expect("one has it").name.clone();
    let daemons = world.node(&host).daemons.clone();
    let told = daemons.clone();
    let answer = world.during(async move { told.tell::<Counter>("work", 3, &Order::Report).await }).await;
    assert!(matches!(answer, Err(Refused::Parked(_))), "{answer:?}");
    // The fault is mended.
    world.records.panics(3, 0);
    let unpark = daemons.clone();
    world.during(async move { unpark.unpark("work", 3).await }).await.expect("it is parked");
    world.run(Duration::from_secs(3)).await;
    assert_eq!(world.count("work"), 4);
    assert!(world.nodes.iter().all(|node| node.daemons.is_whole()));
}

#[test]
fn one_that_blocks_its_thread_loses_its_claim_and_ends_its_process() {
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("threads");
    let handle = threads.handle().clone();
    let own = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    own.block_on(async {
        let mut world = World::new();
        world.threads = Some(handle);
        for name in ["a", "b"] {
            let sets = quick(&world.records);
            world.start(&crate::world::Plan::of(name, "1", 0), sets).await.expect("starts");
        }
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while world.count("work") < 4 {
            assert!(std::time::Instant::now() < deadline, "they start");
            world.run(Duration::from_millis(50)).await;
            std::thread::yield_now();
        }
        let blocks = world.records.blocks();
        let at = world.nodes.iter().find(|node| node.running("work").contains_key(&0)).expect("one").name.clone();
        let daemons = world.node(&at).daemons.clone();
        let told = world.during(async move { daemons.tell::<Counter>("work", 0, &Order::Block).await }).await;
        assert_eq!(told, Ok(()), "it took the message, and does not come back");
        let other = if at == "a" { "b" } else { "a" };
        while !world.node(other).running("work").contains_key(&0) {
            assert!(std::time::Instant::now() < deadline, "another node starts it");
            world.run(Duration::from_millis(50)).await;
            std::thread::yield_now();
        }
        assert_eq!(world.node(&at).killed.load(Ordering::SeqCst), 0, "it has kill_after to come back");
        while world.node(&at).killed.load(Ordering::SeqCst) == 0 {
            assert!(std::time::Instant::now() < deadline, "the process is ended");
            world.run(Duration::from_millis(50)).await;
            std::thread::yield_now();
        }
        drop(blocks);
    });
    drop(own);
    threads.shutdown_background();
}
