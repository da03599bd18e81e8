//! Metrics of daemons. Labels are sets and causes, never indices.

use std::sync::Arc;

use super::table::Table;
use crate::runtime::Mono;

pub(super) fn started(set: &str) {
    metrics::counter!("tenure_daemon_starts_total", "set" => set.to_owned()).increment(1);
}

pub(super) fn failed(set: &str, why: &'static str) {
    metrics::counter!("tenure_daemon_failures_total", "set" => set.to_owned(), "why" => why).increment(1);
}

/// What the tables say: how many run here, are parked here, and are nowhere as far as this node knows.
pub(super) fn shown(tables: &[Arc<Table>]) {
    for table in tables {
        let count = |stages: &[&str]| table.rows.iter().filter(|row| stages.contains(&row.stage)).count() as f64;
        let set = || table.name.clone();
        metrics::gauge!("tenure_daemons_running", "set" => set()).set(count(&["running"]));
        metrics::gauge!("tenure_daemons_parked", "set" => set()).set(count(&["parked"]));
        metrics::gauge!("tenure_daemons_nowhere", "set" => set()).set(count(&["nowhere", "waiting"]));
    }
}

/// For how long an index of each set has not been live, the longest of them: an alarm, so it is told at every look.
pub(super) fn away(tables: &[Arc<Table>], now: Mono) {
    for table in tables {
        let longest =
            table.rows.iter().filter_map(|row| row.down).map(|down| now.since(down)).max().unwrap_or_default();
        metrics::gauge!("tenure_daemons_not_live_seconds", "set" => table.name.clone()).set(longest.as_secs_f64());
    }
}
