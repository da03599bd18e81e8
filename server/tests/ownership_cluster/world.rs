//! Nodes on one store in memory, each with a clock of its own, and what must hold at every moment.

use std::{
    collections::BTreeMap,
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tenure::{
    ownership::{LeaseThread, Options, Ownership, Times},
    runtime::{Clock, ManualClock, Rng, Shutdown, Tasks, Wall},
    store::{
        Backend, BoxFuture, Command, Error, Fence, MemberInfo, Stamped, Store,
        model::{self, Rules},
    },
};
use tenure_shared::{IncarnationId, ShardId, Term};

pub(crate) const START: Wall = Wall(1_764_446_400_123_456);
pub(crate) const SHARDS: u32 = 24;
/// How far clocks move at a time.
pub(crate) const STEP: Duration = Duration::from_millis(50);
/// How often everybody may run between two moves of the clocks.
const TURNS: usize = 300;

/// The store: the rules over rows that a test may lose.
struct Rows {
    clock: Clock,
    rows: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Rows {
    fn execute(&self, command: Command) -> Stamped {
        model::apply(&mut *self.rows.lock(), &Rules::default(), self.clock.wall(), command)
    }
}

/// One node's way to the store, which can be cut.
struct Way {
    store: Arc<Rows>,
    cut: Arc<AtomicBool>,
}

impl Backend for Way {
    fn execute(&self, command: Command) -> BoxFuture<'_, Stamped> {
        if self.cut.load(Ordering::SeqCst) {
            return Box::pin(ready(Stamped { at: Wall(0), reply: Err(Error::Unavailable("cut".to_owned())) }));
        }
        Box::pin(ready(self.store.execute(command)))
    }
}

/// A node with a clock of its own: a stopped process does not see time pass.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) ownership: Ownership,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    hand: ManualClock,
    pub(crate) cut: Arc<AtomicBool>,
    pub(crate) stopped: Option<Duration>,
    pub(crate) tasks: Tasks,
}

impl Node {
    pub(crate) fn acts(&self) -> bool {
        self.stopped.is_none() && self.ownership.holds(self.clock.now())
    }

    pub(crate) fn terms(&self) -> BTreeMap<ShardId, Term> {
        let fence = |shard: ShardId| Some((shard, self.ownership.fence(shard)?.term()));
        self.ownership.shards().into_iter().filter_map(fence).collect()
    }

    pub(crate) fn life(&self) -> Option<IncarnationId> {
        self.ownership.incarnation()
    }
}

pub(crate) struct World {
    hand: ManualClock,
    store: Arc<Rows>,
    pub(crate) nodes: Vec<Node>,
    /// Highest term that acted, per shard.
    highest: BTreeMap<ShardId, Term>,
}

impl World {
    pub(crate) fn new() -> Self {
        let (clock, hand) = Clock::manual(START);
        let store = Arc::new(Rows { clock, rows: Mutex::default() });
        Self { hand, store, nodes: Vec::new(), highest: BTreeMap::new() }
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
        let (clock, hand) = Clock::manual(START);
        let cut = Arc::new(AtomicBool::new(false));
        let store = Store::new(Way { store: self.store.clone(), cut: cut.clone() }, clock.clone());
        let tasks = Tasks::new(Shutdown::new());
        let info = MemberInfo {
            node: name.to_owned(),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            version: version.to_owned(),
            revision,
            link: format!("{name}:7779"),
            public_url: String::new(),
            zone_data: "2026a".to_owned(),
        };
        let options =
            Options { shards: SHARDS, times: Times::default(), thread: LeaseThread::Task, ..Options::default() };
        let rng = Rng::seeded(name.bytes().map(u64::from).sum());
        let ownership =
            Ownership::start(store.clone(), clock.clone(), rng, options, info, &tasks).await.expect("starts");
        self.nodes.push(Node { name: name.to_owned(), ownership, store, clock, hand, cut, stopped: None, tasks });
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
        self.store.rows.lock().retain(|key, _| !key.starts_with(prefix.as_bytes()));
    }

    /// As SIGCONT: all the time that passed is seen at once.
    pub(crate) fn wake(&mut self, name: &str) {
        let node = self.node_mut(name);
        let missed = node.stopped.take().expect("is stopped");
        node.hand.advance(missed);
    }

    /// Moves all clocks and lets everybody do what is due; rooms stop at once and are stored, so what is to be given is given.
    pub(crate) async fn run(&mut self, time: Duration) {
        for _ in 0..(time.as_millis() / STEP.as_millis()) {
            self.hand.advance(STEP);
            for node in &mut self.nodes {
                match &mut node.stopped {
                    Some(missed) => *missed += STEP,
                    None => node.hand.advance(STEP),
                }
            }
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            self.check();
            for node in self.nodes.iter().filter(|node| node.acts()) {
                for (shard, to) in node.ownership.gives() {
                    assert_ne!(to, node.life(), "nothing is given to oneself");
                    let fence = node.ownership.fence(shard).expect("what is to be given is held");
                    let ownership = node.ownership.clone();
                    tokio::spawn(async move { ownership.gave(&fence).await });
                }
            }
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
