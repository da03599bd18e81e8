//! What a handoff does with the rooms of this node: stops the rooms of a shard that goes, makes the worlds of one that comes.

use std::sync::{Arc, atomic::Ordering};

use tenure_shared::ShardId;

use super::{
    RoomHost,
    core::Host,
    frozen::{self, Frozen},
    prepared::{self, Space},
};
use crate::{
    link::{KindVersions, Package, RefuseReason, Versions},
    plugin::RoomKind,
    store::Fence,
};

/// The rooms of a node in the hands of a handoff. Cheap to clone.
#[derive(Clone)]
pub struct Hands(pub(super) Arc<Host>);

impl RoomHost {
    /// For whoever moves shards between nodes: from here on the caller alone gives shards away.
    pub fn hands(&self) -> Hands {
        self.host.driven.store(true, Ordering::Release);
        Hands(self.host.clone())
    }
}

impl Hands {
    /// What checkpoints written here may hold.
    pub fn versions(&self) -> Versions {
        Versions(self.0.kinds.values().map(|kind| versions(kind)).collect())
    }

    /// Whether checkpoints written elsewhere can be read here. Components and resources that are not known here are carried along.
    ///
    /// # Errors
    /// Everything that cannot be read, in words: kinds that are not known here, versions above those of this build or without a migration.
    pub fn reads(&self, versions: &Versions) -> Result<(), String> {
        let mut faults = Vec::new();
        for theirs in &versions.0 {
            match self.0.kinds.get(&theirs.kind) {
                Some(kind) => faults.extend(reads(kind, theirs).err()),
                None => faults.push(format!("no game of the kind {:?} is registered", theirs.kind)),
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }

    /// How many rooms of a shard are loaded.
    pub fn rooms(&self, shard: ShardId) -> usize {
        self.0.rooms_of(shard).len()
    }

    /// What a package of a shard would take at its next owner: see [`Frozen::stored`].
    pub fn space(&self, shard: ShardId) -> Space {
        let mut rooms = self.0.rooms_of(shard);
        rooms.sort_by(|a, b| a.room.cmp(&b.room));
        frozen::fit(rooms.iter().map(|handle| handle.bytes.load(Ordering::Relaxed)))
    }

    /// Whether a shard is served here and its takeover is done: what goes is known.
    pub fn is_ready(&self, shard: ShardId) -> bool {
        self.0.held(shard).is_some_and(|shard| shard.is_ready())
    }

    /// Whether [`Hands::prepare`] would take a package of this shard now, if it takes so much: asked before its rooms stand still for it.
    ///
    /// # Errors
    /// Why not, for programs and for people.
    pub fn takes(&self, shard: ShardId, space: Space) -> Result<(), (RefuseReason, String)> {
        prepared::takes(&self.0, shard, space)
    }

    /// Stops the rooms of a shard at a tick boundary and lets them store themselves, other shards go on. `None`: it is not served under this
    /// fence, is still being taken over, or somebody is at it already.
    pub fn freeze(&self, fence: &Fence) -> Option<Frozen> {
        let shard = self.0.held(fence.key().as_shard()?)?;
        Frozen::begin(&self.0, &shard, fence)
    }

    /// Reads the rooms of a package from the store, makes their worlds and keeps them: one set per shard, the newest. They do not tick. If
    /// the shard comes to this node with this package, they go on at once; if it comes otherwise, or [`Hands::drop_prepared`] says so, they are
    /// dropped. Gives [`Package::checksum`]. Cancel-safe: dropped, nothing is kept. It has no deadline of its own.
    ///
    /// # Errors
    /// Why there are no worlds, for programs and for people.
    pub async fn prepare(&self, shard: ShardId, package: &Package) -> Result<u64, (RefuseReason, String)> {
        prepared::prepare(&self.0, shard, package).await
    }

    /// The worlds that were made for this package are not needed any more.
    pub fn drop_prepared(&self, shard: ShardId, checksum: u64) {
        prepared::scrap(&self.0, self.0.prepared.discard(shard, checksum));
    }
}

impl std::fmt::Debug for Hands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hands").field("rooms", &self.0.rooms.len()).finish_non_exhaustive()
    }
}

/// Names of [`RoomKind::versions`] say by a word what they name.
const COMPONENT: &str = "component ";
const RESOURCE: &str = "resource ";

fn versions(kind: &RoomKind) -> KindVersions {
    let mut versions = KindVersions { kind: kind.name().to_owned(), ..KindVersions::default() };
    for (name, version) in kind.versions() {
        if let Some(name) = name.strip_prefix(COMPONENT) {
            versions.components.push((name.to_owned(), version));
        } else if let Some(name) = name.strip_prefix(RESOURCE) {
            versions.resources.push((name.to_owned(), version));
        }
    }
    versions
}

fn reads(kind: &RoomKind, theirs: &KindVersions) -> Result<(), String> {
    let components = theirs.components.iter().map(|(name, version)| (format!("{COMPONENT}{name}"), *version));
    let resources = theirs.resources.iter().map(|(name, version)| (format!("{RESOURCE}{name}"), *version));
    kind.reads(&components.chain(resources).collect()).map_err(|unreadable| unreadable.to_string())
}
