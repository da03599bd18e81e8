//! The node's side: accepts links, each served by two tasks.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::io::split;

use super::{
    codec::PACKET_BYTES,
    handshake::{HANDSHAKE_BYTES, Refusal, shake},
    inbound::Inbound,
    life::{Cause, Life},
    node_end::{NodeEnd, WireDown},
    read::read,
    site::{Common, Peer, Site, Unproved},
    write::write,
};
use crate::{
    link::Node,
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
    /// Name, secret, clock, tasks, bounds.
    pub common: Common,
}

/// Accepts links until the tasks' signal to stop, and gives the address where.
///
/// # Errors
/// When the listener does not say where it listens.
pub fn listen<L: Listener>(parts: LinkParts<L>) -> io::Result<SocketAddr> {
    let LinkParts { listener, node, common } = parts;
    let address = listener.local_addr()?;
    let tasks = common.tasks.clone();
    let site = Site::of_node(common);
    tasks.spawn("link_accept", Kind::Essential, accept(site, listener, node));
    Ok(address)
}

async fn accept(site: Arc<Site>, mut listener: impl Listener, node: Arc<dyn Node>) {
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
                let (site, node) = (site.clone(), node.clone());
                tasks.spawn("link_node", Kind::PerConnection, async move {
                    run(&site, stream, peer, &*node, Some(place)).await;
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
    run(site, stream, peer, node, None).await;
}

async fn run(site: &Arc<Site>, stream: impl Stream, peer: Peer, node: &dyn Node, place: Option<Unproved>) {
    let (mut from, mut to) = split(stream);
    let mut inbound = Inbound::new(HANDSHAKE_BYTES);
    let shaken = tokio::select! {
        biased;
        () = site.common.tasks.shutdown().stopped() => return,
        shaken = shake(site, &peer, &mut from, &mut to, &mut inbound) => shaken,
    };
    let permit = shaken.and_then(|name| match site.links.clone().try_acquire_owned() {
        Ok(permit) => Ok((name, permit)),
        Err(_) => Err(Refusal::Crowded),
    });
    drop(place);
    let (name, permit) = match permit {
        Ok(found) => found,
        Err(refusal) => {
            site.metrics.handshake_failed(refusal.word());
            if refusal.is_mistake() && site.may_warn() {
                tracing::warn!(%peer, %refusal, "a gateway's link was refused");
            } else {
                tracing::debug!(%peer, %refusal, "a gateway's link was refused");
            }
            return;
        }
    };
    tracing::info!(%peer, gateway = name, "a gateway is linked");
    inbound.allow(PACKET_BYTES);
    let life = Life::new(site, peer);
    life.queue.open();
    let ending = Ending { life: life.clone(), _permit: permit };
    site.metrics.open.increment(1.0);
    let deaf = Some(site.limits().deaf_time);
    site.common.tasks.spawn("link_write", Kind::PerConnection, write(life.clone(), to, deaf));
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
        tracing::info!(peer = %self.life.peer, cause = cause.text, "a gateway's link ended");
    }
}
