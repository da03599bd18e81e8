//! Names of a struct's fields, asked from its `Deserialize`: the name table needs them, and nobody should write them twice.

use serde::de::{self, DeserializeOwned, Deserializer, Visitor};

/// Field names in order if `T` is a struct, else `None`.
pub(crate) fn of<T: DeserializeOwned>() -> Option<Vec<String>> {
    // The probe refuses every value, so `deserialize` always ends here, with what it asked for.
    match T::deserialize(Probe) {
        Err(Asked(fields)) => fields.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        Ok(_) => None,
    }
}

struct Probe;

#[derive(Debug)]
struct Asked(Option<&'static [&'static str]>);

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a probe has no values")
    }
}
impl std::error::Error for Asked {}
impl de::Error for Asked {
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        Asked(None)
    }
}

impl<'de> Deserializer<'de> for Probe {
    type Error = Asked;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Asked> {
        Err(Asked(None))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Asked> {
        Err(Asked(Some(fields)))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape is asked for")]
    struct Pos {
        x: f32,
        #[serde(rename = "why")]
        y: f32,
    }
    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape is asked for")]
    struct Pair(u8, u8);

    #[test]
    fn structs_have_names_and_nothing_else_has() {
        assert_eq!(super::of::<Pos>(), Some(vec!["x".to_owned(), "why".to_owned()]));
        assert_eq!(super::of::<Pair>(), None);
        assert_eq!(super::of::<Vec<Pos>>(), None);
        assert_eq!(super::of::<u64>(), None);
        assert_eq!(super::of::<Option<u8>>(), None);
        assert_eq!(super::of::<()>(), None);
    }
}
