//! What games implement and use: registration, system parameters, hooks (DESIGN.md §9). It knows nothing of stores or sockets.

mod kind;
mod reward;
mod task;

pub use kind::{RoomBuilder, RoomKind, RoomPlugin};
pub use reward::{Audience, Recipient, Reward, RewardDue};
pub use task::{TaskEnd, TaskResult, TaskValue};
