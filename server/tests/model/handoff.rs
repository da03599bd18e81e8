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
