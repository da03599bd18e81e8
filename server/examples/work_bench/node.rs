//! A node in a process of its own: its memory with what is pending, and how it fires what is due.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::{
    ownership::{Options, Ownership},
    room::host::{HostConfig, HostParts, RoomHost},
    runtime::{Clock, Rng, Shutdown, Tasks, Wall},
    store::{MemberInfo, RedisOptions, Store},
    timers::LiveBook,
};
use tenure_shared::ShardId;
use tokio::task::JoinSet;

use crate::{SHARDS, field, size};

/// Time in which a node reads what is near.
const SETTLE: Duration = Duration::from_secs(3);
/// Longest time for everything to be done.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);

/// What a node has to say.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Fired {
    /// From its start until all shards were read.
    pub(crate) ready_s: f64,
    /// Its memory, as the system says.
    pub(crate) rss_mib: f64,
    /// From the due time to the last item's commit.
    pub(crate) all_s: f64,
    /// How long after its due time an item was done.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Fired {
    /// Prints it; items per second.
    pub(crate) fn print(&self, what: &str) -> f64 {
        let rate = size().0 as f64 / self.all_s.max(0.001);
        println!("{what:<34} {rate:>9.0} {:>9.0} {:>9.0} {:>9.2}", self.p50_ms, self.p99_ms, self.all_s);
        rate
    }
}

/// Runs one; prints what it has to say as JSON. `due`: until everything is done that is due then.
pub(crate) async fn run(url: &str, due: Option<u64>) -> anyhow::Result<()> {
    let store = crate::open(url, RedisOptions::default())?;
    let (clock, rng, tasks) = (Clock::system(), Rng::from_entropy(), Tasks::new(Shutdown::new()));
    let info = MemberInfo {
        node: "bench".to_owned(),
        roles: vec!["room".to_owned()],
        version: String::new(),
        revision: 0,
        link: "bench".to_owned(),
        public_url: String::new(),
        zone_data: String::new(),
    };
    let begun = clock.now();
    let options = Options { shards: SHARDS, ..Options::default() };
    let ownership = Ownership::start(store.clone(), clock.clone(), rng.clone(), options, info, &tasks).await?;
    let host = RoomHost::start(HostParts {
        kinds: vec![field::kind()?],
        store: store.clone(),
        ownership: ownership.clone(),
        clock: clock.clone(),
        rng,
        config: HostConfig { shards: SHARDS, ..HostConfig::default() },
        book: LiveBook::default(),
        tasks: tasks.clone(),
        executor: None,
        kill: Box::new(|_| {}),
    })?;
    host.ready().await;
    let mut told = Fired { ready_s: clock.now().since(begun).as_secs_f64(), ..Fired::default() };
    tokio::time::sleep(SETTLE).await;
    if let Some(due) = due.map(Wall) {
        told.all_s = until_done(&store, &clock, due).await?;
        let late = field::LATE.lock().map(|late| late.clone()).unwrap_or_default();
        let rooms = size().0;
        anyhow::ensure!(late.len() == rooms, "{} of {rooms} items were done", late.len());
        (told.p50_ms, told.p99_ms) = quantiles(late);
    }
    told.rss_mib = rss_mib()?;
    let report = host.stop(clock.now().plus(PATIENCE)).await;
    anyhow::ensure!(report.is_clean(), "{report:?}");
    ownership.leave().await;
    println!("{}", serde_json::to_string(&told)?);
    Ok(())
}

/// Waits until nothing is overdue any more; the time since it was due.
async fn until_done(store: &Store, clock: &Clock, due: Wall) -> anyhow::Result<f64> {
    let end = clock.now().plus(PATIENCE);
    loop {
        let now = store.now();
        if now > due && field::LATE.lock().is_ok_and(|late| late.len() >= size().0) {
            let mut shards = JoinSet::new();
            for shard in (0..SHARDS).map(ShardId) {
                let store = store.clone();
                shards.spawn(async move { store.overdue(shard).await });
            }
            let mut left = 0;
            while let Some(overdue) = shards.join_next().await {
                left += match overdue? {
                    Ok(overdue) => overdue,
                    // It has other things to do: not done yet.
                    Err(error) if error.may_retry() => 1,
                    Err(error) => return Err(error.into()),
                };
            }
            if left == 0 {
                return Ok(now.0.saturating_sub(due.0) as f64 / 1e6);
            }
        }
        anyhow::ensure!(clock.now() < end, "it takes too long");
        tokio::time::sleep(LOOK).await;
    }
}

/// p50 and p99, ms, of µs.
pub(crate) fn quantiles(mut late: Vec<u64>) -> (f64, f64) {
    late.sort_unstable();
    let at = |share: usize| late.get(late.len().saturating_sub(1) * share / 100).map_or(0.0, |us| *us as f64 / 1e3);
    (at(50), at(99))
}

fn rss_mib() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: f64 = line.and_then(|line| line.split_whitespace().next()).and_then(|n| n.parse().ok()).unwrap_or(0.0);
    Ok(kib / 1024.0)
}
