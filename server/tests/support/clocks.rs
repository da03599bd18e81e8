//! Nodes on one store in memory, each with a clock of its own, moved by hand: for tests of what nodes do while others stand still, are cut
//! off or gone.

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
        Backend, BoxFuture, Command, Error, MemberInfo, Stamped, Store,
        model::{self, Rules},
    },
};
use tenure_shared::IncarnationId;

pub(crate) const START: Wall = Wall(1_764_446_400_123_456);
/// How far clocks move at a time.
pub(crate) const STEP: Duration = Duration::from_millis(50);

/// The store: the rules over rows that a test may lose.
pub(crate) struct Rows {
    clock: Clock,
    rows: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Rows {
    fn execute(&self, command: Command) -> Stamped {
        model::apply(&mut *self.rows.lock(), &Rules::default(), self.clock.wall(), command)
    }

    /// It loses all rows whose keys begin so; with an empty text everything.
    pub(crate) fn forget(&self, prefix: &str) {
        self.rows.lock().retain(|key, _| !key.starts_with(prefix.as_bytes()));
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

/// What stands around a node: its clock, which stands still when its process does, and its way to the store.
pub(crate) struct Place {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) cut: Arc<AtomicBool>,
    pub(crate) tasks: Tasks,
    hand: ManualClock,
}

/// How a node is started.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    pub(crate) revision: u64,
    pub(crate) roles: &'a [&'a str],
}

impl Place {
    /// Makes a member of it; `words` are further ones of its roles.
    pub(crate) async fn join(self, plan: &Plan<'_>, words: Vec<String>, shards: u32, rng: Rng) -> Result<Node, Error> {
        let name = plan.name.to_owned();
        let info = MemberInfo {
            node: name.clone(),
            roles: plan.roles.iter().map(|role| (*role).to_owned()).chain(words).collect(),
            version: plan.version.to_owned(),
            revision: plan.revision,
            link: format!("{name}:7779"),
            public_url: String::new(),
            zone_data: "2026a".to_owned(),
        };
        let options = Options { shards, times: Times::default(), thread: LeaseThread::Task, ..Options::default() };
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let ownership = Ownership::start(store, clock, rng, options, info, &self.tasks).await?;
        Ok(Node { name, ownership, place: self, stopped: None })
    }
}

/// A node, as a member.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) ownership: Ownership,
    place: Place,
    /// Stands still, and has missed so much time.
    stopped: Option<Duration>,
}

impl std::ops::Deref for Node {
    type Target = Place;
    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Node {
    pub(crate) fn acts(&self) -> bool {
        self.stopped.is_none() && self.ownership.holds(self.clock.now())
    }

    pub(crate) fn life(&self) -> Option<IncarnationId> {
        self.ownership.incarnation()
    }

    /// As SIGSTOP.
    pub(crate) fn stop(&mut self) {
        self.stopped = Some(Duration::ZERO);
    }

    /// As SIGCONT: all the time that passed is seen at once.
    pub(crate) fn wake(&mut self) {
        let missed = self.stopped.take().expect("is stopped");
        self.hand.advance(missed);
    }

    fn pass(&mut self, time: Duration) {
        match &mut self.stopped {
            Some(missed) => *missed += time,
            None => self.place.hand.advance(time),
        }
    }

    /// Shards have no rooms here: what is to be given is given at once.
    pub(crate) fn give(&self) {
        for (shard, to) in self.ownership.gives() {
            assert_ne!(to, self.life(), "nothing is given to oneself");
            let fence = self.ownership.fence(shard).expect("what is to be given is held");
            let ownership = self.ownership.clone();
            tokio::spawn(async move { ownership.gave(&fence).await });
        }
    }
}

/// The store, and the hand on all clocks.
pub(crate) struct Time {
    hand: ManualClock,
    pub(crate) store: Arc<Rows>,
}

impl Time {
    pub(crate) fn new() -> Self {
        let (clock, hand) = Clock::manual(START);
        Self { hand, store: Arc::new(Rows { clock, rows: Mutex::default() }) }
    }

    /// A place for a node.
    pub(crate) fn place(&self) -> Place {
        let (clock, hand) = Clock::manual(START);
        let cut = Arc::new(AtomicBool::new(false));
        let store = Store::new(Way { store: self.store.clone(), cut: cut.clone() }, clock.clone());
        Place { store, clock, cut, tasks: Tasks::new(Shutdown::new()), hand }
    }

    /// Moves all clocks, and lets everybody run for so many turns.
    pub(crate) async fn pass(&self, nodes: impl Iterator<Item = &mut Node>, time: Duration, turns: usize) {
        self.hand.advance(time);
        nodes.for_each(|node| node.pass(time));
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }
}
