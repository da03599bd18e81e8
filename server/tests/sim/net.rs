//! The weather of a simulated cluster: who is paused, what is cut off, how slow everything is; and the log whose hash a replay compares.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tenure::runtime::{Clock, Mono, Rng};
use xxhash_rust::xxh3::Xxh3;

/// Nodes of a cluster.
pub const NODES: usize = 3;
/// Lines of the log that are kept for people; the hash is over all.
const LINES: usize = 4_000;

#[derive(Default)]
struct Weather {
    /// The store answers nobody before this; while it fails over, before that.
    store_back: Mono,
    primary_back: Mono,
    /// The node does nothing, and hears nothing, before this.
    awake: [Mono; NODES],
    /// The node's way to the store is cut before this.
    store_cut: [Mono; NODES],
    /// Of a thousand calls of the store, how many are lost before or after they are carried out, until when.
    lossy: (u64, Mono),
    /// The node's way to other nodes is cut before this.
    peers_cut: [Mono; NODES],
    /// As `lossy`, of messages between nodes.
    lossy_peers: (u64, Mono),
    /// What each call of the store takes longer, until when.
    slow: (Duration, Mono),
}

pub struct Net {
    pub clock: Clock,
    seed: u64,
    weather: Mutex<Weather>,
    log: Mutex<(Xxh3, Vec<String>)>,
}

impl Net {
    pub fn new(clock: Clock, seed: u64) -> Arc<Self> {
        Arc::new(Self { clock, seed, weather: Mutex::default(), log: Mutex::new((Xxh3::new(), Vec::new())) })
    }

    /// A stream of chance of its own for each part, whoever asks first.
    pub fn rng(&self, part: &str) -> Rng {
        Rng::seeded(xxhash_rust::xxh3::xxh3_64_with_seed(part.as_bytes(), self.seed))
    }

    /// Something happened; it counts for the hash, and is shown.
    pub fn log(&self, line: &str) {
        let mut log = self.log.lock().expect("log");
        let line = format!("{:>9.3} {line}", self.clock.now().0 as f64 / 1e9);
        log.0.update(line.as_bytes());
        if log.1.len() < LINES {
            log.1.push(line);
        }
    }

    /// It counts for the hash.
    pub fn note(&self, what: &str) {
        let now = self.clock.now().0;
        let mut log = self.log.lock().expect("log");
        log.0.update(&now.to_le_bytes());
        log.0.update(what.as_bytes());
    }

    pub fn end(&self) -> (u64, Vec<String>) {
        let log = self.log.lock().expect("log");
        (log.0.digest(), log.1.clone())
    }

    fn until(&self, by: Duration) -> Mono {
        self.clock.now().plus(by)
    }

    pub fn pause(&self, node: usize, by: Duration) {
        self.weather.lock().expect("weather").awake[node] = self.until(by);
    }

    pub fn cut_store(&self, node: usize, by: Duration) {
        self.weather.lock().expect("weather").store_cut[node] = self.until(by);
    }

    pub fn store_outage(&self, by: Duration) {
        self.weather.lock().expect("weather").store_back = self.until(by);
    }

    pub fn failover(&self, by: Duration) {
        self.weather.lock().expect("weather").primary_back = self.until(by);
    }

    pub fn lossy(&self, per_thousand: u64, by: Duration) {
        self.weather.lock().expect("weather").lossy = (per_thousand, self.until(by));
    }

    pub fn cut_peers(&self, node: usize, by: Duration) {
        self.weather.lock().expect("weather").peers_cut[node] = self.until(by);
    }

    pub fn lossy_peers(&self, per_thousand: u64, by: Duration) {
        self.weather.lock().expect("weather").lossy_peers = (per_thousand, self.until(by));
    }

    pub fn slow_store(&self, more: Duration, by: Duration) {
        self.weather.lock().expect("weather").slow = (more, self.until(by));
    }

    /// What a call of the store takes longer now.
    pub fn slowness(&self) -> Duration {
        let (more, until) = self.weather.lock().expect("weather").slow;
        if self.clock.now() < until { more } else { Duration::ZERO }
    }

    pub fn peers_reach(&self, one: usize, other: usize) -> bool {
        let (now, weather) = (self.clock.now(), self.weather.lock().expect("weather"));
        weather.peers_cut[one] <= now && weather.peers_cut[other] <= now
    }

    pub fn loses_peer(&self, rng: &Rng) -> bool {
        let (per_thousand, until) = self.weather.lock().expect("weather").lossy_peers;
        rng.below(1_000) < per_thousand && self.clock.now() < until
    }

    /// Whether nothing is wrong any more, but for what is on its way.
    pub fn is_calm(&self) -> bool {
        let (now, weather) = (self.clock.now(), self.weather.lock().expect("weather"));
        let nodes = weather.awake.iter().chain(&weather.store_cut).chain(&weather.peers_cut);
        nodes
            .chain([
                &weather.store_back,
                &weather.primary_back,
                &weather.lossy.1,
                &weather.lossy_peers.1,
                &weather.slow.1,
            ])
            .all(|at| *at <= now)
    }

    /// Resolves when the node is not paused.
    pub async fn awake(&self, node: usize) {
        loop {
            let at = self.weather.lock().expect("weather").awake[node];
            if at <= self.clock.now() {
                return;
            }
            self.clock.sleep_until(at).await;
        }
    }

    pub fn is_awake(&self, node: usize) -> bool {
        self.weather.lock().expect("weather").awake[node] <= self.clock.now()
    }

    pub fn reaches_store(&self, node: usize) -> bool {
        let (now, weather) = (self.clock.now(), self.weather.lock().expect("weather"));
        weather.store_back.max(weather.primary_back).max(weather.store_cut[node]) <= now
    }

    pub fn loses(&self, rng: &Rng) -> bool {
        let (per_thousand, until) = self.weather.lock().expect("weather").lossy;
        rng.below(1_000) < per_thousand && self.clock.now() < until
    }
}
