//! Links between gateways and room nodes: the messages, and the interface that a channel or a network stream gives.
//!
//! In one process a link is two trait objects: [`Uplink`] puts a message straight into the room host's inboxes, [`Downlink`] into
//! the gateway's fan-out. Both never wait and never block: a full queue gives the message back. Between processes the same two
//! traits stand at the ends of one stream.

mod directory;
pub mod lobby;
mod message;
pub mod net;
mod peer;
mod sole;

pub use directory::{Address, Dial, Directory, Owner};
pub use lobby::Coordinators;
pub use message::*;
pub use peer::*;
pub use sole::Sole;

use crate::runtime::mailbox::Refused;

/// Gateway → node. Dropped, the link ends: the node takes every seat behind it for dropped.
pub trait Uplink: Send + Sync + 'static {
    /// Hands a message over, stamped with the node's number of this gateway. Messages of one connection arrive in order.
    ///
    /// # Errors
    /// Gives the message back when a queue on the way is at its bound (`Full`) or the link is broken (`Closed`); nothing was taken then.
    fn send(&self, message: ToNode) -> Result<(), Refused<ToNode>>;
}

/// Node → gateway.
pub trait Downlink: Send + Sync + 'static {
    /// Hands a message over. Messages of one room arrive in order.
    ///
    /// # Errors
    /// Gives the message back when the gateway's queue is at its bound or the gateway is gone; nothing was taken then.
    fn send(&self, message: ToGateway) -> Result<(), Refused<ToGateway>>;

    /// The link is broken: what was under way may be lost, in both directions. Called at most once, and nothing comes after it.
    fn broken(&self, why: &str) {
        tracing::debug!(why, "a link ended");
    }
}

/// A room host to which gateways connect.
pub trait Node: Send + Sync + 'static {
    /// Registers a gateway until the uplink is dropped.
    fn connect(&self, gateway: std::sync::Arc<dyn Downlink>) -> std::sync::Arc<dyn Uplink>;
}
