//! What a game imports: `use tenure::prelude::*`. The last stage is written `Stage::Send`, since `Send` is a trait of the language.

pub use bevy_ecs::prelude::{
    Add, Added, Bundle, Changed, Commands, Component, DetectChanges, DetectChangesMut, Entity, Has, In, Insert,
    IntoScheduleConfigs, Local, On, Or, ParamSet, Query, Ref, Remove, Res, ResMut, Resource, Single, With, Without,
    World,
};

pub use crate::app::App;
pub use crate::plugin::{
    Answer, Audience, Charged, Fired, Granted, Join, Leave, LeaveCause, Outcome, OwnedBy, Recipient, Refuse, ReplyTo,
    Request, RewardDue, RoomBuilder, RoomPlugin, Seat,
    Stage::{self, Apply, Collect, Receive, Simulate},
    TaskDone, TaskEnd, Work,
    params::{
        Balances, Due, Full, Grants, Inbox, NetIds, Out, Replies, RoomControl, RoomInfo, RoomRng, Schedules, Seats,
        Tasks, Tick, Timers,
    },
};
pub use crate::runtime::Wall;
pub use tenure_shared::{NetId, PlayerId, RoomId, Scalar, SeatId};
