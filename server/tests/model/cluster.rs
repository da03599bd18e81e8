//! A small cluster as a model: nodes with the real step machine of ownership, one shard with one room, the real store rules, messages
//! that get lost or come late, crashes, pauses, a store that forgets, and a gateway that remembers the highest term it showed.
//!
//! Time is counted in steps; a pause is a node that does nothing while time goes on, so every node may pause at any moment.

use std::collections::VecDeque;

use tenure::{
    ownership::model_check::{Effect, Event},
    runtime::Wall,
    store::{Command, Reply},
};
use tenure_shared::{IncarnationId, Term};

pub use super::parts::*;
use super::{
    handing::Post,
    intern::Intern,
    machine::{self, Machines, SHARD, mono},
    room,
    store::{START, STEP_MICROS, Stores, Without},
};

/// The model.
pub struct Cluster {
    pub bounds: Bounds,
    pub careless: Careless,
    pub stores: Stores,
    pub machines: Machines,
    pub posts: Intern<Post>,
    pub nodes: u8,
}

impl Cluster {
    pub fn new(bounds: Bounds, without: Without, careless: Careless) -> Self {
        Self {
            bounds,
            careless,
            stores: Stores::new(without),
            machines: Machines::default(),
            posts: Intern::default(),
            nodes: 2,
        }
    }

    fn micros(&self, state: &State) -> u64 {
        START + u64::from(state.now.saturating_sub(state.behind)) * STEP_MICROS
    }

    pub fn start(&self) -> State {
        let b = self.bounds;
        let node = Node { machine: Some(self.machines.fresh(1)), ..Node::default() };
        let mut state = State {
            now: 0,
            rows: self.stores.fresh(1),
            old: None,
            behind: 0,
            nodes: vec![node; usize::from(self.nodes)],
            flights: Vec::new(),
            posts: Vec::new(),
            left: Left {
                lost: b.lost,
                slow: b.slow,
                crashes: b.crashes,
                drains: b.drains,
                leaves: b.leaves,
                works: b.works,
                failovers: b.failovers,
                hands: b.hands,
                mislaid: b.mislaid,
                repeats: b.repeats,
            },
            shown: 0,
            terms: Vec::new(),
            wrong: 0,
        };
        if b.owned {
            for node in 0..self.nodes {
                self.event(&mut state, node, Event::Tick);
                self.serve_all(&mut state);
            }
            self.load(&mut state, 0);
        }
        if b.hands > 0 {
            self.event(&mut state, 0, Event::Drain);
            self.serve_all(&mut state);
        }
        if b.forgotten {
            self.forget_worlds(&mut state);
        }
        if b.between {
            self.take_between(&mut state);
        }
        for _ in 0..b.asleep {
            self.serve_all(&mut state);
            self.advance(&mut state);
            while state.nodes[1].machine.is_some_and(|machine| self.machines.view(machine).wake <= mono(state.now)) {
                self.event(&mut state, 1, Event::Tick);
            }
        }
        state
    }

    pub fn serve_all(&self, state: &mut State) {
        while !state.flights.is_empty() {
            self.serve(state, 0);
        }
    }

    /// What a machine hears, and what follows from it. Reads, and what a late arrival would not change, are answered at once.
    pub fn event(&self, state: &mut State, node: u8, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Some(machine) = state.nodes[usize::from(node)].machine else { return };
            if let Event::Given { new, .. } = &event {
                state.nodes[usize::from(node)].hand.given = Some(*new);
            }
            if self.thaws(state, node, &event) {
                continue;
            }
            let (after, effects) = self.machines.step(machine, state.now, self.machines.events.put_debug(event));
            state.nodes[usize::from(node)].machine = Some(after);
            for effect in effects.iter() {
                let flight = self.flight(state, node, *effect);
                if self.is_message(&self.machines.effects.get(*effect)) {
                    self.put(state, flight);
                } else {
                    let answer = self.apply(state, &flight);
                    events.push_back(self.told(state, *effect, &flight, answer));
                }
            }
            self.observe(state, node);
            room::follow(self, state, node);
            self.follow_hand(state, node);
            self.begin(state, node);
        }
    }

    fn is_message(&self, effect: &Effect) -> bool {
        match effect {
            Effect::Acquire { .. }
            | Effect::Release { .. }
            | Effect::Give { .. }
            | Effect::Transfer { .. }
            | Effect::Deregister { .. } => true,
            Effect::Beat { .. } => self.bounds.beats,
            _ => false,
        }
    }

    fn name(node: u8) -> String {
        char::from(b'a' + node).to_string()
    }

    fn flight(&self, state: &mut State, node: u8, number: u32) -> Flight {
        let effect = self.machines.effects.get(number);
        let this = &mut state.nodes[usize::from(node)];
        if *effect == Effect::Register {
            this.lives += 1;
        }
        let register = IncarnationId::new(&format!("{}{}", Self::name(node), this.lives)).expect("a name");
        let mut command = machine::command(&Self::name(node), &effect, &register);
        if self.careless.thaw_by_read
            && let Command::Acquire { key, caller, seen: Some((Some(holder), _)), .. } = &command
            && caller == holder
        {
            command = Command::Claim { key: key.clone() };
        }
        Flight {
            node,
            process: this.process,
            what: What::Own(number),
            command: self.stores.commands.put_debug(command),
            sent: state.now,
            awaited: true,
            answer: None,
        }
    }

    pub fn put(&self, state: &mut State, flight: Flight) {
        let at = state.flights.partition_point(|other| *other < flight);
        state.flights.insert(at, flight);
    }

    /// The store does it; the answer.
    pub fn apply(&self, state: &mut State, flight: &Flight) -> u32 {
        let command = self.stores.commands.get(flight.command);
        let before = state.rows;
        let (after, answer) = self.stores.apply(before, flight.command, self.micros(state));
        if let (Command::Commit { fence, .. }, true) = (&*command, before != after) {
            let claim = self.stores.claim(before, SHARD);
            if claim != Some((Some(fence.incarnation().clone()), fence.term())) {
                state.wrong |= UNFENCED;
            }
            let (was, is) = (room::stored(self, before), room::stored(self, after));
            if !is.starts_with(&was) {
                state.wrong |= OVERWRITTEN;
            }
        }
        state.rows = after;
        answer
    }

    fn carry_out(&self, state: &mut State, flight: &Flight) {
        let answer = self.apply(state, flight);
        if flight.awaited {
            self.answer(state, flight, answer);
        }
    }

    pub fn serve(&self, state: &mut State, index: u8) {
        let flight = state.flights.remove(usize::from(index));
        match flight.answer {
            Some(answer) => self.answer(state, &flight, answer),
            None => self.carry_out(state, &flight),
        }
    }

    fn answer(&self, state: &mut State, flight: &Flight, answer: u32) {
        let node = &state.nodes[usize::from(flight.node)];
        if node.machine.is_none() || node.process != flight.process {
            return;
        }
        match flight.what {
            What::Own(effect) => {
                let event = self.told(state, effect, flight, answer);
                self.event(state, flight.node, event);
            }
            What::Commit => room::answered(self, state, flight, &self.stores.answers.get(answer)),
        }
    }

    fn told(&self, state: &State, effect: u32, flight: &Flight, answer: u32) -> Event {
        let (effect, answer) = (self.machines.effects.get(effect), self.stores.answers.get(answer));
        let command = self.stores.commands.get(flight.command);
        if let (Command::Claim { .. }, Effect::Acquire { shard, caller, seen, .. }) = (&*command, &*effect) {
            // The careless thaw: still as it was, so nothing happened.
            return match &*answer {
                Ok(Reply::Claim(Some(claim))) if Some((claim.holder.clone(), claim.term)) == *seen => {
                    Event::Granted { shard: *shard, incarnation: caller.clone(), seen: seen.clone(), term: claim.term }
                }
                _ => machine::failed(&effect),
            };
        }
        let counted = if self.careless.counts_from_answer { state.now } else { flight.sent };
        machine::event(&effect, &command, mono(counted), Wall(self.micros(state)), &answer)
    }

    pub fn lose(&self, state: &mut State, index: u8) {
        let mut flight = state.flights.remove(usize::from(index));
        flight.awaited = false;
        let waits = flight.clone();
        let command = self.stores.commands.get(flight.command);
        if !command.is_read() {
            self.put(state, flight);
        }
        match waits.what {
            What::Own(effect) => {
                let event = machine::failed(&self.machines.effects.get(effect));
                self.event(state, waits.node, event);
            }
            // The same number and the same batch again.
            What::Commit => room::again(self, state, &waits),
        }
    }

    /// Who acts now, and whether it may.
    fn observe(&self, state: &mut State, node: u8) {
        let now = mono(state.now);
        let this = &mut state.nodes[usize::from(node)];
        let view = this.machine.map(|machine| self.machines.view(machine));
        let acts =
            view.clone().filter(|view| now < view.acts_until).and_then(|view| view.holding).map(|(term, _)| term.0);
        if acts == this.acting {
            return;
        }
        this.acting = acts;
        let own = view.and_then(|view| view.incarnation);
        let Some(term) = acts else { return };
        if self.bounds.hands > 0
            && self
                .stores
                .claim(state.rows, SHARD)
                .is_none_or(|(holder, at)| at.0 < term || (at.0 == term && holder != own))
        {
            state.wrong |= NOT_ITS_OWN;
        }
        if state.terms.contains(&term) {
            state.wrong |= SHARED_TERM;
        }
        if state.terms.last().is_some_and(|last| *last > term) && self.bounds.failovers == 0 {
            state.wrong |= TERM_WENT_BACK;
        }
        let at = state.terms.partition_point(|other| *other < term);
        state.terms.insert(at, term);
        let acting = state.nodes.iter().filter(|node| node.acting.is_some()).count();
        // A source whose transfer is on its way holds its shard and stands still: `look` sees to who ticks.
        if acting > 1 && self.bounds.failovers == 0 && self.bounds.hands == 0 {
            state.wrong |= TWO_ACT;
        }
    }

    /// Who ticks now.
    pub fn look(&self, state: &mut State) {
        let ticks =
            |node: &&Node| node.room.as_ref().is_some_and(|room| !room.frozen && node.acting == Some(room.term));
        if self.bounds.hands > 0 && state.nodes.iter().filter(ticks).count() > 1 {
            state.wrong |= TWO_ACT;
        }
    }

    pub fn load(&self, state: &mut State, node: u8) {
        room::load(self, state, node);
    }

    pub fn advance(&self, state: &mut State) {
        state.now += 1;
        for node in 0..self.nodes {
            self.observe(state, node);
        }
    }

    /// A failover: rows of the slots are as the replica has them.
    pub fn failover(&self, state: &mut State, slots: Slots) {
        let Some(old) = state.old.take() else { return };
        let of_members = |key: &[u8]| key.starts_with(b"member/") || key.starts_with(b"tombstone/");
        state.rows = match slots {
            Slots::Both => old,
            Slots::Members => self.stores.forget(state.rows, old, of_members),
            Slots::Shards => self.stores.forget(state.rows, old, |key| !of_members(key)),
        };
        state.behind = self.bounds.behind;
        state.left.failovers -= 1;
        // It takes its time.
        self.advance(state);
    }

    pub fn end(&self, state: &mut State, node: u8) {
        let this = &mut state.nodes[usize::from(node)];
        *this = Node { process: this.process, lives: this.lives, ..Node::default() };
        let stores = &self.stores;
        state.flights.retain_mut(|flight| {
            let own = flight.node == node;
            flight.awaited &= !own;
            !own || flight.answer.is_none() && !stores.commands.get(flight.command).is_read()
        });
        state.flights.sort_unstable();
    }

    pub fn show(&self, state: &mut State, node: u8) {
        let Some(term) = state.nodes[usize::from(node)].acting else { return };
        if term >= state.shown {
            state.shown = term;
        } else if !self.careless.deaf {
            let seen = Term(state.shown);
            self.event(state, node, Event::TermSeen { shard: SHARD, term: seen });
        }
    }

    /// Somebody owns the shard, its room is there, nothing waits, and the gateway shows what it sends.
    pub fn is_well(&self, state: &State) -> bool {
        state.nodes.iter().any(|node| {
            let room =
                self.bounds.works == 0 || node.room.as_ref().is_some_and(|room| room.pending.is_none() && !room.frozen);
            room && node.acting.is_some_and(|term| term >= state.shown || !self.bounds.gateway)
        })
    }

    /// Whether an ordinary course of events, without new faults, leads to where all is well and stays.
    pub fn recovers(&self, state: &State, steps: u8) -> bool {
        let mut state = state.clone();
        state.left = Left::default();
        if state.nodes.iter().all(|node| node.machine.is_none()) {
            state = self.next(&state, Action::Restart(0));
        }
        let mut well = false;
        for _ in 0..steps {
            for _ in 0..400 {
                let mut actions = Vec::new();
                self.actions_of(&state, &mut actions);
                let Some(action) =
                    actions.into_iter().find(|action| !matches!(action, Action::Advance | Action::Restart(_)))
                else {
                    break;
                };
                state = self.next(&state, action);
            }
            well = self.is_well(&state);
            self.advance(&mut state);
        }
        well
    }

    pub fn is_fault(action: Action) -> bool {
        use Action::{Crash, Cut, Drain, Failover, Leave, Lose, Mislay, Repeat, Slow};
        matches!(action, Mislay(_) | Repeat(_) | Lose(_) | Drain(_) | Slow(_) | Crash(_) | Leave(_) | Cut | Failover(_))
    }
}
