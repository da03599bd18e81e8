//! Everything one seat sees, as operations that replace all state.

use bevy_ecs::{entity::Entity, world::World};
use tenure_shared::delta::OpsWriter;

use super::{Replicator, SeatView, bit, private::owner};
use crate::plugin::Holder;

impl Replicator {
    /// Takes everything that all may see for shown: a restored room's frames go on where the former ones ended.
    pub(crate) fn assume_shown(&mut self, world: &World) {
        for part in &mut self.shared {
            let shown = &mut self.shown;
            part.collector.each(world, &mut |holder| *shown.entry(holder.net).or_default() |= bit(part.number));
        }
        for ((_, resource), shown) in self.resources.iter().zip(&mut self.shown_resources) {
            *shown = resource.changed(world).is_some();
        }
    }

    /// Appends the array of a snapshot's operations to `out`. What it shows counts as shown: later news build on it.
    pub(crate) fn snapshot(&mut self, world: &World, seat: Entity, view: &mut SeatView, out: &mut Vec<u8>) {
        view.known.clear();
        self.values.clear();
        for part in &mut self.shared {
            part.collector.all(world, &mut self.values);
        }
        for change in &self.values.changes {
            *self.shown.entry(change.net).or_default() |= bit(change.number);
        }
        let mut wanted: Vec<(Holder, &super::Part)> = Vec::new();
        let mut holders = Vec::new();
        for part in &mut self.owned {
            holders.clear();
            part.collector.each(world, &mut |holder| holders.push(holder));
            holders.retain(|holder| {
                let whose = if holder.is_seat { Some(holder.entity) } else { owner(world, holder.entity) };
                whose == Some(seat)
            });
            wanted.extend(holders.iter().map(|holder| (*holder, &*part)));
        }
        if let Ok(viewer) = world.get_entity(seat) {
            for (part, filter) in &mut self.filtered {
                holders.clear();
                part.collector.each(world, &mut |holder| holders.push(holder));
                holders.retain(|h| world.get_entity(h.entity).is_ok_and(|target| filter(viewer, target)));
                wanted.extend(holders.iter().map(|holder| (*holder, &*part)));
            }
        }
        for (holder, part) in wanted {
            if let Ok(entity) = world.get_entity(holder.entity)
                && part.collector.one(entity, holder.net, &mut self.values)
            {
                *view.known.entry(holder.net).or_default() |= bit(part.number);
            }
        }
        self.values.sort();
        let mut writer = OpsWriter::new(out);
        for group in self.values.changes.chunk_by(|a, b| a.net == b.net) {
            writer.spawn(group[0].net);
            for change in group {
                writer.component(change.number, self.values.value(change));
            }
        }
        let mut bytes = Vec::new();
        for ((number, resource), shown) in self.resources.iter().zip(&mut self.shown_resources) {
            bytes.clear();
            if matches!(resource.show(world, &mut bytes), Ok(true)) {
                writer.resource(*number, &bytes);
                *shown = true;
            }
        }
        writer.finish();
    }
}
