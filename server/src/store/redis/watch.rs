//! Looks at the servers again after each new connection and now and then: a failover may have made a primary of one that is not fit to be one.

use std::{sync::Arc, time::Duration};

use super::{
    check::{self, Verdict},
    engine::Shared,
    topology::Topology,
};
use crate::runtime::Shutdown;

/// From one look to the next while no connection is made: a Cluster's connection follows a failover by itself.
const EVERY: Duration = Duration::from_secs(30);
/// Shortest time between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Looks until the signal. The node goes on with an unfit store: its worlds are worth more than a restart that would be refused. It says so
/// at each look.
pub(super) async fn watch(topology: Arc<Topology>, shared: Arc<Shared>, stop: Shutdown) {
    let gauge = metrics::gauge!("tenure_store_unfit");
    let mut warned: Option<Vec<String>> = None;
    loop {
        tokio::select! {
            biased;
            () = stop.stopped() => return,
            () = shared.connected.notified() => {}
            () = shared.clock.sleep(EVERY) => {}
        }
        let verdict = tokio::select! {
            biased;
            () = stop.stopped() => return,
            verdict = check::look(&topology, &shared.options) => verdict,
        };
        match verdict {
            Ok(Verdict::Unfit(text)) => {
                gauge.set(1.0);
                tracing::error!(store = %topology, "the store is not fit to be one any more: {text}");
            }
            Ok(Verdict::Fit { warnings, .. }) => {
                gauge.set(0.0);
                // Those of the start were told there.
                let before = warned.replace(warnings.clone()).unwrap_or_else(|| warnings.clone());
                for warning in warnings.iter().filter(|warning| !before.contains(warning)) {
                    tracing::warn!(store = %topology, "{warning}");
                }
            }
            // Whoever calls the store says the same.
            Err(fault) => tracing::debug!(store = %topology, ?fault, "the servers could not be looked at"),
        }
        tokio::select! {
            biased;
            () = stop.stopped() => return,
            () = shared.clock.sleep(PAUSE) => {}
        }
    }
}
