//! The node's end of a link: hands what a gateway says to the room host, and keeps in order what an inbox has no room for.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use tenure_shared::{RoomId, ShardId, codes::ErrorCode};

use super::{
    codec::{read_to_node, write_to_gateway},
    life::{Cause, Life},
    read::Inlet,
};
use crate::{
    link::{Attach, ConnId, Downlink, Frame, Input, ToGateway, ToNode, Uplink},
    runtime::mailbox::Refused,
};

/// What a parked message costs besides its bytes.
const EACH: usize = 256;
/// Answers of the link itself that wait for room in the gateway's queue; at the bound reading pauses.
const ANSWERS: usize = 1_024;
/// When a gateway may ask again what the node could not take, ms.
const RETRY_AFTER: u32 = 100;

/// The downlink that the room host gets.
pub(super) struct WireDown(pub(super) Arc<Life>);

impl Downlink for WireDown {
    fn send(&self, message: ToGateway) -> Result<(), Refused<ToGateway>> {
        let limits = self.0.site.limits();
        let frame = matches!(message, ToGateway::Frame(Frame { .. }));
        // Frames are made anew 20 times a second; what answers a question is not.
        let bound = if frame { limits.frame_bytes } else { limits.down_bytes };
        self.0.offer(message, bound, frame, write_to_gateway)
    }

    /// The room host has ended: what waits is still written, then the stream is closed.
    fn broken(&self, why: &str) {
        self.0.end(Cause::ended(why));
    }
}

/// What must stay in order: everything for one room; questions without one stand alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Room(RoomId),
    Conn(ConnId),
    Shard(ShardId),
}

fn order(message: &ToNode) -> Order {
    match message {
        ToNode::Attach(Attach { room, .. })
        | ToNode::Input(Input { room, .. })
        | ToNode::Detach { room, .. }
        | ToNode::Resync { room, .. } => Order::Room(room.clone()),
        ToNode::Find { conn, .. } => Order::Conn(*conn),
        ToNode::TermSeen { shard, .. } => Order::Shard(*shard),
    }
}

/// What the room host says by refusing a message for good: over a link it must be said in words.
fn answer(refused: ToNode) -> Option<ToGateway> {
    match refused {
        ToNode::Input(Input { room, seat, generation, .. }) | ToNode::Resync { room, seat, generation } => {
            Some(ToGateway::Gone { room, seat, generation })
        }
        ToNode::Attach(Attach { conn, attempt, .. }) => {
            let message = "the node does not take it now".to_owned();
            let retry_after = Some(RETRY_AFTER);
            Some(ToGateway::Refused { conn, attempt, code: ErrorCode::MayRetry, message, retry_after })
        }
        ToNode::Find { conn, attempt, .. } => Some(ToGateway::Found { conn, attempt, room: None, new: false }),
        // The seat is not there: that was the wish. And a host that is gone needs no term.
        ToNode::Detach { .. } | ToNode::TermSeen { .. } => None,
    }
}

/// See the module. Dropped, it drops the uplink: the node takes the gateway's seats for dropped.
pub(super) struct NodeEnd {
    life: Arc<Life>,
    down: WireDown,
    uplink: Arc<dyn Uplink>,
    parked: BTreeMap<Order, VecDeque<(ToNode, usize)>>,
    parked_bytes: usize,
    answers: VecDeque<ToGateway>,
}

impl NodeEnd {
    pub(super) fn new(life: &Arc<Life>, uplink: Arc<dyn Uplink>) -> Self {
        Self {
            life: life.clone(),
            down: WireDown(life.clone()),
            uplink,
            parked: BTreeMap::new(),
            parked_bytes: 0,
            answers: VecDeque::new(),
        }
    }

    fn say(&mut self, refused: ToNode) {
        let Some(answer) = answer(refused) else { return };
        // A closed downlink is the end of the link: nobody waits for the answer.
        if !self.answers.is_empty() {
            self.answers.push_back(answer);
        } else if let Err(Refused::Full(answer)) = self.down.send(answer) {
            self.answers.push_back(answer);
        }
    }

    fn park(&mut self, at: Order, message: ToNode, cost: usize) {
        self.life.site.metrics.parked.increment(1);
        self.parked_bytes += cost;
        self.parked.entry(at).or_default().push_back((message, cost));
    }
}

impl Inlet for NodeEnd {
    fn take(&mut self, packet: &Bytes) -> Result<(), Cause> {
        let Some(message) = read_to_node(packet).map_err(|e| Cause::protocol(&e))? else { return Ok(()) };
        let cost = packet.len() + EACH;
        if !self.parked.is_empty() {
            let at = order(&message);
            if self.parked.contains_key(&at) {
                self.park(at, message, cost);
                return Ok(());
            }
        }
        match self.uplink.send(message) {
            Ok(()) => {}
            Err(Refused::Full(message)) => self.park(order(&message), message, cost),
            Err(Refused::Closed(message)) => self.say(message),
        }
        Ok(())
    }

    fn waits(&self) -> bool {
        !self.parked.is_empty() || !self.answers.is_empty()
    }

    fn is_full(&self) -> bool {
        self.parked_bytes >= self.life.site.limits().parked_bytes || self.answers.len() >= ANSWERS
    }

    fn offer(&mut self) -> Result<(), Cause> {
        while let Some(answer) = self.answers.pop_front() {
            if let Err(Refused::Full(answer)) = self.down.send(answer) {
                self.answers.push_front(answer);
                break;
            }
        }
        let mut gone = Vec::new();
        let (uplink, bytes, room) = (&self.uplink, &mut self.parked_bytes, ANSWERS - self.answers.len().min(ANSWERS));
        self.parked.retain(|_, queue| {
            while gone.len() < room {
                let Some((message, cost)) = queue.pop_front() else { return false };
                match uplink.send(message) {
                    Ok(()) => {}
                    Err(Refused::Full(message)) => {
                        queue.push_front((message, cost));
                        return true;
                    }
                    Err(Refused::Closed(message)) => gone.push(message),
                }
                *bytes -= cost;
            }
            !queue.is_empty()
        });
        gone.into_iter().for_each(|refused| self.say(refused));
        Ok(())
    }
}
