//! The writer against the view, against a plain model, and against bytes that nobody wrote.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::msgpack::{self, Bounds, array_head, text, uint};

fn value(n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    uint(&mut out, n);
    out
}

fn ops(write: impl FnOnce(&mut OpsWriter<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = OpsWriter::new(&mut out);
    write(&mut writer);
    writer.finish();
    out
}

#[test]
fn headers_have_the_shortest_form() {
    assert_eq!(ops(|_| ()), [0x90]);
    assert_eq!(ops(|w| w.despawn(7)), [0x91, 0x92, 1, 7]);
    let sixteen = ops(|w| (0..16).for_each(|e| w.despawn(e)));
    assert_eq!(sixteen[..6], [0xdc, 0, 16, 0x92, 1, 0]);
    let many = ops(|w| (0..70_000).for_each(|_| w.despawn(0)));
    assert_eq!(many[..5], [0xdd, 0, 1, 0x11, 0x70]);
    // Seven components: sixteen elements, so the operation's header grows.
    let wide = ops(|w| {
        w.spawn(1);
        (0..7).for_each(|c| w.component(c, &[0xc0]));
        w.despawn(2);
    });
    assert_eq!(wide[..6], [0x92, 0xdc, 0, 16, 0, 1]);
    for bytes in [sixteen, many, wide] {
        assert_eq!(msgpack::check(&bytes, &Bounds::SERVER), Ok(()));
    }
}

#[test]
fn a_component_that_fails_to_encode_is_left_out() {
    let bytes = ops(|w| {
        w.set(1);
        w.component(1, &[5]);
        let failed = w.component_with(2, |out| {
            out.extend_from_slice(&[0x92, 0x01]);
            Err("half written")
        });
        assert_eq!(failed, Err("half written"));
        assert_eq!(
            w.component_with(3, |out| {
                out.push(6);
                Ok::<_, ()>(())
            }),
            Ok(())
        );
    });
    assert_eq!(bytes, [0x91, 0x96, 2, 1, 1, 5, 3, 6]);
}

#[test]
fn appended_elements_are_counted() {
    let mut out = Vec::new();
    let mut writer = OpsWriter::new(&mut out);
    writer.spawn(1);
    writer.append(&[0x92, 1, 9], 1);
    assert_eq!(writer.finish(), 2);
    assert_eq!(out, [0x92, 0x92, 0, 1, 0x92, 1, 9]);
}

#[test]
fn operations_are_applied_in_order() {
    let mut view = View::default();
    view.apply(&ops(|w| {
        w.spawn(1);
        w.component(0, &value(10));
        w.despawn(1);
        w.set(2);
        w.component(3, &value(20));
        w.remove(2, [3, 9]);
        w.remove(77, [3]);
        w.despawn(88);
        w.resource(5, &value(1));
        w.resource(5, &value(2));
        w.resource(6, &value(3));
        w.remove_resource(6);
    }))
    .expect("valid");
    assert_eq!(view.entities(), &BTreeMap::from([(2, BTreeMap::new())]));
    assert_eq!(view.resources(), &BTreeMap::from([(5, value(2))]));
    view.snapshot(&[0x90]).expect("valid");
    assert_eq!(view, View::default());
}

#[test]
fn the_hash_is_the_documented_one() {
    let mut view = View::default();
    view.apply(&ops(|w| {
        w.spawn(300);
        w.component(2, &[0xc3]);
        w.component(1, &[0xa1, b'x']);
        w.resource(7, &[0x05]);
    }))
    .expect("valid");
    let mut bytes = vec![0, 0, 0, 0, 0, 0, 1, 44];
    bytes.extend([0, 1, 0, 0, 0, 2, 0xa1, b'x']);
    bytes.extend([0, 2, 0, 0, 0, 1, 0xc3]);
    bytes.extend([0xff; 8]);
    bytes.extend([0, 7, 0, 0, 0, 1, 0x05]);
    assert_eq!(view.hash(), xxhash_rust::xxh3::xxh3_64(&bytes));
}

#[test]
fn a_view_keeps_its_bounds() {
    let full = |bounds, bytes: &[u8]| match View::new(bounds).apply(bytes) {
        Err(Error { fault: ViewFault::Full { what, .. }, .. }) => Some(what),
        _ => None,
    };
    let bounds = ViewBounds { entities: 2, values: 3, bytes: 8 };
    let spawns = |n: u64| ops(|w| (0..n).for_each(|e| w.spawn(e)));
    assert_eq!(full(bounds, &spawns(2)), None);
    assert_eq!(full(bounds, &spawns(3)), Some("entities"));
    let resources = |n: u16| ops(|w| (0..n).for_each(|r| w.resource(r, &[0xc0])));
    assert_eq!(full(bounds, &resources(3)), None);
    assert_eq!(full(bounds, &resources(4)), Some("values"));
    let long = |n: usize| {
        let mut word = Vec::new();
        text(&mut word, &"x".repeat(n));
        ops(|w| w.resource(0, &word))
    };
    assert_eq!(full(bounds, &long(7)), None);
    assert_eq!(full(bounds, &long(8)), Some("bytes"));
    // What is replaced or removed makes room again.
    let again = ops(|w| {
        for n in 0..100 {
            w.spawn(n);
            w.component(0, &[0xc0]);
            w.component(0, &[0xc2]);
            w.remove(n, [0]);
            w.despawn(n);
        }
    });
    assert_eq!(full(bounds, &again), None);
}

#[test]
fn malformed_operations_are_refused() {
    let fault = |bytes: &[u8]| View::default().apply(bytes).expect_err("malformed").fault;
    assert_eq!(fault(&[0x91, 0x92, 9, 1]), ViewFault::Code(9));
    assert_eq!(fault(&[0x91, 0x93, 0, 1, 2]), ViewFault::Elements { code: 0, elements: 3 });
    assert_eq!(fault(&[0x91, 0x93, 1, 1, 2]), ViewFault::Elements { code: 1, elements: 3 });
    assert_eq!(fault(&[0x91, 0x91, 1]), ViewFault::Elements { code: 0, elements: 1 });
    for bytes in [&[0xc0][..], &[0x91, 0xc0], &[0x91, 0x92, 1, 0xff], &[0xdd, 0xff, 0xff, 0xff, 0xff], &[0x90, 0x90]] {
        assert!(matches!(fault(bytes), ViewFault::Form(_)), "{bytes:02x?}");
    }
}

/// One step of a random game, for writer and model alike.
#[derive(Clone, Debug)]
enum Step {
    Spawn(u64, Vec<(u16, u64)>),
    Set(u64, Vec<(u16, u64)>),
    Despawn(u64),
    Remove(u64, Vec<u16>),
    Resource(u16, u64),
    RemoveResource(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let entity = 0_u64..12;
    let number = 0_u16..300;
    let values = prop::collection::vec((number.clone(), any::<u64>()), 0..12);
    prop_oneof![
        (entity.clone(), values.clone()).prop_map(|(e, v)| Step::Spawn(e, v)),
        (entity.clone(), values).prop_map(|(e, v)| Step::Set(e, v)),
        entity.clone().prop_map(Step::Despawn),
        (entity, prop::collection::vec(number.clone(), 0..20)).prop_map(|(e, c)| Step::Remove(e, c)),
        (number.clone(), any::<u64>()).prop_map(|(r, v)| Step::Resource(r, v)),
        number.prop_map(Step::RemoveResource),
    ]
}

type Values = BTreeMap<u16, Vec<u8>>;

fn play(steps: &[Step], writer: &mut OpsWriter<'_>, entities: &mut BTreeMap<u64, Values>, resources: &mut Values) {
    for step in steps {
        match step {
            Step::Spawn(entity, values) | Step::Set(entity, values) => {
                let op = if matches!(step, Step::Spawn(..)) { Op::Spawn } else { Op::Set };
                writer.begin(op, *entity);
                let known = entities.entry(*entity).or_default();
                for (component, n) in values {
                    writer.component(*component, &value(*n));
                    known.insert(*component, value(*n));
                }
            }
            Step::Despawn(entity) => {
                writer.despawn(*entity);
                entities.remove(entity);
            }
            Step::Remove(entity, components) => {
                writer.remove(*entity, components.iter().copied());
                if let Some(known) = entities.get_mut(entity) {
                    known.retain(|c, _| !components.contains(c));
                }
            }
            Step::Resource(resource, n) => {
                writer.resource(*resource, &value(*n));
                resources.insert(*resource, value(*n));
            }
            Step::RemoveResource(resource) => {
                writer.remove_resource(*resource);
                resources.remove(resource);
            }
        }
    }
}

proptest! {
    #[test]
    fn the_view_follows_the_writer(frames in prop::collection::vec(prop::collection::vec(step(), 0..24), 0..8)) {
        let (mut view, mut entities, mut resources) = (View::default(), BTreeMap::new(), Values::new());
        for steps in &frames {
            let bytes = ops(|w| play(steps, w, &mut entities, &mut resources));
            prop_assert_eq!(view.apply(&bytes), Ok(()));
        }
        prop_assert_eq!(view.entities(), &entities);
        prop_assert_eq!(view.resources(), &resources);
        let snapshot = ops(|w| {
            for (entity, values) in &entities {
                w.spawn(*entity);
                values.iter().for_each(|(c, v)| w.component(*c, v));
            }
            resources.iter().for_each(|(r, v)| w.resource(*r, v));
        });
        let mut fresh = View::default();
        prop_assert_eq!(fresh.snapshot(&snapshot), Ok(()));
        prop_assert_eq!(fresh.hash(), view.hash());
    }

    #[test]
    fn any_bytes_are_survived_and_bounded(
        steps in prop::collection::vec(step(), 0..24),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        noise in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut bytes = ops(|w| play(&steps, w, &mut BTreeMap::new(), &mut Values::new()));
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let bounds = ViewBounds { entities: 4, values: 8, bytes: 64 };
        let mut view = View::new(bounds);
        let mut head = Vec::new();
        array_head(&mut head, noise.len());
        for attempt in [bytes, noise.clone(), [head, noise].concat()] {
            // Refused or not: the bounds hold, and what is counted is what is there.
            let _outcome = view.apply(&attempt);
            let all = || view.entities().values().chain([view.resources()]);
            prop_assert!(view.entities().len() <= bounds.entities);
            prop_assert!(all().map(BTreeMap::len).sum::<usize>() <= bounds.values);
            prop_assert!(all().flat_map(BTreeMap::values).map(Vec::len).sum::<usize>() <= bounds.bytes);
        }
    }
}
