//! Seats: losing a socket, graces and ends. How a seat is taken is in `attach.rs`.

use bevy_ecs::entity::Entity;
use bytes::Bytes;
use tenure_shared::{Generation, PlayerId, SeatId, Seq, wire::write_snapshot_head};

use super::RoomWorld;
use crate::{
    link::{ConnId, GatewayId, ToGateway},
    plugin::{
        Leave, LeaveCause, Seat, SeatIndex,
        params::{BalanceBook, ReplyBook},
        run,
    },
    replication::SeatView,
};

/// Room time that gateways have to attach a seat again after its room moved, nanoseconds. A seat that was connected in the checkpoint and is
/// back by then was never gone for the game; of any other the game is told then (H12, docs/decisions/0006).
const REATTACH: u64 = 5_000_000_000;

/// A seat as the framework sees it; its entity has the rest.
pub(super) struct SeatState {
    pub(super) entity: Entity,
    pub(super) player: PlayerId,
    pub(super) generation: Generation,
    /// Newest attachment that its last socket is known to have held: one that knows only an older one was superseded.
    pub(super) held: Generation,
    /// Highest count of resumes with which it was taken: one with a lower count comes late.
    pub(super) resumes: u32,
    /// Its socket, while it is connected.
    pub(super) link: Option<(GatewayId, ConnId)>,
    /// Its socket's number of the attach that was answered last.
    pub(super) attempt: u32,
    /// Room time since which it has no socket, nanoseconds.
    pub(super) gone_since: Option<u64>,
    /// The same before the restore, of a seat that was in its grace.
    pub(super) was_gone: Option<u64>,
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
    /// A seat that nobody had yet; its attachments are numbered above `generation`.
    pub(super) fn new(entity: Entity, player: PlayerId, generation: Generation) -> Self {
        Self {
            entity,
            player,
            generation,
            held: Generation(0),
            resumes: 0,
            link: None,
            attempt: 0,
            gone_since: None,
            was_gone: None,
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
    /// A socket is gone, or its player leaves. `false` if the generation is an older one: then nothing happens (C49).
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
        (self.dirty, self.unseen) = (true, true);
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

    pub(super) fn index(&mut self, id: SeatId, player: &PlayerId, entity: Entity) {
        if let Some(mut index) = self.world.get_resource_mut::<SeatIndex>() {
            index.by_id.insert(id, entity);
            index.by_player.insert(player.clone(), entity);
        }
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
            self.end_seat(id, LeaveCause::GraceOver);
        }
    }

    /// After a planned move, whose last checkpoint is the very last moment: graces that ran go on, as if nothing had happened. After any other
    /// restore they begin anew, since nobody could come back while nobody served the room.
    pub fn keep_graces(&mut self) {
        for state in self.seats.values_mut().filter(|state| state.link.is_none()) {
            state.gone_since = state.was_gone.take().or(state.gone_since);
        }
    }

    /// Ends seats whose players asked to leave, once all that they sent is applied.
    pub(super) fn end_leaving(&mut self) {
        let done = |seat: &SeatState| seat.leaving.filter(|_| seat.waiting.0 == 0);
        let leaving: Vec<_> = self.seats.iter().filter_map(|(id, seat)| Some((*id, done(seat)?))).collect();
        for (id, (gateway, conn)) in leaving {
            self.end_seat(id, LeaveCause::Consented);
            self.messages.push((gateway, ToGateway::Left { conn }));
        }
    }

    /// The seat ends: hook, then its entity goes.
    pub(super) fn end_seat(&mut self, id: SeatId, cause: LeaveCause) {
        let Some(entity) = self.seats.get(&id).map(|seat| seat.entity) else { return };
        self.set_connected(entity, false);
        self.hook(|h| &mut h.on_leave, Leave { seat: entity, cause });
        self.remove_seat(id);
    }

    pub(super) fn remove_seat(&mut self, id: SeatId) {
        self.drop_inputs(id);
        let Some(seat) = self.seats.remove(&id) else { return };
        self.came(&seat.player, false);
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
