//! Sessions and the guest secret in memory, with a switch for a store that does not answer.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tenure::{
    gateway::StoreCalls,
    runtime::Wall,
    store::{Command, Error, Reply, Session, Stamped},
};
use tenure_shared::{PlayerId, RoomId};
use tokio::sync::Notify;

#[derive(Default)]
pub struct FakeStore {
    pub sessions: Mutex<HashMap<(PlayerId, RoomId), Session>>,
    pub writes: AtomicUsize,
    /// Fails everything as a store that cannot be reached.
    pub away: AtomicBool,
    /// Holds writes back until it is let go.
    pub held: AtomicBool,
    pub let_go: Notify,
}

impl FakeStore {
    pub fn calls(self: &Arc<Self>) -> StoreCalls {
        let store = self.clone();
        Arc::new(move |command| {
            let store = store.clone();
            Box::pin(async move { Stamped { at: Wall(0), reply: store.execute(command).await } })
        })
    }

    pub fn session(&self, player: &PlayerId, room: &RoomId) -> Option<Session> {
        self.sessions.lock().get(&(player.clone(), room.clone())).cloned()
    }

    async fn execute(&self, command: Command) -> Result<Reply, Error> {
        if self.away.load(Ordering::SeqCst) {
            return Err(Error::Unavailable("away".to_owned()));
        }
        match command {
            Command::AgreeOrGet { value, .. } => Ok(Reply::Agreed(value)),
            Command::Session { player, room } => Ok(Reply::Session(self.session(&player, &room))),
            Command::PutSession { player, room, seen, session } => {
                while self.held.load(Ordering::SeqCst) {
                    self.let_go.notified().await;
                }
                let mut sessions = self.sessions.lock();
                let key = (player, room);
                if sessions.get(&key).map_or(0, |session| session.version) != seen {
                    return Err(Error::Conflict("the session has changed".to_owned()));
                }
                self.writes.fetch_add(1, Ordering::SeqCst);
                match session {
                    Some(session) => {
                        assert!(session.version > seen, "the version must grow");
                        sessions.insert(key, session)
                    }
                    None => sessions.remove(&key),
                };
                Ok(Reply::Done)
            }
            other => panic!("the gateway has no business with {other:?}"),
        }
    }
}
