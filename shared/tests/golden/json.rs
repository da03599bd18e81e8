//! MessagePack as JSON and hex, written apart from the crate's own reader so that the two check each other.

use serde_json::{Value, json};

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub(crate) fn from_hex(text: &str) -> Vec<u8> {
    let digit = |c: &u8| char::from(*c).to_digit(16).expect("hex digit") as u8;
    text.as_bytes().chunks(2).map(|pair| digit(&pair[0]) << 4 | digit(&pair[1])).collect()
}

/// One value as JSON; panics on what is not exactly one valid value.
pub(crate) fn to_json(bytes: &[u8]) -> Value {
    let mut rest = bytes;
    let value = take(&mut rest);
    assert!(rest.is_empty(), "{} bytes left", rest.len());
    value
}

fn take(rest: &mut &[u8]) -> Value {
    let first = number(rest, 1) as u8;
    match first {
        0..=0x7f => json!(first),
        0x80..=0x8f => map(rest, usize::from(first & 15)),
        0x90..=0x9f => array(rest, usize::from(first & 15)),
        0xa0..=0xbf => text(rest, usize::from(first & 31)),
        0xc0 => Value::Null,
        0xc2 => json!(false),
        0xc3 => json!(true),
        0xc4..=0xc6 => {
            let len = number(rest, 1 << (first - 0xc4)) as usize;
            json!({ "bin": to_hex(bytes(rest, len)) })
        }
        0xca => json!(f32::from_bits(number(rest, 4) as u32)),
        0xcb => json!(f64::from_bits(number(rest, 8))),
        0xcc..=0xcf => integer(i128::from(number(rest, 1 << (first - 0xcc)))),
        0xd0..=0xd3 => {
            let size = 1 << (first - 0xd0);
            let unused = 64 - 8 * size as u32;
            integer(i128::from((number(rest, size) << unused) as i64 >> unused))
        }
        0xd9..=0xdb => {
            let len = number(rest, 1 << (first - 0xd9)) as usize;
            text(rest, len)
        }
        0xdc | 0xdd => {
            let len = number(rest, 2 << (first - 0xdc)) as usize;
            array(rest, len)
        }
        0xde | 0xdf => {
            let len = number(rest, 2 << (first - 0xde)) as usize;
            map(rest, len)
        }
        0xe0..=0xff => json!(first as i8),
        _ => panic!("0x{first:02x} has no place in golden messages"),
    }
}

fn integer(n: i128) -> Value {
    if n.unsigned_abs() < 1 << 53 { json!(n as i64) } else { json!({ "int": n.to_string() }) }
}

fn array(rest: &mut &[u8], len: usize) -> Value {
    (0..len).map(|_| take(rest)).collect()
}

fn map(rest: &mut &[u8], len: usize) -> Value {
    json!({ "map": (0..len).map(|_| json!([take(rest), take(rest)])).collect::<Vec<_>>() })
}

fn text(rest: &mut &[u8], len: usize) -> Value {
    json!(std::str::from_utf8(bytes(rest, len)).expect("UTF-8"))
}

fn bytes<'a>(rest: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(len);
    *rest = left;
    taken
}

fn number(rest: &mut &[u8], size: usize) -> u64 {
    bytes(rest, size).iter().fold(0, |n, b| n << 8 | u64::from(*b))
}
