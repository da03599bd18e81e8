//! MessagePack of what clients are shown: a struct is an array of its fields, which the name table names; structs inside of it are
//! maps by name, since no table lists theirs and a field that moves must not be read as another.

use rmp_serde::{
    config::{DefaultConfig, StructMapConfig},
    encode::Error,
};
use serde::{Serialize, Serializer, ser::SerializeStruct};
use tenure_shared::msgpack;

type Named<'o> = rmp_serde::Serializer<&'o mut Vec<u8>, StructMapConfig<DefaultConfig>>;

/// Appends a value; on error nothing is appended.
pub(crate) fn encode_shown<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), String> {
    let before = out.len();
    let mut named = rmp_serde::Serializer::new(&mut *out).with_struct_map();
    value.serialize(Shown(&mut named)).map_err(|e| {
        out.truncate(before);
        e.to_string()
    })
}

/// The outermost value; what is inside goes to the named serializer.
struct Shown<'s, 'o>(&'s mut Named<'o>);

/// The fields of the outermost struct.
struct Fields<'s, 'o>(&'s mut Named<'o>);

impl SerializeStruct for Fields<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.0)
    }
    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

/// Calls that mean the same at every depth.
macro_rules! pass {
    ($($call:ident($($arg:ident: $kind:ty),*) -> $ok:ty;)*) => {
        $(fn $call(self, $($arg: $kind),*) -> Result<$ok, Error> { self.0.$call($($arg),*) })*
    };
}

impl<'s, 'o> Serializer for Shown<'s, 'o> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = <&'s mut Named<'o> as Serializer>::SerializeSeq;
    type SerializeTuple = <&'s mut Named<'o> as Serializer>::SerializeTuple;
    type SerializeTupleStruct = <&'s mut Named<'o> as Serializer>::SerializeTupleStruct;
    type SerializeTupleVariant = <&'s mut Named<'o> as Serializer>::SerializeTupleVariant;
    type SerializeMap = <&'s mut Named<'o> as Serializer>::SerializeMap;
    type SerializeStruct = Fields<'s, 'o>;
    type SerializeStructVariant = <&'s mut Named<'o> as Serializer>::SerializeStructVariant;

    fn serialize_struct(self, _: &'static str, len: usize) -> Result<Fields<'s, 'o>, Error> {
        msgpack::array_head(self.0.get_mut(), len);
        Ok(Fields(self.0))
    }

    fn is_human_readable(&self) -> bool {
        false
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.0.serialize_some(value)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<(), Error> {
        self.0.serialize_newtype_struct(name, value)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.0.serialize_newtype_variant(name, index, variant, value)
    }

    pass! {
        serialize_bool(v: bool) -> ();
        serialize_i8(v: i8) -> ();
        serialize_i16(v: i16) -> ();
        serialize_i32(v: i32) -> ();
        serialize_i64(v: i64) -> ();
        serialize_i128(v: i128) -> ();
        serialize_u8(v: u8) -> ();
        serialize_u16(v: u16) -> ();
        serialize_u32(v: u32) -> ();
        serialize_u64(v: u64) -> ();
        serialize_u128(v: u128) -> ();
        serialize_f32(v: f32) -> ();
        serialize_f64(v: f64) -> ();
        serialize_char(v: char) -> ();
        serialize_str(v: &str) -> ();
        serialize_bytes(v: &[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(name: &'static str) -> ();
        serialize_unit_variant(name: &'static str, index: u32, variant: &'static str) -> ();
        serialize_seq(len: Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(len: usize) -> Self::SerializeTuple;
        serialize_tuple_struct(name: &'static str, len: usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(name: &'static str, index: u32, variant: &'static str, len: usize) -> Self::SerializeTupleVariant;
        serialize_map(len: Option<usize>) -> Self::SerializeMap;
        serialize_struct_variant(name: &'static str, index: u32, variant: &'static str, len: usize) -> Self::SerializeStructVariant;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::plugin::decode;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Card {
        suit: u8,
        rank: u8,
    }
    /// The same, its fields in another order.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Moved {
        rank: u8,
        suit: u8,
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Phase {
        Lobby,
        Round { number: u32, trump: Card },
        Over(Card),
        Pair(u8, Card),
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Hand {
        top: Card,
        rest: Vec<Card>,
        at: (f32, i64),
        by: BTreeMap<String, Card>,
        phase: Phase,
        maybe: Option<Card>,
        none: Option<Card>,
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Wrapped(Card);

    fn json<T: Serialize>(value: &T) -> String {
        let mut bytes = Vec::new();
        encode_shown(&mut bytes, value).expect("encodes");
        decode::<serde_json::Value>(&bytes).expect("reads").to_string()
    }

    fn hand() -> Hand {
        let card = |suit, rank| Card { suit, rank };
        Hand {
            top: card(1, 2),
            rest: vec![card(3, 4)],
            at: (1.5, -7),
            by: [("ada".to_owned(), card(5, 6))].into(),
            phase: Phase::Round { number: 9, trump: card(7, 8) },
            maybe: Some(card(0, 1)),
            none: None,
        }
    }

    #[test]
    fn structs_inside_carry_their_names_and_the_outermost_does_not() {
        let expected = r#"[{"rank":2,"suit":1},[{"rank":4,"suit":3}],[1.5,-7],{"ada":{"rank":6,"suit":5}},{"Round":{"number":9,"trump":{"rank":8,"suit":7}}},{"rank":1,"suit":0},null]"#;
        assert_eq!(json(&hand()), expected);
        let card = Card { suit: 1, rank: 2 };
        assert_eq!(json(&card), "[1,2]");
        assert_eq!(json(&vec![card.clone()]), r#"[{"rank":2,"suit":1}]"#);
        // No table lists the fields of these.
        assert_eq!(json(&Wrapped(card.clone())), r#"{"rank":2,"suit":1}"#);
        assert_eq!(json(&Some(card.clone())), r#"{"rank":2,"suit":1}"#);
        assert_eq!(json(&Phase::Over(card.clone())), r#"{"Over":{"rank":2,"suit":1}}"#);
        assert_eq!(json(&Phase::Pair(3, card)), r#"{"Pair":[3,{"rank":2,"suit":1}]}"#);
        assert_eq!(json(&Phase::Lobby), r#""Lobby""#);
    }

    #[test]
    fn it_is_read_back_and_a_field_that_moved_is_not_read_as_another() {
        let mut bytes = Vec::new();
        encode_shown(&mut bytes, &hand()).expect("encodes");
        assert_eq!(decode::<Hand>(&bytes).expect("reads"), hand());
        bytes.clear();
        encode_shown(&mut bytes, &(Card { suit: 1, rank: 2 },)).expect("encodes");
        assert_eq!(decode::<(Moved,)>(&bytes).expect("reads").0, Moved { rank: 2, suit: 1 });
    }

    #[test]
    fn numbers_and_texts_are_as_everywhere() {
        let value = (true, 'x', "text", -1_i8, 300_u16, u64::MAX, i64::MIN, 0.5_f32, 0.25_f64, ());
        let (mut shown, mut plain) = (Vec::new(), Vec::new());
        encode_shown(&mut shown, &value).expect("encodes");
        crate::plugin::encode(&mut plain, &value).expect("encodes");
        assert_eq!(shown, plain);
    }

    #[test]
    fn a_value_that_cannot_be_encoded_appends_nothing() {
        struct Broken;
        impl Serialize for Broken {
            fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("no"))
            }
        }
        #[derive(Serialize)]
        struct Holds {
            first: u8,
            broken: Broken,
        }
        let mut bytes = vec![7];
        assert!(encode_shown(&mut bytes, &Holds { first: 1, broken: Broken }).is_err());
        assert_eq!(bytes, [7]);
    }
}
