//! Numbered inputs of one seat that changes gateways, while rooms are restored and the store may forget a save: H4, F10, F13.
//! Client, gateways and world are doubles of the rules; the store is the real one.

use stateright::{Model, Property};
use tenure::store::{Batch, Command, Key};
use tenure_shared::{IncarnationId, Term};

use super::{
    graph::{Lively, always_recovers, gets_stuck, holds, violates},
    machine::{SHARD, info, times},
    room,
    store::{START, Stores, Without, fence},
};

const H4: &str = "H4: every input once, in order";
const TOLD: &str = "H4: what is lost is announced";
const KEPT: &str = "H4: a store that forgets nothing loses nothing";

/// Inputs that the player makes.
const INPUTS: u8 = 2;

/// The rules; each may be taken out.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// On resume the client sends again, in order, what is not saved (F10).
    sends_again: bool,
    /// Inputs are kept until they are saved; otherwise until they are applied.
    keeps_until_saved: bool,
    /// An attach names the first number its sender has, and a world that wants a lower one goes on from there (F13).
    names_first: bool,
    /// The world applies whatever is above the last; otherwise only the next number.
    above_the_last: bool,
    /// Inputs of an older attachment are not applied.
    generations: bool,
}

const RULES: Rules =
    Rules { sends_again: true, keeps_until_saved: true, names_first: true, above_the_last: true, generations: true };

struct Inputs {
    rules: Rules,
    stores: Stores,
    moves: u8,
    crashes: u8,
    failovers: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    rows: u32,
    old: Option<u32>,
    lives: u8,
    number: u64,
    /// What the world applied.
    applied: Vec<u8>,
    last: u8,
    generation: u8,
    rolled_back: bool,
    /// What the client made, and up to where it knows it saved (or applied, if that is the rule).
    made: u8,
    kept_from: u8,
    attached: bool,
    at: usize,
    /// Inputs on their way through each gateway, in order, with their attachment.
    links: [Vec<(u8, u8)>; 2],
    moves: u8,
    crashes: u8,
    failovers: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Make,
    Arrive(usize),
    Save,
    Resume,
    Attach,
    Crash,
    Cut,
    Failover,
}

impl Inputs {
    fn new(rules: Rules) -> Self {
        Self { rules, stores: Stores::new(Without::default()), moves: 1, crashes: 0, failovers: 0 }
    }

    fn with(self, crashes: u8, failovers: u8) -> Self {
        Self { crashes, failovers, ..self }
    }

    fn owner(lives: u8) -> IncarnationId {
        IncarnationId::new(&format!("a{lives}")).expect("a name")
    }

    fn apply(&self, rows: u32, command: Command) -> u32 {
        self.stores.apply(rows, self.stores.commands.put_debug(command), START).0
    }

    /// A new owner takes the shard.
    fn begin(&self, state: &mut State) {
        // Whoever a store that forgot believes to live does not.
        for life in 1..=state.lives {
            state.rows = self.apply(state.rows, Command::Deregister { incarnation: Self::owner(life) });
        }
        state.lives += 1;
        let (incarnation, ttl) = (Self::owner(state.lives), times().ttl);
        let register = Command::Register { incarnation: incarnation.clone(), info: info("a"), ttl };
        state.rows = self.apply(state.rows, register);
        let seen = self.stores.claim(state.rows, SHARD);
        let acquire = Command::Acquire { key: Key::shard(SHARD), caller: incarnation, seen, floor: Term(0) };
        state.rows = self.apply(state.rows, acquire);
        state.number = 0;
        state.applied = match self.stores.read(state.rows, Command::Load { room: room::id() }) {
            tenure::store::Reply::Checkpoint(Some(stored)) => stored.body.to_vec(),
            _ => Vec::new(),
        };
        state.last = state.applied.last().copied().unwrap_or(0);
        // A restored world takes nothing from anybody who has not attached to it.
        state.attached = false;
        state.generation += 1;
    }

    fn send(state: &mut State, input: u8) {
        if state.attached {
            state.links[state.at].push((state.generation, input));
        }
    }

    fn attach(&self, state: &mut State) {
        state.generation += 1;
        state.attached = true;
        let owed = state.last + 1;
        let first = state.kept_from;
        if owed < first && self.rules.names_first {
            state.last = first - 1;
            state.rolled_back = true;
        }
        let from = if self.rules.sends_again { owed.max(first) } else { state.made + 1 };
        for input in from..=state.made {
            Self::send(state, input);
        }
    }

    fn arrive(&self, state: &mut State, gateway: usize) {
        let (generation, input) = state.links[gateway].remove(0);
        if self.rules.generations && generation != state.generation {
            return;
        }
        let takes = if self.rules.above_the_last { input > state.last } else { input == state.last + 1 };
        if takes {
            state.applied.push(input);
            state.last = input;
        }
        if !self.rules.keeps_until_saved {
            state.kept_from = state.kept_from.max(state.last + 1);
        }
    }

    fn save(&self, state: &mut State) {
        let owner = Self::owner(state.lives);
        let Some((_, term)) = self.stores.claim(state.rows, SHARD) else { return };
        let mut checkpoint = room::checkpoint(term.0, &state.applied);
        // A world that lost inputs saves fewer of them: its versions go on all the same.
        checkpoint.version = self.version(state.rows) + 1;
        let batch = Batch { checkpoints: vec![checkpoint], ..Batch::default() };
        let fence = fence(SHARD, &owner, term);
        state.number += 1;
        state.rows = self.apply(state.rows, Command::Commit { fence, shards: 1, number: state.number, batch });
        state.kept_from = state.kept_from.max(state.last + 1);
    }

    fn version(&self, rows: u32) -> u64 {
        match self.stores.read(rows, Command::Load { room: room::id() }) {
            tenure::store::Reply::Checkpoint(Some(stored)) => stored.version,
            _ => 0,
        }
    }

    fn saved(&self, state: &State) -> Vec<u8> {
        match self.stores.read(state.rows, Command::Load { room: room::id() }) {
            tenure::store::Reply::Checkpoint(Some(stored)) => stored.body.to_vec(),
            _ => Vec::new(),
        }
    }
}

impl Model for Inputs {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            rows: self.stores.fresh(1),
            old: None,
            lives: 0,
            number: 0,
            applied: Vec::new(),
            last: 0,
            generation: 0,
            rolled_back: false,
            made: 0,
            kept_from: 1,
            attached: false,
            at: 0,
            links: [Vec::new(), Vec::new()],
            moves: self.moves,
            crashes: self.crashes,
            failovers: self.failovers,
        };
        self.begin(&mut state);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.made < INPUTS {
            actions.push(Action::Make);
        }
        for gateway in 0..2 {
            if !state.links[gateway].is_empty() {
                actions.push(Action::Arrive(gateway));
            }
        }
        if state.applied != self.saved(state) {
            actions.push(Action::Save);
        }
        if !state.attached {
            actions.push(Action::Attach);
        }
        if state.moves > 0 {
            actions.push(Action::Resume);
        }
        if state.crashes > 0 {
            actions.push(Action::Crash);
        }
        if state.failovers > 0 {
            actions.push(if state.old.is_none() { Action::Cut } else { Action::Failover });
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Make => {
                state.made += 1;
                let made = state.made;
                Self::send(&mut state, made);
            }
            Action::Arrive(gateway) => self.arrive(&mut state, gateway),
            Action::Save => self.save(&mut state),
            Action::Resume => {
                state.moves -= 1;
                state.at = 1 - state.at;
                state.attached = false;
            }
            Action::Attach => self.attach(&mut state),
            Action::Crash => {
                state.crashes -= 1;
                self.begin(&mut state);
            }
            Action::Cut => state.old = Some(state.rows),
            // The owner dies with the primary: what it holds is not what the new one says.
            Action::Failover => {
                state.failovers -= 1;
                state.rows = state.old.take()?;
                self.begin(&mut state);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(H4, |_, state: &State| {
                state.applied.is_sorted_by(|a, b| a < b)
                    && (state.rolled_back || (1..).zip(&state.applied).all(|(wanted, is)| wanted == *is))
            }),
            Property::always(TOLD, |_, state: &State| {
                let gone = (1..=state.last).any(|input| !state.applied.contains(&input));
                !gone || state.rolled_back
            }),
            Property::always(KEPT, |model: &Self, state: &State| model.failovers > 0 || !state.rolled_back),
        ]
    }
}

impl Lively for Inputs {
    fn is_fault(&self, action: &Action) -> bool {
        matches!(action, Action::Crash | Action::Cut | Action::Failover | Action::Resume)
    }

    fn is_good(&self, state: &State) -> bool {
        state.made == INPUTS && state.attached && state.last == INPUTS && state.kept_from == INPUTS + 1
    }

    /// Nothing here is cut off by bounds.
    fn recovers(&self, _: &State) -> bool {
        false
    }
}

#[test]
fn a_seat_that_changes_gateways_keeps_its_inputs() {
    let model = || Inputs::new(RULES).with(1, 0);
    holds("inputs", model());
    always_recovers("inputs", &model());
}

#[test]
fn f13_a_store_that_forgets_a_save_rolls_back_and_goes_on() {
    let model = || Inputs::new(RULES).with(1, 1);
    holds("inputs and failover", model());
    always_recovers("inputs and failover", &model());
}

#[test]
fn f10_without_sending_again_an_input_is_lost() {
    violates("nothing is sent again", Inputs::new(Rules { sends_again: false, ..RULES }), H4);
}

#[test]
fn inputs_kept_until_they_are_applied_are_lost_in_a_crash() {
    violates("kept until applied", Inputs::new(Rules { keeps_until_saved: false, ..RULES }).with(1, 0), KEPT);
}

#[test]
fn f13_only_the_next_number_gets_stuck() {
    let rules = Rules { above_the_last: false, names_first: false, ..RULES };
    gets_stuck("only the next number", &Inputs::new(rules).with(1, 1));
}

#[test]
fn f13_without_the_first_number_a_loss_is_not_announced() {
    violates("no first number", Inputs::new(Rules { names_first: false, ..RULES }).with(1, 1), TOLD);
}

/// What was sent before a world was restored in place is in the same link before what is sent again.
#[test]
fn inputs_of_an_older_attachment_overtake() {
    violates("no generations", Inputs::new(Rules { generations: false, ..RULES }).with(1, 0), H4);
}
