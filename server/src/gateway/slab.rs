//! Finds a connection by its number: generation << 32 | index, so that a number is never used again.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::RwLock;

use crate::link::ConnId;

/// Independent parts, so that joins do not stand in the way of frames.
const PARTS: usize = 16;

struct Slot<T> {
    generation: u32,
    value: Option<Arc<T>>,
}

struct Part<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

/// All connections of a gateway.
pub(super) struct Slab<T> {
    parts: [RwLock<Part<T>>; PARTS],
    next: AtomicUsize,
    len: AtomicUsize,
    /// The generation before the first of each slot.
    start: u32,
}

impl<T> Slab<T> {
    /// `start`: a number of this process alone, so that two gateways do not give the same ones. Only its lower 30 bits count.
    pub(super) fn new(start: u32) -> Self {
        Self {
            start: start & 0x3FFF_FFFF,
            parts: std::array::from_fn(|_| RwLock::new(Part { slots: Vec::new(), free: Vec::new() })),
            next: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
        }
    }

    /// Puts in what `make` makes of the number. The slab grows to the most connections there ever were; how many may come is
    /// bounded by admission.
    pub(super) fn insert(&self, make: impl FnOnce(ConnId) -> T) -> Arc<T> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % PARTS;
        let mut part = self.parts[at].write();
        let index = match part.free.pop() {
            Some(index) => index,
            None => {
                part.slots.push(Slot { generation: self.start, value: None });
                (part.slots.len() - 1) as u32
            }
        };
        let slot = &mut part.slots[index as usize];
        slot.generation += 1;
        let id = ConnId((u64::from(slot.generation) << 32) | (u64::from(index) * PARTS as u64 + at as u64));
        let value = Arc::new(make(id));
        slot.value = Some(value.clone());
        self.len.fetch_add(1, Ordering::AcqRel);
        value
    }

    /// The connection, if it is still there.
    pub(super) fn get(&self, id: ConnId) -> Option<Arc<T>> {
        let (part, index, generation) = split(id);
        let part = self.parts[part].read();
        let slot = part.slots.get(index)?;
        if slot.generation == generation { slot.value.clone() } else { None }
    }

    /// Takes the connection out.
    pub(super) fn remove(&self, id: ConnId) {
        let (part, index, generation) = split(id);
        let mut part = self.parts[part].write();
        let Some(slot) = part.slots.get_mut(index).filter(|slot| slot.generation == generation) else { return };
        if slot.value.take().is_some() {
            // A slot whose generations are used up is left alone for ever.
            if generation < u32::MAX {
                part.free.push(index as u32);
            }
            self.len.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Number of connections.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// All connections at this moment.
    pub(super) fn all(&self) -> Vec<Arc<T>> {
        let values = self.parts.iter().map(|part| part.read().slots.iter().filter_map(|s| s.value.clone()).collect());
        values.collect::<Vec<Vec<_>>>().concat()
    }
}

fn split(id: ConnId) -> (usize, usize, u32) {
    let low = (id.0 & u64::from(u32::MAX)) as usize;
    (low % PARTS, low / PARTS, (id.0 >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_never_used_again() {
        let slab = Slab::new(7);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..200 {
            let id = *slab.insert(|id| id);
            assert!(seen.insert(id), "{id:?} came twice");
            assert_eq!(slab.get(id).as_deref(), Some(&id));
            slab.remove(id);
            slab.remove(id);
            assert_eq!(slab.get(id), None);
            assert_eq!(slab.len(), 0);
        }
    }

    #[test]
    fn many_are_kept_apart() {
        let slab = Slab::new(7);
        let ids: Vec<ConnId> = (0..100).map(|_| *slab.insert(|id| id)).collect();
        slab.remove(ids[40]);
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(slab.get(*id).is_some(), n != 40);
        }
        assert_eq!((slab.len(), slab.all().len()), (99, 99));
        assert_eq!(slab.get(ConnId(u64::MAX)), None);
    }
}
