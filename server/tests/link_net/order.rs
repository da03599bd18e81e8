//! Messages arrive in order, whatever waits.

use std::sync::Arc;

use tenure::{
    link::{
        Attach, ConnId, Dial as _, GatewayId, Mode, ToGateway, ToNode, Uplink,
        net::{Common, Dialer},
    },
    runtime::mailbox::Refused,
};
use tenure_shared::{Generation, PlayerId, SeatId, Seq, Term, Tick, codes::ErrorCode};

use crate::support::{
    FakeGateway, FakeNode, SECRET, common, frame, input, insist, listener, pipe, room, secret, until,
};

const MANY: u64 = 10_000;

async fn many_both_ways(uplink: Arc<dyn Uplink>, node: &FakeNode, gateway: &FakeGateway) {
    let (a, b) = (room("a"), room("b"));
    insist(&*uplink, input(&a, 1)).await;
    until("linked", || node.links() == 1).await;
    let down = node.down();
    for n in 2..=MANY {
        insist(&*uplink, input(&a, n)).await;
        let mut message = Some(frame(&b, n, (n % 50) as usize * 60));
        until("the node's queue takes it", || match down.send(message.take().expect("given back")) {
            Ok(()) => true,
            Err(Refused::Full(back)) => {
                message = Some(back);
                false
            }
            Err(Refused::Closed(_)) => panic!("closed"),
        })
        .await;
    }
    until("all has come", || node.0.lock().got.len() as u64 == MANY && gateway.count() as u64 == MANY - 1).await;
    assert!(node.inputs(&a).iter().copied().eq(1..=MANY));
    assert!(gateway.ticks().iter().copied().eq(2..=MANY));
    assert!(gateway.0.lock().got.iter().zip(2_u64..).all(|(got, n)| *got == frame(&b, n, (n % 50) as usize * 60)));
}

#[tokio::test]
async fn ten_thousand_messages_each_way_over_tcp() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let with = |name| Common { secret: secret(SECRET), ..common(name) };
    let address = listener(&node, with("node")).await;
    let dialer = Dialer::new("here:1".into(), None, with("gateway"));
    many_both_ways(dialer.dial(&address, Arc::new(gateway.clone())), &node, &gateway).await;
}

#[tokio::test]
async fn ten_thousand_messages_each_way_through_a_narrow_pipe() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let uplink = pipe(common("gateway"), common("node"), &node, &gateway, 700);
    many_both_ways(uplink, &node, &gateway).await;
}

#[tokio::test]
async fn a_full_room_waits_in_order_and_others_go_on() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let (a, b) = (room("a"), room("b"));
    node.0.lock().full.insert(a.clone());
    let uplink = pipe(common("gateway"), common("node"), &node, &gateway, 4_096);
    for n in 1..=100 {
        insist(&*uplink, input(&a, n)).await;
        insist(&*uplink, input(&b, n)).await;
        if n == 50 {
            let detach =
                ToNode::Detach { room: a.clone(), seat: SeatId(1), generation: Generation(2), consented: true };
            insist(&*uplink, detach).await;
        }
    }
    until("the other room has all", || node.inputs(&b).len() == 100).await;
    assert!(node.inputs(&a).is_empty() && node.0.lock().got.len() == 100, "nothing of the full room overtakes");
    node.0.lock().full.clear();
    until("it comes when there is room", || node.0.lock().got.len() == 201).await;
    assert!(node.inputs(&a).iter().copied().eq(1..=100));
    let got = node.0.lock().got.clone();
    let of_a: Vec<_> = got.iter().filter(|m| !matches!(m, ToNode::Input(input) if input.room == b)).collect();
    assert!(matches!(of_a[50], ToNode::Detach { .. }), "behind what was sent before it: {:?}", of_a[50]);
}

/// What a gateway has heard of seats that are to be attached again.
fn gone(gateway: &FakeGateway) -> Vec<ToGateway> {
    gateway.0.lock().got.iter().filter(|m| matches!(m, ToGateway::Gone { .. })).cloned().collect()
}

fn under(room: &tenure_shared::RoomId, generation: u32, seq: u64) -> ToNode {
    match input(room, seq) {
        ToNode::Input(input) => ToNode::Input(tenure::link::Input { generation: Generation(generation), ..input }),
        other => other,
    }
}

#[tokio::test]
async fn a_room_that_stands_still_stops_no_other_and_its_seats_come_again() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let (a, b) = (room("a"), room("b"));
    node.0.lock().full.insert(a.clone());
    let mut far = common("node");
    (far.limits.room_parked_bytes, far.limits.parked_bytes) = (8 * 1_024, 32 * 1_024);
    let uplink = pipe(common("gateway"), far, &node, &gateway, 1_024);
    insist(&*uplink, input(&a, 1)).await;
    for n in 2..=500 {
        insist(&*uplink, input(&a, n)).await;
        insist(&*uplink, input(&b, n - 1)).await;
    }
    until("the other room has all", || node.inputs(&b).len() == 499).await;
    let (seat, generation) = (SeatId(1), Generation(2));
    assert_eq!(gone(&gateway), [ToGateway::Gone { room: a.clone(), seat, generation }], "told once");
    node.0.lock().full.clear();
    // Late, of the attachment that is over; then the next one, from the number owed.
    let kept = {
        until("what was kept comes", || node.0.lock().got.iter().any(|m| matches!(m, ToNode::Detach { .. }))).await;
        node.inputs(&a)
    };
    assert!(kept.len() > 10 && kept.len() < 40 && kept.iter().copied().eq(1..=kept.len() as u64), "{kept:?}");
    insist(&*uplink, input(&a, 501)).await;
    let next = kept.len() as u64 + 1;
    insist(&*uplink, under(&a, 3, next)).await;
    until("it goes on", || node.inputs(&a).len() == kept.len() + 1).await;
    assert_eq!(node.inputs(&a).last(), Some(&next), "no gap, and nothing of the old attachment");
}

#[tokio::test]
async fn detaches_are_kept_until_reading_pauses_and_nothing_of_them_is_lost() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let (a, b) = (room("a"), room("b"));
    node.0.lock().full.insert(a.clone());
    let (mut near, mut far) = (common("gateway"), common("node"));
    near.limits.up_bytes = 16 * 1_024;
    (far.limits.parked_bytes, far.limits.read_ahead) = (8 * 1_024, 4 * 1_024);
    let uplink = pipe(near, far, &node, &gateway, 1_024);
    insist(&*uplink, input(&a, 1)).await;
    until("linked", || node.links() == 1).await;
    let detach = |seat| {
        let (room, seat, generation) = (a.clone(), SeatId(seat), Generation(9));
        ToNode::Detach { room, seat, generation, consented: false }
    };
    // Until nothing moves any more: parked, read ahead, in the pipe and in the queue.
    let (mut sent, mut still) = (0, 0);
    while still < 1_000 {
        match uplink.send(detach(sent + 1)) {
            Ok(()) => (sent, still) = (sent + 1, 0),
            Err(_) => still += 1,
        }
        tokio::task::yield_now().await;
    }
    assert!((100..4_000).contains(&sent), "{sent} were taken");
    assert!(uplink.send(input(&b, 1)).is_err());
    node.0.lock().full.clear();
    insist(&*uplink, input(&b, 1)).await;
    until("all comes", || node.0.lock().got.len() as u32 == sent + 2).await;
    let seats = node.0.lock().got.clone().into_iter().filter_map(|m| match m {
        ToNode::Detach { seat, .. } => Some(seat.0),
        _ => None,
    });
    assert!(seats.eq(1..=sent));
}

#[tokio::test]
async fn a_gateway_that_is_full_gets_all_in_order_later() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let a = room("a");
    let _uplink = pipe(common("gateway"), common("node"), &node, &gateway, 4_096);
    until("linked", || node.links() == 1).await;
    gateway.0.lock().full = true;
    let down = node.down();
    for n in 1..=200 {
        down.send(frame(&a, n, 100)).expect("within the bound");
    }
    down.send(ToGateway::Left { conn: ConnId(1) }).expect("within the bound");
    gateway.0.lock().full = false;
    until("all comes", || gateway.count() == 201).await;
    assert!(gateway.ticks().iter().copied().eq(1..=200));
    assert_eq!(gateway.0.lock().got.last(), Some(&ToGateway::Left { conn: ConnId(1) }));
}

fn attach() -> Attach {
    Attach {
        gateway: GatewayId(0),
        conn: ConnId(5),
        attempt: 9,
        room: room("a"),
        mode: Mode::JoinOrCreate,
        player: PlayerId::new("p").expect("valid"),
        options: bytes::Bytes::from_static(&[0xc0]),
        metadata: bytes::Bytes::new(),
        seat: None,
        rejoin: true,
        generation: Generation(0),
        resumes: 0,
        first: Seq(1),
        shown: (Term(0), Tick(0)),
        table: None,
    }
}

#[tokio::test]
async fn what_the_node_refuses_for_good_is_answered() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    node.0.lock().closed = true;
    let uplink = pipe(common("gateway"), common("node"), &node, &gateway, 4_096);
    let (a, seat, generation) = (room("a"), SeatId(1), Generation(2));
    insist(&*uplink, ToNode::Detach { room: a.clone(), seat, generation, consented: false }).await;
    insist(&*uplink, input(&a, 1)).await;
    insist(&*uplink, ToNode::Resync { room: a.clone(), seat, generation: Generation(3) }).await;
    insist(&*uplink, ToNode::Attach(attach())).await;
    let find = |make| ToNode::Find {
        gateway: GatewayId(0),
        conn: ConnId(6),
        attempt: 3,
        kind: "a".into(),
        region: "b".into(),
        make,
    };
    insist(&*uplink, find(true)).await;
    until("answered", || gateway.count() == 4).await;
    let got = gateway.0.lock().got.clone();
    assert_eq!(got[0], ToGateway::Gone { room: a.clone(), seat, generation });
    assert_eq!(got[1], ToGateway::Gone { room: a, seat, generation: Generation(3) });
    let refused = matches!(&got[2], ToGateway::Refused { conn: ConnId(5), attempt: 9, code: ErrorCode::MayRetry, .. });
    assert!(refused, "{:?}", got[2]);
    assert_eq!(got[3], ToGateway::Found { conn: ConnId(6), attempt: 3, room: None, new: false });
}
