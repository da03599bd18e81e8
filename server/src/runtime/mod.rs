//! What a simulation must own: clock, randomness, tasks, mailboxes, shutdown, streams and where rooms run.
//! Everything above asks these types for time, chance and concurrency, and never the standard library.

pub mod changes;
pub mod clock;
pub mod faults;
pub mod mailbox;
pub mod net;
pub mod rng;
pub mod tasks;

pub use changes::{Changes, Watcher};
pub use clock::{Clock, ManualClock, Mono, Wall, WallHand};
pub use rng::Rng;
pub use tasks::{Shutdown, Tasks};
