//! The store in Redis when servers lose their scripts, stop, forget, fail over or move slots: H1, H2 and H6 hold in what survives
//! (C26, C27, C35, C36, C38).
#![expect(clippy::expect_used, reason = "a test says what it expected")]
#![expect(clippy::disallowed_methods, reason = "real servers are waited for in real time")]

#[path = "../support/redis/mod.rs"]
mod redis;

mod clock;
mod cluster;
mod opening;
mod sentinel;
mod single;

use std::time::Duration;

use bytes::Bytes;
use tenure::store::{
    Batch, Checkpoint, Error, Fence, Key, MemberInfo, RedisOptions, RoomSummary, Store, model::AGREED_SHARDS,
};
use tenure_shared::{IncarnationId, RoomId, ShardId, Term, Tick};

const TTL: Duration = Duration::from_secs(3);
const SHARDS: u32 = 4;

/// Options as in production, with a failover that may lose.
fn options() -> RedisOptions {
    RedisOptions { accept_loss: true, ..RedisOptions::default() }
}

/// Options for tests that are about something else than time.
fn patient() -> RedisOptions {
    RedisOptions { deadline: Duration::from_secs(20), ..options() }
}

fn name(text: &str) -> IncarnationId {
    IncarnationId::new(text).expect("valid")
}

fn shard(n: u32) -> Key {
    Key::shard(ShardId(n))
}

async fn register(store: &Store, text: &str) -> Result<IncarnationId, Error> {
    let info = MemberInfo {
        node: text.to_owned(),
        roles: vec!["room".to_owned()],
        version: "1".to_owned(),
        revision: 1,
        link: String::new(),
        public_url: String::new(),
        zone_data: String::new(),
    };
    store.register(&name(text), info, TTL).await?;
    Ok(name(text))
}

/// A member that holds a shard. May be repeated.
async fn owner(store: &Store, text: &str, n: u32) -> Result<Fence, Error> {
    store.agree(AGREED_SHARDS, &SHARDS.to_string()).await?;
    let caller = register(store, text).await?;
    let seen = store.claim(&shard(n)).await?.map(|claim| (claim.holder, claim.term));
    store.acquire(&shard(n), &caller, seen, Term(0)).await
}

/// A room of a shard.
fn room(n: u32) -> RoomId {
    let all = (0..).map(|i| RoomId::from_parts("arena", "eu", &i.to_string()).expect("valid"));
    all.into_iter().find(|room| room.shard(SHARDS) == ShardId(n)).expect("one of them")
}

/// A commit's only checkpoint.
fn batch(fence: &Fence, version: u64, size: usize) -> Batch {
    let room = room(fence.key().as_shard().expect("a shard").0);
    let summary = RoomSummary {
        room,
        seats: 1,
        max_seats: 8,
        metadata: Bytes::new(),
        dormant: false,
        private: false,
        locked: false,
    };
    let body = vec![version as u8; size].into();
    let checkpoint = Checkpoint { summary, term: fence.term(), tick: Tick(version), version, body };
    Batch { checkpoints: vec![checkpoint], ..Batch::default() }
}

/// Makes the same call again and again while the store is not reachable, as its callers do.
async fn again<T>(what: &str, call: impl AsyncFn() -> Result<T, Error>) -> T {
    let start = std::time::Instant::now();
    loop {
        match call().await {
            Err(error) if error.may_retry() => {
                assert!(start.elapsed() < Duration::from_secs(60), "{what}: {error}");
                tokio::task::yield_now().await;
            }
            answer => return answer.unwrap_or_else(|error| panic!("{what}: {error}")),
        }
    }
}
