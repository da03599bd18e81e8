//! A primary under Sentinel: a failover that loses the last writes, and a primary that becomes a replica.

use metrics_exporter_prometheus::PrometheusBuilder;
use tenure::store::{Error, RedisOptions};
use tenure_shared::Term;

use super::{SHARDS, TTL, again, batch, options, owner, redis, room, shard};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h2_a_failover_that_forgets_a_claim_repeats_no_term() {
    // C27: replication is cut, a claim is taken, the primary dies.
    if !redis::available() {
        return;
    }
    let mut sentinels = redis::Sentinels::start(&[]);
    let store = redis::open(&sentinels.url(), options());
    let fence = again("owner", async || owner(&store, "a#1", 1).await).await;
    again("first", async || store.commit(&fence, SHARDS, 1, batch(&fence, 1, 10)).await).await;
    redis::until("the replicas have it", || {
        let slots = |server: &redis::Server| server.call(&["HLEN", "{tenure:s1}:rows"]);
        sentinels.servers.iter().all(|server| slots(server) == slots(&sentinels.servers[0]))
    });
    sentinels.servers[1..].iter().for_each(redis::Server::pause);
    // Or what comes now would wait for them in their sockets.
    assert_eq!(sentinels.servers[0].call(&["CLIENT", "KILL", "TYPE", "replica"]), ":2\r\n");
    let seen = Some((Some(fence.incarnation().clone()), fence.term()));
    let lost = store.acquire(&shard(1), fence.incarnation(), seen, Term(0)).await.expect("acquires anew");
    store.commit(&lost, SHARDS, 1, batch(&lost, 2, 10)).await.expect("commits");
    let former = sentinels.servers[0].port;
    sentinels.servers[0].kill();
    sentinels.servers[1..].iter().for_each(redis::Server::resume);
    sentinels.failed_over(former);

    let claim = again("claim", async || store.claim(&shard(1)).await).await.expect("the claim of before");
    assert_eq!(claim.term, fence.term(), "the last writes are lost");
    assert_eq!(again("load", async || store.load(&room(1)).await).await.expect("is there").version, 1);
    let late = store.commit(&lost, SHARDS, 2, batch(&lost, 3, 10)).await;
    assert!(matches!(late, Err(Error::Fenced { .. })), "what hung on the lost claim is refused: {late:?}");
    let seen = Some((claim.holder, claim.term));
    let anew =
        again("acquire", async || store.acquire(&shard(1), fence.incarnation(), seen.clone(), lost.term()).await).await;
    assert!(anew.term() > lost.term(), "{} after {}", anew.term(), lost.term());
    again("commit", async || store.commit(&anew, SHARDS, 1, batch(&anew, 2, 10)).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_became_a_replica_is_left_for_the_new_one() {
    // C36: its port stays open, and it answers READONLY for ever.
    if !redis::available() {
        return;
    }
    let sentinels = redis::Sentinels::start(&["--min-replicas-to-write", "1"]);
    let store = redis::open(&sentinels.url(), options());
    let fence = again("owner", async || owner(&store, "a#1", 1).await).await;
    let former = sentinels.servers[0].port;
    sentinels.fail_over();
    let now = sentinels.failed_over(former);
    redis::until("the former primary is a replica", || sentinels.at(former).call(&["ROLE"]).contains("slave"));
    again("beat", async || store.heartbeat(fence.incarnation(), TTL, Term(0)).await).await;
    again("commit", async || store.commit(&fence, SHARDS, 1, batch(&fence, 1, 10)).await).await;
    assert_ne!(now, former);
    assert_eq!(sentinels.at(now).call(&["EXISTS", &format!("{{tenure:s1}}:room:{}", room(1))]), ":1\r\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_became_the_primary_and_is_not_fit_for_it_is_an_alarm() {
    if !redis::available() {
        return;
    }
    let metrics = PrometheusBuilder::new().install_recorder().expect("the only one of this process");
    let sentinels = redis::Sentinels::start(&[]);
    sentinels.servers[0].call(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let store = redis::open(&sentinels.url(), RedisOptions { accept_loss: false, ..options() });
    let fence = again("owner", async || owner(&store, "a#1", 1).await).await;
    redis::until("the servers were looked at", || metrics.render().contains("tenure_store_unfit 0"));
    let former = sentinels.servers[0].port;
    sentinels.fail_over();
    sentinels.failed_over(former);
    redis::until("the former primary is a replica", || sentinels.at(former).call(&["ROLE"]).contains("slave"));
    again("the node goes on", async || store.heartbeat(fence.incarnation(), TTL, Term(0)).await).await;
    redis::until("it is an alarm", || metrics.render().contains("tenure_store_unfit 1"));
}
