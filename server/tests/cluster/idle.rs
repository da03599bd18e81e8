//! What a node that has nothing to do asks of the store: few commands, in a handful of round trips, however many rooms sleep on it.

use std::{env, time::Duration};

use bytes::Bytes;
use tenure::{
    runtime::Clock,
    store::{self, Batch, Checkpoint, Key, MemberInfo, RedisOptions, RoomSummary, Store, model::AGREED_SHARDS},
};
use tenure_shared::{IncarnationId, RoomId, ShardId, Term, Tick};

use crate::nodes::{Cluster, can_run, until};

/// Shards of the node, as by default.
const SHARDS: u32 = 256;
/// Most commands a second, and most round trips: a lease's two for a heartbeat, its look at members and routes, the claims' share of
/// `claim_check`, and the proof of readiness.
const COMMANDS: f64 = 50.0;
const ROUND_TRIPS: f64 = 15.0;
/// Most rooms of one commit.
const STEP: usize = 100;
/// Commands that only a client sends: the others are also called by scripts, and count there.
const CLIENTS: [&str; 12] = [
    "evalsha",
    "eval",
    "ping",
    "info",
    "role",
    "config|get",
    "hello",
    "client|setinfo",
    "select",
    "script|load",
    "command",
    "auth",
];

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Rooms that sleep, written as their owner would have.
async fn rooms(store: &Store, count: u64) {
    let caller = IncarnationId::new("before#1").expect("valid");
    store.agree(AGREED_SHARDS, &SHARDS.to_string()).await.expect("agreed");
    let text = |text: &str| text.to_owned();
    let info = MemberInfo {
        node: text("before"),
        roles: vec![text("room")],
        version: text("1"),
        revision: 1,
        link: String::new(),
        public_url: String::new(),
        zone_data: String::new(),
    };
    store.register(&caller, info, Duration::from_secs(120)).await.expect("registered");
    let mut of: Vec<Vec<RoomId>> = (0..SHARDS).map(|_| Vec::new()).collect();
    for n in 0..count {
        let room = RoomId::from_parts("arena", "local", &format!("sleeper-{n}")).expect("valid");
        of[room.shard(SHARDS).0 as usize].push(room);
    }
    for (n, rooms) in (0..).zip(of) {
        let fence = store.acquire(&Key::shard(ShardId(n)), &caller, None, Term(0)).await.expect("free");
        for (number, rooms) in (1..).zip(rooms.chunks(STEP)) {
            let asleep = |room: &RoomId| Checkpoint {
                summary: RoomSummary {
                    room: room.clone(),
                    seats: 0,
                    max_seats: 8,
                    metadata: Bytes::new(),
                    dormant: true,
                    private: false,
                    locked: false,
                },
                term: fence.term(),
                tick: Tick(1),
                version: 1,
                body: vec![0; 200].into(),
            };
            let batch = Batch { checkpoints: rooms.iter().map(asleep).collect(), ..Batch::default() };
            store.commit(&fence, SHARDS, number, batch).await.expect("stored");
        }
        store.release(&fence).await.expect("released");
    }
    store.deregister(&caller).await.expect("gone");
}

/// Commands that clients sent so far, and how often the server read from a client.
fn sent(cluster: &Cluster) -> (u64, u64) {
    let (stats, commands) = (cluster.ask("INFO stats"), cluster.ask("INFO commandstats"));
    let calls = |line: &str| -> Option<u64> {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        CLIENTS.contains(&name).then(|| rest.split(',').next()?.parse().ok()).flatten()
    };
    let reads = stats.lines().find_map(|line| line.strip_prefix("total_reads_processed:")?.trim().parse().ok());
    (commands.lines().filter_map(calls).sum(), reads.expect("Redis counts its reads"))
}

#[test]
fn a_node_whose_rooms_sleep_leaves_the_store_in_peace() {
    if !can_run() {
        return;
    }
    let (count, seconds) = (number("TENURE_IDLE_ROOMS", 2_000), number("TENURE_IDLE_SECONDS", 20));
    let cluster = Cluster::new();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let options = RedisOptions { deadline: Duration::from_secs(20), ..RedisOptions::default() };
    let store = store::redis(&cluster.url, Clock::system(), options).expect("opened");
    runtime.block_on(rooms(&store, count));
    drop(store);

    let node = cluster.start("idle", "gateway,room", &[&format!("shards.count={SHARDS}")]);
    let asleep = || {
        let (status, body) = node.page("/status");
        assert_eq!(status, 200, "{body}");
        let status: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        status["counts"]["dormant"].as_u64()
    };
    until("all rooms, asleep", || (asleep() == Some(count)).then_some(()));
    until("its shards", || {
        let seen = node.cluster();
        (seen["members"][0]["shards"].as_u64() == Some(u64::from(SHARDS))).then_some(())
    });

    let (commands, reads) = sent(&cluster);
    std::thread::sleep(Duration::from_secs(seconds));
    let after = sent(&cluster);
    // Our own: two questions before the second count of commands, two reads for them, and a read for each end.
    let (commands, reads) = (after.0 - commands - 2, after.1 - reads - 2);
    let each = |n: u64| n as f64 / seconds as f64;
    eprintln!(
        "{count} dormant rooms in {SHARDS} shards: {:.1} commands and {:.1} reads a second over {seconds} s",
        each(commands),
        each(reads)
    );
    assert!(commands > 0, "it keeps its lease");
    assert!(each(commands) <= COMMANDS, "{:.1} commands a second", each(commands));
    assert!(each(reads) <= ROUND_TRIPS, "{:.1} round trips a second", each(reads));
    assert_eq!(asleep(), Some(count), "nothing woke up");
}
