//! The parts of a tick's news that are for single seats.

use bevy_ecs::{entity::Entity, world::World};
use tenure_shared::delta::OpsWriter;

use super::{Filtered, Replicator, SeatView, bit};
use crate::plugin::{Holder, Net, OwnedBy, SeatIndex};

/// One private change of a seat, before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Despawn(u64),
    Remove(u64, u16),
    Set(u64, u16, u32, u32),
}

impl Replicator {
    /// Finds the private news of this tick, after [`shared`](Self::shared).
    pub(crate) fn find_private(&mut self, world: &World) {
        self.values.clear();
        self.news.lost.clear();
        self.news.owned.clear();
        self.news.filtered.clear();
        if !self.owners.is_empty() {
            for (id, _) in &self.news.gone {
                while let Some(key) = self.owners.range((*id, 0)..=(*id, u16::MAX)).next().map(|(key, _)| *key) {
                    self.owners.remove(&key);
                }
            }
        }
        self.find_owned(world);
        for (index, (part, _)) in self.filtered.iter_mut().enumerate() {
            let filtered = &mut self.news.filtered;
            part.collector.each(world, &mut |holder| {
                let Holder { net, entity, changed, .. } = holder;
                filtered.push(Filtered { part: index, net, entity, changed, value: None });
            });
        }
        let parts = self.owned.iter().chain(self.filtered.iter().map(|(part, _)| part));
        for part in parts {
            let (lost, owners) = (&mut self.news.lost, &mut self.owners);
            part.collector.removed(world, &mut |entity| {
                if let Ok(entity) = world.get_entity(entity)
                    && let Some(net) = entity.get::<Net>()
                    && !part.collector.has(entity)
                {
                    owners.remove(&(net.id, part.number));
                    lost.push((None, net.id, part.number));
                }
            });
        }
    }

    fn find_owned(&mut self, world: &World) {
        let mut wanted: Vec<(Entity, Holder, usize)> = Vec::new();
        for (index, part) in self.owned.iter_mut().enumerate() {
            let (owners, lost) = (&mut self.owners, &mut self.news.lost);
            part.collector.each(world, &mut |holder| {
                if holder.is_seat {
                    if holder.changed {
                        wanted.push((holder.entity, holder, index));
                    }
                    return;
                }
                let key = (holder.net, part.number);
                let (before, now) = (owners.get(&key).copied(), owner(world, holder.entity));
                if before != now {
                    if let Some(before) = before {
                        lost.push((Some(before), holder.net, part.number));
                    }
                    match now {
                        Some(now) => owners.insert(key, now),
                        None => owners.remove(&key),
                    };
                }
                if let Some(now) = now.filter(|_| holder.changed || before != now) {
                    wanted.push((now, holder, index));
                }
            });
        }
        for (owner, holder, index) in wanted {
            let Some(part) = self.owned.get(index) else { continue };
            if let Ok(entity) = world.get_entity(holder.entity)
                && part.collector.one(entity, holder.net, &mut self.values)
                && let Some(change) = self.values.changes.last()
            {
                self.news.owned.push((owner, *change));
            }
        }
        self.news.owned.sort_unstable_by_key(|(owner, change)| (*owner, change.net, change.number));
    }

    /// Appends a seat's private operations to `out`; returns how many there are, and appends nothing if there are none.
    pub(crate) fn private(&mut self, world: &World, seat: Entity, view: &mut SeatView, out: &mut Vec<u8>) -> usize {
        let start = self.news.owned.partition_point(|(owner, _)| *owner < seat);
        let mine = self.news.owned[start..].iter().take_while(|(owner, _)| *owner == seat);
        let quiet = self.news.filtered.is_empty() && self.news.lost.is_empty() && self.news.vanished.is_empty();
        if quiet && self.news.gone.is_empty() && mine.clone().next().is_none() {
            return 0;
        }
        let mut steps = Vec::new();
        for (id, seen) in &self.news.gone {
            if view.known.remove(id).is_some() && !seen {
                steps.push(Step::Despawn(*id));
            }
        }
        let set = |change: &crate::plugin::Change| Step::Set(change.net, change.number, change.start, change.end);
        for (_, change) in mine {
            *view.known.entry(change.net).or_default() |= bit(change.number);
            steps.push(set(change));
        }
        for (whose, net, number) in &self.news.lost {
            if whose.is_none_or(|whose| whose == seat) && view.forget(*net, *number) {
                steps.push(Step::Remove(*net, *number));
            }
        }
        self.look(world, seat, view, &mut steps);
        // The frame's despawn took the private components along: they are told again.
        for net in &self.news.vanished {
            let Some(mask) = view.known.get(net).copied() else { continue };
            let parts = self.owned.iter().chain(self.filtered.iter().map(|(part, _)| part));
            for part in parts.filter(|part| mask & bit(part.number) != 0) {
                let index = world.get_resource::<crate::plugin::NetIndex>();
                let entity = index.and_then(|index| index.by_id.get(net)).and_then(|e| world.get_entity(*e).ok());
                if let Some(entity) = entity
                    && part.collector.one(entity, *net, &mut self.values)
                {
                    steps.extend(self.values.changes.last().map(set));
                }
            }
        }
        self.write(view, &mut steps, out)
    }

    /// Asks the filters what the seat sees now.
    fn look(&mut self, world: &World, seat: Entity, view: &mut SeatView, steps: &mut Vec<Step>) {
        let Ok(viewer) = world.get_entity(seat) else { return };
        for item in &mut self.news.filtered {
            let Some((part, filter)) = self.filtered.get(item.part) else { continue };
            let Ok(entity) = world.get_entity(item.entity) else { continue };
            let number = part.number;
            let known = view.knows(item.net, number);
            if !filter(viewer, entity) {
                if known && view.forget(item.net, number) {
                    steps.push(Step::Remove(item.net, number));
                }
            } else if item.changed || !known {
                if item.value.is_none() && part.collector.one(entity, item.net, &mut self.values) {
                    item.value = self.values.changes.last().copied();
                }
                if let Some(change) = item.value {
                    *view.known.entry(item.net).or_default() |= bit(number);
                    steps.push(Step::Set(change.net, number, change.start, change.end));
                }
            }
        }
    }

    fn write(&self, view: &mut SeatView, steps: &mut Vec<Step>, out: &mut Vec<u8>) -> usize {
        if steps.is_empty() {
            return 0;
        }
        // By kind, then entity, then component: gone entities, gone components, changes.
        steps.sort_unstable();
        steps.dedup();
        let mut writer = OpsWriter::new(out);
        let mut open = None;
        for group in steps.chunk_by(|a, b| matches!((a, b), (Step::Remove(a, _), Step::Remove(b, _)) if a == b)) {
            match group[0] {
                Step::Despawn(net) => writer.despawn(net),
                Step::Remove(net, _) => {
                    if view.known.get(&net) == Some(&0) {
                        view.known.remove(&net);
                    }
                    if view.known.contains_key(&net) || self.shown.contains_key(&net) {
                        let numbers = group.iter().filter_map(|step| match step {
                            Step::Remove(_, number) => Some(*number),
                            Step::Despawn(_) | Step::Set(..) => None,
                        });
                        writer.remove(net, numbers);
                    } else {
                        writer.despawn(net);
                    }
                }
                Step::Set(net, number, start, end) => {
                    if open != Some(net) {
                        writer.set(net);
                        open = Some(net);
                    }
                    writer.component(number, self.values.bytes.get(start as usize..end as usize).unwrap_or_default());
                }
            }
        }
        writer.finish()
    }
}

impl SeatView {
    fn knows(&self, net: u64, number: u16) -> bool {
        self.known.get(&net).is_some_and(|mask| mask & bit(number) != 0)
    }

    fn forget(&mut self, net: u64, number: u16) -> bool {
        let Some(mask) = self.known.get_mut(&net).filter(|mask| **mask & bit(number) != 0) else { return false };
        *mask &= !bit(number);
        true
    }
}

/// The seat that owns an entity: itself, or the one that [`OwnedBy`] names.
pub(super) fn owner(world: &World, entity: Entity) -> Option<Entity> {
    let owned = world.get::<OwnedBy>(entity)?;
    world.get_resource::<SeatIndex>()?.by_id.get(&owned.0).copied()
}
