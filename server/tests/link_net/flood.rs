//! A gateway that does not read: what waits for it is bounded, frames are refused first, and in the end its link.

use std::time::Duration;

use tenure::{
    link::{ConnId, Downlink, ToGateway},
    runtime::mailbox::Refused,
};

use crate::support::{FakeGateway, FakeNode, common, frame, manual, pipe, room, settle, until};

const FRAME: usize = 2_000;
const SOFT: usize = 64 * 1_024;
const HARD: usize = 128 * 1_024;
const PIPE: usize = 4_096;

/// Sends what `make` makes until it is refused; gives how many were taken.
async fn fill(down: &dyn Downlink, mut make: impl FnMut(u64) -> ToGateway) -> u64 {
    let (mut taken, mut still) = (0, 0);
    while still < 300 {
        match down.send(make(taken + 1)) {
            Ok(()) => (taken, still) = (taken + 1, 0),
            Err(Refused::Full(_)) => still += 1,
            Err(Refused::Closed(_)) => panic!("closed"),
        }
        tokio::task::yield_now().await;
    }
    taken
}

#[tokio::test]
async fn frames_are_refused_first_and_everything_at_the_bound() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let a = room("a");
    let mut far = common("node");
    (far.limits.frame_bytes, far.limits.down_bytes) = (SOFT, HARD);
    let mut near = common("gateway");
    near.limits.read_ahead = 1;
    let _uplink = pipe(near, far, &node, &gateway, PIPE);
    until("linked", || node.links() == 1).await;
    let down = node.down();
    gateway.0.lock().full = true;
    let frames = fill(&*down, |tick| frame(&a, tick, FRAME)).await;
    // In the queue, in the pipe, and what the gateway's end has read ahead.
    let most = (SOFT + PIPE + 64 * 1_024) / FRAME + 2;
    assert!(frames as usize >= SOFT / (FRAME + 300) && frames as usize <= most, "{frames}");
    let left = |n| ToGateway::Left { conn: ConnId(n) };
    down.send(left(0)).expect("answers still pass");
    let others = fill(&*down, left).await;
    assert!(others as usize * 128 <= HARD - SOFT + FRAME && others > 300, "{others}");
    assert!(matches!(down.send(frame(&a, 1, 10)), Err(Refused::Full(_))));
    gateway.0.lock().full = false;
    until("all that was taken comes", || gateway.count() as u64 == frames + others + 1).await;
    assert!(gateway.ticks().iter().copied().eq(1..=frames));
    down.send(frame(&a, frames + 1, FRAME)).expect("there is room again");
    until("it goes on", || gateway.ticks().last() == Some(&(frames + 1))).await;
}

#[tokio::test]
async fn a_gateway_that_takes_nothing_for_long_is_let_go() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let a = room("a");
    let (far, hand) = manual("node");
    let near = tenure::link::net::Common { clock: far.clock.clone(), ..common("gateway") };
    let deaf = far.limits.deaf_time;
    let _uplink = pipe(near, far, &node, &gateway, PIPE);
    until("linked", || node.links() == 1).await;
    gateway.0.lock().full = true;
    // More than the pipe and one read hold.
    for tick in 1..=200 {
        node.down().send(frame(&a, tick, FRAME)).expect("within the bound");
    }
    settle().await;
    let step = Duration::from_millis(500);
    let steps = (deaf.as_millis() / step.as_millis()) as u32;
    for _ in 0..steps - 1 {
        hand.advance(step);
        settle().await;
    }
    assert_eq!((node.dropped(), gateway.broken().len()), (0, 0), "it is slow, but alive");
    for _ in 0..4 {
        hand.advance(step);
        settle().await;
    }
    assert_eq!(node.dropped(), 1);
    assert!(matches!(node.down().send(frame(&a, 1, 1)), Err(Refused::Closed(_))));
    gateway.0.lock().full = false;
    hand.advance(step);
    until("the gateway is told once", || gateway.broken().len() == 1).await;
}
