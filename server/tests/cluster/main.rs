//! Clusters of real processes on a real Redis: owners are killed, paused and drained under a player whose socket stays.
//! Checks of H4 (inputs once and in order), H7 (nothing older after something newer; the client asserts it) and H9 (no shard stays without
//! an owner).
#![expect(clippy::expect_used, reason = "a test says what it expected")]
#![expect(clippy::print_stderr, reason = "a test that is left out says so, and a failed one shows its logs")]
#![expect(clippy::disallowed_methods, reason = "real processes are waited for in real time")]

mod command;
mod daemons;
mod idle;
mod nodes;
#[path = "../support/redis/mod.rs"]
mod redis;
mod schedules;
mod store_faults;
#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use nodes::{Cluster, Node, SHARDS, can_run, until};
use support::{client::Player, process::run};
use tenure_shared::RoomId;

fn steer(dx: i8, dy: i8) -> Vec<u8> {
    rmp_serde::to_vec(&(dx, dy)).expect("encode")
}

/// The player's counter of applied inputs, once a snapshot has shown it.
fn inputs(player: &Player) -> Option<u64> {
    Some(rmp_serde::from_slice(&player.all("inputs").first()?.1).expect("a number"))
}

/// Sends so many inputs and waits until each was applied once.
async fn play(player: &mut Player, sent: &mut u64, count: u64) {
    for n in 0..count {
        let step = i8::try_from(n % 100).expect("small");
        player.send("steer", &steer(step, -step)).await;
    }
    *sent += count;
    let all = *sent;
    player.until("every input applied once", |p| p.applied == all && inputs(p) == Some(all)).await;
}

/// Room nodes and a gateway, each with a share.
fn three_nodes(cluster: &Cluster) -> (Vec<Node>, Node) {
    let nodes: Vec<Node> = ["a", "b", "c"].iter().map(|name| cluster.start(name, "room", &[])).collect();
    let gateway = cluster.start("gate", "gateway", &[]);
    until("a share of the shards for each node", || {
        let seen = gateway.cluster();
        let counts: Vec<u64> = seen["members"]
            .as_array()?
            .iter()
            .filter_map(|member| member["shards"].as_u64())
            .filter(|n| *n > 0)
            .collect();
        (counts.len() == 3 && counts.iter().sum::<u64>() == u64::from(SHARDS)).then_some(())
    });
    (nodes, gateway)
}

fn room_of(player: &Player) -> RoomId {
    player.joined.as_ref().expect("joined").room.clone()
}

/// The node that serves the room, taken out of the list.
fn take_owner(nodes: &mut Vec<Node>, gateway: &Node, room: &RoomId) -> Node {
    let owner = until("an owner", || gateway.owner(room));
    let at = nodes.iter().position(|node| owner.starts_with(&format!("{}#", node.name)));
    nodes.remove(at.unwrap_or_else(|| panic!("{owner} is none of the nodes")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_costs_neither_socket_nor_seat_nor_input() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::new();
    let (mut nodes, gateway) = three_nodes(&cluster);
    assert_eq!(gateway.ready("link"), None, "nobody calls a gateway");
    assert_eq!(nodes[0].ready("play"), None, "a room node has no players' port");
    let mut ada = Player::join(&gateway.ws(), "arena", "keep").await;
    let (room, seat) = (room_of(&ada), ada.joined.as_ref().expect("joined").seat);
    let mut sent = 0;
    play(&mut ada, &mut sent, 40).await;
    let owner = take_owner(&mut nodes, &gateway, &room);
    let former = gateway.owner(&room);
    owner.kill();
    play(&mut ada, &mut sent, 40).await;
    assert_eq!(ada.joined.as_ref().expect("joined").seat, seat);
    assert_ne!(until("the next owner", || gateway.owner(&room)), former.expect("it had an owner"));
    until("an owner for every shard", || {
        gateway.cluster()["ownerless"].as_array().is_some_and(Vec::is_empty).then_some(())
    });

    // The histories, as a node that had no part in it reads them, and as the command reads them from the store itself.
    let (status, body) = nodes[0].page("/admin/history");
    assert!(status == 200 && body.contains("\"problems\":[]"), "{body}");
    let settings = cluster.settings(&["admin.listen=127.0.0.1:1"]);
    let words: Vec<&str> = ["history", "check"].into_iter().chain(settings.iter().map(String::as_str)).collect();
    let (exit, out, err) = run(&words, cluster.dir.path());
    assert_eq!(exit, Some(0), "{out}{err}");
    assert!(out.contains(&format!("{SHARDS} shards")) && out.contains(" 0 problems"), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_paused_past_its_lease_comes_back_as_another_life() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::new();
    let (mut nodes, gateway) = three_nodes(&cluster);
    let mut ada = Player::join(&gateway.ws(), "arena", "pause").await;
    let room = room_of(&ada);
    let mut sent = 0;
    play(&mut ada, &mut sent, 20).await;
    let owner = take_owner(&mut nodes, &gateway, &room);
    let life = gateway.life(&owner.name).expect("a member");
    owner.pause();
    play(&mut ada, &mut sent, 20).await;
    owner.resume();
    until("another life of it", || gateway.life(&owner.name).filter(|now| *now != life));
    until("its readiness", || (owner.page("/ready").0 == 200).then_some(()));
    play(&mut ada, &mut sent, 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_gives_its_rooms_away_and_the_socket_stays() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::new();
    let (mut nodes, gateway) = three_nodes(&cluster);
    let mut ada = Player::join(&gateway.ws(), "arena", "drain").await;
    let room = room_of(&ada);
    let mut sent = 0;
    play(&mut ada, &mut sent, 20).await;
    let mut owner = take_owner(&mut nodes, &gateway, &room);
    let life = gateway.life(&owner.name).expect("a member");
    let began = std::time::Instant::now();
    owner.terminate();
    // Inputs while it goes away.
    play(&mut ada, &mut sent, 40).await;
    assert_eq!(owner.ended().code(), Some(0), "{}", cluster.log(&owner.name));
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "it ended when everything was given, not when its time was over"
    );
    // What goes as planned is said once, not once for each of its eight shards, and nobody is warned of it.
    let log = cluster.log(&owner.name);
    assert!((1..4).contains(&log.matches("were handed over").count()) && !log.contains("WARN"), "{log}");
    play(&mut ada, &mut sent, 10).await;
    assert_eq!(ada.rolled_back, 0, "a planned move rolls nothing back");
    assert_ne!(until("the next owner", || gateway.owner(&room)), life);
    until("its deregistration", || gateway.life(&owner.name).is_none().then_some(()));

    // The last node has nobody to give to: that is a stop, and the room is stored.
    for node in &mut nodes {
        node.terminate();
    }
    for node in &mut nodes {
        assert_eq!(node.ended().code(), Some(0), "{}", cluster.log(&node.name));
    }
    let _again = cluster.start("d", "room", &[]);
    play(&mut ada, &mut sent, 10).await;
}

#[test]
fn another_number_of_shards_is_refused_naming_both() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::new();
    let node = cluster.start("a", "room", &[]);
    let status = cluster.command("b", "room", &["shards.count=99"]).status().expect("it ran");
    assert_eq!(status.code(), Some(2));
    let log = cluster.log("b");
    assert!(log.contains("99") && log.contains(&SHARDS.to_string()), "{log}");
    assert_eq!(node.page("/ready").0, 200, "the cluster goes on");
}

#[test]
fn a_wrong_link_secret_is_refused() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::new();
    let secret = |name: &str| {
        let path = cluster.dir.path().join(name);
        std::fs::write(&path, name.repeat(40)).expect("written");
        format!("link.secret_file={}", path.display())
    };
    let node = cluster.start("a", "room", &[&secret("right")]);
    let good = cluster.start("good", "gateway", &[&secret("right")]);
    let bad = cluster.start("bad", "gateway", &[&secret("wrong")]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let player = runtime.block_on(Player::join(&good.ws(), "arena", "secret"));
    assert_eq!(until("an owner", || good.owner(&room_of(&player))), node.life("a").expect("a member"));
    let failed = |page: &str| page.lines().any(|line| line.starts_with("tenure_link_handshakes_failed_total{"));
    // The join starts the dial; that it fails is what the test is about.
    let _joining = runtime.spawn(async move { Player::join(&bad.ws(), "arena", "secret").await });
    until("a failed handshake", || failed(&node.page("/metrics").1).then_some(()));
    assert!(!failed(&good.page("/metrics").1));
}

#[test]
fn a_node_told_to_stop_while_it_starts_releases_what_it_has() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::new();
    // Many shards, so that it is not ready at once; a lease so long that only a release can be what ends it here.
    let slow = ["shards.count=512", "lease.ttl=4m"];
    let gateway = cluster.start("gate", "gateway", &slow);
    let mut starting = Node::unready("early", cluster.command("early", "room", &slow));
    until("its registration", || gateway.life("early"));
    starting.terminate();
    assert_eq!(starting.ended().code(), Some(0), "{}", cluster.log("early"));
    until("its release", || gateway.life("early").is_none().then_some(()));
}

#[test]
fn a_drain_is_a_success_only_when_the_node_says_so() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::new();
    let _other = cluster.start("other", "gateway", &[]);
    let wait = |node: &Node| {
        let admin = node.ready("admin").expect("an admin port").trim_start_matches("http://").trim_end_matches('/');
        let settings = cluster.settings(&[&format!("admin.listen={admin}")]);
        let words: Vec<String> = ["drain", "--wait"].into_iter().map(str::to_owned).chain(settings).collect();
        let dir = cluster.dir.path().to_owned();
        std::thread::spawn(move || run(&words.iter().map(String::as_str).collect::<Vec<_>>(), &dir))
    };
    let mut node = cluster.start("good", "gateway", &[]);
    let (exit, out, err) = wait(&node).join().expect("ran");
    assert!(exit == Some(0) && format!("{out}{err}").contains("has ended in order"), "{exit:?} {out}{err}");
    assert_eq!(node.ended().code(), Some(0));

    // It serves on for the load balancer, and dies meanwhile.
    let node = cluster.start("crash", "gateway", &["drain.endpoint_lag=60s"]);
    let waiting = wait(&node);
    until("the drain", || (node.page("/ready").0 == 503).then_some(()));
    node.kill();
    let (exit, out, err) = waiting.join().expect("ran");
    assert!(
        exit == Some(1) && format!("{out}{err}").contains("not said that it ended in order"),
        "{exit:?} {out}{err}"
    );
}

#[test]
fn a_gateway_is_not_ready_while_the_store_takes_no_writes() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::new();
    let gateway = cluster.start("gate", "gateway", &["lease.ttl=1500ms", "lease.heartbeat=200ms"]);
    assert_eq!(gateway.page("/ready").0, 200);
    // Connections stay open, and a ping is answered.
    cluster.call("CONFIG SET min-replicas-to-write 1");
    until("its refusal", || (gateway.page("/ready").0 == 503).then_some(()));
    assert_eq!(gateway.page("/live").0, 200, "no reason to restart it");
    cluster.call("CONFIG SET min-replicas-to-write 0");
    until("its return", || (gateway.page("/ready").0 == 200).then_some(()));
}

#[test]
fn a_gateway_is_not_ready_while_the_store_takes_its_heartbeats_alone() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::new();
    let gateway = cluster.start("gate", "gateway", &["lease.ttl=1500ms", "lease.heartbeat=200ms"]);
    assert_eq!(gateway.page("/ready").0, 200);
    // Leases, routes and claims are granted as before; what it writes for its players is refused.
    cluster
        .call("ACL SETUSER default resetkeys ~{tenure:members}* ~{tenure:routes}* ~{tenure:s1}* ~{tenure:sessions}*");
    until("its refusal", || (gateway.page("/ready").0 == 503).then_some(()));
    assert!(gateway.life("gate").is_some(), "its lease goes on");
    let refusals = |page: &str| page.lines().any(|line| line.starts_with("tenure_store_refusals_total"));
    assert!(refusals(&gateway.page("/metrics").1), "an alarm");
    cluster.call("ACL SETUSER default allkeys");
    until("its return", || (gateway.page("/ready").0 == 200).then_some(()));
}
