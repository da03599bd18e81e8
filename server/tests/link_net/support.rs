//! A node and a gateway that tests hold in their hands, and links between them.

use std::{collections::BTreeSet, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use tenure::{
    config::Secret,
    link::{
        ConnId, Downlink, Frame, FrameMember, Input, Node, ToGateway, ToNode, Uplink,
        net::{Common, Limits, LinkParts, Peer, Site, client, listen, serve},
    },
    runtime::{Clock, ManualClock, Rng, Shutdown, Tasks, Wall, mailbox::Refused, tasks::Kind},
};
use tenure_shared::{Generation, RoomId, SeatId, Seq, Term, Tick};
use tokio::net::TcpListener;

pub(crate) const SECRET: &[u8] = b"a secret of thirty-two bytes or more";

pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("it took too long")
}

/// Waits until it is so.
pub(crate) async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let wait = async {
        while !is() {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), wait).await.is_ok(), "never: {what}");
}

/// Lets every task run until it waits: memory streams need no other thread.
pub(crate) async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

pub(crate) fn common(name: &str) -> Common {
    Common {
        name: name.to_owned(),
        cluster: 7,
        secret: None,
        clock: Clock::system(),
        rng: Rng::seeded(5),
        tasks: Tasks::new(Shutdown::new()),
        limits: Limits::default(),
    }
}

/// The same on a clock that is moved by hand.
pub(crate) fn manual(name: &str) -> (Common, ManualClock) {
    let (clock, hand) = Clock::manual(Wall(1_764_446_400_000_000));
    (Common { clock, ..common(name) }, hand)
}

pub(crate) fn secret(bytes: &[u8]) -> Option<Secret> {
    Some(Secret::new(bytes))
}

#[derive(Default)]
pub(crate) struct NodeState {
    pub(crate) got: Vec<ToNode>,
    pub(crate) full: BTreeSet<RoomId>,
    /// Everything is refused for good.
    pub(crate) closed: bool,
    pub(crate) downs: Vec<Arc<dyn Downlink>>,
    pub(crate) dropped: usize,
}

#[derive(Clone, Default)]
pub(crate) struct FakeNode(pub(crate) Arc<Mutex<NodeState>>);

impl FakeNode {
    pub(crate) fn inputs(&self, of: &RoomId) -> Vec<u64> {
        let seq = |message: &ToNode| match message {
            ToNode::Input(input) if input.room == *of => Some(input.seq.0),
            _ => None,
        };
        self.0.lock().got.iter().filter_map(seq).collect()
    }

    pub(crate) fn links(&self) -> usize {
        self.0.lock().downs.len()
    }

    pub(crate) fn dropped(&self) -> usize {
        self.0.lock().dropped
    }

    pub(crate) fn down(&self) -> Arc<dyn Downlink> {
        self.0.lock().downs.last().expect("linked").clone()
    }
}

impl Node for FakeNode {
    fn connect(&self, gateway: Arc<dyn Downlink>) -> Arc<dyn Uplink> {
        self.0.lock().downs.push(gateway);
        Arc::new(FakeUplink(self.0.clone()))
    }
}

struct FakeUplink(Arc<Mutex<NodeState>>);

impl Uplink for FakeUplink {
    fn send(&self, message: ToNode) -> Result<(), Refused<ToNode>> {
        let mut state = self.0.lock();
        if state.closed {
            return Err(Refused::Closed(message));
        }
        if let ToNode::Input(input) = &message
            && state.full.contains(&input.room)
        {
            return Err(Refused::Full(message));
        }
        state.got.push(message);
        Ok(())
    }
}

impl Drop for FakeUplink {
    fn drop(&mut self) {
        self.0.lock().dropped += 1;
    }
}

#[derive(Default)]
pub(crate) struct GatewayState {
    pub(crate) got: Vec<ToGateway>,
    pub(crate) full: bool,
    pub(crate) broken: Vec<String>,
}

#[derive(Clone, Default)]
pub(crate) struct FakeGateway(pub(crate) Arc<Mutex<GatewayState>>);

impl FakeGateway {
    pub(crate) fn count(&self) -> usize {
        self.0.lock().got.len()
    }

    pub(crate) fn broken(&self) -> Vec<String> {
        self.0.lock().broken.clone()
    }

    /// The ticks of frames, in the order in which they came.
    pub(crate) fn ticks(&self) -> Vec<u64> {
        let tick = |message: &ToGateway| match message {
            ToGateway::Frame(frame) => Some(frame.tick.0),
            _ => None,
        };
        self.0.lock().got.iter().filter_map(tick).collect()
    }
}

impl Downlink for FakeGateway {
    fn send(&self, message: ToGateway) -> Result<(), Refused<ToGateway>> {
        let mut state = self.0.lock();
        assert!(state.broken.is_empty(), "nothing comes after the end");
        if state.full {
            return Err(Refused::Full(message));
        }
        state.got.push(message);
        Ok(())
    }

    fn broken(&self, why: &str) {
        self.0.lock().broken.push(why.to_owned());
    }
}

pub(crate) fn room(name: &str) -> RoomId {
    RoomId::from_parts("arena", "eu", name).expect("valid")
}

pub(crate) fn input(room: &RoomId, seq: u64) -> ToNode {
    let payload = Bytes::from(vec![seq as u8; 20]);
    let (seat, generation) = (SeatId(1), Generation(2));
    ToNode::Input(Input { room: room.clone(), seat, generation, seq: Seq(seq), request: None, kind: 1, payload })
}

pub(crate) fn frame(room: &RoomId, tick: u64, bytes: usize) -> ToGateway {
    let member = FrameMember { conn: ConnId(1 << 32), saved: Seq(tick), start: 0, end: 3 };
    let (body, tails) = (Bytes::from(vec![tick as u8; bytes]), Bytes::from_static(b"abc"));
    ToGateway::Frame(Frame { room: room.clone(), term: Term(1), tick: Tick(tick), body, tails, members: vec![member] })
}

/// One link over memory, each stream's buffer of this many bytes.
pub(crate) fn pipe(gateway: Common, node: Common, to: &FakeNode, of: &FakeGateway, buffer: usize) -> Arc<dyn Uplink> {
    let (near, far) = tokio::io::duplex(buffer);
    let (site, to) = (Site::of_node(node), to.clone());
    let tasks = gateway.tasks.clone();
    tasks.spawn("node", Kind::Job, async move { serve(&site, far, Peer::local("gateway"), &to).await });
    client(&Site::of_gateway(gateway), near, &Peer::local("node"), Arc::new(of.clone()))
}

/// A listener on loopback; gives its address.
pub(crate) async fn listener(node: &FakeNode, common: Common) -> Arc<str> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address =
        listen(LinkParts { listener, node: Arc::new(node.clone()), inbox: None, common }).expect("it listens");
    address.to_string().into()
}

/// Sends although the queue may be full, as a seat's ring does.
pub(crate) async fn insist(uplink: &dyn Uplink, message: ToNode) {
    let mut message = Some(message);
    until("the link takes it", || match uplink.send(message.take().expect("given back")) {
        Ok(()) => true,
        Err(Refused::Full(back)) => {
            message = Some(back);
            false
        }
        Err(Refused::Closed(_)) => panic!("closed"),
    })
    .await;
}
