//! Opening sockets: source address, deadline, and whose fault a failure is.

use std::{io, net::SocketAddr, time::Duration};

use tenure_shared::codes::CloseCode;
use tokio::{net::TcpSocket, net::TcpStream, time::timeout};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{
        Error as WsError,
        client::IntoClientRequest,
        error::ProtocolError,
        protocol::{CloseFrame, WebSocketConfig},
    },
};

use crate::host::{self, Group};

/// Time for connecting and shaking hands.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// A bot reads small frames; the library's default of 128 KiB per socket would be most of a bot's memory.
const READ_BUFFER: usize = 4096;

/// A WebSocket of a bot.
pub(crate) type Socket = WebSocketStream<TcpStream>;

/// Where the server is.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) addr: SocketAddr,
}

impl Target {
    /// Resolves a `ws://` URL.
    ///
    /// # Errors
    /// Another scheme, or a host that does not resolve.
    pub(crate) async fn resolve(url: &str) -> anyhow::Result<Self> {
        let request = url.into_client_request()?;
        let uri = request.uri();
        anyhow::ensure!(uri.scheme_str() == Some("ws"), "{url}: only ws:// is supported");
        let host = uri.host().unwrap_or("127.0.0.1").trim_matches(['[', ']']).to_owned();
        let found = tokio::net::lookup_host((host.as_str(), uri.port_u16().unwrap_or(80))).await?.next();
        let addr = found.ok_or_else(|| anyhow::anyhow!("{host} does not resolve"))?;
        Ok(Self { url: url.to_owned(), addr })
    }

    /// Where a gateway says that players reach it: an address, or a URL of pages or of the socket.
    ///
    /// # Errors
    /// As [`Target::resolve`].
    pub(crate) async fn of_player(url: &str) -> anyhow::Result<Self> {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        Self::resolve(&format!("ws://{}/ws", rest.split('/').next().unwrap_or_default())).await
    }

    /// Whether the server runs on this machine, as far as the address says.
    pub(crate) fn is_loopback(&self) -> bool {
        self.addr.ip().is_loopback()
    }
}

/// Why a connection failed or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// This machine could not do it: the run says nothing about the server.
    Own(String),
    /// The server or the network.
    Remote(String),
    /// The server closed with one of its codes.
    Closed(CloseCode),
}

impl Cause {
    /// A label of bounded variety.
    pub(crate) fn label(&self) -> String {
        match self {
            Cause::Own(text) | Cause::Remote(text) => text.clone(),
            Cause::Closed(code) => format!("close {} {}", code.code(), code.name()),
        }
    }
}

/// Opens a TCP connection from the source address of connection `index`.
///
/// # Errors
/// The cause, see [`Cause`].
pub(crate) async fn tcp(target: &Target, group: Group, index: u32) -> Result<TcpStream, Cause> {
    let opened = async {
        let socket = if target.addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(source) = host::source(target.addr, group, index) {
            socket.bind(source)?;
        }
        if matches!(group, Group::Bad) {
            // Who does not read must not hide behind megabytes of its own kernel's buffer.
            socket.set_recv_buffer_size(8192)?;
        }
        let stream = socket.connect(target.addr).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    match timeout(CONNECT_TIME, opened).await {
        Ok(result) => result.map_err(|e: io::Error| from_io(&e, "connect")),
        Err(_) => Err(Cause::Remote("connect: no answer".to_owned())),
    }
}

/// Opens a WebSocket.
///
/// # Errors
/// The cause, see [`Cause`].
pub(crate) async fn websocket(target: &Target, group: Group, index: u32) -> Result<Socket, Cause> {
    let stream = tcp(target, group, index).await?;
    let config = WebSocketConfig::default().read_buffer_size(READ_BUFFER).write_buffer_size(0);
    let shaking = client_async_with_config(target.url.as_str(), stream, Some(config));
    match timeout(CONNECT_TIME, shaking).await {
        Ok(Ok((socket, _response))) => Ok(socket),
        Ok(Err(error)) => Err(from_ws(&error)),
        Err(_) => Err(Cause::Remote("handshake: no answer".to_owned())),
    }
}

/// The cause behind an error of the library.
pub(crate) fn from_ws(error: &WsError) -> Cause {
    match error {
        WsError::Io(e) => from_io(e, "socket"),
        WsError::Http(response) => Cause::Remote(format!("handshake: status {}", response.status().as_u16())),
        WsError::ConnectionClosed | WsError::AlreadyClosed => Cause::Remote("cut without a close frame".to_owned()),
        WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake | ProtocolError::HandshakeIncomplete) => {
            Cause::Remote("cut without a close frame".to_owned())
        }
        WsError::Protocol(_) | WsError::Capacity(_) | WsError::Utf8(_) => {
            Cause::Remote("the server broke the WebSocket protocol".to_owned())
        }
        _ => Cause::Remote("socket error".to_owned()),
    }
}

/// The cause behind a close frame.
pub(crate) fn from_close(frame: Option<&CloseFrame>) -> Cause {
    let Some(frame) = frame else { return Cause::Remote("close without a code".to_owned()) };
    let code = u16::from(frame.code);
    CloseCode::from_code(code).map_or_else(|| Cause::Remote(format!("close {code}")), Cause::Closed)
}

fn from_io(error: &io::Error, during: &str) -> Cause {
    use rustix::io::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    match errno {
        Some(Errno::MFILE | Errno::NFILE) => Cause::Own("no file left".to_owned()),
        Some(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE) => Cause::Own("no source port left".to_owned()),
        Some(Errno::NOMEM | Errno::NOBUFS) => Cause::Own("no memory left".to_owned()),
        _ => Cause::Remote(match error.kind() {
            io::ErrorKind::ConnectionRefused => "connect: refused".to_owned(),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
                format!("{during}: reset")
            }
            io::ErrorKind::TimedOut => format!("{during}: no answer"),
            _ => format!("{during}: failed"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_failures_are_told_from_the_servers() {
        let of = |errno: rustix::io::Errno| from_io(&io::Error::from_raw_os_error(errno.raw_os_error()), "connect");
        assert_eq!(of(rustix::io::Errno::MFILE), Cause::Own("no file left".to_owned()));
        assert_eq!(of(rustix::io::Errno::ADDRNOTAVAIL), Cause::Own("no source port left".to_owned()));
        assert_eq!(of(rustix::io::Errno::CONNREFUSED), Cause::Remote("connect: refused".to_owned()));
        assert_eq!(of(rustix::io::Errno::CONNRESET), Cause::Remote("connect: reset".to_owned()));
    }

    #[test]
    fn close_codes_have_their_names() {
        let frame = CloseFrame { code: 4005.into(), reason: "".into() };
        assert_eq!(from_close(Some(&frame)).label(), "close 4005 slow_consumer");
        assert_eq!(from_close(None).label(), "close without a code");
    }
}
