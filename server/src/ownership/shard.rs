//! One shard as its node sees it: held, held before a lapse, or asked for.

use tenure_shared::{IncarnationId, Term};

use super::event::{Holding, Seen};

/// One shard.
#[derive(Clone, Debug, Default)]
pub(super) struct Shard {
    pub(super) holding: Option<Holding>,
    /// What was held before a lapse, while it is not known to have been another's since.
    pub(super) former: Option<Former>,
    /// Asked for, no answer yet.
    pub(super) asked: bool,
    /// Granted after the claims were last asked for: what that reading says of it may be older.
    pub(super) fresh: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Former {
    pub(super) incarnation: IncarnationId,
    pub(super) term: Term,
    /// The lowest term whose worlds may go on.
    pub(super) since: Term,
}

impl Shard {
    /// Holds no more; remembers what was held.
    pub(super) fn give_up(&mut self, own: &IncarnationId) {
        if let Some(held) = self.holding.take() {
            let since = held.continues.unwrap_or(held.term);
            self.former = Some(Former { incarnation: own.clone(), term: held.term, since });
        }
    }

    /// The claim is this node's, asked for with `seen`. `own` is its life now.
    pub(super) fn granted(&mut self, own: Option<&IncarnationId>, seen: &Seen, term: Term) {
        // An answer that was overtaken by a later one.
        if self.holding.is_some_and(|held| held.term >= term) {
            return;
        }
        let before = self.holding.map(|held| held.continues.unwrap_or(held.term));
        let continues = self.former.take().and_then(|former| match seen {
            // Still as the former life left it, or taken since by this very life, whose answer was lost.
            Some((Some(holder), at)) if *holder == former.incarnation && *at == former.term || Some(holder) == own => {
                Some(former.since)
            }
            _ => None,
        });
        self.holding = Some(Holding { term, continues: before.or(continues) });
        self.fresh = true;
    }
}
