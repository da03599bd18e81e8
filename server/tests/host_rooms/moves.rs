//! Rooms that change nodes, or terms: given away, in doubt, moved at random. Nothing is lost or doubled, and no game hears of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure::link::{Mode, ToGateway, ToNode};
use tenure_shared::{Seq, Term};

use crate::{
    harness::{Gateway, Node, SHARDS, World, room},
    lab::Say,
    player::{Answer, Player, answer, frames, room_of},
    weather::Weather,
};

/// Nothing but first and last checkpoints: a rollback would be seen.
pub fn world_without_checkpoints() -> World {
    let mut world = World::new();
    world.config.checkpoint_every = Duration::from_secs(3_600);
    world
}

pub fn hooks(world: &World) -> (u64, u64) {
    (world.outside.drops.load(Ordering::SeqCst), world.outside.backs.load(Ordering::SeqCst))
}

/// What the room has of this player, in order.
pub fn applied(world: &World, player: &Player) -> Vec<u64> {
    world.view(&player.room).book.applied.get(&player.name).cloned().unwrap_or_default()
}

async fn drained(world: &World, node: &Node) {
    node.ownership.drain().await;
    world.until("it gave everything away", || node.ownership.shards().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_given_shard_goes_on_elsewhere_with_everything() {
    let world = world_without_checkpoints();
    let a = world.named("a", &world.weather).await;
    let id = room_of(&a);
    // Of another shard, which stays.
    let mut gateways = vec![a.gateway()];
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    let mut kept = Vec::new();
    let b = world.named("b", &Arc::default()).await;
    gateways.push(b.gateway());
    for n in 0..60 {
        kept.push(n);
        ann.say(&gateways, Say::Keep(n));
        world.pass(Duration::from_millis(2));
        if ann.is_moved(&gateways) {
            ann.follow(&world, &gateways);
        }
    }
    drained(&world, &a).await;
    world.until("its gateway hears of it", || ann.is_moved(&gateways) || ann.at == 1);
    if ann.at == 0 {
        ann.follow(&world, &gateways);
    }
    assert_eq!(ann.at, 1);
    for n in 60..70 {
        kept.push(n);
        ann.say(&gateways, Say::Keep(n));
    }
    world.until("everything is applied", || applied(&world, &ann) == kept);
    assert_eq!(ann.rolled_back, 0, "the last checkpoint had everything");
    assert_eq!(hooks(&world), (0, 0), "the game hears of no move (H12)");
    assert!(ann.attached.last().unwrap().generation > ann.attached[0].generation);
    assert!(ann.attached.last().unwrap().term > ann.attached[0].term);
    assert!(ann.attached.last().unwrap().owed > Seq(1), "what was applied is stored");
    // After the word that the shard went nothing of its term is heard.
    let said = gateways[0].heard.said.lock().unwrap();
    let shard = id.shard(SHARDS);
    let told = said.iter().position(|m| matches!(m, ToGateway::Moved { shard: of, .. } if *of == shard)).unwrap();
    let ToGateway::Moved { term, to, .. } = &said[told] else { unreachable!() };
    assert_eq!((*term, to.as_deref()), (ann.attached[0].term, Some("b")));
    let late = |m: &ToGateway| matches!(m, ToGateway::Frame(frame) if frame.room == id && frame.term <= *term);
    assert!(!said[told..].iter().any(late), "a frame after the word that the shard is gone");
    assert!(!said.iter().any(|m| matches!(m, ToGateway::Close { .. })), "no socket closes");
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_hear_of_a_move_when_the_next_owner_can_have_it_and_are_let_in_there() {
    let world = world_without_checkpoints();
    let a = world.named("a", &world.weather).await;
    let gateways = vec![a.gateway()];
    let ids: Vec<_> = (0..12).map(|n| room(&format!("r{n}"))).collect();
    let mut players: Vec<_> =
        ids.iter().enumerate().map(|(n, id)| Player::join(&world, &gateways, id, "ann", n as u64)).collect();
    world.weather.no_gives.store(true, Ordering::SeqCst);
    let b = world.named("b", &Arc::default()).await;
    let gateways = vec![gateways.into_iter().next().unwrap(), b.gateway()];
    world.until("something was given", || a.ownership.shards().len() < 4);
    // Heartbeats, and attempts that fail.
    world.pass(Duration::from_millis(500));
    assert!(players.iter().all(|player| !player.is_moved(&gateways)), "the store does not know it yet");
    world.weather.no_gives.store(false, Ordering::SeqCst);
    world
        .until("half of it moved", || b.ownership.shards().len() == 2 || players.iter().any(|p| p.is_moved(&gateways)));
    for player in &mut players {
        if b.ownership.fence(player.room.shard(SHARDS)).is_none() && !player.is_moved(&gateways) {
            continue;
        }
        world.until("it is told", || player.is_moved(&gateways));
        let from = gateways[1].heard.said.lock().unwrap().len();
        let attach = player.rejoin(&gateways);
        let (conn, attempt) = (attach.conn, attach.attempt);
        gateways[1].up.send(ToNode::Attach(attach)).expect("taken");
        assert!(matches!(answer(&gateways[1], conn, attempt, from), Answer::Attached(_)), "at the first attempt");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_with_a_full_queue_hears_of_a_move_also_when_the_shard_is_back() {
    let world = world_without_checkpoints();
    let a = world.named("a", &world.weather).await;
    let gateways = [a.gateway()];
    let before = a.ownership.shards();
    gateways[0].heard.deaf.store(true, Ordering::SeqCst);
    let b = world.named("b", &Arc::default()).await;
    world.until("they share", || a.ownership.shards().len() == 2 && b.ownership.shards().len() == 2);
    let moved = b.ownership.shards();
    assert!(b.stop().await.is_clean());
    world.until("it has all again", || a.ownership.shards() == before);
    world.until("they run here again", || a.host.status().shards == (4, 4));
    gateways[0].heard.deaf.store(false, Ordering::SeqCst);
    for shard in moved {
        world.until("it hears of it", || {
            let said = gateways[0].heard.said.lock().unwrap();
            said.iter().any(|m| matches!(m, ToGateway::Moved { shard: of, .. } if *of == shard))
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_shard_is_given_others_tick_and_joins_wait() {
    let world = world_without_checkpoints();
    let a = world.named("a", &world.weather).await;
    let gateways = vec![a.gateway()];
    let ids: Vec<_> = (0..40).map(|n| room(&format!("r{n}"))).collect();
    let players: Vec<_> =
        ids.iter().enumerate().map(|(n, id)| Player::join(&world, &gateways, id, "ann", n as u64)).collect();
    // Last checkpoints wait: what is given stands still, what stays ticks.
    world.weather.hold_commits.store(true, Ordering::SeqCst);
    let b = world.named("b", &Arc::default()).await;
    world.until("something is given", || !a.ownership.gives().is_empty());
    let given: Vec<_> = a.ownership.gives().into_iter().map(|(shard, _)| shard).collect();
    let (moves, stays): (Vec<_>, Vec<_>) = ids.iter().partition(|id| given.contains(&id.shard(SHARDS)));
    world.until("its rooms stand still", || a.host.status().stages.get("frozen") == Some(&moves.len()));
    let ticks = |ids: &[&tenure_shared::RoomId]| ids.iter().map(|id| world.view(id).tick).collect::<Vec<_>>();
    let (still, before) = (ticks(&moves), ticks(&stays));
    let conn = gateways[0].conn();
    let from = gateways[0].heard.said.lock().unwrap().len();
    gateways[0].ask_as(conn, moves[0], "bob", Mode::Join, None);
    // Whoever asks again and again has one place of those that wait.
    let eager = gateways[0].conn();
    (0..5_000).for_each(|_| gateways[0].ask_as(eager, moves[0], "eve", Mode::Join, None));
    world.until("others tick on", || ticks(&stays).iter().zip(&before).all(|(now, before)| *now > before + 5));
    assert_eq!(ticks(&moves), still, "a room that is given stands still");
    let asked = |m: &ToGateway| matches!(m, ToGateway::NotOwner { conn: of, .. } if *of == conn);
    assert!(!gateways[0].heard.said.lock().unwrap()[from..].iter().any(asked), "kept until it is decided");
    world.weather.hold_commits.store(false, Ordering::SeqCst);
    match answer(&gateways[0], conn, 1, from) {
        Answer::NotOwner(_) => {}
        other => panic!("{other:?}"),
    }
    world.until("it is the other's", || moves.iter().all(|id| b.holds(id)));
    world.until("it goes on there", || ticks(&moves).iter().zip(&still).all(|(now, before)| now > before));
    drop(players);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_cannot_be_stored_in_time_stays_and_goes_on() {
    let mut world = world_without_checkpoints();
    world.config.give_deadline = Duration::from_millis(300);
    let a = world.named("a", &world.weather).await;
    let mut gateways = vec![a.gateway()];
    let ids: Vec<_> = (0..12).map(|n| room(&format!("r{n}"))).collect();
    let mut players: Vec<_> =
        ids.iter().enumerate().map(|(n, id)| Player::join(&world, &gateways, id, "ann", n as u64)).collect();
    world.weather.hold_commits.store(true, Ordering::SeqCst);
    let b = world.named("b", &Arc::default()).await;
    gateways.push(b.gateway());
    world.until("something is given", || a.host.status().stages.contains_key("frozen"));
    let conn = gateways[0].conn();
    let moved = a.ownership.gives()[0].0;
    let of_moved = ids.iter().find(|id| id.shard(SHARDS) == moved).unwrap();
    let from = gateways[0].heard.said.lock().unwrap().len();
    gateways[0].ask_as(conn, of_moved, "bob", Mode::Join, None);
    world.until("they go on here (H5)", || !a.host.status().stages.contains_key("frozen"));
    assert!(matches!(answer(&gateways[0], conn, 1, from), Answer::Attached(_)), "who waited is let in");
    assert!(players.iter().all(|player| !player.is_moved(&gateways)), "nobody is told of anything");
    world.weather.hold_commits.store(false, Ordering::SeqCst);
    world.until("it is given in the end", || b.ownership.shards().len() == 2 && a.ownership.shards().len() == 2);
    for player in players.iter_mut().filter(|player| b.holds(&player.room)) {
        world.until("it is told", || player.is_moved(&gateways));
        player.follow(&world, &gateways);
        assert_eq!((player.at, player.rolled_back), (1, 0));
    }
    assert_eq!(hooks(&world), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_for_long_moves_nothing_and_rolls_nothing_back() {
    let world = world_without_checkpoints();
    let (wa, wb) = (Arc::<Weather>::default(), Arc::<Weather>::default());
    let (a, b) = (world.named("a", &wa).await, world.named("b", &wb).await);
    world.until("they share", || a.ownership.shards().len() == 2 && b.ownership.shards().len() == 2);
    let gateways = vec![a.gateway(), b.gateway()];
    let mut players = [
        Player::join(&world, &gateways, &room_of(&a), "ann", 1),
        Player::join(&world, &gateways, &room_of(&b), "bob", 2),
    ];
    for player in &mut players {
        (0..10).for_each(|n| player.say(&gateways, Say::Keep(n)));
    }
    world.until("it is applied", || players.iter().all(|p| applied(&world, p).len() == 10));
    let shards = (a.ownership.shards(), b.ownership.shards());
    for weather in [&wa, &wb] {
        weather.down.store(true, Ordering::SeqCst);
    }
    world.until("all stand still", || [&a, &b].iter().all(|node| node.host.status().stages.contains_key("frozen")));
    world.pass(Duration::from_millis(3_000));
    let eve = gateways[0].ask(&players[0].room, "eve", Mode::Join);
    for weather in [&wa, &wb] {
        weather.down.store(false, Ordering::SeqCst);
    }
    gateways[0].answer(eve).expect("what was asked meanwhile is answered (F14)");
    for player in &mut players {
        player.say(&gateways, Say::Keep(10));
    }
    world.until("both go on", || players.iter().all(|p| applied(&world, p) == (0..=10).collect::<Vec<_>>()));
    assert_eq!((a.ownership.shards(), b.ownership.shards()), shards, "no shard moves");
    for (gateway, player) in gateways.iter().zip(&players) {
        let said = gateway.heard.said.lock().unwrap();
        let news =
            |m: &ToGateway| matches!(m, ToGateway::Moved { .. } | ToGateway::Close { .. } | ToGateway::Restored { .. });
        assert!(!said.iter().any(news), "nothing is rolled back, no socket closes");
        drop(said);
        let frames = frames(gateway, &player.room);
        assert!(frames.is_sorted(), "H7");
        assert!(frames.last().unwrap().0 > player.socket.attached.term, "a thaw is a write: a new term (H2)");
    }
    // A resume after the thaw: all that was shown is in the world.
    players[0].follow(&world, &gateways);
    assert_eq!((players[0].at, players[0].rolled_back), (0, 0));
    assert_eq!(hooks(&world), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_term_that_somebody_saw_is_passed_before_anything_is_sent() {
    let world = world_without_checkpoints();
    let node = world.named("a", &world.weather).await;
    let gateways = vec![node.gateway()];
    let id = room("a");
    let mut ann = Player::join(&world, &gateways, &id, "ann", 1);
    ann.say(&gateways, Say::Keep(1));
    world.until("it is applied", || applied(&world, &ann) == [1]);
    let seen = Term(ann.socket.attached.term.0 + 1_000_000);
    gateways[0].up.send(ToNode::TermSeen { shard: id.shard(SHARDS), term: seen }).expect("taken");
    world.until("it is in doubt", || node.ownership.fence(id.shard(SHARDS)).is_none_or(|fence| fence.term() > seen));
    world.until("a frame under a higher term", || frames(&gateways[0], &id).last().is_some_and(|f| f.0 > seen));
    ann.say(&gateways, Say::Keep(2));
    world.until("it goes on from memory", || applied(&world, &ann) == [1, 2]);
    let frames = frames(&gateways[0], &id);
    assert!(frames.is_sorted());
    assert!(!gateways[0].heard.said.lock().unwrap().iter().any(|m| matches!(m, ToGateway::Moved { .. })));
}

/// What systems and observers counted.
fn news(world: &World, player: &Player) -> [u64; 5] {
    let book = world.view(&player.room).book;
    [book.started, book.added, book.observed, book.changed, book.seats]
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_moves_at_random_are_no_news_to_a_game() {
    let world = World::new();
    world.outside.more_grace.store(60, Ordering::SeqCst);
    let rng = tenure::runtime::Rng::seeded(12);
    let mut nodes: Vec<(usize, Node)> = Vec::new();
    let mut gateways: Vec<Gateway> = Vec::new();
    let add = async |nodes: &mut Vec<(usize, Node)>, gateways: &mut Vec<Gateway>| {
        let node = world.named(&format!("n{}", gateways.len()), &Arc::default()).await;
        gateways.push(node.gateway());
        nodes.push((gateways.len() - 1, node));
    };
    add(&mut nodes, &mut gateways).await;
    let names = ["r0", "r1", "r2", "r3"];
    let mut players: Vec<_> =
        (0..).zip(names).map(|(n, name)| Player::join(&world, &gateways, &room(name), "ann", n)).collect();
    let follow_all = |players: &mut Vec<Player>, gateways: &[Gateway]| {
        for player in players.iter_mut() {
            player.until_saved(&world, gateways);
        }
    };
    for player in &mut players {
        player.say(&gateways, Say::Keep(0));
    }
    follow_all(&mut players, &gateways);
    let before: Vec<_> = players.iter().map(|player| news(&world, player)).collect();
    let (mut moves, mut kept, mut crashes) = (0, vec![0], 0);
    while moves < 20 {
        let owners: Vec<_> = players.iter().map(|player| player.socket.attached.term).collect();
        kept.push(kept.len() as u64);
        if nodes.len() < 3 {
            add(&mut nodes, &mut gateways).await;
        }
        let (_, node) = nodes.remove(rng.below(2) as usize);
        let (crash, mut drained) = (rng.below(3) == 0, None);
        for player in &mut players {
            player.say(&gateways, Say::Keep(*kept.last().unwrap()));
        }
        if crash {
            crashes += 1;
            node.crash().await;
        } else {
            node.ownership.drain().await;
            drained = Some(node);
        }
        // All at once, as gateways do: the game waits five seconds for each.
        let settled = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for player in &mut players {
                let (world, gateways, settled) = (&world, &gateways, &settled);
                scope.spawn(move || {
                    // Where it was may be dead and say nothing.
                    player.follow(world, gateways);
                    loop {
                        let last = settled.load(Ordering::SeqCst);
                        player.until_saved(world, gateways);
                        if last && !player.is_moved(gateways) {
                            return;
                        }
                        world.pass(Duration::from_millis(2));
                    }
                });
            }
            let given = || drained.as_ref().is_none_or(|node: &Node| node.ownership.shards().is_empty());
            world.until("it gave everything away", given);
            settled.store(true, Ordering::SeqCst);
        });
        if let Some(node) = drained.take() {
            assert!(node.stop().await.is_clean());
        }
        moves += players.iter().zip(&owners).filter(|(player, term)| player.socket.attached.term > **term).count();
    }
    assert!(crashes > 0 && moves >= 20);
    for (player, before) in players.iter().zip(&before) {
        assert_eq!(applied(&world, player), kept, "each exactly once, in order (H4)");
        assert_eq!(news(&world, player), *before, "no effect of a system or an observer happens again (H12)");
    }
    assert_eq!(hooks(&world), (0, 0), "nobody was ever gone");
}
