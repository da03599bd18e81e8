//! Lease, claim and commit on a store that does not forget: H1, H2, H3, and that somebody owns the shard in the end.

use stateright::{Model, Property};

use super::{
    cluster::{
        Action, Bounds, Careless, Cluster, NOT_ITS_OWN, OVERWRITTEN, SHARED_TERM, STALE, State, TERM_WENT_BACK,
        TWO_ACT, UNFENCED,
    },
    graph::{Lively, always_recovers, gets_stuck, holds, violates},
    store::Without,
};

pub const H1: &str = "H1: no commit is lost under another";
pub const H1_TIME: &str = "H1: one acts at a time";
pub const H2: &str = "H2: no two activations share a term";
pub const H2_GROWS: &str = "H2: terms grow";
pub const H2_OWN: &str = "H2: who acts under a term is whom the store gave it";
pub const F2: &str = "F2: no world runs that is older than what is stored";
pub const H3: &str = "H3: every accepted commit carries the claim";

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
            Property::always(H2_OWN, |_, state: &State| state.wrong & NOT_ITS_OWN == 0),
            Property::always(F2, |_, state: &State| state.wrong & STALE == 0),
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
        self.recovers(state, 12)
    }
}

pub fn plain(bounds: Bounds) -> Cluster {
    Cluster::new(bounds, Without::default(), Careless::default())
}

const TAKEOVER: Bounds = Bounds { time: 3, works: 2, owned: true, ..Bounds::NONE };

#[test]
fn a_takeover_keeps_what_is_committed() {
    holds("takeover", plain(TAKEOVER));
}

#[test]
fn lost_and_late_messages_undo_nothing() {
    holds("late messages", plain(Bounds { lost: 1, ..TAKEOVER }));
}

#[test]
fn crashes_undo_nothing_and_somebody_owns_in_the_end() {
    let bounds = Bounds { crashes: 1, restarts: true, works: 1, prompt: 2, ..TAKEOVER };
    holds("crash", plain(bounds));
    always_recovers("crash", &plain(Bounds { time: 3, ..bounds }));
}

#[test]
fn a_beginning_of_two_has_one_owner() {
    let bounds = Bounds { time: 1, lost: 1, slow: 1, ..Bounds::NONE };
    holds("beginning", plain(bounds));
    always_recovers("beginning", &plain(bounds));
}

#[test]
fn a_shard_that_is_given_away_loses_nothing() {
    holds("give", plain(Bounds { time: 2, drains: 1, lost: 1, ..TAKEOVER }));
}

#[test]
fn late_answers_to_heartbeats_let_nobody_act_too_long() {
    holds("late answers", plain(Bounds { beats: true, slow: 1, works: 0, prompt: 2, ..TAKEOVER }));
}

#[test]
fn nobody_is_stuck_after_lost_answers() {
    always_recovers("lost answers", &plain(Bounds { lost: 1, works: 0, ..TAKEOVER }));
}

/// Versions of checkpoints are a second guard: alone, a late commit of an old owner is refused, or is noticed by the next one of the new.
#[test]
fn without_the_fence_a_late_commit_is_found() {
    let without = Without { fence: true, ..Without::default() };
    violates("no fence", Cluster::new(TAKEOVER, without, Careless::default()), H3);
    let without = Without { versions: true, ..without };
    violates("no fence, no versions", Cluster::new(TAKEOVER, without, Careless::default()), H1);
}

const COMES_BACK: Bounds = Bounds { leaves: 1, asleep: 3, ..TAKEOVER };

#[test]
fn without_the_comparison_of_the_claim_a_late_acquire_is_found() {
    let without = Without { seen: true, versions: true, ..Without::default() };
    violates("no compare-and-set", Cluster::new(COMES_BACK, without, Careless::default()), H1);
}

#[test]
fn worlds_that_go_on_behind_another_owner_are_found() {
    let careless = Careless { keeps_worlds: true, ..Careless::default() };
    let without = Without { versions: true, ..Without::default() };
    violates("keeps worlds", Cluster::new(COMES_BACK, without, careless), H1);
}

#[test]
fn f5_without_acquiring_ones_own_a_lost_answer_is_for_ever() {
    let without = Without { own: true, ..Without::default() };
    gets_stuck("nobody acquires its own", &Cluster::new(TAKEOVER, without, Careless::default()));
}

#[test]
fn f8_a_thaw_that_only_reads_shares_a_term() {
    let careless = Careless { thaw_by_read: true, ..Careless::default() };
    violates("a thaw by reading", Cluster::new(TAKEOVER, Without::default(), careless), H2);
}

#[test]
fn a_lease_counted_from_the_answer_lets_two_act() {
    let careless = Careless { counts_from_answer: true, ..Careless::default() };
    let bounds = Bounds { time: 5, beats: true, slow: 1, works: 0, prompt: 2, ..TAKEOVER };
    violates("counted from the answer", Cluster::new(bounds, Without::default(), careless), H1_TIME);
}

#[test]
#[ignore = "minutes: `make soak`"]
fn deep_takeovers() {
    holds("deep takeover", plain(Bounds { time: 6, lost: 2, slow: 1, crashes: 1, restarts: true, ..TAKEOVER }));
}

#[test]
#[ignore = "minutes: `make soak`"]
fn deep_recovery() {
    always_recovers("deep recovery", &plain(Bounds { time: 5, lost: 2, crashes: 1, restarts: true, ..TAKEOVER }));
}

/// Bounds and broken rules from the environment, to look for the smallest that shows something:
/// `TENURE_MODEL="time=4 works=2 lost=1 owned fence stuck"`.
#[test]
#[ignore = "a tool: it does what TENURE_MODEL says"]
fn explore() {
    let Ok(text) = std::env::var("TENURE_MODEL") else { return };
    let (mut b, mut w, mut c) = (Bounds::NONE, Without::default(), Careless::default());
    let mut mode = "holds";
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, "1"));
        let n: u8 = value.parse().expect("a number");
        match name {
            "time" => b.time = n,
            "lost" => b.lost = n,
            "slow" => b.slow = n,
            "crashes" => b.crashes = n,
            "restarts" => b.restarts = true,
            "drains" => b.drains = n,
            "leaves" => b.leaves = n,
            "works" => b.works = n,
            "hands" => b.hands = n,
            "mislaid" => b.mislaid = n,
            "repeats" => b.repeats = n,
            "thaws" => c.thaws_after_transfer = true,
            "worlds" => c.any_worlds = true,
            "forgotten" => b.forgotten = true,
            "strays" => c.strays = true,
            "eager" => c.eager = true,
            "failovers" => b.failovers = n,
            "behind" => b.behind = n,
            "gateway" => b.gateway = true,
            "owned" => b.owned = true,
            "asleep" => b.asleep = n,
            "beats" => b.beats = true,
            "prompt" => b.prompt = n,
            "fence" => w.fence = true,
            "seen" => w.seen = true,
            "own" => w.own = true,
            "versions" => w.versions = true,
            "absent" => w.absent = true,
            "floor" => w.floor = true,
            "read" => c.thaw_by_read = true,
            "answer" => c.counts_from_answer = true,
            "deaf" => c.deaf = true,
            "keeps" => c.keeps_worlds = true,
            "stuck" => mode = "stuck",
            other => panic!("unknown word {other}"),
        }
    }
    let model = Cluster::new(b, w, c);
    if mode == "stuck" { always_recovers("explored", &model) } else { holds("explored", model) }
}
