//! Planned moves of a run: nodes that drain and come back, and what happens to nodes while shards move; how many moves there were, and how
//! they ended.

use std::{
    collections::BTreeMap,
    ops::AddAssign,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tenure::runtime::{Mono, Rng};
use tokio::sync::Notify;

use crate::{cluster::Sim, net::NODES};

/// How nodes of a run move shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By handoffs.
    Handed,
    /// Handoffs run, but no node reaches another.
    Deaf,
    /// The room host gives shards away by itself.
    Plain,
    /// The same, and nothing but the storm makes shards move: what seeds of former days found, they find in this way.
    Former,
}

impl Way {
    pub fn of(seed: u64) -> Self {
        match seed {
            96 | 242 | 271 => Self::Former,
            _ if seed.is_multiple_of(8) => Self::Plain,
            _ if seed % 8 == 7 => Self::Deaf,
            _ => Self::Handed,
        }
    }
}

/// What became of moves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moves {
    pub drains: u64,
    /// Faults made while a shard moved.
    pub aimed: u64,
    /// Ends of attempts, as sources tell them.
    pub moved: u64,
    pub doubts: u64,
    pub aborts: u64,
    pub refused: u64,
    /// Shards that began with worlds that stood ready: under the term of the transfer, and under one that was asked for anew.
    pub prepared: u64,
    pub anew: u64,
}

impl AddAssign for Moves {
    fn add_assign(&mut self, other: Self) {
        self.drains += other.drains;
        self.aimed += other.aimed;
        self.moved += other.moved;
        self.doubts += other.doubts;
        self.aborts += other.aborts;
        self.refused += other.refused;
        self.prepared += other.prepared;
        self.anew += other.anew;
    }
}

/// Counts ends of attempts, which nodes tell as a metric.
#[derive(Clone, Default)]
pub struct Ends(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Ends {
    pub fn count(&self, outcomes: &[&str]) -> u64 {
        let ends = self.0.lock().expect("ends");
        outcomes.iter().filter_map(|outcome| ends.get(*outcome)).map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl Recorder for Ends {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() != "tenure_handoffs_total" {
            return Counter::noop();
        }
        let outcome = key.labels().find(|label| label.key() == "outcome").map_or("", |label| label.value());
        Counter::from_arc(self.0.lock().expect("ends").entry(outcome.to_owned()).or_default().clone())
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

fn some_node(rng: &Rng) -> usize {
    usize::try_from(rng.below(NODES as u64)).expect("small")
}

/// Nodes drain, one or two at once, end and come back; until `end`. Gives how many did.
pub async fn deploys(sim: Arc<Sim>, crashed: Vec<Arc<Notify>>, end: Mono) -> u64 {
    let rng = sim.net.rng("deploys");
    let mut drains = 0;
    let mut under_way = Vec::new();
    while sim.net.clock.now() < end {
        sim.net.clock.sleep(Duration::from_millis(300 + rng.below(2_500))).await;
        let first = some_node(&rng);
        let mut nodes = vec![first];
        if rng.below(3) == 0 {
            nodes.push((first + 1) % NODES);
        }
        for node in nodes {
            drains += 1;
            under_way.push(tokio::spawn(deploy(sim.clone(), node, crashed[node].clone(), rng.fork())));
        }
        if rng.below(2) == 0 {
            for one in under_way.drain(..) {
                one.await.expect("a deploy");
            }
        }
    }
    for one in under_way {
        one.await.expect("a deploy");
    }
    drains
}

async fn deploy(sim: Arc<Sim>, index: usize, crashed: Arc<Notify>, rng: Rng) {
    let Some(node) = sim.node(index) else { return };
    sim.net.log(&format!("node {index} life {} drains", node.life));
    node.ownership.drain().await;
    let patience = sim.net.clock.now().plus(Duration::from_millis(500 + rng.below(4_000)));
    while !node.ownership.shards().is_empty() && sim.net.clock.now() < patience && !node.is_dead() {
        sim.net.clock.sleep(Duration::from_millis(20)).await;
    }
    if node.ownership.shards().is_empty() && rng.below(2) == 0 {
        tokio::select! {
            biased;
            () = node.ownership.leave() => sim.net.log(&format!("node {index} life {} has left", node.life)),
            () = sim.net.clock.sleep(Duration::from_secs(1)) => {}
        }
    }
    // It may have crashed meanwhile: then this one is another.
    if sim.node(index).is_some_and(|now| now.life == node.life) {
        crashed.notify_one();
    }
}

/// Something happens to a node now and then while a shard moves; until `end`. Gives how often.
pub async fn aimed(sim: Arc<Sim>, crashed: Vec<Arc<Notify>>, end: Mono) -> u64 {
    let rng = sim.net.rng("aimed");
    let mut aimed = 0;
    while sim.net.clock.now() < end {
        sim.net.clock.sleep(Duration::from_micros(500 + rng.below(4_000))).await;
        let moves = |node: &usize| {
            sim.node(*node).and_then(|node| node.handoff.as_ref().map(|handoff| handoff.moving())).unwrap_or(0) > 0
        };
        let Some(source) = (0..NODES).find(moves) else { continue };
        if rng.below(40) > 0 {
            continue;
        }
        aimed += 1;
        let node = if rng.below(2) == 0 { source } else { some_node(&rng) };
        let by = Duration::from_millis(100 + rng.below(2_500));
        match rng.below(6) {
            0 => {
                sim.net.log(&format!("node {source} moves a shard, {node} is to crash"));
                crashed[node].notify_one();
            }
            1 => {
                sim.net.log(&format!("node {source} moves a shard, {node} is paused for {by:?}"));
                sim.net.pause(node, by);
            }
            2 => {
                sim.net.log(&format!("node {source} moves a shard, {node} is cut from the others for {by:?}"));
                sim.net.cut_peers(node, by);
            }
            3 => {
                sim.net.log(&format!("node {source} moves a shard, {node} does not reach the store for {by:?}"));
                sim.net.cut_store(node, by);
            }
            4 => {
                sim.net.log(&format!("node {source} moves a shard, messages get lost for {by:?}"));
                sim.net.lossy_peers(100 + rng.below(500), by);
            }
            _ => {
                sim.net.log(&format!("node {source} moves a shard, the store is slow for {by:?}"));
                sim.net.slow_store(Duration::from_millis(50 + rng.below(400)), by);
            }
        }
    }
    aimed
}
