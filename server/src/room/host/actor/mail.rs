//! What a room sends to gateways. A gateway that does not take it keeps a short backlog; beyond it the room lets its sockets there go.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::{config::GATEWAY_BACKLOG, core::Host};
use crate::{
    link::{GatewayId, ToGateway},
    runtime::mailbox::Refused,
};

/// Messages of one room, in order per gateway.
#[derive(Default)]
pub(super) struct Mail {
    backlog: BTreeMap<GatewayId, VecDeque<ToGateway>>,
    lost: BTreeSet<GatewayId>,
}

impl Mail {
    /// Sends, or keeps it behind what waits already.
    pub(super) fn send(&mut self, host: &Host, gateway: GatewayId, message: ToGateway) {
        if self.lost.contains(&gateway) {
            return;
        }
        if let Some(waiting) = self.backlog.get_mut(&gateway) {
            waiting.push_back(message);
        } else {
            match host.send(gateway, message) {
                Ok(()) => return,
                Err(Refused::Full(message)) => self.backlog.entry(gateway).or_default().push_back(message),
                Err(Refused::Closed(_)) => {
                    self.lost.insert(gateway);
                    return;
                }
            }
        }
        if self.backlog.get(&gateway).is_some_and(|waiting| waiting.len() > GATEWAY_BACKLOG) {
            self.backlog.remove(&gateway);
            self.lost.insert(gateway);
            metrics::counter!("tenure_room_gateway_lost_total").increment(1);
            tracing::warn!(gateway = gateway.0, "a gateway does not take a room's messages: its sockets are let go");
        }
    }

    /// Tries the backlog again.
    pub(super) fn flush(&mut self, host: &Host) {
        let gateways: Vec<GatewayId> = self.backlog.keys().copied().collect();
        for gateway in gateways {
            let Some(mut waiting) = self.backlog.remove(&gateway) else { continue };
            while let Some(message) = waiting.pop_front() {
                match host.send(gateway, message) {
                    Ok(()) => {}
                    Err(Refused::Full(message)) => {
                        waiting.push_front(message);
                        self.backlog.insert(gateway, waiting);
                        break;
                    }
                    Err(Refused::Closed(_)) => {
                        self.lost.insert(gateway);
                        break;
                    }
                }
            }
        }
    }

    /// Gateways that missed something: their seats must be detached, and their sockets closed when they listen again.
    pub(super) fn take_lost(&mut self) -> BTreeSet<GatewayId> {
        std::mem::take(&mut self.lost)
    }
}
