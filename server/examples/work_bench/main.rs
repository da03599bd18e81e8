//! Measures due work: a million items that are far away, and ten thousand that are due in one second: `cargo run --release --example work_bench`.
//! Two numbers behind it are rooms and far items of each, in place of 10,000 and 100.
//!
//! It starts a redis-server of its own (`appendfsync always`) with 10,000 dormant rooms. A node is a process of its own, so that its memory is
//! what the system says. Firing is compared with the same calls to the store, as fast as they go, without rooms around them ("bare").
#![expect(clippy::print_stdout, reason = "its output is what it is for")]
#![expect(clippy::disallowed_methods, reason = "it measures from outside: real time is the point")]
#![expect(elided_lifetimes_in_paths, reason = "systems read better without them")]

mod bare;
mod field;
mod node;
mod redis;

use std::{path::Path, process::Command, sync::OnceLock, time::Duration};

use anyhow::Context as _;
use tenure::{
    runtime::Clock,
    store::{self, RedisOptions, Store},
};
use tenure_shared::ShardId;

/// As a server has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Shards, as by default.
const SHARDS: u32 = 256;
/// Rooms, and items of each that are far away: a million together.
const ROOMS: usize = 10_000;
const FAR: usize = 100;
static SIZE: OnceLock<(usize, usize)> = OnceLock::new();
/// Longest time of a call without a node.
const PATIENCE: Duration = Duration::from_secs(60);
/// From the filling to the second in which all are due: the node must be ready by then.
const AHEAD: Duration = Duration::from_secs(15);
/// Far, and within the ten minutes that a node keeps in memory.
const DAYS: Duration = Duration::from_secs(3 * 86_400);
const MINUTES: Duration = Duration::from_secs(9 * 60);

fn open(url: &str, options: RedisOptions) -> anyhow::Result<Store> {
    Ok(store::redis(url, Clock::system(), RedisOptions { accept_loss: true, ..options })?)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |nth: usize, else_it_is: usize| {
        let word = words.get(nth).map(|word| word.parse().with_context(|| word.clone()));
        word.unwrap_or(Ok(else_it_is))
    };
    if let [node, url, rooms, due @ ..] = &words[..]
        && node == "node"
    {
        SIZE.get_or_init(|| (rooms.parse().unwrap_or(ROOMS), FAR));
        return node::run(url, due.first().and_then(|due| due.parse().ok())).await;
    }
    let size = (number(0, ROOMS)?, number(1, FAR)?);
    SIZE.get_or_init(|| size);
    all().await
}

/// How many rooms there are, and how many far items each of them has.
fn size() -> (usize, usize) {
    *SIZE.get_or_init(|| (ROOMS, FAR))
}

async fn all() -> anyhow::Result<()> {
    let redis = redis::Server::start().context("redis-server")?;
    let url = redis.url();
    let clock = Clock::system();
    let (rooms, far) = size();
    // Nothing here beats for a lease, and nothing is tried again: a call may take its time.
    let store = open(&url, RedisOptions { deadline: PATIENCE, ..RedisOptions::default() })?;
    store.agree("shards", &SHARDS.to_string()).await?;

    let mut filler = bare::Owner::take(&store, "filler").await?;
    filler.make_rooms().await?;
    filler.leave().await?;
    println!("{:<34} {:>9} {:>9}", format!("a node with {rooms} dormant rooms"), "ready s", "MiB");
    let none = shown("nothing pending", &url)?;

    let mut filler = bare::Owner::take(&store, "filler").await?;
    let begun = clock.now();
    let now = store.now();
    filler.plant("far", far, |nth| now.plus(DAYS + Duration::from_secs(nth as u64 * 3_600))).await?;
    let filled = clock.now().since(begun).as_secs_f64();
    filler.leave().await?;
    let distant = shown(&format!("{} items, days away", rooms * far), &url)?;

    let mut filler = bare::Owner::take(&store, "filler").await?;
    let soon = store.now().plus(MINUTES);
    filler.plant("near", 1, |_| soon).await?;
    filler.leave().await?;
    let near = shown(&format!("{rooms} more within ten minutes"), &url)?;
    println!(
        "the far items cost {:+.1} MiB, the near ones {:+.1} MiB; {:.0} items/s were scheduled",
        distant - none,
        near - distant,
        (rooms * far) as f64 / filled
    );

    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>9}",
        format!("{rooms} items due in one second"),
        "items/s",
        "p50 ms",
        "p99 ms",
        "all s"
    );
    let mut bare = bare::Owner::take(&store, "bare").await?;
    let due = second_after(&store);
    bare.plant("bare", 1, |_| due).await?;
    wait_until(&store, due).await?;
    let rate = bare.fire().await?.print("bare calls");
    bare.leave().await?;

    let mut filler = bare::Owner::take(&store, "filler").await?;
    let due = second_after(&store);
    filler.plant("fire", 1, |_| due).await?;
    filler.leave().await?;
    let fired: node::Fired = serde_json::from_str(&child(&url, Some(due.0))?)?;
    let whole = fired.print("a node");
    println!("ratio {:.2}: a node does so much of what the bare calls do", whole / rate);
    Ok(())
}

/// The begin of a second, far enough ahead for a node to be ready.
fn second_after(store: &Store) -> tenure::runtime::Wall {
    let due = store.now().plus(AHEAD).0;
    tenure::runtime::Wall(due - due % 1_000_000)
}

/// The store's time, as it is known here, is that of its last answer and goes on a little slowly: it is asked until it is so late.
async fn wait_until(store: &Store, due: tenure::runtime::Wall) -> anyhow::Result<()> {
    loop {
        store.overdue(ShardId(0)).await?;
        let now = store.now();
        if now > due {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_micros(due.0 - now.0 + 1_000)).await;
    }
}

/// A node that is started, looks at what is near, and ends: its memory, MiB.
fn shown(what: &str, url: &str) -> anyhow::Result<f64> {
    let told: node::Fired = serde_json::from_str(&child(url, None)?)?;
    println!("{what:<34} {:>9.2} {:>9.1}", told.ready_s, told.rss_mib);
    Ok(told.rss_mib)
}

fn child(url: &str, due: Option<u64>) -> anyhow::Result<String> {
    let me: &Path = &std::env::current_exe()?;
    let rooms = size().0.to_string();
    let output = Command::new(me).args(["node", url, &rooms]).args(due.map(|due| due.to_string())).output()?;
    anyhow::ensure!(output.status.success(), "a node ended: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
