//! A TCP proxy on loopback whose streams can be held: both ends keep their sockets and nothing arrives, as when a network drops packets.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
    time::sleep,
};

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Bytes read at a time.
const CHUNK: usize = 16 * 1024;

/// Which streams are held.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    None,
    All,
    /// Those whose first bytes from the near end contain this.
    From(Vec<u8>),
}

impl Held {
    fn holds(&self, first: Option<&Vec<u8>>) -> bool {
        match (self, first) {
            (Self::None, _) | (Self::From(_), None) => false,
            (Self::All, _) => true,
            (Self::From(word), Some(first)) => first.windows(word.len().max(1)).any(|bytes| bytes == word),
        }
    }
}

/// A proxy; dropped, it accepts no more.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) addr: SocketAddr,
    upstream: Arc<Mutex<Option<SocketAddr>>>,
    held: watch::Sender<Held>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port. What connects before [`Proxy::lead`] is closed.
    ///
    /// # Errors
    /// When the system gives no port.
    pub(crate) async fn start(upstream: Option<SocketAddr>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let upstream = Arc::new(Mutex::new(upstream));
        let (held, _) = watch::channel(Held::None);
        let (to, hold) = (upstream.clone(), held.clone());
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                };
                let upstream = *to.lock().unwrap_or_else(PoisonError::into_inner);
                tokio::spawn(pass(stream, upstream, hold.subscribe()));
            }
        });
        Ok(Self { addr, upstream, held, accepting })
    }

    /// Where new connections are led to.
    pub(crate) fn lead(&self, upstream: SocketAddr) {
        *self.upstream.lock().unwrap_or_else(PoisonError::into_inner) = Some(upstream);
    }

    /// Holds every byte, or lets them go on.
    pub(crate) fn hold(&self, held: bool) {
        self.held.send_replace(if held { Held::All } else { Held::None });
    }

    /// Holds the bytes of one gateway alone, both ways. It is known by its name, which a link says first, as a text of MessagePack.
    pub(crate) fn hold_gateway(&self, name: &str) {
        // A text of up to 31 bytes begins with its length, so that no longer name is taken for this one.
        let length = 0xa0 | u8::try_from(name.len()).unwrap_or(31).min(31);
        self.held.send_replace(Held::From([&[length], name.as_bytes()].concat()));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(near: TcpStream, upstream: Option<SocketAddr>, held: watch::Receiver<Held>) {
    let Some(upstream) = upstream else { return };
    let mut waiting = held.clone();
    if waiting.wait_for(|held| !held.holds(None)).await.is_err() {
        return;
    }
    let Ok(far) = TcpStream::connect(upstream).await else { return };
    // A stream without this option only delivers a little later.
    let _set = (near.set_nodelay(true), far.set_nodelay(true));
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    let first = OnceLock::new();
    tokio::join!(copy(near_in, far_out, held.clone(), &first, true), copy(far_in, near_out, held, &first, false));
}

/// Copies until one end is gone; while held nothing moves. The first bytes of the near end are noted.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut held: watch::Receiver<Held>,
    first: &OnceLock<Vec<u8>>,
    near: bool,
) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(count @ 1..) = from.read(&mut chunk).await {
        let Some(bytes) = chunk.get(..count) else { break };
        if near {
            first.get_or_init(|| bytes.to_vec());
        }
        if held.wait_for(|held| !held.holds(first.get())).await.is_err() {
            break;
        }
        if to.write_all(bytes).await.is_err() {
            break;
        }
    }
    // The other end may be gone already.
    let _closed = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn held_streams_stay_open_and_deliver_later() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let proxy = Proxy::start(None).await.expect("proxy");
        proxy.lead(listener.local_addr().expect("address"));
        let mut near = TcpStream::connect(proxy.addr).await.expect("connect");
        let (mut far, _) = listener.accept().await.expect("accept");
        near.write_all(b"one").await.expect("write");
        let mut heard = [0; 3];
        far.read_exact(&mut heard).await.expect("read");
        assert_eq!(&heard, b"one");
        proxy.hold(true);
        near.write_all(b"two").await.expect("write");
        assert!(timeout(Duration::from_millis(100), far.read_exact(&mut heard)).await.is_err(), "it is held");
        proxy.hold(false);
        far.read_exact(&mut heard).await.expect("read");
        assert_eq!(&heard, b"two");
        drop(near);
        assert_eq!(far.read(&mut heard).await.expect("end"), 0);
    }

    #[tokio::test]
    async fn one_gateway_is_held_and_another_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let proxy = Proxy::start(Some(listener.local_addr().expect("address"))).await.expect("proxy");
        let open = async |hello: &[u8]| {
            let mut near = TcpStream::connect(proxy.addr).await.expect("connect");
            let (mut far, _) = listener.accept().await.expect("accept");
            near.write_all(hello).await.expect("write");
            let mut heard = vec![0; hello.len()];
            far.read_exact(&mut heard).await.expect("read");
            (near, far)
        };
        let (mut one, mut at_one) = open(b"\x96\x01\x01\x01\xa9gateway-1\xc4").await;
        let (mut ten, mut at_ten) = open(b"\x96\x01\x01\x01\xaagateway-10\xc4").await;
        proxy.hold_gateway("gateway-1");
        for stream in [&mut one, &mut ten] {
            stream.write_all(b"x").await.expect("write");
        }
        at_one.write_all(b"y").await.expect("write");
        let mut heard = [0];
        at_ten.read_exact(&mut heard).await.expect("the other one goes on");
        assert!(timeout(Duration::from_millis(100), at_one.read_exact(&mut heard)).await.is_err(), "there");
        assert!(timeout(Duration::from_millis(100), one.read_exact(&mut heard)).await.is_err(), "and back");
        proxy.hold(false);
        at_one.read_exact(&mut heard).await.expect("it comes later");
        one.read_exact(&mut heard).await.expect("both ways");
    }
}
