//! Measures durable commits of a store: `cargo run --release --example store_bench [folder | redis://…]`.
//!
//! Each writer stands for a shard that commits 40 checkpoints of 4 KiB, waits for the answer and commits again; more writers share fsyncs.
//! With a folder it is the embedded store; the other one is Redis.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use bytes::Bytes;
use tenure::{
    runtime::{Clock, Rng},
    store::{self, Batch, Checkpoint, Fence, Key, MemberInfo, Options, RedisOptions, RoomSummary, Store},
};
use tenure_shared::{IncarnationId, RoomId, ShardId, Term, Tick};

const SHARDS: u32 = 64;
const DURATION: Duration = Duration::from_secs(3);

fn rooms(shard: u32, count: usize) -> Result<Vec<RoomId>, tenure_shared::IdError> {
    let names = (0..).map(|n| RoomId::from_parts("bench", "eu", &format!("r{n}")));
    names.filter(|room| room.as_ref().map_or(true, |room| room.shard(SHARDS) == ShardId(shard))).take(count).collect()
}

fn batch(rooms: &[RoomId], fence: &Fence, version: u64, size: usize) -> Batch {
    let checkpoint = |room: &RoomId| {
        let summary = RoomSummary {
            room: room.clone(),
            seats: 1,
            max_seats: 50,
            metadata: Bytes::new(),
            dormant: false,
            private: false,
            locked: false,
        };
        Checkpoint { summary, term: fence.term(), tick: Tick(version), version, body: vec![version as u8; size].into() }
    };
    Batch { checkpoints: rooms.iter().map(checkpoint).collect(), ..Batch::default() }
}

async fn write(
    store: Store,
    clock: Clock,
    me: IncarnationId,
    shard: u32,
    count: usize,
) -> anyhow::Result<Vec<Duration>> {
    let key = Key::shard(ShardId(shard));
    let seen = store.claim(&key).await?.map(|claim| (claim.holder, claim.term));
    let fence = store.acquire(&key, &me, seen, Term(0)).await?;
    let rooms = rooms(shard, count)?;
    let mut times = Vec::new();
    let mut version = match rooms.first() {
        Some(room) => store.load(room).await?.map_or(0, |checkpoint| checkpoint.version),
        None => 0,
    };
    let end = clock.now().plus(DURATION);
    for number in 1.. {
        let before = clock.now();
        if before >= end {
            break;
        }
        version += 1;
        store.commit(&fence, SHARDS, number, batch(&rooms, &fence, version, 4_096)).await?;
        times.push(clock.now().since(before));
    }
    Ok(times)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = std::env::args().nth(1);
    let clock = Clock::system();
    let store = match place.as_deref().filter(|place| place.contains("://")) {
        Some(url) => store::redis(url, clock.clone(), RedisOptions { accept_loss: true, ..RedisOptions::default() })?,
        None => {
            let folder = place.map_or_else(|| std::env::temp_dir().join("tenure-store-bench"), PathBuf::from);
            println!("folder {}", folder.display());
            store::embedded(&folder, clock.clone(), Options::default())?
        }
    };
    store.agree("shards", &SHARDS.to_string()).await?;
    let me = IncarnationId::new(&format!("bench#{}", Rng::from_entropy().uuid()))?;
    let info = MemberInfo {
        node: "bench".to_owned(),
        roles: vec![],
        version: String::new(),
        revision: 0,
        link: String::new(),
        public_url: String::new(),
        zone_data: String::new(),
    };
    store.register(&me, info, Duration::from_secs(3_600)).await?;
    println!("writers  checkpoints  commits/s   MiB/s  p50 ms  p99 ms");
    for (writers, count) in [(1, 0), (1, 1), (1, 40), (8, 40), (64, 1)] {
        let mut all = tokio::task::JoinSet::new();
        for shard in 0..writers {
            all.spawn(write(store.clone(), clock.clone(), me.clone(), shard, count));
        }
        let mut times = Vec::new();
        while let Some(done) = all.join_next().await {
            times.extend(done??);
        }
        times.sort();
        let at = |percent: usize| times.get(times.len() * percent / 100).copied().context("no commits");
        let rate = times.len() as f64 / DURATION.as_secs_f64();
        let (p50, p99) = (at(50)?.as_secs_f64() * 1e3, at(99)?.as_secs_f64() * 1e3);
        let volume = rate * count as f64 * 4_096.0 / (1024.0 * 1024.0);
        println!("{writers:7}  {count:11}  {rate:9.0}  {volume:6.1}  {p50:6.2}  {p99:6.2}");
    }
    Ok(())
}
