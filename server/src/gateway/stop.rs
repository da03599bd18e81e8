//! How a gateway goes away (C45, C46): nobody new comes in, everybody is told when to come back, and at different times.

use std::{collections::BTreeSet, time::Duration};

use super::{Gateway, conn::Note};

/// How long sockets are closed one after another, at most.
const SPREAD: Duration = Duration::from_secs(2);
/// Latest moment that a client is told to come back after; each gets its own.
const COME_BACK: Duration = Duration::from_secs(5);
/// How often it is looked whether all are gone.
const LOOK: Duration = Duration::from_millis(20);

impl Gateway {
    /// Takes no more sockets: `/ws` answers 503. Those that are open go on.
    pub fn drain(&self) {
        self.front.admission.drain();
    }

    /// Whether [`Gateway::drain`] was called.
    pub fn is_draining(&self) -> bool {
        self.front.admission.is_draining()
    }

    /// Closes all sockets with 1012 and a time to come back, spread over the first half of `limit` and no more than two seconds; silent
    /// clients are cut off. Answers how many had to be left to their fate. Call it while the node still takes detaches, and once.
    pub async fn stop(&self, limit: Duration) -> usize {
        self.drain();
        let site = &self.front.site;
        let (clock, rng) = (&site.clock, &site.rng);
        let now = clock.now();
        let spread = SPREAD.min(limit / 2);
        let below = |most: Duration| rng.below(u64::try_from(most.as_millis()).unwrap_or(u64::MAX) + 1);
        let deadline = now.plus(limit);
        let mut told = BTreeSet::new();
        while site.conns.len() > 0 && clock.now() < deadline {
            // Also those that were just being upgraded when the drain began.
            for conn in site.conns.all() {
                let at = now.plus(Duration::from_millis(below(spread)));
                let retry = u32::try_from(below(COME_BACK)).unwrap_or(u32::MAX);
                if !told.contains(&conn.id) && conn.note(Note::Restart { at, retry }) {
                    told.insert(conn.id);
                }
            }
            clock.sleep(LOOK).await;
        }
        // The listener goes last, so that until now clients got an answer instead of a refused connection.
        self.stop.stop();
        site.conns.len()
    }
}
