//! Two nodes with two versions of the file of schedules: the cluster says so, until they have the same (C17).

use serde_json::Value;

use crate::{
    nodes::{Cluster, Node, can_run, until},
    support::process::run,
};

/// A file with a schedule of this period; the setting that names it.
fn file(cluster: &Cluster, name: &str, every: &str) -> String {
    let path = cluster.dir.path().join(name);
    let text = format!(
        "[[schedule]]\nid = \"often\"\nevery = \"{every}\"\nrooms = \"arena/*/*\"\naudience = \"present\"\ngrant = {{ gold = 1 }}\n"
    );
    std::fs::write(&path, text).expect("written");
    format!("rewards.file={}", path.display())
}

/// What the room nodes say that they run, as a node sees it, once both have said so.
fn hashes(node: &Node) -> Option<Vec<String>> {
    let cluster = node.cluster();
    let members = cluster["members"].as_array()?;
    let rooms = members
        .iter()
        .filter(|member| member["roles"].as_array().is_some_and(|roles| roles.contains(&Value::from("room"))));
    let hashes: Vec<String> = rooms.filter_map(|member| Some(member["schedules"].as_str()?.to_owned())).collect();
    (hashes.len() == 2 && hashes.iter().all(|hash| !hash.is_empty())).then_some(hashes)
}

fn differ(node: &Node) -> Option<f64> {
    let (_, page) = node.page("/metrics");
    let line = page.lines().find(|line| line.starts_with("tenure_schedules_differ{"))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn nodes_with_two_versions_of_the_file_are_named_until_they_have_one() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::new();
    let (one, other) = (file(&cluster, "one.toml", "1h"), file(&cluster, "other.toml", "2h"));
    let (a, b) = (cluster.start("a", "room", &[&one]), cluster.start("b", "room", &[&other]));
    let seen = until("both hashes", || hashes(&a));
    assert_ne!(seen[0], seen[1]);
    until("the metric of a node", || (differ(&a) == Some(1.0)).then_some(()));
    let log = until("a warning", || {
        Some(cluster.log("b")).filter(|log| log.contains("nodes run different files of schedules"))
    });
    assert_eq!(log.matches("nodes run different files of schedules").count(), 1, "once");

    let command = |words: &[&str], node: &Node| {
        let admin = node.ready("admin").expect("an admin port").trim_start_matches("http://").trim_end_matches('/');
        let settings = cluster.settings(&[&format!("admin.listen={admin}")]);
        let words: Vec<&str> = words.iter().copied().chain(settings.iter().map(String::as_str)).collect();
        run(&words, cluster.dir.path())
    };
    let (_, status, _) = command(&["status"], &a);
    for (node, hash) in ["a", "b"].iter().zip(&seen) {
        let line = format!("! nodes run different files of schedules: {node} runs hash {hash}");
        assert!(status.contains(&line), "{line}\n{status}");
    }

    // The file of the other is brought up to date and read again.
    file(&cluster, "other.toml", "1h");
    let (exit, out, err) = command(&["schedule", "reload"], &b);
    assert_eq!(exit, Some(0), "{out}{err}");
    until("one hash", || hashes(&a).filter(|seen| seen[0] == seen[1]));
    until("the metric of a node", || (differ(&a) == Some(0.0)).then_some(()));
    assert!(!command(&["status"], &a).1.contains("different files"));
}
