//! The numbers that a bot needs from a room's name table.

use tenure_shared::{
    msgpack::{Bounds, Error, Reader, array_head, int},
    wire::{Space, TableRow},
};

/// Name of the message that bots send.
const STEER: &str = "steer";
/// Name of the owner-only component that counts the steers applied to a seat.
const INPUTS: &str = "inputs";

/// Name of the message that a room sends each time its local timer fires.
const BEAT: &str = "beat";
/// Name of the message with a room's own count of what it paid.
const BOOKS: &str = "books";

/// Which part of a steer a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Dx,
    Dy,
}

/// What a bot knows of a room's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// Number of the steer message.
    pub(crate) steer: u16,
    fields: Vec<Field>,
    /// Number of the component that counts inputs, if the game has it.
    pub(crate) inputs: Option<u16>,
    /// Number of the message that a room's beat sends, if it has one.
    pub(crate) beat: Option<u16>,
    /// Number of the message with the room's books, if it keeps some.
    pub(crate) books: Option<u16>,
}

impl Names {
    /// Looks the names up; a name may carry a prefix that ends in a dot.
    ///
    /// # Errors
    /// When this is no game that the bots can play; the text says what is missing.
    pub(crate) fn new(table: &[TableRow]) -> Result<Self, String> {
        let find = |space: Space, name: &str| {
            let is = |row: &&TableRow| row.space == space && row.name.rsplit('.').next() == Some(name);
            table.iter().find(is)
        };
        let steer = find(Space::Message, STEER).ok_or_else(|| {
            let known: Vec<_> = table.iter().filter(|r| r.space == Space::Message).map(|r| r.name.as_str()).collect();
            format!("the game knows no message {STEER:?}, only {known:?}: bots can play the arena demo alone")
        })?;
        let fields = match &steer.fields {
            None => vec![Field::Dx, Field::Dy],
            Some(names) => {
                let field = |name: &String| match name.as_str() {
                    "dx" => Ok(Field::Dx),
                    "dy" => Ok(Field::Dy),
                    other => Err(format!("message {STEER:?} has a field {other:?}; bots know dx and dy")),
                };
                names.iter().map(field).collect::<Result<_, _>>()?
            }
        };
        let number = |space, name| find(space, name).map(|row| row.number);
        let (inputs, beat) = (number(Space::Component, INPUTS), number(Space::Event, BEAT));
        let books = number(Space::Event, BOOKS);
        Ok(Self { steer: steer.number, fields, inputs, beat, books })
    }

    /// A steer's payload.
    pub(crate) fn payload(&self, (dx, dy): (i8, i8)) -> Vec<u8> {
        let mut out = Vec::with_capacity(5);
        array_head(&mut out, self.fields.len());
        for field in &self.fields {
            int(&mut out, i64::from(if *field == Field::Dx { dx } else { dy }));
        }
        out
    }

    /// The count of inputs, if these operations set it. It is owner-only, so it is this seat's.
    ///
    /// # Errors
    /// When the operations cannot be read.
    pub(crate) fn input_count(&self, ops: &[u8]) -> Result<Option<u64>, Error> {
        let Some(wanted) = self.inputs else { return Ok(None) };
        let bounds = Bounds::SERVER;
        let mut reader = Reader::new(ops);
        let mut found = None;
        for _ in 0..reader.array(&bounds)? {
            let elements = reader.array(&bounds)?;
            let mut left = elements.saturating_sub(2);
            let code = reader.u8()?;
            reader.u53()?;
            while left > 0 {
                if matches!(code, 0 | 2) && left >= 2 {
                    let component = reader.u16()?;
                    let value = reader.value(&bounds)?;
                    if component == wanted {
                        found = count_of(value)?;
                    }
                    left -= 2;
                } else {
                    reader.value(&bounds)?;
                    left -= 1;
                }
            }
        }
        Ok(found)
    }
}

/// The count is a number, or a struct of that one number.
fn count_of(value: &[u8]) -> Result<Option<u64>, Error> {
    let mut reader = Reader::new(value);
    if value.first() == Some(&0x91) {
        reader.array(&Bounds::SERVER)?;
    }
    reader.u53().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_shared::delta::OpsWriter;

    fn row(space: Space, number: u16, name: &str, fields: Option<&[&str]>) -> TableRow {
        let fields = fields.map(|all| all.iter().map(|f| (*f).to_owned()).collect());
        TableRow { space, number, name: name.to_owned(), version: 1, fields }
    }

    #[test]
    fn fields_are_sent_in_the_tables_order() {
        let names = Names::new(&[row(Space::Message, 3, "steer", Some(&["dy", "dx"]))]).expect("known");
        assert_eq!(names.payload((5, -7)), [0x92, 0xf9, 5]);
        let names = Names::new(&[row(Space::Message, 3, "arena.steer", None)]).expect("known");
        assert_eq!((names.steer, names.payload((5, -7))), (3, vec![0x92, 5, 0xf9]));
    }

    #[test]
    fn another_game_is_told_so() {
        let error = Names::new(&[row(Space::Message, 0, "move", None), row(Space::Component, 1, "steer", None)]);
        assert!(error.expect_err("no steer").contains("[\"move\"]"));
        assert!(Names::new(&[row(Space::Message, 0, "steer", Some(&["angle"]))]).is_err());
    }

    #[test]
    fn the_count_of_inputs_is_found_in_private_operations() {
        let table = [row(Space::Message, 0, "steer", None), row(Space::Component, 4, "inputs", None)];
        let names = Names::new(&table).expect("known");
        let ops = |write: &dyn Fn(&mut OpsWriter<'_>)| {
            let mut out = Vec::new();
            let mut writer = OpsWriter::new(&mut out);
            write(&mut writer);
            writer.finish();
            out
        };
        let found = |bytes: &[u8]| names.input_count(bytes).expect("readable");
        assert_eq!(found(&[0x90]), None);
        let other = ops(&|w| {
            w.despawn(1);
            w.remove(4, [4, 5]);
            w.resource(4, &[9]);
            w.set(1);
            w.component(3, &[0x91, 7]);
        });
        assert_eq!(found(&other), None);
        let plain = ops(&|w| {
            w.spawn(8);
            w.component(3, &[7]);
            w.component(4, &[0xcd, 1, 0]);
        });
        assert_eq!(found(&plain), Some(256));
        let wrapped = ops(&|w| {
            w.set(8);
            w.component(4, &[0x91, 17]);
        });
        assert_eq!(found(&wrapped), Some(17));
    }
}
