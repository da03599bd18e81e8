//! A server whose clock was put back by two days: what it stored before is ahead of it. The store's time goes on all the same, in every slot, for
//! those who were there and for those who come (C23).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tenure::{
    runtime::Wall,
    store::{Command, Store},
};
use tenure_shared::{ShardId, Term};

use super::{SHARDS, TTL, again, batch, options, owner, redis, register};

const DAYS: Duration = Duration::from_secs(2 * 86_400);
/// How long its passing is watched.
const WATCHED: Duration = Duration::from_millis(400);

async fn time_of(store: &Store, command: Command) -> Wall {
    let stamped = store.execute(command).await;
    stamped.reply.expect("answered");
    stamped.at
}

#[tokio::test]
async fn a_clock_that_is_put_back_stops_no_time() {
    if !redis::available() {
        return;
    }
    let server = redis::Server::start(&redis::DURABLE);
    let store = redis::open(&server.url(), options());
    let fence = again("owner", async || owner(&store, "a#1", 1).await).await;
    store.commit(&fence, SHARDS, 1, batch(&fence, 1, 100)).await.expect("commits");

    // Two days ahead of the clock is what was stored two days before the clock was put back by as much.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let ahead = Wall(u64::try_from(since.as_micros()).expect("short")).plus(DAYS);
    let set = ["HSET", "{tenure:members}:rows", "meta/time", &format!("{:016}", ahead.0)];
    assert!(server.call(&set).starts_with(":0"), "there was a time");

    // One who was there, and one who begins now.
    for (name, store) in [("a#1", store.clone()), ("b#1", redis::open(&server.url(), options()))] {
        let member = register(&store, name).await.expect("registered");
        let began = (time_of(&store, Command::Members).await, Instant::now());
        assert!(began.0 >= ahead, "{name}");
        while began.1.elapsed() < WATCHED {
            store.heartbeat(&member, TTL, Term(0)).await.expect("beats");
        }
        let passed = time_of(&store, Command::Members).await.0 - began.0.0;
        let real = u64::try_from(began.1.elapsed().as_micros()).expect("short");
        assert!((real / 2..=real).contains(&passed), "{name}: {passed} µs in {real} µs");
        // A slot that has not heard of it: its shard's work is due by the same time.
        let due = Command::Due { shard: ShardId(1), before: Wall(0), after: None, limit: 1 };
        assert!(time_of(&store, due).await >= Wall(began.0.0 + passed / 2), "{name}");
        assert!(store.now() >= ahead);
    }
    store.commit(&fence, SHARDS, 2, batch(&fence, 2, 100)).await.expect("commits");
}
