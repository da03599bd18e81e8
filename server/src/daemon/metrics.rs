//! Metrics of daemons. Labels are sets and causes, never indices.

use std::sync::Arc;

use super::table::Table;

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
