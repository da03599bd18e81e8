//! Where daemons belong: the placement of all keys, and beyond it even to within one per node, since daemons are few.

use std::collections::BTreeMap;

use crate::ownership::placement::{Node, Placed, hash, mixed, place, receivers, score};

/// Which key belongs to which node, for keys that are not where they belong.
///
/// As [`place`], and then levelled: while one receiver has two more than another, one goes over; first keys that move anyway, and, in
/// a cluster of one version, others. Applied to its own result it moves nothing (H9).
pub(super) fn place_evenly(nodes: &[Node], keys: &[Placed]) -> BTreeMap<usize, usize> {
    let mut moves: BTreeMap<usize, usize> = place(nodes, keys).moves.iter().map(|one| (one.key, one.to)).collect();
    let receivers = receivers(nodes);
    let hashes: Vec<u64> = nodes.iter().map(|node| hash(node.incarnation.as_str())).collect();
    let rests = mixed(nodes);
    let home = |moves: &BTreeMap<usize, usize>, key: usize| moves.get(&key).copied().or(keys[key].owner);
    let mut load = vec![0_usize; nodes.len()];
    for key in 0..keys.len() {
        if let Some(load) = home(&moves, key).and_then(|node| load.get_mut(node)) {
            *load += 1;
        }
    }
    // Each round takes one from a node that has too many: there are not more rounds than keys.
    for _ in 0..keys.len() {
        let Some(&to) = receivers.iter().min_by_key(|node| (load[**node], hashes[**node])) else { break };
        let most = load[to] + 2;
        let rich = |node: usize| receivers.contains(&node) && load[node] >= most;
        let movable = (0..keys.len()).filter_map(|key| {
            let node = home(&moves, key).filter(|node| rich(*node))?;
            let rank = (moves.contains_key(&key), load[node]);
            (rank.0 || !rests).then(|| (rank, std::cmp::Reverse(score(keys[key].hash, hashes[node])), key, node))
        });
        let Some((_, _, key, from)) = movable.max() else { break };
        load[from] -= 1;
        load[to] += 1;
        if keys[key].owner == Some(to) {
            moves.remove(&key);
        } else {
            moves.insert(key, to);
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tenure_shared::IncarnationId;

    use super::*;

    fn node(n: usize, version: &str, serving: bool) -> Node {
        let incarnation = IncarnationId::new(&format!("n{n}#{n}")).expect("valid");
        Node { incarnation, serving, drains: false, revision: 0, version: version.to_owned(), beats: 100 - n as u64 }
    }

    fn settled(nodes: &[Node], mut owners: Vec<Option<usize>>) -> Vec<Option<usize>> {
        let keys = |owners: &[Option<usize>]| -> Vec<Placed> {
            let placed =
                |(n, owner): (usize, &Option<usize>)| Placed { hash: hash(&format!("daemon/x@1/{n}")), owner: *owner };
            owners.iter().enumerate().map(placed).collect()
        };
        for (key, to) in place_evenly(nodes, &keys(&owners)) {
            owners[key] = Some(to);
        }
        assert!(place_evenly(nodes, &keys(&owners)).is_empty(), "H9: moves nothing when applied to its own result");
        owners
    }

    fn loads(nodes: usize, owners: &[Option<usize>]) -> Vec<usize> {
        (0..nodes).map(|node| owners.iter().filter(|owner| **owner == Some(node)).count()).collect()
    }

    #[test]
    fn eight_on_three_and_a_hundred_on_seven() {
        let nodes: Vec<Node> = (0..7).map(|n| node(n, "1", true)).collect();
        let mut three = loads(3, &settled(&nodes[..3], vec![None; 8]));
        three.sort_unstable();
        assert_eq!(three, [2, 3, 3]);
        let seven = loads(7, &settled(&nodes, vec![None; 100]));
        assert!(seven.iter().all(|load| (14..=15).contains(load)), "{seven:?}");
        // Few keys on many nodes: the bound of two alone would leave nodes without any.
        let ten = loads(7, &settled(&nodes, vec![None; 10]));
        assert!(ten.iter().all(|load| (1..=2).contains(load)), "{ten:?}");
    }

    proptest! {
        #[test]
        fn even_to_within_one_and_quiescent(
            nodes in 1_usize..9, keys in 1_usize..60, owners in proptest::collection::vec(proptest::option::of(0_usize..9), 60),
            away in 0_usize..9,
        ) {
            let list: Vec<Node> = (0..nodes).map(|n| node(n, "1", n != away)).collect();
            let owners = owners[..keys].iter().map(|owner| owner.filter(|owner| *owner < nodes)).collect();
            let after = settled(&list, owners);
            let serving: Vec<usize> = (0..nodes).filter(|n| *n != away).collect();
            if !serving.is_empty() {
                let loads = loads(nodes, &after);
                let (low, high) = serving.iter().fold((usize::MAX, 0), |(low, high), n| (low.min(loads[*n]), high.max(loads[*n])));
                prop_assert!(high - low <= 1, "{loads:?}");
                prop_assert_eq!(serving.iter().map(|n| loads[*n]).sum::<usize>(), keys);
            }
        }

        #[test]
        fn while_versions_differ_nothing_that_serves_moves(owners in proptest::collection::vec(proptest::option::of(0_usize..4), 1..40)) {
            let list: Vec<Node> = (0..4).map(|n| node(n, if n < 2 { "1" } else { "2" }, true)).collect();
            let after = settled(&list, owners.clone());
            for (before, after) in owners.iter().zip(after) {
                prop_assert!(before.is_none() || *before == after);
                prop_assert!(before.is_some() || after.is_some_and(|node| node >= 2));
            }
        }
    }
}
