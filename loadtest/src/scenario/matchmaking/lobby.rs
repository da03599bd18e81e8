//! The list of rooms, as any client may read it.

use futures_util::{SinkExt as _, StreamExt as _};
use tenure_shared::{
    RoomId,
    limits::{LIST_ROOMS, PROTOCOL},
    msgpack::Bounds,
    wire::{ClientMessage, ServerMessage, ServerMessages},
};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use super::visitor::ANSWER_TIME;
use crate::{
    host::Group,
    net::{self, Target},
};

/// Most pages of one look.
const PAGES: usize = 400;

/// A room, as it says.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) room: RoomId,
    pub(super) seats: u32,
    pub(super) max_seats: u32,
    pub(super) locked: bool,
}

impl Listed {
    /// Seats that nobody has.
    pub(super) fn free(&self) -> u32 {
        self.max_seats.saturating_sub(self.seats)
    }
}

/// Who looks at it.
pub(super) struct Lobby {
    target: Target,
    kind: String,
}

impl Lobby {
    pub(super) fn new(target: Target, kind: &str) -> Self {
        Self { target, kind: kind.to_owned() }
    }

    /// All rooms of the kind, page by page.
    ///
    /// # Errors
    /// When a page is refused or does not come.
    pub(super) async fn all(&self) -> anyhow::Result<Vec<Listed>> {
        let mut all: Vec<Listed> = Vec::new();
        let mut after = None;
        // A client may ask for a few lists at once, and more on another socket.
        for _ in 0..PAGES {
            let (page, next) = timeout(ANSWER_TIME, self.page(after.take())).await??;
            all.extend(page);
            match next {
                Some(next) => after = Some(next),
                None => return Ok(all),
            }
        }
        anyhow::bail!("more than {PAGES} pages of rooms")
    }

    async fn page(&self, after: Option<RoomId>) -> anyhow::Result<(Vec<Listed>, Option<RoomId>)> {
        let opened = net::websocket(&self.target, Group::Bots, 0).await;
        let mut socket = opened.map_err(|cause| anyhow::anyhow!("list of rooms: {}", cause.label()))?;
        let mut out = Vec::new();
        ClientMessage::Hello { protocol: PROTOCOL, token: None, table: None }.encode(&mut out);
        let (kind, limit) = (Some(self.kind.as_str()), LIST_ROOMS as u32);
        ClientMessage::Rooms { id: 1, kind, region: None, filter: &[], open: false, after, limit }.encode(&mut out);
        socket.send(Message::binary(out)).await?;
        while let Some(message) = socket.next().await {
            let Message::Binary(bytes) = message? else { continue };
            for message in ServerMessages::new(&bytes, &Bounds::SERVER) {
                match message? {
                    ServerMessage::Rooms { rooms, next, .. } => {
                        let listed = |room: tenure_shared::wire::ListedRoom<'_>| Listed {
                            room: room.room,
                            seats: room.seats,
                            max_seats: room.max_seats,
                            locked: room.locked,
                        };
                        return Ok((rooms.into_iter().map(listed).collect(), next));
                    }
                    ServerMessage::Error { code, message, .. } => anyhow::bail!("list of rooms: {code}: {message}"),
                    _ => {}
                }
            }
        }
        anyhow::bail!("list of rooms: the socket ended")
    }
}
