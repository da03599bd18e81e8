//! What games implement and use: registration, system parameters, hooks (docs/ARCHITECTURE.md). It knows nothing of stores or sockets.
//!
//! A game is a [`RoomPlugin`]: a function over a [`RoomBuilder`]. Names are part of wire and disk, type names never are. The
//! plugin runs once to make the [`RoomKind`], and once per room to give it systems of its own.

mod answer;
mod builder;
mod component;
mod fields;
mod handlers;
mod hooks;
mod kind;
mod messages;
mod names;
pub mod params;
mod registry;
mod resource;
mod reward;
mod seat;
mod shown;
mod task;
mod values;
mod versions;

pub use answer::{Answer, Refuse, ReplyTo};
pub use builder::{ComponentBuilder, MessageBuilder, ResourceBuilder, RoomBuilder, Stage, TimerBuilder};
pub(crate) use component::{Collector, Holder};
pub(crate) use handlers::{Handlers, Hook, RequestOutcome, run};
pub use hooks::{Charged, Fired, Granted, Join, Leave, LeaveCause, Outcome, Request, TaskDone, Work};
pub use kind::{RoomKind, RoomPlugin};
pub(crate) use registry::{Filter, Migrations, Registry, Scope};
pub(crate) use resource::ErasedResource;
pub use reward::{Audience, Recipient, Reward, RewardDue};
pub(crate) use seat::{Net, NetIndex, SeatIndex};
pub use seat::{OwnedBy, Seat};
pub use task::{TaskEnd, TaskFuture, TaskResult, TaskValue};
pub(crate) use values::{Change, Values, decode, decode_both, encode, encode_named};
pub use versions::{Unreadable, UnreadableName, Versions};
