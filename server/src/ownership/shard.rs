//! One shard as its node sees it: its claim as known, and whether this node holds it or held it before a lapse.

use tenure_shared::{IncarnationId, Term};

use super::event::{Holding, Seen};
use crate::runtime::Mono;

/// One shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Shard {
    pub(super) holding: Option<Holding>,
    /// What was held before a lapse, while it is not known to have been another's since.
    pub(super) former: Option<Former>,
    /// The claim as it is known: from routes, readings and grants.
    pub(super) claim: Seen,
    /// The owner of the highest term ever seen: a store that forgot may name a lower one (F11).
    pub(super) high: Option<(IncarnationId, Term)>,
    /// The highest term that anybody saw: nothing is sent below it.
    pub(super) least: Term,
    /// Granted after the claim was last asked for: what that reading says of it may be older.
    pub(super) fresh: bool,
    /// A reading said a lower term than known: it counts if the next one says so too.
    pub(super) lower: bool,
    /// Not asked for again before this.
    pub(super) after: Mono,
    /// The term under which it was given away, and to whom, until the store has said so: nothing of it is in memory any more.
    pub(super) given: Option<(Term, Option<IncarnationId>)>,
    /// When it last could not be given away, though it was to be.
    pub(super) kept: Mono,
    /// When somebody last looked for it here.
    pub(super) looked: Mono,
    /// Since when nobody has it who could.
    pub(super) orphan: Option<Mono>,
    /// The package that the claim names, and the term of that claim.
    pub(super) package: Option<(Term, u64)>,
    /// The highest term that this node ever held.
    pub(super) ran: Term,
}

/// What was held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Former {
    pub(super) incarnation: IncarnationId,
    pub(super) term: Term,
    /// The lowest term whose worlds may go on.
    pub(super) since: Term,
    /// When it is given up, since another lives in a claim of a lower term (F11).
    pub(super) until: Option<Mono>,
}

impl Shard {
    /// Who is in the claim, as far as is known.
    pub(super) fn holder(&self) -> Option<&IncarnationId> {
        self.claim.as_ref().and_then(|(holder, _)| holder.as_ref())
    }

    /// The claim's term; 0 if nobody ever claimed it.
    pub(super) fn term(&self) -> Term {
        self.claim.as_ref().map_or(Term(0), |(_, term)| *term)
    }

    /// Holds no more; remembers what was held.
    pub(super) fn give_up(&mut self, own: &IncarnationId) {
        if let Some(held) = self.holding.take() {
            let since = held.continues.unwrap_or(held.term);
            self.former = Some(Former { incarnation: own.clone(), term: held.term, since, until: None });
        }
    }

    /// Takes a claim as the truth; whether it was news. What is held under another one is given up, and forgotten if somebody else had
    /// the shard since.
    pub(super) fn learn(&mut self, own: Option<&IncarnationId>, claim: Seen) -> bool {
        let news = self.claim != claim;
        self.claim = claim;
        self.lower = false;
        if news {
            self.after = Mono(0);
            self.orphan = None;
        }
        let (holder, term) = (self.holder().cloned(), self.term());
        self.raise(holder.as_ref(), term);
        if self.given.as_ref().is_some_and(|(of, _)| *of != term || holder.as_ref() != own) {
            self.given = None;
        }
        let runs = self.holding.is_some_and(|held| held.term == term) && holder.as_ref() == own;
        if let (false, Some(own)) = (runs, own) {
            self.give_up(own);
        }
        let ours = |former: &Former| holder.as_ref() == own || holder.as_ref() == Some(&former.incarnation);
        if self.former.as_ref().is_some_and(|former| !(holder.is_some() && ours(former)) && term >= former.term) {
            self.former = None;
        }
        news
    }

    /// Another gave the shard away under `term`: what was held before was that one's meanwhile, whoever is in the claim now (H5). Whether
    /// it was not known.
    pub(super) fn handed_over(&mut self, term: Term) -> bool {
        self.former.take_if(|former| former.term < term).is_some()
    }

    pub(super) fn raise(&mut self, holder: Option<&IncarnationId>, term: Term) {
        if let Some(holder) = holder
            && self.high.as_ref().is_none_or(|(_, high)| *high < term)
        {
            self.high = Some((holder.clone(), term));
        }
    }

    /// The claim is this node's, asked for with `seen`; whether that is news. `own` is its life now.
    pub(super) fn granted(&mut self, own: &IncarnationId, seen: &Seen, term: Term) -> bool {
        // An answer that was overtaken by a later one.
        if self.holding.is_some_and(|held| held.term >= term) {
            return false;
        }
        let before = self.holding.map(|held| held.continues.unwrap_or(held.term));
        let continues = self.former.take().and_then(|former| match seen {
            // Still this node's: as its former life left it, or taken by a call whose answer was lost (F5).
            Some((Some(holder), at)) if *holder == former.incarnation && *at >= former.term => Some(former.since),
            Some((Some(holder), _)) if holder == own => Some(former.since),
            // The store forgot the former term: nobody can have had the shard after it, or the term would be higher (F11). Where it forgot even
            // how the shard came here, and what its owner before had done, only that owner could say it again: what is stored counts.
            Some((_, at)) if (former.since..former.term).contains(at) => Some(former.since),
            None => Some(former.since),
            _ => None,
        });
        let package = self.package.take().filter(|(at, _)| {
            // Handed to this life and not run under that term: nobody has touched it since (F2).
            *at > self.ran && seen.as_ref() == Some(&(Some(own.clone()), *at))
        });
        let continues = before.or(continues);
        let package = package.map(|(_, package)| package).filter(|_| continues.is_none());
        self.hold(own, Holding { term, continues, package });
        true
    }

    /// The claim was given to this node under `term`, as who gave it says; whether it is held now. `own` is its life now.
    pub(super) fn transferred(&mut self, own: &IncarnationId, term: Term, package: u64) -> bool {
        let news = term > self.term() || (term == self.term() && self.holder() == Some(own));
        let older = self.former.as_ref().is_some_and(|former| former.term >= term);
        if self.holding.is_some() || !news || older || term <= self.ran {
            return false;
        }
        // What was held before was another's meanwhile.
        self.former = None;
        self.given = None;
        if term < self.least {
            // Somebody saw a higher one: it is asked for anew, and nobody runs it before.
            self.claim = Some((Some(own.clone()), term));
            self.raise(Some(own), term);
            self.package = Some((term, package));
            self.after = Mono(0);
            return false;
        }
        self.package = None;
        self.hold(own, Holding { term, continues: None, package: Some(package) });
        true
    }

    fn hold(&mut self, own: &IncarnationId, holding: Holding) {
        let term = holding.term;
        self.ran = self.ran.max(term);
        self.holding = Some(holding);
        self.claim = Some((Some(own.clone()), term));
        self.raise(Some(own), term);
        self.fresh = true;
        self.lower = false;
        self.orphan = None;
        self.after = Mono(0);
    }
}
