//! System parameters of game code. Each is a view of one resource that the framework keeps in the room's world.

mod durable;
mod metadata;
mod out;
mod rng;
mod room;
mod seats;
mod tasks;
mod timers;

pub(crate) use durable::{BalanceBook, DueQueue, GrantQueue, Planned, ScheduleBook, amounts_fault};
pub use durable::{Balances, Due, Grants, Schedules};
pub use out::{Inbox, Out, Replies};
pub(crate) use out::{OutItem, OutQueue, Pending, ReplyBook, Target};
pub use rng::{RngState, RoomRng};
pub(crate) use room::{ControlState, RoomInfoState, TickNow};
pub use room::{RoomControl, RoomInfo, Tick, TickState};
pub use seats::{NetIds, Seats};
pub(crate) use tasks::TaskQueue;
pub use tasks::{Full, Tasks};
pub use timers::Timers;
pub(crate) use timers::{TimerBook, TimerEntry};
