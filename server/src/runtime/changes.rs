//! A count of changes that others wait for. In place of `tokio::sync::watch`, which wakes those who wait in an order drawn by chance that no
//! seed decides; here they wake in the order in which they began to wait.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tokio::sync::Notify;

#[derive(Debug, Default)]
struct Shared {
    count: AtomicU64,
    ended: AtomicBool,
    notify: Notify,
}

/// Whoever changes something counts it here. When it is dropped, those who wait hear that nothing will change any more.
#[derive(Debug, Default)]
pub struct Changes(Arc<Shared>);

impl Changes {
    /// Nothing has changed yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more. What changed must be readable before.
    pub fn tell(&self) {
        self.0.count.fetch_add(1, Ordering::AcqRel);
        self.0.notify.notify_waiters();
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.0.count.load(Ordering::Acquire)
    }

    /// Watches what changes from now on.
    pub fn watch(&self) -> Watcher {
        Watcher { seen: self.count(), of: self.0.clone() }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
        self.0.notify.notify_waiters();
    }
}

/// The end of [`Changes`]: nothing will change any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

/// Waits for changes, each of its own pace: many that it did not wait for count as one.
#[derive(Clone, Debug)]
pub struct Watcher {
    of: Arc<Shared>,
    seen: u64,
}

impl Watcher {
    /// Everything until now is seen: call it before reading what may have changed.
    pub fn seen(&mut self) {
        self.seen = self.of.count.load(Ordering::Acquire);
    }

    /// Resolves when something has changed that was not seen, which is seen then. Cancel-safe.
    ///
    /// # Errors
    /// [`Ended`] when everything was seen and nothing will change any more.
    pub async fn changed(&mut self) -> Result<(), Ended> {
        loop {
            // Made before looking, it misses nothing that is told after.
            let told = self.of.notify.notified();
            let ended = self.of.ended.load(Ordering::Acquire);
            let count = self.of.count.load(Ordering::Acquire);
            if count != self.seen {
                self.seen = count;
                return Ok(());
            }
            if ended {
                return Err(Ended);
            }
            told.await;
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tasks of a test need no supervisor")]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn changes_count_as_one_and_the_end_is_told() {
        let changes = Changes::new();
        changes.tell();
        let mut watcher = changes.watch();
        changes.tell();
        changes.tell();
        assert_eq!(watcher.changed().await, Ok(()));
        changes.tell();
        watcher.seen();
        let waits = tokio::spawn(async move { (watcher.changed().await, watcher.changed().await) });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished(), "all of it was seen");
        changes.tell();
        drop(changes);
        assert_eq!(waits.await.expect("no panic"), (Ok(()), Err(Ended)));
    }

    /// Lets everybody run who can: the scheduler comes back to a test after some dozen tasks.
    async fn all_run() {
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
    }

    /// More than any batch of wake-ups, so that an order by chance cannot be this one.
    #[tokio::test]
    async fn those_who_wait_wake_in_the_order_in_which_they_began() {
        let (changes, woken) = (Changes::new(), Arc::new(Mutex::new(Vec::new())));
        let waiting: Vec<_> = (0..100)
            .map(|n| {
                let (mut watcher, woken) = (changes.watch(), woken.clone());
                tokio::spawn(async move {
                    while watcher.changed().await.is_ok() {
                        woken.lock().expect("woken").push(n);
                    }
                })
            })
            .collect();
        for _ in 0..3 {
            all_run().await;
            changes.tell();
        }
        all_run().await;
        drop(changes);
        for task in waiting {
            task.await.expect("no panic");
        }
        let ordered: Vec<i32> = (0..3).flat_map(|_| 0..100).collect();
        assert_eq!(*woken.lock().expect("woken"), ordered);
    }
}
