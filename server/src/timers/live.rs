//! The schedules that a node runs now: a reload puts others in their place, at once and for everybody who asks from then on.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use super::{BookDiff, RewardBook};

/// A book that can be replaced while it is read. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct LiveBook(Arc<Live>);

#[derive(Debug, Default)]
struct Live {
    now: ArcSwap<RewardBook>,
    // Two replacements at once would tell a difference that never was.
    replacing: Mutex<()>,
}

impl LiveBook {
    /// Begins with `book`.
    pub fn new(book: RewardBook) -> Self {
        Self::from(Arc::new(book))
    }

    /// The book of this moment. It stays as it is for whoever holds it, also when it is replaced.
    pub fn current(&self) -> Arc<RewardBook> {
        self.0.now.load_full()
    }

    /// Whether `book` is still the current one. Cheap enough for every tick.
    pub fn is_current(&self, book: &Arc<RewardBook>) -> bool {
        Arc::ptr_eq(&Guard::into_inner(self.0.now.load()), book)
    }

    /// Puts `next` in the place of the current book, and says what that changes. A book that means the same is not replaced unless its
    /// text is another.
    pub fn replace(&self, next: RewardBook) -> BookDiff {
        let _one_at_a_time = self.0.replacing.lock();
        let current = self.current();
        let diff = current.diff(&next);
        if current.hash() != next.hash() || !diff.is_nothing() {
            self.0.now.store(Arc::new(next));
        }
        diff
    }
}

impl From<Arc<RewardBook>> for LiveBook {
    fn from(book: Arc<RewardBook>) -> Self {
        Self(Arc::new(Live { now: ArcSwap::new(book), replacing: Mutex::new(()) }))
    }
}
