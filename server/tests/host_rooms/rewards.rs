//! Scheduled rewards: once each, over restarts and crashes, from the stored schedule and never from now.

use std::{collections::BTreeSet, sync::atomic::Ordering, time::Duration};

use tenure::timers::RewardBook;
use tenure_shared::PlayerId;

use crate::{
    harness::{Node, SHARDS, World, room},
    lab::Say,
};

const BOOK: &str = r#"
[[schedule]]
id = "second"
every = "1s"
rooms = "lab/*/*"
audience = "all-known"
catch_up = "all"
grant = { gold = 1 }

[[schedule]]
id = "here"
every = "1s"
rooms = "lab/*/*"
audience = "present"
grant = { silver = 1 }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn each_occurrence_pays_once_over_restarts_and_crashes() {
    let world = World::new().schedules(BOOK);
    let ann = PlayerId::new("ann").unwrap();
    for life in 0..6 {
        let node = world.node().await;
        let gateway = node.gateway();
        gateway.join(&room("a"), "ann");
        world.pass(Duration::from_millis(700));
        if life % 2 == 0 {
            node.crash().await;
        } else {
            assert!(node.stop().await.is_clean());
        }
    }
    let node = world.node().await;
    let gateway = node.gateway();
    gateway.join(&room("a"), "ann");
    world.pass(Duration::from_millis(1_500));
    assert!(node.stop().await.is_clean());

    let lines = world.store.ledger(&ann, 1_000).await.unwrap();
    let times = |source: &str| -> Vec<u64> {
        let of = lines.iter().rev().filter(|line| &*line.source == source);
        of.map(|line| line.scheduled_for.expect("scheduled").0 / 1_000_000).collect()
    };
    let second = times("second");
    assert!(second.len() >= 5, "{second:?}");
    let (first, last) = (second[0], second[second.len() - 1]);
    assert_eq!(second, (first..=last).collect::<Vec<_>>(), "none missing, none twice, in order (C14, C18)");
    let here = times("here");
    assert_eq!(here.iter().collect::<BTreeSet<_>>().len(), here.len(), "none twice");
    assert_eq!(world.gold("ann").await, second.len() as i64);
    let pending = world.store.work(room("a").shard(SHARDS), None, 100).await.unwrap();
    let jobs: Vec<_> = pending.iter().map(|item| item.id.job.to_string()).collect();
    assert_eq!(jobs, ["schedule/here", "schedule/second"], "one live occurrence per schedule (C17)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dormant_room_keeps_what_matters_there_and_wakes_for_it() {
    let world = World::new().schedules(BOOK);
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    gateway.leave(&ann, ann.attached.generation, true);
    world.until("it is unloaded", || node.host.status().rooms == 0);
    let jobs: BTreeSet<_> = {
        let items = world.store.work(room("a").shard(SHARDS), None, 100).await.unwrap();
        items.iter().map(|item| item.id.job.to_string()).collect()
    };
    let kept = ["schedule/second".to_owned(), "tenure/dispose".to_owned()];
    assert_eq!(jobs, BTreeSet::from(kept), "`present` keeps nothing for a dormant room");
    let player = PlayerId::new("ann").unwrap();
    let paid = |world: &World| {
        let (store, player) = (world.store.clone(), player.clone());
        async move { store.ledger(&player, 100).await.unwrap().iter().filter(|l| &*l.source == "second").count() }
    };
    let before = paid(&world).await;
    world.pass(Duration::from_millis(2_500));
    assert!(paid(&world).await >= before + 2, "its work wakes it");
    world.until("and it sleeps again", || node.host.status().rooms == 0);
}

/// C17: the file is read anew while rooms run, and the room goes to a node that has the old one: what is in both goes on without a gap, each
/// schedule has one occurrence to come, nothing is paid twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_and_a_move_between_two_files_pay_each_occurrence_once() {
    let world = World::new().schedules(BOOK);
    let ann = PlayerId::new("ann").unwrap();
    let renamed = BOOK.replace("id = \"here\"\nevery = \"1s\"", "id = \"renamed\"\nevery = \"2s\"");
    let renamed = || RewardBook::parse("rewards.toml", &renamed).expect("valid");
    let jobs = || async {
        let items = world.store.work(room("a").shard(SHARDS), None, 100).await.unwrap();
        items.iter().map(|item| item.id.job.to_string()).collect::<Vec<_>>()
    };
    for _ in 0..2 {
        // The file of this node is the old one when it starts.
        let node = world.node().await;
        let gateway = node.gateway();
        gateway.join(&room("a"), "ann");
        world.pass(Duration::from_millis(1_200));
        assert_eq!(jobs().await, ["schedule/here", "schedule/second"]);
        let same = node.book.replace(RewardBook::parse("rewards.toml", BOOK).expect("valid"));
        assert!(same.is_nothing() && same.unchanged.len() == 2);
        let diff = node.book.replace(renamed());
        assert_eq!((&*diff.added[0], &*diff.removed[0], &*diff.unchanged[0]), ("renamed", "here", "second"));
        let end = world.clock.now().plus(Duration::from_secs(30));
        while jobs().await != ["schedule/renamed", "schedule/second"] {
            assert!(world.clock.now() < end, "{:?}", jobs().await);
        }
        world.pass(Duration::from_millis(2_100));
        assert_eq!(jobs().await, ["schedule/renamed", "schedule/second"], "one live occurrence per schedule");
        assert!(node.stop().await.is_clean());
    }
    let lines = world.store.ledger(&ann, 1_000).await.unwrap();
    let times = |source: &str| -> Vec<u64> {
        let of = lines.iter().rev().filter(|line| &*line.source == source);
        of.map(|line| line.scheduled_for.expect("scheduled").0 / 1_000_000).collect()
    };
    let second = times("second");
    assert!(second.len() >= 6, "{second:?}");
    assert_eq!(second, (second[0]..second[0] + second.len() as u64).collect::<Vec<_>>(), "untouched by all of it");
    for source in ["here", "renamed"] {
        let times = times(source);
        assert!(!times.is_empty(), "{source}");
        assert_eq!(times.iter().collect::<BTreeSet<_>>().len(), times.len(), "{source}: none twice");
    }
}

const PAGED: &str = r#"
[[schedule]]
id = "paged"
every = "1s"
rooms = "lab/*/*"
audience = "all-known"
catch_up = "all"
grant = { gold = 1 }
"#;

/// The store goes away at a commit that leaves an item for later, `stored` or not, and comes back when the lease has lapsed.
fn go_down(world: &World, node: &Node, stored: bool) {
    *world.weather.down_at_later.lock().unwrap() = Some(stored);
    world.until("the lease lapses", || !node.holds(&room("a")));
    world.weather.hold_commits.store(true, Ordering::SeqCst);
    world.weather.down.store(false, Ordering::SeqCst);
    // What the room says when it goes on is there before the store has the first word of it.
    let stood = world.view(&room("a")).tick;
    world.until("the room ticks again", || world.view(&room("a")).tick > stood + 3);
    world.weather.hold_commits.store(false, Ordering::SeqCst);
}

/// H6: the store goes away while a first page is on its way to it, and the room goes on from memory. What it tells the store then must not
/// begin the occurrence anew, whether that page was stored or not: the hook of the second first page did to the world what was done.
#[tokio::test(flavor = "multi_thread")]
async fn an_occurrence_of_several_pages_begins_once_though_the_store_goes_away_behind_its_first() {
    for stored in [false, true] {
        let mut world = World::new().schedules(PAGED);
        world.config.world.max_grants_per_step = 1;
        let node = world.node().await;
        let gateway = node.gateway();
        for player in ["ann", "bob", "cem"] {
            gateway.join(&room("a"), player);
        }
        let decided = || world.view(&room("a")).book.decided;
        world.until("one was decided", || !decided().is_empty());
        go_down(&world, &node, stored);
        let gone = decided().len();
        world.until("it goes on from memory", || decided().len() > gone + 1);
        assert!(node.stop().await.is_clean());
        let decided = decided();
        let once: BTreeSet<_> = decided.iter().collect();
        assert_eq!(once.len(), decided.len(), "begun twice (stored: {stored}): {decided:?}");
    }
}

/// The same of work that failed: it is not told anew as it was before, without the attempt that is counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_was_on_its_way_when_the_store_went_away_still_counts() {
    let mut world = World::new();
    world.config.retry_delay = Duration::from_secs(3_600);
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    world.outside.work_fails.store(1, Ordering::SeqCst);
    gateway.say(&ann, 1, &Say::Later("crop".to_owned(), 200));
    world.until("it is stored", || gateway.saved(ann.conn) == 1);
    go_down(&world, &node, false);
    gateway.say(&ann, 2, &Say::Keep(1));
    world.until("it goes on from memory", || world.view(&room("a")).book.applied.contains_key("ann"));
    assert!(node.stop().await.is_clean());
    let items = world.store.work(room("a").shard(SHARDS), None, 100).await.unwrap();
    let crops: Vec<_> = items.iter().filter(|item| &*item.id.job == "job").map(|item| item.attempt).collect();
    assert_eq!((crops, world.view(&room("a")).book.done), (vec![1], Vec::new()));
}
