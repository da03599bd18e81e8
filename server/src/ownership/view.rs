//! What a node knows of the cluster: its members and where every shard is, as of the last poll of the store.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tenure_shared::{IncarnationId, ShardId, Term};

use crate::{
    link::{Address, Owner},
    runtime::Wall,
    store::{Key, Member, Status},
};

/// Who owns a shard, as routes and claims said last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owned {
    /// Its owner; `None` after a release.
    pub owner: Option<IncarnationId>,
    /// For which term.
    pub term: Term,
}

/// The cluster as one node knows it: for routing and for the admin page. A hint, up to a heartbeat old; only a fence proves anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Members without a tombstone, by incarnation.
    pub members: Arc<Vec<Member>>,
    /// Every shard that was ever owned.
    pub routes: Arc<BTreeMap<ShardId, Owned>>,
    /// Every other key that was ever owned: daemons and singletons.
    pub named: Arc<BTreeMap<Key, Owned>>,
    /// The store's time of `members`; `Wall(0)` before the first answer.
    pub at: Wall,
    /// Whether this node takes over what others held: not for one lease after it lapsed itself.
    pub settled: bool,
    /// Shards without an owner among the members, never owned ones included.
    pub ownerless: usize,
    /// Versions of the time-zone data that members have; more than one means that schedules may differ from node to node.
    pub zone_data: BTreeSet<String>,
    pub(super) links: Arc<BTreeMap<IncarnationId, Address>>,
    pub(super) nodes: Arc<Vec<Address>>,
}

/// The role of members that take shards.
pub(super) const ROOM: &str = "room";

/// Whether a member takes shards at all.
pub(super) fn takes_shards(member: &Member) -> bool {
    member.info.roles.iter().any(|role| role == ROOM)
}

impl View {
    pub(super) fn new(
        members: Arc<Vec<Member>>,
        routes: Arc<BTreeMap<ShardId, Owned>>,
        shards: u32,
        at: Wall,
        settled: bool,
    ) -> Self {
        let link = |member: &Member| -> Address { member.info.link.as_str().into() };
        let links = members.iter().map(|member| (member.incarnation.clone(), link(member))).collect::<BTreeMap<_, _>>();
        let serving = members.iter().filter(|member| member.status == Status::Serving && takes_shards(member));
        let nodes: BTreeSet<Address> = serving.map(link).collect();
        let zone_data = members.iter().map(|member| member.info.zone_data.clone()).filter(|text| !text.is_empty());
        let owned = routes.values().filter(|owned| owned.owner.as_ref().is_some_and(|owner| links.contains_key(owner)));
        let ownerless = (shards as usize).saturating_sub(owned.count());
        Self {
            zone_data: zone_data.collect(),
            ownerless,
            members,
            routes,
            named: Arc::default(),
            at,
            settled,
            links: Arc::new(links),
            nodes: Arc::new(nodes.into_iter().collect()),
        }
    }

    /// Who owns a shard and where that is reached; `None` if it was never owned.
    pub fn owner(&self, shard: ShardId) -> Option<Owner> {
        let owned = self.routes.get(&shard)?;
        let address = owned.owner.as_ref().and_then(|owner| self.links.get(owner).cloned());
        Some(Owner { term: owned.term, address })
    }

    /// Links of the serving members that take shards, sorted.
    pub fn nodes(&self) -> &[Address] {
        &self.nodes
    }

    /// Whether gateways would do anything else after this view than after `other`.
    pub(super) fn routes_as(&self, other: &View) -> bool {
        (Arc::ptr_eq(&self.routes, &other.routes) || self.routes == other.routes)
            && (Arc::ptr_eq(&self.named, &other.named) || self.named == other.named)
            && self.links == other.links
            && self.nodes == other.nodes
    }
}
