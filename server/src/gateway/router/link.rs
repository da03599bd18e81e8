//! A link that was dialled: what goes up through it, what comes down, and which seats are on it.

use std::{
    collections::BTreeMap,
    ops::Bound::Included,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tenure_shared::{ShardId, Term};

use super::Router;
use crate::{
    gateway::fanout::FanOut,
    link::{Address, ConnId, Downlink, ToGateway, ToNode, Uplink},
    runtime::{Mono, mailbox::Refused},
};

/// How often a node is told of a higher term of a shard, at most.
const TERM_SEEN: Duration = Duration::from_secs(1);

/// The connections that have a seat, or have asked for one, at some place; by shard.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Register(Mutex<BTreeMap<(ShardId, ConnId), u32>>);

impl Register {
    fn enter(&self, at: (ShardId, ConnId)) {
        *self.0.lock().entry(at).or_default() += 1;
    }

    fn leave(&self, at: (ShardId, ConnId)) {
        let mut all = self.0.lock();
        if let Some(count) = all.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                all.remove(&at);
            }
        }
    }

    /// The shards that anybody is here for.
    pub(in crate::gateway) fn shards(&self) -> Vec<ShardId> {
        let all = self.0.lock();
        let mut shards: Vec<ShardId> = all.keys().map(|(shard, _)| *shard).collect();
        shards.dedup();
        shards
    }

    /// Who is here for this shard, or for any.
    pub(in crate::gateway) fn conns(&self, shard: Option<ShardId>) -> Vec<ConnId> {
        let all = self.0.lock();
        match shard {
            None => all.keys().map(|(_, conn)| *conn).collect(),
            Some(shard) => {
                let (first, last) = ((shard, ConnId(0)), (shard, ConnId(u64::MAX)));
                all.range((Included(first), Included(last))).map(|((_, conn), _)| *conn).collect()
            }
        }
    }
}

/// An entry in a [`Register`], as long as it lives: on a link, or among those between owners.
pub(in crate::gateway) struct Place {
    register: Arc<Register>,
    at: (ShardId, ConnId),
    link: Option<Arc<Link>>,
}

impl Place {
    fn new(register: &Arc<Register>, at: (ShardId, ConnId), link: Option<Arc<Link>>) -> Self {
        register.enter(at);
        Self { register: register.clone(), at, link }
    }

    /// The link, unless this is between owners.
    pub(in crate::gateway) fn link(&self) -> Option<&Arc<Link>> {
        self.link.as_ref()
    }

    /// The shard of the room it is for.
    pub(in crate::gateway) fn shard(&self) -> ShardId {
        self.at.0
    }

    /// Whether it is on this link.
    pub(in crate::gateway) fn is_on(&self, link: u64) -> bool {
        self.link.as_ref().is_some_and(|own| own.id == link)
    }

    /// Off the link: from here on between owners.
    pub(in crate::gateway) fn leave(&mut self) {
        if let Some(link) = self.link.take() {
            *self = Self::new(&link.waiting, self.at, None);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.register.leave(self.at);
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Place({:?}, {:?})", self.at, self.link.as_ref().map(|link| link.id))
    }
}

/// A link to one node, from its dialling to its end. A node that is dialled again has another.
pub(in crate::gateway) struct Link {
    /// Never used again in the gateway's life.
    pub(in crate::gateway) id: u64,
    pub(in crate::gateway) address: Address,
    uplink: OnceLock<Arc<dyn Uplink>>,
    broken: AtomicBool,
    /// Something came from the other end: it was open once.
    heard: AtomicBool,
    pub(in crate::gateway) seats: Arc<Register>,
    waiting: Arc<Register>,
    /// When the node was last told of a higher term; at most one entry per shard.
    told: Mutex<BTreeMap<ShardId, Mono>>,
    router: Weak<Router>,
}

impl Link {
    pub(super) fn new(id: u64, address: Address, waiting: Arc<Register>, router: Weak<Router>) -> Self {
        Self {
            id,
            address,
            uplink: OnceLock::new(),
            broken: AtomicBool::new(false),
            heard: AtomicBool::new(false),
            seats: Arc::default(),
            waiting,
            told: Mutex::default(),
            router,
        }
    }

    /// A link that is open, for tests.
    #[cfg(test)]
    pub(in crate::gateway) fn open(id: u64, uplink: Arc<dyn Uplink>) -> Arc<Self> {
        let link = Self::new(id, Address::from(format!("node-{id}")), Arc::default(), Weak::new());
        link.opened(uplink);
        Arc::new(link)
    }

    pub(super) fn opened(&self, uplink: Arc<dyn Uplink>) {
        drop(self.uplink.set(uplink));
    }

    /// Whether it has ended: nothing comes any more, and nothing is taken.
    pub(in crate::gateway) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(super) fn was_open(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }

    /// It has ended, or is to end: nothing is taken any more, either way, and its seats go off it. When the last of them has, the uplink is
    /// dropped, and the node takes for dropped what it still has of this gateway. Does nothing the second time.
    pub(in crate::gateway) fn end(self: &Arc<Self>, why: &str) {
        if self.broken.swap(true, Ordering::AcqRel) {
            return;
        }
        tracing::info!(node = &*self.address, why, "a link to a node ended");
        if let Some(router) = self.router.upgrade() {
            router.ended(self.clone());
        }
    }

    /// A place on it.
    pub(in crate::gateway) fn place(self: &Arc<Self>, shard: ShardId, conn: ConnId) -> Place {
        Place::new(&self.seats, (shard, conn), Some(self.clone()))
    }

    /// Tells the node of a higher term than the one that it says, at most once a second and shard; `true` if it was told.
    pub(in crate::gateway) fn term_seen(&self, shard: ShardId, term: Term, now: Mono) -> bool {
        {
            let mut told = self.told.lock();
            if told.get(&shard).is_some_and(|at| now.since(*at) < TERM_SEEN) {
                return false;
            }
            told.insert(shard, now);
        }
        let taken = self.send(ToNode::TermSeen { shard, term }).is_ok();
        if !taken {
            self.told.lock().remove(&shard);
        }
        taken
    }
}

impl Uplink for Link {
    fn send(&self, message: ToNode) -> Result<(), Refused<ToNode>> {
        if self.is_broken() {
            return Err(Refused::Closed(message));
        }
        match self.uplink.get() {
            Some(uplink) => uplink.send(message),
            // Being dialled.
            None => Err(Refused::Full(message)),
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Link({} to {})", self.id, self.address)
    }
}

/// The end that the node sends to: it knows which link it is.
pub(super) struct Down {
    // The node's end holds this, and the link holds the node's end: when the gateway lets the link go, it ends.
    pub(super) link: Weak<Link>,
    pub(super) router: Weak<Router>,
    pub(super) fan_out: Arc<FanOut>,
}

impl Downlink for Down {
    fn send(&self, message: ToGateway) -> Result<(), Refused<ToGateway>> {
        let Some(link) = self.link.upgrade().filter(|link| !link.is_broken()) else {
            return Err(Refused::Closed(message));
        };
        if !link.heard.load(Ordering::Relaxed) {
            link.heard.store(true, Ordering::Relaxed);
        }
        // Looked at first: frames come all the time, and name no owner.
        if let ToGateway::Moved { shard, .. } | ToGateway::NotOwner { shard, .. } = &message
            && let Some(router) = self.router.upgrade()
        {
            router.corrected(*shard, &message, &link);
        }
        self.fan_out.send(link, message)
    }

    fn broken(&self, why: &str) {
        if let Some(link) = self.link.upgrade() {
            link.end(why);
        }
    }
}
