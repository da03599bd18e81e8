//! Session records: how a seat is resumed. Every change is a compare-and-set, so that two sockets of one player cannot undo each
//! other's tokens.
//!
//! `current` opens the seat; `next`, once there is one, opens it too, and with its first use or its acknowledgement it becomes the
//! current one. A wrong token changes nothing. Whoever loses a race takes over what the winner wrote: it is the same player.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use ring::digest;
use tenure_shared::{PlayerId, RoomId, SeatId};

use super::state::{Ask, Stored, Tokens};
use crate::{
    runtime::{Clock, Rng},
    store::{Command, Error, Reply, Session, Stamped},
};

/// How the gateway reaches the store: carries out one verb.
pub type StoreCalls = Arc<dyn Fn(Command) -> Pin<Box<dyn Future<Output = Stamped> + Send>> + Send + Sync>;

/// How long a question about a session may take, retries included.
const LIMIT: Duration = Duration::from_secs(2);
/// Pause before a verb whose answer was lost is sent again.
const PAUSE: Duration = Duration::from_millis(100);
/// Compare-and-sets that are tried while others change the record.
const TRIES: usize = 8;

/// The store, as far as sessions need it.
#[derive(Clone)]
pub(super) struct Sessions {
    store: StoreCalls,
    clock: Clock,
    rng: Rng,
}

/// The question cannot be answered now.
struct Lost;

impl Sessions {
    pub(super) fn new(store: StoreCalls, clock: Clock, rng: Rng) -> Self {
        Self { store, clock, rng }
    }

    /// Answers within [`LIMIT`].
    pub(super) async fn answer(self, ask: Ask) -> Stored {
        let limit = self.clock.sleep(LIMIT);
        // A lost acknowledgement is not a failure of anything else: nobody waits for it.
        let nobodys = matches!(ask, Ask::Acknowledge { .. } | Ask::Reseat { .. });
        let failed = if nobodys { Stored::Acknowledged } else { Stored::Failed };
        let answer = self.find_out(ask);
        tokio::select! {
            biased;
            answer = answer => answer.unwrap_or(failed),
            () = limit => failed,
        }
    }

    async fn find_out(&self, ask: Ask) -> Result<Stored, Lost> {
        match ask {
            Ask::Load { player, room, token } => {
                let session = self.load(&player, &room).await?;
                Ok(Stored::Loaded(session.filter(|session| opens(session, &token))))
            }
            Ask::Open { player, room, seat, options } => self.open(player, room, seat, options).await,
            Ask::Turn { session, token, seat } => self.turn(session, token, seat).await,
            Ask::Reseat { player, room, from, to } => {
                self.reseat(&player, &room, from, to).await.map(|()| Stored::Acknowledged)
            }
            Ask::Acknowledge { player, room, token } => {
                self.acknowledge(player, room, &token).await.map(|()| Stored::Acknowledged)
            }
            Ask::Delete { player, room, seat, tokens } => self.delete(player, room, seat, &tokens).await,
        }
    }

    async fn open(&self, player: PlayerId, room: RoomId, seat: SeatId, options: Bytes) -> Result<Stored, Lost> {
        let mut seen = self.load(&player, &room).await?.map_or(0, |session| session.version);
        for attempt in 0..TRIES {
            let current = self.token();
            let (player, room, options) = (player.clone(), room.clone(), options.clone());
            let session = Session { player, room, seat: seat.0, options, current, next: None, version: seen + 1 };
            if self.put(&session.player, &session.room, seen, Some(session.clone())).await? {
                return Ok(Stored::Kept { current: session.current, next: None });
            }
            match self.load(&session.player, &session.room).await? {
                // Another socket of this player was faster, or our own write was, whose answer was lost: its token is ours too.
                Some(other) if other.seat == seat.0 => {
                    return Ok(Stored::Kept { current: other.current, next: other.next });
                }
                other => seen = other.map_or(0, |session| session.version),
            }
            tracing::debug!(attempt, "a session record changed while it was written");
        }
        Err(Lost)
    }

    async fn turn(&self, mut session: Session, token: String, seat: SeatId) -> Result<Stored, Lost> {
        for _ in 0..TRIES {
            let seen = session.version;
            let turned = Session {
                current: token.clone(),
                next: Some(self.token()),
                seat: seat.0,
                version: seen + 1,
                ..session.clone()
            };
            if self.put(&turned.player, &turned.room, seen, Some(turned.clone())).await? {
                return Ok(Stored::Kept { current: turned.current, next: turned.next });
            }
            match self.load(&session.player, &session.room).await? {
                Some(other) if other.current == token && other.seat == seat.0 && other.next.is_some() => {
                    return Ok(Stored::Kept { current: other.current, next: other.next });
                }
                // The token was still good when the seat was taken with it; what opens the seat now is whatever is stored.
                Some(other) if !opens(&other, &token) => {
                    return Ok(Stored::Kept { current: other.current, next: other.next });
                }
                Some(other) => session = other,
                None => session = Session { version: 0, ..session },
            }
        }
        Err(Lost)
    }

    /// The seat has another number: its session goes on with it, tokens and all. One that is of yet another seat stays.
    async fn reseat(&self, player: &PlayerId, room: &RoomId, from: SeatId, to: SeatId) -> Result<(), Lost> {
        for _ in 0..TRIES {
            let Some(session) = self.load(player, room).await?.filter(|session| session.seat == from.0) else {
                return Ok(());
            };
            let seen = session.version;
            let moved = Session { seat: to.0, version: seen + 1, ..session };
            if self.put(player, room, seen, Some(moved)).await? {
                return Ok(());
            }
        }
        Err(Lost)
    }

    async fn acknowledge(&self, player: PlayerId, room: RoomId, token: &str) -> Result<(), Lost> {
        for _ in 0..TRIES {
            let Some(session) = self.load(&player, &room).await? else { return Ok(()) };
            if session.next.as_deref() != Some(token) {
                return Ok(());
            }
            let seen = session.version;
            let turned = Session { current: token.to_owned(), next: None, version: seen + 1, ..session };
            if self.put(&player, &room, seen, Some(turned)).await? {
                return Ok(());
            }
        }
        Err(Lost)
    }

    /// Deletes the session of a seat that was given up. One that is of another seat, or has a token that the leaving socket never had,
    /// is another socket's by now, and stays.
    async fn delete(&self, player: PlayerId, room: RoomId, seat: SeatId, tokens: &Tokens) -> Result<Stored, Lost> {
        for _ in 0..TRIES {
            let Some(session) = self.load(&player, &room).await? else { return Ok(Stored::Deleted) };
            let next = session.next.as_deref().is_none_or(|next| tokens.has(next));
            if session.seat != seat.0 || !tokens.has(&session.current) || !next {
                return Ok(Stored::Deleted);
            }
            if self.put(&player, &room, session.version, None).await? {
                return Ok(Stored::Deleted);
            }
        }
        Err(Lost)
    }

    async fn load(&self, player: &PlayerId, room: &RoomId) -> Result<Option<Session>, Lost> {
        match self.call(Command::Session { player: player.clone(), room: room.clone() }).await {
            Ok(Reply::Session(session)) => Ok(session),
            Ok(_) | Err(_) => Err(Lost),
        }
    }

    /// `false`: the record is no longer as it was seen.
    async fn put(&self, player: &PlayerId, room: &RoomId, seen: u64, session: Option<Session>) -> Result<bool, Lost> {
        match self.call(Command::PutSession { player: player.clone(), room: room.clone(), seen, session }).await {
            Ok(Reply::Done) => Ok(true),
            Err(Error::Conflict(_)) => Ok(false),
            Ok(_) | Err(_) => Err(Lost),
        }
    }

    /// One verb, sent again as long as it may have been lost; [`Sessions::answer`] has the limit.
    async fn call(&self, command: Command) -> Result<Reply, Error> {
        loop {
            match (self.store)(command.clone()).await.reply {
                Err(error) if error.may_retry() => self.clock.sleep(PAUSE).await,
                Err(error) => {
                    if !matches!(error, Error::Conflict(_)) {
                        tracing::warn!(%error, "the store refused a session verb");
                    }
                    return Err(error);
                }
                Ok(reply) => return Ok(reply),
            }
        }
    }

    /// 128 random bits.
    fn token(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.rng.next_u128().to_be_bytes())
    }
}

/// Whether a token opens a session. The time it takes says nothing about how much of the token is right: hashes are compared.
fn opens(session: &Session, token: &str) -> bool {
    let hash = |text: &str| digest::digest(&digest::SHA256, text.as_bytes());
    let given = hash(token);
    let same = |text: &str| hash(text).as_ref() == given.as_ref();
    same(&session.current) || session.next.as_deref().is_some_and(same)
}
