//! What a room sends to gateways. A gateway that does not take it keeps a short backlog; beyond it the room lets its sockets there go.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::{
    config::{GATEWAY_BACKLOG, GATEWAY_PATIENCE},
    core::Host,
};
use crate::{
    link::{GatewayId, ToGateway},
    runtime::{Mono, mailbox::Refused},
};

/// Messages of one room, in order per gateway.
#[derive(Default)]
pub(super) struct Mail {
    backlog: BTreeMap<GatewayId, Backlog>,
    lost: BTreeSet<GatewayId>,
}

struct Backlog {
    since: Mono,
    waiting: VecDeque<ToGateway>,
}

impl Mail {
    /// Sends, or keeps it behind what waits already.
    pub(super) fn send(&mut self, host: &Host, gateway: GatewayId, message: ToGateway) {
        if self.lost.contains(&gateway) {
            return;
        }
        if let Some(backlog) = self.backlog.get_mut(&gateway) {
            backlog.waiting.push_back(message);
            if backlog.waiting.len() > GATEWAY_BACKLOG {
                self.lose(gateway);
            }
            return;
        }
        match host.send(gateway, message) {
            Ok(()) => {}
            Err(Refused::Full(message)) => {
                let backlog = Backlog { since: host.clock.now(), waiting: VecDeque::from([message]) };
                self.backlog.insert(gateway, backlog);
            }
            Err(Refused::Closed(_)) => self.lose(gateway),
        }
    }

    /// Tries the backlog again.
    pub(super) fn flush(&mut self, host: &Host, now: Mono) {
        let gateways: Vec<GatewayId> = self.backlog.keys().copied().collect();
        for gateway in gateways {
            let Some(mut backlog) = self.backlog.remove(&gateway) else { continue };
            let late = now.since(backlog.since) >= GATEWAY_PATIENCE;
            while let Some(message) = backlog.waiting.pop_front() {
                match host.send(gateway, message) {
                    Ok(()) => {}
                    Err(Refused::Full(message)) if !late => {
                        backlog.waiting.push_front(message);
                        self.backlog.insert(gateway, backlog);
                        break;
                    }
                    Err(Refused::Full(_) | Refused::Closed(_)) => {
                        self.lose(gateway);
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

    fn lose(&mut self, gateway: GatewayId) {
        self.backlog.remove(&gateway);
        if self.lost.insert(gateway) {
            metrics::counter!("tenure_room_gateway_lost_total").increment(1);
            tracing::warn!(gateway = gateway.0, "a gateway does not take a room's messages: its sockets are let go");
        }
    }
}
