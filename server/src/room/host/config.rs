//! Settings of the room host, and the named bounds that are no settings.

use std::time::Duration;

use crate::{room::world::WorldSettings, store::model::limits};

/// Most attaches, detaches and resyncs that wait in one room's inbox; more are given back to the gateway.
pub(super) const ROOM_EVENTS: usize = 1_024;
/// Most inputs that wait for one room's next tick; more are given back to the gateway.
pub(super) const ROOM_INPUTS: usize = 8_192;
/// Most requests of one room that wait for a commit; then it stops ticking until some are durable.
pub(super) const UNACKED_COMMITS: usize = 32;
/// Most due items in the hands of one room.
pub(super) const WORK_PER_ROOM: usize = 64;
/// Most grants that the rewards of one tick decide; a larger `room.max_grants_per_step` counts as this.
pub(super) const REWARD_GRANTS: usize = 2_000;
/// Most grants of game code in one tick: with those of rewards they fit into one commit.
const OTHER_GRANTS: usize = 1_024;
const _: () = assert!(REWARD_GRANTS + OTHER_GRANTS <= limits::BATCH_GRANTS);
/// Most messages kept for a gateway that does not take them; then the room lets its sockets there go.
pub(super) const GATEWAY_BACKLOG: usize = 64;
/// Longest time for which they are kept.
pub(super) const GATEWAY_PATIENCE: Duration = Duration::from_secs(5);
/// Most questions of gateways to coordinators that wait for an answer here; one more is answered with nothing. Half of what may wait for
/// daemons in all: a coordinator that hangs is to keep nobody from the others.
pub const QUESTIONS: usize = 512;
/// Most attaches of one shard that wait until it is decided whether it stays; more are given back to the gateway.
pub(super) const KEPT_ATTACHES: usize = 4_096;
/// Longest wait of an attach for what the store says of a shard that is not here.
pub(super) const ARRIVAL_WAIT: Duration = Duration::from_millis(250);
/// Least time between two words to one gateway that a shard is not here.
pub(super) const MOVED_EVERY: Duration = Duration::from_millis(100);
/// How long a room that stops waits for the ledgers' answers to its grants; they are applied in any case.
pub(super) const STOP_GRANTS: Duration = Duration::from_secs(1);
/// Lines of a ledger that are looked through for what a player missed: he is shown what is among the newest.
pub(super) const MISSED_LINES: usize = 100;
/// Most rooms whose checkpoints are read at a time.
pub(super) const LOADS_AT_A_TIME: usize = 64;
/// Shards whose worlds are made ready, or are ready, at a time.
pub(super) const PREPARED_SHARDS: usize = 64;
/// Most bytes of checkpoints and work whose worlds are ready; a world in memory is a few times as large as its checkpoint.
pub(super) const PREPARED_BYTES: usize = 256 << 20;
/// Most bytes of checkpoints in one package: with the work of its rooms several of them fit into what a target makes ready at a time. What is left
/// out is loaded by the next owner as after a takeover.
pub(super) const PACKAGE_BYTES: usize = 32 << 20;
const _: () = assert!(PACKAGE_BYTES * 8 <= PREPARED_BYTES);
/// Ledger calls of one shard at a time; grants of one player are never applied side by side.
pub(super) const LEDGER_LANES: usize = 16;
/// Most rooms that a status lists; the rest is counted.
pub(super) const STATUS_ROOMS: usize = 200;
/// Most pending and parked items of game code that one room may have; what the store has room for beyond them is for schedules, the
/// deletion of the room and refused grants.
pub(super) const GAME_ITEMS: usize = limits::ROOM_ITEMS - 1_000;
/// Most charges of one room that wait as work for a build that hands them over; more stay in the outbox until the room is loaded anew.
pub(super) const OWED_CHARGES: usize = 500;
/// Least time between two lines in the log about what one room's game code did wrong.
pub(super) const COMPLAIN_EVERY: Duration = Duration::from_secs(10);
/// How far ahead due work is kept in memory.
pub(super) const WORK_HORIZON: Duration = Duration::from_secs(600);
/// Longest pause between two attempts of a store call.
pub(super) const LONGEST_BACKOFF: Duration = Duration::from_secs(2);
/// Longest time for which failed work is put off.
pub(in crate::room) const LONGEST_RETRY: Duration = Duration::from_secs(3_600);

/// What the host needs from the configuration (`[room]`, `[rewards]`, `[shards]`).
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Number of shards, as agreed in the cluster.
    pub shards: u32,
    /// Room threads; 0: one per processor.
    pub threads: usize,
    /// Missed ticks that run after a stall.
    pub catch_up_ticks: u32,
    /// Time between checkpoints of a room that changed.
    pub checkpoint_every: Duration,
    /// Most bytes of checkpoints in one commit.
    pub max_commit: usize,
    /// How long a room without seats stays loaded, in room time.
    pub idle_after: Duration,
    /// How long a dormant room is kept before it is deleted.
    pub dispose_after: Duration,
    /// Rooms loaded at a time.
    pub max_rooms: usize,
    /// Restarts after a panic within `restart_window`; one more parks the room.
    pub restarts: u32,
    /// The time in which restarts are counted.
    pub restart_window: Duration,
    /// A tick that takes longer is logged and counted, and its shard is given up.
    pub stall_after: Duration,
    /// How long a thread whose tick does not return may live on after that before the process must end.
    pub kill_after: Duration,
    /// How long the rooms of a shard may take to stop and to store themselves before it is given away; later the shard stays and goes on.
    pub give_deadline: Duration,
    /// First delay before failed work is tried again; it doubles.
    pub retry_delay: Duration,
    /// Failures after which work is parked.
    pub max_attempts: u32,
    /// Regions whose rooms are told to a coordinator.
    pub regions: Vec<String>,
    /// Bounds of each world.
    pub world: WorldSettings,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            shards: 256,
            threads: 0,
            catch_up_ticks: 5,
            checkpoint_every: Duration::from_secs(5),
            max_commit: 256 * 1024,
            idle_after: Duration::from_secs(60),
            dispose_after: Duration::from_secs(7 * 86_400),
            max_rooms: 20_000,
            restarts: 3,
            restart_window: Duration::from_secs(60),
            stall_after: Duration::from_secs(3),
            kill_after: Duration::from_secs(10),
            give_deadline: Duration::from_secs(2),
            retry_delay: Duration::from_secs(1),
            max_attempts: 8,
            regions: Vec::new(),
            world: WorldSettings::default(),
        }
    }
}

/// How many rewards one tick may decide: together they fit into one commit.
pub(super) fn rewards_per_tick(max_grants_per_step: usize) -> usize {
    (REWARD_GRANTS / max_grants_per_step.max(1)).max(1)
}

/// The pause before attempt `attempt + 1`: doubles from `first` up to `longest`.
pub(in crate::room) fn backoff(first: Duration, attempt: u32, longest: Duration) -> Duration {
    first.saturating_mul(1u32.checked_shl(attempt.min(16)).unwrap_or(u32::MAX)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rewards_of_one_tick_fit_into_one_commit() {
        for step in [1, 7, 500, 1_999, REWARD_GRANTS] {
            let rewards = rewards_per_tick(step);
            assert!(rewards >= 1 && rewards * step <= REWARD_GRANTS, "{step}");
        }
        assert_eq!((rewards_per_tick(500), rewards_per_tick(1_500)), (4, 1));
    }
}
