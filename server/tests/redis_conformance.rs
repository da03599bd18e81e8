//! The store in Redis passes the conformance suite, H1, H2, H3, H6 and H11 as far as a store keeps them, on each topology.

#[path = "support/redis/mod.rs"]
mod redis;

use std::sync::atomic::Ordering;

use tenure::store::conformance::{self, Subject};

/// A store of its own for each check: the servers forget everything before, and the time begins anew.
fn subject(url: &str, flush: impl Fn()) -> Subject {
    flush();
    let (options, time) = redis::timed();
    Subject::new(redis::open(url, options), move |by| {
        redis::pass(&time, by);
        assert!(time.load(Ordering::SeqCst) > redis::START);
        Box::pin(async {})
    })
}

#[tokio::test]
async fn one_server_conforms() {
    if !redis::available() {
        return;
    }
    let server = redis::Server::start(&redis::DURABLE);
    let flush = || assert!(server.call(&["FLUSHALL"]).starts_with("+OK"), "flushed");
    conformance::run(|| subject(&server.url(), flush)).await.expect("conforms");
}

#[tokio::test]
async fn a_cluster_conforms() {
    if !redis::available() {
        return;
    }
    let cluster = redis::Cluster::start();
    conformance::run(|| subject(&cluster.url(), || cluster.flush())).await.expect("conforms");
}

#[tokio::test]
async fn a_primary_under_sentinel_conforms() {
    if !redis::available() {
        return;
    }
    let sentinels = redis::Sentinels::start(&["--min-replicas-to-write", "1"]);
    let flush = || assert!(sentinels.servers[0].call(&["FLUSHALL"]).starts_with("+OK"), "flushed");
    conformance::run(|| subject(&sentinels.url(), flush)).await.expect("conforms");
}
