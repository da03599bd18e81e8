//! Which node is asked, and when again: the part without I/O.

use std::{collections::BTreeMap, time::Duration};

use tenure_shared::{ShardId, Term};

use crate::{
    link::{Address, Owner},
    runtime::Rng,
};

/// Longest first pause.
const FIRST: Duration = Duration::from_millis(20);
/// Longest pause.
const LONGEST: Duration = Duration::from_secs(1);

/// A pause before the next try, anything up to a bound that doubles from 20 ms to a second: whoever lost the same owner does not come
/// back at the same moment (C46).
pub(in crate::gateway) fn pause(tries: u32, rng: &Rng) -> Duration {
    let most = FIRST.saturating_mul(1 << tries.min(16)).min(LONGEST);
    Duration::from_micros(rng.below(u64::try_from(most.as_micros()).unwrap_or(u64::MAX)) + 1)
}

/// The order in which nodes are asked for a room of a kind and region: the same at every gateway, so that players who come at once
/// meet, and another for each lobby, so that not one node makes all rooms.
pub(in crate::gateway) fn order(mut nodes: Vec<Address>, kind: &str, region: &str) -> Vec<Address> {
    let score = |address: &Address| {
        // The slash is in none of the first two.
        xxhash_rust::xxh3::xxh3_64(format!("{kind}/{region}/{address}").as_bytes())
    };
    nodes.sort_by_cached_key(|address| (score(address), address.clone()));
    nodes
}

/// Where a shard's owner is taken to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::gateway) struct Route {
    pub(in crate::gateway) address: Address,
    /// It serves for this term at least.
    pub(in crate::gateway) term: Term,
}

/// What former owners said about where their shards went: at most one per shard. It counts until the directory is newer.
#[derive(Debug, Default)]
pub(super) struct Hints(BTreeMap<ShardId, Route>);

impl Hints {
    /// The owner up to the term `ended` says that `to` comes next. `known` is what the directory says now.
    pub(super) fn moved(&mut self, shard: ShardId, ended: Term, to: Option<Address>, known: Option<&Owner>) {
        match to {
            Some(address) => {
                let term = known.map_or(ended, |owner| owner.term.max(ended));
                self.0.insert(shard, Route { address, term });
            }
            None => drop(self.0.remove(&shard)),
        }
    }

    /// This node says that it is not the owner, or cannot be reached.
    pub(super) fn wrong(&mut self, shard: ShardId, address: &Address) {
        if self.0.get(&shard).is_some_and(|hint| hint.address == *address) {
            self.0.remove(&shard);
        }
    }

    /// Whether somebody was named at this address.
    pub(super) fn names(&self, address: &Address) -> bool {
        self.0.values().any(|hint| hint.address == *address)
    }

    /// Whom to ask.
    pub(super) fn route(&mut self, shard: ShardId, known: Option<Owner>) -> Option<Route> {
        let newer = |hint: &Route| known.as_ref().is_none_or(|owner| owner.term <= hint.term);
        if let Some(hint) = self.0.get(&shard) {
            if newer(hint) {
                return Some(hint.clone());
            }
            self.0.remove(&shard);
        }
        let Owner { term, address } = known?;
        Some(Route { address: address?, term })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(term: u64, address: &str) -> Option<Owner> {
        Some(Owner { term: Term(term), address: Some(address.into()) })
    }

    fn route(address: &str, term: u64) -> Option<Route> {
        Some(Route { address: address.into(), term: Term(term) })
    }

    #[test]
    fn pauses_are_spread_and_bounded() {
        let rng = Rng::seeded(3);
        for tries in 0..100 {
            assert!(pause(tries, &rng) <= LONGEST + Duration::from_micros(1));
        }
        let first: std::collections::BTreeSet<_> = (0..50).map(|_| pause(0, &rng)).collect();
        assert!(first.len() > 40 && first.iter().all(|p| *p <= FIRST + Duration::from_micros(1)), "{first:?}");
    }

    #[test]
    fn every_gateway_asks_in_the_same_order_and_lobbies_differ() {
        let nodes = || (0..8).map(|n| Address::from(format!("10.0.0.{n}:7779"))).collect::<Vec<_>>();
        let mut turned = nodes();
        turned.reverse();
        assert_eq!(order(nodes(), "arena", "eu"), order(turned, "arena", "eu"));
        let firsts: std::collections::BTreeSet<_> =
            (0..40).map(|n| order(nodes(), "arena", &format!("r{n}"))[0].clone()).collect();
        assert!(firsts.len() >= 6, "{firsts:?}");
    }

    #[test]
    fn a_hint_counts_until_the_directory_is_newer_or_it_was_wrong() {
        let (shard, mut hints) = (ShardId(3), Hints::default());
        assert_eq!(hints.route(shard, None), None);
        assert_eq!(hints.route(shard, Some(Owner { term: Term(4), address: None })), None, "nobody owns it");
        hints.moved(shard, Term(5), Some("b".into()), owner(5, "a").as_ref());
        assert_eq!(hints.route(shard, owner(5, "a")), route("b", 5));
        assert!(hints.names(&"b".into()));
        hints.wrong(shard, &"a".into());
        assert_eq!(hints.route(shard, owner(5, "a")), route("b", 5));
        assert_eq!(hints.route(shard, owner(6, "c")), route("c", 6));
        assert_eq!(hints.route(shard, owner(5, "a")), route("a", 5), "it is forgotten");
        // One without a term counts from what is known.
        hints.moved(shard, Term(0), Some("b".into()), owner(7, "a").as_ref());
        assert_eq!(hints.route(shard, owner(7, "a")), route("b", 7));
        hints.wrong(shard, &"b".into());
        assert_eq!(hints.route(shard, owner(7, "a")), route("a", 7));
    }
}
