//! Daemons of real processes on a real Redis: coordinators of regions while their nodes are killed, paused and drained (H10), and what
//! operators see and order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    nodes::{Cluster, Node, can_run, until},
    support::process::run,
};

const REGIONS: &str = "daemons.regions=[\"r1\",\"r2\",\"r3\",\"r4\",\"r5\",\"r6\"]";

/// The coordinators that a node says it runs, with their terms.
fn running(node: &Node) -> BTreeMap<String, u64> {
    let cluster = node.cluster();
    let sets = cluster["daemons"].as_array().expect("sets of daemons");
    let mut found = BTreeMap::new();
    for set in sets {
        let row = &set["daemons"][0];
        if set["name"].as_str().is_some_and(|name| name.starts_with("region-"))
            && row["stage"].as_str() == Some("running")
        {
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

/// `demo daemons …` of a node: exit code and output.
fn daemons(cluster: &Cluster, node: &str, words: &[&str]) -> (Option<i32>, String) {
    let file = cluster.dir.path().join(format!("{node}.json"));
    let mut line = vec!["daemons"];
    line.extend(words);
    line.extend(["--ready-file", file.to_str().expect("text")]);
    let (exit, out, err) = run(&line, cluster.dir.path());
    (exit, out + &err)
}

/// What each of the census does, as a node says: all of one word.
fn census(cluster: &Cluster, node: &str) -> Option<(String, Vec<String>)> {
    let (_, text) = daemons(cluster, node, &["list", "census", "--json"]);
    let report: Value = serde_json::from_str(&text).ok()?;
    let set = &report["sets"][0]["set"];
    let stages = set["daemons"].as_array()?.iter().filter_map(|row| row["stage"].as_str().map(str::to_owned));
    Some((set["agreed"].as_str()?.to_owned(), stages.collect()))
}

fn until_all(cluster: &Cluster, node: &str, stage: &str) -> String {
    until(&format!("a census that is {stage}"), || {
        let (agreed, stages) = census(cluster, node)?;
        (stages.len() == 8 && stages.iter().all(|one| one == stage)).then_some(agreed)
    })
}

#[test]
fn operators_see_and_order_the_daemons_of_all_nodes_from_any_room_node() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::new();
    let a = cluster.start("a", "room", &[]);
    let b = cluster.start("b", "room", &[]);
    let _gateway = cluster.start("gate", "gateway", &[]);
    assert_eq!(until_all(&cluster, "a", "running"), "8 on room, generation 1");
    until("a share for each", || {
        let (exit, text) = daemons(&cluster, "b", &["list"]);
        let on = |node: &str| {
            text.lines().filter(|line| line.contains(&format!(" {node} ")) && line.contains("running")).count()
        };
        (exit == Some(0) && (on("a"), on("b")) == (4, 4) && text.contains("entries ")).then_some(())
    });
    // A gateway knows where they are and has no way to them, and says so.
    let (exit, text) = daemons(&cluster, "gate", &["list"]);
    assert!(exit == Some(0) && text.contains("elsewhere") && text.contains("! no answer from a, b"), "{text}");

    for index in 0..8 {
        let (exit, text) = daemons(&cluster, "a", &["ask", "census", &index.to_string(), "\"Report\""]);
        let report: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("JSON: {text}"));
        assert_eq!((exit, report["index"].as_u64(), report["count"].as_u64()), (Some(0), Some(index), Some(8)));
    }
    let (exit, text) = daemons(&cluster, "b", &["rescale", "census", "6"]);
    assert!(exit == Some(1) && text.contains("does not say that the number may change"), "{text}");
    let (exit, text) = daemons(&cluster, "b", &["unpark", "census", "2"]);
    assert!(exit == Some(1) && text.contains("is not parked: it is running"), "{text}");

    // The order may be given to a gateway: it is the store's word, for all.
    let (exit, text) = daemons(&cluster, "gate", &["stop", "census"]);
    assert!(
        exit == Some(0) && text.contains("8 on room, generation 1, stopped. Its daemons stop on ALL nodes"),
        "{text}"
    );
    until_all(&cluster, "a", "nowhere");
    assert_eq!(daemons(&cluster, "a", &["list"]).0, Some(0), "stopped on purpose is no problem");
    b.kill();
    let b = cluster.start("b", "room", &[]);
    let stages = until("the agreement", || {
        let (agreed, stages) = census(&cluster, "b")?;
        agreed.ends_with(", stopped").then_some(stages)
    });
    assert!(!stages.iter().any(|stage| stage == "running"), "after a restart too");
    let (exit, text) = daemons(&cluster, "b", &["start", "census"]);
    assert!(exit == Some(0) && text.contains("census: 8 on room, generation 1. Its daemons start"), "{text}");
    until_all(&cluster, "b", "running");

    // Its node dies: whoever took it over says so.
    let (_, text) = daemons(&cluster, "b", &["list"]);
    let had_some = text.lines().any(|line| line.contains(" a "));
    a.kill();
    if had_some {
        until("the end of a", || {
            let (exit, text) = daemons(&cluster, "b", &["list"]);
            (exit == Some(0) && text.contains("last lost its node") && text.contains("taken over from a#"))
                .then_some(())
        });
    }
    let (exit, text) = run_history(&cluster, "b");
    let looked_at = text.split(" daemons, ").next().and_then(|head| head.rsplit(' ').next()?.parse::<u64>().ok());
    assert!(exit == Some(0) && looked_at.is_some_and(|count| count >= 8), "{text}");
    drop(b);
}

fn run_history(cluster: &Cluster, node: &str) -> (Option<i32>, String) {
    let file = cluster.dir.path().join(format!("{node}.json"));
    let settings = cluster.settings(&[]);
    let mut line = vec!["history", "check", "--ready-file", file.to_str().expect("text")];
    line.extend(settings.iter().map(String::as_str));
    let (exit, out, err) = run(&line, cluster.dir.path());
    (exit, out + &err)
}
