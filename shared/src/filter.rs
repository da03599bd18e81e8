//! Filters: a few keys of a room's metadata, and the values that they must have.
//!
//! Metadata is a MessagePack map that the game writes; what a filter can compare of it are texts, whole numbers, booleans and nil under
//! text keys. Both are bounded, and what cannot be read of metadata matches nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    limits,
    msgpack::{Bounds, Error, Fault, Reader, boolean, int, map_head, nil, text},
};

/// A value that can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scalar {
    /// Nothing: the key is there, without a value.
    Nil,
    /// Yes or no.
    Bool(bool),
    /// A whole number within +-(2^53 - 1).
    Int(i64),
    /// A text of at most [`limits::FILTER_TEXT_BYTES`].
    Text(String),
}

/// Keys and the values that they must have; none: everything matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Filter(BTreeMap<String, Scalar>);

impl Filter {
    /// Reads a MessagePack map, or nil for none.
    ///
    /// # Errors
    /// Anything else, more than [`limits::FILTER_KEYS`] keys, and values that cannot be compared.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes);
        let mut all = BTreeMap::new();
        if !reader.take_nil() {
            for _ in 0..reader.map(&Bounds { depth: 1, collection: limits::FILTER_KEYS })? {
                let at = reader.position();
                let key = reader.text(limits::NAME_BYTES)?.to_owned();
                if all.insert(key, read_scalar(&mut reader)?).is_some() {
                    return Err(Error { at, fault: Fault::DuplicateKey });
                }
            }
        }
        match reader.rest().len() {
            0 => Ok(Self(all)),
            length => {
                let fault = Fault::Length { what: "extra bytes", length, limit: 0 };
                Err(Error { at: reader.position(), fault })
            }
        }
    }

    /// As [`Filter::read`] reads it: keys in order, so that equal filters are equal bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        map_head(&mut out, self.0.len());
        for (key, value) in &self.0 {
            text(&mut out, key);
            match value {
                Scalar::Nil => nil(&mut out),
                Scalar::Bool(value) => boolean(&mut out, *value),
                Scalar::Int(value) => int(&mut out, *value),
                Scalar::Text(value) => text(&mut out, value),
            }
        }
        out
    }

    /// What of a room's metadata can be compared. Metadata that cannot be read has nothing.
    pub fn of_metadata(metadata: &[u8]) -> Self {
        let read = || -> Option<BTreeMap<String, Scalar>> {
            let bounds = Bounds::CLIENT;
            let mut reader = Reader::new(metadata);
            let mut all = BTreeMap::new();
            for _ in 0..reader.map(&bounds).ok()? {
                // A key of another type is no key of a filter.
                let mut ahead = reader.clone();
                let key = ahead.text(limits::NAME_BYTES).ok().map(str::to_owned);
                reader.value(&bounds).ok()?;
                let mut ahead = reader.clone();
                let value = read_scalar(&mut ahead).ok();
                reader.value(&bounds).ok()?;
                all.extend(key.zip(value));
            }
            Some(all)
        };
        Self(read().unwrap_or_default())
    }

    /// Whether every key of this has the same value in `other`.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.iter().all(|(key, value)| other.0.get(key) == Some(value))
    }

    /// The part of it with these keys.
    #[must_use]
    pub fn only(&self, keys: &[impl AsRef<str>]) -> Self {
        let part = keys.iter().filter_map(|key| self.0.get_key_value(key.as_ref()));
        Self(part.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// Its keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Scalar> {
        self.0.get(key)
    }

    /// Whether it has no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, Scalar)> for Filter {
    fn from_iter<I: IntoIterator<Item = (String, Scalar)>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

fn read_scalar(reader: &mut Reader<'_>) -> Result<Scalar, Error> {
    if reader.take_nil() {
        return Ok(Scalar::Nil);
    }
    if let Some(value) = reader.take_bool() {
        return Ok(Scalar::Bool(value));
    }
    let mut ahead = reader.clone();
    if let Ok(number) = ahead.i54() {
        *reader = ahead;
        return Ok(Scalar::Int(number));
    }
    reader.text(limits::FILTER_TEXT_BYTES).map(|value| Scalar::Text(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filter(all: &[(&str, Scalar)]) -> Filter {
        all.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
    }

    #[test]
    fn what_is_not_a_small_map_of_plain_values_is_refused() {
        let text = |n: usize| Scalar::Text("x".repeat(n));
        assert_eq!(Filter::read(&[0xc0]), Ok(Filter::default()));
        assert!(Filter::read(&filter(&[("mode", text(64))]).encode()).is_ok());
        let many: Filter = (0..9).map(|n| (format!("k{n}"), Scalar::Nil)).collect();
        let bad = [
            filter(&[("mode", text(65))]).encode(),
            filter(&[(&"k".repeat(49), Scalar::Nil)]).encode(),
            many.encode(),
            vec![0x90],
            vec![0x81, 0xa1, b'a', 0x90],
            vec![0x81, 0xa1, b'a', 0xca, 0, 0, 0, 0],
            vec![0x82, 0xa1, b'a', 1, 0xa1, b'a', 2],
            vec![0x80, 0x80],
            vec![0xde, 0xff, 0xff],
        ];
        for bytes in bad {
            assert!(Filter::read(&bytes).is_err(), "{bytes:02x?}");
        }
    }

    #[test]
    fn metadata_may_hold_more_than_filters_compare() {
        // {"mode": "duel", 7: 1, "at": [1, 2], "level": -3}
        let metadata = [
            &[0x84, 0xa4][..],
            b"mode",
            &[0xa4],
            b"duel",
            &[7, 1, 0xa2],
            b"at",
            &[0x92, 1, 2, 0xa5],
            b"level",
            &[0xfd],
        ]
        .concat();
        let known = Filter::of_metadata(&metadata);
        assert_eq!(known, filter(&[("mode", Scalar::Text("duel".into())), ("level", Scalar::Int(-3))]));
        assert!(filter(&[("level", Scalar::Int(-3))]).is_within(&known) && Filter::default().is_within(&known));
        for other in [("level", Scalar::Int(3)), ("level", Scalar::Nil), ("at", Scalar::Nil), ("map", Scalar::Nil)] {
            assert!(!filter(&[other]).is_within(&known));
        }
        assert_eq!(known.only(&["level"]), filter(&[("level", Scalar::Int(-3))]));
        assert!(Filter::of_metadata(b"a text of an earlier build").is_empty());
        assert!(Filter::of_metadata(&metadata[..9]).is_empty());
    }

    proptest! {
        #[test]
        fn filters_are_read_back_and_noise_is_survived(
            keys in prop::collection::btree_map("[a-z_]{1,48}", (any::<bool>(), -9_007_199_254_740_991_i64..=9_007_199_254_740_991, "\\PC{0,16}", 0..4), 0..8),
            noise in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let all: Filter = keys.into_iter().map(|(key, (yes, number, text, which))| (key, match which {
                0 => Scalar::Nil,
                1 => Scalar::Bool(yes),
                2 => Scalar::Int(number),
                _ => Scalar::Text(text),
            })).collect();
            prop_assert_eq!(Filter::read(&all.encode()), Ok(all.clone()));
            prop_assert_eq!(Filter::of_metadata(&all.encode()), all);
            drop((Filter::read(&noise), Filter::of_metadata(&noise)));
        }
    }
}
