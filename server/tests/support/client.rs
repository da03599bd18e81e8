//! A player in a test: it keeps what it has sent until it is saved, mirrors the state, and counts what it was shown.

use std::{collections::HashMap, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use tenure_shared::{
    Seq, Term, Tick,
    delta::{View, ViewBounds},
    msgpack::Bounds,
    wire::{ClientMessage, Granted, Joined, ServerMessage, ServerMessages, Space, TableRow, Wanted},
};
use tokio::net::TcpStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

use super::process::PATIENCE;

/// A player.
pub(crate) struct Player {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// The guest token, once known.
    pub(crate) token: Option<String>,
    /// Player id.
    pub(crate) id: String,
    /// The answer to the join.
    pub(crate) joined: Option<Joined>,
    /// The room, as shown.
    pub(crate) view: View,
    /// The name table.
    pub(crate) table: Vec<TableRow>,
    /// Newest (term, tick) shown.
    pub(crate) shown: (Term, Tick),
    /// Marks.
    pub(crate) applied: u64,
    /// Marks.
    pub(crate) saved: u64,
    /// Next number to send.
    pub(crate) next: u64,
    /// Grants shown.
    pub(crate) grants: Vec<Granted>,
    /// Answers by request: payload, or (code, message).
    pub(crate) answers: HashMap<u32, Result<Vec<u8>, (String, String)>>,
    /// How often it was told that ticks were rolled back.
    pub(crate) rolled_back: u32,
    listed: Option<(u32, Vec<(String, u32)>)>,
    kept: Vec<(u64, Vec<u8>)>,
    requests: u32,
}

impl Player {
    /// Connects and logs in as a guest.
    pub(crate) async fn connect(url: &str, token: Option<String>) -> Self {
        let start = std::time::Instant::now();
        let socket = loop {
            match connect_async(url).await {
                Ok((socket, _)) => break socket,
                Err(error) => {
                    assert!(start.elapsed() < PATIENCE, "cannot connect to {url}: {error}");
                    tokio::task::yield_now().await;
                }
            }
        };
        let mut player = Self {
            socket,
            token,
            id: String::new(),
            joined: None,
            view: View::new(ViewBounds::default()),
            table: Vec::new(),
            shown: (Term(0), Tick(0)),
            applied: 0,
            saved: 0,
            next: 1,
            grants: Vec::new(),
            answers: HashMap::new(),
            rolled_back: 0,
            listed: None,
            kept: Vec::new(),
            requests: 0,
        };
        let token = player.token.clone();
        player.put(&ClientMessage::Hello { protocol: 1, token: token.as_deref(), table: None }).await;
        player.until("a welcome", |p| !p.id.is_empty()).await;
        player
    }

    /// Joins (or creates) the room of this name.
    pub(crate) async fn join(url: &str, kind: &str, name: &str) -> Self {
        let mut player = Self::connect(url, None).await;
        let wanted = Wanted { kind, region: None, name: Some(name), filter: &[] };
        let id = player.request_id();
        player.put(&ClientMessage::JoinOrCreate { id, wanted, options: &[0xc0] }).await;
        player.until("a seat", |p| p.joined.is_some()).await;
        player
    }

    /// Joins any room of the kind that fits the filter.
    pub(crate) async fn seek(url: &str, kind: &str, filter: &[u8]) -> Self {
        let mut player = Self::connect(url, None).await;
        let wanted = Wanted { kind, region: None, name: None, filter };
        let id = player.request_id();
        player.put(&ClientMessage::JoinOrCreate { id, wanted, options: &[0xc0] }).await;
        player.until("a seat", |p| p.joined.is_some()).await;
        player
    }

    /// The rooms that fit the filter: id and seats taken.
    pub(crate) async fn rooms(&mut self, filter: &[u8]) -> Vec<(String, u32)> {
        let id = self.request_id();
        let (kind, region, after) = (None, None, None);
        self.put(&ClientMessage::Rooms { id, kind, region, filter, open: false, after, limit: 50 }).await;
        self.until("a list", |p| p.listed.as_ref().is_some_and(|(of, _)| *of == id)).await;
        self.listed.take().expect("a list").1
    }

    /// Opens a new socket and takes the seat again, as a client does after a drop; then sends what is owed.
    pub(crate) async fn resume(mut self, url: &str) -> Self {
        let old = self.joined.take().expect("it had joined");
        drop(self.socket);
        let mut player = Self::connect(url, self.token.take()).await;
        player.next = self.next;
        player.grants = self.grants;
        player.answers = self.answers;
        player.requests = self.requests;
        player.table = self.table;
        let first = self.kept.first().map_or(self.next, |k| k.0);
        let id = player.request_id();
        player
            .put(&ClientMessage::Resume {
                id,
                room: old.room,
                session: &old.session,
                shown: self.shown,
                first: Seq(first),
                resumes: old.generation.0 + 1,
            })
            .await;
        player.kept = self.kept;
        player.until("its seat", |p| p.joined.is_some()).await;
        let owed = player.joined.as_ref().expect("joined").owed.0;
        let again: Vec<Vec<u8>> = player.kept.iter().filter(|k| k.0 >= owed).map(|k| k.1.clone()).collect();
        for bytes in again {
            player.raw(bytes).await;
        }
        player
    }

    /// The number of a name in the table.
    pub(crate) fn number(&self, space: Space, name: &str) -> u16 {
        self.table
            .iter()
            .find(|row| row.space == space && row.name == name)
            .unwrap_or_else(|| panic!("{name} is not in the table"))
            .number
    }

    /// Sends a message to the room, by name; `payload` is MessagePack.
    pub(crate) async fn send(&mut self, name: &str, payload: &[u8]) {
        let kind = self.number(Space::Message, name);
        let seq = self.next;
        let mut bytes = Vec::new();
        ClientMessage::Message { seq: Seq(seq), kind, payload }.encode(&mut bytes);
        self.numbered(bytes).await;
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn request(&mut self, name: &str, payload: &[u8]) -> Result<Vec<u8>, (String, String)> {
        let kind = self.number(Space::Request, name);
        let (seq, id) = (self.next, self.request_id());
        let mut bytes = Vec::new();
        ClientMessage::Request { seq: Seq(seq), id, kind, payload }.encode(&mut bytes);
        self.numbered(bytes).await;
        self.until("an answer", |p| p.answers.contains_key(&id)).await;
        self.answers.remove(&id).expect("it is there")
    }

    /// Reads until the condition holds.
    pub(crate) async fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let limit = tokio::time::sleep(PATIENCE);
        tokio::pin!(limit);
        while !done(self) {
            tokio::select! {
                () = &mut limit => panic!("{what} did not come; shown {:?}, applied {}, saved {}", self.shown, self.applied, self.saved),
                message = self.socket.next() => match message {
                    Some(Ok(Message::Binary(bytes))) => self.read(&bytes),
                    Some(Ok(Message::Close(frame))) => panic!("closed while waiting for {what}: {frame:?}"),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => panic!("lost while waiting for {what}: {error}"),
                    None => panic!("ended while waiting for {what}"),
                },
            }
        }
    }

    /// Reads until the socket is closed: the close code, if one came.
    pub(crate) async fn closed(&mut self) -> Option<u16> {
        let read = async {
            while let Some(message) = self.socket.next().await {
                match message {
                    Ok(Message::Close(frame)) => return frame.map(|f| u16::from(f.code)),
                    Ok(_) => {}
                    Err(_) => return None,
                }
            }
            None
        };
        tokio::time::timeout(PATIENCE, read).await.expect("the socket is closed in time")
    }

    /// Values of a component, for all entities that have it.
    pub(crate) fn all(&self, component: &str) -> Vec<(u64, Vec<u8>)> {
        let number = self.number(Space::Component, component);
        self.view.entities().iter().filter_map(|(id, c)| Some((*id, c.get(&number)?.clone()))).collect()
    }

    fn request_id(&mut self) -> u32 {
        self.requests += 1;
        self.requests
    }

    async fn numbered(&mut self, bytes: Vec<u8>) {
        self.kept.push((self.next, bytes.clone()));
        self.next += 1;
        self.raw(bytes).await;
    }

    async fn put(&mut self, message: &ClientMessage<'_>) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.raw(bytes).await;
    }

    // A socket that the server has just lost takes no more: the test sees that when it reads.
    async fn raw(&mut self, bytes: Vec<u8>) {
        drop(tokio::time::timeout(Duration::from_secs(10), self.socket.send(Message::Binary(bytes.into()))).await);
    }

    fn read(&mut self, bytes: &[u8]) {
        for message in ServerMessages::new(bytes, &Bounds::SERVER) {
            match message.expect("well-formed") {
                ServerMessage::Welcome(welcome) => {
                    self.id = welcome.player.as_str().to_owned();
                    if welcome.token.is_some() {
                        self.token = welcome.token;
                    }
                }
                ServerMessage::Joined(joined) => {
                    if let Some(table) = &joined.table {
                        self.table.clone_from(table);
                    }
                    self.applied = joined.owed.0 - 1;
                    self.joined = Some(joined);
                }
                ServerMessage::Frame { term, tick, ops } => {
                    assert!((term, tick) > self.shown, "H7: {term}/{tick} after {:?}", self.shown);
                    self.shown = (term, tick);
                    self.view.apply(ops).expect("ops");
                }
                ServerMessage::Snapshot { term, tick, ops } => {
                    self.shown = (term, tick);
                    self.view.snapshot(ops).expect("ops");
                }
                ServerMessage::Tail { applied, saved, ops } => {
                    self.applied = applied.0;
                    self.saved = saved.0;
                    self.kept.retain(|k| k.0 > saved.0);
                    self.view.apply(ops).expect("ops");
                }
                ServerMessage::Reply { id, payload } => {
                    self.answers.insert(id, Ok(payload.to_vec()));
                }
                ServerMessage::Error { id, code, message, .. } => {
                    self.answers.insert(id, Err((code.to_owned(), message.to_owned())));
                }
                ServerMessage::Granted(granted) => self.grants.push(granted),
                ServerMessage::Session { session } => {
                    if let Some(joined) = &mut self.joined {
                        joined.session = session.to_owned();
                    }
                }
                ServerMessage::Quiet { term, tick } => self.shown = (term, tick),
                ServerMessage::Refused { seq, code, message } => panic!("message {seq} was refused: {code} {message}"),
                ServerMessage::Left { .. }
                | ServerMessage::Message { .. }
                | ServerMessage::Pong { .. }
                | ServerMessage::Move { .. } => {}
                ServerMessage::Rooms { id, rooms, .. } => {
                    let rooms = rooms.into_iter().map(|room| (room.room.to_string(), room.seats)).collect();
                    self.listed = Some((id, rooms));
                }
                ServerMessage::RolledBack { .. } => self.rolled_back += 1,
                ServerMessage::Renewed { seat, table, .. } => {
                    if let Some(joined) = &mut self.joined {
                        joined.seat = seat;
                    }
                    if let Some(table) = table {
                        self.table = table;
                    }
                }
            }
        }
    }
}
