//! Nodes on one store in memory, each with a clock of its own, and what must hold at every moment.

use std::{collections::BTreeMap, time::Duration};

use tenure::{runtime::Rng, store::Fence};
use tenure_shared::{ShardId, Term};

pub(crate) use crate::clocks::{Node, START, STEP};
use crate::clocks::{Plan, Time};

pub(crate) const SHARDS: u32 = 24;
/// How often everybody may run between two moves of the clocks.
const TURNS: usize = 300;

impl Node {
    pub(crate) fn terms(&self) -> BTreeMap<ShardId, Term> {
        let fence = |shard: ShardId| Some((shard, self.ownership.fence(shard)?.term()));
        self.ownership.shards().into_iter().filter_map(fence).collect()
    }
}

pub(crate) struct World {
    time: Time,
    pub(crate) nodes: Vec<Node>,
    /// Highest term that acted, per shard.
    highest: BTreeMap<ShardId, Term>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { time: Time::new(), nodes: Vec::new(), highest: BTreeMap::new() }
    }

    pub(crate) async fn with(names: &[&str]) -> Self {
        let mut world = Self::new();
        for name in names {
            world.start(name, "1", 0, &["room"]).await;
        }
        world.run(Duration::from_secs(20)).await;
        world
    }

    pub(crate) async fn start(&mut self, name: &str, version: &str, revision: u64, roles: &[&str]) {
        let rng = Rng::seeded(name.bytes().map(u64::from).sum());
        let plan = Plan { name, version, revision, roles };
        let node = self.time.place().join(&plan, Vec::new(), SHARDS, rng).await.expect("starts");
        self.nodes.push(node);
    }

    pub(crate) fn node(&self, name: &str) -> &Node {
        self.nodes.iter().find(|node| node.name == name).expect("a node of that name")
    }

    pub(crate) fn node_mut(&mut self, name: &str) -> &mut Node {
        self.nodes.iter_mut().find(|node| node.name == name).expect("a node of that name")
    }

    /// As kill -9.
    pub(crate) fn kill(&mut self, name: &str) {
        self.nodes.retain(|node| node.name != name);
    }

    /// The store forgets all rows whose keys begin so; with an empty text everything.
    pub(crate) fn forget(&self, prefix: &str) {
        self.time.store.forget(prefix);
    }

    /// Moves all clocks and lets everybody do what is due; rooms stop at once and are stored, so what is to be given is given.
    pub(crate) async fn run(&mut self, time: Duration) {
        for _ in 0..(time.as_millis() / STEP.as_millis()) {
            self.time.pass(self.nodes.iter_mut(), STEP, TURNS).await;
            self.check();
            self.nodes.iter().filter(|node| node.acts()).for_each(Node::give);
        }
    }

    /// H1, H2 as far as owners can be seen: one acts for a shard at a time, and never under a lower term than one before.
    fn check(&mut self) {
        let mut owners: BTreeMap<ShardId, &str> = BTreeMap::new();
        for node in self.nodes.iter().filter(|node| node.acts()) {
            for (shard, term) in node.terms() {
                if let Some(other) = owners.insert(shard, &node.name) {
                    panic!("H1: {other} and {} act for shard {shard}", node.name);
                }
                let highest = self.highest.entry(shard).or_default();
                assert!(term >= *highest, "H2: shard {shard} under {term} after {highest}");
                *highest = term;
            }
        }
    }

    /// How many shards each acts for.
    pub(crate) fn loads(&self) -> BTreeMap<&str, usize> {
        self.nodes.iter().filter(|node| node.acts()).map(|node| (node.name.as_str(), node.terms().len())).collect()
    }

    pub(crate) fn owned(&self) -> usize {
        self.loads().into_values().sum()
    }

    pub(crate) fn fences(&self, name: &str) -> Vec<Fence> {
        let node = self.node(name);
        node.ownership.shards().into_iter().filter_map(|shard| node.ownership.fence(shard)).collect()
    }
}
