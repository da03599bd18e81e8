//! The gateway's side: opens links, the one to the own node without a stream.

use std::{io, sync::Arc};

use tokio::io::split;

use super::{
    codec::PACKET_BYTES,
    gateway_end::{GatewayEnd, WireUp},
    handshake::{HANDSHAKE_BYTES, Refusal, shake},
    inbound::Inbound,
    life::{Cause, Life},
    read::read,
    site::{Common, Peer, Site},
    write::write,
};
use crate::{
    link::{Address, Dial, Downlink, Node, Uplink},
    runtime::{
        net::{Connector, Stream, Tcp},
        tasks::Kind,
    },
};

/// Opens links to nodes.
pub struct Dialer<C = Tcp> {
    own: Address,
    node: Option<Arc<dyn Node>>,
    connector: Arc<C>,
    site: Arc<Site>,
}

impl Dialer {
    /// By TCP. `own` is this process's address in the members' records, `node` its own room host if it has one.
    pub fn new(own: Address, node: Option<Arc<dyn Node>>, common: Common) -> Self {
        Self::with(own, node, common, Tcp)
    }
}

impl<C: Connector> Dialer<C> {
    /// By whatever opens streams.
    pub fn with(own: Address, node: Option<Arc<dyn Node>>, common: Common, connector: C) -> Self {
        Self { own, node, connector: Arc::new(connector), site: Site::of_gateway(common) }
    }
}

impl<C: Connector> Dial for Dialer<C> {
    fn dial(&self, address: &Address, gateway: Arc<dyn Downlink>) -> Arc<dyn Uplink> {
        if let Some(node) = self.node.as_ref().filter(|_| *address == self.own) {
            return node.connect(gateway);
        }
        let (connector, address2) = (self.connector.clone(), address.clone());
        let open = async move { connector.connect(&address2).await };
        start(&self.site, address.clone(), open, gateway)
    }
}

/// The gateway's side of one link over a stream that is open: the counterpart of [`super::serve`]. Messages are refused as `Full` until the
/// handshake is done. [`Downlink::broken`] is called exactly once when it fails or the link ends, and not at all when the uplink
/// was dropped first.
pub fn client(site: &Arc<Site>, stream: impl Stream, peer: &Peer, gateway: Arc<dyn Downlink>) -> Arc<dyn Uplink> {
    let loopback = peer.loopback;
    start(site, peer.address.clone(), async move { Ok((stream, loopback)) }, gateway)
}

fn start<S: Stream>(
    site: &Arc<Site>,
    address: Address,
    open: impl Future<Output = io::Result<(S, bool)>> + Send + 'static,
    gateway: Arc<dyn Downlink>,
) -> Arc<dyn Uplink> {
    // Whether it stays on this machine is known when it is open.
    let life = Life::new(site, Peer { address, loopback: false });
    let ending = Ending { life: life.clone(), gateway, open: false };
    site.common.tasks.spawn("link_gateway", Kind::PerConnection, run(ending, open));
    Arc::new(WireUp(life))
}

async fn run<S: Stream>(mut ending: Ending, open: impl Future<Output = io::Result<(S, bool)>>) {
    let life = ending.life.clone();
    let cause = tokio::select! {
        biased;
        cause = life.over() => cause,
        cause = linked(&mut ending, open) => cause,
    };
    life.end(cause);
}

/// Connects, shakes hands, reads to the end.
async fn linked<S: Stream>(ending: &mut Ending, open: impl Future<Output = io::Result<(S, bool)>>) -> Cause {
    let life = ending.life.clone();
    let site = &life.site;
    let opened = tokio::select! {
        biased;
        opened = open => opened.map_err(Refusal::Io),
        () = site.common.clock.sleep(site.limits().handshake_time) => Err(Refusal::Late),
    };
    let (stream, loopback) = match opened {
        Ok(opened) => opened,
        Err(refusal) => return refused(&life, &refusal),
    };
    let peer = Peer { address: life.peer.address.clone(), loopback };
    let (mut from, mut to) = split(stream);
    let mut inbound = Inbound::new(HANDSHAKE_BYTES);
    match shake(site, &peer, &mut from, &mut to, &mut inbound).await {
        Ok((name, _)) => tracing::info!(%peer, node = name, "linked to a node"),
        Err(refusal) => return refused(&life, &refusal),
    }
    inbound.allow(PACKET_BYTES);
    life.queue.open();
    ending.open = true;
    site.metrics.open.increment(1.0);
    // A node that reads nothing keeps its players waiting, but it lives as long as it is heard.
    site.common.tasks.spawn("link_write", Kind::PerConnection, write(life.clone(), to, None));
    let mut end = GatewayEnd::new(ending.gateway.clone());
    read(&life, &mut from, &mut inbound, &mut end).await
}

fn refused(life: &Life, refusal: &Refusal) -> Cause {
    life.site.metrics.handshake_failed(refusal.word());
    let peer = &life.peer;
    if refusal.is_mistake() && life.site.may_warn() {
        tracing::warn!(%peer, %refusal, "a link to a node could not be opened");
    } else {
        tracing::debug!(%peer, %refusal, "a link to a node could not be opened");
    }
    Cause::new("refused", refusal.to_string())
}

/// Tells the gateway once, also when the task is dropped or panics.
struct Ending {
    life: Arc<Life>,
    gateway: Arc<dyn Downlink>,
    open: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        // From here on messages are refused as closed.
        self.life.end(Cause::new("fault", "the task of the link ended"));
        let cause = self.life.cause();
        let metrics = &self.life.site.metrics;
        if self.open {
            metrics.open.decrement(1.0);
            metrics.ended(cause.word);
            tracing::info!(peer = %self.life.peer, cause = cause.text, "a link to a node ended");
        }
        if cause.word != "dropped" {
            self.gateway.broken(&cause.text);
        }
    }
}
