//! The write by which a node without a shard proves that the store takes what it has to write: it has no fence to write under, but
//! sessions, and those go in the queue of ordinary commands.

use bytes::Bytes;
use tenure_shared::{PlayerId, RoomId};

use crate::store::{Error, Session, Store};

/// Nobody's session: one record for the whole cluster, so that none is left behind by a node that goes.
const PLAYER: &str = "tenure:probe";
const ROOM: &str = "tenure/probe/gateway";
/// Other nodes write the same record at the same time.
const TRIES: usize = 4;

/// Writes and reads; `None` if the store did not do both.
pub(super) async fn write(store: &Store) -> Option<()> {
    let (player, room) = (PlayerId::new(PLAYER).ok()?, RoomId::new(ROOM).ok()?);
    for _ in 0..TRIES {
        let seen = store.session(&player, &room).await.ok()?.map_or(0, |session| session.version);
        let session = Session {
            player: player.clone(),
            room: room.clone(),
            seat: 0,
            options: Bytes::new(),
            current: String::new(),
            next: None,
            version: seen + 1,
        };
        match store.put_session(&player, &room, seen, Some(session)).await {
            Ok(()) => return Some(()),
            Err(Error::Conflict(_)) => {}
            Err(_) => return None,
        }
    }
    // So many others wrote in between: the store takes writes.
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{runtime::Clock, store};

    #[tokio::test]
    async fn each_proof_is_a_write_of_one_record() {
        let store = store::memory(Clock::system());
        for version in 1..=3 {
            assert_eq!(write(&store).await, Some(()));
            let (player, room) = (PlayerId::new(PLAYER).expect("valid"), RoomId::new(ROOM).expect("valid"));
            let session = store.session(&player, &room).await.expect("read").expect("there");
            assert_eq!(session.version, version);
        }
    }
}
