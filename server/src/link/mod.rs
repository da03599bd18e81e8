//! Links between gateways and room nodes: the messages, and the interface that a channel or a network stream gives.
//!
//! In one process a link is two trait objects: [`Uplink`] puts a message straight into the room host's inboxes, [`Downlink`] into
//! the gateway's fan-out. Both never wait and never block: a full queue gives the message back.

mod message;

pub use message::*;

use crate::runtime::mailbox::Refused;

/// Gateway → node.
pub trait Uplink: Send + Sync + 'static {
    /// Hands a message over. Messages of one connection arrive in order.
    ///
    /// # Errors
    /// Gives the message back when the node's queue is at its bound or the node is gone; nothing was taken then.
    fn send(&self, message: ToNode) -> Result<(), Refused<ToNode>>;
}

/// Node → gateway.
pub trait Downlink: Send + Sync + 'static {
    /// Hands a message over. Messages of one room arrive in order.
    ///
    /// # Errors
    /// Gives the message back when the gateway's queue is at its bound or the gateway is gone; nothing was taken then.
    fn send(&self, message: ToGateway) -> Result<(), Refused<ToGateway>>;
}

/// A room host to which gateways connect.
pub trait Node: Send + Sync + 'static {
    /// Registers a gateway; the number goes into every message of it.
    fn connect(&self, gateway: std::sync::Arc<dyn Downlink>) -> (GatewayId, std::sync::Arc<dyn Uplink>);
}
