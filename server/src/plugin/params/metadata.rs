//! A room's metadata: one MessagePack map with text keys.

use std::collections::BTreeMap;

use tenure_shared::{
    limits,
    msgpack::{self, Bounds, Reader},
};

type Fields<'a> = BTreeMap<&'a str, &'a [u8]>;

/// The fields of `more` over those of `old`. What is no metadata (an earlier build's text) has none.
///
/// # Errors
/// When `more` is no map with short text keys.
pub(super) fn merged(old: &[u8], more: &[u8]) -> Result<Vec<u8>, String> {
    let mut fields = read(old).unwrap_or_default();
    fields.extend(read(more).map_err(|error| format!("metadata must be a struct or a map with text keys: {error}"))?);
    let mut out = Vec::with_capacity(old.len() + more.len());
    msgpack::map_head(&mut out, fields.len());
    for (key, value) in fields {
        msgpack::text(&mut out, key);
        out.extend_from_slice(value);
    }
    Ok(out)
}

fn read(bytes: &[u8]) -> Result<Fields<'_>, msgpack::Error> {
    let (mut reader, bounds) = (Reader::new(bytes), Bounds::CLIENT);
    let count = reader.map(&bounds)?;
    let mut fields = Fields::new();
    for _ in 0..count {
        let key = reader.text(limits::NAME_BYTES)?;
        fields.insert(key, reader.value(&bounds)?);
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use tenure_shared::{Filter, Scalar};

    use super::*;

    #[test]
    fn fields_take_the_place_of_those_of_their_name() {
        let of = |all: &[(&str, Scalar)]| -> Filter { all.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect() };
        let (duel, team) = (Scalar::Text("duel".into()), Scalar::Text("team".into()));
        let old = of(&[("mode", duel), ("level", Scalar::Int(3))]).encode();
        let both = merged(&old, &of(&[("mode", team.clone()), ("map", Scalar::Nil)]).encode()).expect("merged");
        let expected = of(&[("mode", team), ("level", Scalar::Int(3)), ("map", Scalar::Nil)]);
        assert_eq!(Filter::of_metadata(&both), expected);
        assert_eq!(merged(b"", &old).as_deref(), Ok(old.as_slice()));
        assert_eq!(merged(b"a text", &old).as_deref(), Ok(old.as_slice()));
        for no_map in [&[0x90][..], &[0xa1, b'a'], &[0x81, 1, 2], &[]] {
            assert!(merged(&old, no_map).is_err(), "{no_map:02x?}");
        }
    }
}
