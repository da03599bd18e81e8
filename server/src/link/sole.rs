//! The directory of a process that has all rooms itself, and the way to them.

use std::sync::Arc;

use tenure_shared::{ShardId, Term};

use super::{Address, Dial, Directory, Downlink, Node, Owner, Uplink};
use crate::runtime::{Changes, Watcher};

/// One node that is asked for every room: what it does not own (yet) it says itself.
pub struct Sole {
    node: Arc<dyn Node>,
    address: Address,
    shards: u32,
    changes: Changes,
}

impl Sole {
    /// `shards`: into how many the rooms are divided.
    pub fn new(node: Arc<dyn Node>, shards: u32) -> Self {
        Self { node, address: Arc::from("local"), shards, changes: Changes::new() }
    }
}

impl Directory for Sole {
    fn shards(&self) -> u32 {
        self.shards
    }

    fn owner(&self, _: ShardId) -> Option<Owner> {
        Some(Owner { term: Term(0), address: Some(self.address.clone()) })
    }

    fn nodes(&self) -> Vec<Address> {
        vec![self.address.clone()]
    }

    fn changes(&self) -> Watcher {
        self.changes.watch()
    }

    fn refresh(&self) {}
}

impl Dial for Sole {
    fn dial(&self, _: &Address, gateway: Arc<dyn Downlink>) -> Arc<dyn Uplink> {
        self.node.connect(gateway)
    }
}
