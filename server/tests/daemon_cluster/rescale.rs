//! Agreement on the number of daemons, and another number in a rolling deploy: the two never work together (C31).

use std::{sync::atomic::Ordering, time::Duration};

use tenure::{config::Role, store::Key};

use crate::{
    counter::{Counter, Order, Records},
    world::{Plan, World},
};

#[tokio::test]
async fn another_number_or_role_is_refused_with_both_values() {
    let mut world = World::with(&["a"], |records| vec![records.counters("work", 8)]).await;
    let other = vec![world.records.counters("work", 12)];
    let error = world.start(&Plan::of("b", "2", 0), other).await.expect_err("refused").to_string();
    assert!(error.contains("8 on room") && error.contains("12 on room") && error.contains("rescale_from"), "{error}");
    let other = vec![world.records.counters("work", 8).role(Role::Gateway)];
    let error = world.start(&Plan::of("b", "2", 0), other).await.expect_err("refused").to_string();
    assert!(error.contains("8 on room") && error.contains("8 on gateway"), "{error}");
    assert_eq!(world.node("a").ownership.view().members.len(), 1, "refused before it was a member");
    world.run(Duration::from_secs(5)).await;
    assert_eq!(world.loads("work"), [8]);
}

/// Replaces all nodes, one after the other, by nodes with another number.
async fn deploy(world: &mut World, revision: u64, from: u32, to: u32) {
    let names: Vec<String> = world.nodes.iter().map(|node| node.name.clone()).collect();
    for (n, old) in names.iter().enumerate() {
        let sets = vec![world.records.counters("work", to).rescale_from(from)];
        let name = format!("{}{revision}", ["a", "b", "c"][n]);
        world.start(&Plan::of(&name, &revision.to_string(), revision), sets).await.expect("starts");
        world.run(Duration::from_secs(3)).await;
        if n + 1 < names.len() {
            assert_eq!(world.count("work"), from as usize, "the agreed number runs until the last node is replaced");
        }
        world.end(old).await;
        world.run(Duration::from_secs(2)).await;
    }
    world.run(Duration::from_secs(5)).await;
    assert_eq!(world.count("work"), to as usize);
}

#[tokio::test]
async fn from_eight_to_twelve_and_back_in_rolling_deploys() {
    let mut world = World::with(&["a", "b", "c"], |records| vec![records.counters("work", 8)]).await;
    deploy(&mut world, 2, 8, 12).await;
    let counted: Vec<u64> = (0..8).map(|index| world.records.counted("work", 1, index)).collect();
    world.run(Duration::from_secs(10)).await;
    let after: Vec<u64> = (0..8).map(|index| world.records.counted("work", 1, index)).collect();
    assert_eq!(counted, after, "nothing of the former number works any more");
    assert_eq!(world.loads("work"), [4, 4, 4]);
    deploy(&mut world, 3, 12, 8).await;
    world.run(Duration::from_secs(10)).await;
    assert_eq!(world.records.generations("work"), [1, 2, 3]);
    let mut loads = world.loads("work");
    loads.sort_unstable();
    assert_eq!(loads, [2, 3, 3]);
    for index in 0..8 {
        assert!(world.records.counted("work", 3, index) > 20);
    }
}

#[tokio::test]
async fn the_former_generation_is_ended_for_ever_and_wakes_to_nothing() {
    // C31: the node with daemon 5 is stopped, the number changes, and it wakes late.
    let mut world = World::with(&["a", "b"], |records| vec![records.counters("work", 8)]).await;
    let sleeper = world.nodes.iter().find(|node| node.running("work").contains_key(&5)).expect("it runs").name.clone();
    let other = if sleeper == "a" { "b" } else { "a" };
    world.stop(&sleeper);
    world.run(Duration::from_secs(5)).await;
    for name in ["x", "y"] {
        let sets = vec![world.records.counters("work", 12).rescale_from(8)];
        world.start(&Plan::of(name, "2", 2), sets).await.expect("starts");
    }
    world.end(other).await;
    world.run(Duration::from_secs(8)).await;
    assert_eq!(world.loads("work"), [6, 6], "the stopped node is no member: nobody waits for it");
    let counted = world.records.counted("work", 1, 5);
    world.wake(&sleeper);
    world.run(Duration::from_secs(10)).await;
    assert_eq!(world.records.counted("work", 1, 5), counted, "its writes are refused, and it starts nothing");
    assert_eq!(world.node(&sleeper).running("work").len(), 0, "a build of eight runs nothing of twelve");
    assert_eq!(world.count("work"), 12);

    // A late keep-alive that takes an old claim finds the mark.
    let node = world.node("x");
    let key = Key::named("daemon/work@1/5");
    let claim = node.store.claim(&key).await.expect("read").expect("there");
    assert_eq!(claim.holder, None);
    let state = node.store.state(&key).await.expect("read").expect("there");
    assert_eq!(state.body.first(), Some(&1), "ended for ever");
    let ask = node.daemons.clone();
    let report =
        world.during(async move { ask.ask::<Counter>("work", 11, &Order::Report, Duration::from_secs(2)).await });
    let report = report.await.expect("an answer");
    assert_eq!((report.generation, report.count), (2, 12));
}

#[tokio::test]
async fn a_node_that_is_cut_off_while_the_number_changes_works_for_neither() {
    // C31: the node with daemon 5 is cut off from the store, the number changes by command, and it is back.
    let sets = |records: &Records| vec![records.counters("work", 8).rescalable(1..=16)];
    let mut world = World::with(&["a", "b", "c"], sets).await;
    let away = world.nodes.iter().find(|node| node.running("work").contains_key(&5)).expect("it runs").name.clone();
    let other = world.nodes.iter().find(|node| node.name != away).expect("another").name.clone();
    world.node(&away).cut.store(true, Ordering::SeqCst);
    let daemons = world.node(&other).daemons.clone();
    world.during(async move { daemons.rescale("work", 12).await }).await.expect("within");
    world.run(Duration::from_secs(12)).await;
    assert_eq!((world.count("work"), world.loads("work").len()), (12, 2), "nobody waits for it: it is no member");
    let counted = world.records.counted("work", 1, 5);
    world.node(&away).cut.store(false, Ordering::SeqCst);
    world.run(Duration::from_secs(40)).await;
    assert_eq!((world.records.counted("work", 1, 5), world.loads("work")), (counted, vec![4, 4, 4]));
}

#[tokio::test]
async fn a_rescale_goes_on_when_whoever_began_it_dies() {
    let mut world = World::with(&["a"], |records| vec![records.counters("work", 3)]).await;
    for name in ["x", "y"] {
        let sets = vec![world.records.counters("work", 5).rescale_from(3)];
        world.start(&Plan::of(name, "2", 2), sets).await.expect("starts");
    }
    world.run(Duration::from_secs(3)).await;
    let ownership = world.node("a").ownership.clone();
    ownership.drain().await;
    let agreed = |world: &World| world.node("y").daemons.status()[0].agreed.clone();
    for _ in 0..400 {
        if agreed(&world).contains("after 3") {
            break;
        }
        world.run(Duration::from_millis(50)).await;
    }
    // In the middle of it: the one that gives, and one that takes, are gone.
    world.kill("a");
    world.kill("x");
    world.run(Duration::from_secs(15)).await;
    assert_eq!((world.loads("work"), agreed(&world)), (vec![5], "5 on room, generation 2".to_owned()));
}

#[tokio::test]
async fn a_set_that_is_stopped_stays_so_until_it_is_started() {
    let mut world = World::with(&["a", "b"], |records| vec![records.counters("work", 4)]).await;
    let daemons = world.node("a").daemons.clone();
    let stop = daemons.clone();
    world.during(async move { stop.stop("work").await }).await.expect("agreed on");
    world.run(Duration::from_secs(12)).await;
    assert_eq!(world.count("work"), 0, "on all nodes");
    let sets = vec![world.records.counters("work", 4)];
    world.start(&Plan::of("c", "1", 0), sets).await.expect("starts");
    world.node("b").cut.store(true, Ordering::SeqCst);
    world.run(Duration::from_secs(6)).await;
    assert_eq!(world.count("work"), 0, "a new node does not start it");
    let told = daemons.clone();
    let told = world.during(async move { told.tell::<Counter>("work", 0, &Order::Report).await }).await;
    assert_eq!(told, Err(tenure::daemon::Refused::Stopped));
    world.during(async move { daemons.start("work").await }).await.expect("agreed on");
    world.run(Duration::from_secs(12)).await;
    assert_eq!(world.loads("work"), [2, 2]);
}

#[tokio::test]
async fn the_next_generation_waits_for_one_of_the_former_that_is_slow_to_stop() {
    // C31: it is in the middle of two seconds of work, and stores its last number behind it.
    let mut world = World::with(&["a"], |records| vec![records.counters("work", 3)]).await;
    let sets = vec![world.records.counters("work", 5).rescale_from(3)];
    world.start(&Plan::of("x", "2", 2), sets).await.expect("starts");
    world.run(Duration::from_secs(3)).await;
    let daemons = world.node("a").daemons.clone();
    let work =
        tokio::spawn(
            async move { daemons.ask::<Counter>("work", 1, &Order::Work(2_000), Duration::from_secs(5)).await },
        );
    world.run(Duration::from_millis(100)).await;
    let before = world.records.counted("work", 1, 1);
    // Only the member's word: its daemons stay where they are until the new number is agreed on.
    world.node("a").ownership.drain().await;
    world.run(Duration::from_millis(1_900)).await;
    assert!(world.records.generations("work") == [1], "it is not done yet");
    world.run(Duration::from_secs(8)).await;
    assert_eq!(work.await.expect("no panic").expect("an answer").generation, 1);
    assert!(world.records.counted("work", 1, 1) > before, "its last number counts");
    assert_eq!((world.count("work"), world.records.generations("work")), (5, vec![1, 2]));
}
