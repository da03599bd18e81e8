//! A TCP proxy on loopback whose streams can be held: both ends keep their sockets and nothing arrives, as when a network drops packets.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
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

/// A proxy; dropped, it accepts no more.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) addr: SocketAddr,
    upstream: Arc<Mutex<Option<SocketAddr>>>,
    held: watch::Sender<bool>,
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
        let (held, _) = watch::channel(false);
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
        self.held.send_replace(held);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(near: TcpStream, upstream: Option<SocketAddr>, held: watch::Receiver<bool>) {
    let Some(upstream) = upstream else { return };
    let mut waiting = held.clone();
    if waiting.wait_for(|held| !held).await.is_err() {
        return;
    }
    let Ok(far) = TcpStream::connect(upstream).await else { return };
    // A stream without this option only delivers a little later.
    let _set = (near.set_nodelay(true), far.set_nodelay(true));
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    tokio::join!(copy(near_in, far_out, held.clone()), copy(far_in, near_out, held));
}

/// Copies until one end is gone; while held nothing moves.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut held: watch::Receiver<bool>) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(count @ 1..) = from.read(&mut chunk).await {
        if held.wait_for(|held| !held).await.is_err() {
            break;
        }
        let Some(bytes) = chunk.get(..count) else { break };
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
}
