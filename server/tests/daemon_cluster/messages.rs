//! Messages: taken once, answered, held while a daemon moves, or refused with a reason. Never lost without a word.

use std::time::Duration;

use tenure::daemon::{DEADLINE, Refused};

use crate::{
    counter::{Counter, Order, Records},
    world::World,
};

fn some(records: &Records) -> Vec<tenure::daemon::ShardedDaemonProcess> {
    vec![records.counters("work", 7).mailbox(4)]
}

#[tokio::test]
async fn every_node_reaches_every_daemon() {
    let mut world = World::with(&["a", "b", "c"], some).await;
    let terms = world.terms("work");
    for from in 0..3 {
        for index in 0..7 {
            let daemons = world.nodes[from].daemons.clone();
            let ask = async move { daemons.ask::<Counter>("work", index, &Order::Report, DEADLINE).await };
            let report = world.during(ask).await.expect("an answer");
            assert_eq!((report.index, report.term, report.count), (index, terms[&index].0, 7));
        }
        let daemons = world.nodes[from].daemons.clone();
        let all = world.during(async move { daemons.broadcast::<Counter>("work", &Order::Report).await }).await;
        assert_eq!(all, vec![Ok(()); 7]);
    }
    assert_eq!(world.records.handled().len(), 3 * 14, "each was handled once");
    let daemons = world.nodes[0].daemons.clone();
    let pass = async move { daemons.ask::<Counter>("work", 0, &Order::Pass(5), DEADLINE).await };
    assert_eq!(world.during(pass).await.expect("passed on").index, 5, "daemons speak to daemons");
}

#[tokio::test]
async fn what_cannot_be_delivered_is_refused_with_a_reason() {
    let mut world = World::with(&["a", "b"], some).await;
    let daemons = world.nodes[0].daemons.clone();
    let ask = |name: &'static str, index, order: Order| {
        let daemons = daemons.clone();
        async move { daemons.ask::<Counter>(name, index, &order, Duration::from_secs(1)).await.map(|report| report.index) }
    };
    assert!(matches!(world.during(ask("moon", 0, Order::Report)).await, Err(Refused::Unknown(..))));
    assert!(matches!(world.during(ask("work", 7, Order::Report)).await, Err(Refused::Unknown(..))));
    // Busy with one, four wait: the next is refused, and those that gave up waiting are not handled afterwards.
    let here = *world.nodes[0].running("work").keys().next().expect("one runs here");
    let before = world.records.handled().len();
    let work: Vec<_> = (0..6).map(|_| tokio::spawn(ask("work", here, Order::Work(10_000)))).collect();
    world.turns().await;
    world.run(Duration::from_secs(20)).await;
    let mut answers = Vec::new();
    for one in work {
        answers.push(one.await.expect("no panic"));
    }
    answers.sort_by_key(|answer| format!("{answer:?}"));
    assert_eq!(answers, [vec![Err(Refused::Busy); 5], vec![Err(Refused::Unanswered)]].concat());
    assert!(Refused::Busy.may_retry() && !Refused::Unanswered.may_retry());
    assert_eq!(world.records.handled().len(), before + 1, "what was refused was not handled");
}

#[tokio::test]
async fn messages_to_one_that_moves_are_held_and_handled_once() {
    let mut world = World::with(&["a", "b", "c"], some).await;
    let before = world.records.handled().len();
    // The one that has three of the seven: another may have that many as well.
    let at = world.nodes.iter().position(|node| node.running("work").len() == 3).expect("one has three");
    let index = *world.nodes[at].running("work").keys().next().expect("three");
    let (host, other) = (world.nodes[at].name.clone(), world.nodes[(at + 1) % 3].name.clone());
    let mut sent = Vec::new();
    for round in 0..20_u64 {
        for node in 0..3 {
            let daemons = world.nodes[node].daemons.clone();
            sent.push(tokio::spawn(
                async move { daemons.ask::<Counter>("work", index, &Order::Report, DEADLINE).await },
            ));
        }
        if round == 5 {
            assert!(world.nodes[at].daemons.hand_over("work", index, &other).await);
        }
        world.run(Duration::from_millis(100)).await;
    }
    world.run(DEADLINE).await;
    for one in sent {
        one.await.expect("no panic").expect("held, and answered");
    }
    assert_eq!(world.records.handled().len(), before + 60, "each was handled once");
    assert!(!world.node(&host).running("work").contains_key(&index) && world.count("work") == 7);

    // Its host is killed: who waits for an answer is told that there is none, who comes later is held.
    let before = world.records.handled().len();
    let daemons = world.node(&host).daemons.clone();
    let busy = tokio::spawn({
        let daemons = daemons.clone();
        async move { daemons.ask::<Counter>("work", index, &Order::Work(60_000), Duration::from_secs(30)).await }
    });
    world.run(Duration::from_millis(200)).await;
    world.kill(&other);
    let late = tokio::spawn(async move { daemons.ask::<Counter>("work", index, &Order::Report, DEADLINE).await });
    world.run(DEADLINE + Duration::from_secs(1)).await;
    assert_eq!(busy.await.expect("no panic"), Err(Refused::Unanswered), "it may have been handled");
    assert_eq!(late.await.expect("no panic").expect("held").index, index);
    assert_eq!(world.records.handled().len(), before + 2);
}
