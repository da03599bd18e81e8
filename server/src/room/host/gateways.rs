//! The gateways that are connected to this node, and what all of them are told.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use parking_lot::RwLock;
use tenure_shared::{ShardId, Term};

use super::core::Host;
use crate::{
    link::{Address, Directory as _, Downlink, GatewayId, ToGateway},
    runtime::{mailbox::Refused, tasks::Kind},
};

/// Why links break when the node ends.
const ENDED: &str = "the node has ended";

/// Gateways by the number that this node gave them; a number is never given again.
#[derive(Default)]
pub(super) struct Gateways {
    // In one order: a run of the simulation is to be repeated exactly.
    links: RwLock<BTreeMap<GatewayId, Arc<dyn Downlink>>>,
    given: AtomicU32,
    gone: AtomicU64,
    /// The node has ended; changed under the lock of `links`.
    ended: AtomicBool,
}

impl Gateways {
    /// One that comes after the node's end is told of it at once.
    pub(super) fn connect(&self, gateway: Arc<dyn Downlink>) -> GatewayId {
        let id = GatewayId(self.given.fetch_add(1, Ordering::Relaxed) + 1);
        let mut links = self.links.write();
        if self.ended.load(Ordering::Relaxed) {
            drop(links);
            gateway.broken(ENDED);
        } else {
            links.insert(id, gateway);
        }
        id
    }

    /// The gateway is gone: nothing is sent to it any more, and rooms let its seats go at their next tick.
    pub(super) fn disconnect(&self, id: GatewayId) {
        let link = self.links.write().remove(&id);
        self.gone.fetch_add(1, Ordering::AcqRel);
        // Outside of the lock: it may be the last handle of whatever the gateway is.
        drop(link);
    }

    /// The node ends: every link does.
    pub(super) fn end(&self) {
        let links = {
            let mut links = self.links.write();
            self.ended.store(true, Ordering::Relaxed);
            std::mem::take(&mut *links)
        };
        self.gone.fetch_add(1, Ordering::AcqRel);
        for link in links.into_values() {
            link.broken(ENDED);
        }
    }

    pub(super) fn is_connected(&self, id: GatewayId) -> bool {
        self.links.read().contains_key(&id)
    }

    /// Counts gateways that went.
    pub(super) fn gone(&self) -> u64 {
        self.gone.load(Ordering::Acquire)
    }

    pub(super) fn send(&self, gateway: GatewayId, message: ToGateway) -> Result<(), Refused<ToGateway>> {
        let link = self.links.read().get(&gateway).cloned();
        match link {
            Some(link) => link.send(message),
            None => Err(Refused::Closed(message)),
        }
    }

    fn all(&self) -> Vec<GatewayId> {
        self.links.read().keys().copied().collect()
    }
}

/// Where a shard that is not here is, as far as this node knows.
pub(super) fn moved(host: &Host, shard: ShardId, term: Term, next: Option<Address>) -> ToGateway {
    let own = host.ownership.incarnation();
    let view = host.ownership.view();
    let elsewhere = view.routes.get(&shard).is_some_and(|route| route.owner.is_some() && route.owner != own);
    let to = next.or_else(|| host.ownership.owner(shard).filter(|_| elsewhere)?.address);
    ToGateway::Moved { shard, term, to }
}

/// Tells every gateway that a shard is no longer here. One whose queue is full is told when it has room, also if the shard is back by then: of
/// the seats of this term it would never hear, and what is said late of a term that ended moves nobody of a later one.
pub(super) fn tell_moved(host: &Arc<Host>, shard: ShardId, term: Term, next: Option<Address>) {
    let message = moved(host, shard, term, next);
    let mut waiting = host.gateways.all();
    waiting.retain(|gateway| matches!(host.gateways.send(*gateway, message.clone()), Err(Refused::Full(_))));
    if waiting.is_empty() {
        return;
    }
    let host = host.clone();
    host.clone().tasks.spawn("moved", Kind::Job, async move {
        let mut attempt = 0;
        while !waiting.is_empty() && !host.shutdown.is_stopped() {
            host.pause(attempt).await;
            attempt += 1;
            waiting.retain(|gateway| matches!(host.gateways.send(*gateway, message.clone()), Err(Refused::Full(_))));
        }
    });
}
