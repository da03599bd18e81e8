//! Several nodes, and a directory that tests hold in their hands.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tenure::{
    link::{Address, Dial, Directory, Downlink, Node as _, Owner, Uplink},
    runtime::{Changes, Watcher},
};
use tenure_shared::{RoomId, ShardId, Term};

use super::node::{Door, FakeNode};

pub const SHARDS: u32 = 16;

/// Where shards are; at first all at the first node, for term 5.
pub struct Cluster {
    pub nodes: Vec<Arc<FakeNode>>,
    owners: Mutex<BTreeMap<ShardId, Owner>>,
    /// How many of the nodes serve.
    listed: Mutex<Vec<Address>>,
    changes: Changes,
    refreshed: AtomicUsize,
}

pub fn address(n: usize) -> Address {
    Address::from(format!("node-{n}"))
}

impl Cluster {
    pub fn new(nodes: usize) -> Arc<Self> {
        Arc::new(Self {
            nodes: (0..nodes).map(|_| FakeNode::new()).collect(),
            owners: Mutex::default(),
            listed: Mutex::new((0..nodes).map(address).collect()),
            changes: Changes::new(),
            refreshed: AtomicUsize::new(0),
        })
    }

    /// The directory says that the room's shard is there.
    pub fn own(&self, room: &RoomId, node: Option<usize>, term: u64) {
        let owner = Owner { term: Term(term), address: node.map(address) };
        self.owners.lock().insert(room.shard(SHARDS), owner);
        self.changes.tell();
    }

    /// How often somebody found it to be behind.
    pub fn refreshed(&self) -> usize {
        self.refreshed.load(Ordering::SeqCst)
    }

    /// These nodes serve.
    pub fn list(&self, nodes: &[usize]) {
        *self.listed.lock() = nodes.iter().copied().map(address).collect();
        self.changes.tell();
    }
}

impl Directory for Cluster {
    fn shards(&self) -> u32 {
        SHARDS
    }

    fn owner(&self, shard: ShardId) -> Option<Owner> {
        let first = Owner { term: Term(5), address: Some(address(0)) };
        Some(self.owners.lock().get(&shard).cloned().unwrap_or(first))
    }

    fn nodes(&self) -> Vec<Address> {
        self.listed.lock().clone()
    }

    fn changes(&self) -> Watcher {
        self.changes.watch()
    }

    fn refresh(&self) {
        self.refreshed.fetch_add(1, Ordering::SeqCst);
    }
}

impl Dial for Cluster {
    fn dial(&self, to: &Address, gateway: Arc<dyn Downlink>) -> Arc<dyn Uplink> {
        let node = (0..self.nodes.len()).find(|n| address(*n) == *to).expect("a node that exists");
        Door(self.nodes[node].clone()).connect(gateway)
    }
}
