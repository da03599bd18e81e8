//! One timer that is set anew only when it must ring earlier: a busy link does not make a timer per message.

use std::{future::Future, pin::Pin};

use crate::runtime::{Clock, Mono};

pub(super) struct Alarm {
    clock: Clock,
    at: Mono,
    sleep: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Alarm {
    pub(super) fn new(clock: &Clock, at: Mono) -> Self {
        Self { clock: clock.clone(), at, sleep: clock.sleep_until(at) }
    }

    /// Rings at `at` or earlier. Who hears it looks what is due, and calls this again with what comes next.
    pub(super) fn no_later_than(&mut self, at: Mono) {
        if at < self.at {
            self.set(at);
        }
    }

    /// Resolves when it rings; then it is to be set anew. Cancel-safe.
    pub(super) async fn ring(&mut self) {
        self.sleep.as_mut().await;
    }

    pub(super) fn set(&mut self, at: Mono) {
        self.at = at;
        self.sleep = self.clock.sleep_until(at);
    }
}
