//! One tick: answers of the store, due work, timers and inputs come in; systems run; frames and effects go out.

use std::time::Duration;

use bevy_ecs::{entity::Entity, world::Mut};
use tenure_shared::codes::{CloseCode, ErrorCode};

use super::{RoomWorld, TickInput, TickOutput, inputs::reason};
use crate::{
    link::ToGateway,
    plugin::{
        Fired, LeaveCause, Refuse, Seat, TaskEnd,
        params::{
            BalanceBook, ControlState, DueQueue, GrantQueue, OutItem, OutQueue, ReplyBook, ScheduleBook, TaskQueue,
            TickNow, TickState, TimerBook,
        },
        run,
    },
    runtime::Wall,
};

/// How far the queues of a tick's effects were.
#[derive(Clone, Copy)]
pub(super) struct Marks {
    grants: usize,
    due: usize,
    messages: usize,
    kicks: usize,
}

impl RoomWorld {
    /// One tick.
    ///
    /// # Panics
    /// When game code panics: the world is half-ticked then and must be dropped.
    pub fn tick(&mut self, input: TickInput) -> TickOutput {
        self.begin(input.wall);
        self.learn(&input);
        self.end_graces();
        self.owed_places = input.owed_places;
        for result in input.results {
            self.deliver(result);
        }
        for missed in input.missed {
            self.show_missed(missed);
        }
        for (id, result) in input.tasks {
            self.task_done(id, result);
        }
        for id in std::mem::take(&mut self.interrupted) {
            self.task_done(id, Err(TaskEnd::Moved));
        }
        for due in input.due {
            self.due(due);
        }
        self.fire_timers();
        self.apply_inputs();
        self.schedule.run(&mut self.world);
        let kind = self.kind.clone();
        kind.registry().messages.iter().for_each(|(_, message)| message.clear(&mut self.world));
        self.collect();
        self.end_leaving();
        self.frames();
        self.world.clear_trackers();
        self.unseen = false;
        self.output()
    }

    fn begin(&mut self, wall: Wall) {
        self.dirty = true;
        self.tick.0 += 1;
        self.now += self.dt;
        // The store's clock does not go back, whatever a node has heard of it.
        self.wall = self.wall.max(wall);
        let (n, now, wall) = (self.tick.0, Duration::from_nanos(self.now), self.wall);
        if let Some(mut state) = self.world.get_resource_mut::<TickNow>() {
            state.0 = TickState { n, now, wall, ..state.0 };
        }
    }

    fn learn(&mut self, input: &TickInput) {
        if !input.schedules.is_empty()
            && let Some(mut book) = self.world.get_resource_mut::<ScheduleBook>()
        {
            for (id, next) in &input.schedules {
                match next {
                    Some(next) => drop(book.next.insert(id.clone(), *next)),
                    None => drop(book.next.remove(id)),
                }
            }
        }
        for (player, balances) in &input.balances {
            self.learn_balances(player, balances);
        }
    }

    pub(super) fn learn_balances(&mut self, player: &tenure_shared::PlayerId, balances: &[(String, i64)]) {
        if self.seat_of(player).is_none() {
            return;
        }
        if let Some(mut book) = self.world.get_resource_mut::<BalanceBook>() {
            let of = balances.iter().map(|(currency, amount)| (currency.as_str().into(), *amount)).collect();
            book.of.insert(player.clone(), of);
        }
    }

    fn task_done(&mut self, id: u64, result: crate::plugin::TaskResult) {
        let Some(mut tasks) = self.world.get_resource_mut::<TaskQueue>() else { return };
        // An end that is told twice, or of a task of another life, is nothing new.
        let Some((name, key)) = tasks.flying.remove(&id) else { return };
        let Some(runner) = self.handlers.tasks.get_mut(&name) else {
            return self.error(format!("task {name:?} has no handler in this build"));
        };
        if let Err(e) = runner.run(&mut self.world, key, result) {
            self.error(format!("task {name:?}: {e}"));
        }
    }

    fn fire_timers(&mut self) {
        let now = self.now;
        let Some(mut book) = self.world.get_resource_mut::<TimerBook>() else { return };
        for (id, generation) in book.due(now) {
            let Some(mut book) = self.world.get_resource_mut::<TimerBook>() else { return };
            // A handler before this one may have cancelled or reset it.
            let Some(entry) = book.fire(&id, generation, now) else {
                metrics::counter!("tenure_timer_stale_fires_total").increment(1);
                continue;
            };
            let Some(timer) = self.handlers.timers.get_mut(&id.0) else {
                self.error(format!("timer {:?} has no handler in this build", id.0));
                continue;
            };
            let fired = Fired { key: id.1, due: Duration::from_nanos(entry.due), payload: entry.payload };
            let go = match &mut timer.guard {
                Some(guard) => run(guard, &mut self.world, fired.clone()),
                None => Ok(true),
            };
            let done = match go {
                Ok(true) => run(&mut timer.handler, &mut self.world, fired),
                Ok(false) => Ok(()),
                Err(e) => Err(e),
            };
            if let Err(e) = done {
                self.error(format!("timer {:?}: {e}", id.0));
            }
        }
    }

    /// Takes what game code said: answers, messages, kicks, durable effects.
    fn collect(&mut self) {
        self.collect_durable();
        let mut faults = Vec::new();
        let mut answers = Vec::new();
        if let Some(mut book) = self.world.get_resource_mut::<ReplyBook>() {
            answers = std::mem::take(&mut book.answers);
            book.faults.take(&mut faults);
        }
        for (pending, answer) in answers {
            match answer {
                Ok(payload) => {
                    let reply = tenure_shared::wire::ServerMessage::Reply { id: pending.request, payload: &payload };
                    self.tell(pending.seat, &reply);
                }
                Err(refuse) => {
                    self.refuse_request(pending.seat, pending.request, ErrorCode::RequestFailed, &refuse);
                }
            }
        }
        let (mut items, mut kicks) = (Vec::new(), Vec::new());
        if let Some(mut queue) = self.world.get_resource_mut::<OutQueue>() {
            (items, kicks) = (std::mem::take(&mut queue.items), std::mem::take(&mut queue.kicks));
            queue.faults.take(&mut faults);
        }
        items.iter().for_each(|item| self.send(item));
        for (entity, refuse) in kicks {
            self.kick(entity, &refuse);
        }
        if let Some(mut book) = self.world.get_resource_mut::<TimerBook>() {
            book.faults.take(&mut faults);
        }
        let unencoded = self.replicator.take_faults();
        if unencoded > 0 {
            faults.push(format!("{unencoded} values could not be encoded"));
        }
        faults.into_iter().for_each(|fault| self.error(fault));
    }

    fn kick(&mut self, entity: Entity, refuse: &Refuse) {
        let Some(id) = self.world.get::<Seat>(entity).map(|seat| seat.id) else { return };
        let Some((link, leaving)) = self.seats.get(&id).map(|seat| (seat.link, seat.leaving)) else { return };
        self.end_seat(id, LeaveCause::Kicked);
        if let Some((gateway, conn)) = link {
            let close = ToGateway::Close { conn, code: CloseCode::Kicked, reason: reason(refuse.reason()) };
            self.messages.push((gateway, close));
        }
        // One who was leaving has what he asked for.
        self.messages.extend(leaving.map(|(gateway, conn)| (gateway, ToGateway::Left { conn })));
    }

    fn send(&mut self, item: &OutItem) {
        use crate::plugin::params::Target;
        let (number, payload) = (item.number, item.payload.as_slice());
        let message = tenure_shared::wire::ServerMessage::Message { kind: number, payload };
        let to = |entity: Entity| match item.to {
            Target::One(one) => entity == one,
            Target::All => true,
            Target::AllBut(but) => entity != but,
        };
        // A seat whose room has just moved has it when its gateway is there, after the snapshot: its player was never gone (H12).
        let here = |entity: Entity| self.world.get::<Seat>(entity).is_some_and(|seat| seat.connected);
        let seats = self.seats.iter().filter(|(_, seat)| to(seat.entity) && here(seat.entity));
        let ids: smallvec::SmallVec<[_; 64]> = seats.map(|(id, seat)| (*id, seat.link.is_some())).collect();
        // Half of the place: what the first tick with the gateway says is to fit besides.
        let most = self.settings.max_out_bytes / 2;
        for (id, linked) in ids {
            if linked {
                self.tell(id, &message);
            } else if !self.keep(id, &message, most) {
                // No fault of the game's: a gateway that takes its time.
                metrics::counter!("tenure_room_messages_missed_total").increment(1);
            }
        }
    }

    fn output(&mut self) -> TickOutput {
        let mut output = TickOutput {
            messages: std::mem::take(&mut self.messages),
            effects: std::mem::take(&mut self.effects),
            balances_wanted: std::mem::take(&mut self.balances_wanted).into_iter().collect(),
            missed_wanted: self.missed.take_wanted(),
            errors: std::mem::take(&mut self.errors),
            ..TickOutput::default()
        };
        if let Some(mut tasks) = self.world.get_resource_mut::<TaskQueue>() {
            let tasks: &mut TaskQueue = Mut::into_inner(tasks.reborrow());
            output.tasks = std::mem::take(tasks.start.get_mut());
        }
        if let Some(mut control) = self.world.get_resource_mut::<ControlState>() {
            output.dispose = control.dispose;
            output.switched = control.switched;
            control.switched = false;
        }
        output
    }

    /// The queues of durable effects, and how far they are: what a handler that refuses put there is taken back.
    pub(super) fn effect_marks(&self) -> Marks {
        let out = self.world.get_resource::<OutQueue>();
        Marks {
            grants: self.world.get_resource::<GrantQueue>().map_or(0, |q| q.grants.len()),
            due: self.world.get_resource::<DueQueue>().map_or(0, |q| q.ops.len()),
            messages: out.map_or(0, |q| q.items.len()),
            kicks: out.map_or(0, |q| q.kicks.len()),
        }
    }

    pub(super) fn effect_rollback(&mut self, marks: Marks) {
        if let Some(mut queue) = self.world.get_resource_mut::<GrantQueue>() {
            queue.grants.truncate(marks.grants);
        }
        if let Some(mut queue) = self.world.get_resource_mut::<DueQueue>() {
            queue.ops.truncate(marks.due);
        }
        if let Some(mut queue) = self.world.get_resource_mut::<OutQueue>() {
            queue.items.truncate(marks.messages);
            queue.kicks.truncate(marks.kicks);
        }
    }
}
