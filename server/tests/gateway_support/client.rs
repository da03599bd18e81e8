//! Clients: a real WebSocket client, and one that writes whatever bytes it likes.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use tenure_shared::{
    RoomId, Seq, Term, Tick, msgpack,
    wire::{ClientMessage, Joined, ServerMessage, ServerMessages, Wanted, Welcome},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, client::IntoClientRequest as _},
};

use super::soon;

/// How a socket ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// With a close frame.
    Code(u16, String),
    /// Without.
    Gone,
}

pub struct Client<S = TcpStream> {
    pub ws: WebSocketStream<S>,
    /// The WebSocket message being looked through, and how many messages of it were.
    current: (Bytes, usize),
    pub seq: u64,
}

impl Client {
    pub async fn connect(addr: SocketAddr) -> Self {
        Self::over(TcpStream::connect(addr).await.expect("connected")).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub async fn over(stream: S) -> Self {
        let request = "ws://127.0.0.1/ws".into_client_request().expect("a request");
        let (ws, _) = tokio_tungstenite::client_async(request, stream).await.expect("upgraded");
        Self { ws, current: (Bytes::new(), 0), seq: 0 }
    }

    pub async fn send(&mut self, message: ClientMessage<'_>) {
        let mut out = Vec::new();
        message.encode(&mut out);
        soon(self.ws.send(Message::Binary(out.into()))).await.expect("sent");
    }

    /// The first message for which `pick` gives something; others are passed over.
    pub async fn find<T>(&mut self, mut pick: impl FnMut(&ServerMessage<'_>) -> Option<T>) -> Result<T, Ended> {
        loop {
            let (bytes, from) = self.current.clone();
            for (n, message) in ServerMessages::new(&bytes, &msgpack::Bounds::SERVER).enumerate().skip(from) {
                self.current.1 = n + 1;
                if let Some(found) = pick(&message.expect("readable")) {
                    return Ok(found);
                }
            }
            match soon(self.ws.next()).await {
                Some(Ok(Message::Binary(bytes))) => self.current = (bytes, 0),
                Some(Ok(Message::Close(close))) => {
                    let close = close.map_or(Ended::Gone, |c| Ended::Code(c.code.into(), c.reason.to_string()));
                    // Tungstenite answers the close when it is read on.
                    while let Some(Ok(_)) = soon(self.ws.next()).await {}
                    return Err(close);
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(Ended::Gone),
            }
        }
    }

    /// As [`Client::find`]; the socket must not end before.
    pub async fn expect<T>(&mut self, pick: impl FnMut(&ServerMessage<'_>) -> Option<T>) -> T {
        match self.find(pick).await {
            Ok(found) => found,
            Err(ended) => panic!("the socket ended: {ended:?}"),
        }
    }

    /// Reads to the end.
    pub async fn ended(&mut self) -> Ended {
        match self.find(|_| None::<()>).await {
            Ok(()) => unreachable!("nothing is picked"),
            Err(ended) => ended,
        }
    }

    pub async fn hello(&mut self, token: Option<&str>) -> Welcome {
        self.send(ClientMessage::Hello { protocol: 1, token, table: None }).await;
        self.expect(|m| if let ServerMessage::Welcome(w) = m { Some(w.clone()) } else { None }).await
    }

    /// Joins or creates a room by name.
    pub async fn enter(&mut self, name: &str) -> Joined {
        let wanted = Wanted { kind: "arena", region: None, name: Some(name), filter: &[] };
        self.send(ClientMessage::JoinOrCreate { id: 1, wanted, options: &[0xc0] }).await;
        self.joined().await.expect("joined")
    }

    pub async fn resume(
        &mut self,
        room: &RoomId,
        session: &str,
        shown: (u64, u64),
        first: u64,
    ) -> Result<Joined, String> {
        let shown = (Term(shown.0), Tick(shown.1));
        self.send(ClientMessage::Resume { id: 2, room: room.clone(), session, shown, first: Seq(first), resumes: 0 })
            .await;
        self.joined().await
    }

    /// The code with which a resume is refused on a socket that has a seat.
    pub async fn joined_error(&mut self, session: &str) -> String {
        let room = RoomId::new("arena/eu/k3").expect("id");
        self.resume(&room, session, (0, 0), 1).await.expect_err("refused")
    }

    /// `joined`, or the code of the error, or how the socket ended.
    pub async fn joined(&mut self) -> Result<Joined, String> {
        let answer = self.find(|m| match m {
            ServerMessage::Joined(joined) => Some(Ok(joined.clone())),
            ServerMessage::Error { code, .. } => Some(Err((*code).to_owned())),
            _ => None,
        });
        match answer.await {
            Ok(answer) => answer,
            Err(ended) => Err(format!("{ended:?}")),
        }
    }

    /// The session token that is offered after a resume.
    pub async fn offered(&mut self) -> String {
        self.expect(|m| if let ServerMessage::Session { session } = m { Some((*session).to_owned()) } else { None })
            .await
    }

    pub async fn input(&mut self, seq: u64) {
        self.send(ClientMessage::Message { seq: Seq(seq), kind: 0, payload: &[0x2a] }).await;
    }

    /// A ping that comes back: all that was sent before has been handled.
    pub async fn settle(&mut self) {
        self.send(ClientMessage::Ping { id: 77 }).await;
        self.expect(|m| matches!(m, ServerMessage::Pong { id: 77, .. }).then_some(())).await;
    }
}

/// A masked frame as clients send it.
pub fn client_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match payload.len() {
        n if n < 126 => out.push(0x80 | n as u8),
        n if n < 65_536 => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(n as u16).to_be_bytes());
        }
        n => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(n as u64).to_be_bytes());
        }
    }
    let mask = [1, 2, 3, 4];
    out.extend_from_slice(&mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

/// Bytes as they come.
pub struct Raw(pub TcpStream);

impl Raw {
    pub async fn upgraded(addr: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(addr).await.expect("connected");
        stream.write_all(&upgrade_request("")).await.expect("sent");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("an answer"));
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        Self(stream)
    }

    pub async fn hello(&mut self) {
        let mut hello = Vec::new();
        ClientMessage::Hello { protocol: 1, token: None, table: None }.encode(&mut hello);
        self.write(&client_frame(0x82, &hello)).await;
    }

    /// Writes what the server still takes.
    pub async fn write(&mut self, bytes: &[u8]) {
        drop(soon(self.0.write_all(bytes)).await);
    }

    /// Reads to the end and gives the code of the close frame, if one came.
    pub async fn close_code(mut self) -> Option<u16> {
        let mut all = Vec::new();
        let read = self.0.read_to_end(&mut all);
        // A reset after the close is the system's doing once the server's time to read on is over.
        drop(tokio::time::timeout(Duration::from_secs(20), read).await.expect("closed in time"));
        let mut rest = &all[..];
        while let [opcode, len, after @ ..] = rest {
            let (len, after) = match len {
                126 => (usize::from(u16::from_be_bytes([after[0], after[1]])), &after[2..]),
                n => (usize::from(*n), after),
            };
            if *opcode == 0x88 {
                return Some(u16::from_be_bytes([after[0], after[1]]));
            }
            rest = after.get(len..)?;
        }
        None
    }
}

pub fn upgrade_request(more: &str) -> Vec<u8> {
    format!(
        "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
    )
    .into_bytes()
}
