//! How a node leaves: everything is given up, and the members are told last.

use tokio::task::JoinSet;

use super::{Driver, Event, IN_FLIGHT};

/// How often a node that leaves tries to deregister.
const GOODBYES: usize = 3;

impl Driver {
    /// Gives everything up: what is under way is waited for first, so that nothing is granted behind the back of the release.
    pub(super) async fn leave(&mut self, mut calls: JoinSet<Event>) {
        let mut effects = self.step(Event::Leave);
        self.publish();
        while let Some(answer) = calls.join_next().await {
            drop(answer);
        }
        let last = effects.pop();
        for effect in effects {
            while calls.len() >= IN_FLIGHT {
                calls.join_next().await;
            }
            calls.spawn(self.call(effect));
        }
        while let Some(answer) = calls.join_next().await {
            drop(answer);
        }
        let Some(deregister) = last else { return };
        // A store that stands still for a moment must not make everybody wait for this lease to lapse.
        for _ in 0..GOODBYES {
            if !matches!(self.call(deregister.clone()).await, Event::Failed(_)) {
                return;
            }
        }
        tracing::warn!("deregistering failed; the lease will lapse");
    }
}
