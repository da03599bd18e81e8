//! Ticks: whether the room may run, inputs in, one tick, messages and effects out, wishes between ticks.

use std::{
    collections::{BTreeSet, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
};

use tenure_shared::codes::{CloseCode, ErrorCode};

use super::{
    super::{
        config::{UNACKED_COMMITS, rewards_per_tick},
        inbox::Wish,
    },
    Actor, Phase, due,
    failing::text,
};
use crate::{
    link::{GatewayId, Mode, ToGateway},
    plugin::TaskFuture,
    room::world::{InputRefused, RoomWorld, TickInput, TickOutput},
    runtime::{Mono, faults, tasks::Kind},
};

impl Actor {
    pub(super) fn run_ticks(&mut self, now: Mono) {
        if !self.may_run(now) {
            return;
        }
        // Attaches do not wait for the tick.
        self.grant_wishes(true, now);
        if self.phase != Phase::Running {
            return;
        }
        let Some(due) = self.pacer.due(now) else { return };
        self.ticked = self.pacer.last();
        self.meters.late(due.late);
        if due.run > 1 || due.dropped > 0 {
            self.handle.ticks_late.fetch_add(u64::from(due.run), Ordering::Relaxed);
            self.handle.ticks_dropped.fetch_add(due.dropped, Ordering::Relaxed);
            self.meters.dropped(due.dropped);
        }
        self.follow_book(now);
        if self.phase != Phase::Running {
            return;
        }
        for _ in 0..due.run {
            if self.unacked >= UNACKED_COMMITS {
                // The store does not keep up: a tick more would only make what waits longer.
                self.meters.dropped(1);
                self.handle.ticks_dropped.fetch_add(1, Ordering::Relaxed);
                break;
            }
            self.one_tick(now);
            if self.phase != Phase::Running {
                return;
            }
        }
        if std::mem::take(&mut self.came) {
            faults::point("handoff.target.ticked");
        }
        // Before anything comes that systems have not seen.
        self.maybe_checkpoint(now);
        if self.phase != Phase::Running {
            return;
        }
        self.grant_wishes(false, now);
        if self.phase != Phase::Running {
            return;
        }
        let done = self.make(|actor| {
            actor.let_gone_gateways_go();
            actor.let_lost_gateways_go();
            Ok(())
        });
        if let Err(reason) = done {
            return self.fault(&reason, now);
        }
        if let Some(world) = &self.world {
            self.handle.tick.store(world.tick_number().0, Ordering::Relaxed);
            self.handle.connected.store(world.connected(), Ordering::Relaxed);
        }
        if self.world.as_ref().is_some_and(|world| world.seats() != self.handle.seats.load(Ordering::Relaxed)) {
            self.host.note_summary(&self.handle, self.world.as_mut());
        }
        self.maybe_end(now);
    }

    /// The gate before every tick and send: the lease holds, the shard is still ours under the term the room runs under (H1), and it is
    /// not being given away.
    fn may_run(&mut self, now: Mono) -> bool {
        if !self.host.may_run(&self.shard, now) {
            let giving = self.shard.giving().is_some();
            if giving && !self.frozen {
                let shown = self.show_all(now);
                if self.phase != Phase::Running || !shown {
                    self.pacer.restart(now);
                    return false;
                }
            }
            if !self.frozen {
                self.frozen = true;
                self.cancel_tasks();
                self.set_phase(Phase::Running);
                // Of the node and of each shard ownership and its writer say more loudly what goes on.
                tracing::debug!(room = %self.handle.room, giving, "frozen");
            }
            if giving {
                self.save_for_giving(now);
            }
            // Its time stands still; it looks again after a period.
            self.pacer.restart(now);
            return false;
        }
        if self.frozen {
            self.frozen = false;
            self.set_phase(Phase::Running);
            self.pacer.restart(now);
            self.next_checkpoint = now;
            tracing::debug!(room = %self.handle.room, term = %self.shard.term(), "thawed");
        }
        let term = self.shard.term();
        if let Some(world) = self.world.as_mut().filter(|world| world.term() != term) {
            world.set_term(term);
        }
        true
    }

    /// Before a room stands still for another owner its systems see what came since the last tick: there it is no news any more. The tick that
    /// comes a little early is the one that was due next. `false`: it must wait until the store keeps up again; whoever freezes it has a deadline.
    fn show_all(&mut self, now: Mono) -> bool {
        let unseen = self.world.as_ref().is_some_and(RoomWorld::unseen);
        if !unseen || !self.host.leads(&self.shard, now) {
            return true;
        }
        if self.unacked >= UNACKED_COMMITS {
            return false;
        }
        self.ticked = self.pacer.next();
        self.one_tick(now);
        true
    }

    fn one_tick(&mut self, now: Mono) {
        self.handle.swap_inputs(&mut self.inputs);
        let rewards = rewards_per_tick(self.host.config.world.max_grants_per_step);
        let due = due::take(&mut self.due, rewards);
        let input = TickInput {
            wall: self.host.store_now(),
            due,
            results: std::mem::take(&mut self.fresh),
            owed_places: self.items.owed_places(),
            balances: std::mem::take(&mut self.balances),
            missed: std::mem::take(&mut self.missed),
            tasks: std::mem::take(&mut self.task_results),
            schedules: self.occurrences.news(),
        };
        self.running_work = input.due.iter().map(|work| work.item.clone()).collect();
        let started = self.host.clock.now();
        let Some(world) = self.world.as_mut() else { return };
        let inputs = &mut self.inputs;
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let taken = inputs.drain(..).map(|(gateway, input)| (gateway, world.input(input)));
            let refused: Vec<_> = taken.filter_map(|(gateway, taken)| Some((gateway, taken.err()?))).collect();
            let output = world.tick(input);
            let needs = !output.effects.is_empty();
            let checkpoint = needs.then(|| world.checkpoint(false));
            (refused, output, checkpoint, world.take_messages())
        }));
        let took = self.host.clock.now().since(started);
        self.meters.ticked(took, took > self.host.period(&self.kind));
        match ran {
            Ok(_) if self.shard.is_lost() => {
                // It took so long that the shard is another's: not a word of it (H1).
                self.lost();
            }
            Ok((refused, output, checkpoint, messages)) => {
                self.running_work.clear();
                self.after_tick(output, checkpoint, now);
                for (gateway, message) in messages {
                    self.mail.send(&self.host, gateway, message);
                }
                let done = self.make(|actor| {
                    actor.refuse_inputs(refused);
                    Ok(())
                });
                if let Err(reason) = done {
                    self.fault(&reason, now);
                }
            }
            Err(panic) => {
                self.suspects.append(&mut self.running_work);
                self.fault(&text(&*panic), now);
            }
        }
    }

    fn after_tick(&mut self, output: TickOutput, checkpoint: Option<crate::store::Checkpoint>, now: Mono) {
        let TickOutput { messages, effects, tasks, balances_wanted, missed_wanted, dispose, switched, errors } = output;
        self.complain(errors, now);
        if let Some(checkpoint) = checkpoint {
            self.commit_effects(effects, checkpoint, now);
        }
        if self.phase != Phase::Running {
            return;
        }
        for (gateway, message) in messages {
            self.mail.send(&self.host, gateway, message);
        }
        for (id, task) in tasks {
            self.start_task(id, task);
        }
        if switched {
            self.host.note_summary(&self.handle, self.world.as_mut());
        }
        self.balances_wanted.extend(balances_wanted);
        self.missed_wanted.extend(missed_wanted);
        self.ask_balances();
        self.ending |= dispose;
        // What a player pays for in the last tick is still handed over (H6).
        if self.ending && self.grants_out == 0 && self.results.is_empty() {
            self.dispose();
        }
    }

    /// An input that was not taken leaves a gap: its socket must come back and send from the number owed (H4). Of a seat that is over its
    /// gateway is told, once a tick.
    fn refuse_inputs(&mut self, refused: Vec<(GatewayId, InputRefused)>) {
        let mut told = BTreeSet::new();
        for (gateway, refused) in refused {
            let Some(world) = self.world.as_mut() else { return };
            match refused {
                InputRefused::Overrun { seat, reason } => {
                    let Some(member) = world.attachments().into_iter().find(|m| m.seat == seat) else { continue };
                    world.detach(seat, member.generation, false);
                    let close = ToGateway::Close { conn: member.conn, code: CloseCode::MayRetry, reason };
                    self.mail.send(&self.host, member.gateway, close);
                }
                InputRefused::Gone { seat, generation } => {
                    if told.insert((gateway, seat, generation)) {
                        let gone = ToGateway::Gone { room: self.handle.room.clone(), seat, generation };
                        self.mail.send(&self.host, gateway, gone);
                    }
                }
            }
        }
    }

    /// What gateways want. Between ticks only what needs no tick; detaches come behind the inputs sent before them.
    fn grant_wishes(&mut self, between_ticks: bool, now: Mono) {
        let mut wishes = self.handle.take_wishes(between_ticks);
        // The game has ended the room, and only waits for what it charged: who comes now is for its next life (C48).
        let mut later = VecDeque::new();
        while let Some(wish) = wishes.pop_front() {
            match wish {
                Wish::Attach(_) if self.ending => later.push_back(wish),
                Wish::Attach(attach) if self.stopping => self.refuse_retry(&attach),
                Wish::Attach(attach) if attach.mode == Mode::Create => {
                    self.refuse(&attach, ErrorCode::RoomExists, "the room exists already", None);
                }
                Wish::Attach(attach) => {
                    if let Err(reason) = self.seat(&attach) {
                        self.refuse_retry(&attach);
                        self.handle.put_back(wishes);
                        return self.fault(&reason, now);
                    }
                }
                Wish::Detach { .. } | Wish::Resync { .. } => {
                    let done = self.make(|actor| actor.detach_or_resync(&wish));
                    if let Err(reason) = done {
                        later.append(&mut wishes);
                        self.handle.put_back(later);
                        return self.fault(&reason, now);
                    }
                }
            }
        }
        self.handle.put_back(later);
    }

    fn detach_or_resync(&mut self, wish: &Wish) -> Result<(), String> {
        let Some(world) = self.world.as_mut() else { return Ok(()) };
        match *wish {
            Wish::Detach { seat, generation, consented } => {
                world.detach(seat, generation, consented);
            }
            Wish::Resync { seat, generation } => {
                if let Some((gateway, message)) = world.resync(seat, generation) {
                    self.mail.send(&self.host, gateway, message);
                }
            }
            Wish::Attach(_) => {}
        }
        for (gateway, message) in world.take_messages() {
            self.mail.send(&self.host, gateway, message);
        }
        self.host.note_summary(&self.handle, self.world.as_mut());
        Ok(())
    }

    /// Seats whose gateway's link ended: as if each of their sockets had dropped. One that was attached again through another link is not
    /// meant (C49).
    fn let_gone_gateways_go(&mut self) {
        if self.host.shutdown.is_stopped() {
            // It is the node that ends, and with it every link: nothing of this is stored any more.
            return;
        }
        let gone = self.host.gateways.gone();
        if std::mem::replace(&mut self.gateways_gone, gone) == gone {
            return;
        }
        let Some(world) = self.world.as_mut() else { return };
        for member in world.attachments() {
            if !self.host.gateways.is_connected(member.gateway) {
                world.detach(member.seat, member.generation, false);
            }
        }
        self.host.note_summary(&self.handle, self.world.as_mut());
    }

    fn let_lost_gateways_go(&mut self) {
        let lost = self.mail.take_lost();
        let Some(world) = self.world.as_mut().filter(|_| !lost.is_empty()) else { return };
        for member in world.attachments().into_iter().filter(|member| lost.contains(&member.gateway)) {
            world.detach(member.seat, member.generation, false);
            let reason = "the room's messages could not be delivered".to_owned();
            let close = ToGateway::Close { conn: member.conn, code: CloseCode::MayRetry, reason };
            self.mail.send(&self.host, member.gateway, close);
        }
    }

    fn start_task(&mut self, id: u64, task: TaskFuture) {
        self.tasks_out += 1;
        let (handle, stop, epoch) = (self.handle.clone(), self.tasks.clone(), self.task_epoch);
        self.host.tasks.spawn("room task", Kind::PerConnection, async move {
            let report = super::super::tasks::Report::new(handle, epoch, id);
            tokio::select! {
                biased;
                value = task => report.done(value),
                () = stop.stopped() => report.cancelled(),
            }
        });
    }

    pub(super) fn cancel_tasks(&mut self) {
        self.tasks.stop();
        self.tasks = self.host.shutdown.child();
    }
}
