//! How a bot leaves: for good, or for a while.

use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use rand::RngExt;
use tenure_shared::wire::ClientMessage;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use super::{Bot, End, Phase, state};
use crate::net::{self, Socket};

/// Time for leaving in good order.
const LEAVE_TIME: Duration = Duration::from_secs(3);

impl Bot {
    /// Gives the seat up for a while, now and then; the server's word on it ends the connection.
    pub(super) async fn go_away(&mut self, socket: &mut Socket, now: Instant) -> Result<(), End> {
        let Some(away) = self.plan.away(self.index).filter(|_| self.state.playing && !self.leaving) else {
            return Ok(());
        };
        let stays = away.mul_f64(self.rng.random_range(0.5..1.5));
        if now < *self.leaves.get_or_insert(now + stays) || self.plan.reached(Phase::Settle) {
            return Ok(());
        }
        self.leaving = true;
        send(socket, state::encoded(&ClientMessage::Leave { id: 2 })).await
    }
}

pub(super) async fn send(socket: &mut Socket, bytes: Vec<u8>) -> Result<(), End> {
    socket.send(Message::binary(bytes)).await.map_err(|error| End::Lost(net::from_ws(&error)))
}

/// Gives the seat up and closes.
pub(super) async fn leave(socket: &mut Socket, playing: bool) -> End {
    if playing {
        let goodbye = send(socket, state::encoded(&ClientMessage::Leave { id: 2 }));
        // Who leaves does not wait for a server that takes nothing any more.
        let _sent = timeout(LEAVE_TIME, goodbye).await;
    }
    close(socket).await;
    End::Left
}

/// Closes and waits a while for the server to agree.
pub(super) async fn close(socket: &mut Socket) {
    let closing = async {
        if socket.close(None).await.is_ok() {
            while let Some(Ok(_)) = socket.next().await {}
        }
    };
    let _agreed = timeout(LEAVE_TIME, closing).await;
}
