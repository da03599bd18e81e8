//! The part of a tick's news that all seats share.

use bevy_ecs::world::World;
use tenure_shared::delta::OpsWriter;

use super::{Replicator, bit};
use crate::plugin::{Net, NetIndex};

impl Replicator {
    /// Appends the array of shared operations to `out` and returns how many there are. Despawns come first, in the order they
    /// happened, then removals, then spawns and changes by rising entity, then resources.
    pub(crate) fn shared(&mut self, world: &mut World, out: &mut Vec<u8>) -> usize {
        let gone = world.get_resource_mut::<NetIndex>().map(|mut index| std::mem::take(&mut index.gone));
        let mut writer = OpsWriter::new(out);
        self.news.gone.clear();
        self.news.vanished.clear();
        for id in gone.unwrap_or_default() {
            let seen = self.shown.remove(&id).is_some();
            if seen {
                writer.despawn(id);
            }
            self.news.gone.push((id, seen));
        }
        let world = &*world;
        self.removed(world, &mut writer);
        self.changed(world, &mut writer);
        self.resources(world, &mut writer);
        writer.finish()
    }

    fn removed(&mut self, world: &World, writer: &mut OpsWriter<'_>) {
        let removals = &mut self.removals;
        removals.clear();
        for part in &self.shared {
            part.collector.removed(world, &mut |entity| {
                if let Ok(entity) = world.get_entity(entity)
                    && let Some(net) = entity.get::<Net>()
                    && !part.collector.has(entity)
                {
                    removals.push((net.id, part.number));
                }
            });
        }
        if removals.is_empty() {
            return;
        }
        removals.sort_unstable();
        removals.dedup();
        for group in removals.chunk_by(|a, b| a.0 == b.0) {
            let net = group[0].0;
            let Some(mask) = self.shown.get_mut(&net) else { continue };
            let before = *mask;
            group.iter().for_each(|(_, number)| *mask &= !bit(*number));
            if *mask == 0 {
                self.shown.remove(&net);
                // It may gain another shared component in this same tick: then it is spawned again below.
                writer.despawn(net);
                self.news.vanished.push(net);
            } else if *mask != before {
                writer.remove(net, group.iter().map(|(_, number)| *number).filter(|n| before & bit(*n) != 0));
            }
        }
    }

    fn changed(&mut self, world: &World, writer: &mut OpsWriter<'_>) {
        self.values.clear();
        for part in &mut self.shared {
            part.collector.changed(world, &mut self.values);
        }
        self.values.sort();
        for group in self.values.changes.chunk_by(|a, b| a.net == b.net) {
            let net = group[0].net;
            let mask = self.shown.entry(net).or_insert_with(|| {
                writer.spawn(net);
                0
            });
            if *mask != 0 {
                writer.set(net);
            }
            for change in group {
                *mask |= bit(change.number);
                writer.component(change.number, self.values.value(change));
            }
        }
    }

    fn resources(&mut self, world: &World, writer: &mut OpsWriter<'_>) {
        for ((number, resource), shown) in self.resources.iter().zip(&mut self.shown_resources) {
            match resource.changed(world) {
                None if *shown => {
                    writer.remove_resource(*number);
                    *shown = false;
                }
                Some(changed) if changed || !*shown => {
                    self.values.clear();
                    let ok = matches!(resource.show(world, &mut self.values.bytes), Ok(true));
                    if ok {
                        writer.resource(*number, &self.values.bytes);
                        *shown = true;
                    } else {
                        self.values.faults += 1;
                    }
                }
                None | Some(_) => {}
            }
        }
    }
}
