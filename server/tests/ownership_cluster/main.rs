//! Several nodes on one store in memory, on clocks moved by hand: who holds what while they join, drain, die, stop and lose the store.
#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test stops at what it did not expect, and is its own supervisor"
)]

#[path = "../support/clocks.rs"]
mod clocks;
mod world;

use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

use futures_util::FutureExt as _;
use tenure::{
    link::Directory as _,
    ownership::{LeaseThread, Options, Ownership},
    runtime::Rng,
    store::{Batch, Error, model::AGREED_SHARDS},
};
use tenure_shared::{ShardId, Term};

use crate::world::{Node, SHARDS, START, STEP, World};

#[tokio::test]
async fn three_nodes_share_and_every_directory_knows() {
    let world = World::with(&["a", "b", "c"]).await;
    assert_eq!(world.loads(), BTreeMap::from([("a", 8), ("b", 8), ("c", 8)]));
    for asked in &world.nodes {
        let nodes: Vec<String> = asked.ownership.nodes().iter().map(ToString::to_string).collect();
        assert_eq!(nodes, vec!["a:7779", "b:7779", "c:7779"]);
        for owner in &world.nodes {
            for (shard, term) in owner.terms() {
                let known = asked.ownership.owner(shard).expect("known");
                let address = known.address.as_deref().map(ToString::to_string);
                assert_eq!((known.term, address), (term, Some(format!("{}:7779", owner.name))));
            }
        }
        let view = asked.ownership.view();
        assert!(view.settled && view.ownerless == 0 && view.members.len() == 3 && view.zone_data.len() == 1);
    }
}

#[tokio::test]
async fn shards_of_a_killed_node_have_owners_within_a_lease_and_a_second() {
    // C28.
    let mut world = World::with(&["a", "b", "c"]).await;
    let kept = (world.node("a").terms(), world.node("c").terms());
    let changes = world.node("a").ownership.view();
    world.kill("b");
    world.run(Duration::from_secs(4)).await;
    assert_eq!(world.loads(), BTreeMap::from([("a", 12), ("c", 12)]));
    let (a, c) = (world.node("a").terms(), world.node("c").terms());
    assert!(kept.0.iter().all(|(shard, term)| a[shard] == *term), "what was owned stays as it was");
    assert!(kept.1.iter().all(|(shard, term)| c[shard] == *term));
    let taken = a.keys().find(|shard| !kept.0.contains_key(shard)).expect("one was taken over");
    assert_eq!(world.node("a").ownership.held(*taken).expect("held").continues, None);
    assert_eq!((changes.members.len(), world.node("a").ownership.view().members.len()), (3, 2));
}

#[tokio::test]
async fn a_stopped_node_that_wakes_is_refused_everything_and_comes_back_as_another_life() {
    // C26: SIGSTOP for three leases, then SIGCONT.
    let mut world = World::with(&["a", "b", "c"]).await;
    let (fences, life) = (world.fences("a"), world.node("a").life());
    world.node_mut("a").stop();
    // Whatever its tasks do meanwhile, its clock says that nothing is due.
    world.run(Duration::from_secs(9)).await;
    assert_eq!(world.loads(), BTreeMap::from([("b", 12), ("c", 12)]));
    world.node_mut("a").wake();
    assert!(!world.node("a").acts(), "it knows by itself, before anybody tells");
    for fence in &fences {
        let late = world.node("a").store.commit(fence, SHARDS, 1, Batch::default()).await;
        assert!(matches!(late, Err(Error::Fenced { .. })), "{late:?}");
    }
    world.run(Duration::from_secs(20)).await;
    assert_ne!(world.node("a").life(), life);
    assert_eq!(world.loads(), BTreeMap::from([("a", 8), ("b", 8), ("c", 8)]));
    let ownership = &world.node("a").ownership;
    assert!(ownership.shards().iter().all(|shard| ownership.held(*shard).is_some_and(|held| held.continues.is_none())));
}

#[tokio::test]
async fn a_store_that_was_away_finds_everything_where_it_was() {
    let mut world = World::with(&["a", "b", "c"]).await;
    let before: Vec<_> = world.nodes.iter().map(Node::terms).collect();
    world.nodes.iter().for_each(|node| node.cut.store(true, Ordering::SeqCst));
    world.run(Duration::from_secs(10)).await;
    assert_eq!(world.owned(), 0, "everybody froze");
    assert!(world.nodes.iter().all(|node| (0..SHARDS).filter(|n| node.ownership.in_doubt(ShardId(*n))).count() == 8));
    // They come back one after the other: the first does not grab the whole cluster.
    for name in ["b", "a", "c"] {
        world.node(name).cut.store(false, Ordering::SeqCst);
        world.run(Duration::from_millis(300)).await;
    }
    world.run(Duration::from_millis(1_100)).await;
    for (node, before) in world.nodes.iter().zip(before) {
        let after = node.terms();
        assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{}", node.name);
        for (shard, term) in before {
            let held = node.ownership.held(shard).expect("held");
            assert!(held.fence.term() > term, "a thaw is a write");
            assert_eq!(held.continues, Some(term), "its worlds go on from memory");
        }
        assert!(!node.ownership.view().settled);
    }
    world.run(Duration::from_secs(4)).await;
    assert!(world.nodes.iter().all(|node| node.ownership.view().settled));
    assert_eq!(world.loads(), BTreeMap::from([("a", 8), ("b", 8), ("c", 8)]));
}

#[tokio::test]
async fn a_node_cut_off_from_the_store_alone_loses_its_shards_to_the_others() {
    let mut world = World::with(&["a", "b"]).await;
    world.node("a").cut.store(true, Ordering::SeqCst);
    world.run(Duration::from_millis(2_600)).await;
    assert!(!world.node("a").acts(), "it stops before the others may take over");
    world.run(Duration::from_millis(1_400)).await;
    assert_eq!(world.loads(), BTreeMap::from([("b", 24)]));
    world.node("a").cut.store(false, Ordering::SeqCst);
    world.run(Duration::from_secs(20)).await;
    assert_eq!(world.loads(), BTreeMap::from([("a", 12), ("b", 12)]));
    assert!((0..SHARDS).all(|n| world.nodes.iter().all(|node| !node.ownership.in_doubt(ShardId(n)))));
}

#[tokio::test]
async fn a_join_and_a_drain_move_shards_and_the_last_one_keeps_serving() {
    let mut world = World::with(&["a"]).await;
    assert_eq!(world.loads(), BTreeMap::from([("a", 24)]));
    world.start("b", "1", 0, &["room"]).await;
    world.run(Duration::from_secs(10)).await;
    assert_eq!(world.loads(), BTreeMap::from([("a", 12), ("b", 12)]));
    world.node("a").ownership.drain().await;
    world.run(Duration::from_secs(10)).await;
    assert_eq!(world.loads(), BTreeMap::from([("a", 0), ("b", 24)]));
    assert_eq!(world.node("b").ownership.nodes().len(), 1, "a draining node is not offered new rooms");
    world.node("a").ownership.leave().await;
    world.kill("a");
    world.node("b").ownership.drain().await;
    world.run(Duration::from_secs(10)).await;
    assert_eq!((world.loads(), world.node("b").ownership.gives()), (BTreeMap::from([("b", 24)]), vec![]));
}

#[tokio::test]
async fn a_drain_whose_only_target_dies_has_its_shards_again() {
    // C28: nobody else is there, and whoever drains is better than nobody.
    let mut world = World::with(&["a", "b"]).await;
    world.node("a").ownership.drain().await;
    world.run(Duration::from_secs(10)).await;
    assert_eq!(world.loads(), BTreeMap::from([("a", 0), ("b", 24)]));
    world.kill("b");
    world.run(Duration::from_secs(4)).await;
    assert_eq!(world.loads(), BTreeMap::from([("a", 24)]));
    world.run(Duration::from_secs(10)).await;
    assert_eq!((world.loads(), world.node("a").ownership.gives()), (BTreeMap::from([("a", 24)]), vec![]));
    world.start("c", "1", 0, &["room"]).await;
    world.run(Duration::from_secs(10)).await;
    assert_eq!(world.loads(), BTreeMap::from([("a", 0), ("c", 24)]));
}

#[tokio::test]
async fn eight_nodes_drain_to_one() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut world = World::with(&names).await;
    assert!(world.loads().into_values().all(|load| load == 3), "{:?}", world.loads());
    for name in &names[1..] {
        world.node(name).ownership.drain().await;
    }
    world.run(Duration::from_secs(20)).await;
    assert_eq!((world.node("a").terms().len(), world.owned()), (24, 24));
    for name in &names[1..] {
        world.node(name).ownership.leave().await;
        world.kill(name);
    }
    world.run(Duration::from_secs(5)).await;
    assert_eq!(world.owned(), 24);
}

#[tokio::test]
async fn a_rolling_deploy_moves_each_shard_about_once() {
    let mut world = World::with(&["a1", "b1", "c1"]).await;
    let mut moved: BTreeMap<ShardId, usize> = BTreeMap::new();
    for (old, new) in [("a1", "a2"), ("b1", "b2"), ("c1", "c2")] {
        let before: BTreeMap<ShardId, String> = world
            .nodes
            .iter()
            .flat_map(|node| node.terms().into_keys().map(|shard| (shard, node.name.clone())))
            .collect();
        world.start(new, "2", 1, &["room"]).await;
        world.run(Duration::from_secs(3)).await;
        world.node(old).ownership.drain().await;
        world.run(Duration::from_secs(8)).await;
        assert_eq!(world.node(old).terms().len(), 0);
        world.node(old).ownership.leave().await;
        world.kill(old);
        world.run(Duration::from_secs(8)).await;
        for node in &world.nodes {
            for shard in node.terms().into_keys().filter(|shard| before[shard] != node.name) {
                *moved.entry(shard).or_default() += 1;
            }
        }
    }
    assert_eq!(world.loads(), BTreeMap::from([("a2", 8), ("b2", 8), ("c2", 8)]));
    assert_eq!(moved.len(), 24);
    assert!(moved.values().sum::<usize>() <= 32, "{moved:?}");
}

#[tokio::test]
async fn a_gateway_has_a_lease_and_a_view_and_no_shards() {
    let mut world = World::with(&["a"]).await;
    world.start("g", "1", 0, &["gateway"]).await;
    let mut routes = tenure::link::Directory::changes(&world.node("g").ownership);
    world.run(Duration::from_secs(5)).await;
    assert_eq!(world.loads(), BTreeMap::from([("a", 24), ("g", 0)]));
    let g = &world.node("g").ownership;
    assert_eq!(g.nodes().len(), 1);
    assert!((0..SHARDS).all(|n| g.owner(ShardId(n)).is_some_and(|owner| owner.address.as_deref() == Some("a:7779"))));
    routes.seen();
    world.run(Duration::from_secs(5)).await;
    assert!(routes.changed().now_or_never().is_none(), "heartbeats alone are no change of routes");
    world.kill("a");
    world.run(Duration::from_secs(5)).await;
    assert_eq!(routes.changed().now_or_never(), Some(Ok(())));
    let g = &world.node("g").ownership;
    assert!(g.nodes().is_empty() && g.owner(ShardId(0)).is_some_and(|owner| owner.address.is_none()));
    assert_eq!(g.view().ownerless, SHARDS as usize);
}

#[tokio::test]
async fn a_term_that_a_gateway_saw_makes_a_new_one_and_worlds_go_on() {
    let mut world = World::with(&["a", "b"]).await;
    let (shard, term) = world.node("a").terms().into_iter().next().expect("holds some");
    let a = &world.node("a").ownership;
    a.term_seen(shard, term);
    world.run(Duration::from_secs(2)).await;
    assert_eq!(world.node("a").terms()[&shard], term, "its own term says nothing");
    let seen = Term(term.0 + 1_000_000);
    world.node("a").ownership.term_seen(shard, seen);
    world.run(STEP).await;
    let held = world.node("a").ownership.held(shard).expect("held again");
    assert!(held.fence.term() > seen);
    assert_eq!(held.continues, Some(term));
    // A number that nobody can have given counts as the highest known: terms are not used up.
    world.node("a").ownership.term_seen(shard, Term(START.0 + 364 * 24 * 3_600_000_000));
    world.run(STEP).await;
    let highest = world.node("a").terms()[&shard];
    assert!(highest > seen && highest.0 < START.0 + 60_000_000, "{highest}");
    // The floor spreads: whoever takes a shard next takes it above.
    world.run(Duration::from_secs(3)).await;
    world.kill("a");
    world.run(Duration::from_secs(5)).await;
    assert!(world.node("b").terms()[&shard] > seen);
}

#[tokio::test]
async fn a_shard_that_was_released_is_taken_at_once_when_somebody_asks() {
    let mut world = World::with(&["a"]).await;
    world.start("b", "1", 0, &["room"]).await;
    let mut given = Vec::new();
    for _ in 0..200 {
        world.run(STEP).await;
        let free = |n: &ShardId| {
            world.node("a").ownership.fence(*n).is_none() && world.node("b").ownership.fence(*n).is_none()
        };
        given = (0..SHARDS).map(ShardId).filter(free).collect();
        if !given.is_empty() {
            break;
        }
    }
    let shard = *given.first().expect("one is on its way");
    world.node("b").ownership.wanted(shard);
    world.run(STEP).await;
    assert!(world.node("b").ownership.fence(shard).is_some());
}

#[tokio::test]
async fn a_store_that_forgot_everything_takes_commits_again_and_has_a_new_life_of_each() {
    // C27: an emptied store has no agreements either, without which nothing is ever committed.
    let mut world = World::with(&["a", "b", "c"]).await;
    let late: Vec<_> = world.nodes.iter().map(|node| world.fences(&node.name)).collect();
    let lives: Vec<_> = world.nodes.iter().map(Node::life).collect();
    world.forget("");
    for (node, fences) in world.nodes.iter().zip(&late) {
        let refused = node.store.commit(&fences[0], SHARDS, 1, Batch::default()).await;
        assert!(refused.as_ref().is_err_and(Error::may_retry), "nobody's fault: {refused:?}");
    }
    world.run(Duration::from_secs(20)).await;
    assert_eq!(world.owned(), SHARDS as usize);
    for (node, life) in world.nodes.iter().zip(lives) {
        assert_ne!(node.life(), life, "leases that were forgotten are over");
        for fence in world.fences(&node.name) {
            node.store.commit(&fence, SHARDS, 1, Batch::default()).await.expect("commits");
        }
    }
    for (node, fences) in world.nodes.iter().zip(late) {
        let refused = node.store.commit(&fences[0], SHARDS, 2, Batch::default()).await;
        assert!(matches!(refused, Err(Error::Fenced { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn routes_that_the_store_lost_are_published_again_and_gateways_find_the_owners() {
    // A failover between a claim and its route.
    let mut world = World::with(&["a", "b"]).await;
    world.forget("route");
    let terms: Vec<_> = world.nodes.iter().map(Node::terms).collect();
    world.start("g", "1", 0, &["gateway"]).await;
    assert!(world.node("g").ownership.owner(ShardId(0)).is_none(), "it is lost");
    // Who asks for one shard gets it from the claim, at once.
    world.node("g").ownership.look_for(ShardId(7));
    world.run(STEP).await;
    assert!(world.node("g").ownership.owner(ShardId(7)).is_some_and(|owner| owner.address.is_some()));
    world.run(Duration::from_secs(12)).await;
    let g = world.node("g").ownership.clone();
    for (node, terms) in world.nodes.iter().zip(terms) {
        assert_eq!(node.terms(), terms, "nothing was taken anew");
        for (shard, term) in terms {
            let known = g.owner(shard).expect("found");
            assert_eq!((known.term, known.address.as_deref()), (term, Some(&*format!("{}:7779", node.name))));
        }
    }
    assert_eq!(world.node("g").store.routes(0).await.expect("routes").1.len(), SHARDS as usize);
}

#[tokio::test]
async fn a_node_whose_store_became_another_clusters_stops() {
    let mut world = World::with(&["a"]).await;
    world.forget("");
    world.node("a").store.agree(AGREED_SHARDS, "48").await.expect("the other cluster agrees");
    world.run(Duration::from_secs(5)).await;
    assert!(world.node("a").tasks.shutdown().is_stopped());
    assert_eq!((world.owned(), world.node("a").store.routes(0).await.expect("routes").1), (0, vec![]));
}

#[tokio::test]
async fn another_shard_count_is_refused_in_a_running_cluster() {
    // C30.
    let world = World::with(&["a", "b"]).await;
    let node = world.node("a");
    let options = Options { shards: SHARDS * 2, thread: LeaseThread::Task, ..Options::default() };
    let info = node.ownership.view().members[0].info.clone();
    let rng = Rng::seeded(1);
    let other = Ownership::start(node.store.clone(), node.clock.clone(), rng, options, info, &node.tasks).await;
    let text = other.expect_err("is refused").to_string();
    assert!(text.contains("24") && text.contains("48"), "{text}");
    assert_eq!(world.owned(), SHARDS as usize);
}
