//! Rooms of a node that crashed, or was cut off: restored elsewhere, their seats taken again.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tenure::link::{Mode, ToGateway};
use tenure_shared::{
    Generation, Seq, Term, Tick,
    codes::{CloseCode, ErrorCode},
};

use crate::{
    harness::{SHARDS, World, attach, room},
    lab::Say,
    moves::{applied, hooks, world_without_checkpoints},
    player::{Answer, Player, answer, ask, frames, room_of},
    weather::Weather,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_is_taken_over_and_rolled_back_once() {
    let world = world_without_checkpoints();
    let a = world.named("a", &world.weather).await;
    let id = room_of(&a);
    let mut gateways = vec![a.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    let mut bob = Player::join(&world, &gateways, &id, "bob", 2);
    for n in 0..20 {
        ann.say(&gateways, Say::Keep(n));
        bob.say(&gateways, Say::Keep(100 + n));
    }
    world.until("it is applied and shown", || {
        applied(&world, &bob).len() == 20
            && bob.shown(&gateways).0 > (bob.socket.attached.term, Tick(bob.socket.attached.tick.0 + 3))
    });
    a.crash().await;
    let b = world.named("b", &Arc::default()).await;
    gateways.push(b.gateway());
    ann.follow(&world, &gateways);
    bob.follow(&world, &gateways);
    assert_eq!(ann.socket.attached.owed, Seq(1), "nothing of it was stored");
    assert_eq!((ann.rolled_back, bob.rolled_back), (1, 1), "each is told");
    world.until("the inputs are applied again", || {
        applied(&world, &ann) == (0..20).collect::<Vec<_>>() && applied(&world, &bob) == (100..120).collect::<Vec<_>>()
    });
    assert_ne!(bob.attached[0].seat, bob.attached[1].seat, "his join was not stored: he joined anew");
    // Whoever attaches once more has been told.
    ann.follow(&world, &gateways);
    assert_eq!(ann.rolled_back, 1);
    assert_eq!(hooks(&world), (0, 0));
    assert_eq!(world.view(&id).seats, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_still_names_the_former_seat_opens_the_new_one() {
    // The gateway's note that a takeover gave another seat was lost, and then the socket was.
    let world = world_without_checkpoints();
    let a = world.named("a", &world.weather).await;
    let id = room_of(&a);
    let mut gateways = vec![a.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    let mut bob = Player::join(&world, &gateways, &id, "bob", 2);
    world.until("they are shown", || bob.shown(&gateways).0 > (bob.socket.attached.term, bob.socket.attached.tick));
    a.crash().await;
    let b = world.named("b", &Arc::default()).await;
    gateways.push(b.gateway());
    ann.follow(&world, &gateways);
    bob.follow(&world, &gateways);
    let (former, now) = (bob.attached[0].seat, bob.attached[1].seat);
    assert_ne!(former, now, "his join was not stored: he joined anew");
    let gateway = b.gateway();
    let resume = tenure::link::Attach { seat: Some(former), ..attach(gateway.conn(), &id, "bob") };
    match ask(&gateway, resume) {
        // The room knows which seats its takeover forgot.
        Answer::Attached(attached) => assert_eq!(attached.seat, now),
        other => panic!("{other:?}"),
    }
    // What is seen of a room is of its last tick.
    world.until("two have seats", || world.view(&id).seats == 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seat_that_nobody_takes_again_goes_into_its_grace() {
    let mut world = World::new();
    world.config.idle_after = Duration::from_millis(100);
    let a = world.named("a", &world.weather).await;
    let id = room_of(&a);
    let gateways = vec![a.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    a.crash().await;
    let b = world.named("b", &Arc::default()).await;
    world.until("it is there", || b.host.status().rooms == 1);
    world.until("it ends after its grace", || world.outside.drops.load(Ordering::SeqCst) >= 1);
    world.until("and the room with it", || b.host.status().rooms == 0);
    // A machine that is slow enough for a lapse restores the room once more: then it is dropped once more.
    let (drops, reconnects) = hooks(&world);
    assert!(drops >= 1 && reconnects == 0, "{drops} drops, {reconnects} reconnects");
    // Too late: what it has not heard to be saved must not be applied to another seat.
    for rejoin in [true, false] {
        let late = tenure::link::Attach { rejoin, ..ann.rejoin(&gateways) };
        match ask(&b.gateway(), late) {
            Answer::Other(ToGateway::Refused { code: ErrorCode::ResumeFailed, .. }) => {}
            other => panic!("rejoin {rejoin}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seat_whose_end_was_forgotten_ends_again_and_takes_no_numbers_of_the_next_one() {
    for rejoin in [true, false] {
        let world = world_without_checkpoints();
        let a = world.named("a", &world.weather).await;
        let id = room_of(&a);
        let mut gateways = vec![a.gateway()];
        let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
        ann.say(&gateways, Say::Keep(1));
        ann.say(&gateways, Say::Later("x".into(), 3_600_000));
        ann.until_saved(&world, &gateways);
        // So that the room goes on.
        Player::join(&world, &gateways, &id, "bob", 2);
        world.until("both are there", || world.view(&id).seats == 2);
        gateways[0].leave(&ann.socket, ann.socket.attached.generation, true);
        world.until("her seat ends", || world.view(&id).seats == 1);
        let mut anew = Player::join(&world, &gateways, &id, "ann", 3);
        for n in [10, 11] {
            anew.say(&gateways, Say::Keep(n));
        }
        world.until("it is applied", || applied(&world, &anew) == [1, 10, 11]);
        a.crash().await;
        // Of all that the store has her first seat.
        let b = world.named("b", &Arc::default()).await;
        gateways.push(b.gateway());
        let attach = tenure::link::Attach { rejoin, ..anew.rejoin(&gateways) };
        let mut answer = None;
        world.until("the room is served again", || {
            answer = Some(ask(&gateways[1], attach.clone()));
            !matches!(answer, Some(Answer::NotOwner(_)))
        });
        let Some(Answer::Attached(attached)) = answer else { panic!("rejoin {rejoin}: {answer:?}") };
        assert_eq!(attached.owed, Seq(1), "what the former seat had is not taken for hers");
        // The same once more, as after a lost answer.
        anew.follow_to(&world, &gateways, 1..2);
        assert_eq!((anew.socket.attached.seat, anew.socket.attached.owed), (attached.seat, Seq(1)));
        world.until("nothing is lost", || applied(&world, &anew) == [1, 10, 11]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_woken_node_says_nothing_of_what_is_anothers() {
    let world = World::new();
    let weather = Arc::<Weather>::default();
    let a = world.named("a", &weather).await;
    let id = room_of(&a);
    let mut gateways = vec![a.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    ann.say(&gateways, Say::Keep(1));
    ann.until_saved(&world, &gateways);
    let b = world.named("b", &world.weather).await;
    gateways.push(b.gateway());
    world.until("they share", || a.ownership.shards().len() == 2 && b.ownership.shards().len() == 2);
    let id = if a.holds(&id) { id } else { room_of(&a) };
    let mut bob = Player::join(&world, &gateways, &id, "bob", 2);
    bob.say(&gateways, Say::Keep(2));
    bob.until_saved(&world, &gateways);
    // It is cut off from the store, longer than its lease.
    weather.down.store(true, Ordering::SeqCst);
    world.until("its rooms stand still", || {
        let stages = a.host.status().stages;
        stages.contains_key("frozen") && !stages.contains_key("running")
    });
    let heard = frames(&gateways[0], &id).len();
    // Kept, since it is open what becomes of the shard (F14).
    let conn = gateways[0].conn();
    let from = gateways[0].heard.said.lock().unwrap().len();
    gateways[0].ask_as(conn, &id, "eve", Mode::Join, None);
    let unloaded = (0..).map(|n| room(&format!("u{n}"))).find(|other| other.shard(SHARDS) == id.shard(SHARDS)).unwrap();
    let other = gateways[0].ask(&unloaded, "eve", Mode::JoinOrCreate);
    world.until("the other takes over", || b.holds(&id));
    bob.follow_to(&world, &gateways, 1..2);
    assert_eq!(frames(&gateways[0], &id).len(), heard, "not a frame without a lease (H1)");
    weather.down.store(false, Ordering::SeqCst);
    world.until("it hears that it was written off", || {
        let said = gateways[0].heard.said.lock().unwrap();
        said[from..].iter().any(|m| matches!(m, ToGateway::Moved { shard, .. } if *shard == id.shard(SHARDS)))
    });
    for conn in [conn, other] {
        match answer(&gateways[0], conn, 1, from) {
            Answer::NotOwner(term) => assert!(term >= bob.socket.attached.term, "it names who has it"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(frames(&gateways[0], &id).len(), heard, "nor afterwards");
    bob.say(&gateways, Say::Keep(3));
    bob.until_saved(&world, &gateways);
    assert_eq!(applied(&world, &bob), [2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_had_a_seat_is_let_in_again_while_there_is_one() {
    let world = world_without_checkpoints();
    let node = world.named("a", &world.weather).await;
    let gateways = vec![node.gateway()];
    let id = room("a");
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    ann.say(&gateways, Say::Lock);
    ann.say(&gateways, Say::Keep(1));
    world.until("it is locked", || applied(&world, &ann) == [1]);
    assert!(matches!(ask(&gateways[0], attach(gateways[0].conn(), &id, "bob")), Answer::Other(_)));
    let rejoin = |name: &str, generation, first, shown| {
        let conn = gateways[0].conn();
        let seat = Some(tenure_shared::SeatId(7));
        let known = attach(conn, &id, name);
        tenure::link::Attach { seat, rejoin: true, mode: Mode::Join, generation, first, shown, ..known }
    };
    let at = rejoin("bob", Generation(9), Seq(5), (Term(1), Tick(9)));
    let Answer::Attached(bob) = ask(&gateways[0], at) else { panic!("refused") };
    assert!(bob.rolled_back, "he was shown what nobody knows of");
    assert!(bob.generation > Generation(9));
    assert_eq!(bob.owed, Seq(5), "nobody has what came before: it goes on from there (F13)");
    for name in ["eve", "joe"] {
        assert!(matches!(
            ask(&gateways[0], rejoin(name, Generation(0), Seq(1), (Term(0), Tick(0)))),
            Answer::Attached(_)
        ));
    }
    match ask(&gateways[0], rejoin("max", Generation(0), Seq(1), (Term(0), Tick(0)))) {
        Answer::Other(ToGateway::Refused { code: ErrorCode::RoomFull, .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_was_superseded_does_not_come_back_with_its_room() {
    let world = World::new();
    let a = world.named("a", &world.weather).await;
    let id = room_of(&a);
    let mut gateways = vec![a.gateway()];
    let mut old = Player::join(&world, &gateways, &id, "ann", 1);
    let mut new = Player::join(&world, &gateways, &id, "ann", 2);
    new.say(&gateways, Say::Keep(1));
    new.until_saved(&world, &gateways);
    a.crash().await;
    let b = world.named("b", &Arc::default()).await;
    gateways.push(b.gateway());
    new.follow(&world, &gateways);
    // It never heard that it was superseded.
    let attach = old.rejoin(&gateways);
    match ask(&gateways[1], attach) {
        Answer::Other(ToGateway::Close { code: CloseCode::Superseded, .. }) => {}
        other => panic!("{other:?}"),
    }
    new.say(&gateways, Say::Keep(2));
    new.until_saved(&world, &gateways);
    assert_eq!(applied(&world, &new), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rooms_with_seats_go_on_at_once_and_dormant_ones_when_work_is_due() {
    let world = World::new();
    let a = world.named("a", &world.weather).await;
    let gateways = vec![a.gateway()];
    let mut ann = Player::join(&world, &gateways, &room("sleeps"), "ann", 1);
    ann.say(&gateways, Say::Later("x".into(), 2_500));
    ann.until_saved(&world, &gateways);
    Player::join(&world, &gateways, &room("plays"), "bob", 2);
    gateways[0].leave(&ann.socket, ann.socket.attached.generation, true);
    world.until("it is dormant", || a.host.status().rooms == 1);
    a.crash().await;
    let b = world.named("b", &Arc::default()).await;
    world.until("it knows both", || b.host.status().known == 2);
    world.until("one goes on by itself", || b.host.status().stages.get("running") == Some(&1));
    assert_eq!(b.host.status().list[0].room, room("plays"));
    assert!(world.view(&room("sleeps")).book.done.is_empty(), "never before due");
    world.until("work wakes the other", || world.view(&room("sleeps")).book.done == ["x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_makes_a_room_that_its_node_loses_may_try_again() {
    let world = World::new();
    let a = world.named("a", &world.weather).await;
    let b = world.named("b", &Arc::default()).await;
    world.until("they share", || a.ownership.shards().len() == 2 && b.ownership.shards().len() == 2);
    let (gateway, id) = (a.gateway(), room_of(&a));
    world.weather.hold_commits.store(true, Ordering::SeqCst);
    let conn = gateway.conn();
    gateway.ask_as(conn, &id, "ann", Mode::Create, None);
    world.until("it is being made", || a.host.status().rooms == 1);
    world.weather.no_heartbeats.store(true, Ordering::SeqCst);
    world.until("the other has all", || b.ownership.shards().len() == 4);
    for held in [&world.weather.no_heartbeats, &world.weather.hold_commits] {
        held.store(false, Ordering::SeqCst);
    }
    match answer(&gateway, conn, 1, 0) {
        Answer::Other(ToGateway::Refused { code, .. }) => assert_eq!(code, ErrorCode::MayRetry),
        other => panic!("sent on, the wish would be refused for the room that it may have made: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_that_ends_behind_the_lease_shows_nothing_until_the_shard_is_had_again() {
    let world = world_without_checkpoints();
    let node = world.named("a", &world.weather).await;
    let (gateways, id) = ([node.gateway()], room("a"));
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    ann.say(&gateways, Say::Hang);
    let mut shown = usize::MAX;
    world.until("the tick hangs", || {
        let before = std::mem::replace(&mut shown, frames(&gateways[0], &id).len());
        world.pass(Duration::from_millis(200));
        before == shown
    });
    world.weather.no_heartbeats.store(true, Ordering::SeqCst);
    world.until("the lease is over", || !node.ownership.holds(world.clock.now()));
    *world.outside.gate.0.lock().unwrap() = true;
    world.outside.gate.1.notify_all();
    world.until("the tick ends", || node.host.status().stages.contains_key("frozen"));
    world.pass(Duration::from_millis(100));
    assert_eq!(frames(&gateways[0], &id).len(), shown, "what it showed could have been another's already (H1)");
    world.weather.no_heartbeats.store(false, Ordering::SeqCst);
    world.until("it goes on", || frames(&gateways[0], &id).len() > shown + 1);
    assert!(frames(&gateways[0], &id).is_sorted(), "H7");
    ann.follow(&world, &gateways);
    assert_eq!(ann.rolled_back, 0);
}
