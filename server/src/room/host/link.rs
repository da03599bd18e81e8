//! The node's side of a link in one process: messages of gateways go straight into the inboxes of rooms.

use std::sync::{Arc, atomic::Ordering};

use tenure_shared::{RoomId, codes::ErrorCode};

use super::{
    RoomHost,
    actor::RETRY_AFTER,
    core::Host,
    inbox::{Wish, unwish},
};
use crate::{
    link::{Attach, ConnId, Downlink, GatewayId, Mode, Node, ToGateway, ToNode, Uplink},
    runtime::mailbox::Refused,
};

/// Names tried for a new room whose shard this node owns.
const NAMES_TRIED: usize = 64;
/// Characters of a generated room name: 50 bits, and the first checkpoint settles a clash.
const NAME_LENGTH: usize = 10;
/// How often a room may end and begin anew while one message looks for it.
const LOOKS: usize = 16;

impl Node for RoomHost {
    fn connect(&self, gateway: Arc<dyn Downlink>) -> Arc<dyn Uplink> {
        let id = self.host.connect(gateway);
        Arc::new(Link { host: self.host.clone(), id })
    }
}

struct Link {
    host: Arc<Host>,
    id: GatewayId,
}

impl Uplink for Link {
    fn send(&self, message: ToNode) -> Result<(), Refused<ToNode>> {
        match message {
            ToNode::Find { gateway: _, conn, attempt, kind, region, make } => {
                self.find(self.id, (conn, attempt), kind, region, make)
            }
            ToNode::Attach(attach) => self.attach(Attach { gateway: self.id, ..attach }),
            ToNode::Input(input) => match self.host.rooms.get(&input.room) {
                Some(handle) => handle.input(input).map_err(|refused| match refused {
                    Refused::Full(input) => Refused::Full(ToNode::Input(input)),
                    Refused::Closed(input) => Refused::Closed(ToNode::Input(input)),
                }),
                None => Err(Refused::Closed(ToNode::Input(input))),
            },
            ToNode::Detach { room, seat, generation, consented } => {
                self.wish(&room, Wish::Detach { seat, generation, consented })
            }
            ToNode::Resync { room, seat, generation } => self.wish(&room, Wish::Resync { seat, generation }),
            ToNode::TermSeen { .. } => Ok(()),
        }
    }
}

impl Link {
    fn wish(&self, room: &RoomId, wish: Wish) -> Result<(), Refused<ToNode>> {
        match self.host.rooms.get(room) {
            Some(handle) => handle.wish(wish).map_err(|refused| match refused {
                Refused::Full(wish) => Refused::Full(unwish(room, wish)),
                Refused::Closed(wish) => Refused::Closed(unwish(room, wish)),
            }),
            None => Err(Refused::Closed(unwish(room, wish))),
        }
    }

    fn find(
        &self,
        gateway: GatewayId,
        (conn, attempt): (ConnId, u32),
        kind: String,
        region: String,
        make: bool,
    ) -> Result<(), Refused<ToNode>> {
        let (room, new) =
            self.room_for((gateway, conn), &kind, &region).map_or((None, false), |(room, new)| (Some(room), new));
        self.host.send(gateway, ToGateway::Found { conn, attempt, room, new }).map_err(|refused| {
            self.host.finder.lock().release((gateway, conn));
            let back = ToNode::Find { gateway, conn, attempt, kind, region, make };
            match refused {
                Refused::Full(_) => Refused::Full(back),
                Refused::Closed(_) => Refused::Closed(back),
            }
        })
    }

    /// A room with a free seat, or the name of a new one, and which of the two; a seat is kept there for a moment.
    fn room_for(&self, socket: (GatewayId, ConnId), kind: &str, region: &str) -> Option<(RoomId, bool)> {
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
        if known.private() || host.rooms.len() >= host.config.max_rooms {
            return None;
        }
        for _ in 0..NAMES_TRIED {
            let room = RoomId::from_parts(kind, region, &self.name()).ok()?;
            if host.shard(room.shard(host.config.shards)).is_some() {
                finder.plan(socket, &room, known.max_seats(), now);
                return Some((room, true));
            }
        }
        None
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
        if host.stopping.load(Ordering::Acquire) {
            return self.refuse(attach, ErrorCode::MayRetry, "the node is stopping", retry);
        }
        let Some(shard) = host.shard(attach.room.shard(host.config.shards)) else {
            return self.refuse(attach, ErrorCode::MayRetry, "the room's shard has no owner here yet", retry);
        };
        let mut wish = Wish::Attach(attach);
        for _ in 0..LOOKS {
            let Wish::Attach(attach) = &wish else { break };
            let room = attach.room.clone();
            let handle = match host.rooms.get(&room) {
                Some(handle) => Some(handle),
                None if host.rooms.len() >= host.config.max_rooms => {
                    return self.refuse_wish(wish, ErrorCode::Limit, "this node has as many rooms as it may", retry);
                }
                None if !host.may_run(&shard, host.clock.now()) => {
                    return self.refuse_wish(wish, ErrorCode::MayRetry, "the node's lease is in doubt", retry);
                }
                None => host.open(&room, &shard),
            };
            let Some(handle) = handle else { break };
            match handle.wish(wish) {
                Ok(()) => return Ok(()),
                Err(Refused::Full(back)) => return Err(Refused::Full(unwish(&room, back))),
                // It has just ended: who comes now loads it again.
                Err(Refused::Closed(back)) => {
                    wish = back;
                    host.rooms.remove(&handle);
                }
            }
        }
        self.refuse_wish(wish, ErrorCode::MayRetry, "the room ends and begins", retry)
    }

    fn refuse_wish(&self, wish: Wish, code: ErrorCode, text: &str, retry: Option<u32>) -> Result<(), Refused<ToNode>> {
        match wish {
            Wish::Attach(attach) => self.refuse(attach, code, text, retry),
            Wish::Detach { .. } | Wish::Resync { .. } => Ok(()),
        }
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
        let refused = ToGateway::Refused { conn, attempt, code, message: text.to_owned(), retry_after };
        self.host.send(attach.gateway, refused).map_err(|refused| match refused {
            Refused::Full(_) => Refused::Full(ToNode::Attach(attach)),
            Refused::Closed(_) => Refused::Closed(ToNode::Attach(attach)),
        })
    }
}
