//! Nodes with daemons on one store in memory, each with a clock of its own, and what must hold at every moment (H10).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tenure::{
    daemon::{self, DaemonInbox, DaemonParts, Daemons, ShardedDaemonProcess, Times},
    link::{Address, PeerInbox as _, PeerMessage, Peers},
    runtime::{Rng, mailbox::Refused},
    store::Error,
};
use tenure_shared::{ShardId, Term};

pub(crate) use crate::clocks::{Plan, STEP};
use crate::{
    clocks::{self, Time},
    counter::Records,
};

/// Of the cluster.
pub(crate) const SHARDS: u32 = 4;
/// How often everybody may run between two moves of the clocks.
const TURNS: usize = 250;

/// The links between nodes: a message arrives at once, or not at all.
#[derive(Default)]
pub(crate) struct Switch(Mutex<BTreeMap<Address, (Arc<DaemonInbox>, Arc<AtomicBool>)>>);

impl Peers for Switch {
    fn send(&self, to: &Address, message: PeerMessage) -> Result<(), Refused<PeerMessage>> {
        let found = self.0.lock().get(to).cloned();
        match found {
            Some((inbox, stands)) if !stands.load(Ordering::SeqCst) => {
                inbox.take(message);
                Ok(())
            }
            // What is sent to a stopped process is never read.
            Some(_) => Ok(()),
            None => Err(Refused::Closed(message)),
        }
    }
}

pub(crate) struct Node {
    member: clocks::Node,
    pub(crate) daemons: Daemons,
    stands: Arc<AtomicBool>,
    pub(crate) killed: Arc<AtomicU64>,
}

impl std::ops::Deref for Node {
    type Target = clocks::Node;
    fn deref(&self) -> &clocks::Node {
        &self.member
    }
}

impl Node {
    /// What runs here: index and term, of one set.
    pub(crate) fn running(&self, set: &str) -> BTreeMap<u32, Term> {
        let sets = self.daemons.status();
        let rows = sets.into_iter().filter(|one| one.name == set).flat_map(|one| one.daemons);
        rows.filter(|row| row.stage == "running").map(|row| (row.index, row.term)).collect()
    }

    pub(crate) fn stage(&self, set: &str, index: u32) -> String {
        let sets = self.daemons.status();
        let set = sets.into_iter().find(|one| one.name == set).expect("a set of that name");
        set.daemons.get(index as usize).map_or_else(|| "unknown".to_owned(), |row| row.stage.clone())
    }
}

pub(crate) struct World {
    pub(crate) time: Time,
    pub(crate) switch: Arc<Switch>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) records: Records,
    /// Highest term that ran, per set, generation and index.
    highest: BTreeMap<(String, u32), Term>,
    /// Since when an index was nowhere, in steps.
    pub(crate) away: BTreeMap<(String, u32), Duration>,
    /// The longest that any index was nowhere since it was last asked.
    pub(crate) longest: Duration,
    starts: u64,
    /// Shards whose owners were told to look for work.
    pub(crate) woken: Arc<Mutex<Vec<ShardId>>>,
    pub(crate) threads: Option<tokio::runtime::Handle>,
}

impl<'a> Plan<'a> {
    pub(crate) fn of(name: &'a str, version: &'a str, revision: u64) -> Self {
        Self { name, version, revision, roles: &["room"] }
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            time: Time::new(),
            switch: Arc::default(),
            nodes: Vec::new(),
            records: Records::default(),
            highest: BTreeMap::new(),
            away: BTreeMap::new(),
            longest: Duration::ZERO,
            starts: 0,
            woken: Arc::default(),
            threads: None,
        }
    }

    /// Nodes of one version with the same sets, settled.
    pub(crate) async fn with(names: &[&str], sets: impl Fn(&Records) -> Vec<ShardedDaemonProcess>) -> Self {
        let mut world = Self::new();
        for name in names {
            let sets = sets(&world.records);
            world.start(&Plan::of(name, "1", 0), sets).await.expect("starts");
        }
        world.run(Duration::from_secs(25)).await;
        world
    }

    pub(crate) async fn start(&mut self, plan: &Plan<'_>, sets: Vec<ShardedDaemonProcess>) -> Result<(), Error> {
        let faults = daemon::faults(&sets);
        assert!(faults.is_empty(), "{faults:?}");
        let place = self.time.place();
        daemon::agree(&place.store, &sets).await?;
        self.starts += 1;
        let rng = Rng::seeded(self.starts);
        let member = place.join(plan, daemon::roles(&sets), SHARDS, rng.clone()).await?;
        let (killed, woken) = (Arc::<AtomicU64>::default(), self.woken.clone());
        let counts = killed.clone();
        let address = Address::from(format!("{}:7779", plan.name).as_str());
        let daemons = Daemons::launch(DaemonParts {
            sets,
            store: member.store.clone(),
            ownership: member.ownership.clone(),
            clock: member.clock.clone(),
            rng,
            times: Times::default(),
            peers: Some((self.switch.clone(), address.clone())),
            wake: Some(Arc::new(move |shard| woken.lock().push(shard))),
            kill: Box::new(move |_| {
                counts.fetch_add(1, Ordering::SeqCst);
            }),
            tasks: member.tasks.clone(),
            threads: self.threads.clone().unwrap_or_else(tokio::runtime::Handle::current),
        });
        let (inbox, stands) =
            (DaemonInbox::new(daemons.clone(), member.tasks.clone()), Arc::new(AtomicBool::new(false)));
        self.switch.0.lock().insert(address, (Arc::new(inbox), stands.clone()));
        self.nodes.push(Node { member, daemons, stands, killed });
        Ok(())
    }

    pub(crate) fn node(&self, name: &str) -> &Node {
        self.nodes.iter().find(|node| node.name == name).expect("a node of that name")
    }

    /// As kill -9: nothing of it reaches anybody any more.
    pub(crate) fn kill(&mut self, name: &str) {
        let node = self.node(name);
        node.cut.store(true, Ordering::SeqCst);
        node.tasks.shutdown().stop();
        self.switch.0.lock().retain(|address, _| **address != format!("{name}:7779"));
        self.records.gone(name);
        self.nodes.retain(|node| node.name != name);
    }

    /// As SIGSTOP.
    pub(crate) fn stop(&mut self, name: &str) {
        let node = self.nodes.iter_mut().find(|node| node.name == name).expect("a node of that name");
        node.member.stop();
        node.stands.store(true, Ordering::SeqCst);
    }

    /// As SIGCONT: all the time that passed is seen at once.
    pub(crate) fn wake(&mut self, name: &str) {
        let node = self.nodes.iter_mut().find(|node| node.name == name).expect("a node of that name");
        node.stands.store(false, Ordering::SeqCst);
        node.member.wake();
    }

    /// As SIGTERM: it drains and leaves.
    pub(crate) async fn end(&mut self, name: &str) {
        let (ownership, daemons) = (self.node(name).ownership.clone(), self.node(name).daemons.clone());
        let done = Arc::new(AtomicBool::new(false));
        let told = done.clone();
        tokio::spawn(async move {
            ownership.drain().await;
            daemons.drain().await;
            daemons.leave().await;
            ownership.leave().await;
            told.store(true, Ordering::SeqCst);
        });
        for _ in 0..400 {
            self.run(STEP).await;
            if done.load(Ordering::SeqCst) {
                self.kill(name);
                return;
            }
        }
        panic!("{name} does not end");
    }

    pub(crate) async fn turns(&self) {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
    }

    /// Moves all clocks and lets everybody do what is due; then looks whether all is well.
    pub(crate) async fn run(&mut self, time: Duration) {
        self.run_by(time, STEP).await;
    }

    pub(crate) async fn run_by(&mut self, time: Duration, step: Duration) {
        for _ in 0..(time.as_millis() / step.as_millis()) {
            self.time.pass(self.nodes.iter_mut().map(|node| &mut node.member), step, TURNS).await;
            self.nodes.iter().filter(|node| node.acts()).for_each(|node| node.give());
            self.check(step);
        }
    }

    /// H10 as far as nodes show it: of an index one activation runs at a time, and never under a lower term than one before.
    fn check(&mut self, step: Duration) {
        let mut running: BTreeMap<(String, u32), &str> = BTreeMap::new();
        let mut wanted: BTreeSet<(String, u32)> = BTreeSet::new();
        for node in self.nodes.iter().filter(|node| node.acts()) {
            for set in node.daemons.status() {
                for row in &set.daemons {
                    let key = (set.name.clone(), row.index);
                    wanted.insert(key.clone());
                    if row.stage != "running" {
                        continue;
                    }
                    if let Some(other) = running.insert(key.clone(), &node.name) {
                        panic!("H10: {other} and {} run {key:?}", node.name);
                    }
                    let highest = self.highest.entry((set.agreed.clone(), row.index)).or_default();
                    assert!(row.term >= *highest, "H2: {key:?} under {} after {highest}", row.term);
                    *highest = row.term;
                }
            }
        }
        for key in wanted {
            if running.contains_key(&key) {
                self.away.remove(&key);
            } else {
                let away = self.away.entry(key).or_default();
                *away += step;
                self.longest = self.longest.max(*away);
            }
        }
        self.records.check();
    }

    /// How many of a set run on each node.
    pub(crate) fn loads(&self, set: &str) -> Vec<usize> {
        self.nodes.iter().filter(|node| node.acts()).map(|node| node.running(set).len()).collect()
    }

    /// How many of a set run.
    pub(crate) fn count(&self, set: &str) -> usize {
        self.loads(set).into_iter().sum()
    }

    /// Every index with the term under which it runs.
    pub(crate) fn terms(&self, set: &str) -> BTreeMap<u32, Term> {
        self.nodes.iter().filter(|node| node.acts()).flat_map(|node| node.running(set)).collect()
    }

    /// Carries out a future while time passes.
    pub(crate) async fn during<T: Send + 'static>(&mut self, work: impl Future<Output = T> + Send + 'static) -> T {
        let task = tokio::spawn(work);
        for _ in 0..1_200 {
            if task.is_finished() {
                return task.await.expect("no panic");
            }
            self.run(STEP).await;
        }
        panic!("it does not end");
    }
}
