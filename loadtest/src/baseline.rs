//! The bare baseline: the least that a server on this stack does for the arena's workload. One task and one bounded
//! queue per connection, a task per room, nothing stored, nothing checked that the protocol does not need.
//! It is what `compare` measures a server against, and the server that this crate's own tests talk to.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tenure_shared::{
    PlayerId, RoomId, Seq,
    codes::CloseCode,
    limits::{CLIENT_MESSAGE_BYTES, PROTOCOL},
    msgpack::{Bounds, Reader},
    wire::{ClientMessage, ClientMessages, ServerMessage, Welcome},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, accept_async_with_config,
    tungstenite::{
        Message,
        protocol::{CloseFrame, WebSocketConfig},
    },
};

mod room;

pub(crate) use room::Save;
use room::{Command, Piece, Seated};

/// What rooms save once a second, by room. It lives as long as the caller keeps it: longer than a server, if so wanted.
pub(crate) type Saves = Arc<Mutex<HashMap<RoomId, Save>>>;

/// Messages that wait for a slow connection before frames are left out.
const QUEUE: usize = 64;
/// Commands that wait for a room.
const ROOM_QUEUE: usize = 4096;
/// Time for the WebSocket handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);

/// All rooms of one baseline.
#[derive(Debug, Default)]
struct Hall {
    rooms: Mutex<HashMap<RoomId, mpsc::Sender<Command>>>,
    players: AtomicU64,
    ends: Ends,
    saves: Saves,
}

impl Hall {
    fn room(&self, id: &RoomId) -> mpsc::Sender<Command> {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || {
            let (commands, queue) = mpsc::channel(ROOM_QUEUE);
            tokio::spawn(room::run(id.clone(), self.saves.clone(), queue));
            commands
        };
        rooms.entry(id.clone()).or_insert_with(open).clone()
    }
}

/// What happens to connections after so many ticks, to watch bots come back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    /// They are cut.
    pub(crate) cut_after: Option<u64>,
    /// They are asked to move to another connection, and serve on until that has the seat.
    pub(crate) move_after: Option<u64>,
}

/// Serves until the listener fails; rooms begin as `saves` has them.
///
/// # Errors
/// When no more connections can be accepted.
pub(crate) async fn serve(listener: TcpListener, ends: Ends, saves: Saves) -> io::Result<()> {
    let hall = Arc::new(Hall { ends, saves, ..Hall::default() });
    loop {
        let (stream, _) = listener.accept().await?;
        let hall = hall.clone();
        tokio::spawn(async move {
            // A connection that fails ends; the bots count it.
            let _ended = connection(stream, &hall).await;
        });
    }
}

/// Why a connection ends: a close code, or the socket is gone already.
type Ended = Option<CloseCode>;

/// A connection's place in a room.
struct Place {
    room: mpsc::Sender<Command>,
    seat: u32,
    generation: u32,
}

async fn connection(stream: TcpStream, hall: &Hall) -> Result<(), Ended> {
    stream.set_nodelay(true).map_err(|_| None)?;
    let config = WebSocketConfig::default()
        .read_buffer_size(2048)
        .write_buffer_size(0)
        .max_message_size(Some(CLIENT_MESSAGE_BYTES))
        .max_frame_size(Some(CLIENT_MESSAGE_BYTES));
    let shaking = timeout(HANDSHAKE_TIME, accept_async_with_config(stream, Some(config)));
    let Ok(Ok(mut socket)) = shaking.await else { return Err(None) };
    let mut place = None;
    let result = talk(&mut socket, hall, &mut place).await;
    if let Some(Place { room, seat, generation }) = place {
        let _gone = room.send(Command::Gone { seat, generation }).await;
    }
    if let Err(Some(code)) = result {
        let frame = CloseFrame { code: code.code().into(), reason: code.name().into() };
        let _closed = socket.close(Some(frame)).await;
    }
    result
}

async fn talk(socket: &mut WebSocketStream<TcpStream>, hall: &Hall, place: &mut Option<Place>) -> Result<(), Ended> {
    let (out, mut queue) = mpsc::channel::<Piece>(QUEUE);
    let mut ticks = 0;
    loop {
        tokio::select! {
            message = socket.next() => match message {
                Some(Ok(Message::Binary(bytes))) => {
                    for message in ClientMessages::new(&bytes, &Bounds::CLIENT) {
                        let message = message.map_err(|_| Some(CloseCode::ProtocolError))?;
                        handle(message, socket, hall, place, &out).await?;
                    }
                }
                Some(Ok(Message::Text(_))) => return Err(Some(CloseCode::ProtocolError)),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(None),
            },
            piece = queue.recv() => {
                let Some(piece) = piece else { return Err(None) };
                ticks += 1;
                if hall.ends.cut_after.is_some_and(|limit| ticks > limit) {
                    return Err(None);
                }
                send(socket, piece.into_bytes()).await?;
                if hall.ends.move_after == Some(ticks) {
                    reply(socket, &ServerMessage::Move { urls: Vec::new(), after: 0 }).await?;
                }
            }
        }
    }
}

async fn send(socket: &mut WebSocketStream<TcpStream>, bytes: impl Into<Bytes>) -> Result<(), Ended> {
    socket.send(Message::Binary(bytes.into())).await.map_err(|_| None)
}

async fn reply(socket: &mut WebSocketStream<TcpStream>, message: &ServerMessage<'_>) -> Result<(), Ended> {
    let mut out = Vec::new();
    message.encode(&mut out);
    send(socket, out).await
}

async fn handle(
    message: ClientMessage<'_>,
    socket: &mut WebSocketStream<TcpStream>,
    hall: &Hall,
    place: &mut Option<Place>,
    out: &mpsc::Sender<Piece>,
) -> Result<(), Ended> {
    let broken = Some(CloseCode::ProtocolError);
    match message {
        ClientMessage::Hello { token, .. } => {
            let new = || format!("guest:{}", hall.players.fetch_add(1, Ordering::Relaxed));
            let token = token.map_or_else(new, str::to_owned);
            let welcome = Welcome {
                protocol: PROTOCOL,
                player: PlayerId::new(&token).map_err(|_| broken)?,
                token: Some(token),
                server: "baseline".to_owned(),
                ping: 10_000,
                idle: 25_000,
                bytes: CLIENT_MESSAGE_BYTES as u32,
                rate: 60,
            };
            reply(socket, &ServerMessage::Welcome(welcome)).await
        }
        ClientMessage::JoinOrCreate { id, wanted, .. } => {
            let parts = (wanted.kind, wanted.region.unwrap_or("local"), wanted.name.unwrap_or("any"));
            let room = RoomId::from_parts(parts.0, parts.1, parts.2).map_err(|_| broken)?;
            let room = hall.room(&room);
            let (answer, seated) = oneshot::channel();
            let command = Command::Join { id, session: None, out: out.clone(), answer };
            room.send(command).await.map_err(|_| Some(CloseCode::Internal))?;
            seat(socket, room, seated, place).await
        }
        ClientMessage::Resume { id, room, session, .. } => {
            let room = hall.room(&room);
            let (answer, seated) = oneshot::channel();
            let command = Command::Join { id, session: Some(session.to_owned()), out: out.clone(), answer };
            room.send(command).await.map_err(|_| Some(CloseCode::Internal))?;
            seat(socket, room, seated, place).await
        }
        ClientMessage::Message { seq: Seq(seq), payload, .. } => {
            let Some(Place { room, seat, .. }) = place else { return Err(broken) };
            let steer = steer(payload).ok_or(broken)?;
            room.send(Command::Input { seat: *seat, seq, steer }).await.map_err(|_| Some(CloseCode::Internal))
        }
        ClientMessage::Resync => {
            let Some(Place { room, seat, .. }) = place else { return Err(broken) };
            room.send(Command::Resync { seat: *seat }).await.map_err(|_| Some(CloseCode::Internal))
        }
        ClientMessage::Leave { id } => {
            if let Some(Place { room, seat, .. }) = place.take() {
                let _gone = room.send(Command::Leave { seat }).await;
            }
            reply(socket, &ServerMessage::Left { id }).await
        }
        ClientMessage::Ping { id } => reply(socket, &ServerMessage::Pong { id, time: 0 }).await,
        ClientMessage::Rooms { id, .. } => {
            reply(socket, &ServerMessage::Rooms { id, rooms: Vec::new(), next: None }).await
        }
        ClientMessage::SessionAck { .. } | ClientMessage::Table { .. } => Ok(()),
        ClientMessage::Create { .. } | ClientMessage::Join { .. } | ClientMessage::Request { .. } => Err(broken),
    }
}

/// Waits for the room's answer and passes it on.
async fn seat(
    socket: &mut WebSocketStream<TcpStream>,
    room: mpsc::Sender<Command>,
    seated: oneshot::Receiver<Option<Seated>>,
    place: &mut Option<Place>,
) -> Result<(), Ended> {
    let seated = seated.await.map_err(|_| Some(CloseCode::Internal))?.ok_or(Some(CloseCode::ResumeFailed))?;
    *place = Some(Place { room, seat: seated.seat, generation: seated.generation });
    send(socket, seated.joined).await
}

fn steer(payload: &[u8]) -> Option<(i8, i8)> {
    let mut reader = Reader::new(payload);
    let len = reader.array(&Bounds::CLIENT).ok()?;
    let mut part = || reader.i54().ok().and_then(|n| i8::try_from(n).ok());
    let steer = (part()?, part()?);
    (len == 2 && reader.is_empty()).then_some(steer)
}
