//! The life of one link: its queue, how it ends, and that it ends once.

use std::sync::{Arc, OnceLock};

use super::{
    codec::{Packets, TooLong},
    queue::{Queue, Why},
    site::{Peer, Site},
};
use crate::runtime::{Shutdown, mailbox::Refused};

/// Why a link ended.
#[derive(Clone, Debug)]
pub(super) struct Cause {
    /// A word for metrics.
    pub(super) word: &'static str,
    /// For people.
    pub(super) text: String,
}

impl Cause {
    pub(super) fn new(word: &'static str, text: impl Into<String>) -> Self {
        Self { word, text: text.into() }
    }

    /// The owner of this end dropped it.
    pub(super) fn dropped() -> Self {
        Self::new("dropped", "this end was dropped")
    }

    pub(super) fn stopping() -> Self {
        Self::new("stopping", "this process is stopping")
    }

    /// What this end is for has ended.
    pub(super) fn ended(why: &str) -> Self {
        Self::new("ended", why)
    }

    pub(super) fn io(error: &std::io::Error) -> Self {
        Self::new("io", error.to_string())
    }

    pub(super) fn protocol(error: &dyn std::fmt::Display) -> Self {
        Self::new("protocol", format!("the peer sent what no link carries: {error}"))
    }

    /// Whether what waits is still worth writing.
    pub(super) fn is_orderly(&self) -> bool {
        matches!(self.word, "dropped" | "stopping" | "ended")
    }
}

/// See the module.
pub(super) struct Life {
    pub(super) site: Arc<Site>,
    pub(super) peer: Peer,
    pub(super) queue: Queue,
    /// Given when the link has ended.
    pub(super) ended: Shutdown,
    cause: OnceLock<Cause>,
}

impl Life {
    pub(super) fn new(site: &Arc<Site>, peer: Peer) -> Arc<Self> {
        Arc::new(Self { site: site.clone(), peer, queue: Queue::new(), ended: Shutdown::new(), cause: OnceLock::new() })
    }

    /// Ends the link; of several causes the first counts.
    pub(super) fn end(&self, cause: Cause) {
        if self.cause.set(cause).is_ok() {
            self.queue.close();
            self.ended.stop();
        }
    }

    /// Why it ended; "dropped" for a task that was dropped before anybody said.
    pub(super) fn cause(&self) -> Cause {
        self.cause.get().cloned().unwrap_or_else(Cause::dropped)
    }

    /// Resolves when the link has ended or the process stops. Cancel-safe.
    pub(super) async fn over(&self) -> Cause {
        tokio::select! {
            biased;
            () = self.ended.stopped() => {}
            () = self.site.common.tasks.shutdown().stopped() => self.end(Cause::stopping()),
        }
        self.cause()
    }

    /// Puts a message into the queue, or gives it back.
    pub(super) fn offer<T>(
        &self,
        message: T,
        bound: usize,
        frame: bool,
        write: impl FnOnce(&T) -> Result<Packets, TooLong>,
    ) -> Result<(), Refused<T>> {
        let put = self.queue.may(bound).and_then(|()| match write(&message) {
            Ok(packets) => self.queue.push(packets, bound),
            Err(error) => {
                // It will never pass: who sent it must not wait for that.
                tracing::error!(peer = %self.peer, %error, "a message is too long for a link");
                Err(Why::Closed)
            }
        });
        let metrics = &self.site.metrics;
        match put {
            Ok(waiting) => {
                metrics.waiting(waiting);
                Ok(())
            }
            Err(Why::Full) => {
                let refused = if frame { &metrics.refused_frames } else { &metrics.refused_others };
                refused.increment(1);
                Err(Refused::Full(message))
            }
            Err(Why::Closed) => Err(Refused::Closed(message)),
        }
    }
}
