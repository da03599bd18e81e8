//! Running the models: `stateright` for what must always hold, and a walk over the whole graph for what must stay possible.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt::Debug,
    hash::Hash,
};

use stateright::{Checker as _, HasDiscoveries, Model};

/// A model in which some states are good, and must stay reachable without a new fault.
pub trait Lively: Model {
    /// Whether an action is a fault, which nobody may count on.
    fn is_fault(&self, action: &Self::Action) -> bool;
    /// Where the model wants to be.
    fn is_good(&self, state: &Self::State) -> bool;
    /// Whether an ordinary course of events beyond the bounds of the model leads there.
    fn recovers(&self, state: &Self::State) -> bool;
}

/// Every property holds in every state.
pub fn holds<M>(what: &str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + Eq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let checker = model.checker().threads(1).spawn_bfs().join();
    if let Some((name, path)) = checker.discoveries().into_iter().next() {
        let steps: Vec<_> = path.into_actions().into_iter().map(|action| format!("{action:?}")).collect();
        panic!("{name} is violated ({what}) by: {}", steps.join(", "));
    }
    eprintln!("{what}: holds in {} states, depth {}", checker.unique_state_count(), checker.max_depth());
}

/// There is a way to violate `name`; the shortest is printed.
pub fn violates<M>(what: &str, model: M, name: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + Eq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let wanted = HasDiscoveries::AnyOf(std::iter::once(name).collect());
    let checker = model.checker().threads(1).finish_when(wanted).spawn_bfs().join();
    let steps = checker.assert_any_discovery(name).into_actions();
    eprintln!("{what}: {name} violated after {} states by {steps:?}", checker.unique_state_count());
}

/// From every state a good one can be reached without a new fault (AG EF).
pub fn always_recovers<M>(what: &str, model: &M)
where
    M: Lively,
    M::State: Clone + Eq + Hash,
    M::Action: Clone + Debug,
{
    let Search { states, ran_on, stuck } = search(model);
    assert!(stuck.is_none(), "stuck ({what}) after: {}", stuck.unwrap_or_default().join(", "));
    eprintln!("{what}: a way out of {states} states, {ran_on} of them beyond the bounds");
}

/// There is a state from which no good one can be reached.
pub fn gets_stuck<M>(what: &str, model: &M)
where
    M: Lively,
    M::State: Clone + Eq + Hash,
    M::Action: Clone + Debug,
{
    let Search { states, stuck, .. } = search(model);
    let steps = stuck.unwrap_or_else(|| panic!("{what}: none of {states} states is stuck"));
    eprintln!("{what}: stuck, seen in {states} states, after {}", steps.join(", "));
}

/// What a search for states without a way out came to.
struct Search {
    states: usize,
    /// States at the edge of the bounds that recovered beyond it.
    ran_on: usize,
    /// The way to a state from which nothing good can be reached.
    stuck: Option<Vec<String>>,
}

/// Looks for a state from which no good one can be reached without a new fault (AG EF).
fn search<M>(model: &M) -> Search
where
    M: Lively,
    M::State: Clone + Eq + Hash,
    M::Action: Clone + Debug,
{
    let mut numbers: HashMap<M::State, u32> = HashMap::new();
    let mut states: Vec<M::State> = Vec::new();
    let mut parents: Vec<Option<(u32, M::Action)>> = Vec::new();
    let mut back: Vec<Vec<u32>> = Vec::new();
    let mut queue: VecDeque<u32> = VecDeque::new();
    let mut add = |state: M::State,
                   parent: Option<(u32, M::Action)>,
                   states: &mut Vec<M::State>,
                   back: &mut Vec<Vec<u32>>,
                   queue: &mut VecDeque<u32>| {
        let next = u32::try_from(states.len()).expect("a small model");
        *numbers.entry(state.clone()).or_insert_with(|| {
            states.push(state);
            parents.push(parent);
            back.push(Vec::new());
            queue.push_back(next);
            next
        })
    };
    for state in model.init_states() {
        add(state, None, &mut states, &mut back, &mut queue);
    }
    while let Some(number) = queue.pop_front() {
        let state = states[number as usize].clone();
        let mut actions = Vec::new();
        model.actions(&state, &mut actions);
        for action in actions {
            let fault = model.is_fault(&action);
            let Some(next) = model.next_state(&state, action.clone()) else { continue };
            let to = add(next, Some((number, action)), &mut states, &mut back, &mut queue);
            if !fault {
                back[to as usize].push(number);
            }
        }
    }
    let mut ways: HashSet<u32> = HashSet::new();
    let mut queue: Vec<u32> = (0..u32::try_from(states.len()).expect("small")).collect();
    queue.retain(|number| model.is_good(&states[*number as usize]));
    let mut ran_on = 0;
    let mut at = 0;
    loop {
        while let Some(number) = queue.pop() {
            if ways.insert(number) {
                queue.extend(&back[number as usize]);
            }
        }
        // The bounds cut time off: what is left must recover beyond them. The latest first, since others lead there.
        let all = states.len();
        let Some(left) = (at..all).map(|n| all - 1 - n).find(|n| !ways.contains(&u32::try_from(*n).expect("small")))
        else {
            break;
        };
        at = all - 1 - left;
        if !model.recovers(&states[left]) {
            let mut steps = Vec::new();
            let mut number = left;
            while let Some((before, action)) = &parents[number] {
                steps.push(format!("{action:?}"));
                number = *before as usize;
            }
            steps.reverse();
            return Search { states: all, ran_on, stuck: Some(steps) };
        }
        ran_on += 1;
        queue.push(u32::try_from(left).expect("small"));
    }
    Search { states: states.len(), ran_on, stuck: None }
}
