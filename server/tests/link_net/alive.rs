//! Silence: a peer that is gone without a word is found in time, one that has nothing to say is kept.

use std::{io, sync::Arc, time::Duration};

use tenure::{
    link::{
        Dial as _,
        net::{Common, Dialer, Peer, Site, client, serve},
    },
    runtime::{mailbox::Refused, net::Connector, tasks::Kind},
};
use tokio::io::DuplexStream;

use crate::{
    raw::{GATEWAY, NODE, Raw},
    support::{FakeGateway, FakeNode, common, input, manual, pipe, room, settle, until},
};

#[tokio::test]
async fn an_idle_link_lives() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let (far, hand) = manual("node");
    let near = Common { clock: far.clock.clone(), ..common("gateway") };
    let uplink = pipe(near, far, &node, &gateway, 4_096);
    until("linked", || node.links() == 1).await;
    for _ in 0..240 {
        hand.advance(Duration::from_millis(250));
        settle().await;
    }
    assert_eq!((node.dropped(), gateway.broken().len()), (0, 0));
    uplink.send(input(&room("a"), 1)).expect("after a silent minute");
    until("it comes", || node.inputs(&room("a")) == [1]).await;
}

#[tokio::test]
async fn a_silent_gateway_is_found_and_a_pinging_one_is_not() {
    let node = FakeNode::default();
    let (common, hand) = manual("node");
    let idle = common.limits.idle_timeout;
    let (near, far) = tokio::io::duplex(4_096);
    let (tasks, of) = (common.tasks.clone(), node.clone());
    let site = Site::of_node(common);
    tasks.spawn("node", Kind::Job, async move { serve(&site, far, Peer::local("gateway"), &of).await });
    let mut raw = Raw(near);
    raw.greet(GATEWAY).await;
    until("linked", || node.links() == 1).await;
    for _ in 0..10 {
        hand.advance(idle - Duration::from_millis(1));
        settle().await;
        assert_eq!(node.dropped(), 0);
        raw.send(&[0x91, 0]).await;
        settle().await;
    }
    hand.advance(idle - Duration::from_millis(1));
    settle().await;
    assert_eq!(node.dropped(), 0);
    hand.advance(Duration::from_millis(1));
    until("its seats are let go", || node.dropped() == 1).await;
}

#[tokio::test]
async fn a_silent_node_is_found_once() {
    let gateway = FakeGateway::default();
    let (common, hand) = manual("gateway");
    let (idle, handshake) = (common.limits.idle_timeout, common.limits.handshake_time);
    let (near, far) = tokio::io::duplex(4_096);
    let uplink = client(&Site::of_gateway(common), near, &Peer::local("node"), Arc::new(gateway.clone()));
    let mut raw = Raw(far);
    raw.greet(NODE).await;
    until("linked", || uplink.send(input(&room("a"), 1)).is_ok()).await;
    hand.advance(idle - Duration::from_millis(1));
    settle().await;
    assert!(gateway.broken().is_empty());
    hand.advance(Duration::from_millis(1));
    until("the gateway is told", || !gateway.broken().is_empty()).await;
    assert!(matches!(uplink.send(input(&room("a"), 2)), Err(Refused::Closed(_))));
    hand.advance(2 * idle + handshake);
    settle().await;
    assert_eq!(gateway.broken(), ["nothing was heard of the peer for 3s"]);
}

#[tokio::test]
async fn a_handshake_has_its_time_on_both_sides() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let (common, hand) = manual("both");
    let time = common.limits.handshake_time;
    let (near, far) = tokio::io::duplex(4_096);
    let uplink = client(&Site::of_gateway(common.clone()), near, &Peer::local("node"), Arc::new(gateway.clone()));
    let (near2, far2) = tokio::io::duplex(4_096);
    let (site, of) = (Site::of_node(common.clone()), node.clone());
    common.tasks.spawn("node", Kind::Job, async move { serve(&site, far2, Peer::local("x"), &of).await });
    settle().await;
    assert!(matches!(uplink.send(input(&room("a"), 1)), Err(Refused::Full(_))), "not open yet");
    hand.advance(time - Duration::from_millis(1));
    settle().await;
    assert!(gateway.broken().is_empty());
    hand.advance(Duration::from_millis(1));
    until("the gateway is told", || gateway.broken() == ["no handshake in time"]).await;
    assert!(matches!(uplink.send(input(&room("a"), 1)), Err(Refused::Closed(_))));
    let mut raw = Raw(near2);
    raw.receive().await.expect("its hello");
    raw.expect_end().await;
    assert_eq!(node.links(), 0);
    drop(far);
}

/// Never connects, as when packets are dropped on the way.
struct Nowhere;

impl Connector for Nowhere {
    type Stream = DuplexStream;

    async fn connect(&self, _address: &str) -> io::Result<(DuplexStream, bool)> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_connect_has_its_time_too() {
    let gateway = FakeGateway::default();
    let (common, hand) = manual("gateway");
    let time = common.limits.handshake_time;
    let dialer = Dialer::with("here:1".into(), None, common, Nowhere);
    let uplink = dialer.dial(&"there:1".into(), Arc::new(gateway.clone()));
    settle().await;
    assert!(matches!(uplink.send(input(&room("a"), 1)), Err(Refused::Full(_))));
    hand.advance(time);
    until("the gateway is told", || gateway.broken() == ["no handshake in time"]).await;
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_found_while_nothing_it_said_can_be_handled() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let (near, hand) = manual("gateway");
    // Its time stands still: it never pings.
    let (far, _still) = manual("node");
    let idle = near.limits.idle_timeout;
    let _uplink = pipe(near, far, &node, &gateway, 4_096);
    until("linked", || node.links() == 1).await;
    gateway.0.lock().full = true;
    for tick in 1..=3 {
        node.down().send(crate::support::frame(&room("a"), tick, 100)).expect("within the bound");
    }
    settle().await;
    for _ in 0..8 {
        hand.advance(idle / 4);
        settle().await;
    }
    until("it is found", || gateway.broken().len() == 1).await;
    assert!(gateway.broken()[0].contains("nothing was heard"), "{:?}", gateway.broken());
}
