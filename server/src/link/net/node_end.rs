//! The node's end of a link: hands what a gateway says to the room host, and keeps in order what an inbox has no room for.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use tenure_shared::{Generation, RoomId, SeatId, ShardId, codes::ErrorCode};

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
/// Seats of which a message was not kept, and that were not attached again since; at the bound the link ends.
const LOST: usize = 16_384;
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
        ToNode::Find { conn, .. } | ToNode::Ask { conn, .. } => Order::Conn(*conn),
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
            Some(ToGateway::Refused { conn, attempt, code: ErrorCode::MayRetry, word: None, message, retry_after })
        }
        ToNode::Find { conn, attempt, .. } => Some(ToGateway::Found { conn, attempt, room: None, new: false }),
        ToNode::Ask { conn, attempt, .. } => Some(ToGateway::Answered { conn, attempt, answer: None }),
        // The seat is not there: that was the wish. And a host that is gone needs no term.
        ToNode::Detach { .. } | ToNode::TermSeen { .. } => None,
    }
}

/// See the module. Dropped, it drops the uplink: the node takes the gateway's seats for dropped.
pub(super) struct NodeEnd {
    life: Arc<Life>,
    down: WireDown,
    uplink: Arc<dyn Uplink>,
    parked: BTreeMap<Order, Parked>,
    parked_bytes: usize,
    /// Seats of which a message was not kept, each with the attachment: nothing of that one may follow (H4).
    lost: BTreeMap<(RoomId, SeatId), Generation>,
    answers: VecDeque<ToGateway>,
}

/// What waits for one room.
#[derive(Default)]
struct Parked {
    queue: VecDeque<(ToNode, usize)>,
    bytes: usize,
}

impl NodeEnd {
    pub(super) fn new(life: &Arc<Life>, uplink: Arc<dyn Uplink>) -> Self {
        Self {
            life: life.clone(),
            down: WireDown(life.clone()),
            uplink,
            parked: BTreeMap::new(),
            parked_bytes: 0,
            lost: BTreeMap::new(),
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

    /// Keeps a message whose room has no place for it. At the bound what can be had again is refused in words: an input and all behind
    /// it are in the seat's ring. A detach cannot: it is kept up to twice the bound of the link, where reading pauses.
    fn park(&mut self, at: Order, message: ToNode, cost: usize) -> Result<(), Cause> {
        let limits = self.life.site.limits();
        let waiting = self.parked.get(&at).map_or(0, |parked| parked.bytes);
        let over = waiting + cost > limits.room_parked_bytes || self.parked_bytes + cost > limits.parked_bytes;
        let kept = matches!(message, ToNode::Detach { .. } | ToNode::TermSeen { .. });
        if over && !kept {
            self.life.site.metrics.unparked.increment(1);
            if let ToNode::Input(Input { room, seat, generation, .. }) | ToNode::Resync { room, seat, generation } =
                &message
            {
                if self.lost.len() >= LOST {
                    return Err(Cause::new("stalled", "too many seats lost messages because their rooms take none"));
                }
                let (room, seat, generation) = (room.clone(), *seat, *generation);
                self.lost.insert((room.clone(), seat), generation);
                // Until the gateway attaches it again, which it may not come to, nobody has the seat.
                self.keep(at, ToNode::Detach { room, seat, generation, consented: false }, EACH);
            }
            self.say(message);
            return Ok(());
        }
        self.keep(at, message, cost);
        Ok(())
    }

    fn keep(&mut self, at: Order, message: ToNode, cost: usize) {
        self.life.site.metrics.parked.increment(1);
        self.parked_bytes += cost;
        let parked = self.parked.entry(at).or_default();
        parked.bytes += cost;
        parked.queue.push_back((message, cost));
    }

    /// Whether this comes behind a message that was not kept, under the same attachment: the gateway has been told, and gives it again
    /// under its next one.
    fn is_lost(&mut self, message: &ToNode) -> bool {
        if self.lost.is_empty() {
            return false;
        }
        let (room, seat, generation, over) = match message {
            ToNode::Input(Input { room, seat, generation, .. }) | ToNode::Resync { room, seat, generation } => {
                (room, *seat, *generation, false)
            }
            // Nothing of the attachment comes behind these.
            ToNode::Detach { room, seat, generation, .. } => (room, *seat, *generation, true),
            ToNode::Attach(Attach { room, seat: Some(seat), generation, .. }) => (room, *seat, *generation, true),
            _ => return false,
        };
        let key = (room.clone(), seat);
        let Some(lost) = self.lost.get(&key).copied() else { return false };
        if generation > lost || (over && generation == lost) {
            self.lost.remove(&key);
            return false;
        }
        !over
    }
}

impl Inlet for NodeEnd {
    fn take(&mut self, packet: &Bytes) -> Result<(), Cause> {
        let Some(message) = read_to_node(packet).map_err(|e| Cause::protocol(&e))? else { return Ok(()) };
        if self.is_lost(&message) {
            return Ok(());
        }
        let cost = packet.len() + EACH;
        if !self.parked.is_empty() {
            let at = order(&message);
            if self.parked.contains_key(&at) {
                return self.park(at, message, cost);
            }
        }
        match self.uplink.send(message) {
            Ok(()) => {}
            Err(Refused::Full(message)) => return self.park(order(&message), message, cost),
            Err(Refused::Closed(message)) => self.say(message),
        }
        Ok(())
    }

    fn waits(&self) -> bool {
        !self.parked.is_empty() || !self.answers.is_empty()
    }

    fn is_full(&self) -> bool {
        self.parked_bytes >= 2 * self.life.site.limits().parked_bytes || self.answers.len() >= ANSWERS
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
        self.parked.retain(|_, parked| {
            while gone.len() < room {
                let Some((message, cost)) = parked.queue.pop_front() else { return false };
                match uplink.send(message) {
                    Ok(()) => {}
                    Err(Refused::Full(message)) => {
                        parked.queue.push_front((message, cost));
                        return true;
                    }
                    Err(Refused::Closed(message)) => gone.push(message),
                }
                *bytes -= cost;
                parked.bytes -= cost;
            }
            !parked.queue.is_empty()
        });
        gone.into_iter().for_each(|refused| self.say(refused));
        Ok(())
    }
}
