//! What each attack does on the wire.

use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use tenure_shared::{
    Seq,
    limits::PROTOCOL,
    msgpack::Bounds,
    wire::{ClientMessage, ServerMessage, ServerMessages, Wanted},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{sleep, timeout},
};
use tokio_tungstenite::tungstenite::{Error as WsError, Message, client::IntoClientRequest, http::HeaderValue};

use super::{
    Enemy,
    attack::{Attack, Seen},
    raw::{self, BINARY, CONTINUATION, PING, TEXT},
};
use crate::{
    bot::state::encoded,
    host::Group,
    net::{self, Cause, Socket},
};

/// How long a bad client waits for its end.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same where the server may bear 25 s of silence.
const LONG_PATIENCE: Duration = Duration::from_secs(40);
/// How long slow readers go on: the server's socket buffer fills, then it bears unread data for up to 10 s.
const HUNGER: Duration = Duration::from_secs(30);
/// How long a flood goes on, and the pause between two of its bursts: a thousand frames a second are far above every
/// limit, and leave the honest bots their share of a machine that carries both.
const FLOOD: Duration = Duration::from_secs(3);
const BURST: (usize, Duration) = (50, Duration::from_millis(50));
/// A slow reader takes this much, this often.
const SIP: (usize, Duration) = (512, Duration::from_millis(500));

/// Carries the attack out.
pub(super) async fn act(attack: Attack, enemy: &Enemy) -> Result<Seen, Cause> {
    match attack {
        Attack::NeverReads => {
            let socket = joined(enemy).await?;
            Ok(starve(socket, None).await)
        }
        Attack::ReadsSlowly => {
            let socket = joined(enemy).await?;
            Ok(starve(socket, Some(SIP)).await)
        }
        Attack::HalfOpen => {
            // Reading below the library answers no ping.
            let mut socket = logged_in(enemy).await?;
            Ok(drain(socket.get_mut(), LONG_PATIENCE).await)
        }
        Attack::SaysNothing => {
            let mut stream = net::tcp(&enemy.target, Group::Bad, enemy.index).await?;
            Ok(drain(&mut stream, PATIENCE).await)
        }
        Attack::NoHttp => {
            let mut stream = net::tcp(&enemy.target, Group::Bad, enemy.index).await?;
            let noise: Vec<u8> = (0..2000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            let _refused = stream.write_all(&noise).await;
            Ok(drain(&mut stream, PATIENCE).await)
        }
        Attack::NeverLogsIn => Ok(end(&mut connected(enemy).await?, PATIENCE).await),
        Attack::Claims32 => before_login(enemy, &raw::header(true, BINARY, 1 << 32, true)).await,
        Attack::Claims63 => before_login(enemy, &raw::header(true, BINARY, (1 << 63) - 1, true)).await,
        Attack::Fragments => {
            let mut bytes = raw::frame(false, BINARY, &[0xc0; 64]);
            (0..9_999).for_each(|_| bytes.extend(raw::frame(false, CONTINUATION, &[0xc0; 64])));
            before_login(enemy, &bytes).await
        }
        Attack::TooLong => after_login(enemy, &raw::frame(true, BINARY, &[0xc0; 70_000])).await,
        Attack::Deep => {
            let nested = [vec![0x91; 100_000], vec![0xc0]].concat();
            before_login(enemy, &raw::frame(true, BINARY, &nested)).await
        }
        Attack::DeepShort => {
            let nested = [vec![0x94, 7, 1, 0], vec![0x91; 900], vec![0xc0]].concat();
            before_login(enemy, &raw::frame(true, BINARY, &nested)).await
        }
        Attack::FalseLength => {
            let claims: [&[u8]; 4] = [
                &[0xdd, 0xff, 0xff, 0xff, 0xff],
                &[0xdf, 0xff, 0xff, 0xff, 0xff],
                &[0x94, 7, 1, 0, 0xc6, 0xff, 0xff, 0xff, 0xff],
                &[0xc9, 0xff, 0xff, 0xff, 0xff, 1],
            ];
            let claim = claims[enemy.index as usize / Attack::ALL.len() % claims.len()];
            after_login(enemy, &raw::frame(true, BINARY, claim)).await
        }
        Attack::Text => after_login(enemy, &raw::frame(true, TEXT, b"hello")).await,
        Attack::BadUtf8 => {
            let hello = [0x94, 1, 1, 0xa2, 0xc3, 0x28, 0xc0];
            before_login(enemy, &raw::frame(true, BINARY, &hello)).await
        }
        Attack::PingFlood => flood(joined(enemy).await?, || raw::frame(true, PING, &[7; 100])).await,
        Attack::MessageFlood => {
            let mut seq = 0;
            let next = move || {
                seq += 1;
                let steer = ClientMessage::Message { seq: Seq(seq), kind: 0, payload: &[0x92, 1, 1] };
                raw::frame(true, BINARY, &encoded(&steer))
            };
            flood(joined(enemy).await?, next).await
        }
        Attack::Garbage => {
            let noise: Vec<u8> = (1..900_u32).map(|n| (n.wrapping_mul(2_246_822_519) >> 23) as u8).collect();
            before_login(enemy, &raw::frame(true, BINARY, &noise)).await
        }
        Attack::BeforeLogin => {
            let steer = ClientMessage::Message { seq: Seq(1), kind: 0, payload: &[0x92, 1, 1] };
            before_login(enemy, &raw::frame(true, BINARY, &encoded(&steer))).await
        }
        Attack::HelloTwice => after_login(enemy, &raw::frame(true, BINARY, &hello())).await,
        Attack::WrongOrigin => wrong_origin(enemy).await,
        Attack::SeqGap => {
            let steer = |seq| encoded(&ClientMessage::Message { seq: Seq(seq), kind: 0, payload: &[0x92, 1, 1] });
            let bytes = [raw::frame(true, BINARY, &steer(1)), raw::frame(true, BINARY, &steer(5))].concat();
            let mut socket = joined(enemy).await?;
            write(&mut socket, &bytes).await;
            Ok(end(&mut socket, PATIENCE).await)
        }
        Attack::Unmasked => {
            let mut bytes = raw::header(true, BINARY, 1, false);
            bytes.push(0xc0);
            before_login(enemy, &bytes).await
        }
    }
}

fn hello() -> Vec<u8> {
    encoded(&ClientMessage::Hello { protocol: PROTOCOL, token: None, table: None })
}

async fn connected(enemy: &Enemy) -> Result<Socket, Cause> {
    net::websocket(&enemy.target, Group::Bad, enemy.index).await
}

async fn before_login(enemy: &Enemy, bytes: &[u8]) -> Result<Seen, Cause> {
    let mut socket = connected(enemy).await?;
    write(&mut socket, bytes).await;
    Ok(end(&mut socket, PATIENCE).await)
}

async fn after_login(enemy: &Enemy, bytes: &[u8]) -> Result<Seen, Cause> {
    let mut socket = logged_in(enemy).await?;
    write(&mut socket, bytes).await;
    Ok(end(&mut socket, PATIENCE).await)
}

/// Writes past the library. The server may have closed already: the end is read later.
async fn write(socket: &mut Socket, bytes: &[u8]) {
    let _closed = timeout(PATIENCE, socket.get_mut().write_all(bytes)).await;
}

async fn logged_in(enemy: &Enemy) -> Result<Socket, Cause> {
    let mut socket = connected(enemy).await?;
    socket.send(Message::binary(hello())).await.map_err(|e| net::from_ws(&e))?;
    wait(&mut socket, |message| matches!(message, ServerMessage::Welcome(_))).await?;
    Ok(socket)
}

/// Joins a room of the honest bots, or one of its own where that has no seat left.
async fn joined(enemy: &Enemy) -> Result<Socket, Cause> {
    let mut socket = logged_in(enemy).await?;
    let own = format!("bad-{}", enemy.index % 8);
    for (id, name) in [(1, enemy.room.as_str()), (2, own.as_str())] {
        let wanted = Wanted { kind: &enemy.kind, region: Some(&enemy.region), name: Some(name), filter: &[] };
        let join = encoded(&ClientMessage::JoinOrCreate { id, wanted, options: &[0xc0] });
        socket.send(Message::binary(join)).await.map_err(|e| net::from_ws(&e))?;
        let mut seated = false;
        wait(&mut socket, |message| match message {
            ServerMessage::Joined(_) => {
                seated = true;
                true
            }
            ServerMessage::Error { .. } => true,
            _ => false,
        })
        .await?;
        if seated {
            return Ok(socket);
        }
    }
    Err(Cause::Remote("no seat".to_owned()))
}

/// Reads until `wanted` says yes.
async fn wait(socket: &mut Socket, mut wanted: impl FnMut(&ServerMessage<'_>) -> bool) -> Result<(), Cause> {
    let reading = async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Binary(bytes))) => {
                    if ServerMessages::new(&bytes, &Bounds::SERVER).flatten().any(|message| wanted(&message)) {
                        return Ok(());
                    }
                }
                Some(Ok(Message::Close(frame))) => return Err(net::from_close(frame.as_ref())),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(net::from_ws(&error)),
                None => return Err(Cause::Remote("cut without a close frame".to_owned())),
            }
        }
    };
    timeout(PATIENCE, reading).await.unwrap_or_else(|_| Err(Cause::Remote("no answer".to_owned())))
}

/// Reads until the connection ends.
async fn end(socket: &mut Socket, patience: Duration) -> Seen {
    let reading = async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Close(frame))) => return frame.map_or(Seen::Cut, |f| Seen::Closed(f.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Seen::Cut,
            }
        }
    };
    timeout(patience, reading).await.unwrap_or(Seen::StillOpen)
}

/// Reads raw bytes until the end; the first ones may be an HTTP status.
async fn drain(stream: &mut (impl AsyncReadExt + Unpin), patience: Duration) -> Seen {
    let reading = async {
        let mut start = Vec::new();
        let mut buffer = [0; 1024];
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(n) if start.len() < 64 => start.extend_from_slice(buffer.get(..n).unwrap_or_default()),
                Ok(_) => {}
            }
        }
        let text = String::from_utf8_lossy(&start);
        let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        status.map_or(Seen::Cut, Seen::Status)
    };
    timeout(patience, reading).await.unwrap_or(Seen::StillOpen)
}

/// Takes nothing, or a sip now and then, from the socket below the library; then looks whether the server let go.
async fn starve(mut socket: Socket, sip: Option<(usize, Duration)>) -> Seen {
    let begin = Instant::now();
    let stream = socket.get_mut();
    let (size, pause) = sip.unwrap_or((0, HUNGER));
    let mut buffer = vec![0; size];
    while begin.elapsed() < HUNGER {
        sleep(pause).await;
        if size > 0 && matches!(stream.try_read(&mut buffer), Ok(0)) {
            return Seen::Cut;
        }
    }
    drain(stream, PATIENCE).await
}

/// Sends bursts of what `next` gives and reads nothing, then looks how it ended.
async fn flood(mut socket: Socket, mut next: impl FnMut() -> Vec<u8>) -> Result<Seen, Cause> {
    let begin = Instant::now();
    while begin.elapsed() < FLOOD {
        let burst: Vec<u8> = (0..BURST.0).flat_map(|_| next()).collect();
        let sent = timeout(FLOOD, socket.get_mut().write_all(&burst)).await;
        if !matches!(sent, Ok(Ok(()))) {
            break;
        }
        sleep(BURST.1).await;
    }
    Ok(end(&mut socket, PATIENCE).await)
}

async fn wrong_origin(enemy: &Enemy) -> Result<Seen, Cause> {
    let stream = net::tcp(&enemy.target, Group::Bad, enemy.index).await?;
    let mut request = enemy.target.url.as_str().into_client_request().map_err(|e| net::from_ws(&e))?;
    request.headers_mut().insert("Origin", HeaderValue::from_static("https://evil.example"));
    match timeout(PATIENCE, tokio_tungstenite::client_async(request, stream)).await {
        Ok(Ok(_)) => Ok(Seen::StillOpen),
        Ok(Err(WsError::Http(response))) => Ok(Seen::Status(response.status().as_u16())),
        Ok(Err(_)) => Ok(Seen::Cut),
        Err(_) => Ok(Seen::StillOpen),
    }
}
