//! What room nodes say to each other: the moves of shards (`docs/handoff.md`), and messages for daemons.
//!
//! Every message names the incarnation that sends it and the one it is for: a later life of either takes no notice of it (F3). A message may
//! get lost, come late or come twice; who waits for an answer has a deadline of its own.

use bytes::Bytes;
use tenure_shared::{IncarnationId, RoomId, ShardId, Term};

use super::Address;
use crate::runtime::mailbox::Refused;

/// Most rooms of one package: those that are not in it are loaded by the new owner as after a takeover.
pub const PACKAGE_ROOMS: usize = 1_024;
/// Most kinds of rooms, and most names of one kind, in an offer.
pub const OFFER_NAMES: usize = 1_024;

/// What a name in an offer takes in memory besides its bytes.
const NAME_COST: usize = size_of::<(String, u32)>();

/// A message from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerMessage {
    /// Who sends it.
    pub from: IncarnationId,
    /// Where its links are reached: answers go there.
    pub reply: Address,
    /// For whom it is.
    pub to: IncarnationId,
    /// What it says.
    pub body: PeerBody,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerBody {
    /// A step of a move.
    Handoff(Attempt, Handoff),
    /// For whatever listens under this name, which alone reads it; at most [`super::net::PEER_BYTES`] with what stands around it.
    Other(String, Bytes),
}

impl PeerMessage {
    /// About how many bytes it takes in memory.
    pub fn size(&self) -> usize {
        let named = |names: &[(String, u32)]| names.iter().map(|(name, _)| name.len() + NAME_COST).sum::<usize>();
        let body = match &self.body {
            PeerBody::Other(name, bytes) => name.len() + bytes.len(),
            PeerBody::Handoff(_, Handoff::Offer { versions: Versions(kinds), .. }) => {
                let of = |kind: &KindVersions| kind.kind.len() + named(&kind.components) + named(&kind.resources);
                kinds.iter().map(|kind| NAME_COST * 2 + of(kind)).sum()
            }
            PeerBody::Handoff(_, Handoff::Refuse { text, .. }) => text.len(),
            PeerBody::Handoff(_, Handoff::Package(package)) => {
                package.rooms.iter().map(|room| size_of::<PackedRoom>() + room.room.as_str().len()).sum()
            }
            PeerBody::Handoff(..) => 0,
        };
        size_of::<Self>() + self.from.as_str().len() + self.reply.len() + self.to.as_str().len() + body
    }
}

/// Which move a message is about. Of two attempts the higher one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// The shard that moves.
    pub shard: ShardId,
    /// The source's term.
    pub term: Term,
    /// The source's number of this attempt, from 1; it grows with each of its attempts for the shard.
    pub number: u64,
}

/// A step of a move from a source to a target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Handoff {
    /// Source → target: will you have it? Answered by `Ready` or `Refuse`.
    Offer {
        /// What the checkpoints of the shard may hold.
        versions: Versions,
        /// How many rooms are loaded.
        rooms: u32,
        /// Bytes of the checkpoints of those that the package will have.
        bytes: u64,
    },
    /// Target → source: yes.
    Ready,
    /// Target → source: no, or not any more.
    Refuse {
        /// Why, for programs.
        reason: RefuseReason,
        /// Why, for people.
        text: String,
    },
    /// Source → target: its rooms stand still and everything is stored: make the worlds. Answered by `Prepared` or `Refuse`.
    Package(Package),
    /// Target → source: the worlds stand ready. They do not tick.
    Prepared {
        /// [`Package::checksum`] of what they were made of.
        checksum: u64,
    },
    /// Source → target: the claim is yours.
    Transferred {
        /// The target's term.
        term: Term,
        /// The package named by the claim.
        checksum: u64,
    },
    /// Source → target: the shard stays; nothing of this attempt is needed any more.
    Abort,
}

/// Why a target will not have a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefuseReason {
    /// It gives its own shards away, or stops.
    Draining,
    /// It cannot read what the checkpoints hold.
    Unreadable,
    /// It has as many rooms or moves as it may.
    Full,
    /// A checkpoint is not in the store as the package says, or could not be read in time.
    NotStored,
    /// It owns no rooms at all, or does not know of itself as a member.
    NotServing,
}

/// Names and versions of what checkpoints hold, by kind of room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Versions(pub Vec<KindVersions>);

/// Of one kind of room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KindVersions {
    /// The kind's name.
    pub kind: String,
    /// Persisted components: name and version.
    pub components: Vec<(String, u32)>,
    /// Persisted resources: name and version.
    pub resources: Vec<(String, u32)>,
}

/// Everything that is loaded of a shard, stored: rooms by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Package {
    /// Its rooms, sorted by id, at most [`PACKAGE_ROOMS`].
    pub rooms: Vec<PackedRoom>,
}

/// One room of a package.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PackedRoom {
    /// Which.
    pub room: RoomId,
    /// Version of its stored checkpoint.
    pub version: u64,
    /// xxh3 of the checkpoint's body.
    pub hash: u64,
    /// Microseconds from its last tick to the moment at which the package was sent: its next tick is due a period after the last one.
    pub waited: u32,
}

impl Package {
    /// Says whether two packages are of the same checkpoints. What a room waited is not part of it. Never 0: a claim that was given without
    /// a package names 0.
    pub fn checksum(&self) -> u64 {
        let mut all = Vec::with_capacity(self.rooms.len() * 48);
        for room in &self.rooms {
            all.extend_from_slice(&(room.room.as_str().len() as u64).to_le_bytes());
            all.extend_from_slice(room.room.as_str().as_bytes());
            all.extend_from_slice(&room.version.to_le_bytes());
            all.extend_from_slice(&room.hash.to_le_bytes());
        }
        xxhash_rust::xxh3::xxh3_64(&all).max(1)
    }

    /// Versions of its checkpoints, for the store to check.
    pub fn manifest(&self) -> Vec<(RoomId, u64)> {
        self.rooms.iter().map(|room| (room.room.clone(), room.version)).collect()
    }
}

/// The other nodes. Cheap: streams are opened when they are first needed, and closed when nobody needs them.
pub trait Peers: Send + Sync + 'static {
    /// Sends to the process at `to`. Never waits. Messages for one process arrive in order, as long as its stream holds.
    ///
    /// # Errors
    /// Gives the message back when the queue to that process is at its bound (`Full`), or when it is known not to be reachable now (`Closed`).
    fn send(&self, to: &Address, message: PeerMessage) -> Result<(), Refused<PeerMessage>>;
}

/// Where the messages of other nodes arrive.
pub trait PeerInbox: Send + Sync + 'static {
    /// Takes a message. Never waits; what is not for this incarnation, or has no place, is dropped and counted.
    fn take(&self, message: PeerMessage);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_tells_packages_of_other_checkpoints_apart() {
        let room = |name: &str, version, hash, waited| PackedRoom {
            room: RoomId::new(name).expect("a room id"),
            version,
            hash,
            waited,
        };
        let of = |rooms: &[PackedRoom]| Package { rooms: rooms.to_vec() }.checksum();
        let first = of(&[room("arena/eu/a", 1, 7, 10)]);
        assert_eq!(first, of(&[room("arena/eu/a", 1, 7, 99)]), "how long it waited is nothing of what is stored");
        let others = [
            of(&[]),
            of(&[room("arena/eu/a", 2, 7, 10)]),
            of(&[room("arena/eu/a", 1, 8, 10)]),
            of(&[room("arena/eu/b", 1, 7, 10)]),
            of(&[room("arena/eu/a", 1, 7, 10), room("arena/eu/b", 1, 7, 10)]),
        ];
        for other in others {
            assert_ne!(first, other);
            assert_ne!(other, 0);
        }
    }
}
