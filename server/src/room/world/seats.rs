//! Seats: taking, losing and taking again. A player has at most one; the higher generation wins (LESSONS C49, C50).

use bevy_ecs::entity::Entity;
use bytes::Bytes;
use tenure_shared::{
    Generation, PlayerId, SeatId, Seq,
    codes::{CloseCode, ErrorCode},
    limits,
    wire::write_snapshot_head,
};

use super::{AttachRefused, RoomWorld};
use crate::{
    link::{Attach, Attached, ConnId, GatewayId, ToGateway},
    plugin::{
        Join, Leave, Seat, SeatIndex,
        params::{BalanceBook, ControlState, ReplyBook},
        run,
    },
    replication::SeatView,
};

/// Room time that gateways have to attach a seat again after a move, nanoseconds; after it the game is told that it is gone.
const REATTACH: u64 = 5_000_000_000;

/// A seat as the framework sees it; its entity has the rest.
pub(super) struct SeatState {
    pub(super) entity: Entity,
    pub(super) player: PlayerId,
    pub(super) generation: Generation,
    /// Its socket, while it is connected.
    pub(super) link: Option<(GatewayId, ConnId)>,
    /// Room time since which it has no socket, nanoseconds.
    pub(super) gone_since: Option<u64>,
    /// The socket whose player asked to leave: the seat ends once what it has sent is applied.
    pub(super) leaving: Option<(GatewayId, ConnId)>,
    /// Last message applied.
    pub(super) applied: Seq,
    /// Last message in a stored checkpoint.
    pub(super) saved: Seq,
    /// Whether the marks moved since the last tail.
    pub(super) marks_moved: bool,
    /// Last message queued.
    pub(super) queued: Seq,
    /// Messages queued, count and bytes.
    pub(super) waiting: (usize, usize),
    /// One was not taken: the rest of this attachment is not, either.
    pub(super) overrun: bool,
    /// Encoded messages for the next tail.
    pub(super) tail: Vec<u8>,
    pub(super) view: SeatView,
}

impl SeatState {
    pub(super) fn new(entity: Entity, player: PlayerId) -> Self {
        Self {
            entity,
            player,
            generation: Generation(0),
            link: None,
            gone_since: None,
            leaving: None,
            applied: Seq(0),
            saved: Seq(0),
            marks_moved: false,
            queued: Seq(0),
            waiting: (0, 0),
            overrun: false,
            tail: Vec::new(),
            view: SeatView::default(),
        }
    }
}

impl RoomWorld {
    /// A player takes a seat, between ticks. A player has at most one seat: he takes his own again, with a higher generation, and the
    /// socket that had it is closed by a message in [`take_messages`](Self::take_messages).
    ///
    /// # Errors
    /// When the room is full or locked, or the game refuses.
    pub fn attach(&mut self, attach: &Attach) -> Result<Attached, AttachRefused> {
        self.dirty = true;
        let (id, fresh) = match self.seat_of(&attach.player) {
            Some(id) => (id, false),
            None => (self.new_seat(attach)?, true),
        };
        if attach.seat.is_none() {
            // A client that starts anew has no open requests: an old answer must not meet a new number.
            if let Some(mut replies) = self.world.get_resource_mut::<ReplyBook>() {
                replies.pending.retain(|_, pending| pending.seat != id);
            }
            self.seats.entry(id).and_modify(|seat| seat.tail.clear());
        }
        self.known.touch(&attach.player, self.wall);
        self.balances_wanted.insert(attach.player.clone());
        self.empty_since = None;
        if let Some(entity) = self.seats.get(&id).map(|seat| seat.entity).filter(|_| !fresh) {
            self.back(entity);
        }
        let rolled_back = self.renumber(id, attach.first);
        let snapshot = self.snapshot(id);
        // Last: game code, which may panic, has had its say. Until here the seat is its last socket's, and so it stays if the room is
        // restored now.
        let Some((generation, owed)) = self.link(id, (attach.gateway, attach.conn)) else {
            return Err(refused(ErrorCode::MayRetry, "the seat is gone".to_owned()));
        };
        let table = (attach.table != Some(self.kind.table_hash())).then(|| self.kind.table().clone());
        Ok(Attached {
            conn: attach.conn,
            attempt: attach.attempt,
            room: self.room.clone(),
            seat: id,
            generation,
            term: self.term,
            tick: self.tick,
            owed,
            tick_rate: self.kind.tick_rate(),
            hash: self.kind.table_hash(),
            table,
            snapshot,
            rolled_back,
        })
    }

    /// The seat is this socket's from now on: its generation, and the number wanted next. The socket that had it is told.
    fn link(&mut self, id: SeatId, link: (GatewayId, ConnId)) -> Option<(Generation, Seq)> {
        let seat = self.seats.get_mut(&id)?;
        seat.generation.0 += 1;
        seat.gone_since = None;
        let (superseded, left) = (seat.link.replace(link), seat.leaving.take());
        let given = (seat.generation, Seq(seat.applied.0 + 1));
        if let Some((gateway, conn)) = left {
            self.messages.push((gateway, ToGateway::Left { conn }));
        }
        if let Some((gateway, conn)) = superseded.filter(|before| *before != link) {
            let reason = "another socket took this seat".to_owned();
            self.messages.push((gateway, ToGateway::Close { conn, code: CloseCode::Superseded, reason }));
        }
        Some(given)
    }

    /// A socket is gone, or its player leaves. `false` if the generation is an older one: then nothing happens (LESSONS C49).
    pub fn detach(&mut self, seat: SeatId, generation: Generation, consented: bool) -> bool {
        let now = self.now;
        let Some(state) = self.seats.get_mut(&seat).filter(|s| s.generation == generation && s.link.is_some()) else {
            return false;
        };
        let link = state.link.take();
        if consented {
            state.leaving = link;
        } else {
            state.gone_since = Some(now);
        }
        let (player, entity) = (state.player.clone(), state.entity);
        self.dirty = true;
        self.known.touch(&player, self.wall);
        if !consented {
            self.gone(entity);
        }
        true
    }

    /// A snapshot for a seat; `None` if the generation is an older one.
    pub fn resync(&mut self, seat: SeatId, generation: Generation) -> Option<(GatewayId, ToGateway)> {
        let state = self.seats.get(&seat).filter(|s| s.generation == generation)?;
        let (gateway, conn) = state.link?;
        let bytes = self.snapshot(seat);
        Some((gateway, ToGateway::Snapshot { conn, term: self.term, tick: self.tick, bytes }))
    }

    /// Players whom the game takes for connected: those, too, whom gateways are about to attach again after a move.
    pub(super) fn present(&self) -> impl Iterator<Item = &PlayerId> {
        let connected = |seat: &&SeatState| self.world.get::<Seat>(seat.entity).is_some_and(|seat| seat.connected);
        self.seats.values().filter(connected).map(|seat| &seat.player)
    }

    pub(super) fn seat_of(&self, player: &PlayerId) -> Option<SeatId> {
        let entity = self.world.get_resource::<SeatIndex>()?.by_player.get(player)?;
        self.world.get::<Seat>(*entity).map(|seat| seat.id)
    }

    fn new_seat(&mut self, attach: &Attach) -> Result<SeatId, AttachRefused> {
        if attach.options.len() > limits::JOIN_OPTIONS_BYTES {
            let length = attach.options.len();
            let message = format!("join options have {length} bytes; at most {}", limits::JOIN_OPTIONS_BYTES);
            return Err(refused(ErrorCode::Refused, message));
        }
        if self.world.get_resource::<ControlState>().is_some_and(|control| control.locked) {
            return Err(refused(ErrorCode::Refused, "the room is locked".to_owned()));
        }
        if self.seats() >= self.kind.max_seats() {
            return Err(refused(ErrorCode::RoomFull, format!("all {} seats are taken", self.kind.max_seats())));
        }
        let id = SeatId(self.next_seat);
        self.next_seat = self.next_seat.saturating_add(1);
        let player = attach.player.clone();
        let seat = Seat { id, player: player.clone(), connected: true, since: self.now };
        let entity = self.world.spawn(seat).id();
        self.index(id, &player, entity);
        self.seats.insert(id, SeatState::new(entity, player.clone()));
        let join = Join { seat: entity, player, options: attach.options.clone() };
        let mut hooks = std::mem::take(&mut self.handlers.on_join);
        let mut answer = Ok(());
        for hook in &mut hooks {
            answer = match run(hook, &mut self.world, join.clone()) {
                Ok(Ok(())) => continue,
                Ok(Err(refuse)) => Err(refused(ErrorCode::Refused, refuse.reason().to_owned())),
                Err(e) => {
                    self.error(format!("on_join: {e}"));
                    Err(refused(ErrorCode::RoomError, "the room cannot take players".to_owned()))
                }
            };
            break;
        }
        self.handlers.on_join = hooks;
        if let Err(refused) = answer {
            self.remove_seat(id);
            return Err(refused);
        }
        Ok(id)
    }

    pub(super) fn index(&mut self, id: SeatId, player: &PlayerId, entity: Entity) {
        if let Some(mut index) = self.world.get_resource_mut::<SeatIndex>() {
            index.by_id.insert(id, entity);
            index.by_player.insert(player.clone(), entity);
        }
    }

    /// What the seat sends next; whether the world is owed a lower number than the sender still has.
    fn renumber(&mut self, id: SeatId, first: Seq) -> bool {
        self.drop_inputs(id);
        let Some(seat) = self.seats.get_mut(&id) else { return false };
        let rolled_back = first.0 > seat.applied.0 + 1;
        if rolled_back {
            // The store forgot a save: what is between is lost, and the client is told (MODEL-FINDINGS F13).
            seat.applied = Seq(first.0 - 1);
        }
        seat.queued = seat.applied;
        seat.overrun = false;
        seat.marks_moved = true;
        rolled_back
    }

    /// The seat has a socket. A seat that the game never saw without one (a move lies between) is no news.
    pub(super) fn back(&mut self, entity: Entity) {
        if self.set_connected(entity, true) {
            self.hook(|h| &mut h.on_reconnect, entity);
        }
    }

    /// The seat has no socket.
    fn gone(&mut self, entity: Entity) {
        if self.set_connected(entity, false) {
            self.hook(|h| &mut h.on_drop, entity);
        }
    }

    /// Ends seats whose grace ran out, and tells of those that did not come back after a move.
    pub(super) fn end_graces(&mut self) {
        let grace = self.kind.reconnect_grace().unwrap_or(self.settings.reconnect_grace);
        let grace = u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX);
        let now = self.now;
        let over = |gone: u64| now.saturating_sub(gone) >= grace;
        let ended: Vec<_> =
            self.seats.iter().filter(|(_, seat)| seat.gone_since.is_some_and(over)).map(|(id, _)| *id).collect();
        let late = |gone: u64| now.saturating_sub(gone) >= REATTACH;
        let silent = self.seats.values().filter(|seat| seat.gone_since.is_some_and(late)).map(|seat| seat.entity);
        for entity in silent.collect::<Vec<_>>() {
            self.gone(entity);
        }
        for id in ended {
            if let Some(entity) = self.seats.get(&id).map(|seat| seat.entity) {
                self.gone(entity);
            }
            self.end_seat(id, false);
        }
    }

    /// Ends seats whose players asked to leave, once all that they sent is applied.
    pub(super) fn end_leaving(&mut self) {
        let done = |seat: &SeatState| seat.leaving.filter(|_| seat.waiting.0 == 0);
        let leaving: Vec<_> = self.seats.iter().filter_map(|(id, seat)| Some((*id, done(seat)?))).collect();
        for (id, (gateway, conn)) in leaving {
            self.end_seat(id, true);
            self.messages.push((gateway, ToGateway::Left { conn }));
        }
    }

    /// The seat ends: hook, then its entity goes.
    pub(super) fn end_seat(&mut self, id: SeatId, consented: bool) {
        let Some(entity) = self.seats.get(&id).map(|seat| seat.entity) else { return };
        self.set_connected(entity, false);
        self.hook(|h| &mut h.on_leave, Leave { seat: entity, consented });
        self.remove_seat(id);
    }

    fn remove_seat(&mut self, id: SeatId) {
        self.drop_inputs(id);
        let Some(seat) = self.seats.remove(&id) else { return };
        self.world.despawn(seat.entity);
        if let Some(mut index) = self.world.get_resource_mut::<SeatIndex>() {
            index.by_id.remove(&id);
            index.by_player.remove(&seat.player);
        }
        if let Some(mut balances) = self.world.get_resource_mut::<BalanceBook>() {
            balances.of.remove(&seat.player);
        }
        if let Some(mut replies) = self.world.get_resource_mut::<ReplyBook>() {
            replies.pending.retain(|_, pending| pending.seat != id);
        }
        self.balances_wanted.remove(&seat.player);
        if self.seats.is_empty() {
            self.empty_since = Some(self.now);
        }
    }

    /// Whether that is new to the game.
    fn set_connected(&mut self, entity: Entity, connected: bool) -> bool {
        let now = self.now;
        let seat = self.world.get_mut::<Seat>(entity).filter(|seat| seat.connected != connected);
        let Some(mut seat) = seat else { return false };
        (seat.connected, seat.since) = (connected, now);
        true
    }

    /// Runs all hooks of one kind.
    pub(super) fn hook<I: Clone + 'static>(
        &mut self,
        which: fn(&mut crate::plugin::Handlers) -> &mut Vec<crate::plugin::Hook<I>>,
        input: I,
    ) {
        let mut hooks = std::mem::take(which(&mut self.handlers));
        for hook in &mut hooks {
            if let Err(e) = run(hook, &mut self.world, input.clone()) {
                self.error(format!("a hook: {e}"));
            }
        }
        *which(&mut self.handlers) = hooks;
    }

    /// An encoded snapshot for a seat.
    pub(super) fn snapshot(&mut self, id: SeatId) -> Bytes {
        let mut out = Vec::new();
        write_snapshot_head(&mut out, self.term, self.tick);
        if let Some(seat) = self.seats.get_mut(&id) {
            self.replicator.snapshot(&self.world, seat.entity, &mut seat.view, &mut out);
        }
        out.into()
    }
}

fn refused(code: ErrorCode, message: String) -> AttachRefused {
    let retry_after = matches!(code, ErrorCode::MayRetry).then_some(1_000);
    AttachRefused { code, message, retry_after }
}
