//! What all links of one side of a process share.

use std::{collections::BTreeMap, fmt, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Limits, handshake::Role, metrics::Metrics};
use crate::{
    config::Secret,
    runtime::{Clock, Mono, Rng, Tasks},
};

/// Longest name of a node in a handshake, bytes.
pub(super) const NAME_BYTES: usize = 64;
/// Warnings that a peer can cause at will: one in this time, the rest as `debug`; all are counted.
const WARN_EVERY: std::time::Duration = std::time::Duration::from_secs(5);

/// What a process brings to its links.
#[derive(Clone, Debug)]
pub struct Common {
    /// Name of this node, for the peers' logs; what is longer than 64 bytes is cut.
    pub name: String,
    /// Says which cluster this is: a hash of what its processes agreed on. Peers with another value are refused.
    pub cluster: u64,
    /// The cluster's secret. Without one links stay on the machine.
    pub secret: Option<Secret>,
    /// Time.
    pub clock: Clock,
    /// Chance, for nonces.
    pub rng: Rng,
    /// What tasks run under; links end with it.
    pub tasks: Tasks,
    /// Bounds.
    pub limits: Limits,
}

/// Who is at the other end of a stream.
#[derive(Clone)]
pub struct Peer {
    /// For logs.
    pub address: Arc<str>,
    /// Whether the stream stays on this machine.
    pub loopback: bool,
}

impl Peer {
    /// A peer on this machine.
    pub fn local(address: &str) -> Self {
        Self { address: address.into(), loopback: true }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

/// One side of a process: all links that it accepts, or all that it opens.
pub struct Site {
    pub(super) common: Common,
    pub(super) role: Role,
    pub(super) metrics: Metrics,
    pub(super) links: Arc<Semaphore>,
    handshakes: Arc<Semaphore>,
    /// Of these, by address; no more entries than handshakes.
    by_address: Mutex<BTreeMap<IpAddr, usize>>,
    warned: Mutex<Option<Mono>>,
}

impl Site {
    /// The side that rooms are on: for [`super::serve`].
    pub fn of_node(common: Common) -> Arc<Self> {
        Self::new(common, Role::Node)
    }

    /// The side that players' sockets are on: for [`super::client`].
    pub fn of_gateway(common: Common) -> Arc<Self> {
        Self::new(common, Role::Gateway)
    }

    /// The side that speaks to other room nodes.
    pub(super) fn of_peer(common: Common) -> Arc<Self> {
        Self::new(common, Role::Peer)
    }

    fn new(mut common: Common, role: Role) -> Arc<Self> {
        common.name.truncate(common.name.floor_char_boundary(NAME_BYTES));
        let limits = &mut common.limits;
        limits.frame_bytes = limits.frame_bytes.min(limits.down_bytes);
        let links = Arc::new(Semaphore::new(limits.links.min(Semaphore::MAX_PERMITS)));
        let handshakes = Arc::new(Semaphore::new(limits.handshakes.min(Semaphore::MAX_PERMITS)));
        Arc::new(Self {
            metrics: Metrics::new(role),
            common,
            role,
            links,
            handshakes,
            by_address: Mutex::default(),
            warned: Mutex::new(None),
        })
    }

    /// A place for one that has not proved anything yet; `None` if all are taken, or those of its address.
    pub(super) fn unproved(self: &Arc<Self>, from: IpAddr) -> Option<Unproved> {
        let permit = self.handshakes.clone().try_acquire_owned().ok()?;
        let from = from.to_canonical();
        let mut all = self.by_address.lock();
        let count = all.entry(from).or_default();
        if *count >= self.limits().handshakes_per_address.max(1) {
            return None;
        }
        *count += 1;
        Some(Unproved { site: self.clone(), from, _permit: permit })
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.common.limits
    }

    /// Whether the next complaint about a peer may be a warning.
    pub(super) fn may_warn(&self) -> bool {
        let now = self.common.clock.now();
        let mut warned = self.warned.lock();
        let may = warned.is_none_or(|at| now.since(at) >= WARN_EVERY);
        if may {
            *warned = Some(now);
        }
        may
    }
}

/// A place of a connection that has not proved anything yet.
pub(super) struct Unproved {
    site: Arc<Site>,
    from: IpAddr,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Unproved {
    fn drop(&mut self) {
        let mut all = self.site.by_address.lock();
        if let Some(count) = all.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.from);
            }
        }
    }
}
