//! What a game says of its daemons: [`ShardedDaemonProcess`] and [`Singleton`], and what is wrong or unwise about it.

use std::{sync::Arc, time::Duration};

use super::user::{Act, Daemon, Typed};
use crate::config::Role;

/// Longest name of a set, bytes.
pub const NAME_BYTES: usize = 64;
/// Most daemons of one set.
pub const COUNT: u32 = 1_000_000;
/// Most earlier counts that a set may be rescaled from.
pub const RESCALES: usize = 8;
/// Most sets of one app.
pub const SETS: usize = 48;
/// More daemons than this in one set are rather rooms.
const MANY: u32 = 10_000;

/// Makes the daemon of an index, as an object.
pub(super) type Make = Arc<dyn Fn(u32) -> Box<dyn Act> + Send + Sync>;

/// A set of exactly `n` numbered daemons, spread evenly over the nodes of a role. Each index runs once in the cluster and comes back by
/// itself after any failure.
///
/// All nodes must have the same name, number and role: see [`ShardedDaemonProcess::rescale_from`] for another number.
#[derive(Clone)]
#[must_use = "a set runs when it is added to the app"]
pub struct ShardedDaemonProcess {
    pub(super) name: String,
    pub(super) count: u32,
    pub(super) role: Role,
    pub(super) from: Vec<u32>,
    pub(super) liveness: Duration,
    pub(super) restarts: u32,
    pub(super) window: Duration,
    pub(super) backoff: Duration,
    pub(super) mailbox: usize,
    pub(super) single: bool,
    pub(super) make: Option<Make>,
}

impl ShardedDaemonProcess {
    /// `n` daemons of this name. Give it a [`ShardedDaemonProcess::factory`].
    pub fn new(name: &str, n: u32) -> Self {
        Self {
            name: name.to_owned(),
            count: n,
            role: Role::Room,
            from: Vec::new(),
            liveness: Duration::from_secs(30),
            restarts: 3,
            window: Duration::from_secs(60),
            backoff: Duration::from_secs(1),
            mailbox: 256,
            single: false,
            make: None,
        }
    }

    /// Makes the daemon of an index: the same one for the same index, on whatever node.
    pub fn factory<D: Daemon>(mut self, make: impl Fn(u32) -> D + Send + Sync + 'static) -> Self {
        self.make = Some(Arc::new(move |index| Box::new(Typed(make(index)))));
        self
    }

    /// Which nodes run them; `room` unless said otherwise.
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// How old a daemon's mark of progress may get before it counts as hung; 30 s unless said otherwise, 0 turns it off.
    pub fn liveness_interval(mut self, interval: Duration) -> Self {
        self.liveness = interval;
        self
    }

    /// So many restarts of one index within `window` on one node; one more failure parks that index. 3 in 60 s unless said otherwise.
    pub fn restarts(mut self, restarts: u32, window: Duration) -> Self {
        (self.restarts, self.window) = (restarts, window);
        self
    }

    /// Wait before the first restart; it doubles with each, up to 30 times as much. 1 s unless said otherwise.
    pub fn backoff(mut self, backoff: Duration) -> Self {
        self.backoff = backoff;
        self
    }

    /// Messages that may wait for one daemon; 256 unless said otherwise. One more is refused as busy.
    pub fn mailbox(mut self, bound: usize) -> Self {
        self.mailbox = bound;
        self
    }

    /// This build's number takes the place of `n`: it runs the cluster's `n` until no node without this word serves. Then the former
    /// daemons are fenced off, and those of the new number start.
    pub fn rescale_from(mut self, n: u32) -> Self {
        self.from.push(n);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is wrong with it, for people.
    pub(super) fn faults(&self) -> Vec<String> {
        let name = &self.name;
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'_';
        let mut faults = Vec::new();
        if name.is_empty() || name.len() > NAME_BYTES || !name.bytes().all(plain) {
            faults.push(format!("daemons {name:?}: a name is 1 to {NAME_BYTES} of a-z, 0-9, - and _"));
        }
        if self.count == 0 || self.count > COUNT {
            faults.push(format!("daemons {name:?}: {} of them; 1 to {COUNT}", self.count));
        }
        if self.make.is_none() {
            faults.push(format!("daemons {name:?} have no factory"));
        }
        if self.from.len() > RESCALES || self.from.contains(&self.count) || self.from.contains(&0) {
            let count = self.count;
            faults.push(format!(
                "daemons {name:?}: rescale_from takes up to {RESCALES} other numbers than {count} and 0"
            ));
        }
        faults
    }

    /// What is unwise about it, for people.
    pub fn advice(&self) -> Option<String> {
        let name = &self.name;
        match self.count {
            1 if !self.single => Some(format!(
                "daemons {name:?}: a set of one is a Singleton, which says so and has an explicit hand-over"
            )),
            count if count > MANY => Some(format!(
                "daemons {name:?}: {count} of them all run at once and each has a claim of its own; for one per player or thing use \
                 rooms, which sleep when nobody needs them"
            )),
            _ => None,
        }
    }
}

impl std::fmt::Debug for ShardedDaemonProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardedDaemonProcess")
            .field("name", &self.name)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

/// One daemon for the whole cluster: a set of one, that moves when it is told to ([`super::Daemons::hand_over`]) or when its node goes.
#[derive(Clone, Debug)]
#[must_use = "a singleton runs when it is added to the app"]
pub struct Singleton(ShardedDaemonProcess);

impl Singleton {
    /// The one daemon of this name.
    pub fn new<D: Daemon>(name: &str, make: impl Fn() -> D + Send + Sync + 'static) -> Self {
        let mut set = ShardedDaemonProcess::new(name, 1).factory(move |_| make());
        set.single = true;
        Self(set)
    }

    /// Which nodes may run it; `room` unless said otherwise.
    pub fn role(self, role: Role) -> Self {
        Self(self.0.role(role))
    }

    /// As [`ShardedDaemonProcess::liveness_interval`].
    pub fn liveness_interval(self, interval: Duration) -> Self {
        Self(self.0.liveness_interval(interval))
    }

    /// As [`ShardedDaemonProcess::restarts`].
    pub fn restarts(self, restarts: u32, window: Duration) -> Self {
        Self(self.0.restarts(restarts, window))
    }

    /// As [`ShardedDaemonProcess::mailbox`].
    pub fn mailbox(self, bound: usize) -> Self {
        Self(self.0.mailbox(bound))
    }

    /// As [`ShardedDaemonProcess::backoff`].
    pub fn backoff(self, backoff: Duration) -> Self {
        Self(self.0.backoff(backoff))
    }
}

impl From<Singleton> for ShardedDaemonProcess {
    fn from(singleton: Singleton) -> Self {
        singleton.0
    }
}

/// What is wrong with these sets together.
pub fn faults(sets: &[ShardedDaemonProcess]) -> Vec<String> {
    let mut faults: Vec<String> = sets.iter().flat_map(ShardedDaemonProcess::faults).collect();
    if sets.len() > SETS {
        faults.push(format!("{} sets of daemons; at most {SETS}", sets.len()));
    }
    let mut names: Vec<(bool, &str)> = sets.iter().map(|set| (set.single, set.name.as_str())).collect();
    names.sort_unstable();
    for pair in names.windows(2).filter(|pair| pair[0].1 == pair[1].1) {
        faults.push(format!("daemons {:?} are there twice", pair[0].1));
    }
    faults
}
