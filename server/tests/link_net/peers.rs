//! Streams between room nodes: order, who is let in, an end and a new beginning.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tenure::{
    link::{
        Address, PeerBody, PeerInbox, PeerMessage, Peers,
        net::{Common, LinkParts, PeerDialer, listen},
    },
    runtime::{Shutdown, Tasks, mailbox::Refused},
};
use tenure_shared::IncarnationId;
use tokio::net::TcpListener;

use crate::support::{FakeNode, SECRET, common, secret, until};

const OTHER: &[u8] = b"another secret of thirty-two bytes";

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<PeerMessage>>>);

impl PeerInbox for Heard {
    fn take(&self, message: PeerMessage) {
        self.0.lock().push(message);
    }
}

impl Heard {
    fn count(&self) -> usize {
        self.0.lock().len()
    }
}

fn message(number: u64) -> PeerMessage {
    let id = |text: &str| IncarnationId::new(text).expect("valid");
    let body = PeerBody::Other("test".to_owned(), Bytes::from(number.to_be_bytes().to_vec()));
    PeerMessage { from: id("a#1"), reply: "127.0.0.1:1".into(), to: id("b#1"), body }
}

fn numbers(heard: &Heard) -> Vec<u64> {
    let number = |message: &PeerMessage| match &message.body {
        PeerBody::Other(_, bytes) => bytes.as_ref().try_into().map(u64::from_be_bytes).expect("8 bytes"),
        PeerBody::Handoff(..) => panic!("nobody sent that"),
    };
    heard.0.lock().iter().map(number).collect()
}

async fn listening(on: &str, heard: Option<&Heard>, common: Common) -> Address {
    let listener = TcpListener::bind(on).await.expect("a port");
    let inbox = heard.map(|heard| Arc::new(heard.clone()) as Arc<dyn PeerInbox>);
    let parts = LinkParts { listener, node: Arc::new(FakeNode::default()), inbox, common };
    listen(parts).expect("it listens").to_string().into()
}

#[tokio::test]
async fn messages_arrive_in_order_those_said_before_the_stream_is_open_too() {
    let heard = Heard::default();
    let address = listening("127.0.0.1:0", Some(&heard), common("b")).await;
    let peers = PeerDialer::new(common("a"));
    for number in 0..500 {
        peers.send(&address, message(number)).expect("there is room");
    }
    until("all are heard", || heard.count() == 500).await;
    assert_eq!(numbers(&heard), (0..500).collect::<Vec<_>>());
    assert_eq!(heard.0.lock()[7], message(7));
}

#[tokio::test]
async fn a_stream_that_ended_is_opened_anew() {
    let (heard, later) = (Heard::default(), Heard::default());
    let life = Tasks::new(Shutdown::new());
    let address = listening("127.0.0.1:0", Some(&heard), Common { tasks: life.clone(), ..common("b") }).await;
    let peers = PeerDialer::new(common("a"));
    peers.send(&address, message(1)).expect("there is room");
    until("heard", || heard.count() == 1).await;
    life.shutdown().stop();
    // Its port is free again when the listener is gone.
    let mut again = None;
    for _ in 0..1_000 {
        match TcpListener::bind(&*address).await {
            Ok(listener) => {
                again = Some(listener);
                break;
            }
            Err(_) => tokio::task::yield_now().await,
        }
    }
    let listener = again.expect("the port");
    let inbox: Arc<dyn PeerInbox> = Arc::new(later.clone());
    let parts = LinkParts { listener, node: Arc::new(FakeNode::default()), inbox: Some(inbox), common: common("b") };
    listen(parts).expect("it listens");
    until("heard by the next life", || {
        // What goes into a stream that is about to be found broken is lost: whoever waits for an answer asks again.
        match peers.send(&address, message(2)) {
            Ok(()) | Err(Refused::Closed(_)) => later.count() > 0,
            Err(Refused::Full(_)) => panic!("a few small messages"),
        }
    })
    .await;
}

#[tokio::test]
async fn an_address_at_which_nobody_is_refuses_for_a_moment() {
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound");
    let address: Address = free.to_string().into();
    let peers = PeerDialer::new(common("a"));
    peers.send(&address, message(1)).expect("not known yet");
    until("known", || matches!(peers.send(&address, message(2)), Err(Refused::Closed(_)))).await;
}

#[tokio::test]
async fn only_who_has_the_secret_is_heard_and_only_where_nodes_are_listened_to() {
    let with = |name, bytes| Common { secret: secret(bytes), ..common(name) };
    let heard = Heard::default();
    let address = listening("127.0.0.1:0", Some(&heard), with("b", SECRET)).await;
    let stranger = PeerDialer::new(with("x", OTHER));
    stranger.send(&address, message(1)).expect("not known yet");
    until("refused", || matches!(stranger.send(&address, message(2)), Err(Refused::Closed(_)))).await;
    let friend = PeerDialer::new(with("a", SECRET));
    friend.send(&address, message(3)).expect("there is room");
    until("heard", || heard.count() == 1).await;
    assert_eq!(numbers(&heard), [3]);
    let deaf = listening("127.0.0.1:0", None, with("c", SECRET)).await;
    friend.send(&deaf, message(4)).expect("not known yet");
    until("refused", || matches!(friend.send(&deaf, message(5)), Err(Refused::Closed(_)))).await;
}
