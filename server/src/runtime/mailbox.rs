//! Bounded queues with a name: the only kind of queue in this crate (H11).

use tokio::sync::mpsc;

/// Why a value could not be put into a mailbox; the value comes back.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// The mailbox is at its bound.
    Full(T),
    /// Nobody reads it any more.
    Closed(T),
}

/// The sending side.
pub struct Sender<T> {
    name: &'static str,
    inner: mpsc::Sender<T>,
}

/// The receiving side.
pub struct Receiver<T> {
    inner: mpsc::Receiver<T>,
}

/// A mailbox that holds at most `bound` values. `name` is the label of its metrics.
pub fn channel<T>(name: &'static str, bound: usize) -> (Sender<T>, Receiver<T>) {
    let (inner, receiver) = mpsc::channel(bound.max(1));
    (Sender { name, inner }, Receiver { inner: receiver })
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { name: self.name, inner: self.inner.clone() }
    }
}

impl<T> std::fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "mailbox::Sender({})", self.name)
    }
}

impl<T> std::fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("mailbox::Receiver")
    }
}

impl<T> Sender<T> {
    /// Puts a value in, without waiting.
    ///
    /// # Errors
    /// Gives the value back when the mailbox is full (counted as `tenure_mailbox_full_total`) or closed.
    pub fn try_send(&self, value: T) -> Result<(), Refused<T>> {
        self.inner.try_send(value).map_err(|e| match e {
            mpsc::error::TrySendError::Full(value) => {
                self.count_full();
                Refused::Full(value)
            }
            mpsc::error::TrySendError::Closed(value) => Refused::Closed(value),
        })
    }

    /// Puts a value in, waiting for room. Cancel-safe: a cancelled send has put nothing in.
    ///
    /// # Errors
    /// Gives the value back when nobody reads the mailbox any more.
    pub async fn send(&self, value: T) -> Result<(), Refused<T>> {
        self.inner.send(value).await.map_err(|e| Refused::Closed(e.0))
    }

    /// The same from a thread without a runtime.
    ///
    /// # Errors
    /// Gives the value back when nobody reads the mailbox any more.
    pub fn blocking_send(&self, value: T) -> Result<(), Refused<T>> {
        self.inner.blocking_send(value).map_err(|e| Refused::Closed(e.0))
    }

    /// Counts a value that found no place, as [`Sender::try_send`] does: for bounds besides the number of values.
    pub fn count_full(&self) {
        metrics::counter!("tenure_mailbox_full_total", "mailbox" => self.name).increment(1);
    }

    /// Whether nobody reads it any more.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }
}

impl<T> Receiver<T> {
    /// The next value; `None` when all senders are gone. Cancel-safe.
    pub async fn recv(&mut self) -> Option<T> {
        self.inner.recv().await
    }

    /// The next value if one is there.
    pub fn try_recv(&mut self) -> Option<T> {
        self.inner.try_recv().ok()
    }

    /// The next value, blocking a thread that has no runtime.
    pub fn blocking_recv(&mut self) -> Option<T> {
        self.inner.blocking_recv()
    }

    /// Up to `limit` values at once into `out`; 0 when all senders are gone. Cancel-safe.
    pub async fn recv_many(&mut self, out: &mut Vec<T>, limit: usize) -> usize {
        self.inner.recv_many(out, limit).await
    }
}
