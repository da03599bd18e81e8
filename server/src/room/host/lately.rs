//! What a room said to the store lately, and what was acknowledged of it, pure. A store may forget what it acknowledged (DESIGN, "What a store may
//! forget") while the room goes on from memory: then the room says it again, and does no item a second time (H6).

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    time::Duration,
};

use tenure_shared::RoomId;

use super::shard::pending::Request;
use crate::{
    runtime::Mono,
    store::{Again, GrantId, WorkId, WorkItem},
};

/// How long it is remembered, counted while the room runs: longer than a replica is behind and the owner's next commit is away. What came from
/// an older world than this is forgotten by no store that a takeover could make up for.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Most items and grants of a room that are remembered; the oldest of them go first.
const EFFECTS: usize = 1_000;

/// What was said in one request, but for its checkpoint: the next one has everything that was in it.
#[derive(Debug)]
pub(super) struct Said {
    at: Mono,
    work: Request,
}

/// A room's words of the last seconds.
#[derive(Debug, Default)]
pub(super) struct Lately {
    /// On their way, in order; as many as the room has commits that are not acknowledged.
    sent: VecDeque<Said>,
    acknowledged: VecDeque<Said>,
    effects: usize,
    /// Items and grants of what was acknowledged, for those who ask.
    done: HashSet<WorkId>,
    told: HashSet<GrantId>,
}

impl Said {
    /// What `request` says.
    pub(super) fn of(request: &Request, at: Mono) -> Self {
        let work = Request { checkpoint: None, trimmed: Vec::new(), again: Vec::new(), ..request.clone() };
        Self { at, work }
    }

    fn effects(&self) -> usize {
        self.work.effects() + self.work.told.len()
    }
}

impl Lately {
    /// A request is on its way.
    pub(super) fn sent(&mut self, said: Said) {
        self.sent.push_back(said);
    }

    /// So many of them are stored.
    pub(super) fn acknowledged(&mut self, count: usize) {
        for said in self.sent.drain(..count.min(self.sent.len())) {
            if said.effects() == 0 {
                continue;
            }
            self.effects += said.effects();
            self.done.extend(said.work.completed.iter().cloned());
            self.told.extend(said.work.told.iter().cloned());
            self.acknowledged.push_back(said);
        }
        while self.effects > EFFECTS {
            self.forget_oldest();
        }
    }

    /// So many of them were refused: they never were.
    pub(super) fn refused(&mut self, count: usize) {
        self.sent.drain(..count.min(self.sent.len()));
    }

    /// The room runs: what is long past need not be known any more.
    pub(super) fn forget_old(&mut self, now: Mono) {
        while self.acknowledged.front().is_some_and(|said| now.since(said.at) > REMEMBERED) {
            self.forget_oldest();
        }
    }

    /// The world is another's, or what the store has.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn forget_oldest(&mut self) {
        let Some(said) = self.acknowledged.pop_front() else { return };
        self.effects -= said.effects();
        self.done.retain(|id| !said.work.completed.contains(id));
        self.told.retain(|id| !said.work.told.contains(id));
    }

    /// Whether the store acknowledged that this item is done: it forgot that, if it hands it out.
    pub(super) fn did(&self, item: &WorkId) -> bool {
        self.done.contains(item)
    }

    /// Whether the room was told of this grant, and the store acknowledged that.
    pub(super) fn was_told(&self, grant: &GrantId) -> bool {
        self.told.contains(grant)
    }

    /// All that was acknowledged, to be said again, as it stands after the last of it. Not of items that `known` has: what is said of them comes from
    /// elsewhere; and not of grants whose answer the room has.
    /// Grants that no item came with only if the store `forgot` something: it cannot tell whether it has them, and one that is there twice is told twice where
    /// the room moves in between.
    pub(super) fn again(
        &self,
        room: &RoomId,
        forgot: bool,
        known: impl Fn(&WorkId) -> bool,
        answered: impl Fn(&GrantId) -> bool,
    ) -> Request {
        let unsaid: HashSet<&WorkId> = self.sent.iter().flat_map(|said| said.work.touches()).collect();
        let mut pending: BTreeMap<&WorkId, WorkItem> = BTreeMap::new();
        let mut cancelled: BTreeSet<&WorkId> = BTreeSet::new();
        let mut again = Vec::new();
        for Said { work, at: _ } in &self.acknowledged {
            for id in &work.cancelled {
                pending.remove(id);
                cancelled.insert(id);
            }
            for item in &work.scheduled {
                cancelled.remove(&item.id);
                pending.insert(&item.id, item.clone());
            }
            for (id, payload) in &work.advanced {
                pending.entry(id).and_modify(|item| item.payload = payload.clone());
            }
            for (id, due) in &work.failed {
                pending.entry(id).and_modify(|item| (item.due, item.attempt) = (*due, item.attempt.saturating_add(1)));
            }
            // It waits for a person, who may have made it due again.
            work.parked.iter().for_each(|(id, _)| drop(pending.remove(id)));
            work.completed.iter().for_each(|id| drop(pending.remove(id)));
            let grants = work.grants.iter().filter(|grant| !self.was_told(&grant.id) && !answered(&grant.id));
            let grants: Vec<_> = grants.map(|grant| (room.clone(), grant.clone())).collect();
            if !work.completed.is_empty() || (forgot && !grants.is_empty()) {
                again.push(Again { completed: work.completed.clone(), grants });
            }
        }
        let of_others = |id: &WorkId| unsaid.contains(id) || known(id);
        Request {
            scheduled: pending.into_iter().filter(|(id, _)| !of_others(id)).map(|(_, item)| item).collect(),
            cancelled: cancelled.into_iter().filter(|id| !of_others(id)).cloned().collect(),
            again,
            ..Request::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use tenure_shared::PlayerId;

    use super::*;
    use crate::{runtime::Wall, store::Grant};

    fn room() -> RoomId {
        RoomId::from_parts("lab", "eu", "a").expect("valid")
    }

    fn id(key: &str) -> WorkId {
        WorkId { room: room(), job: "job".into(), key: key.into() }
    }

    fn item(key: &str) -> WorkItem {
        WorkItem { id: id(key), due: Wall(5), attempt: 0, parked: None, payload: Bytes::new() }
    }

    fn grant(name: &str) -> Grant {
        Grant {
            id: GrantId(Arc::from(name)),
            player: PlayerId::new("p").expect("valid"),
            source: "test".into(),
            scheduled_for: None,
            amounts: BTreeMap::new(),
            cap: None,
            token: Bytes::new(),
        }
    }

    fn scheduled(keys: &[&str]) -> Request {
        Request { scheduled: keys.iter().map(|key| item(key)).collect(), ..Request::default() }
    }

    fn completed(key: &str, grants: &[&str]) -> Request {
        let grants = grants.iter().map(|name| grant(name)).collect();
        Request { completed: vec![id(key)], grants, ..Request::default() }
    }

    fn say(lately: &mut Lately, request: &Request, told: &[&str]) {
        let told = told.iter().map(|name| GrantId(Arc::from(*name))).collect();
        lately.sent(Said::of(&Request { told, ..request.clone() }, Mono(0)));
        lately.acknowledged(1);
    }

    fn again(lately: &Lately) -> Request {
        lately.again(&room(), true, |_| false, |_| false)
    }

    #[test]
    fn what_was_acknowledged_is_said_again_as_it_stands_at_the_end() {
        let mut lately = Lately::default();
        say(&mut lately, &scheduled(&["done", "taken back", "failed", "stays"]), &[]);
        say(&mut lately, &completed("done", &["g1", "g2", "g3"]), &[]);
        let changed = Request {
            cancelled: vec![id("taken back"), id("of old")],
            failed: vec![(id("failed"), Wall(9))],
            ..Request::default()
        };
        say(&mut lately, &changed, &["g1"]);
        let said = lately.again(&room(), false, |item| *item == id("stays"), |grant| &*grant.0 == "g2");
        let failed = WorkItem { due: Wall(9), attempt: 1, ..item("failed") };
        let decided = Again { completed: vec![id("done")], grants: vec![(room(), grant("g3"))] };
        let cancelled = vec![id("of old"), id("taken back")];
        assert_eq!(said, Request { scheduled: vec![failed], cancelled, again: vec![decided], ..Request::default() });
        assert!(lately.did(&id("done")) && !lately.did(&id("stays")));
        assert!(lately.was_told(&GrantId(Arc::from("g1"))) && !lately.was_told(&GrantId(Arc::from("g3"))));
    }

    #[test]
    fn grants_alone_are_said_again_only_where_the_store_forgot() {
        let mut lately = Lately::default();
        say(&mut lately, &Request { grants: vec![grant("g")], ..Request::default() }, &[]);
        assert_eq!(lately.again(&room(), false, |_| false, |_| false), Request::default());
        let decided = Again { completed: Vec::new(), grants: vec![(room(), grant("g"))] };
        assert_eq!(again(&lately), Request { again: vec![decided], ..Request::default() });
    }

    #[test]
    fn what_is_not_acknowledged_says_itself() {
        let mut lately = Lately::default();
        say(&mut lately, &scheduled(&["a"]), &[]);
        lately.sent(Said::of(&completed("a", &["g"]), Mono(0)));
        assert_eq!(again(&lately), Request::default(), "it is on its way, and brings its item along");
        assert!(!lately.did(&id("a")));
        lately.refused(1);
        assert_eq!(again(&lately), scheduled(&["a"]), "it never was");
    }

    #[test]
    fn it_remembers_for_a_while_and_within_a_bound() {
        let mut lately = Lately::default();
        say(&mut lately, &completed("a", &[]), &[]);
        lately.forget_old(Mono(REMEMBERED.as_nanos() as u64));
        assert!(lately.did(&id("a")));
        lately.forget_old(Mono(REMEMBERED.as_nanos() as u64 + 1));
        assert!(!lately.did(&id("a")));
        let names: Vec<String> = (0..EFFECTS).map(|n| n.to_string()).collect();
        for name in &names {
            say(&mut lately, &completed(name, &[]), &[]);
        }
        assert!(lately.did(&id("0")));
        say(&mut lately, &completed("one more", &[]), &[]);
        assert!(!lately.did(&id("0")) && lately.did(&id("1")) && lately.did(&id("one more")));
        assert_eq!(again(&lately).again.len(), EFFECTS);
        lately.clear();
        assert_eq!(again(&lately), Request::default());
    }
}
