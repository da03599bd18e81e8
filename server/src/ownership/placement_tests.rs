//! Placement: its rules as properties, and the work that it takes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tenure_shared::IncarnationId;

use super::{Node, Placed, Placement, hash, place};

fn node(name: &str) -> Node {
    Node {
        incarnation: IncarnationId::new(name).expect("valid"),
        serving: true,
        drains: false,
        revision: 0,
        version: "1".to_owned(),
        beats: 1_000,
    }
}

/// Nodes and the owners of keys by name.
#[derive(Clone, Debug)]
struct Cluster {
    nodes: Vec<Node>,
    owners: Vec<Option<IncarnationId>>,
}

impl Cluster {
    fn new(nodes: usize, keys: usize) -> Self {
        let nodes = (0..nodes).map(|n| node(&format!("n{n}#{}", n * 7_919))).collect();
        let mut cluster = Self { nodes, owners: vec![None; keys] };
        cluster.settle();
        cluster
    }

    fn place(&self) -> Placement {
        let index = |owner: &IncarnationId| self.nodes.iter().position(|node| node.incarnation == *owner);
        let key = |(n, owner): (usize, &Option<IncarnationId>)| Placed {
            hash: hash(&format!("shard/{n}")),
            owner: owner.as_ref().and_then(index),
        };
        place(&self.nodes, &self.owners.iter().enumerate().map(key).collect::<Vec<_>>())
    }

    /// Carries out what placement says; the keys that moved.
    fn settle(&mut self) -> Vec<usize> {
        let moves = self.place().moves;
        for a in &moves {
            self.owners[a.key] = Some(self.nodes[a.to].incarnation.clone());
        }
        moves.into_iter().map(|a| a.key).collect()
    }

    fn loads(&self) -> BTreeMap<&IncarnationId, usize> {
        let mut loads: BTreeMap<_, _> = self.nodes.iter().map(|node| (&node.incarnation, 0)).collect();
        for owner in self.owners.iter().flatten() {
            *loads.entry(owner).or_default() += 1;
        }
        loads
    }

    /// Every old node makes place for a new one, one after the other; how often each key moved.
    fn deploy(&mut self, version: &str, revision: u64) -> Vec<usize> {
        let mut moved = vec![0; self.owners.len()];
        for old in self.nodes.clone() {
            for node in &mut self.nodes {
                node.beats += 100;
            }
            let name = format!("{}-{version}", old.incarnation);
            self.nodes.push(Node { version: version.to_owned(), revision, beats: 3, ..node(&name) });
            let mut count = |cluster: &mut Self| cluster.settle().into_iter().for_each(|key| moved[key] += 1);
            count(self);
            self.nodes
                .iter_mut()
                .filter(|node| node.incarnation == old.incarnation)
                .for_each(|node| (node.serving, node.drains) = (false, true));
            count(self);
            self.nodes.retain(|node| node.incarnation != old.incarnation);
            count(self);
        }
        moved
    }
}

prop_compose! {
    fn any_cluster(one_version: bool)(
        nodes in prop::collection::vec((0_u8..3, 0_u64..3, 0_u8..3, 0_u64..100), 1..12),
        nobody_serves in prop::bool::weighted(0.2),
        owners in prop::collection::vec(prop::option::weighted(0.8, 0_usize..14), 1..200),
    ) -> Cluster {
        let nodes: Vec<Node> = nodes.into_iter().enumerate().map(|(n, (stands, revision, version, beats))| Node {
            serving: stands == 0 && !nobody_serves,
            drains: stands == 1,
            revision: if one_version { 1 } else { revision },
            version: if one_version { String::new() } else { version.to_string() },
            beats,
            ..node(&format!("n{n}#{beats}"))
        }).collect();
        let gone = IncarnationId::new("gone#1").expect("valid");
        // Some owners are not among the nodes.
        let owner = |n: usize| nodes.get(n).map_or(gone.clone(), |node| node.incarnation.clone());
        let owners = owners.into_iter().map(|n| n.map(owner)).collect();
        Cluster { nodes, owners }
    }
}

proptest! {
    #[test]
    fn h9_it_is_quiescent_and_never_stuck(mut cluster in any_cluster(false)) {
        cluster.settle();
        prop_assert_eq!(cluster.settle(), Vec::<usize>::new());
        let somebody = cluster.nodes.iter().any(|node| node.serving);
        if somebody || cluster.nodes.iter().any(|node| node.drains) {
            for owner in &cluster.owners {
                let serves =
                    |node: &Node| (node.serving || !somebody) && Some(&node.incarnation) == owner.as_ref();
                prop_assert!(cluster.nodes.iter().any(serves), "{owner:?} does not serve");
            }
        }
    }

    #[test]
    fn while_nobody_serves_only_what_nobody_has_moves_and_to_one_that_drains(mut cluster in any_cluster(false)) {
        cluster.nodes.iter_mut().for_each(|node| node.serving = false);
        let lives = |cluster: &Cluster, owner: &Option<IncarnationId>| {
            cluster.nodes.iter().any(|node| Some(&node.incarnation) == owner.as_ref())
        };
        let before = cluster.owners.clone();
        let free = before.iter().filter(|owner| !lives(&cluster, owner)).count();
        let drains = cluster.nodes.iter().any(|node| node.drains);
        let moved = cluster.settle();
        prop_assert_eq!(moved.len(), if drains { free } else { 0 });
        for key in moved {
            prop_assert!(!lives(&cluster, &before[key]), "it had an owner");
            let takes = |node: &Node| node.drains && Some(&node.incarnation) == cluster.owners[key].as_ref();
            prop_assert!(cluster.nodes.iter().any(takes));
        }
        // Whoever serves next has all of it.
        cluster.nodes.push(node("new#1"));
        cluster.settle();
        let new = &cluster.nodes[cluster.nodes.len() - 1].incarnation;
        prop_assert_eq!(cluster.loads()[new], cluster.owners.len());
    }

    #[test]
    fn h9_it_is_balanced_in_a_cluster_of_one_version(mut cluster in any_cluster(true)) {
        cluster.settle();
        let serving = cluster.nodes.iter().filter(|node| node.serving).count();
        if serving > 0 {
            let bound = cluster.owners.len().div_ceil(serving);
            prop_assert!(cluster.loads().into_values().all(|load| load <= bound), "{:?}", cluster.loads());
        }
    }

    #[test]
    fn moves_in_any_order_and_half_done_lead_to_the_same_place(cluster in any_cluster(true), done in any::<u64>()) {
        let moves = cluster.place().moves;
        let mut half = cluster.clone();
        for (n, a) in moves.iter().enumerate() {
            match (done >> (n % 32)) & 3 {
                0 => half.owners[a.key] = Some(half.nodes[a.to].incarnation.clone()),
                // Released, not yet taken.
                1 => half.owners[a.key] = None,
                _ => {}
            }
        }
        let rest = half.place().moves;
        let planned: BTreeMap<usize, usize> = moves.iter().map(|a| (a.key, a.to)).collect();
        prop_assert!(rest.iter().all(|a| planned.contains_key(&a.key)), "nothing moves that was not to move");
        // What was released does not go back to who gave it.
        for a in &rest {
            prop_assert!(cluster.owners[a.key].as_ref() != Some(&cluster.nodes[a.to].incarnation));
        }
    }

    #[test]
    fn a_join_moves_the_overflow_alone(nodes in 1_usize..10, keys in 1_usize..300) {
        let mut cluster = Cluster::new(nodes, keys);
        let bound = keys.div_ceil(nodes + 1);
        let overflow: usize = cluster.loads().into_values().map(|load| load.saturating_sub(bound)).sum();
        cluster.nodes.push(node("new#1"));
        prop_assert_eq!(cluster.settle().len(), overflow);
    }

    #[test]
    fn a_leave_moves_the_keys_of_the_one_that_left_alone(nodes in 2_usize..10, keys in 1_usize..300, who in 0_usize..10) {
        let mut cluster = Cluster::new(nodes, keys);
        let gone = cluster.nodes.remove(who % nodes).incarnation;
        let owned: Vec<usize> =
            (0..keys).filter(|key| cluster.owners[*key].as_ref() == Some(&gone)).collect();
        prop_assert_eq!(cluster.settle(), owned);
    }

    #[test]
    fn a_deploy_and_a_rollback_move_each_key_about_once(nodes in 1_usize..8, keys in 32_usize..300, set in any::<bool>()) {
        let mut cluster = Cluster::new(nodes, keys);
        // A rollback goes to the version before, under a higher revision or, unset, as the youngest.
        for (version, revision) in [("2", 1), ("1", 2)] {
            let moved = cluster.deploy(version, if set { revision } else { 0 });
            prop_assert!(moved.iter().all(|times| *times >= 1));
            let total: usize = moved.iter().sum();
            prop_assert!(total <= keys + keys / 2 + nodes, "{total} moves of {keys} keys");
            prop_assert!(cluster.nodes.iter().all(|node| node.version == version));
        }
    }
}

#[test]
fn nothing_moves_for_balance_while_versions_differ() {
    let mut cluster = Cluster::new(2, 64);
    cluster.nodes.push(Node { version: "2".to_owned(), ..node("new#1") });
    assert_eq!(cluster.settle(), Vec::<usize>::new());
    cluster.nodes[2].version = "1".to_owned();
    assert!(!cluster.settle().is_empty());
}

#[test]
fn the_highest_revision_receives_and_unset_the_youngest() {
    let gone = |nodes: Vec<Node>| Cluster { nodes, owners: vec![None; 64] };
    let old = Node { beats: 5, ..node("old#1") };
    let new = Node { version: "2".to_owned(), beats: 900, ..node("new#1") };
    let mut cluster = gone(vec![old.clone(), new.clone()]);
    cluster.settle();
    assert_eq!(cluster.loads()[&old.incarnation], 64, "the youngest one's version receives");
    let mut cluster = gone(vec![old.clone(), Node { revision: 1, ..new.clone() }]);
    cluster.settle();
    assert_eq!(cluster.loads()[&new.incarnation], 64);
    let drains = Node { revision: 1, serving: false, ..new };
    let mut cluster = gone(vec![old.clone(), drains]);
    cluster.settle();
    assert_eq!(cluster.loads()[&old.incarnation], 64, "none of the preferred version is eligible: any is");
}

#[test]
fn without_a_serving_node_nothing_moves() {
    let mut cluster = Cluster::new(3, 16);
    cluster.nodes.iter_mut().for_each(|node| node.serving = false);
    assert_eq!(cluster.settle(), Vec::<usize>::new());
    cluster.nodes.clear();
    assert_eq!(cluster.settle(), Vec::<usize>::new());
}

#[test]
fn the_work_is_bounded_by_keys_times_members() {
    let (nodes, keys) = (1_000, 16_384);
    let all: Vec<Node> = (0..nodes).map(|n| node(&format!("n{n}#{n}"))).collect();
    let free: Vec<Placed> = (0..keys).map(|n| Placed { hash: hash(&format!("shard/{n}")), owner: None }).collect();
    let clock = crate::runtime::Clock::system();
    let begun = clock.now();
    let placement = place(&all, &free);
    println!("{keys} keys over {nodes} members: {:?}", clock.now().since(begun));
    assert_eq!((placement.moves.len(), placement.scored), (keys, (keys * nodes) as u64));
    let owned: Vec<Placed> =
        free.iter().zip(&placement.moves).map(|(key, a)| Placed { owner: Some(a.to), ..*key }).collect();
    assert_eq!(place(&all, &owned), Placement::default(), "a cluster at rest costs no score");
    // One leaves: its keys alone are scored.
    let bound = (keys.div_ceil(nodes) * nodes) as u64;
    let mut rest = all;
    rest[17].serving = false;
    let placement = place(&rest, &owned);
    assert!(placement.scored <= bound, "{} scores", placement.scored);
}
