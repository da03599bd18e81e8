//! Streams and listeners: TCP in production, in memory in tests; whatever a simulation brings.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};

/// A byte stream between two peers.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// Something that gives streams.
pub trait Listener: Send + 'static {
    /// The streams it gives.
    type Stream: Stream;
    /// The next stream and who opened it. Cancel-safe.
    ///
    /// # Errors
    /// What the operating system says; running out of file descriptors is one of them and passes.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;
    /// Where it listens; with port 0 the port that was chosen.
    ///
    /// # Errors
    /// What the operating system says.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        // Frames are small and must not wait for one another's acknowledgement.
        stream.set_nodelay(true)?;
        Ok((stream, peer))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        TcpListener::local_addr(self)
    }
}

/// Something that opens streams.
pub trait Connector: Send + Sync + 'static {
    /// The streams it opens.
    type Stream: Stream;
    /// A stream to `address` (`host:port`), and whether it stays on this machine. May wait for as long as the system likes: the caller
    /// sets the deadline. Cancel-safe.
    ///
    /// # Errors
    /// What the operating system says.
    fn connect(&self, address: &str) -> impl Future<Output = io::Result<(Self::Stream, bool)>> + Send;
}

/// Connects by TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Connector for Tcp {
    type Stream = TcpStream;

    async fn connect(&self, address: &str) -> io::Result<(TcpStream, bool)> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let loopback = is_loopback(stream.peer_addr()?);
        Ok((stream, loopback))
    }
}

/// Whether what comes from there comes from this machine.
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
