//! The gateway's end of a link: hands what a node says to the gateway. When the gateway has no room for a message, reading pauses: the
//! order of all that a node says stays, and the node sees by its own queue that this gateway is behind.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    codec::{read_to_gateway, write_to_node},
    life::{Cause, Life},
    read::Inlet,
};
use crate::{
    link::{Downlink, ToGateway, ToNode, Uplink},
    runtime::mailbox::Refused,
};

/// The uplink that the gateway gets. Dropped, the link ends.
pub(super) struct WireUp(pub(super) Arc<Life>);

impl Uplink for WireUp {
    fn send(&self, message: ToNode) -> Result<(), Refused<ToNode>> {
        self.0.offer(message, self.0.site.limits().up_bytes, false, write_to_node)
    }
}

impl Drop for WireUp {
    fn drop(&mut self) {
        self.0.end(Cause::dropped());
    }
}

/// See the module.
pub(super) struct GatewayEnd {
    gateway: Arc<dyn Downlink>,
    held: Option<ToGateway>,
}

impl GatewayEnd {
    pub(super) fn new(gateway: Arc<dyn Downlink>) -> Self {
        Self { gateway, held: None }
    }

    fn hand(&mut self, message: ToGateway) -> Result<(), Cause> {
        match self.gateway.send(message) {
            Ok(()) => Ok(()),
            Err(Refused::Full(message)) => {
                self.held = Some(message);
                Ok(())
            }
            Err(Refused::Closed(_)) => Err(Cause::new("gone", "the gateway takes no more messages")),
        }
    }
}

impl Inlet for GatewayEnd {
    fn take(&mut self, packet: &Bytes) -> Result<(), Cause> {
        match read_to_gateway(packet).map_err(|e| Cause::protocol(&e))? {
            Some(message) => self.hand(message),
            None => Ok(()),
        }
    }

    fn waits(&self) -> bool {
        self.held.is_some()
    }

    fn is_full(&self) -> bool {
        self.held.is_some()
    }

    fn offer(&mut self) -> Result<(), Cause> {
        match self.held.take() {
            Some(message) => self.hand(message),
            None => Ok(()),
        }
    }
}
