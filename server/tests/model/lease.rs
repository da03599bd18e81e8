//! Lease, claim and commit on a store that does not forget: H1, H2, H3, and that somebody owns the shard in the end.

use stateright::{Model, Property};

use super::{
    cluster::{Action, Bounds, Careless, Cluster, OVERWRITTEN, SHARED_TERM, State, TERM_WENT_BACK, TWO_ACT, UNFENCED},
    graph::{Lively, holds, stuck, violates},
    store::Without,
};

const H1: &str = "H1: no commit is lost under another";
const H1_TIME: &str = "H1: one acts at a time";
const H2: &str = "H2: no two activations share a term";
const H2_GROWS: &str = "H2: terms grow";
const H3: &str = "H3: every accepted commit carries the claim";

impl Model for Cluster {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.actions_of(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        Some(self.next(last, action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(H1, |_, state: &State| state.wrong & OVERWRITTEN == 0),
            Property::always(H1_TIME, |_, state: &State| state.wrong & TWO_ACT == 0),
            Property::always(H2, |_, state: &State| state.wrong & SHARED_TERM == 0),
            Property::always(H2_GROWS, |_, state: &State| state.wrong & TERM_WENT_BACK == 0),
            Property::always(H3, |_, state: &State| state.wrong & UNFENCED == 0),
        ]
    }
}

impl Lively for Cluster {
    fn is_fault(&self, action: &Action) -> bool {
        Self::is_fault(*action)
    }

    fn is_good(&self, state: &State) -> bool {
        self.is_well(state)
    }

    fn recovers(&self, state: &State) -> bool {
        self.recovers(state, 10)
    }
}

fn takeover() -> Bounds {
    Bounds { time: 4, works: 2, owned: true, ..Bounds::default() }
}

fn show(what: &str, seen: &impl std::fmt::Debug) {
    eprintln!("{what}: {seen:?}");
}

#[test]
fn takeovers_keep_what_is_committed() {
    show("takeovers", &holds(Cluster::new(takeover(), Without::default(), Careless::default())));
}
