//! Metrics of the gateway (descriptions: `telemetry`), and handles for what is counted on the hot path. No label carries
//! anything that a client chose.

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use tenure_shared::codes::CloseCode;

/// Sockets that are open.
pub(super) const SOCKETS: &str = "tenure_gateway_sockets";
/// Upgrades refused before the handshake, by reason.
pub(super) const UPGRADES_REFUSED: &str = "tenure_gateway_upgrades_refused_total";
/// Seats taken, by how.
pub(super) const JOINS: &str = "tenure_gateway_joins_total";
/// Sockets closed by the server, by the name of the code.
pub(super) const CLOSES: &str = "tenure_gateway_closes_total";
/// Frames written to sockets.
pub(super) const FRAMES: &str = "tenure_gateway_frames_total";
/// Bytes of frames written to sockets.
pub(super) const FRAME_BYTES: &str = "tenure_gateway_frame_bytes_total";
/// Frames that were older than what was shown, or of a room already left.
pub(super) const STALE: &str = "tenure_gateway_stale_frames_total";
/// Frames whose state was dropped because the fan-out was behind.
pub(super) const LOST: &str = "tenure_gateway_lost_frames_total";
/// Client messages that the room could not be given, told to the client.
pub(super) const REFUSED: &str = "tenure_gateway_refused_total";
/// Snapshots asked for because a client had been too slow, or by the client.
pub(super) const RESYNCS: &str = "tenure_gateway_resyncs_total";
/// Seats that another owner took up, on the same socket.
pub(super) const REATTACHES: &str = "tenure_gateway_reattaches_total";
/// Seats between owners.
pub(super) const BETWEEN: &str = "tenure_gateway_seats_between_owners";
/// How long seats were between owners.
pub(super) const BETWEEN_SECONDS: &str = "tenure_gateway_between_owners_seconds";
/// Client messages refused while their seat was between owners.
pub(super) const BETWEEN_REFUSED: &str = "tenure_gateway_between_owners_refused_total";
/// Nodes told that a higher term of a shard was seen.
pub(super) const TERM_SEEN: &str = "tenure_gateway_term_seen_total";
/// Client messages.
pub(super) const MESSAGES: &str = "tenure_gateway_messages_total";

/// Clients told to move to another gateway.
pub(super) const MOVES: &str = "tenure_gateway_moves_total";

/// Handles that are made once.
#[derive(Clone)]
pub(super) struct Metrics {
    pub(super) sockets: Gauge,
    pub(super) frames: Counter,
    pub(super) frame_bytes: Counter,
    pub(super) stale: Counter,
    pub(super) lost: Counter,
    pub(super) refused: Counter,
    pub(super) resyncs: Counter,
    pub(super) messages: Counter,
    pub(super) reattaches: Counter,
    pub(super) between: Gauge,
    pub(super) between_seconds: Histogram,
    pub(super) between_refused: Counter,
    pub(super) term_seen: Counter,
    pub(super) moves: Counter,
}

impl Metrics {
    pub(super) fn new() -> Self {
        Self {
            sockets: gauge!(SOCKETS),
            frames: counter!(FRAMES),
            frame_bytes: counter!(FRAME_BYTES),
            stale: counter!(STALE),
            lost: counter!(LOST),
            refused: counter!(REFUSED),
            resyncs: counter!(RESYNCS),
            messages: counter!(MESSAGES),
            reattaches: counter!(REATTACHES),
            between: gauge!(BETWEEN),
            between_seconds: histogram!(BETWEEN_SECONDS),
            between_refused: counter!(BETWEEN_REFUSED),
            term_seen: counter!(TERM_SEEN),
            moves: counter!(MOVES),
        }
    }
}

/// A seat between owners; counted as long as it lives.
pub(super) struct Between(Gauge);

impl Between {
    pub(super) fn new(metrics: &Metrics) -> Self {
        metrics.between.increment(1.0);
        Self(metrics.between.clone())
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

pub(super) fn closed(code: CloseCode) {
    counter!(CLOSES, "code" => code.name()).increment(1);
}

pub(super) fn joined(resumed: bool) {
    counter!(JOINS, "how" => if resumed { "resume" } else { "join" }).increment(1);
}

pub(super) fn upgrade_refused(reason: &'static str) {
    counter!(UPGRADES_REFUSED, "reason" => reason).increment(1);
}
