//! Finds the node that owns a room, and keeps the links to all nodes.
//!
//! A seat is on one link ([`Place`]). It goes off it when the node says that the shard moved, when the link breaks, or when the
//! directory names an owner elsewhere for a higher term; the lanes of the fan-out take it off, behind everything that the link brought
//! before. Attaches are sent to whoever a former owner named, else to whom the directory names; a node is dialled when it serves, or is first
//! needed, and again with growing, random pauses. Links to nodes that are no longer listed are let go when nobody is on them.

mod choice;
mod link;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tenure_shared::ShardId;
use tokio::sync::Notify;

pub(super) use choice::{Route, order, pause};
pub(super) use link::{Link, Place, Register};

use super::fanout::{FanOut, Item, Off};
use crate::{
    link::{Address, Dial, Directory, ToGateway},
    runtime::{Clock, Mono, Rng, Shutdown, faults},
};
use choice::Hints;
use link::Down;

/// How often links that are to be let go are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// A node, as far as it was dialled.
#[derive(Default)]
struct Peer {
    link: Option<Arc<Link>>,
    /// Links in a row that ended before anything was heard.
    failures: u32,
    /// Not dialled again before this moment.
    not_before: Mono,
}

impl Peer {
    /// Its link has ended.
    fn let_go(&mut self, now: Mono, rng: &Rng) {
        let Some(link) = self.link.take() else { return };
        self.failures = if link.was_open() { 0 } else { self.failures.saturating_add(1) };
        self.not_before = now.plus(pause(self.failures, rng));
    }
}

/// The way from this gateway to all nodes.
pub(super) struct Router {
    pub(super) directory: Arc<dyn Directory>,
    dial: Arc<dyn Dial>,
    clock: Clock,
    rng: Rng,
    fan_out: Arc<FanOut>,
    /// Seats between owners.
    pub(super) waiting: Arc<Register>,
    /// One per address that the directory lists, a former owner named, or a seat is at.
    peers: Mutex<BTreeMap<Address, Peer>>,
    hints: Mutex<Hints>,
    /// Links that ended, for the task.
    ended: Mutex<Vec<Arc<Link>>>,
    wake: Notify,
    next: AtomicU64,
}

impl Router {
    pub(super) fn new(
        directory: Arc<dyn Directory>,
        dial: Arc<dyn Dial>,
        clock: Clock,
        rng: Rng,
        fan_out: Arc<FanOut>,
    ) -> Arc<Self> {
        Arc::new(Self {
            directory,
            dial,
            clock,
            rng,
            fan_out,
            waiting: Arc::default(),
            peers: Mutex::default(),
            hints: Mutex::default(),
            ended: Mutex::default(),
            wake: Notify::new(),
            next: AtomicU64::new(1),
        })
    }

    /// The owner's link. Without one the directory is told that it is behind.
    pub(super) fn to_owner(self: &Arc<Self>, shard: ShardId) -> Option<Arc<Link>> {
        match self.route(shard) {
            Some(route) => self.to(&route.address),
            None => {
                self.directory.look_for(shard);
                None
            }
        }
    }

    /// The link to this node; `None` while it is too early to dial it again.
    pub(super) fn to(self: &Arc<Self>, address: &Address) -> Option<Arc<Link>> {
        let now = self.clock.now();
        let link = {
            let mut peers = self.peers.lock();
            let peer = peers.entry(address.clone()).or_default();
            if let Some(link) = &peer.link {
                if !link.is_broken() {
                    return Some(link.clone());
                }
                peer.let_go(now, &self.rng);
            }
            if now < peer.not_before {
                return None;
            }
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            let link = Arc::new(Link::new(id, address.clone(), self.waiting.clone(), Arc::downgrade(self)));
            peer.link = Some(link.clone());
            link
        };
        // Not under the lock: the other end may speak, or end, at once.
        let (weak, router, fan_out) = (Arc::downgrade(&link), Arc::downgrade(self), self.fan_out.clone());
        link.opened(self.dial.dial(address, Arc::new(Down { link: weak, router, fan_out })));
        Some(link)
    }

    fn route(&self, shard: ShardId) -> Option<Route> {
        let known = self.directory.owner(shard);
        self.hints.lock().route(shard, known)
    }

    /// A node said that it is not the owner.
    fn corrected(&self, shard: ShardId, message: &ToGateway, by: &Link) {
        let mut hints = self.hints.lock();
        match message {
            ToGateway::Moved { term, to, .. } if shard.0 < self.directory.shards() => {
                faults::point("handoff.gateway.moved");
                let to = to.clone().filter(|to| *to != by.address);
                hints.moved(shard, *term, to, self.directory.owner(shard).as_ref());
            }
            _ => hints.wrong(shard, &by.address),
        }
        drop(hints);
        if shard.0 < self.directory.shards() {
            self.directory.look_for(shard);
        }
    }

    fn ended(&self, link: Arc<Link>) {
        for shard in link.seats.shards() {
            self.hints.lock().wrong(shard, &link.address);
        }
        self.ended.lock().push(link);
        self.wake.notify_one();
    }

    /// Tells the lanes of links that ended and of owners that changed, until the signal.
    pub(super) async fn run(self: Arc<Self>, stop: Shutdown) {
        let mut changes = self.directory.changes();
        let mut told = BTreeMap::new();
        let mut alone = false;
        loop {
            let ended = std::mem::take(&mut *self.ended.lock());
            for link in ended {
                let now = self.clock.now();
                if let Some(peer) = self.peers.lock().get_mut(&link.address)
                    && peer.link.as_ref().is_some_and(|own| own.id == link.id)
                {
                    peer.let_go(now, &self.rng);
                }
                self.fan_out.tell(&Item::Off { link, shard: None, why: Off::Broken }).await;
            }
            self.compare(&mut told).await;
            self.reach();
            let again = self.let_go();
            let changed = async { if alone { std::future::pending().await } else { changes.changed().await } };
            let look = async { if again { self.clock.sleep(LOOK).await } else { std::future::pending().await } };
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = self.wake.notified() => {}
                changed = changed => alone = changed.is_err(),
                () = look => {}
            }
        }
    }

    /// Compares where seats are with where they should be.
    async fn compare(&self, told: &mut BTreeMap<ShardId, Route>) {
        let links: Vec<Arc<Link>> = self.peers.lock().values().filter_map(|peer| peer.link.clone()).collect();
        for link in links {
            for shard in link.seats.shards() {
                let Some(route) = self.route(shard).filter(|route| route.address != link.address) else { continue };
                let off = Item::Off { link: link.clone(), shard: Some(shard), why: Off::Newer(route.term) };
                self.fan_out.tell(&off).await;
            }
        }
        let waiting: BTreeSet<ShardId> = self.waiting.shards().into_iter().collect();
        told.retain(|shard, _| waiting.contains(shard));
        for shard in waiting {
            let Some(route) = self.route(shard) else { continue };
            if told.get(&shard) != Some(&route) {
                told.insert(shard, route);
                self.fan_out.tell(&Item::Found { shard, waiting: self.waiting.clone() }).await;
            }
        }
    }

    /// Opens links to nodes that serve before anybody needs them: who follows a shard to a new node is not to wait for a handshake. One that
    /// cannot be reached is tried again when somebody does need it.
    fn reach(self: &Arc<Self>) {
        for address in self.directory.nodes() {
            let is_new = !self.peers.lock().contains_key(&address);
            if is_new {
                drop(self.to(&address));
            }
        }
    }

    /// Lets links go that nobody needs; `true` if some are to be looked at again.
    fn let_go(&self) -> bool {
        let listed: BTreeSet<Address> = self.directory.nodes().into_iter().collect();
        let now = self.clock.now();
        let mut peers = self.peers.lock();
        let hints = self.hints.lock();
        // Whoever sends through a link, or has a seat on it, holds it.
        peers.retain(|address, peer| {
            listed.contains(address)
                || hints.names(address)
                || peer.link.as_ref().map_or(now < peer.not_before, |link| Arc::strong_count(link) > 1)
        });
        peers.keys().any(|address| !listed.contains(address))
    }
}

#[cfg(test)]
mod tests;
