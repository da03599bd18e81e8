//! A Cluster: a slot that moves while its shard commits, and a primary that dies.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tenure::store::RedisOptions;
use tenure_shared::Term;

use super::{SHARDS, TTL, again, batch, options, owner, redis, register, room, shard};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_while_its_shard_commits_loses_and_doubles_nothing() {
    // C38
    if !redis::available() {
        return;
    }
    let cluster = Arc::new(redis::Cluster::start());
    let store = redis::open(&cluster.url(), options());
    let fence = again("owner", async || owner(&store, "a#1", 1).await).await;
    let moved = Arc::new(AtomicBool::new(false));
    let moving = {
        let (cluster, moved) = (cluster.clone(), moved.clone());
        tokio::task::spawn_blocking(move || {
            for _ in 0..3 {
                cluster.move_slot("{tenure:s1}:rows");
            }
            moved.store(true, Ordering::SeqCst);
        })
    };
    let mut number = 0;
    while !moved.load(Ordering::SeqCst) || number < 20 {
        number += 1;
        again("commit", async || store.commit(&fence, SHARDS, number, batch(&fence, number, 5_000)).await).await;
        again("beat", async || store.heartbeat(fence.incarnation(), TTL, Term(0)).await).await;
    }
    moving.await.expect("moved");
    let loaded = again("load", async || store.load(&room(1)).await).await.expect("is there");
    assert_eq!(loaded.version, number, "the last of {number} commits");
    number += 1;
    again("the next", async || store.commit(&fence, SHARDS, number, batch(&fence, number, 10)).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_of_a_cluster_that_dies_is_followed_by_its_replica() {
    if !redis::available() {
        return;
    }
    let mut cluster = redis::Cluster::start();
    let store = redis::open(&cluster.url(), options());
    let fence = again("owner", async || owner(&store, "a#1", 1).await).await;
    again("first", async || store.commit(&fence, SHARDS, 1, batch(&fence, 1, 10)).await).await;
    let slot = cluster.slot("{tenure:s1}:rows").to_string();
    let held = |server: &redis::Server| server.call(&["CLUSTER", "COUNTKEYSINSLOT", &slot]).trim() != ":0";
    redis::until("the replica has it", || cluster.servers.iter().filter(|server| held(server)).count() == 2);
    let port = cluster.primaries().into_iter().find(|server| held(server)).expect("a primary").port;
    cluster.servers.iter_mut().find(|server| server.port == port).expect("it").kill();
    // A commit of before the failover may be lost with its primary; the next number or its repeat goes on from what survived.
    again("claim", async || store.claim(fence.key()).await).await.expect("the claim survived");
    let seen = Some((Some(fence.incarnation().clone()), fence.term()));
    let anew =
        again("acquire", async || store.acquire(fence.key(), fence.incarnation(), seen.clone(), fence.term()).await)
            .await;
    again("commit", async || store.commit(&anew, SHARDS, 1, batch(&anew, 2, 10)).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_are_granted_and_leases_kept_while_the_server_of_the_routes_stands_still() {
    // Routes are hints: they are published when there is somebody to publish them to.
    if !redis::available() {
        return;
    }
    let cluster =
        redis::Cluster::with(&["--cluster-replica-no-failover", "yes", "--cluster-require-full-coverage", "no"]);
    let deadline = Duration::from_secs(4);
    let store = redis::open(&cluster.url(), RedisOptions { deadline, ..options() });
    let member = again("register", async || register(&store, "a#1").await).await;
    let routes = cluster.primary_of("{tenure:routes}:rows");
    for needed in ["{tenure:members}:rows", "{tenure:s0}:rows", "{tenure:s1}:rows"] {
        assert_ne!(cluster.primary_of(needed).port, routes.port, "{needed}");
    }
    routes.pause();
    let start = Instant::now();
    let keys = [shard(0), shard(1)];
    let (one, two) =
        tokio::join!(store.acquire(&keys[0], &member, None, Term(0)), store.acquire(&keys[1], &member, None, Term(0)),);
    let fences = [one.expect("granted"), two.expect("granted")];
    store.heartbeat(&member, TTL, Term(0)).await.expect("beats");
    assert!(start.elapsed() < deadline / 2, "nobody waited for the routes: {:?}", start.elapsed());
    routes.resume();
    let known = || async {
        again("beat", async || store.heartbeat(&member, TTL, Term(0)).await).await;
        again("routes", async || store.routes(0).await).await.1
    };
    let start = Instant::now();
    let mut found = known().await;
    while found.len() < 2 {
        assert!(start.elapsed() < Duration::from_secs(60), "{found:?}");
        found = known().await;
    }
    found.sort_by(|a, b| a.key.cmp(&b.key));
    let terms: Vec<_> = found.iter().map(|route| (route.key.clone(), route.term)).collect();
    assert_eq!(terms, fences.map(|fence| (fence.key().clone(), fence.term())));
}
