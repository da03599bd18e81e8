//! Who may link: a wrong secret, version, cluster or place is refused, and both ends say why.

use std::{net::SocketAddr, sync::Arc};

use tenure::{
    link::{
        Dial as _,
        net::{Common, Dialer, PROTOCOL, Peer, Site, client, serve},
    },
    runtime::tasks::Kind,
};
use tokio::{
    io::DuplexStream,
    net::{TcpListener, TcpStream},
};

use crate::{
    raw::{GATEWAY, NODE, NONCE, Raw, hello, mac, nonce_of, proof},
    support::{FakeGateway, FakeNode, SECRET, common, listener, pipe, secret, until},
};

const OTHER: &[u8] = b"another secret of thirty-two bytes";

/// Why the gateway's end did not come about.
async fn refusal(near: Common, far: Common) -> String {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let _uplink = pipe(near, far, &node, &gateway, 4_096);
    until("the gateway is told", || gateway.broken().len() == 1).await;
    assert_eq!(node.links(), 0);
    gateway.broken().remove(0)
}

#[tokio::test]
async fn both_must_have_the_same_secret() {
    let with = |bytes: Option<&[u8]>| Common { secret: bytes.and_then(secret), ..common("x") };
    let why = refusal(with(Some(SECRET)), with(Some(OTHER))).await;
    assert!(why.contains("did not accept this process's cluster secret"), "{why}");
    let why = refusal(with(None), with(Some(SECRET))).await;
    assert!(why.contains("this process has none (link.secret_file)"), "{why}");
    let why = refusal(with(Some(SECRET)), with(None)).await;
    assert!(why.contains("the peer has no cluster secret (link.secret_file)"), "{why}");
    let why = refusal(with(None), Common { cluster: 8, ..with(None) }).await;
    assert!(why.contains("another cluster"), "{why}");
}

/// Collects what is logged.
#[derive(Clone, Default)]
struct Log(Arc<parking_lot::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_wrong_secret_is_a_warning_on_both_sides_once() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_ansi(false);
    let _guard = tracing::subscriber::set_default(subscriber.with_writer(move || writer.clone()).finish());
    let with = |bytes| Common { secret: secret(bytes), ..common("x") };
    let node = FakeNode::default();
    let address = listener(&node, with(SECRET)).await;
    let dialer = Dialer::new("h:1".into(), None, with(OTHER));
    for _ in 0..20 {
        let gateway = FakeGateway::default();
        let _uplink = dialer.dial(&address, Arc::new(gateway.clone()));
        until("refused", || gateway.broken().len() == 1).await;
    }
    let log = String::from_utf8(log.0.lock().clone()).expect("text");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!((lines.len(), node.links()), (2, 0), "a peer cannot fill the log: {log}");
    for words in ["a link was refused", "a link to a node could not be opened"] {
        assert!(lines.iter().any(|line| line.contains("WARN") && line.contains(words)), "{log}");
    }
    assert!(lines.iter().all(|line| line.contains("link.secret_file must hold the same everywhere")), "{log}");
    assert!(!log.contains("thirty-two"), "no secret is shown");
}

#[tokio::test]
async fn the_same_secret_links_over_tcp() {
    let (node, gateway) = (FakeNode::default(), FakeGateway::default());
    let with = |bytes| Common { secret: secret(bytes), ..common("x") };
    let address = listener(&node, with(SECRET)).await;
    let wrong = FakeGateway::default();
    let _refused = Dialer::new("h:1".into(), None, with(OTHER)).dial(&address, Arc::new(wrong.clone()));
    until("refused", || wrong.broken().len() == 1).await;
    let _uplink = Dialer::new("h:1".into(), None, with(SECRET)).dial(&address, Arc::new(gateway.clone()));
    until("linked", || node.links() == 1).await;
    assert!(gateway.broken().is_empty());
}

#[tokio::test]
async fn without_a_secret_links_stay_on_the_machine() {
    let gateway = FakeGateway::default();
    let abroad = Peer { address: "192.0.2.1:7779".into(), loopback: false };
    let (near, far) = tokio::io::duplex(4_096);
    let _uplink = client(&Site::of_gateway(common("g")), near, &abroad, Arc::new(gateway.clone()));
    until("refused", || gateway.broken().len() == 1).await;
    assert!(gateway.broken()[0].contains("without one links stay on loopback"), "{:?}", gateway.broken());
    Raw(far).expect_end().await;
    // The node's side: it says hello, so that the gateway can name what is missing, and takes nothing.
    let (near, far) = tokio::io::duplex(4_096);
    let (node, site) = (FakeNode::default(), Site::of_node(common("n")));
    serve(&site, far, abroad, &node).await;
    let mut raw = Raw(near);
    raw.receive().await.expect("a hello");
    raw.expect_end().await;
    assert_eq!(node.links(), 0);
}

#[tokio::test]
async fn another_version_is_refused_naming_both() {
    let gateway = FakeGateway::default();
    let (near, far) = tokio::io::duplex(4_096);
    let _uplink = client(&Site::of_gateway(common("g")), near, &Peer::local("node"), Arc::new(gateway.clone()));
    // What another version says behind its number is not looked at.
    let mut raw = Raw(far);
    let theirs = u8::try_from(PROTOCOL + 1).expect("small");
    raw.send(&[0x93, 1, theirs, 0xc0]).await;
    until("refused", || gateway.broken().len() == 1).await;
    let told = format!("the peer speaks version {theirs} of the link protocol, this process version {PROTOCOL}");
    assert_eq!(gateway.broken()[0], told);
}

/// A node with the secret, and the bare other end of its stream.
fn node_with_secret() -> (FakeNode, Raw<DuplexStream>) {
    let (node, common) = (FakeNode::default(), Common { secret: secret(SECRET), ..common("n") });
    let (near, far) = tokio::io::duplex(4_096);
    let (of, tasks, site) = (node.clone(), common.tasks.clone(), Site::of_node(common));
    tasks.spawn("node", Kind::Job, async move { serve(&site, far, Peer::local("raw"), &of).await });
    (node, Raw(near))
}

#[tokio::test]
async fn the_handshake_is_as_documented() {
    let (node, mut raw) = node_with_secret();
    raw.send(&hello(GATEWAY, PROTOCOL, true, 7)).await;
    let theirs = nonce_of(&raw.receive().await.expect("a hello"));
    raw.send(&proof(&mac(SECRET, GATEWAY, ("raw", &NONCE), ("n", &theirs)))).await;
    let answer = raw.receive().await.expect("its proof");
    assert_eq!(answer, proof(&mac(SECRET, NODE, ("raw", &NONCE), ("n", &theirs))));
    until("linked", || node.links() == 1).await;
}

#[tokio::test]
async fn no_proof_is_given_to_who_has_none() {
    // A wrong secret, the role of the other, a replay over other nonces, too short a proof, none at all.
    for case in 0..5 {
        let (node, mut raw) = node_with_secret();
        raw.send(&hello(GATEWAY, PROTOCOL, true, 7)).await;
        let theirs = nonce_of(&raw.receive().await.expect("a hello"));
        let good = mac(SECRET, GATEWAY, ("raw", &NONCE), ("n", &theirs));
        let sent = match case {
            0 => proof(&mac(OTHER, GATEWAY, ("raw", &NONCE), ("n", &theirs))),
            1 => proof(&mac(SECRET, NODE, ("raw", &NONCE), ("n", &theirs))),
            2 => proof(&mac(SECRET, GATEWAY, ("raw", &NONCE), ("n", &[1; 32]))),
            3 => proof(&good[..31]),
            _ => vec![0x91, 0],
        };
        raw.send(&sent).await;
        raw.expect_end().await;
        assert_eq!(node.links(), 0, "case {case}");
    }
}

#[tokio::test]
async fn the_nodes_own_words_sent_back_do_not_link() {
    let (node, mut raw) = node_with_secret();
    let own = raw.receive().await.expect("a hello");
    raw.send(&own).await;
    raw.expect_end().await;
    assert_eq!(node.links(), 0);
}

#[tokio::test]
async fn a_false_node_is_refused() {
    let gateway = FakeGateway::default();
    let (near, far) = tokio::io::duplex(4_096);
    let common = Common { secret: secret(SECRET), ..common("g") };
    let _uplink = client(&Site::of_gateway(common), near, &Peer::local("node"), Arc::new(gateway.clone()));
    let mut raw = Raw(far);
    raw.send(&hello(NODE, PROTOCOL, true, 7)).await;
    raw.receive().await.expect("a hello");
    let theirs = raw.receive().await.expect("its proof");
    // All that it has: the gateway's own proof.
    raw.send(&theirs).await;
    until("refused", || gateway.broken().len() == 1).await;
    assert!(gateway.broken()[0].contains("did not prove"), "{:?}", gateway.broken());
}

#[tokio::test]
async fn links_and_handshakes_are_bounded() {
    let node = FakeNode::default();
    let mut far = common("n");
    (far.limits.handshakes, far.limits.links) = (1, 1);
    let address = listener(&node, far).await;
    let silent = TcpStream::connect(&*address).await.expect("it listens");
    let mut silent = Raw(silent);
    silent.receive().await.expect("a hello");
    // The only place for a handshake is taken.
    let mut second = Raw(TcpStream::connect(&*address).await.expect("it listens"));
    second.expect_end().await;
    silent.send(&hello(GATEWAY, PROTOCOL, false, 7)).await;
    until("linked", || node.links() == 1).await;
    // And now the only place for a link.
    let gateway = FakeGateway::default();
    let _uplink = Dialer::new("h:1".into(), None, common("g")).dial(&address, Arc::new(gateway.clone()));
    until("refused", || gateway.broken().len() == 1).await;
    assert_eq!(node.links(), 1);
    drop(silent);
    until("its place is free", || node.dropped() == 1).await;
    let linked = FakeGateway::default();
    let dialer = Dialer::new("h:1".into(), None, common("g"));
    let _uplink = dialer.dial(&address, Arc::new(linked.clone()));
    until("another links", || node.links() == 2).await;
}

/// Streams of which the test says where they come from.
struct Streams(tokio::sync::mpsc::Receiver<(DuplexStream, SocketAddr)>);

impl tenure::runtime::net::Listener for Streams {
    type Stream = DuplexStream;
    async fn accept(&mut self) -> std::io::Result<(DuplexStream, SocketAddr)> {
        match self.0.recv().await {
            Some(stream) => Ok(stream),
            None => std::future::pending().await,
        }
    }
    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(([127, 0, 0, 1], 1).into())
    }
}

#[tokio::test]
async fn strangers_of_one_address_leave_places_to_others_and_do_not_hold_theirs() {
    let node = FakeNode::default();
    let (mut far, hand) = crate::support::manual("n");
    (far.limits.handshakes, far.limits.handshakes_per_address) = (8, 3);
    far.secret = secret(SECRET);
    let (time, all) = (far.limits.prove_time, far.limits.handshake_time);
    assert!(time < all);
    let (sender, streams) = tokio::sync::mpsc::channel(16);
    let parts = tenure::link::net::LinkParts {
        listener: Streams(streams),
        node: Arc::new(node.clone()),
        inbox: None,
        common: far,
    };
    tenure::link::net::listen(parts).expect("it listens");
    let come = async |from: [u8; 4], port: u16| {
        let (near, stream) = tokio::io::duplex(4_096);
        sender.send((stream, (from, port).into())).await.expect("accepted");
        Raw(near)
    };
    let mut idle = Vec::new();
    for port in 1..=3 {
        let mut raw = come([10, 0, 0, 1], port).await;
        raw.receive().await.expect("a hello");
        idle.push(raw);
    }
    come([10, 0, 0, 1], 4).await.expect_end().await;
    let mut other = come([10, 0, 0, 2], 1).await;
    other.receive().await.expect("another address has its own");
    // They say nothing: their places are free again before a gateway would give up.
    hand.advance(time);
    for mut raw in idle {
        raw.expect_end().await;
    }
    come([10, 0, 0, 1], 5).await.receive().await.expect("there is room again");
}

#[tokio::test]
async fn an_address_where_nobody_listens_is_told() {
    let gateway = FakeGateway::default();
    let port = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address: Arc<str> = port.local_addr().expect("an address").to_string().into();
    drop(port);
    let _uplink = Dialer::new("h:1".into(), None, common("g")).dial(&address, Arc::new(gateway.clone()));
    until("told", || gateway.broken().len() == 1).await;
}
