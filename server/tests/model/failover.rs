//! A store that forgets its last writes, at once or slot by slot, with a clock that may be behind: H2, H7, and no stuck state.

use super::{
    cluster::{Bounds, Careless, Cluster},
    graph::{always_recovers, gets_stuck, holds, violates},
    lease::{H2, plain},
    store::Without,
};

const FAILOVER: Bounds = Bounds { time: 3, failovers: 1, owned: true, gateway: true, prompt: ONE, ..Bounds::NONE };
/// The clock of the new primary is behind by more than the failover took; nobody pauses meanwhile.
const BEHIND: Bounds = Bounds { behind: 1, crashes: 1, prompt: BOTH, ..FAILOVER };
/// The first owner may pause, the other never does; or neither does.
const ONE: u8 = 2;
const BOTH: u8 = 3;

#[test]
fn a_failover_makes_no_term_twice_and_nobody_mute() {
    holds("failover", plain(FAILOVER));
    always_recovers("failover", &plain(FAILOVER));
}

#[test]
fn f12_a_clock_that_went_back_makes_no_term_twice() {
    holds("clock behind", plain(BEHIND));
    always_recovers("clock behind", &plain(BEHIND));
}

#[test]
fn f12_without_floors_a_term_is_made_twice() {
    let without = Without { floor: true, ..Without::default() };
    violates("no floors", Cluster::new(BEHIND, without, Careless::default()), H2);
}

#[test]
fn f6_without_the_tombstone_of_the_absent_a_forgotten_registration_is_for_ever() {
    let without = Without { absent: true, ..Without::default() };
    gets_stuck("absent is not dead", &Cluster::new(FAILOVER, without, Careless::default()));
}

#[test]
fn f8_without_hearing_of_a_higher_term_an_old_owner_is_mute_for_ever() {
    let careless = Careless { deaf: true, ..Careless::default() };
    gets_stuck("deaf to higher terms", &Cluster::new(Bounds { behind: 3, ..FAILOVER }, Without::default(), careless));
}
