//! The node's side of a link in one process: messages of gateways go straight into the inboxes of rooms. What it says is what a link over
//! the network says: `Full` is to be sent again, everything else is taken, and what cannot be done is answered.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tenure_shared::{Filter, Generation, RoomId, SeatId, ShardId, codes::ErrorCode};

use super::{
    RoomHost,
    actor::RETRY_AFTER,
    arrivals,
    asking::{self, Asked},
    attaching::{self, Offer},
    config::MOVED_EVERY,
    core::Host,
    gateways,
    inbox::Wish,
};
use crate::{
    link::{Attach, ConnId, Downlink, GatewayId, Mode, Node, ToGateway, ToNode, Uplink},
    runtime::{Mono, mailbox::Refused},
};

/// Characters of a generated room name: 50 bits, and the first checkpoint settles a clash.
const NAME_LENGTH: usize = 10;
/// How often a room may end while one message looks for it.
const LOOKS: usize = 16;

impl Node for RoomHost {
    fn connect(&self, gateway: Arc<dyn Downlink>) -> Arc<dyn Uplink> {
        let id = self.host.gateways.connect(gateway);
        Arc::new(Link { host: self.host.clone(), id, told: Mutex::default() })
    }
}

struct Link {
    host: Arc<Host>,
    id: GatewayId,
    // When the gateway was last told that a shard is not here: of each shard at most.
    told: Mutex<HashMap<ShardId, Mono>>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.host.gateways.disconnect(self.id);
    }
}

/// An answer, or the message back if the gateway has no place for the answer.
fn answered(sent: Result<(), Refused<ToGateway>>, message: ToNode) -> Result<(), Refused<ToNode>> {
    sent.map_err(|refused| match refused {
        Refused::Full(_) => Refused::Full(message),
        Refused::Closed(_) => Refused::Closed(message),
    })
}

impl Uplink for Link {
    fn send(&self, message: ToNode) -> Result<(), Refused<ToNode>> {
        if self.host.shutdown.is_stopped() {
            return Err(Refused::Closed(message));
        }
        match message {
            ToNode::Find { gateway: _, conn, attempt, kind, region, make } => {
                self.find((conn, attempt), kind, region, make)
            }
            ToNode::Ask { gateway: _, conn, attempt, region, within, question } => {
                let within = Duration::from_millis(u64::from(within));
                let asked = Asked { gateway: self.id, conn, attempt, region, within, question };
                asking::ask(&self.host, asked);
                Ok(())
            }
            ToNode::Attach(attach) => self.attach(Attach { gateway: self.id, ..attach }),
            ToNode::Input(_) | ToNode::Detach { .. } | ToNode::Resync { .. } => self.of_seat(message),
            ToNode::TermSeen { shard, term } => {
                self.host.ownership.term_seen(shard, term);
                Ok(())
            }
        }
    }
}

/// The seat that a message is about; and whether its sender waits for an answer.
fn about(message: &ToNode) -> Option<(&RoomId, SeatId, Generation, bool)> {
    match message {
        ToNode::Input(input) => Some((&input.room, input.seat, input.generation, true)),
        ToNode::Detach { room, seat, generation, consented } => Some((room, *seat, *generation, *consented)),
        ToNode::Resync { room, seat, generation } => Some((room, *seat, *generation, true)),
        ToNode::Find { .. } | ToNode::Ask { .. } | ToNode::Attach(_) | ToNode::TermSeen { .. } => None,
    }
}

impl Link {
    /// A message of a seat goes to its room. If the shard is not here, or the room or the seat is no more, the gateway is told.
    fn of_seat(&self, mut message: ToNode) -> Result<(), Refused<ToNode>> {
        for _ in 0..LOOKS {
            let Some((room, seat, generation, waits)) = about(&message) else { return Ok(()) };
            let id = room.shard(self.host.config.shards);
            let Some(shard) = self.host.held(id) else { return self.elsewhere(id, message) };
            let Some(handle) = self.host.rooms.get(room) else {
                if !shard.is_ready() {
                    // What is not known yet may be there.
                    return Err(Refused::Full(message));
                }
                if !waits {
                    return Ok(());
                }
                let gone = ToGateway::Gone { room: room.clone(), seat, generation };
                return answered(self.host.gateways.send(self.id, gone), message);
            };
            let room = room.clone();
            let sent = match message {
                ToNode::Input(input) => handle.input(self.id, input).map_err(|refused| match refused {
                    Refused::Full(input) => Refused::Full(ToNode::Input(input)),
                    Refused::Closed(input) => Refused::Closed(ToNode::Input(input)),
                }),
                ToNode::Detach { seat, generation, consented, .. } => {
                    handle.wish(Wish::Detach { seat, generation, consented }).map_err(|refused| back(refused, room))
                }
                ToNode::Resync { seat, generation, .. } => {
                    handle.wish(Wish::Resync { seat, generation }).map_err(|refused| back(refused, room))
                }
                other => return Err(Refused::Full(other)),
            };
            match sent {
                // It has just ended: it is no longer in the directory, or not for long.
                Err(Refused::Closed(again)) => {
                    self.host.rooms.remove(&handle);
                    message = again;
                }
                other => return other,
            }
        }
        Err(Refused::Full(message))
    }

    /// The shard is not here: the gateway is told, now and then, and the message is dropped. Its sender keeps what is not saved.
    fn elsewhere(&self, shard: ShardId, message: ToNode) -> Result<(), Refused<ToNode>> {
        let now = self.host.clock.now();
        let before = self.told.lock().insert(shard, now);
        if let Some(before) = before.filter(|before| now.since(*before) < MOVED_EVERY) {
            self.told.lock().insert(shard, before);
            return Ok(());
        }
        let moved = gateways::moved(&self.host, shard, self.host.last_term(shard), None);
        let sent = self.host.gateways.send(self.id, moved);
        if sent.is_err() {
            self.told.lock().remove(&shard);
        }
        answered(sent, message)
    }

    fn find(
        &self,
        (conn, attempt): (ConnId, u32),
        kind: String,
        region: String,
        make: bool,
    ) -> Result<(), Refused<ToNode>> {
        let (room, new) = match self.room_for((self.id, conn), &kind, &region, make) {
            Some((room, new)) => (Some(room), new),
            None => (None, false),
        };
        let sent = self.host.gateways.send(self.id, ToGateway::Found { conn, attempt, room, new });
        if sent.is_err() {
            self.host.finder.lock().release((self.id, conn));
        }
        answered(sent, ToNode::Find { gateway: self.id, conn, attempt, kind, region, make })
    }

    /// A room with a free seat, or the name of a new one, of whatever shard, and whether it is new; a seat is kept there for a moment.
    fn room_for(&self, socket: (GatewayId, ConnId), kind: &str, region: &str, make: bool) -> Option<(RoomId, bool)> {
        let host = &self.host;
        let known = host.kinds.get(kind)?;
        if host.stopping.load(Ordering::Acquire) {
            return None;
        }
        let now = host.clock.now();
        let mut finder = host.finder.lock();
        if let Some(room) = finder.find(socket, kind, region, now) {
            return Some((room, false));
        }
        if !make || known.private() || host.rooms.len() >= host.config.max_rooms {
            return None;
        }
        let room = RoomId::from_parts(kind, region, &self.name()).ok()?;
        let here = host.held(room.shard(host.config.shards)).is_some();
        finder.may_plan(here).then(|| {
            finder.plan(socket, &room, known.max_seats(), here, now);
            (room, true)
        })
    }

    fn name(&self) -> String {
        const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
        let mut bits = self.host.rng.next_u64();
        let mut name = String::with_capacity(NAME_LENGTH);
        for _ in 0..NAME_LENGTH {
            name.push(char::from(ALPHABET[(bits & 31) as usize]));
            bits >>= 5;
        }
        name
    }

    fn attach(&self, mut attach: Attach) -> Result<(), Refused<ToNode>> {
        let host = &self.host;
        let retry = Some(RETRY_AFTER);
        let socket = (attach.gateway, attach.conn);
        if attach.mode == Mode::Join && host.finder.lock().may_make(socket, &attach.room) {
            attach.mode = Mode::JoinOrCreate;
        }
        if !host.kinds.contains_key(attach.room.kind()) {
            return self.refuse(attach, ErrorCode::UnknownKind, "no game of this kind is registered", None);
        }
        if !attach.metadata.is_empty() && !self.may_begin_with(&attach) {
            return self.refuse(attach, ErrorCode::BadPayload, "rooms of this kind cannot be filtered by that", None);
        }
        let id = attach.room.shard(host.config.shards);
        // Behind those that wait for the same shard.
        let attach = match host.arrivals.join(id, attach) {
            Ok(()) => return Ok(()),
            Err(attach) => attach,
        };
        let Some(shard) = host.held(id) else {
            return match arrivals::wait(host, id, attach) {
                Ok(()) => Ok(()),
                Err(attach) => self.not_owner(attach),
            };
        };
        if host.stopping.load(Ordering::Acquire) {
            return self.refuse(attach, ErrorCode::MayRetry, "the node is stopping", retry);
        }
        match attaching::offer(host, &shard, attach) {
            Offer::Taken => Ok(()),
            Offer::Full(attach) => Err(Refused::Full(ToNode::Attach(attach))),
            Offer::NotHere(attach) => self.not_owner(attach),
            Offer::Refuse(attach, code, text) => self.refuse(attach, code, text, retry),
        }
    }

    /// Whether the game lets clients say what a new room's metadata begins with.
    fn may_begin_with(&self, attach: &Attach) -> bool {
        let known = self.host.kinds.get(attach.room.kind()).map(|kind| kind.filter_keys()).unwrap_or_default();
        Filter::read(&attach.metadata)
            .is_ok_and(|filter| filter.keys().all(|key| known.iter().any(|known| **known == *key)))
    }

    fn not_owner(&self, attach: Attach) -> Result<(), Refused<ToNode>> {
        self.host.finder.lock().release((attach.gateway, attach.conn));
        let answer = self.host.not_owner(attach.conn, attach.attempt, attach.room.shard(self.host.config.shards));
        answered(self.host.gateways.send(self.id, answer), ToNode::Attach(attach))
    }

    fn refuse(
        &self,
        attach: Attach,
        code: ErrorCode,
        text: &str,
        retry_after: Option<u32>,
    ) -> Result<(), Refused<ToNode>> {
        self.host.finder.lock().release((attach.gateway, attach.conn));
        let (conn, attempt) = (attach.conn, attach.attempt);
        let refused = ToGateway::Refused { conn, attempt, code, word: None, message: text.to_owned(), retry_after };
        answered(self.host.gateways.send(self.id, refused), ToNode::Attach(attach))
    }
}

/// Back to the message that a gateway sent.
fn back(refused: Refused<Wish>, room: RoomId) -> Refused<ToNode> {
    let message = |wish| match wish {
        Wish::Attach(attach) => ToNode::Attach(attach),
        Wish::Detach { seat, generation, consented } => ToNode::Detach { room, seat, generation, consented },
        Wish::Resync { seat, generation } => ToNode::Resync { room, seat, generation },
    };
    match refused {
        Refused::Full(wish) => Refused::Full(message(wish)),
        Refused::Closed(wish) => Refused::Closed(message(wish)),
    }
}
