//! What a room does with the answer to its load.

use super::{super::loading, Actor, Phase};
use crate::runtime::Mono;

impl Actor {
    /// A room that is being read counts as still while its shard is given away: its next owner reads it. It must not begin here meanwhile, or it would
    /// tick, let somebody in or be made for the first time when it is another's (H1, H12).
    pub(super) fn take_loaded(&mut self, now: Mono) {
        if self.shard.giving().is_some() && !self.stopping {
            return;
        }
        let Some(loaded) = self.unread.take() else { return };
        if let Ok(loaded) = &loaded {
            self.items.load(&loaded.items);
        }
        match (self.phase, loaded) {
            (Phase::Loading, Ok(loaded)) => self.opened(loaded, now),
            (Phase::Restoring, Ok(loaded)) => self.restored(loaded, now),
            (Phase::Loading, Err(error)) => self.not_opened(&error),
            (Phase::Restoring, Err(error)) if error.may_retry() => loading::start(&self.host, &self.handle),
            (Phase::Restoring, Err(error)) => self.park(&format!("it cannot be read: {error}"), now),
            _ => {}
        }
    }
}
