//! What operators do and see: another number by command, a parked one tried again from any node, and what happened last to each index.

use std::{sync::atomic::Ordering, time::Duration};

use tenure::daemon::{DEADLINE, DaemonStatus, Daemons, OrderError, Refused, ShardedDaemonProcess, Survey};

use crate::{
    counter::{Counter, Order, Records},
    world::{Plan, World},
};

fn eight(records: &Records) -> Vec<ShardedDaemonProcess> {
    vec![records.counters("work", 8).rescalable(2..=16)]
}

/// What an operator sees who asks this node.
async fn survey(world: &mut World, node: &str) -> Survey {
    let daemons = world.node(node).daemons.clone();
    world.during(async move { daemons.survey().await }).await
}

async fn row(world: &mut World, node: &str, index: usize) -> DaemonStatus {
    survey(world, node).await.sets.swap_remove(0).daemons.swap_remove(index)
}

async fn rescale(world: &mut World, count: u32) -> Result<String, OrderError> {
    let daemons = world.nodes[0].daemons.clone();
    world.during(async move { daemons.rescale("work", count).await }).await
}

fn host(world: &World, index: u32) -> String {
    world.nodes.iter().find(|node| node.running("work").contains_key(&index)).expect("it runs").name.clone()
}

#[tokio::test]
async fn a_running_set_is_rescaled_by_command_and_stays_so() {
    // C31: the two sizes never work together; the records see to that.
    let mut world = World::with(&["a", "b", "c"], eight).await;
    let agreed = rescale(&mut world, 12).await.expect("within");
    assert_eq!(agreed, "12 on room, generation 2, after 8");
    let again = rescale(&mut world, 5).await.expect_err("one at a time").to_string();
    assert!(again.contains("under way"), "{again}");
    world.longest = Duration::ZERO;
    world.run(Duration::from_secs(8)).await;
    assert_eq!((world.loads("work"), world.longest < Duration::from_secs(4)), (vec![4, 4, 4], true));
    let set = survey(&mut world, "b").await.sets.swap_remove(0);
    assert_eq!((set.agreed.as_str(), set.rescalable), ("12 on room, generation 2", Some((2, 16))));
    // A node that begins with another number takes what was agreed on, and nobody changes it back.
    let sets = vec![world.records.counters("work", 4).rescalable(2..=16)];
    world.start(&Plan::of("d", "1", 0), sets).await.expect("starts");
    world.run(Duration::from_secs(40)).await;
    assert_eq!(world.loads("work"), [3, 3, 3, 3]);
    assert_eq!(rescale(&mut world, 12).await.expect("no change"), "12 on room, generation 2");
    assert_eq!(rescale(&mut world, 3).await.expect("within"), "3 on room, generation 3, after 12");
    world.run(Duration::from_secs(8)).await;
    assert_eq!((world.count("work"), world.records.generations("work")), (3, vec![1, 2, 3]));
}

#[tokio::test]
async fn a_number_that_a_build_cannot_run_is_refused_and_says_which() {
    let mut world = World::with(&["a", "b"], eight).await;
    for bad in [1, 17] {
        assert!(rescale(&mut world, bad).await.expect_err("out of range").to_string().contains("2 to 16"));
    }
    let fixed = vec![world.records.counters("work", 8)];
    world.start(&Plan::of("old", "0.9", 0), fixed).await.expect("starts");
    world.run(Duration::from_secs(2)).await;
    let refused = rescale(&mut world, 12).await.expect_err("old cannot").to_string();
    assert!(refused.contains("cannot run 12: old (0.9)"), "{refused}");
    let old = world.node("old").daemons.clone();
    let refused = world.during(async move { old.rescale("work", 12).await }).await.expect_err("fixed").to_string();
    assert!(refused.contains("does not say that the number may change"), "{refused}");
    let daemons = world.nodes[0].daemons.clone();
    let unknown = world.during(async move { daemons.rescale("moon", 3).await }).await;
    assert_eq!(unknown, Err(OrderError::NoSet("moon".to_owned())));
    assert_eq!(world.count("work"), 8);
    // A build of a fixed number is refused where another was agreed on.
    world.end("old").await;
    // The others hear of it with a heartbeat.
    world.run(Duration::from_secs(2)).await;
    rescale(&mut world, 12).await.expect("all can");
    let fixed = vec![world.records.counters("work", 8)];
    let refused = world.start(&Plan::of("old", "0.9", 0), fixed).await.expect_err("refused").to_string();
    assert!(refused.contains("12 on room") && refused.contains("8 on room"), "{refused}");
}

#[tokio::test]
async fn a_rescale_by_command_goes_on_when_hosts_die_and_a_late_waker_starts_nothing() {
    let mut world = World::with(&["a", "b", "c"], eight).await;
    let sleeper = host(&world, 5);
    world.stop(&sleeper);
    let asked = world.nodes.iter().position(|node| node.name != sleeper).expect("another");
    let daemons = world.nodes[asked].daemons.clone();
    world.during(async move { daemons.rescale("work", 12).await }).await.expect("within");
    let killed = world.nodes.iter().map(|node| node.name.clone()).rfind(|name| *name != sleeper).expect("another");
    world.run(Duration::from_millis(300)).await;
    world.kill(&killed);
    world.run(Duration::from_secs(15)).await;
    assert_eq!(world.loads("work"), [12], "one node is left, and nobody waits for the others");
    let counted = world.records.counted("work", 1, 5);
    world.wake(&sleeper);
    world.run(Duration::from_secs(40)).await;
    assert_eq!((world.records.counted("work", 1, 5), world.loads("work")), (counted, vec![6, 6]));
}

#[tokio::test]
async fn a_stopped_set_is_rescaled_and_starts_with_the_new_number() {
    let mut world = World::with(&["a", "b"], eight).await;
    let daemons = world.nodes[0].daemons.clone();
    let said = world.during(async move { daemons.stop("work").await }).await;
    assert_eq!(said.as_deref(), Ok("8 on room, generation 1, stopped"));
    world.run(Duration::from_secs(5)).await;
    let set = survey(&mut world, "b").await.sets.swap_remove(0);
    assert!(set.stopped && set.missing().next().is_none(), "nothing is missing of a set that is stopped");
    rescale(&mut world, 12).await.expect("within");
    world.run(Duration::from_secs(15)).await;
    assert_eq!(world.count("work"), 0);
    let daemons = world.nodes[1].daemons.clone();
    let said = world.during(async move { daemons.start("work").await }).await;
    assert_eq!(said.as_deref(), Ok("12 on room, generation 2"));
    world.run(Duration::from_secs(15)).await;
    assert_eq!(world.loads("work"), [6, 6]);
}

#[tokio::test]
async fn a_parked_one_is_seen_from_everywhere_and_tried_again_from_anywhere() {
    let mut world = World::with(&["a", "b", "c"], eight).await;
    let at = host(&world, 3);
    let other = world.nodes.iter().map(|node| node.name.clone()).find(|name| *name != at).expect("another");
    world.records.panics(3, 10);
    let daemons = world.node(&other).daemons.clone();
    let told = daemons.clone();
    let asked = async move { told.ask::<Counter>("work", 3, &Order::Panic, DEADLINE).await };
    assert_eq!(world.during(asked).await, Err(Refused::Unanswered));
    world.run(Duration::from_secs(30)).await;
    let parked = row(&mut world, &other, 3).await;
    assert_eq!((parked.stage.as_str(), parked.node.as_deref(), parked.restarts), ("parked", Some(at.as_str()), 3));
    let last = parked.last.expect("it says what happened");
    assert_eq!((last.what.as_str(), last.text.as_str()), ("panicked", "told to panic at the start"));
    assert_eq!(last.node, at);
    assert!(
        parked.away_ms.is_some_and(|away| away > 10_000) && parked.reason.is_some_and(|why| why.contains("panicked"))
    );
    // Who sends a message from another node is told the reason too, at once.
    let told = daemons.clone();
    let answer = world.during(async move { told.tell::<Counter>("work", 3, &Order::Report).await }).await;
    assert!(matches!(&answer, Err(Refused::Parked(why)) if why.contains("told to panic")), "{answer:?}");

    world.records.panics(3, 0);
    let unpark = |daemons: Daemons, name: &'static str, index| async move { daemons.unpark(name, index).await };
    assert_eq!(world.during(unpark(daemons.clone(), "work", 3)).await, Ok(()));
    world.run(Duration::from_secs(3)).await;
    let row = row(&mut world, &other, 3).await;
    assert_eq!((row.stage.as_str(), row.away_ms), ("running", None));
    assert!(row.figures["counted"] > 0 && row.since.is_some() && row.progress_ms.is_some(), "{row:?}");
    let not = world.during(unpark(daemons.clone(), "work", 3)).await.expect_err("it runs").to_string();
    assert!(not.contains("work/3 is not parked: it is running"), "{not}");
    assert_eq!(world.during(unpark(daemons.clone(), "work", 9)).await, Err(OrderError::NoIndex("work".to_owned(), 9)));
    assert_eq!(world.during(unpark(daemons, "moon", 0)).await, Err(OrderError::NoSet("moon".to_owned())));
}

#[tokio::test]
async fn what_happened_last_is_told_apart() {
    let sets = |records: &Records| {
        let set = records.counters("work", 8).liveness_interval(Duration::from_secs(4));
        vec![set.restarts(9, Duration::from_secs(600))]
    };
    let mut world = World::with(&["a", "b", "c"], sets).await;
    let order = |daemons: Daemons, order: Order| async move {
        daemons.ask::<Counter>("work", 2, &order, Duration::from_secs(1)).await.map(drop)
    };
    let (at, mut before) = (host(&world, 2), world.terms("work"));
    let other = world.nodes.iter().map(|node| node.name.clone()).find(|name| *name != at).expect("another");
    assert_eq!(row(&mut world, &other, 2).await.last, None);
    for (bad, what, text) in [
        (Order::End, "ended", ""),
        (Order::Fail, "failed", "told to fail"),
        (Order::Panic, "panicked", "told to"),
        (Order::Hang, "hung", "no progress for 4 s"),
    ] {
        let daemons = world.node(&other).daemons.clone();
        let started = world.node(&at).store.now();
        drop(world.during(order(daemons, bad)).await);
        world.run(Duration::from_secs(20)).await;
        let row = row(&mut world, &other, 2).await;
        let last = row.last.expect("it ended");
        assert_eq!((last.what.as_str(), last.text.as_str(), last.node.as_str()), (what, text, at.as_str()));
        assert!(last.at > started && last.at < world.node(&at).store.now(), "{last:?}");
        assert!(row.stage == "running" && row.term > before[&2]);
        before = world.terms("work");
    }
    // Its node dies, and then the next one is cut off from the store.
    world.kill(&at);
    world.run(Duration::from_secs(5)).await;
    let lost = row(&mut world, &other, 2).await.last.expect("it ended");
    assert_eq!((lost.what.as_str(), lost.text.starts_with(&format!("taken over from {at}"))), ("lost its node", true));
    let at = host(&world, 5);
    world.node(&at).cut.store(true, Ordering::SeqCst);
    world.run(Duration::from_secs(5)).await;
    let own = world.node(&at).daemons.status().swap_remove(0).daemons.swap_remove(5).last.expect("it ended");
    assert_eq!((own.what.as_str(), own.text.as_str()), ("lost its node", "the lease of its node was over"));
    let rest = world.nodes.iter().map(|node| node.name.clone()).find(|name| *name != at).expect("another");
    let seen = survey(&mut world, &rest).await;
    assert!(seen.silent.is_empty(), "it is no member any more: {:?}", seen.silent);
    assert_eq!(seen.sets[0].missing().count(), 0);
}

#[tokio::test]
async fn who_gives_no_answer_is_named_and_a_message_of_an_operator_is_json() {
    let mut world = World::with(&["a", "b"], eight).await;
    let report = world.nodes[0].daemons.clone();
    let asked = async move { report.ask_json("work", 6, &serde_json::json!("Report"), DEADLINE).await };
    let answer = world.during(asked).await.expect("an answer");
    assert_eq!((answer["index"].as_u64(), answer["count"].as_u64()), (Some(6), Some(8)));
    let report = world.nodes[0].daemons.clone();
    let asked = async move { report.ask_json("work", 6, &serde_json::json!({ "Nonsense": 3 }), DEADLINE).await };
    assert!(matches!(world.during(asked).await, Err(Refused::Unreadable(_))));
    world.stop("b");
    let seen = survey(&mut world, "a").await;
    assert_eq!(seen.silent, ["b"], "a member that stands still");
    assert!(seen.sets[0].daemons.iter().any(|row| row.stage == "elsewhere"));
}

#[tokio::test]
async fn what_was_agreed_on_is_told_again_to_a_store_that_forgot_it() {
    // C31: else a node that starts now would run a generation that is ended, beside the one that runs.
    let mut world = World::with(&["a", "b"], eight).await;
    rescale(&mut world, 12).await.expect("within");
    world.run(Duration::from_secs(8)).await;
    world.time.store.forget("agreed/daemons");
    world.run(Duration::from_secs(12)).await;
    assert_eq!(world.count("work"), 12);
    world.start(&Plan::of("c", "1", 0), eight(&world.records)).await.expect("starts");
    world.run(Duration::from_secs(40)).await;
    let set = survey(&mut world, "c").await.sets.swap_remove(0);
    assert_eq!((set.agreed.as_str(), world.loads("work")), ("12 on room, generation 2", vec![4, 4, 4]));
}
