//! What waits for the driver: messages of other nodes, bounded by count and by bytes, and what its own tasks tell it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::driver::Word;
use crate::{link::PeerMessage, runtime::mailbox};

/// Most messages of other nodes, and ends of moves, that wait.
const WAITING: usize = 4_096;
/// Most bytes of messages of other nodes that wait: packages of as many shards as are made ready at a time, each with as many rooms as it may.
const WAITING_BYTES: usize = 8 * 1024 * 1024;

/// The sending side. Cheap to clone.
#[derive(Clone)]
pub(super) struct Inbox {
    words: mailbox::Sender<Word>,
    bytes: Arc<AtomicUsize>,
}

/// The driver's side.
pub(super) struct Words {
    words: mailbox::Receiver<Word>,
    bytes: Arc<AtomicUsize>,
}

/// Both sides.
pub(super) fn inbox() -> (Inbox, Words) {
    let (sender, words) = mailbox::channel("handoff", WAITING);
    let bytes = Arc::<AtomicUsize>::default();
    (Inbox { words: sender, bytes: bytes.clone() }, Words { words, bytes })
}

impl Inbox {
    /// Takes a message of another node; `false`, and counted as a mailbox that is full, if it finds no place. Never waits.
    pub(super) fn take(&self, message: PeerMessage) -> bool {
        let size = message.size();
        let place = |waiting: usize| Some(waiting + size).filter(|bytes| *bytes <= WAITING_BYTES);
        if self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, place).is_err() {
            self.words.count_full();
            return false;
        }
        let taken = self.words.try_send(Word::Peer(message)).is_ok();
        if !taken {
            self.bytes.fetch_sub(size, Ordering::Relaxed);
        }
        taken
    }

    /// Tells the driver something of this node's own, as soon as there is a place.
    pub(super) async fn tell(&self, word: Word) {
        // Without a driver nobody is to hear of it.
        drop(self.words.send(word).await);
    }
}

impl Words {
    /// The next one; `None` when nobody can say anything more. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Word> {
        let word = self.words.recv().await?;
        if let Word::Peer(message) = &word {
            self.bytes.fetch_sub(message.size(), Ordering::Relaxed);
        }
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use tenure_shared::{IncarnationId, RoomId, ShardId, Term};

    use super::*;
    use crate::link::{Attempt, Handoff, PACKAGE_ROOMS, Package, PackedRoom, PeerBody};

    fn message(rooms: usize) -> PeerMessage {
        let room = RoomId::new(&format!("arena/eu/{}", "a".repeat(55))).expect("as long as one may be");
        let packed = PackedRoom { room, version: 1, hash: 1, waited: 0 };
        let attempt = Attempt { shard: ShardId(1), term: Term(1), number: 1 };
        let step = Handoff::Package(Package { rooms: vec![packed; rooms] });
        PeerMessage {
            from: IncarnationId::new("a#1").expect("valid"),
            reply: "a".into(),
            to: IncarnationId::new("b#1").expect("valid"),
            body: PeerBody::Handoff(attempt, step),
        }
    }

    #[tokio::test]
    async fn what_waits_is_bounded_in_bytes_and_by_count() {
        let (inbox, mut words) = inbox();
        let large = message(PACKAGE_ROOMS);
        let size = large.size();
        assert!(size > PACKAGE_ROOMS * 64 && size < PACKAGE_ROOMS * 256, "{size}");
        let taken = (0..WAITING).take_while(|_| inbox.take(large.clone())).count();
        assert_eq!(taken, WAITING_BYTES / size, "as many as fit, and far less than the count allows");
        assert!(inbox.take(message(0)), "a small one still fits");
        for _ in 0..=taken {
            assert!(words.next().await.is_some());
        }
        assert_eq!(words.bytes.load(Ordering::Relaxed), 0);
        let taken = (0..=WAITING).take_while(|_| inbox.take(message(0))).count();
        assert_eq!(taken, WAITING);
        assert_eq!(words.bytes.load(Ordering::Relaxed), WAITING * message(0).size(), "what was refused does not count");
    }
}
