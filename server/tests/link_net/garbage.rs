//! What no peer says: noise, false lengths, deep nesting, before the handshake and after it.

use std::sync::Arc;

use proptest::prelude::*;
use tenure::{
    link::net::{PACKET_BYTES, Peer, Site, client, serve},
    runtime::{Rng, tasks::Kind},
};
use tokio::io::AsyncWriteExt as _;

use crate::{
    raw::{GATEWAY, NODE, Raw},
    support::{FakeGateway, FakeNode, common, soon, until},
};

fn packet(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// Bytes that no end takes, whoever sends them.
fn wrong() -> Vec<Vec<u8>> {
    vec![
        vec![0xff; 4],
        vec![0xff, 0xff, 0xff, 0xff, 0x91],
        ((PACKET_BYTES + 1) as u32).to_be_bytes().to_vec(),
        packet(&[]),
        packet(&[0x91; 400]),
        packet(&[&[0x9d, 2][..], &[0x91; 400]].concat()),
        packet(&[0x97, 7, 0xa5, b'a', b'/', b'b', b'/', b'c', 1, 1, 0xdd, 0xff, 0xff, 0xff, 0xff]),
        packet(&[0x91, 99]),
        packet(&[0xc1]),
        b"GET / HTTP/1.1\r\nHost: example\r\n\r\n".to_vec(),
    ]
}

/// Sends this to a node and to a gateway, before or after the handshake: both end, once, and nothing else happens.
async fn ends_both(bytes: &[u8], greeted: bool) {
    let (node, gateway, near) = (FakeNode::default(), FakeGateway::default(), common("x"));
    let (ours, theirs) = tokio::io::duplex(2_000);
    let (site, of) = (Site::of_node(near.clone()), node.clone());
    near.tasks.spawn("node", Kind::Job, async move { serve(&site, theirs, Peer::local("raw"), &of).await });
    let mut raw = Raw(ours);
    if greeted {
        raw.greet(GATEWAY).await;
        until("linked", || node.links() == 1).await;
    }
    let _closed = soon(raw.0.write_all(bytes)).await;
    until("the node's end is over", || near.tasks.running() == 0 || node.dropped() == 1).await;
    assert_eq!((node.links(), node.dropped()), (usize::from(greeted), usize::from(greeted)));
    assert!(node.0.lock().got.is_empty());

    let (ours, theirs) = tokio::io::duplex(2_000);
    let _uplink = client(&Site::of_gateway(near.clone()), theirs, &Peer::local("raw"), Arc::new(gateway.clone()));
    let mut raw = Raw(ours);
    if greeted {
        raw.greet(NODE).await;
    }
    let _closed = soon(raw.0.write_all(bytes)).await;
    until("the gateway is told", || !gateway.broken().is_empty()).await;
    until("its tasks are over", || near.tasks.running() == 0).await;
    assert_eq!((gateway.broken().len(), gateway.count()), (1, 0), "{:?}", gateway.broken());
}

#[tokio::test]
async fn nothing_wrong_is_taken_before_the_handshake() {
    for bytes in wrong() {
        ends_both(&bytes, false).await;
    }
    // Within a link's bound, but not within a stranger's.
    ends_both(&1_000_u32.to_be_bytes(), false).await;
}

#[tokio::test]
async fn nothing_wrong_is_taken_after_the_handshake() {
    for bytes in wrong() {
        ends_both(&bytes, true).await;
    }
}

#[tokio::test]
async fn noise_ends_a_link_and_never_more() {
    let rng = Rng::seeded(11);
    for _ in 0..200 {
        let mut noise: Vec<u8> = (0..rng.below(60)).map(|_| rng.next_u64() as u8).collect();
        // A length that is taken, so that what is in it is read, and an end that is taken by nobody.
        noise = [packet(&noise), vec![0xff; 4]].concat();
        ends_both(&noise, rng.below(2) == 0).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_hello_with_any_fault_is_survived(at in 0_usize..70, byte in any::<u8>()) {
        let mut hello = crate::raw::hello(GATEWAY, tenure::link::net::PROTOCOL, false, 7);
        let place = at % hello.len();
        hello[place] = byte;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (near, node) = (common("x"), FakeNode::default());
            let (ours, theirs) = tokio::io::duplex(2_000);
            let (site, of) = (Site::of_node(near.clone()), node.clone());
            near.tasks.spawn("node", Kind::Job, async move { serve(&site, theirs, Peer::local("raw"), &of).await });
            let mut raw = Raw(ours);
            raw.send(&hello).await;
            drop(raw);
            until("it is over", || near.tasks.running() == 0).await;
            assert_eq!(node.links(), node.dropped());
        });
    }
}
