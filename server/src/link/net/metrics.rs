//! Metrics of links (descriptions: `telemetry`). Labels are words of this code.

use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::{Counter, Gauge, counter, gauge};

use super::handshake::Role;

/// Handles that are made once per side.
pub(super) struct Metrics {
    role: &'static str,
    pub(super) open: Gauge,
    pub(super) messages_in: Counter,
    pub(super) messages_out: Counter,
    pub(super) bytes_in: Counter,
    pub(super) bytes_out: Counter,
    pub(super) refused_frames: Counter,
    pub(super) refused_others: Counter,
    pub(super) parked: Counter,
    pub(super) unparked: Counter,
    high: Gauge,
    highest: AtomicUsize,
}

impl Metrics {
    pub(super) fn new(role: Role) -> Self {
        let side = role.name();
        Self {
            role: side,
            open: gauge!("tenure_link_open", "side" => side),
            messages_in: counter!("tenure_link_messages_total", "side" => side, "direction" => "in"),
            messages_out: counter!("tenure_link_messages_total", "side" => side, "direction" => "out"),
            bytes_in: counter!("tenure_link_bytes_total", "side" => side, "direction" => "in"),
            bytes_out: counter!("tenure_link_bytes_total", "side" => side, "direction" => "out"),
            refused_frames: counter!("tenure_link_refused_total", "side" => side, "what" => "frame"),
            refused_others: counter!("tenure_link_refused_total", "side" => side, "what" => "other"),
            parked: counter!("tenure_link_parked_total", "side" => side),
            unparked: counter!("tenure_link_not_parked_total", "side" => side),
            high: gauge!("tenure_link_queue_high_bytes", "side" => side),
            highest: AtomicUsize::new(0),
        }
    }

    /// Bytes that wait at one link.
    pub(super) fn waiting(&self, bytes: usize) {
        if bytes > self.highest.load(Ordering::Relaxed) && bytes > self.highest.fetch_max(bytes, Ordering::Relaxed) {
            self.high.set(bytes as f64);
        }
    }

    pub(super) fn handshake_failed(&self, why: &'static str) {
        counter!("tenure_link_handshakes_failed_total", "side" => self.role, "why" => why).increment(1);
    }

    pub(super) fn ended(&self, cause: &'static str) {
        counter!("tenure_link_ends_total", "side" => self.role, "cause" => cause).increment(1);
    }
}
