//! Streams to other room nodes: opened when there is something to say, one per process, kept until they end.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::split;

use super::{
    codec::{PEER_BYTES, PING, read_to_peer, write_to_peer},
    handshake::{HANDSHAKE_BYTES, shake},
    inbound::Inbound,
    life::{Cause, Life},
    read::{Inlet, read},
    site::{Common, Peer, Site},
    write::write,
};
use crate::{
    link::{Address, PeerInbox, PeerMessage, Peers},
    runtime::{
        Mono,
        mailbox::Refused,
        net::{Connector, Stream, Tcp},
        tasks::Kind,
    },
};

/// How long nothing is tried again at an address at which nobody was.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(200);
/// Most addresses that are known at a time: nodes of a cluster, with room for those that were replaced.
const ADDRESSES: usize = 1_024;

/// Sends to other nodes.
pub struct PeerDialer<C = Tcp> {
    connector: Arc<C>,
    site: Arc<Site>,
    links: Mutex<BTreeMap<Address, Link>>,
}

struct Link {
    life: Arc<Life>,
    /// Begun.
    at: Mono,
}

impl PeerDialer {
    /// By TCP.
    pub fn new(common: Common) -> Self {
        Self::with(common, Tcp)
    }
}

impl<C: Connector> PeerDialer<C> {
    /// By whatever opens streams.
    pub fn with(common: Common, connector: C) -> Self {
        Self { connector: Arc::new(connector), site: Site::of_peer(common), links: Mutex::default() }
    }

    /// The stream to an address, begun now if there is none; `None` for a moment after one that ended.
    fn link(&self, to: &Address) -> Option<Arc<Life>> {
        let now = self.site.common.clock.now();
        let mut links = self.links.lock();
        let ended = match links.get(to) {
            Some(link) if !link.life.ended.is_stopped() => return Some(link.life.clone()),
            Some(link) => Some(link.at),
            None => None,
        };
        if ended.is_some_and(|at| now.since(at) < PAUSE) {
            return None;
        }
        links.retain(|_, link| !link.life.ended.is_stopped());
        if links.len() >= ADDRESSES {
            return None;
        }
        let life = Life::new(&self.site, Peer { address: to.clone(), loopback: false });
        // What is said before the handshake is done waits; if it fails, whoever waits for an answer has a deadline.
        life.queue.open();
        links.insert(to.clone(), Link { life: life.clone(), at: now });
        drop(links);
        let (connector, address, own) = (self.connector.clone(), to.clone(), life.clone());
        self.site.common.tasks.spawn("link_peer", Kind::PerConnection, async move {
            let open = async move { connector.connect(&address).await };
            run(own, open).await;
        });
        Some(life)
    }
}

impl<C: Connector> Peers for PeerDialer<C> {
    fn send(&self, to: &Address, message: PeerMessage) -> Result<(), Refused<PeerMessage>> {
        match self.link(to) {
            Some(life) => life.offer(message, self.site.limits().up_bytes, false, write_to_peer),
            None => Err(Refused::Closed(message)),
        }
    }
}

impl<C> Drop for PeerDialer<C> {
    fn drop(&mut self) {
        for link in self.links.lock().values() {
            link.life.end(Cause::dropped());
        }
    }
}

async fn run<S: Stream>(life: Arc<Life>, open: impl Future<Output = std::io::Result<(S, bool)>>) {
    // Dropped or panicking it ends the link as well.
    let ending = Ending { life: life.clone(), open: false };
    let cause = tokio::select! {
        biased;
        cause = life.over() => cause,
        cause = linked(ending, open) => cause,
    };
    life.end(cause);
}

async fn linked<S: Stream>(mut ending: Ending, open: impl Future<Output = std::io::Result<(S, bool)>>) -> Cause {
    let life = ending.life.clone();
    let site = &life.site;
    let opened = tokio::select! {
        biased;
        opened = open => opened,
        () = site.common.clock.sleep(site.limits().handshake_time) => Err(std::io::ErrorKind::TimedOut.into()),
    };
    let (stream, loopback) = match opened {
        Ok(opened) => opened,
        Err(error) => return Cause::new("refused", error.to_string()),
    };
    let peer = Peer { address: life.peer.address.clone(), loopback };
    let (mut from, mut to) = split(stream);
    let mut inbound = Inbound::new(HANDSHAKE_BYTES);
    match shake(site, &peer, &mut from, &mut to, &mut inbound).await {
        Ok((node, _)) => tracing::debug!(%peer, node, "linked to a node, as another node"),
        Err(refusal) => {
            site.metrics.handshake_failed(refusal.word());
            if refusal.is_mistake() && site.may_warn() {
                tracing::warn!(%peer, %refusal, "a link to another node could not be opened");
            }
            return Cause::new("refused", refusal.to_string());
        }
    }
    inbound.allow(PEER_BYTES);
    ending.open = true;
    site.metrics.open.increment(1.0);
    site.common.tasks.spawn("link_write", Kind::PerConnection, write(life.clone(), to, None));
    read(&life, &mut from, &mut inbound, &mut OnlyPings).await
}

struct Ending {
    life: Arc<Life>,
    open: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.life.end(Cause::new("fault", "the task of the link ended"));
        let cause = self.life.cause();
        if self.open {
            self.life.site.metrics.open.decrement(1.0);
            self.life.site.metrics.ended(cause.word);
        }
        tracing::debug!(peer = %self.life.peer, cause = cause.text, "a link to another node ended");
    }
}

/// The end that speaks: answers come by the other node's own stream.
struct OnlyPings;

impl Inlet for OnlyPings {
    fn take(&mut self, packet: &Bytes) -> Result<(), Cause> {
        match packet.as_ref() == &PING[super::codec::LENGTH..] {
            true => Ok(()),
            false => Err(Cause::new("protocol", "a node answered on a stream on which it only listens")),
        }
    }
}

/// The end that listens.
pub(super) struct PeerEnd(pub(super) Arc<dyn PeerInbox>);

impl Inlet for PeerEnd {
    fn take(&mut self, packet: &Bytes) -> Result<(), Cause> {
        if let Some(message) = read_to_peer(packet).map_err(|error| Cause::protocol(&error))? {
            self.0.take(message);
        }
        Ok(())
    }
}
