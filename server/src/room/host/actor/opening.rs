//! From nothing to a running room: load, create, first checkpoint, and the attaches that waited for it.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use bytes::Bytes;
use tenure_shared::{Filter, Term, Tick, codes::ErrorCode};

use super::{
    super::{
        inbox::{Saved, Wish},
        loading::{self, Loaded},
        prepared::PreparedRoom,
        schedules::occurrence,
        shard::pending::Request,
    },
    Actor, Phase,
    failing::text,
};
use crate::{
    link::{Attach, Mode, ToGateway},
    room::world::{AttachRefused, RoomWorld},
    runtime::{Mono, Wall},
    store::{Checkpoint, Error, OWED_CHARGE, WorkItem, is_owed},
};

/// The job of the item that deletes a dormant room.
pub(in crate::room::host) const DISPOSE_JOB: &str = "tenure/dispose";

/// After this a refused attach may be sent again, milliseconds.
pub(in crate::room::host) const RETRY_AFTER: u32 = 1_000;

/// Before the first tick of a room that is made at `now`: as many ticks as the term is old, and a thousandth more, since the clock that
/// paces ticks and the store's may differ by a little. A former life of the room under this term cannot have come so far.
fn first_tick(term: Term, now: Wall, period: Duration) -> Tick {
    // A term is the store's time at which it began, or higher after a step back of that clock.
    let age = u128::from(now.0.checked_sub(term.0).unwrap_or(now.0)) * 1_000;
    let ticks = age / period.as_nanos().max(1);
    Tick(u64::try_from(ticks + ticks / 1_000 + 1).unwrap_or(0))
}

impl Actor {
    /// The first run: a room that is only due for deletion is deleted unread, any other is read.
    /// One whose world is ready goes on with it.
    pub(super) fn open(&mut self, now: Mono) {
        self.shard.resume(&self.handle.room);
        if let Some(ready) = self.prepared.take() {
            return self.go_on(*ready, now);
        }
        if !self.handle.has_attach() && self.results.is_empty() && self.only_disposal() {
            self.delete();
        } else {
            self.set_phase(Phase::Loading);
            loading::start(&self.host, &self.handle);
        }
    }

    pub(super) fn opened(&mut self, loaded: Loaded, now: Mono) {
        match loaded.checkpoint {
            Some(checkpoint) => match self.make(|actor| actor.restore_world(&checkpoint)) {
                Ok(world) => {
                    self.world = Some(world);
                    self.stored_as(Saved::of(&checkpoint));
                    self.visited = !checkpoint.summary.dormant;
                    let request = self.reconcile(&loaded.items, checkpoint.summary.dormant);
                    self.start_running(request, now);
                }
                Err(reason) => self.fault(&reason, now),
            },
            None => self.create(&loaded, now),
        }
    }

    /// The former owner's last moment is here, and this is the next one: nothing of it is news to anybody.
    fn go_on(&mut self, ready: PreparedRoom, now: Mono) {
        let Some((mut world, stored)) = ready.into_parts() else {
            self.set_phase(Phase::Loading);
            return loading::start(&self.host, &self.handle);
        };
        world.set_term(self.shard.term());
        world.keep_graces();
        self.world = Some(world);
        self.stored_as(stored.saved);
        self.items.load(&stored.items);
        let request = self.reconcile(&stored.items, stored.dormant);
        self.ticked = stored.ticked;
        self.came = true;
        let next = stored.ticked.plus(self.host.period(&self.kind));
        self.start_running_at(request, Some(next), now);
    }

    pub(super) fn not_opened(&mut self, error: &Error) {
        tracing::warn!(room = %self.handle.room, %error, "a room could not be read");
        for wish in self.handle.take_wishes(false) {
            if let Wish::Attach(attach) = wish {
                self.refuse_retry(&attach);
            }
        }
        // Work and ledger answers stay in the store, and with the shard.
        self.end(true);
    }

    pub(super) fn restore_world(&self, checkpoint: &Checkpoint) -> Result<RoomWorld, String> {
        let (settings, term) = (&self.host.config.world, self.shard.term());
        RoomWorld::restore_after(&self.kind, settings, term, checkpoint, self.reached).map_err(|e| e.to_string())
    }

    /// Runs what may panic in game code.
    pub(super) fn make<T>(&mut self, make: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        catch_unwind(AssertUnwindSafe(|| make(self))).unwrap_or_else(|panic| Err(text(&*panic)))
    }

    /// What the store must hear before the room runs, if anything.
    pub(super) fn reconcile(&mut self, items: &[WorkItem], dormant: bool) -> Option<Request> {
        self.take_book();
        let now = self.host.store_now();
        let room = self.handle.room.clone();
        let change = self.occurrences.reconcile(&self.book, &room, items, now);
        let paged = items.iter().filter(|item| !item.payload.is_empty() && occurrence(&item.id).is_some());
        self.paged = paged.map(|item| (item.id.clone(), item.payload.clone())).collect();
        self.occurrences.tell_again();
        self.host.count_dropped(change.dropped, &room);
        let dispose = items.iter().map(|item| &item.id).filter(|id| &*id.job == DISPOSE_JOB).cloned();
        self.dispose_items.extend(dispose);
        let due = items.iter().filter(|item| &*item.id.job == DISPOSE_JOB).map(|item| item.due).min();
        self.dispose_due = self.dispose_due.or(due);
        // The room is wanted: its deletion is called off (C48).
        let mut cancelled = change.cancelled;
        cancelled.extend(std::mem::take(&mut self.dispose_items));
        for id in &cancelled {
            self.work.remove(id);
        }
        self.due.retain(|work| !cancelled.contains(&work.item.id) && &*work.item.id.job != DISPOSE_JOB);
        let nothing = cancelled.is_empty() && change.scheduled.is_empty() && !dormant;
        (!nothing).then(|| Request { cancelled, scheduled: change.scheduled, ..Request::default() })
    }

    fn create(&mut self, loaded: &Loaded, now: Mono) {
        let mut wishes = self.handle.take_wishes(false);
        let creates = wishes.iter().any(|w| matches!(w, Wish::Attach(attach) if attach.mode != Mode::Join));
        if !creates || self.stopping {
            return self.no_such_room(wishes, loaded);
        }
        // What the sockets of a former room of this name still sent is not for the seats of this one.
        self.handle.swap_inputs(&mut Vec::new());
        let seed = self.host.rng.next_u64();
        // What the first one who makes it asked for.
        let making = |wish: &Wish| matches!(wish, Wish::Attach(attach) if attach.mode != Mode::Join);
        let metadata = match wishes.iter().find(|wish| making(wish)) {
            Some(Wish::Attach(attach)) if Filter::read(&attach.metadata).is_ok() => attach.metadata.clone(),
            _ => Bytes::new(),
        };
        let made = self.make(|actor| {
            let (room, term) = (actor.handle.room.clone(), actor.shard.term());
            let mut world =
                RoomWorld::create(&actor.kind, room, &actor.host.config.world, term, seed, loaded.at, metadata)
                    .map_err(|e| e.to_string())?;
            let first = first_tick(term, loaded.at, actor.host.period(&actor.kind));
            // A restored room goes on from ticks of former terms, which may be further than this one is old.
            world.begin_at(first.max(Tick(actor.shard.reached().0 + 1)));
            Ok(world)
        });
        match made {
            Ok(world) => self.world = Some(world),
            Err(reason) => {
                self.handle.put_back(wishes);
                return self.fault(&reason, now);
            }
        }
        // Answers wait until the room exists: until its first checkpoint is stored.
        let (mut seated, mut first) = (0, true);
        while let Some(wish) = wishes.pop_front() {
            let Wish::Attach(attach) = wish else { continue };
            if self.is_orphan(&attach) {
                continue;
            }
            match attach.mode {
                Mode::Join if seated == 0 => self.refuse(&attach, ErrorCode::NoSuchRoom, "there is no such room", None),
                Mode::Create if !first => self.refuse(&attach, ErrorCode::RoomExists, "the room exists already", None),
                _ => {
                    first = false;
                    match self.seat(&attach) {
                        Ok(given) => seated += usize::from(given),
                        Err(reason) => {
                            self.refuse_retry(&attach);
                            self.handle.put_back(wishes);
                            return self.fault(&reason, now);
                        }
                    }
                }
            }
        }
        if seated == 0 {
            // Nobody was let in: the room never was. Who comes now begins anew.
            self.drop_world();
            self.host.not_made(&self.handle.room);
            if !self.end(false) {
                self.open(now);
            }
            return;
        }
        let request = self.reconcile(&loaded.items, false).unwrap_or_default();
        self.set_phase(Phase::Creating);
        self.commit(request, true, now);
    }

    fn no_such_room(&mut self, wishes: VecDeque<Wish>, loaded: &Loaded) {
        for wish in wishes {
            match wish {
                Wish::Attach(attach) if attach.mode == Mode::Join => {
                    self.refuse(&attach, ErrorCode::NoSuchRoom, "there is no such room", None);
                }
                Wish::Attach(attach) => self.refuse_retry(&attach),
                Wish::Detach { .. } | Wish::Resync { .. } => {}
            }
        }
        // Items and grants that outlived their room: nobody is left to hear of them. Grants that are owed stay.
        let waits = |item: &&WorkItem| item.parked.is_none();
        let cancelled = loaded.items.iter().filter(waits).filter(|item| !is_owed(&item.id.job));
        let cancelled: Vec<_> = cancelled.map(|item| item.id.clone()).collect();
        // A charge that its room has not handed over waits for a person.
        let parked = loaded.items.iter().filter(waits).filter(|item| item.id.job.starts_with(OWED_CHARGE));
        let parked: Vec<_> = parked.map(|item| (item.id.clone(), "its room is gone".to_owned())).collect();
        let trimmed: Vec<_> = std::mem::take(&mut self.results).into_values().map(|(position, _)| position).collect();
        self.fresh.clear();
        self.work.clear();
        self.due.clear();
        if !(cancelled.is_empty() && parked.is_empty() && trimmed.is_empty()) {
            self.submit(Request { cancelled, parked, trimmed, ..Request::default() });
        }
        self.host.unlist(&self.handle.room);
        self.set_phase(Phase::Deleting);
        if self.unacked == 0 {
            self.deleted();
        }
    }

    /// The room runs from now on; `request` goes out with its state.
    pub(super) fn start_running(&mut self, request: Option<Request>, now: Mono) {
        self.ticked = now;
        self.start_running_at(request, None, now);
    }

    /// The same; its first tick is due at `next`.
    fn start_running_at(&mut self, request: Option<Request>, next: Option<Mono>, now: Mono) {
        self.frozen = false;
        self.set_phase(Phase::Running);
        match next {
            Some(next) => self.pacer.resume(next, now),
            None => self.pacer.restart(now),
        }
        self.next_checkpoint = self.first_checkpoint(now);
        self.host.note_summary(&self.handle, self.world.as_mut());
        if let Some(request) = request {
            self.commit(request, true, now);
        }
        if self.phase == Phase::Running {
            self.run_ticks(now);
        }
    }

    /// The first checkpoint is stored: the room exists.
    pub(super) fn created(&mut self, now: Mono) {
        self.creators.clear();
        for (gateway, message) in std::mem::take(&mut self.withheld) {
            self.mail.send(&self.host, gateway, message);
        }
        self.start_running(None, now);
    }

    /// Gives a seat: whether one was given; an error is a fault of the room.
    pub(super) fn seat(&mut self, attach: &Attach) -> Result<bool, String> {
        if self.is_orphan(attach) {
            return Ok(false);
        }
        let attached = self.make(|actor| match actor.world.as_mut() {
            Some(world) => Ok((world.attach(attach), world.take_messages())),
            None => Err("the room has no world".to_owned()),
        });
        let (attached, messages) = attached?;
        let given = attached.is_ok();
        if given && attach.mode == Mode::Create {
            self.creators.insert((attach.gateway, attach.conn));
        }
        if given {
            self.dispose_due = None;
        }
        let answer = match attached {
            Ok(attached) => ToGateway::Attached(attached),
            Err(AttachRefused { close: Some(code), message, .. }) => {
                ToGateway::Close { conn: attach.conn, code, reason: message }
            }
            Err(AttachRefused { code, word, message, retry_after, close: None }) => {
                ToGateway::Refused { conn: attach.conn, attempt: attach.attempt, code, word, message, retry_after }
            }
        };
        for (gateway, message) in messages.into_iter().chain([(attach.gateway, answer)]) {
            // A room that is not stored yet gives no seat away; a refusal needs no room.
            if self.phase == Phase::Running || !given {
                self.mail.send(&self.host, gateway, message);
            } else {
                self.withheld.push((gateway, message));
            }
        }
        if let (Phase::Loading, Some(world)) = (self.phase, &self.world) {
            // Not stored yet: others who were told of it may still have to make it.
            self.host.know(world.summary(), false, Vec::new());
        } else {
            self.host.note_summary(&self.handle, self.world.as_mut());
        }
        self.host.finder.lock().release((attach.gateway, attach.conn));
        Ok(given)
    }

    /// Whether its link ended while it waited: nobody is there to take the seat.
    fn is_orphan(&self, attach: &Attach) -> bool {
        let gone = !self.host.gateways.is_connected(attach.gateway);
        if gone {
            self.host.finder.lock().release((attach.gateway, attach.conn));
        }
        gone
    }

    pub(super) fn refuse(&mut self, attach: &Attach, code: ErrorCode, message: &str, retry_after: Option<u32>) {
        self.host.finder.lock().release((attach.gateway, attach.conn));
        let (conn, attempt, message) = (attach.conn, attach.attempt, message.to_owned());
        let refused = ToGateway::Refused { conn, attempt, code, word: None, message, retry_after };
        self.mail.send(&self.host, attach.gateway, refused);
    }

    pub(super) fn refuse_retry(&mut self, attach: &Attach) {
        self.refuse(attach, ErrorCode::MayRetry, "the room is not available right now", Some(RETRY_AFTER));
    }

    /// A room that is being created and cannot be: those who wait are told, and the next one begins anew.
    pub(super) fn not_created(&mut self, why: &str) {
        tracing::warn!(room = %self.handle.room, why, "a room could not be created");
        for (gateway, message) in std::mem::take(&mut self.withheld) {
            let message = match message {
                ToGateway::Attached(attached) => ToGateway::Refused {
                    conn: attached.conn,
                    attempt: attached.attempt,
                    code: ErrorCode::MayRetry,
                    word: None,
                    message: "the room could not be stored".to_owned(),
                    retry_after: Some(RETRY_AFTER),
                },
                other => other,
            };
            self.mail.send(&self.host, gateway, message);
        }
        if !self.shard.is_lost() {
            // Of a lost shard the next owner's room of that id may be known already.
            self.host.unlist(&self.handle.room);
        }
        self.end(true);
    }

    pub(super) fn refuse_wishes(&mut self) {
        for wish in self.handle.take_wishes(false) {
            if let Wish::Attach(attach) = wish {
                let message = format!("the room failed for good: {}", self.fault);
                self.refuse(&attach, ErrorCode::RoomError, &message, None);
            }
        }
        self.handle.swap_inputs(&mut self.inputs);
        self.inputs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_life_begins_behind_all_ticks_of_a_former_one() {
        const DAY: u64 = 86_400_000_000;
        let (term, period) = (Term(1_764_446_400_000_000), Duration::from_millis(50));
        let at = |micros: u64| first_tick(term, Wall(term.0 + micros), period).0;
        for (born, died) in [(0, 0), (0, 40_000), (1_000, DAY), (3 * DAY, 30 * DAY)] {
            // The former life ticked by a clock that ran 200 ppm fast.
            let ticks = (died - born) / 50_000;
            let last = at(born) + ticks + ticks / 5_000;
            assert!(at(died + 50_000) > last, "{born} {died}");
        }
    }
}
