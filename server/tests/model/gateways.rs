//! A seat that changes gateways while an old owner's frame is on its way (F9, H7). Gateways are doubles of the rule alone; the real ones
//! are in the simulation and in `gateway_*.rs`.

use stateright::{Model, Property};

use super::graph::{holds, violates};

const H7: &str = "H7: never an older frame after a newer one";

struct Gateways {
    /// A resume carries what was shown, and the gateway takes it as the seat's floor.
    carries: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// Frames on their way to each gateway, by the term of their owner.
    frames: [Vec<u8>; 2],
    floors: [u8; 2],
    at: usize,
    shown: u8,
    sent: u8,
    moves: u8,
    older: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// An owner of this term sends a frame to a gateway: the old one may have been paused before it sent.
    Send(u8, usize),
    Arrive(usize, usize),
    Resume,
}

impl Model for Gateways {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let frames = [Vec::new(), Vec::new()];
        vec![State { frames, floors: [0; 2], at: 0, shown: 0, sent: 4, moves: 2, older: false }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for gateway in 0..2 {
            if state.sent > 0 {
                actions.extend([1, 2].map(|term| Action::Send(term, gateway)));
            }
            actions.extend((0..state.frames[gateway].len()).map(|index| Action::Arrive(gateway, index)));
        }
        if state.moves > 0 {
            actions.push(Action::Resume);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Send(term, gateway) => {
                state.sent -= 1;
                state.frames[gateway].push(term);
                state.frames[gateway].sort_unstable();
            }
            Action::Arrive(gateway, index) => {
                let term = state.frames[gateway].remove(index);
                if gateway == state.at && term >= state.floors[gateway] {
                    state.floors[gateway] = term;
                    state.older |= term < state.shown;
                    state.shown = state.shown.max(term);
                }
            }
            Action::Resume => {
                state.moves -= 1;
                state.at = 1 - state.at;
                state.floors[state.at] = if self.carries { state.shown } else { 0 };
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(H7, |_, state: &State| !state.older)]
    }
}

#[test]
fn a_seat_that_changes_gateways_sees_nothing_older() {
    holds("gateways", Gateways { carries: true });
}

#[test]
fn f9_without_a_floor_at_the_resume_an_old_frame_is_shown() {
    violates("no floor at the resume", Gateways { carries: false }, H7);
}
