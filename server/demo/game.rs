//! The program around a version of the arena: what is the same in all of them.

use std::process::ExitCode;

use tenure::{RoomBuilder, daemon::ShardedDaemonProcess};

use crate::{
    arena::drill::{beats, stones},
    pages::Pages,
};

/// Serves the arena, and for load tests the same with a beat that checks itself (`drill`), that with 2,000 entities more (`quarry`), and one
/// for a few, of one of several sorts (`skirmish`).
pub(crate) fn main(version: &'static str, arena: fn(&mut RoomBuilder), census: ShardedDaemonProcess) -> ExitCode {
    let drill = move |room: &mut RoomBuilder| {
        arena(room);
        beats(room);
    };
    let quarry = move |room: &mut RoomBuilder| {
        drill(room);
        stones(room);
    };
    let skirmish = move |room: &mut RoomBuilder| {
        arena(room);
        room.max_seats(8).filter_by(&["mode"]);
    };
    tenure::App::new("arena", version)
        .room("arena", arena)
        .room("drill", drill)
        .room("quarry", quarry)
        .room("skirmish", skirmish)
        .daemons(census)
        .pages(Pages)
        .rewards("config/rewards.toml (built in)", include_str!("../../config/rewards.toml"))
        .main()
}
