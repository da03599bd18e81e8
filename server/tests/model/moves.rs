//! What may happen next in a modelled cluster, and what it leads to.

use tenure::ownership::model_check::Event;
use tenure_shared::Term;

use super::{
    cluster::{Action, Cluster, Slots, State},
    machine::{SHARD, mono},
    room,
};

impl Cluster {
    pub fn actions_of(&self, state: &State, actions: &mut Vec<Action>) {
        let left = &state.left;
        for (index, flight) in state.flights.iter().enumerate() {
            let index = u8::try_from(index).expect("few flights");
            if flight.answer.is_some() {
                actions.push(Action::Answer(index));
                continue;
            }
            actions.push(Action::Serve(index));
            if flight.awaited && left.lost > 0 {
                actions.push(Action::Lose(index));
            }
            if flight.awaited && left.slow > 0 {
                actions.push(Action::Slow(index));
            }
        }
        for (index, node) in state.nodes.iter().enumerate() {
            let index = u8::try_from(index).expect("few nodes");
            let Some(machine) = node.machine else {
                if self.bounds.restarts {
                    actions.push(Action::Restart(index));
                }
                continue;
            };
            if self.machines.view(machine).wake <= mono(state.now) {
                actions.push(Action::Tick(index));
            }
            if left.crashes > 0 {
                actions.push(Action::Crash(index));
            }
            let view = self.machines.view(machine);
            if left.drains > 0 && node.acting.is_some() {
                actions.push(Action::Drain(index));
            }
            let plain = self.bounds.hands == 0 && view.gives.is_some();
            if plain && node.acting.is_some() && node.room.as_ref().is_none_or(|room| room.pending.is_none()) {
                actions.push(Action::Give(index));
            }
            // The first node never leaves: it is the one that comes back to what it held.
            if left.leaves > 0 && index > 0 && node.acting.is_some() {
                actions.push(Action::Leave(index));
            }
            if node.acting.is_some() && self.bounds.works > 0 && node.room.is_none() {
                actions.push(Action::Load(index));
            }
            if left.works > 0 && room::may_work(node) {
                actions.push(Action::Work(index));
            }
            if self.may_hand(state, index) {
                actions.push(Action::Hand(index));
            }
            if self.hand_due(state, index) {
                actions.push(Action::HandTick(index));
            }
            if self.bounds.gateway && node.acting.is_some_and(|term| term != state.shown) {
                actions.push(Action::Show(index));
            }
        }
        for index in 0..u8::try_from(state.posts.len()).expect("few messages") {
            actions.push(Action::Deliver(index));
            if left.mislaid > 0 {
                actions.push(Action::Mislay(index));
            }
            if left.repeats > 0 {
                actions.push(Action::Repeat(index));
            }
        }
        if left.failovers > 0 {
            match state.old {
                None => actions.push(Action::Cut),
                Some(_) => actions.extend([Slots::Members, Slots::Shards, Slots::Both].map(Action::Failover)),
            }
        }
        let never_pauses = |node: u8| self.bounds.prompt & (1 << node) != 0;
        let due = |action: &Action| match action {
            Action::Serve(index) | Action::Answer(index) => never_pauses(state.flights[usize::from(*index)].node),
            Action::Tick(node) | Action::Show(node) | Action::Load(node) | Action::HandTick(node) => {
                never_pauses(*node)
            }
            _ => false,
        };
        if state.now < self.bounds.time && !actions.iter().any(due) {
            actions.push(Action::Advance);
        }
    }

    pub fn next(&self, last: &State, action: Action) -> State {
        let mut state = last.clone();
        match action {
            Action::Advance => self.advance(&mut state),
            Action::Tick(node) => self.event(&mut state, node, Event::Tick),
            Action::Serve(index) | Action::Answer(index) => self.serve(&mut state, index),
            Action::Slow(index) => {
                state.left.slow -= 1;
                let mut flight = state.flights.remove(usize::from(index));
                flight.answer = Some(self.apply(&mut state, &flight));
                self.put(&mut state, flight);
            }
            Action::Lose(index) => {
                state.left.lost -= 1;
                self.lose(&mut state, index);
            }
            Action::Crash(node) => {
                state.left.crashes -= 1;
                self.end(&mut state, node);
            }
            Action::Restart(node) => {
                let this = &mut state.nodes[usize::from(node)];
                this.machine = Some(self.machines.fresh(1));
                this.process += 1;
            }
            Action::Leave(node) => {
                state.left.leaves -= 1;
                // What it sends at its end is on its way; it waits for nothing.
                self.event(&mut state, node, Event::Leave);
                self.end(&mut state, node);
            }
            Action::Drain(node) => {
                state.left.drains -= 1;
                self.event(&mut state, node, Event::Drain);
            }
            Action::Give(node) => {
                let this = &mut state.nodes[usize::from(node)];
                this.room = None;
                if let Some(term) = this.acting {
                    self.event(&mut state, node, Event::Gave { shard: SHARD, term: Term(term) });
                }
            }
            Action::Load(node) => self.load(&mut state, node),
            Action::Work(node) => {
                state.left.works -= 1;
                room::work(self, &mut state, node);
            }
            Action::Hand(node) => {
                state.left.hands -= 1;
                self.hand(&mut state, node);
            }
            Action::HandTick(node) => self.hand_tick(&mut state, node),
            Action::Deliver(index) => {
                let post = state.posts.remove(usize::from(index));
                self.deliver(&mut state, post);
            }
            Action::Mislay(index) => {
                state.left.mislaid -= 1;
                state.posts.remove(usize::from(index));
            }
            Action::Repeat(index) => {
                state.left.repeats -= 1;
                let post = state.posts[usize::from(index)];
                self.deliver(&mut state, post);
            }
            Action::Cut => state.old = Some(state.rows),
            Action::Failover(slots) => self.failover(&mut state, slots),
            Action::Show(node) => self.show(&mut state, node),
        }
        self.look(&mut state);
        state
    }
}
