//! Refusals of docs/invariants.md C58 to C62 that belong to the reader, and round trips of the writers.

use proptest::prelude::*;

use super::*;

fn fault(bytes: &[u8]) -> Option<Fault> {
    check(bytes, &Bounds::CLIENT).err().map(|e| e.fault)
}

#[test]
fn false_lengths_are_refused_before_anything_is_reserved() {
    // docs/invariants.md C60.
    let claims: [&[u8]; 8] = [
        &[0xdd, 0xff, 0xff, 0xff, 0xff],
        &[0xdf, 0xff, 0xff, 0xff, 0xff],
        &[0xc6, 0xff, 0xff, 0xff, 0xff],
        &[0xdb, 0xff, 0xff, 0xff, 0xff],
        &[0xdc, 0xff, 0xff],
        &[0x82, 0x01, 0x02, 0x03],
        &[0xa2, 0x61],
        &[0x92, 0x01],
    ];
    for bytes in claims {
        assert!(matches!(fault(bytes), Some(Fault::Length { .. })), "{bytes:02x?}: {:?}", fault(bytes));
    }
    assert_eq!(fault(&[0xc9, 0xff, 0xff, 0xff, 0xff, 1]), Some(Fault::Forbidden(0xc9)));
    let chain = [0xdc, 0xff, 0xff].repeat(24_000);
    assert!(fault(&chain).is_some());
    assert_eq!(fault(&[0xcd, 0x01]), Some(Fault::End));
    assert_eq!(fault(&[]), Some(Fault::End));
}

#[test]
fn deep_nesting_ends_at_the_bound_on_a_small_stack() {
    // docs/invariants.md C59. 64 KiB of stack: recursion by 100 000 levels would end the process.
    let run = || {
        for level in [&[0x91][..], &[0x81, 0xa1, 0x61], &[0x81]] {
            let mut bytes = level.repeat(100_000);
            bytes.push(0xc0);
            assert_eq!(fault(&bytes), Some(Fault::Depth { limit: limits::NESTING_DEPTH }), "{level:02x?}");
        }
        let nested = |depth| [vec![0x91; depth], vec![0xc0]].concat();
        assert_eq!(fault(&nested(limits::NESTING_DEPTH)), None);
        assert_eq!(fault(&nested(limits::NESTING_DEPTH + 1)), Some(Fault::Depth { limit: limits::NESTING_DEPTH }));
        // The empty array at the end is a level too.
        let empty = |depth| [vec![0x91; depth], vec![0x90]].concat();
        assert_eq!(fault(&empty(limits::NESTING_DEPTH - 1)), None);
        assert!(matches!(fault(&empty(limits::NESTING_DEPTH)), Some(Fault::Depth { .. })));
        let unbounded = Bounds { depth: usize::MAX, collection: usize::MAX };
        assert_eq!(check(&nested(MAX_DEPTH), &unbounded), Ok(()));
        let deeper = check(&nested(MAX_DEPTH + 1), &unbounded).expect_err("deeper than the reader's stack");
        assert_eq!(deeper.fault, Fault::Depth { limit: MAX_DEPTH });
    };
    std::thread::Builder::new().stack_size(64 * 1024).spawn(run).expect("thread").join().expect("no panic");
}

#[test]
fn collections_end_at_the_bound() {
    let array = |len: usize| {
        let mut bytes = Vec::new();
        array_head(&mut bytes, len);
        bytes.resize(bytes.len() + len, 0xc0);
        bytes
    };
    assert_eq!(fault(&array(limits::COLLECTION_LENGTH)), None);
    assert!(matches!(fault(&array(limits::COLLECTION_LENGTH + 1)), Some(Fault::Length { .. })));
    let inner = [vec![0x91], array(limits::COLLECTION_LENGTH + 1)].concat();
    assert!(matches!(fault(&inner), Some(Fault::Length { .. })));
}

#[test]
fn bad_text_unused_bytes_and_extra_bytes_are_refused() {
    // docs/invariants.md C62.
    assert_eq!(fault(&[0xa2, 0xc3, 0x28]), Some(Fault::Utf8));
    assert_eq!(fault(&[0x91, 0x91, 0xa2, 0xc3, 0x28]), Some(Fault::Utf8));
    assert_eq!(fault(&[0xc1]), Some(Fault::Forbidden(0xc1)));
    assert_eq!(fault(&[0x92, 0x01, 0xc1]), Some(Fault::Forbidden(0xc1)));
    assert_eq!(check(&[0x01, 0x02], &Bounds::CLIENT).expect_err("two values").at, 1);
}

#[test]
fn a_map_key_may_come_once() {
    // {"b":1,"1":2,"a":3}: order does not matter.
    assert_eq!(fault(&[0x83, 0xa1, b'b', 1, 0xa1, b'1', 2, 0xa1, b'a', 3]), None);
    assert_eq!(fault(&[0x82, 0xa1, b'a', 1, 0xa1, b'a', 2]), Some(Fault::DuplicateKey));
    // 1 as fixint and as uint 8; "a" as fixstr and as str 8; an array as key.
    assert_eq!(fault(&[0x82, 0x01, 0, 0xcc, 0x01, 0]), Some(Fault::DuplicateKey));
    assert_eq!(fault(&[0x82, 0xa1, b'a', 0, 0xd9, 1, b'a', 0]), Some(Fault::DuplicateKey));
    assert_eq!(fault(&[0x82, 0x91, 0x05, 0, 0x91, 0x05, 0]), Some(Fault::DuplicateKey));
    assert_eq!(fault(&[0x82, 0x91, 0x05, 0, 0x91, 0x06, 0]), None);
    // The same key in a map and in the map inside of it is two keys.
    assert_eq!(fault(&[0x81, 0xa1, b'a', 0x81, 0xa1, b'a', 0]), None);
    assert_eq!(fault(&[0x82, 0xa1, b'a', 0x81, 0xa1, b'b', 0, 0xa1, b'a', 0]), Some(Fault::DuplicateKey));
}

#[test]
fn numbers_above_two_to_the_53_are_refused_by_type() {
    // docs/invariants.md C58: JavaScript would lose the last digit.
    let one_more = [0xcf, 0x00, 0x20, 0, 0, 0, 0, 0, 0];
    assert!(matches!(Reader::new(&one_more).u53(), Err(Error { at: 0, fault: Fault::Range { .. } })));
    let mut most = Vec::new();
    uint(&mut most, limits::MAX_SAFE_INTEGER);
    assert_eq!(Reader::new(&most).u53(), Ok(limits::MAX_SAFE_INTEGER));
    assert!(Reader::new(&[0xff]).u53().is_err());
    // A payload is the game's own: its numbers may be wider, only their form is checked.
    assert_eq!(fault(&[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), None);
}

#[test]
fn errors_say_where_and_what() {
    let mut reader = Reader::new(&[0x92, 0x01, 0xa1, 0x61]);
    assert_eq!(reader.array(&Bounds::CLIENT), Ok(2));
    assert_eq!(reader.u8(), Ok(1));
    let error = reader.u16().expect_err("text is no number");
    assert_eq!(error.to_string(), "byte 2: expected a number of 16 bits, found text");
}

/// Any value within the client's bounds, and what it encodes to.
fn any_value() -> impl Strategy<Value = Vec<u8>> {
    let scalar = prop_oneof![
        any::<u64>().prop_map(|n| written(|out| uint(out, n))),
        any::<i64>().prop_map(|n| written(|out| int(out, n))),
        ".{0,40}".prop_map(|t| written(|out| text(out, &t))),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(|b| written(|out| bin(out, &b))),
        Just(vec![0xc0]),
        any::<f64>().prop_map(|f| [&[0xcb][..], &f.to_be_bytes()].concat()),
    ];
    scalar.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(|all| {
                let mut out = Vec::new();
                array_head(&mut out, all.len());
                out.extend(all.concat());
                out
            }),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..8).prop_map(|all| {
                let mut out = vec![0x80 | all.len() as u8];
                for (key, value) in all {
                    text(&mut out, &key);
                    out.extend(value);
                }
                out
            }),
        ]
    })
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

proptest! {
    #[test]
    fn a_value_is_sliced_whole(value in any_value(), rest in prop::collection::vec(any::<u8>(), 0..8)) {
        let all = [value.clone(), rest.clone()].concat();
        let mut left = all.as_slice();
        prop_assert_eq!(slice_value(&mut left, &Bounds::CLIENT), Ok(value.as_slice()));
        prop_assert_eq!(left, rest.as_slice());
    }

    #[test]
    fn a_cut_value_is_refused(value in any_value(), cut in any::<prop::sample::Index>()) {
        let cut = cut.index(value.len());
        prop_assert!(check(&value[..cut], &Bounds::CLIENT).is_err());
    }

    #[test]
    fn numbers_and_texts_come_back(n in any::<i64>(), t in ".{0,300}", b in prop::collection::vec(any::<u8>(), 0..70_000)) {
        let n = n >> 11;
        let out = written(|out| { int(out, n); text(out, &t); bin(out, &b); });
        let mut reader = Reader::new(&out);
        prop_assert_eq!(reader.i54(), Ok(n));
        prop_assert_eq!(reader.text(usize::MAX), Ok(t.as_str()));
        prop_assert_eq!(reader.bin(usize::MAX), Ok(b.as_slice()));
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut left = bytes.as_slice();
        if let Ok(value) = slice_value(&mut left, &Bounds::CLIENT) {
            prop_assert_eq!(check(value, &Bounds::CLIENT), Ok(()));
        }
    }
}
