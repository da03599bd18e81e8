//! How links end: each end is told once, and what was said before an orderly end still arrives.

use std::sync::Arc;

use tenure::{
    link::{
        Dial as _, ToNode,
        net::{Common, Dialer},
    },
    runtime::{Shutdown, Tasks, mailbox::Refused},
};
use tenure_shared::{Generation, SeatId};

use crate::support::{FakeGateway, FakeNode, common, frame, input, insist, listener, pipe, room, settle, soon, until};

#[tokio::test]
async fn a_dropped_uplink_ends_the_link_behind_what_was_said() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let address = listener(&node, common("node")).await;
    let dialer = Dialer::new("here:1".into(), None, common("gateway"));
    let uplink = dialer.dial(&address, Arc::new(gateway.clone()));
    let a = room("a");
    for n in 1..=500 {
        insist(&*uplink, input(&a, n)).await;
    }
    let detach = ToNode::Detach { room: a.clone(), seat: SeatId(1), generation: Generation(1), consented: true };
    insist(&*uplink, detach.clone()).await;
    drop(uplink);
    until("the node lets its seats go", || node.dropped() == 1).await;
    assert_eq!(node.0.lock().got.len(), 501);
    assert_eq!(node.0.lock().got.last(), Some(&detach));
    assert!(matches!(node.down().send(frame(&a, 1, 1)), Err(Refused::Closed(_))));
    settle().await;
    assert!(gateway.broken().is_empty(), "who dropped it knows");
}

#[tokio::test]
async fn a_node_that_stops_says_what_it_had_to_say_and_the_gateway_is_told_once() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let a = room("a");
    let tasks = Tasks::new(Shutdown::new());
    let address = listener(&node, Common { tasks: tasks.clone(), ..common("node") }).await;
    let dialer = Dialer::new("here:1".into(), None, common("gateway"));
    let uplink = dialer.dial(&address, Arc::new(gateway.clone()));
    until("linked", || node.links() == 1).await;
    for tick in 1..=100 {
        node.down().send(frame(&a, tick, 500)).expect("within the bound");
    }
    tasks.shutdown().stop();
    until("the gateway is told", || !gateway.broken().is_empty()).await;
    assert_eq!(gateway.ticks().len(), 100);
    assert!(matches!(uplink.send(input(&a, 1)), Err(Refused::Closed(_))));
    assert!(soon(tasks.wait(std::time::Duration::from_secs(10))).await, "its tasks end");
    assert_eq!((node.dropped(), gateway.broken()), (1, vec!["the peer closed the stream".to_owned()]));
    // The port is closed: the next link is broken at once, and once.
    let again = FakeGateway::default();
    let uplink = dialer.dial(&address, Arc::new(again.clone()));
    until("refused", || again.broken().len() == 1).await;
    assert!(matches!(uplink.send(input(&a, 1)), Err(Refused::Closed(_))));
}

#[tokio::test]
async fn a_gateway_process_that_stops_is_noticed() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let near = common("gateway");
    let tasks = near.tasks.clone();
    let uplink = pipe(near, common("node"), &node, &gateway, 4_096);
    insist(&*uplink, input(&room("a"), 1)).await;
    until("linked", || node.links() == 1).await;
    tasks.shutdown().stop();
    until("the node lets its seats go", || node.dropped() == 1).await;
    until("its own end is told", || gateway.broken() == ["this process is stopping"]).await;
}

#[tokio::test]
async fn the_own_address_needs_no_stream() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let dialer = Dialer::new("here:1".into(), Some(Arc::new(node.clone())), common("both"));
    let uplink = dialer.dial(&"here:1".into(), Arc::new(gateway.clone()));
    uplink.send(input(&room("a"), 1)).expect("at once");
    node.down().send(frame(&room("a"), 1, 10)).expect("at once");
    assert_eq!((node.inputs(&room("a")), gateway.ticks()), (vec![1], vec![1]));
    drop(uplink);
    assert_eq!(node.dropped(), 1);
}

#[tokio::test]
async fn a_room_host_that_ends_ends_its_links_behind_what_it_said() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let a = room("a");
    let uplink = pipe(common("gateway"), common("node"), &node, &gateway, 700);
    until("linked", || node.links() == 1).await;
    for tick in 1..=50 {
        node.down().send(frame(&a, tick, 100)).expect("within the bound");
    }
    node.down().broken("the node has ended");
    assert!(matches!(node.down().send(frame(&a, 51, 100)), Err(Refused::Closed(_))));
    until("both ends are told", || node.dropped() == 1 && gateway.broken().len() == 1).await;
    assert!(gateway.ticks().iter().copied().eq(1..=50));
    assert!(matches!(uplink.send(input(&a, 1)), Err(Refused::Closed(_))));
}
