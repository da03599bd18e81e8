//! The name table: which number stands for which registered name in one room's frames and messages.

use super::{Error, Fault, Space, TableRow, fields::Fields};
use crate::{
    limits,
    msgpack::{Reader, array_head, nil, text, uint},
};

/// The table as it stands in `joined`.
pub fn table_bytes(rows: &[TableRow]) -> Vec<u8> {
    let mut out = Vec::new();
    write_table(&mut out, rows);
    out
}

/// xxh3-64 of [`table_bytes`]: what `hello` and `joined` carry.
pub fn table_hash(rows: &[TableRow]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&table_bytes(rows))
}

pub(super) fn write_table(out: &mut Vec<u8>, rows: &[TableRow]) {
    array_head(out, rows.len());
    for row in rows {
        array_head(out, 5);
        out.push(u8::from(row.space));
        uint(out, u64::from(row.number));
        text(out, &row.name);
        uint(out, u64::from(row.version));
        match &row.fields {
            Some(fields) => {
                array_head(out, fields.len());
                fields.iter().for_each(|field| text(out, field));
            }
            None => nil(out),
        }
    }
}

pub(super) fn read_table(f: &mut Fields<'_, '_>) -> Result<Option<Vec<TableRow>>, Error> {
    if f.nil() {
        return Ok(None);
    }
    let at = f.at();
    let rows = f.list("table", read_row)?;
    if rows.len() > limits::TABLE_NAMES {
        return Err(f.fault(at, "table", Fault::Value("no more names than a table may have")));
    }
    Ok(Some(rows))
}

fn read_row(f: &mut Fields<'_, '_>) -> Result<TableRow, Error> {
    f.tuple("table", 5)?;
    let at = f.at();
    let space = Space::try_from(f.get("space", Reader::u8)?)
        .map_err(|_| f.fault(at, "space", Fault::Value("a space from 0 to 4")))?;
    let number = f.get("number", Reader::u16)?;
    let name = f.get("name", |r| r.text(limits::NAME_BYTES))?.to_owned();
    let version = f.u32("version")?;
    let fields = if f.nil() {
        None
    } else {
        Some(f.list("fields", |f| f.get("fields", |r| r.text(limits::NAME_BYTES)).map(str::to_owned))?)
    };
    Ok(TableRow { space, number, name, version, fields })
}
