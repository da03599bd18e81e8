//! Writers: each appends the shortest form of one value to a `Vec`. They cannot fail.

use rmp::Marker;

/// Appends the header of an array of `len` elements.
pub fn array_head(out: &mut Vec<u8>, len: usize) {
    match u16::try_from(len) {
        Ok(n) if n < 16 => out.push(Marker::FixArray(n as u8).to_u8()),
        Ok(n) => tagged(out, Marker::Array16, &n.to_be_bytes()),
        Err(_) => tagged(out, Marker::Array32, &length32(len).to_be_bytes()),
    }
}

/// Appends the header of a map of `len` keys and values.
pub fn map_head(out: &mut Vec<u8>, len: usize) {
    match u16::try_from(len) {
        Ok(n) if n < 16 => out.push(Marker::FixMap(n as u8).to_u8()),
        Ok(n) => tagged(out, Marker::Map16, &n.to_be_bytes()),
        Err(_) => tagged(out, Marker::Map32, &length32(len).to_be_bytes()),
    }
}

/// Appends true or false.
pub fn boolean(out: &mut Vec<u8>, value: bool) {
    out.push(if value { Marker::True } else { Marker::False }.to_u8());
}

/// Appends nil.
pub fn nil(out: &mut Vec<u8>) {
    out.push(Marker::Null.to_u8());
}

/// Appends a number.
pub fn uint(out: &mut Vec<u8>, n: u64) {
    if n < 0x80 {
        out.push(n as u8);
    } else if let Ok(n) = u8::try_from(n) {
        tagged(out, Marker::U8, &[n]);
    } else if let Ok(n) = u16::try_from(n) {
        tagged(out, Marker::U16, &n.to_be_bytes());
    } else if let Ok(n) = u32::try_from(n) {
        tagged(out, Marker::U32, &n.to_be_bytes());
    } else {
        tagged(out, Marker::U64, &n.to_be_bytes());
    }
}

/// Appends a number that may be negative.
pub fn int(out: &mut Vec<u8>, n: i64) {
    if let Ok(n) = u64::try_from(n) {
        uint(out, n);
    } else if n >= -32 {
        out.push(n as i8 as u8);
    } else if let Ok(n) = i8::try_from(n) {
        tagged(out, Marker::I8, &n.to_be_bytes());
    } else if let Ok(n) = i16::try_from(n) {
        tagged(out, Marker::I16, &n.to_be_bytes());
    } else if let Ok(n) = i32::try_from(n) {
        tagged(out, Marker::I32, &n.to_be_bytes());
    } else {
        tagged(out, Marker::I64, &n.to_be_bytes());
    }
}

/// Appends a text.
pub fn text(out: &mut Vec<u8>, text: &str) {
    let len = text.len();
    if len < 32 {
        out.push(Marker::FixStr(len as u8).to_u8());
    } else if let Ok(n) = u8::try_from(len) {
        tagged(out, Marker::Str8, &[n]);
    } else if let Ok(n) = u16::try_from(len) {
        tagged(out, Marker::Str16, &n.to_be_bytes());
    } else {
        tagged(out, Marker::Str32, &length32(len).to_be_bytes());
    }
    out.extend_from_slice(text.as_bytes());
}

/// Appends bytes.
pub fn bin(out: &mut Vec<u8>, bytes: &[u8]) {
    bin_head(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends the header of `len` bytes, which the caller appends or sends behind it.
pub fn bin_head(out: &mut Vec<u8>, len: usize) {
    if let Ok(n) = u8::try_from(len) {
        tagged(out, Marker::Bin8, &[n]);
    } else if let Ok(n) = u16::try_from(len) {
        tagged(out, Marker::Bin16, &n.to_be_bytes());
    } else {
        tagged(out, Marker::Bin32, &length32(len).to_be_bytes());
    }
}

/// Appends a text or nil.
pub fn opt_text(out: &mut Vec<u8>, value: Option<&str>) {
    match value {
        Some(value) => text(out, value),
        None => nil(out),
    }
}

/// Appends a number or nil.
pub fn opt_uint(out: &mut Vec<u8>, value: Option<u64>) {
    match value {
        Some(value) => uint(out, value),
        None => nil(out),
    }
}

fn tagged(out: &mut Vec<u8>, marker: Marker, bytes: &[u8]) {
    out.push(marker.to_u8());
    out.extend_from_slice(bytes);
}

/// MessagePack has no longer lengths; what is longer than 4 GiB passes no bound of ours long before.
fn length32(len: usize) -> u32 {
    debug_assert!(u32::try_from(len).is_ok(), "{len} does not fit a MessagePack length");
    len as u32
}
