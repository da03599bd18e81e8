//! How a node speaks to other room nodes: moves of shards, and messages of daemons.

use std::sync::Arc;

use super::{daemons::Later, server::Inside};
use crate::{
    daemon::DaemonInbox,
    handoff::{Handoff, HandoffParts, state::Times},
    link::{
        Address, PeerBody, PeerInbox, PeerMessage,
        net::{Common, PeerDialer},
    },
    room::host::RoomHost,
    runtime::Tasks,
};

/// What other nodes say, to whom it is for.
struct Inbox {
    handoff: Arc<Handoff>,
    daemons: Option<DaemonInbox>,
}

impl PeerInbox for Inbox {
    fn take(&self, message: PeerMessage) {
        match (&message.body, &self.daemons) {
            (PeerBody::Handoff(..), _) => self.handoff.take(message),
            (PeerBody::Other(..), Some(daemons)) => daemons.take(message),
            (PeerBody::Other(topic, _), None) => {
                tracing::debug!(topic, from = %message.from, "nobody here listens to this");
            }
        }
    }
}

/// Opens the way to other nodes, and lets the handoff move shards over it.
pub(super) fn start(
    inside: &Arc<Inside>,
    host: &RoomHost,
    own: Address,
    later: &Later,
    links: Common,
    tasks: &Tasks,
) -> Arc<dyn PeerInbox> {
    let peers = Arc::new(PeerDialer::new(links));
    later.set(peers.clone());
    let config = &inside.config.handoff;
    let handoff = Handoff::start(HandoffParts {
        hands: host.hands(),
        ownership: inside.ownership.clone(),
        peers: Some(peers),
        own,
        clock: inside.clock.clone(),
        tasks: tasks.clone(),
        times: Times { step: config.step_deadline, prepared: config.prepare_ttl },
    });
    let daemons = inside.daemons.clone().map(|daemons| DaemonInbox::new(daemons, tasks.clone()));
    Arc::new(Inbox { handoff, daemons })
}
