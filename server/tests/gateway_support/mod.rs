//! A gateway with a node and a store that tests hold in their hands, and clients of both kinds: a real one and bare bytes.
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "each test file uses its part"
)]

mod client;
mod cluster;
mod node;
pub mod owners;
mod store;

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use tenure::{
    config::GatewayConfig,
    gateway::{Assets, AuthConfig, Gateway, GatewayParts, UnsavedBounds},
    runtime::{Clock, ManualClock, Rng, Shutdown, Tasks, Wall, net::Listener},
};
use tokio::{
    io::DuplexStream,
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

pub use client::{Client, Ended, Raw, client_frame};
pub use cluster::{Cluster, SHARDS};
pub use node::{FakeNode, HASH, frame_body, snapshot_of};
pub use store::FakeStore;

pub const NOW: Wall = Wall(1_764_446_400_000_000);
pub const SECRET: &[u8] = b"a secret of thirty-two bytes or more";

/// Nothing in these tests takes so long.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("it took too long")
}

/// Waits until it is so.
pub async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let wait = async {
        while !is() {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), wait).await.is_ok(), "never: {what}");
}

struct Page;

impl Assets for Page {
    fn get(&self, path: &str) -> Option<(&str, Bytes)> {
        (path == "index.html").then_some(("text/html; charset=utf-8", Bytes::from_static(b"<p>arena")))
    }
}

/// In-memory connections with a small buffer: a client that does not read is felt at once.
pub struct Pipes {
    incoming: mpsc::Receiver<DuplexStream>,
}

impl Listener for Pipes {
    type Stream = DuplexStream;
    async fn accept(&mut self) -> io::Result<(DuplexStream, SocketAddr)> {
        match self.incoming.recv().await {
            Some(stream) => Ok((stream, SocketAddr::from(([127, 0, 0, 1], 1)))),
            None => std::future::pending().await,
        }
    }
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::from(([127, 0, 0, 1], 1)))
    }
}

pub struct Rig {
    pub gateway: Gateway,
    /// The first node.
    pub node: Arc<FakeNode>,
    pub cluster: Arc<Cluster>,
    pub store: Arc<FakeStore>,
    /// The hand of the clock, unless the machine's is used.
    pub hand: Option<ManualClock>,
    clock: Clock,
    pub tasks: Tasks,
    pipes: Option<(mpsc::Sender<DuplexStream>, usize)>,
}

pub struct Setup {
    pub config: GatewayConfig,
    pub auth: AuthConfig,
    pub unsaved: UnsavedBounds,
    pub manual: bool,
    /// Bytes of an in-memory connection, instead of TCP.
    pub pipe: Option<usize>,
    pub nodes: usize,
}

impl Setup {
    fn new() -> Self {
        Self {
            config: GatewayConfig { listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..GatewayConfig::default() },
            auth: AuthConfig { secret: Some(SECRET.to_vec()), ..AuthConfig::default() },
            unsaved: UnsavedBounds::default(),
            manual: false,
            pipe: None,
            nodes: 1,
        }
    }
}

impl Rig {
    pub async fn new(change: impl FnOnce(&mut Setup)) -> Self {
        let mut setup = Setup::new();
        change(&mut setup);
        let (clock, hand) = if setup.manual {
            let (clock, hand) = Clock::manual(NOW);
            (clock, Some(hand))
        } else {
            (Clock::system(), None)
        };
        let cluster = Cluster::new(setup.nodes);
        Self::on(cluster, Arc::new(FakeStore::default()), setup, clock, hand).await
    }

    /// Another gateway of the same cluster.
    pub async fn another(&self) -> Self {
        let setup = Setup::new();
        Self::on(self.cluster.clone(), self.store.clone(), setup, Clock::system(), None).await
    }

    async fn on(
        cluster: Arc<Cluster>,
        store: Arc<FakeStore>,
        setup: Setup,
        clock: Clock,
        hand: Option<ManualClock>,
    ) -> Self {
        let node = cluster.nodes[0].clone();
        let tasks = Tasks::new(Shutdown::new());
        let parts = GatewayParts {
            coordinated: Vec::new(),
            config: setup.config,
            auth: setup.auth,
            unsaved: setup.unsaved,
            server: "node-1".to_owned(),
            region: "eu".to_owned(),
            directory: cluster.clone(),
            dial: cluster.clone(),
            store: store.calls(),
            clock: clock.clone(),
            rng: Rng::seeded(7),
            tasks: tasks.clone(),
            assets: Arc::new(Page),
        };
        let (gateway, pipes) = match setup.pipe {
            None => (Gateway::start(parts).await, None),
            Some(bytes) => {
                let (sender, incoming) = mpsc::channel(16);
                (Gateway::start_on(Pipes { incoming }, parts).await, Some((sender, bytes)))
            }
        };
        Self { gateway: gateway.expect("started"), node, cluster, store, hand, clock, tasks, pipes }
    }

    pub fn addr(&self) -> SocketAddr {
        self.gateway.addr()
    }

    /// A client that is not logged in yet.
    pub async fn connect(&self) -> Client {
        soon(Client::connect(self.addr())).await
    }

    /// A client over an in-memory connection.
    pub async fn connect_pipe(&self) -> Client<DuplexStream> {
        let (sender, bytes) = self.pipes.as_ref().expect("a rig with pipes");
        let (ours, theirs) = tokio::io::duplex(*bytes);
        sender.send(theirs).await.expect("accepted");
        soon(Client::over(ours)).await
    }

    /// A client that is logged in as a guest.
    pub async fn guest(&self) -> Client {
        let mut client = self.connect().await;
        client.hello(None).await;
        client
    }

    /// A bare connection after the upgrade.
    pub async fn raw(&self) -> Raw {
        soon(Raw::upgraded(self.addr())).await
    }

    pub async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.addr()).await.expect("connected")
    }

    /// How far the clock was moved.
    pub fn moved(&self) -> Duration {
        Duration::from_nanos(self.clock.now().0)
    }

    /// Moves the clock in steps, letting tasks run in between, until it is so.
    pub async fn advance_until(&self, step: Duration, what: &str, mut is: impl FnMut() -> bool) {
        let hand = self.hand.as_ref().expect("a manual clock");
        let mut steps = 0;
        // Without moving the clock there is nothing to wait for but the tasks.
        until(what, || {
            if is() {
                return true;
            }
            steps += 1;
            // Tasks get some turns for each step.
            if steps % 50 == 0 {
                hand.advance(step);
            }
            false
        })
        .await;
    }
}

/// A port on which nobody listens any more after this.
pub async fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.expect("bound").local_addr().expect("addr")
}

/// A token that the rig's gateways accept.
pub fn token(player: &str) -> String {
    // Signed by hand, so that the test does not share the gateway's code.
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let message =
        format!("{}.{}", part(r#"{"alg":"HS256"}"#), part(&format!(r#"{{"sub":"{player}","exp":99999999999}}"#)));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET);
    let signature = ring::hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
}
