//! A Cluster: a slot that moves while its shard commits, and a primary that dies.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tenure_shared::Term;

use super::{SHARDS, TTL, again, batch, options, owner, redis, room};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_while_its_shard_commits_loses_and_doubles_nothing() {
    // C38
    if !redis::available() {
        return;
    }
    let cluster = Arc::new(redis::Cluster::start());
    let store = redis::open(&cluster.url(), options());
    let fence = again("owner", async || Ok(owner(&store, "a#1", 1).await)).await;
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
    let fence = again("owner", async || Ok(owner(&store, "a#1", 1).await)).await;
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
