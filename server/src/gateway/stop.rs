//! How a gateway goes away (C45, C46, C53): nobody new comes in, everybody is told where or when to come back, and at different times.
//!
//! ```text
//! drain          /ws answers 503, sockets go on
//! move_clients   only if another gateway serves: each client is told to go there after a time of its own, and leaves when it has its seat
//! stop           those who are still here are closed: 4001 if there is another gateway, else 1012 with a time to come back
//! ```

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{Gateway, conn::Note};

/// How long sockets are closed one after another, at most.
const SPREAD: Duration = Duration::from_secs(2);
/// Latest moment that a client is told to come back after; each gets its own.
const COME_BACK: Duration = Duration::from_secs(5);
/// How often it is looked whether all are gone.
const LOOK: Duration = Duration::from_millis(20);
/// Time between two lines of the log about it.
const SAY: Duration = Duration::from_secs(2);
/// Most addresses that a client is told.
const URLS: usize = 16;

/// What the clients are told that are still there at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// 1012: this gateway comes back, or its like, after a while.
    ComeBack,
    /// 4001: another gateway has a place now.
    Elsewhere,
}

impl Gateway {
    /// Takes no more sockets: `/ws` answers 503. Those that are open go on.
    pub fn drain(&self) {
        self.front.admission.drain();
    }

    /// Whether [`Gateway::drain`] was called.
    pub fn is_draining(&self) -> bool {
        self.front.admission.is_draining()
    }

    /// Takes no more sockets and tells every client that has a seat, or gets one meanwhile, to move to one of `urls` (at most 16 of them are
    /// told; none: the address it has), each after another time within the first three quarters of `limit`. They leave when they have their
    /// seats elsewhere. Ends when all are gone, or with `limit`; answers how many are still here. Cancel-safe.
    pub async fn move_clients(&self, urls: &[String], limit: Duration) -> usize {
        self.drain();
        let urls: Arc<[String]> = urls.iter().take(URLS).cloned().collect();
        let site = &self.front.site;
        let (clock, begun) = (&site.clock, site.clock.now());
        let (deadline, mut say) = (begun.plus(limit), begun.plus(SAY));
        let mut told = BTreeSet::new();
        loop {
            let here = site.conns.all();
            let now = clock.now();
            if here.is_empty() || now >= deadline {
                return here.len();
            }
            if now >= say {
                tracing::info!(told = told.len(), sockets = here.len(), "clients move to other gateways");
                say = now.plus(SAY);
            }
            let spread = begun.plus(limit * 3 / 4).since(now);
            for conn in here {
                let after = self.below(spread);
                if !told.contains(&conn.id) && conn.note(Note::Move { urls: urls.clone(), after }) {
                    told.insert(conn.id);
                }
            }
            clock.sleep(LOOK).await;
        }
    }

    /// Closes all sockets that are left, spread over the first half of `limit` and no more than two seconds; silent clients are cut off.
    /// Answers how many had to be left to their fate. Call it while the node still takes detaches, and once.
    pub async fn stop(&self, limit: Duration, farewell: Farewell) -> usize {
        self.drain();
        let site = &self.front.site;
        let clock = &site.clock;
        let now = clock.now();
        let spread = SPREAD.min(limit / 2);
        let deadline = now.plus(limit);
        let mut told = BTreeSet::new();
        while site.conns.len() > 0 && clock.now() < deadline {
            // Also those that were just being upgraded when the drain began.
            for conn in site.conns.all() {
                let at = now.plus(Duration::from_millis(u64::from(self.below(spread))));
                let retry = (farewell == Farewell::ComeBack).then(|| self.below(COME_BACK));
                if !told.contains(&conn.id) && conn.note(Note::GoAway { at, retry }) {
                    told.insert(conn.id);
                }
            }
            clock.sleep(LOOK).await;
        }
        // The listener goes last, so that until now clients got an answer instead of a refused connection.
        self.stop.stop();
        site.conns.len()
    }

    /// Any number of milliseconds up to this.
    fn below(&self, most: Duration) -> u32 {
        let most = u32::try_from(most.as_millis()).unwrap_or(u32::MAX - 1);
        u32::try_from(self.front.site.rng.below(u64::from(most) + 1)).unwrap_or(most)
    }
}
