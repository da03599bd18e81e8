//! The sections of the configuration, except `[gateway]`: one struct each, one field per key, the meaning as in `config/default.toml`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use tenure_shared::limits;

use super::{
    rule::{
        DAY, HOUR, KIB, MIB, MINUTE, SECOND, duration, label, labels, listen, log_filter, ms, number, one_of,
        optional_path, optional_text, path, size, some_of, store_url, switch,
    },
    section::section,
};

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Holds players' sockets.
    Gateway,
    /// Runs rooms.
    Room,
}

impl Role {
    /// The word in the configuration and in the members' records.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Gateway => "gateway",
            Role::Room => "room",
        }
    }
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

section! {
    /// Who this process is.
    NodeConfig in "node" {
        /// Name in logs, metrics and the members' list; `None`: the host's name.
        name: Option<String> = optional_text(64);
        /// What this process does.
        roles: Vec<Role> = some_of(&[("gateway", Role::Gateway), ("room", Role::Room)]);
        /// Number that a deploy sets, higher for a rollback too; 0 is unset.
        revision: u64 = number(0..=u64::from(u32::MAX));
        /// Region of rooms that are asked for without one.
        region: String = label(32);
        /// Where players reach this node from outside; `None`: the address of `gateway.listen`.
        public_url: Option<String> = optional_text(256);
    }
}

impl NodeConfig {
    /// Whether this process has the role.
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

section! {
    /// Streams between processes.
    LinkConfig in "link" {
        /// Where other nodes reach this one's links.
        listen: SocketAddr = listen();
        /// What the members' records say; `None`: the address of `link.listen`.
        advertise: Option<String> = optional_text(256);
        /// File with the cluster's secret.
        secret_file: Option<PathBuf> = optional_path();
        /// How long nothing is sent before a ping is.
        ping_every: Duration = duration(ms(20)..=MINUTE);
        /// How long nothing may be heard from a peer.
        idle_timeout: Duration = duration(ms(100)..=5 * MINUTE);
    }
}

section! {
    /// Probes, metrics, admin page.
    AdminConfig in "admin" {
        /// Where they are served.
        listen: SocketAddr = listen();
        /// File with the token that is asked for off loopback.
        token_file: Option<PathBuf> = optional_path();
        /// Time for one request, and for its head to arrive.
        request_timeout: Duration = duration(ms(100)..=MINUTE);
        /// Connections at a time.
        max_connections: usize = number(4..=4_096);
    }
}

section! {
    /// Where durable state lives.
    StoreConfig in "store" {
        /// `embedded`, or a URL of a store that several processes share.
        url: String = store_url(512);
        /// File with the password of a shared store.
        password_file: Option<PathBuf> = optional_path();
        /// Folder of the embedded store.
        path: PathBuf = path();
        /// How long to wait at start for a former process to let the folder go.
        lock_wait: Duration = duration(Duration::ZERO..=10 * MINUTE);
        /// Start although the store may forget acknowledged writes.
        accept_loss: bool = switch();
    }
}

section! {
    /// Proof of life.
    LeaseConfig in "lease" {
        /// How long a heartbeat counts.
        ttl: Duration = duration(ms(200)..=5 * MINUTE);
        /// Time between heartbeats.
        heartbeat: Duration = duration(ms(20)..=MINUTE);
        /// Longest time of one call to the store.
        call_deadline: Duration = duration(ms(10)..=MINUTE);
        /// How much earlier than the store an owner counts its lease as over.
        margin: Duration = duration(ms(10)..=MINUTE);
        /// Longest time between two looks at a claim that is held or waited for.
        claim_check: Duration = duration(ms(100)..=10 * MINUTE);
    }
}

section! {
    /// The unit of ownership.
    ShardsConfig in "shards" {
        /// Number of shards; agreed once for the life of the data.
        count: u32 = number(1..=65_536);
    }
}

section! {
    /// Ticks, checkpoints, dormancy and bounds of a room.
    RoomConfig in "room" {
        /// Ticks per second of a room kind that names no rate of its own.
        tick_rate: u32 = number(1..=limits::TICK_RATE);
        /// Missed ticks that run after a stall; the rest is dropped and counted.
        catch_up_ticks: u32 = number(0..=100);
        /// Most inputs of one seat applied in one tick.
        inputs_per_tick: usize = number(1..=1_024);
        /// Inputs of one seat kept until a checkpoint has them.
        unsaved_inputs: usize = number(16..=65_536);
        /// Their bytes.
        unsaved_bytes: usize = size(4 * KIB..=16 * MIB);
        /// Age of the oldest unsaved input at which no more are taken.
        unsaved_age: Duration = duration(SECOND..=10 * MINUTE);
        /// How long a seat without a socket is kept.
        reconnect_grace: Duration = duration(Duration::ZERO..=DAY);
        /// Time between checkpoints of a room that changed.
        checkpoint_every: Duration = duration(ms(50)..=10 * MINUTE);
        /// Largest checkpoint of one room.
        max_checkpoint: usize = size(4 * KIB..=16 * MIB);
        /// Most bytes of checkpoints in one commit.
        max_commit: usize = size(4 * KIB..=limits::COMMIT_BYTES);
        /// How long a room without seats stays loaded.
        idle_after: Duration = duration(SECOND..=DAY);
        /// How long a dormant room is kept before it is deleted.
        dispose_after: Duration = duration(MINUTE..=3_650 * DAY);
        /// Rooms loaded at a time.
        max_rooms: usize = number(1..=1_000_000);
        /// Threads that run rooms; 0: one per processor.
        threads: usize = number(0..=1_024);
        /// Restarts after a panic within `restart_window`; one more parks the room.
        restarts: u32 = number(0..=1_000);
        /// The time in which restarts are counted.
        restart_window: Duration = duration(SECOND..=DAY);
        /// A tick that takes longer is a stall: its room's shard is given up.
        stall_after: Duration = duration(ms(100)..=10 * MINUTE);
        /// How long a thread whose tick does not return may live on after that before the process ends (exit code 70).
        kill_after: Duration = duration(SECOND..=10 * MINUTE);
        /// Grants decided in one step; larger decisions go in pages.
        max_grants_per_step: usize = number(1..=10_000);
        /// Players that a room remembers while a schedule asks about them, `all-known` or `active`; never more than 128 KiB of them.
        max_known: usize = number(1..=1_000_000);
        /// Futures of game code running at a time in one room.
        max_tasks: usize = number(1..=100_000);
        /// Local timers of one room.
        max_timers: usize = number(1..=1_000_000);
        /// Requests of players that one room may leave open for a later answer.
        max_pending_replies: usize = number(1..=1_000_000);
        /// Bytes of messages to one seat that wait for the next frame.
        max_out_bytes: usize = size(4 * KIB..=16 * MIB);
    }
}

section! {
    /// Schedules of rewards.
    RewardsConfig in "rewards" {
        /// The file; `None`: no schedules, unless the game brings its own.
        file: Option<PathBuf> = optional_path();
        /// Occurrences that a schedule with `catch_up = "all"` grants late, unless it names its own number.
        catch_up_limit: usize = number(1..=1_000);
        /// Oldest occurrence that is still granted late.
        catch_up_max_age: Duration = duration(MINUTE..=3_650 * DAY);
        /// First delay before failed work is tried again; it doubles.
        retry_delay: Duration = duration(ms(10)..=HOUR);
        /// Failures after which work is parked.
        max_attempts: u32 = number(1..=1_000);
    }
}

section! {
    /// Balances and what was already granted.
    LedgerConfig in "ledger" {
        /// How long identities of grants are kept; an older grant is parked, never applied.
        keep_identities: Duration = duration(HOUR..=3_650 * DAY);
    }
}

section! {
    /// Planned moves of shards between nodes.
    HandoffConfig in "handoff" {
        /// Moves at a time.
        concurrent: usize = number(1..=1_024);
        /// How long a target keeps an offer, and prepared worlds, for what follows.
        prepare_ttl: Duration = duration(ms(100)..=10 * MINUTE);
        /// Deadline of each step of a move.
        step_deadline: Duration = duration(ms(50)..=10 * MINUTE);
    }
}

section! {
    /// Background workers of the cluster.
    DaemonsConfig in "daemons" {
        /// Regions that have a coordinator.
        regions: Vec<String> = labels(32, 32);
    }
}

section! {
    /// How a node goes away.
    DrainConfig in "drain" {
        /// Time for everything after SIGTERM.
        shutdown_grace: Duration = duration(SECOND..=HOUR);
        /// How long a gateway serves on, since load balancers still send sockets.
        endpoint_lag: Duration = duration(Duration::ZERO..=5 * MINUTE);
    }
}

section! {
    /// Logs.
    LogConfig in "log" {
        /// For people or for machines.
        format: LogFormat = one_of(&[("text", LogFormat::Text), ("json", LogFormat::Json)]);
        /// What is logged, as `level` or `target=level`, separated by commas.
        filter: String = log_filter();
    }
}
