//! Measures due work: a million items that are far away, and ten thousand that are due in one second: `cargo run --release --example work_bench`.
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

use std::{path::Path, process::Command, time::Duration};

use anyhow::Context as _;
use tenure::{
    runtime::Clock,
    store::{self, RedisOptions, Store},
};

/// As a server has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Shards, as by default.
const SHARDS: u32 = 256;
const ROOMS: usize = 10_000;
/// Items of each room that are far away: a million together.
const FAR: usize = 100;
/// From the filling to the second in which all are due: the node must be ready by then.
const AHEAD: Duration = Duration::from_secs(15);
/// Far, and within the ten minutes that a node keeps in memory.
const DAYS: Duration = Duration::from_secs(3 * 86_400);
const MINUTES: Duration = Duration::from_secs(9 * 60);

fn open(url: &str) -> anyhow::Result<Store> {
    Ok(store::redis(url, Clock::system(), RedisOptions { accept_loss: true, ..RedisOptions::default() })?)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    match (words.next().as_deref(), words.next(), words.next()) {
        (Some("node"), Some(url), due) => node::run(&url, due.and_then(|due| due.parse().ok())).await,
        _ => all().await,
    }
}

async fn all() -> anyhow::Result<()> {
    let redis = redis::Server::start().context("redis-server")?;
    let url = redis.url();
    let clock = Clock::system();
    let store = open(&url)?;
    store.agree("shards", &SHARDS.to_string()).await?;

    let mut filler = bare::Owner::take(&store, "filler").await?;
    filler.make_rooms().await?;
    filler.leave().await?;
    println!("{:<34} {:>9} {:>9}", "a node with 10,000 dormant rooms", "ready s", "MiB");
    let none = shown("nothing pending", &url)?;

    let mut filler = bare::Owner::take(&store, "filler").await?;
    let begun = clock.now();
    let now = store.now();
    filler.plant("far", FAR, |nth| now.plus(DAYS + Duration::from_secs(nth as u64 * 3_600))).await?;
    let filled = clock.now().since(begun).as_secs_f64();
    filler.leave().await?;
    let far = shown("1,000,000 items, days away", &url)?;

    let mut filler = bare::Owner::take(&store, "filler").await?;
    let soon = store.now().plus(MINUTES);
    filler.plant("near", 1, |_| soon).await?;
    filler.leave().await?;
    let near = shown("10,000 more within ten minutes", &url)?;
    println!(
        "a million far items cost {:+.1} MiB, ten thousand near ones {:+.1} MiB; {:.0} items/s were scheduled",
        far - none,
        near - far,
        (ROOMS * FAR) as f64 / filled
    );

    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>9}",
        "10,000 items due in one second", "items/s", "p50 ms", "p99 ms", "all s"
    );
    let mut bare = bare::Owner::take(&store, "bare").await?;
    let due = second_after(&store);
    bare.plant("bare", 1, |_| due).await?;
    wait_until(&store, due).await;
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

async fn wait_until(store: &Store, due: tenure::runtime::Wall) {
    let now = store.now();
    tokio::time::sleep(Duration::from_micros(due.0.saturating_sub(now.0) + 5_000)).await;
}

/// A node that is started, looks at what is near, and ends: its memory, MiB.
fn shown(what: &str, url: &str) -> anyhow::Result<f64> {
    let told: node::Fired = serde_json::from_str(&child(url, None)?)?;
    println!("{what:<34} {:>9.2} {:>9.1}", told.ready_s, told.rss_mib);
    Ok(told.rss_mib)
}

fn child(url: &str, due: Option<u64>) -> anyhow::Result<String> {
    let me: &Path = &std::env::current_exe()?;
    let output = Command::new(me).args(["node", url]).args(due.map(|due| due.to_string())).output()?;
    anyhow::ensure!(output.status.success(), "a node ended: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
