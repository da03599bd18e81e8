//! What a room sends to gateways. A gateway that does not take it keeps a short backlog; beyond it the room lets its sockets there go.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use super::super::{
    config::{GATEWAY_BACKLOG, GATEWAY_PATIENCE},
    core::Host,
    shard::Shard,
};
use crate::{
    link::{GatewayId, ToGateway},
    runtime::{Mono, mailbox::Refused},
};

/// Whether it says something of the world, which only its owner may (H1); a refusal anybody may say.
fn shows(message: &ToGateway) -> bool {
    use ToGateway::{Attached, Frame, Restored, Snapshot};
    matches!(message, Frame(_) | Snapshot { .. } | Attached(_) | Restored { .. })
}

/// Messages of one room, in order per gateway. While the room's shard is in doubt they wait; once it is lost nothing more is sent (H1, H7).
pub(super) struct Mail {
    shard: Arc<Shard>,
    backlog: BTreeMap<GatewayId, Backlog>,
    lost: BTreeSet<GatewayId>,
}

struct Backlog {
    since: Mono,
    waiting: VecDeque<ToGateway>,
}

impl Mail {
    pub(super) fn new(shard: Arc<Shard>) -> Self {
        Self { shard, backlog: BTreeMap::new(), lost: BTreeSet::new() }
    }

    /// Sends, or keeps it behind what waits already.
    pub(super) fn send(&mut self, host: &Host, gateway: GatewayId, message: ToGateway) {
        let shard = self.shard.clone();
        let Some(_voice) = shard.voice() else { return };
        if self.lost.contains(&gateway) {
            return;
        }
        let now = host.clock.now();
        // Between a tick and its messages the lease may have passed (a process that was stopped): they wait for what becomes of the shard.
        if shows(&message) && !self.backlog.contains_key(&gateway) && !host.leads(&shard, now) {
            self.backlog.insert(gateway, Backlog { since: now, waiting: VecDeque::new() });
        }
        if let Some(backlog) = self.backlog.get_mut(&gateway) {
            backlog.waiting.push_back(message);
            if backlog.waiting.len() > GATEWAY_BACKLOG {
                self.lose(gateway);
            }
            return;
        }
        match host.gateways.send(gateway, message) {
            Ok(()) => {}
            Err(Refused::Full(message)) => {
                let backlog = Backlog { since: now, waiting: VecDeque::from([message]) };
                self.backlog.insert(gateway, backlog);
            }
            Err(Refused::Closed(_)) => self.gone(gateway),
        }
    }

    /// Whether nothing waits for a gateway.
    pub(super) fn is_idle(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Tries the backlog again.
    pub(super) fn flush(&mut self, host: &Host) {
        if self.backlog.is_empty() {
            return;
        }
        // Not the time at which the run began: the process may have been stopped since.
        let now = host.clock.now();
        let shard = self.shard.clone();
        let Some(_voice) = shard.voice() else { return };
        if !host.leads(&shard, now) {
            // It is not their gateways that let them wait.
            self.backlog.values_mut().for_each(|backlog| backlog.since = now);
            return;
        }
        let gateways: Vec<GatewayId> = self.backlog.keys().copied().collect();
        for gateway in gateways {
            let Some(mut backlog) = self.backlog.remove(&gateway) else { continue };
            let late = now.since(backlog.since) >= GATEWAY_PATIENCE;
            while let Some(message) = backlog.waiting.pop_front() {
                match host.gateways.send(gateway, message) {
                    Ok(()) => {}
                    Err(Refused::Full(message)) if !late => {
                        backlog.waiting.push_front(message);
                        self.backlog.insert(gateway, backlog);
                        break;
                    }
                    Err(Refused::Full(_)) => {
                        self.lose(gateway);
                        break;
                    }
                    Err(Refused::Closed(_)) => {
                        self.gone(gateway);
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

    /// It is not connected any more.
    fn gone(&mut self, gateway: GatewayId) {
        self.backlog.remove(&gateway);
        self.lost.insert(gateway);
    }

    fn lose(&mut self, gateway: GatewayId) {
        self.backlog.remove(&gateway);
        if self.lost.insert(gateway) {
            metrics::counter!("tenure_room_gateway_lost_total").increment(1);
            tracing::warn!(gateway = gateway.0, "a gateway does not take a room's messages: its sockets are let go");
        }
    }
}
