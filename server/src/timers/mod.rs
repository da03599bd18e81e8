//! Reward schedules: the language of `config/rewards.toml`, when each schedule is due, what is done about missed
//! occurrences. Pure: no clock is asked and nothing is read but the text that is given. `docs/rewards.md` is the text
//! for people.
//!
//! The owner of a room computes an occurrence once, as an instant, from the stored one before, and stores it: that
//! instant is its identity. Nodes with other zone data or another file never make a second one (docs/invariants.md C12, C17).

mod book;
mod catch_up;
mod cron;
mod live;
mod pattern;
pub mod preview;
mod read;
mod schedule;
mod span;
mod window;
mod zone;

pub use book::{BookDiff, Limits, RewardBook};
pub use catch_up::{CatchUp, GRACE, MAX_CATCH_UP, MAX_COUNTED};
pub use cron::{Cron, CronError, DstRule};
pub use live::LiveBook;
pub use pattern::RoomPattern;
pub use schedule::{CatchUpPolicy, GRID_ANCHOR, Schedule, Trigger};
pub use window::Window;
pub use zone::{Zone, zone_data_version};
