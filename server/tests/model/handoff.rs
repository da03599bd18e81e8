//! A shard that moves with its worlds ready at the other end: the real machines of both sides, of ownership, and the real store. Messages and
//! the transfer itself are as late as they like, some are lost or come twice, a node crashes and comes back. F1, F2, F3, H1 to H5.
//!
//! A source rests between two attempts in the product; here it may begin again at once. Making worlds takes no time.

use super::{
    cluster::{Bounds, Careless, Cluster},
    graph::{always_recovers, holds, violates},
    lease::{F2, H1_TIME, H2_OWN, plain},
    store::Without,
};

/// One move of a shard whose room does one thing; its nodes do what is due before time goes on.
const MOVE: Bounds = Bounds { time: 2, hands: 1, works: 1, owned: true, prompt: 3, ..Bounds::NONE };

fn careless(bounds: Bounds, careless: Careless) -> Cluster {
    Cluster::new(bounds, Without::default(), careless)
}

#[test]
fn a_move_loses_nothing() {
    holds("move", plain(MOVE));
    always_recovers("move", &plain(MOVE));
}

#[test]
fn a_transfer_without_an_answer_is_undone_by_a_new_term_alone() {
    holds("lost transfer", plain(Bounds { lost: 1, ..MOVE }));
    always_recovers("lost transfer", &plain(Bounds { lost: 1, ..MOVE }));
}

#[test]
fn messages_that_are_lost_or_come_twice_harm_nobody() {
    let bounds = Bounds { mislaid: 1, repeats: 1, ..MOVE };
    holds("lost and repeated", plain(bounds));
    always_recovers("lost and repeated", &plain(bounds));
}

#[test]
fn a_crash_in_a_move_leaves_one_owner() {
    let bounds = Bounds { crashes: 1, restarts: true, ..MOVE };
    holds("crash in a move", plain(bounds));
    always_recovers("crash in a move", &plain(bounds));
}

#[test]
fn f1_a_thaw_after_the_transfer_was_sent_is_found() {
    let source = Careless { thaws_after_transfer: true, ..Careless::default() };
    violates("thaws after the transfer", careless(Bounds { lost: 1, ..MOVE }, source), H1_TIME);
}

#[test]
fn f2_worlds_of_another_package_are_found() {
    let bounds = Bounds { forgotten: true, time: 5, crashes: 1, ..MOVE };
    let target = Careless { any_worlds: true, ..Careless::default() };
    holds("forgotten worlds", plain(bounds));
    violates("any worlds", careless(bounds, target), F2);
}

#[test]
fn f3_a_message_for_a_former_incarnation_is_found() {
    let target = Careless { strays: true, ..Careless::default() };
    let bounds = Bounds { time: 3, crashes: 1, restarts: true, ..MOVE };
    violates("strays", careless(bounds, target), H2_OWN);
}

#[test]
fn f2_worlds_of_a_package_that_another_went_on_from_are_found() {
    // The first node is prompt, or dead; the other may sleep on as long as it likes.
    let bounds = Bounds { between: true, time: 12, crashes: 1, prompt: 1, ..MOVE };
    let target = Careless { keeps_package: true, ..Careless::default() };
    holds("taken in between", plain(bounds));
    violates("keeps the package", careless(bounds, target), F2);
}

#[test]
fn a_gateway_shows_a_move_with_a_crash_and_nobody_stays_mute() {
    let bounds = Bounds { crashes: 1, restarts: true, gateway: true, ..MOVE };
    holds("move before a gateway", plain(bounds));
    always_recovers("move before a gateway", &plain(bounds));
}

#[test]
fn a_target_that_does_not_wait_for_its_claim_is_found() {
    let target = Careless { eager: true, ..Careless::default() };
    violates("eager", careless(MOVE, target), H2_OWN);
}

#[test]
#[ignore = "minutes: `make soak`"]
fn deep_moves() {
    let bounds = Bounds { time: 3, hands: 2, works: 2, lost: 1, mislaid: 1, crashes: 1, restarts: true, ..MOVE };
    holds("deep move", plain(bounds));
}
