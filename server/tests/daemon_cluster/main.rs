//! Sets of daemons on several nodes in one process, on clocks moved by hand: where they run while nodes join, drain, die and stop.
#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test stops at what it did not expect, and is its own supervisor"
)]

#[path = "../support/clocks.rs"]
mod clocks;
mod control;
mod counter;
mod failing;
mod messages;
mod regions;
mod rescale;
mod world;

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use parking_lot::Mutex;

use tenure::{
    daemon::{ShardedDaemonProcess, Singleton},
    runtime::Rng,
    store::Key,
};

use crate::{
    counter::Records,
    world::{Plan, World},
};

fn eight(records: &Records) -> Vec<ShardedDaemonProcess> {
    vec![records.counters("work", 8)]
}

#[tokio::test]
async fn eight_on_three_nodes_are_three_three_two_and_nothing_moves() {
    let mut world = World::with(&["a", "b", "c"], eight).await;
    let mut loads = world.loads("work");
    loads.sort_unstable();
    assert_eq!(loads, [2, 3, 3]);
    let (terms, starts) = (world.terms("work"), world.records.starts());
    world.run_by(Duration::from_secs(600), Duration::from_millis(250)).await;
    assert_eq!((world.terms("work"), world.records.starts()), (terms, starts), "over ten minutes nothing moves");
    for index in 0..8 {
        assert!(world.records.counted("work", 1, index) > 1_000, "each works: {index}");
    }
}

#[tokio::test]
async fn a_hundred_land_evenly_and_level_when_a_node_joins() {
    let mut world = World::with(&["a", "b", "c"], |records| vec![records.counters("work", 100)]).await;
    let mut loads = world.loads("work");
    loads.sort_unstable();
    assert_eq!(loads, [33, 33, 34]);
    let sets = vec![world.records.counters("work", 100)];
    world.start(&Plan::of("d", "1", 0), sets).await.expect("starts");
    world.run(Duration::from_secs(30)).await;
    assert_eq!(world.loads("work"), [25, 25, 25, 25]);
}

#[tokio::test]
async fn only_nodes_of_the_role_that_have_the_set_run_it() {
    let mut world = World::new();
    let sets = vec![world.records.counters("work", 4)];
    world.start(&Plan { name: "gate", version: "1", revision: 0, roles: &["gateway"] }, sets).await.expect("starts");
    world.start(&Plan::of("old", "1", 0), vec![]).await.expect("starts");
    world.run(Duration::from_secs(10)).await;
    assert_eq!(world.count("work"), 0);
    let sets = vec![world.records.counters("work", 4)];
    world.start(&Plan::of("new", "2", 0), sets).await.expect("starts");
    world.run(Duration::from_secs(10)).await;
    assert_eq!(world.loads("work"), [0, 0, 4]);
    assert_eq!(world.node("gate").stage("work", 0), "elsewhere", "everybody who has the set knows where it is");
}

#[tokio::test]
async fn an_index_lives_again_within_a_lease_and_a_second_whatever_happens_to_its_host() {
    // H10: kill -9, SIGSTOP past the lease, a store out of reach, one after the other, under work.
    let names = ["a", "b", "c", "d"];
    let mut world = World::with(&names, eight).await;
    let rng = Rng::seeded(7);
    let bound = Duration::from_secs(4);
    for round in 0..50_u64 {
        let name = names[usize::try_from(rng.below(4)).expect("small")];
        world.run(Duration::from_millis(50 * rng.below(30))).await;
        world.longest = Duration::ZERO;
        let before: u64 = (0..8).map(|index| world.records.counted("work", 1, index)).sum();
        match round % 3 {
            0 => {
                world.kill(name);
                world.run(bound).await;
                assert_eq!(world.count("work"), 8, "round {round}: all live again");
                let sets = eight(&world.records);
                world.start(&Plan::of(name, "1", 0), sets).await.expect("starts");
            }
            1 => {
                world.stop(name);
                world.run(bound).await;
                assert_eq!(world.count("work"), 8, "round {round}: all live again");
                world.run(Duration::from_millis(50 * rng.below(200))).await;
                world.wake(name);
            }
            _ => {
                world.node(name).cut.store(true, Ordering::SeqCst);
                world.run(bound).await;
                assert_eq!(world.count("work"), 8, "round {round}: all live again");
                world.node(name).cut.store(false, Ordering::SeqCst);
            }
        }
        assert!(world.longest <= bound, "round {round}: one was away for {:?}", world.longest);
        world.run(Duration::from_secs(6)).await;
        let after: u64 = (0..8).map(|index| world.records.counted("work", 1, index)).sum();
        assert!(after > before + 100, "round {round}: they count on, from {before} to {after}");
    }
    world.run(Duration::from_secs(40)).await;
    assert_eq!(world.loads("work"), [2, 2, 2, 2]);
    // H10 by history: of every index each term is one activation's, and they grow.
    let store = world.nodes[0].store.clone();
    for index in 0..8 {
        let history = store.history(&Key::named(&format!("daemon/work@1/{index}"))).await.expect("history");
        let terms: Vec<_> = history.iter().filter(|line| line.owner.is_some()).map(|line| line.term).collect();
        assert!(terms.len() > 2 && terms.is_sorted());
        assert_eq!(terms.iter().collect::<BTreeSet<_>>().len(), terms.len(), "no term twice");
    }
}

#[tokio::test]
async fn a_draining_node_hands_its_daemons_over_and_the_last_one_keeps_them() {
    let mut world = World::with(&["a", "b", "c"], eight).await;
    for name in ["a", "b"] {
        world.longest = Duration::ZERO;
        world.end(name).await;
        world.run(Duration::from_secs(3)).await;
        assert_eq!(world.count("work"), 8);
        assert!(world.longest < Duration::from_secs(2), "handed over, not taken over: {:?}", world.longest);
    }
    let last = world.node("c");
    last.ownership.drain().await;
    last.daemons.drain().await;
    world.run(Duration::from_secs(10)).await;
    assert_eq!(world.loads("work"), [8], "nobody else takes them");
    world.end("c").await;
    let sets = eight(&world.records);
    world.start(&Plan::of("d", "1", 0), sets).await.expect("starts");
    world.run(Duration::from_secs(2)).await;
    assert_eq!(world.loads("work"), [8], "all were released: nobody waits for a lease");
}

#[tokio::test]
async fn a_node_that_is_cut_off_stops_its_daemons_before_others_start_them() {
    let mut world = World::with(&["a", "b"], eight).await;
    world.node("a").cut.store(true, Ordering::SeqCst);
    world.run(Duration::from_millis(2_600)).await;
    assert!(!world.node("a").acts() && world.node("a").running("work").is_empty(), "it stops by itself");
    assert_eq!(world.loads("work"), [4], "nobody else has them yet");
    world.run(Duration::from_millis(1_400)).await;
    assert_eq!(world.loads("work"), [8]);
}

#[tokio::test]
async fn a_singleton_goes_where_it_is_told_to_and_stays_there() {
    let single = |records: &Records| {
        let records = records.clone();
        vec![Singleton::new("post", move || records.counter()).into()]
    };
    let mut world = World::with(&["a", "b", "c"], single).await;
    assert_eq!(world.count("post"), 1);
    let at =
        world.nodes.iter().find(|node| !node.running("post").is_empty()).map(|node| node.name.clone()).expect("one");
    let to = ["a", "b", "c"].into_iter().find(|name| *name != at).expect("another");
    let daemons = world.node(&at).daemons.clone();
    assert!(daemons.hand_over("post", 0, to).await && !daemons.hand_over("post", 0, "nobody").await);
    world.run(Duration::from_secs(3)).await;
    assert_eq!(world.node(to).running("post").len(), 1);
    let term = world.terms("post");
    world.run(Duration::from_secs(30)).await;
    assert_eq!((world.node(to).running("post").len(), world.terms("post")), (1, term), "it stays there");
}

/// Where the lines of a log go.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_node_warns_of_unwise_numbers_when_it_starts() {
    let (lines, mut world) = (Lines::default(), World::new());
    let writer = lines.clone();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let guard = tracing::subscriber::set_default(log);
    let counters = |name: &str, count| world.records.counters(name, count);
    let sets = vec![counters("one", 1), counters("some", 8), counters("many", 100_000)];
    world.start(&Plan::of("a", "1", 0), sets).await.expect("unwise is not wrong");
    drop(guard);
    let text = String::from_utf8(lines.0.lock().clone()).expect("text");
    let warnings: Vec<&str> = text.lines().filter(|line| line.contains("WARN")).collect();
    assert!(warnings.len() == 2 && !text.contains("\"some\""), "{text}");
    assert!(warnings[0].contains("\"one\": a set of one is a Singleton"), "{text}");
    assert!(warnings[1].contains("\"many\": 100000 of them") && warnings[1].contains("use rooms"), "{text}");
}

#[test]
fn unwise_numbers_get_advice_and_wrong_words_are_refused() {
    let records = Records::default();
    let advice = |count| records.counters("work", count).advice();
    assert!(advice(1).expect("advice").contains("Singleton"));
    assert!(advice(100_000).expect("advice").contains("rooms"));
    assert_eq!((advice(2), advice(100)), (None, None));
    let single: ShardedDaemonProcess = Singleton::new("post", move || records.counter()).into();
    assert_eq!(single.advice(), None);

    let records = Records::default();
    let faults = |sets: &[ShardedDaemonProcess]| tenure::daemon::faults(sets);
    assert_eq!(faults(&[records.counters("work", 8)]), Vec::<String>::new());
    for bad in [
        records.counters("Work", 8),
        records.counters("", 8),
        records.counters("work", 0),
        ShardedDaemonProcess::new("work", 8),
    ] {
        assert_eq!(faults(&[bad]).len(), 1);
    }
    assert_eq!(faults(&[records.counters("work", 8).rescale_from(8)]).len(), 1);
    assert_eq!(faults(&[records.counters("work", 8).rescalable(1..=64)]), Vec::<String>::new());
    let reversed = std::ops::RangeInclusive::new(9, 1);
    for bad in [0..=8, 9..=64, 1..=7, 1..=2_000_000, reversed] {
        assert_eq!(faults(&[records.counters("work", 8).rescalable(bad)]).len(), 1);
    }
    assert_eq!(faults(&[records.counters("work", 8).rescalable(1..=64).rescale_from(6)]).len(), 1);
    assert_eq!(faults(&[records.counters("work", 8), records.counters("work", 9)]).len(), 1);
}
