//! The node's side: accepts the streams of gateways and of other nodes, each served by two tasks.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::io::split;

use super::{
    codec::{PACKET_BYTES, PEER_BYTES},
    handshake::{HANDSHAKE_BYTES, Refusal, Role, shake},
    inbound::Inbound,
    life::{Cause, Life},
    node_end::{NodeEnd, WireDown},
    peers::PeerEnd,
    read::read,
    site::{Common, Peer, Site, Unproved},
    write::write,
};
use crate::{
    link::{Node, PeerInbox},
    runtime::{
        net::{Listener, Stream, is_loopback},
        tasks::Kind,
    },
};

/// Pause after an accept that failed: out of file descriptors, which passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a node's links need.
pub struct LinkParts<L> {
    /// Where gateways come.
    pub listener: L,
    /// The room host that they are connected to.
    pub node: Arc<dyn Node>,
    /// Where messages of other room nodes go; without one their streams are refused.
    pub inbox: Option<Arc<dyn PeerInbox>>,
    /// Name, secret, clock, tasks, bounds.
    pub common: Common,
}

/// Accepts links until the tasks' signal to stop, and gives the address where.
///
/// # Errors
/// When the listener does not say where it listens.
pub fn listen<L: Listener>(parts: LinkParts<L>) -> io::Result<SocketAddr> {
    let LinkParts { listener, node, inbox, common } = parts;
    let address = listener.local_addr()?;
    let tasks = common.tasks.clone();
    let site = Site::of_node(common);
    tasks.spawn("link_accept", Kind::Essential, accept(site, listener, node, inbox));
    Ok(address)
}

async fn accept(site: Arc<Site>, mut listener: impl Listener, node: Arc<dyn Node>, inbox: Option<Arc<dyn PeerInbox>>) {
    let tasks = site.common.tasks.clone();
    loop {
        let accepted = tokio::select! {
            biased;
            () = tasks.shutdown().stopped() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, from)) => {
                let peer = Peer { address: from.to_string().into(), loopback: is_loopback(from) };
                let Some(place) = site.unproved(from.ip()) else {
                    site.metrics.handshake_failed("overrun");
                    continue;
                };
                let (site, node, inbox) = (site.clone(), node.clone(), inbox.clone());
                tasks.spawn("link_node", Kind::PerConnection, async move {
                    run(&site, stream, peer, (&*node, inbox), Some(place)).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a link could not be accepted");
                site.common.clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one link to its end: the node's side of [`super::client`].
pub async fn serve(site: &Arc<Site>, stream: impl Stream, peer: Peer, node: &dyn Node) {
    run(site, stream, peer, (node, None), None).await;
}

async fn run(
    site: &Arc<Site>,
    stream: impl Stream,
    peer: Peer,
    (node, inbox): (&dyn Node, Option<Arc<dyn PeerInbox>>),
    place: Option<Unproved>,
) {
    let (mut from, mut to) = split(stream);
    let mut inbound = Inbound::new(HANDSHAKE_BYTES);
    let shaken = tokio::select! {
        biased;
        () = site.common.tasks.shutdown().stopped() => return,
        shaken = shake(site, &peer, &mut from, &mut to, &mut inbound) => shaken,
    };
    let permit = shaken.and_then(|(name, role)| match site.links.clone().try_acquire_owned() {
        _ if role == Role::Peer && inbox.is_none() => Err(Refusal::Role(role, site.role)),
        Ok(permit) => Ok((name, role, permit)),
        Err(_) => Err(Refusal::Crowded),
    });
    drop(place);
    let (name, role, permit) = match permit {
        Ok(found) => found,
        Err(refusal) => {
            site.metrics.handshake_failed(refusal.word());
            if refusal.is_mistake() && site.may_warn() {
                tracing::warn!(%peer, %refusal, "a link was refused");
            } else {
                tracing::debug!(%peer, %refusal, "a link was refused");
            }
            return;
        }
    };
    if role == Role::Peer {
        tracing::debug!(%peer, node = name, "another node is linked");
    } else {
        tracing::info!(%peer, gateway = name, "a gateway is linked");
    }
    inbound.allow(if role == Role::Peer { PEER_BYTES } else { PACKET_BYTES });
    let life = Life::new(site, peer);
    life.queue.open();
    let ending = Ending { life: life.clone(), _permit: permit };
    site.metrics.open.increment(1.0);
    let deaf = Some(site.limits().deaf_time);
    site.common.tasks.spawn("link_write", Kind::PerConnection, write(life.clone(), to, deaf));
    let other = inbox.filter(|_| role == Role::Peer);
    if let Some(inbox) = other {
        let cause = read(&life, &mut from, &mut inbound, &mut PeerEnd(inbox)).await;
        life.end(cause);
        return drop(ending);
    }
    let mut end = NodeEnd::new(&life, node.connect(Arc::new(WireDown(life.clone()))));
    let cause = read(&life, &mut from, &mut inbound, &mut end).await;
    life.end(cause);
    // The uplink goes with the end: after the queue is closed, so that nothing more is written down.
    drop(end);
    drop(ending);
}

/// Counts the end once, also when the task is dropped or panics.
struct Ending {
    life: Arc<Life>,
    _permit: tokio::sync::OwnedSemaphorePermit,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.life.end(Cause::new("fault", "the task of the link ended"));
        let cause = self.life.cause();
        let metrics = &self.life.site.metrics;
        metrics.open.decrement(1.0);
        metrics.ended(cause.word);
        tracing::info!(peer = %self.life.peer, cause = cause.text, "a link ended");
    }
}
