//! Moving to another gateway because the server asks for it: the next connection has the seat before the former one is left.

use std::{
    pin::Pin,
    time::{Duration, Instant},
};

use tenure_shared::codes::CloseCode;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use super::{Bot, End, close, send};
use crate::{
    host::Group,
    net::{self, Cause, Socket, Target},
    stats::count,
};

/// How long the former connection is read on after a move: what is said once may be on its way through it.
pub(super) const LINGER: Duration = Duration::from_secs(2);
/// A connection that is being opened beside the one that serves.
pub(super) type Opening = Pin<Box<dyn Future<Output = Result<Socket, Cause>>>>;

impl Bot {
    /// Begins to open the connection that the server wants the bot on; the one it has goes on meanwhile.
    pub(super) fn open_next(&mut self) -> Opening {
        self.state.moving = None;
        let told = std::mem::take(&mut self.state.move_to);
        let nth = self.index as usize;
        let (plain, index) = (self.target(), self.index);
        Box::pin(async move {
            let target = match nth.checked_rem(told.len()).and_then(|nth| told.get(nth)) {
                Some(url) => Target::of_player(url).await.map_err(|_| Cause::Remote("move: no such address".into()))?,
                None => plain.ok_or_else(|| Cause::Remote("move: no gateway".into()))?,
            };
            net::websocket(&target, Group::Bots, index).await
        })
    }

    /// The next connection is open: the seat is asked for there. The old one closes when it has been given.
    pub(super) async fn change_to(&mut self, next: &mut Socket) -> Result<(), End> {
        {
            let mut stats = self.worker.shard.lock();
            stats.counters.connects += 1;
            stats.playing -= u64::from(self.state.playing);
        }
        self.asked = false;
        let hello = self.state.hello(Instant::now());
        self.state.noted.moved = true;
        send(next, hello).await
    }

    /// The connection that the seat moves from says something; `false` if it has ended. The server ends it as soon as the next one has the
    /// seat: a close for any other reason before that comes too early.
    pub(super) fn former(&mut self, message: Option<Result<Message, WsError>>) -> bool {
        let mut stats = self.worker.shard.lock();
        let cause = match message {
            Some(Ok(Message::Binary(bytes))) => {
                self.state.former(&bytes, Instant::now(), &mut stats);
                return true;
            }
            Some(Ok(Message::Close(frame))) => net::from_close(frame.as_ref()),
            Some(Ok(_)) => return true,
            Some(Err(error)) => net::from_ws(&error),
            None => Cause::Remote("cut without a close frame".to_owned()),
        };
        if !self.state.playing && cause != Cause::Closed(CloseCode::Superseded) {
            stats.counters.closed_early += 1;
            count(&mut stats.refusals, &format!("before the move: {}", cause.label()));
        }
        false
    }
}

/// Closes a connection that is not needed any more.
pub(super) fn leave_behind(socket: Option<Socket>) {
    if let Some(mut socket) = socket {
        tokio::task::spawn_local(async move { close(&mut socket).await });
    }
}
