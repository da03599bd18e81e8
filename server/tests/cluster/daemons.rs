//! Daemons of real processes on a real Redis: coordinators of regions while their nodes are killed, paused and drained (H10).

use std::collections::{BTreeMap, BTreeSet};

use crate::nodes::{Cluster, Node, can_run, until};

const REGIONS: &str = "daemons.regions=[\"r1\",\"r2\",\"r3\",\"r4\",\"r5\",\"r6\"]";

/// The coordinators that a node says it runs, with their terms.
fn running(node: &Node) -> BTreeMap<String, u64> {
    let cluster = node.cluster();
    let sets = cluster["daemons"].as_array().expect("sets of daemons");
    let mut found = BTreeMap::new();
    for set in sets {
        let row = &set["daemons"][0];
        if row["stage"].as_str() == Some("running") {
            found.insert(set["name"].as_str().expect("a name").to_owned(), row["term"].as_u64().expect("a term"));
        }
    }
    found
}

/// Waits until all six run, each on one of these nodes and under a term that was never seen for it on another.
fn all_run(nodes: &[&Node], seen: &mut BTreeMap<(String, u64), String>) -> BTreeMap<String, u64> {
    until("all coordinators", || {
        let mut all = BTreeMap::new();
        for node in nodes {
            for (name, term) in running(node) {
                let first = seen.entry((name.clone(), term)).or_insert_with(|| node.name.clone());
                assert_eq!(*first, node.name, "H10: {name} under {term} on two nodes");
                if let Some(other) = all.insert(name.clone(), term) {
                    // One of the two answers is older: they were asked one after the other.
                    eprintln!("{name} was seen under {other} and under {term}");
                    return None;
                }
            }
        }
        (all.len() == 6).then_some(all)
    })
}

#[test]
fn coordinators_outlive_their_nodes() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::new();
    let a = cluster.start("a", "room", &[REGIONS]);
    let b = cluster.start("b", "room", &[REGIONS]);
    let mut c = cluster.start("c", "room", &[REGIONS]);
    let gateway = cluster.start("gate", "gateway", &[REGIONS]);
    let mut seen = BTreeMap::new();
    let first = all_run(&[&a, &b, &c], &mut seen);
    assert!(running(&gateway).is_empty(), "they are for nodes with the role room");
    let roles = gateway.cluster()["members"][0]["roles"].clone();
    assert_eq!(roles, serde_json::json!(["room"]), "what a build has is no role");
    let (status, metrics) = a.page("/metrics");
    assert!(status == 200 && metrics.contains("tenure_daemons_running"), "{metrics}");

    // kill -9 of one that has some, if it has any.
    let of_a = running(&a);
    a.kill();
    let second = all_run(&[&b, &c], &mut seen);
    assert!(of_a.iter().all(|(name, term)| second[name] > *term), "taken over under higher terms");
    assert!(first.iter().filter(|(name, _)| !of_a.contains_key(*name)).all(|(name, term)| second[name] == *term));

    // SIGSTOP past the lease: another has them, and the one that wakes gives up what it thinks it has.
    let of_b = running(&b);
    b.pause();
    let third = all_run(&[&c], &mut seen);
    assert!(of_b.iter().all(|(name, term)| third[name] > *term));
    b.resume();
    until("another life", || b.life("b").filter(|life| c.life("b").as_ref() == Some(life)));
    all_run(&[&b, &c], &mut seen);

    // SIGTERM: handed over, and the node ends well.
    c.terminate();
    assert!(c.ended().success(), "{}", cluster.log("c"));
    let last = all_run(&[&b], &mut seen);
    assert_eq!(last.keys().collect::<BTreeSet<_>>(), first.keys().collect::<BTreeSet<_>>());
}
