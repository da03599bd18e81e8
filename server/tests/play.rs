//! The demo as a process: play, kill -9, come back; SIGTERM; a second process on the same folder; pages and probes.
//! Checks of H4 (inputs once and in order), H6 (grants once), H7 (nothing older after something newer) and H8 (shown after the ledger).
#![expect(clippy::expect_used, reason = "a test says what it expected")]
#![expect(clippy::disallowed_methods, reason = "real processes are waited for in real time")]

mod support;

use support::{
    client::Player,
    process::{Home, get, run},
};
use tenure_shared::{Filter, Scalar, wire::Space};

const CHEST: &str = r#"
[[schedule]]
id = "chest"
every = "1s"
rooms = "arena/*/*"
audience = "present"
grant = { gold = 25 }
"#;

fn steer(dx: i8, dy: i8) -> Vec<u8> {
    rmp_serde::to_vec(&(dx, dy)).expect("encode")
}

/// The player's counter of applied inputs, once a snapshot has shown it.
fn inputs(player: &Player) -> Option<u64> {
    let all = player.all("inputs");
    assert!(all.len() <= 1, "a player sees its own counter and no other's");
    Some(rmp_serde::from_slice(&all.first()?.1).expect("a number"))
}

fn positions(player: &Player) -> Vec<(u64, (f32, f32))> {
    let avatars: Vec<u64> = player.all("player").into_iter().map(|(id, _)| id).collect();
    let all = player.all("pos").into_iter().filter(|(id, _)| avatars.contains(id));
    all.map(|(id, value)| (id, rmp_serde::from_slice(&value).expect("x, y"))).collect()
}

#[tokio::test]
async fn two_players_see_each_other_move_and_get_the_chest() {
    let mut home = Home::new().rewards(CHEST);
    let server = home.start();
    let mut ada = Player::join(&server.ws, "arena", "meet").await;
    let mut bob = Player::join(&server.ws, "arena", "meet").await;
    ada.until("two avatars", |p| positions(p).len() == 2).await;
    let before = positions(&bob);
    ada.send("steer", &steer(100, 0)).await;
    bob.until("a move", |p| positions(p) != before).await;
    ada.until("its input applied", |p| p.applied == 1).await;
    for player in [&mut ada, &mut bob] {
        player.until("the chest", |p| !p.grants.is_empty()).await;
        assert_eq!(player.grants[0].source, "chest");
        assert_eq!(player.grants[0].grants, [("gold".to_owned(), 25)]);
    }
    assert_eq!(ada.number(Space::Message, "steer"), bob.number(Space::Message, "steer"));
}

#[tokio::test]
async fn kill_9_loses_no_input_no_seat_and_no_grant() {
    let mut home = Home::new().rewards(CHEST);
    let mut server = home.start();
    let mut ada = Player::join(&server.ws, "arena", "keep").await;
    let seat = ada.joined.as_ref().expect("joined").seat;
    let mut sent = 0;
    for round in 0..3 {
        for n in 0..20_i8 {
            ada.send("steer", &steer(n, -n)).await;
            sent += 1;
        }
        // Once with everything applied and nothing saved, once in the middle of it all.
        if round % 2 == 0 {
            ada.until("inputs applied", |p| p.applied == sent).await;
        }
        if round == 1 {
            ada.until("a grant", |p| !p.grants.is_empty()).await;
        }
        server.kill();
        server = home.start();
        ada = ada.resume(&server.ws).await;
        assert_eq!(ada.joined.as_ref().expect("joined").seat, seat, "the seat is its own again");
        ada.until("every input applied once", |p| p.applied == sent && inputs(p) == Some(sent)).await;
    }
    // A crash may show a grant again, since the room had not yet stored that it was told; the ledger has it once.
    let shown: std::collections::BTreeSet<u64> = ada.grants.iter().filter_map(|grant| grant.scheduled_for).collect();
    assert!(!shown.is_empty());
    let (status, body) = get(&format!("{}/admin/ledger?player={}", server.admin.trim_end_matches('/'), ada.id));
    assert_eq!(status, 200, "{body}");
    let ledger: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let entries = ledger["lines"].as_array().expect("lines");
    let ids: std::collections::BTreeSet<&str> = entries.iter().filter_map(|e| e["id"].as_str()).collect();
    assert_eq!(ids.len(), entries.len(), "an identity twice: {body}");
    let paid = |ms: &u64| ids.iter().any(|id| id.starts_with(&format!("schedule/chest/{ms}")));
    assert!(shown.iter().all(paid), "shown {shown:?}, the ledger has {body}");
}

#[derive(Debug, serde::Deserialize)]
struct Bought {
    item: String,
    gold: i64,
}

#[tokio::test]
async fn a_purchase_is_paid_once_and_outlives_kill_9() {
    let mut home = Home::new().rewards(CHEST);
    let server = home.start();
    let mut ada = Player::join(&server.ws, "arena", "shop").await;
    let hat = rmp_serde::to_vec(&("hat",)).expect("encode");
    let (code, text) = ada.request("buy", &hat).await.expect_err("nothing to pay with");
    assert!(text.contains("not enough gold"), "{code}: {text}");
    ada.until("two chests", |p| p.grants.iter().filter(|g| g.source == "chest").count() >= 2).await;
    let bought: Bought = rmp_serde::from_slice(&ada.request("buy", &hat).await.expect("paid")).expect("an answer");
    assert_eq!(bought.item, "hat");
    server.kill();
    let server = home.start();
    let ada = ada.resume(&server.ws).await;
    let args = ["ledger", "show", &ada.id, "--json", "--ready-file", "ready.json"];
    let (exit, out, err) = run(&args, home.dir.path());
    assert_eq!(exit, Some(0), "{err}");
    let ledger: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let lines = ledger["lines"].as_array().expect("lines");
    let charges = lines.iter().filter(|line| line["given"]["gold"].as_i64() == Some(-30)).count();
    assert_eq!(charges, 1, "{out}");
    assert!(bought.gold >= 20, "two chests less a hat: {bought:?}");
}

#[tokio::test]
async fn sigterm_saves_everything_and_exits_0() {
    // No periodic checkpoint comes in time to help.
    let mut home = Home::new().set("room.checkpoint_every=14s");
    let server = home.start();
    let mut ada = Player::join(&server.ws, "arena", "stop").await;
    for _ in 0..10 {
        ada.send("steer", &steer(100, 0)).await;
    }
    ada.until("inputs applied", |p| p.applied == 10).await;
    let status = tokio::task::spawn_blocking(move || server.terminate());
    assert_eq!(ada.closed().await, Some(1012), "a planned stop says: restart");
    assert_eq!(status.await.expect("join").code(), Some(0), "{}", home.log());
    let server = home.start();
    let mut ada = ada.resume(&server.ws).await;
    assert_eq!(ada.joined.as_ref().expect("joined").owed.0, 11, "all ten were in the last checkpoint");
    ada.until("the counter", |p| inputs(p) == Some(10)).await;
}

#[tokio::test]
async fn players_meet_by_what_they_ask_for_and_rooms_are_listed() {
    let mut home = Home::new().set("daemons.regions=[\"local\"]");
    let server = home.start();
    let mode = |of: &str| Filter::from_iter([("mode".to_owned(), Scalar::Text(of.to_owned()))]).encode();
    let room = |player: &Player| player.joined.as_ref().expect("joined").room.to_string();
    let mut ada = Player::seek(&server.ws, "skirmish", &mode("duel")).await;
    let bob = Player::seek(&server.ws, "skirmish", &mode("duel")).await;
    let eve = Player::seek(&server.ws, "skirmish", &mode("team")).await;
    assert!(room(&ada) == room(&bob) && room(&ada) != room(&eve), "{} {} {}", room(&ada), room(&bob), room(&eve));
    let (duel, mut both) = (vec![(room(&ada), 2)], vec![(room(&ada), 2), (room(&eve), 1)]);
    both.sort();
    // What a room says of itself is there a moment later.
    let start = std::time::Instant::now();
    loop {
        let (one, all) = (ada.rooms(&mode("duel")).await, ada.rooms(&[]).await);
        if (&one, &all) == (&duel, &both) {
            break;
        }
        assert!(start.elapsed() < std::time::Duration::from_secs(30), "{one:?} {all:?}");
        tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    }
}

#[tokio::test]
async fn a_second_process_on_the_same_folder_is_refused() {
    let mut home = Home::new();
    let server = home.start();
    let data = format!("store.path={}", home.data().display());
    let args = ["serve", "--set", &data, "--set", "gateway.listen=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0"];
    let (code, _, err) = run(&[&args[..], &["--set", "store.lock_wait=0ms"]].concat(), home.dir.path());
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains(&server.pid().to_string()), "the message names the holder: {err}");
    assert!(err.contains("data"), "and the folder: {err}");
}

#[tokio::test]
async fn pages_and_probes_answer() {
    let mut home = Home::new();
    let server = home.start();
    let (status, page) = get(&server.play);
    assert_eq!(status, 200);
    assert!(page.contains("<canvas") || page.contains("<script"), "{page}");
    let admin = server.admin.trim_end_matches('/');
    assert_eq!(get(&format!("{admin}/live")).0, 200);
    assert_eq!(get(&format!("{admin}/ready")).0, 200);
    assert!(get(&format!("{admin}/metrics")).1.contains("tenure_"));
}
