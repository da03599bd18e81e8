//! One server: scripts that are gone, a restart, an empty store, a server that stands still, and commands that race.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tenure::store::{Applied, Error, Grant, GrantId, RedisOptions, model::AGREED_SHARDS};
use tenure_shared::{PlayerId, Term};

use super::{SHARDS, TTL, again, batch, name, options, owner, patient, redis, register, room, shard};

/// How often a command was called, from `INFO commandstats`.
fn calls(server: &redis::Server, command: &str) -> u64 {
    let stats = server.call(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn a_server_that_lost_its_scripts_costs_one_more_call_and_no_lease() {
    // C35
    if !redis::available() {
        return;
    }
    let server = redis::Server::start(&redis::DURABLE);
    let store = redis::open(&server.url(), patient());
    let member = again("register", async || register(&store, "a#1").await).await;
    server.call(&["CONFIG", "RESETSTAT"]);
    for beat in 1..=20 {
        assert!(server.call(&["SCRIPT", "FLUSH"]).starts_with("+OK"));
        let (beats, _) = store.heartbeat(&member, TTL, Term(0)).await.expect("beats");
        assert_eq!(beats, beat, "once each");
    }
    // A heartbeat is one read and one write, each of which may be sent a second time with its text.
    assert!(calls(&server, "eval") <= 40, "at most one more: {}", calls(&server, "eval"));
    assert!(calls(&server, "evalsha") <= 40);
}

#[tokio::test]
async fn a_commit_is_two_round_trips() {
    if !redis::available() {
        return;
    }
    let server = redis::Server::start(&redis::DURABLE);
    let store = redis::open(&server.url(), patient());
    let fence = again("owner", async || owner(&store, "a#1", 1).await).await;
    store.commit(&fence, SHARDS, 1, batch(&fence, 1, 1_000)).await.expect("commits");
    server.call(&["CONFIG", "RESETSTAT"]);
    for number in 2..=11 {
        store.commit(&fence, SHARDS, number, batch(&fence, number, 1_000)).await.expect("commits");
    }
    assert_eq!(calls(&server, "evalsha"), 20, "one script that reads, one that compares and writes");
    assert_eq!(calls(&server, "eval"), 0);
    let loaded = store.load(&room(1)).await.expect("loads").expect("is there");
    assert_eq!((loaded.version, loaded.body.len()), (11, 1_000));
    assert_eq!(calls(&server, "evalsha"), 21, "a read is one");
}

#[tokio::test]
async fn a_crash_of_a_durable_server_loses_nothing() {
    if !redis::available() {
        return;
    }
    let mut server = redis::Server::start(&redis::DURABLE);
    let store = redis::open(&server.url(), options());
    let fence = again("owner", async || owner(&store, "a#1", 1).await).await;
    for number in 1..=20 {
        again("commit", async || store.commit(&fence, SHARDS, number, batch(&fence, number, 10_000)).await).await;
    }
    let claim = store.claim(&shard(1)).await.expect("reads");
    server.kill();
    let start = Instant::now();
    let refused = store.heartbeat(fence.incarnation(), TTL, Term(0)).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(start.elapsed() < Duration::from_secs(5), "by its deadline: {:?}", start.elapsed());
    server.again();
    let (beats, _) = again("beat", async || store.heartbeat(fence.incarnation(), TTL, Term(0)).await).await;
    assert!(beats >= 1, "the lease is there");
    assert_eq!(again("claim", async || store.claim(&shard(1)).await).await, claim);
    let loaded = again("load", async || store.load(&room(1)).await).await.expect("is there");
    assert_eq!(loaded.version, 20, "the last one that was acknowledged");
    again("the next", async || store.commit(&fence, SHARDS, 21, batch(&fence, 21, 10)).await).await;
}

#[tokio::test]
async fn h2_an_emptied_store_ends_leases_and_repeats_no_term_even_when_its_clock_went_back() {
    // C27, F12
    if !redis::available() {
        return;
    }
    let server = redis::Server::start(&redis::DURABLE);
    let (timed, time) = redis::timed();
    let store = redis::open(&server.url(), timed);
    let fence = again("owner", async || owner(&store, "a#1", 1).await).await;
    assert!(server.call(&["FLUSHALL"]).starts_with("+OK"));
    time.fetch_sub(3_600_000_000, Ordering::SeqCst);
    let beat = store.heartbeat(fence.incarnation(), TTL, fence.term()).await;
    assert!(matches!(beat, Err(Error::Tombstoned(_))), "{beat:?}");
    let late = store.commit(&fence, SHARDS, 1, batch(&fence, 1, 10)).await;
    assert!(late.as_ref().is_err_and(Error::may_retry), "not agreed on anew, which is no room's fault: {late:?}");
    // As each life of a node begins: nothing that was known of the former store answers for this one.
    let other = store.agree(AGREED_SHARDS, "9").await;
    assert_eq!(other, Ok(()), "it is asked, not remembered");
    server.call(&["FLUSHALL"]);
    store.agree(AGREED_SHARDS, &SHARDS.to_string()).await.expect("agrees anew");
    let next = again("register", async || register(&store, "a#2").await).await;
    let late = store.commit(&fence, SHARDS, 1, batch(&fence, 1, 10)).await;
    assert!(matches!(late, Err(Error::Fenced { .. })), "{late:?}");
    let anew = store.acquire(&shard(1), &next, None, fence.term()).await.expect("acquires");
    assert!(anew.term() > fence.term(), "{} after {}", anew.term(), fence.term());
    store.commit(&anew, SHARDS, 1, batch(&anew, 1, 10)).await.expect("commits");
}

#[tokio::test]
async fn calls_to_a_server_that_stands_still_end_by_their_deadline() {
    // C36: nothing closes the connection, nothing answers.
    if !redis::available() {
        return;
    }
    let server = redis::Server::start(&redis::DURABLE);
    let store = redis::open(&server.url(), RedisOptions { deadline: Duration::from_millis(300), ..options() });
    let fence = again("owner", async || owner(&store, "a#1", 1).await).await;
    again("first", async || store.commit(&fence, SHARDS, 1, batch(&fence, 1, 10)).await).await;
    server.pause();
    for _ in 0..3 {
        let start = Instant::now();
        let (beat, commit) = tokio::join!(
            store.heartbeat(fence.incarnation(), TTL, Term(0)),
            store.commit(&fence, SHARDS, 2, batch(&fence, 2, 10)),
        );
        assert!(matches!(beat, Err(Error::Unavailable(_))), "{beat:?}");
        assert!(matches!(commit, Err(Error::Unavailable(_))), "{commit:?}");
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    }
    server.resume();
    // What was on its way may have been carried out: the same number again is the same commit.
    again("the same again", async || store.commit(&fence, SHARDS, 2, batch(&fence, 2, 10)).await).await;
    again("beat", async || store.heartbeat(fence.incarnation(), TTL, Term(0)).await).await;
    let loaded = again("load", async || store.load(&room(1)).await).await.expect("is there");
    assert_eq!(loaded.version, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h1_of_many_that_acquire_at_once_one_is_granted() {
    if !redis::available() {
        return;
    }
    let server = redis::Server::start(&[]);
    let stores = [redis::open(&server.url(), patient()), redis::open(&server.url(), patient())];
    let (a, b) = (
        again("register", async || register(&stores[0], "a#1").await).await,
        again("register", async || register(&stores[1], "b#1").await).await,
    );
    let mut term = Term(0);
    let mut seen = None;
    let key = shard(2);
    for _ in 0..50 {
        let (one, two) = tokio::join!(
            stores[0].acquire(&key, &a, seen.clone(), Term(0)),
            stores[1].acquire(&key, &b, seen.clone(), Term(0)),
        );
        assert!(one.is_ok() != two.is_ok(), "one of them: {one:?} {two:?}");
        let fence = one.or(two).expect("one of them");
        assert!(fence.term() > term, "terms grow");
        term = fence.term();
        stores[0].release(&fence).await.expect("releases");
        seen = Some((None, term));
    }
    // The other process has published it when it has answered what was asked of it afterwards.
    stores[0].routes(0).await.expect("routes");
    let (_, routes) = stores[1].routes(0).await.expect("routes");
    assert_eq!(routes.iter().map(|route| (route.owner.clone(), route.term)).collect::<Vec<_>>(), [(None, term)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h6_a_grant_that_is_applied_from_everywhere_at_once_is_given_once() {
    if !redis::available() {
        return;
    }
    let server = redis::Server::start(&[]);
    let stores = [redis::open(&server.url(), patient()), redis::open(&server.url(), patient())];
    let player = PlayerId::new("p").expect("valid");
    let grant = |n: u64| Grant {
        id: GrantId(format!("g{n}").into()),
        player: player.clone(),
        source: "chest".into(),
        scheduled_for: None,
        amounts: [("gold".into(), 3)].into(),
        cap: None,
        token: Bytes::new(),
    };
    let mut given = 0;
    for n in 0..30 {
        let (a, b, c, d) = tokio::join!(
            stores[0].apply(grant(n)),
            stores[1].apply(grant(n)),
            stores[0].apply(grant(n)),
            stores[1].apply(grant(n)),
        );
        let answers = [a, b, c, d].map(|answer| answer.expect("applied").0);
        given += answers.iter().filter(|applied| matches!(applied, Applied::Given(_))).count();
    }
    assert_eq!(given, 30);
    assert_eq!(stores[0].balances(&player).await.expect("balances"), [("gold".to_owned(), 90)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_claims_are_published_in_few_steps_and_nothing_ever_expires() {
    if !redis::available() {
        return;
    }
    const CLAIMS: u32 = 256;
    let server = redis::Server::start(&[]);
    let store = redis::open(&server.url(), patient());
    let member = again("register", async || register(&store, "a#1").await).await;
    server.call(&["CONFIG", "RESETSTAT"]);
    let mut waiting = tokio::task::JoinSet::new();
    for n in 0..CLAIMS {
        let (store, member) = (store.clone(), member.clone());
        waiting.spawn(async move { store.acquire(&shard(n), &member, None, Term(0)).await.map(drop) });
    }
    while let Some(done) = waiting.join_next().await {
        done.expect("ends").expect("acquires");
    }
    let scripts = calls(&server, "evalsha");
    // Two reads and a write for each; the routes are shared steps.
    assert!(scripts < u64::from(CLAIMS) * 3 + 200, "{scripts} scripts for {CLAIMS} claims");
    let (counter, routes) = store.routes(0).await.expect("routes");
    assert_eq!((counter, routes.len()), (u64::from(CLAIMS), CLAIMS as usize), "each once");
    let (_, floor) = store.heartbeat(&member, TTL, Term(0)).await.expect("beats");
    assert_eq!(Some(floor), routes.iter().map(|route| route.term).max(), "heartbeats spread the highest term");

    let space = server.call(&["INFO", "keyspace"]);
    assert!(space.contains("keys=") && space.contains("expires=0"), "{space}");
    let gone = store.expire(&name("b#9"), None).await.expect("expires");
    assert!(gone, "who has no record is gone");
}
