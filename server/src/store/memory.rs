//! The store in memory: the same rules, gone with the process. For tests, and for games that keep nothing.

use std::{collections::BTreeMap, future::ready};

use parking_lot::Mutex;

use super::{
    Backend, BoxFuture, Command, Stamped, Store,
    clock::StoreClock,
    model::{self, Rules},
};
use crate::runtime::{Clock, Wall};

/// The backend of [`memory`].
#[derive(Debug)]
pub struct Memory {
    rules: Rules,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    clock: StoreClock,
}

impl Memory {
    /// An empty store.
    pub fn new(clock: Clock, rules: Rules) -> Self {
        Self { rules, state: Mutex::new(State { rows: BTreeMap::new(), clock: StoreClock::new(clock, Wall(0)) }) }
    }
}

impl Backend for Memory {
    fn execute(&self, command: Command) -> BoxFuture<'_, Stamped> {
        let mut state = self.state.lock();
        let State { rows, clock } = &mut *state;
        let now = clock.now();
        Box::pin(ready(model::apply(rows, &self.rules, now, command)))
    }
}

/// An empty store in memory, with the default rules.
pub fn memory(clock: Clock) -> Store {
    Store::new(Memory::new(clock.clone(), Rules::default()), clock)
}
