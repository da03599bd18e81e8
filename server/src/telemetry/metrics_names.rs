//! Every metric: its name, kind, labels and meaning. `docs/operations.md` lists the same, and `tests/tidy.rs` compares both with the code.
//!
//! Labels come from code and configuration only, never from players, rooms or sessions: the number of series must not grow with what
//! clients do (docs/invariants.md C63).

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations in buckets.
    Histogram,
}

impl Kind {
    /// The word in the docs.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, unit last.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels, besides `node`.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

macro_rules! metrics {
    ($( $kind:ident $name:literal [$($label:literal),*] $help:literal; )*) => {
        /// Every metric.
        pub const METRICS: &[Metric] = &[
            $( Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help }, )*
        ];
    };
}

metrics! {
    Gauge "tenure_build_info" ["version", "tenure"] "Always 1; the labels say which version of the game and of Tenure runs.";
    Gauge "tenure_process_resident_bytes" [] "Memory of the process that is in RAM.";
    Gauge "tenure_process_open_files" [] "Open file descriptors, sockets included.";
    Gauge "tenure_process_cpu_seconds" [] "Processor time used since the start.";
    Counter "tenure_admin_refused_total" ["why"] "Connections to the admin port that were refused or cut: over the bound, too slow, not accepted.";
    Counter "tenure_mailbox_full_total" ["mailbox"] "Messages that a full mailbox gave back to its sender.";
    Counter "tenure_task_panics_total" ["task"] "Panics of supervised tasks.";

    Gauge "tenure_gateway_sockets" [] "Players' sockets that are open.";
    Counter "tenure_gateway_upgrades_refused_total" ["reason"] "Upgrades to WebSocket refused before the handshake.";
    Counter "tenure_gateway_joins_total" ["how"] "Seats taken: join or resume.";
    Counter "tenure_gateway_closes_total" ["code"] "Sockets closed by the server, by the name of the close code.";
    Counter "tenure_gateway_messages_total" [] "Messages of clients.";
    Counter "tenure_gateway_refused_total" [] "Messages of clients that the room could not be given; the client was told.";
    Counter "tenure_gateway_frames_total" [] "Frames written to sockets.";
    Counter "tenure_gateway_frame_bytes_total" [] "Bytes of frames written to sockets.";
    Counter "tenure_gateway_stale_frames_total" [] "Frames that were not shown: older than what was shown, or of a room already left.";
    Counter "tenure_gateway_lost_frames_total" [] "Frames whose state was dropped because writing was behind; a snapshot follows.";
    Counter "tenure_gateway_resyncs_total" [] "Snapshots for clients that had been too slow, or asked for one.";
    Counter "tenure_gateway_reattaches_total" [] "Seats that another owner took up, on the same socket.";
    Gauge "tenure_gateway_seats_between_owners" [] "Seats whose room changes hands: their sockets are open, their messages are kept.";
    Histogram "tenure_gateway_between_owners_seconds" [] "How long seats were between owners, until the next one took them up.";
    Counter "tenure_gateway_between_owners_refused_total" [] "Messages of clients refused while their seat was between owners; the client was told.";
    Counter "tenure_gateway_term_seen_total" [] "Nodes told that a higher term of a shard was seen than the one they serve for.";
    Counter "tenure_gateway_moves_total" [] "Clients told to take their seats at another gateway, since this one goes away.";

    Gauge "tenure_link_open" ["side"] "Links between processes that are open; `side` says which end is here: gateway or node.";
    Counter "tenure_link_messages_total" ["side", "direction"] "Messages over links, pings included on the way in.";
    Counter "tenure_link_bytes_total" ["side", "direction"] "Bytes over links.";
    Gauge "tenure_link_queue_high_bytes" ["side"] "Most bytes that ever waited for one peer.";
    Counter "tenure_link_refused_total" ["side", "what"] "Messages that a full link, or one not yet open, gave back to their sender.";
    Counter "tenure_link_not_parked_total" ["side"] "Messages of gateways that were refused because too much waited for their room, or for all.";
    Counter "tenure_link_parked_total" ["side"] "Messages of gateways that waited on the node because their room's inbox was full.";
    Counter "tenure_link_handshakes_failed_total" ["side", "why"] "Links that did not come about.";
    Counter "tenure_link_ends_total" ["side", "cause"] "Links that ended, by cause.";

    Gauge "tenure_rooms_loaded" [] "Rooms in memory.";
    Counter "tenure_rooms_parked_total" ["kind"] "Rooms given up after too many panics.";
    Counter "tenure_room_ticks_total" ["kind"] "Ticks.";
    Histogram "tenure_room_tick_seconds" ["kind"] "Time that a tick took.";
    Histogram "tenure_room_tick_late_seconds" ["kind"] "How late a tick began.";
    Counter "tenure_room_tick_overruns_total" ["kind"] "Ticks that took longer than the time between two.";
    Counter "tenure_room_ticks_dropped_total" ["kind"] "Ticks given up after a stall.";
    Counter "tenure_room_stalls_total" [] "Ticks that did not return in time, found by the watchdog.";
    Counter "tenure_room_faults_total" ["kind"] "Panics and other failures of rooms that were restored from their checkpoint.";
    Counter "tenure_room_errors_total" ["kind"] "Faults of game code that a room went on after, such as a message of an unregistered type.";
    Counter "tenure_room_command_errors_total" [] "Commands of game code without effect, such as one for an entity that had gone.";
    Histogram "tenure_room_checkpoint_bytes" ["kind"] "Sizes of checkpoints.";
    Counter "tenure_room_checkpoints_large_total" ["kind"] "Checkpoints of more than 80 % of `room.max_checkpoint`: above it a room is parked.";
    Counter "tenure_room_gateway_lost_total" [] "Gateways that a room gave up because their mailbox stayed full; their members get a snapshot.";
    Counter "tenure_room_known_forgotten_total" [] "Players forgotten because a room remembers more than `room.max_known`, or 128 KiB.";
    Counter "tenure_room_messages_missed_total" [] "Messages of rooms that had just moved, to seats whose gateway had not followed: half of `room.max_out_bytes` of a seat's waited already.";
    Counter "tenure_timer_stale_fires_total" [] "Fires of local timers that had been cancelled or set anew meanwhile: dropped.";

    Counter "tenure_commits_total" ["outcome"] "Commits by outcome.";
    Histogram "tenure_commit_seconds" [] "Time from a commit to its durable answer.";
    Counter "tenure_daemon_starts_total" ["set"] "Starts of daemons on this node.";
    Counter "tenure_daemon_failures_total" ["set", "why"] "Daemons that ended by themselves, failed, panicked or hung, and those that were parked for it.";
    Counter "tenure_daemon_messages_dropped_total" [] "Messages of other nodes for daemons, or answers, that nobody here waits for any more.";
    Counter "tenure_sweep_woken_total" [] "Shards with work that was overdue for ten seconds, whose owners the coordinator of a region told to look.";
    Counter "tenure_match_questions_total" [] "Players for whom the coordinator of a region on this node was asked for a room.";
    Gauge "tenure_match_rooms" ["region"] "Rooms that the coordinator of a region on this node knows.";
    Gauge "tenure_match_tickets" ["region"] "Players whom the coordinator of a region on this node told of a room lately, or for whom it keeps a seat.";
    Gauge "tenure_daemons_running" ["set"] "Daemons that run on this node.";
    Gauge "tenure_daemons_parked" ["set"] "Daemons of this node that failed too often and are not started any more.";
    Gauge "tenure_daemons_not_live_seconds" ["set"] "For how long a daemon has not run, the longest of the set, as far as this node knows; those that are parked here count, those of a stopped set do not.";
    Gauge "tenure_daemons_nowhere" ["set"] "Daemons that run nowhere, or wait here for their restart, as far as this node knows.";
    Counter "tenure_store_conflicts_total" [] "Commands to Redis that were carried out anew, since others changed their rows meanwhile.";
    Counter "tenure_store_failures_total" [] "Faults of the embedded store's file: full disk, I/O errors, damage.";
    Counter "tenure_store_refusals_total" [] "Calls that Redis refused for a reason that a person should look at: login, rights, keys of a foreign kind.";
    Gauge "tenure_store_unfit" [] "1 while a primary of the store may evict or lose what it acknowledged, though `store.accept_loss` does not allow it.";
    Counter "tenure_store_reconnects_total" [] "Connections to Redis that broke, or led to a server that is not the primary, and were dropped.";
    Counter "tenure_lease_lapses_total" [] "Times that this node lost its lease and froze its rooms.";
    Counter "tenure_settles_total" [] "Times that this node left what others had held to them for one lease, since the store had been away.";
    Gauge "tenure_members" ["status"] "Members of the cluster that this node knows, by status.";
    Gauge "tenure_shards_held" [] "Shards that this node holds.";
    Gauge "tenure_shards_ownerless" [] "Shards without an owner among the members, as this node knows.";
    Histogram "tenure_shard_give_seconds" [] "The same as `tenure_handoff_still_seconds` where no handoff drives moves, as in tests of the room host alone.";
    Counter "tenure_shard_gives_total" [] "Shards that this node gave to others.";
    Counter "tenure_shard_takeovers_total" [] "Shards that this node took over from members that were gone.";
    Counter "tenure_handoffs_total" ["outcome"] "Attempts to hand a shard over, by how they ended: moved, doubt, refused, late, unreachable, not_ready, differs.";
    Gauge "tenure_handoffs_moving" [] "Shards that this node is giving away now.";
    Histogram "tenure_handoff_step_seconds" ["step"] "Time of each step at the source: offer, freeze, prepare, transfer.";
    Histogram "tenure_handoff_still_seconds" [] "Time in which the rooms of a shard stood still at the source, from the freeze to the end of the attempt.";
    Histogram "tenure_handoff_prepare_seconds" [] "Time in which the target read a package's rooms and made their worlds, or could not.";
    Counter "tenure_handoff_strays_total" [] "Messages about moves that were for another life of this node, from one that was not asked, or about an attempt that is over: ignored.";
    Counter "tenure_store_forgot_total" [] "Times that this node found that the store had forgotten what it had acknowledged.";
    Counter "tenure_terms_seen_total" [] "Times that somebody had seen a higher term of a shard than this node sent.";

    Counter "tenure_work_total" ["kind", "outcome"] "Work items by what became of them.";
    Histogram "tenure_work_late_seconds" ["kind"] "How long after its due time an item was handed to its room.";
    Counter "tenure_grants_total" ["outcome"] "Answers of ledgers to grants.";
    Counter "tenure_occurrences_dropped_total" [] "Missed occurrences of schedules that are not run, by `catch_up`.";
    Gauge "tenure_work_overdue" [] "Work items that are due on this node and not yet with their room.";
    Gauge "tenure_outbox_entries" [] "Grants that are decided and wait for their ledgers.";
    Counter "tenure_schedule_reloads_total" ["outcome"] "Times that the file of schedules was read again: done, or refused for its mistakes.";
    Gauge "tenure_schedules_differ" [] "Room nodes that run another file of schedules than this node.";
    Gauge "tenure_schedules_hash" [] "Of the file of schedules, as a number: nodes that run different files differ in it.";
}
