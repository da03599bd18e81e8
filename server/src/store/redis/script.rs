//! The two scripts, and their arguments and answers as bytes. Each call names all of its keys, and all of them lie in one slot.

use ::redis::{Cmd, Value};

use super::{slots, slots::Tag, view::Reads};
use crate::{
    runtime::Wall,
    store::{
        Error,
        model::{Needs, Rows, Scan},
    },
};

/// A script and the name by which a server remembers it.
pub(super) struct Script {
    text: &'static str,
    sha: String,
}

impl Script {
    pub(super) fn read() -> Self {
        Self::new(include_str!("read.lua"))
    }

    pub(super) fn apply() -> Self {
        Self::new(include_str!("apply.lua"))
    }

    fn new(text: &'static str) -> Self {
        Self { text, sha: ::redis::Script::new(text).get_hash().to_owned() }
    }

    /// The call by name, or with the whole text for a server that does not know it.
    pub(super) fn call(&self, words: &Words, whole: bool) -> Cmd {
        let mut cmd = ::redis::cmd(if whole { "EVAL" } else { "EVALSHA" });
        cmd.arg(if whole { self.text } else { &self.sha }).arg(words.keys.len());
        for word in words.keys.iter().chain(&words.args) {
            cmd.arg(word.as_slice());
        }
        cmd
    }
}

/// Keys and arguments of a call.
#[derive(Debug)]
pub(super) struct Words {
    keys: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
}

impl Words {
    /// The key of the slot's rows: what tells slots apart.
    pub(super) fn slot(&self) -> &[u8] {
        self.keys.first().map_or(b"", Vec::as_slice)
    }
}

fn number(n: usize) -> Vec<u8> {
    n.to_string().into_bytes()
}

/// `from`, `to` and `most` of a scan.
fn range(scan: &Scan) -> [Vec<u8>; 3] {
    let from = match &scan.after {
        Some(after) if *after >= scan.prefix => [b"(".as_slice(), after].concat(),
        _ => [b"[".as_slice(), &scan.prefix].concat(),
    };
    // The first key that no longer has the prefix.
    let mut end = scan.prefix.clone();
    while end.last() == Some(&u8::MAX) {
        end.pop();
    }
    let to = match end.last_mut() {
        Some(last) => {
            *last += 1;
            [b"(".as_slice(), &end].concat()
        }
        None => b"+".to_vec(),
    };
    [from, to, number(scan.limit)]
}

/// What a read asks of one slot.
pub(super) fn read(tag: &Tag, needs: &Needs) -> Words {
    let (bodies, fields): (Vec<_>, Vec<_>) = needs.keys.iter().partition(|key| slots::is_body(key));
    let mut keys = vec![tag.rows(), tag.index()];
    keys.extend(bodies.into_iter().map(|key| tag.body(key)));
    let mut args = vec![number(fields.len())];
    args.extend(fields.into_iter().cloned());
    for scan in &needs.scans {
        args.extend(range(scan));
        let (prefix, cut) = scan.with.clone().unwrap_or_default();
        args.extend([number(cut), prefix]);
    }
    Words { keys, args }
}

/// What a read found.
pub(super) struct Found {
    /// The server's clock.
    pub(super) now: Wall,
    /// The highest time stored in the slot.
    pub(super) highest: Option<Wall>,
    pub(super) rows: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub(super) scans: Vec<(Scan, Rows)>,
}

fn odd() -> Error {
    Error::Unavailable("Redis gave an answer of another form than the script's".to_owned())
}

fn list(value: Value) -> Result<Vec<Value>, Error> {
    if let Value::Array(list) = value { Ok(list) } else { Err(odd()) }
}

fn bytes(value: Value) -> Result<Option<Vec<u8>>, Error> {
    match value {
        Value::BulkString(bytes) => Ok(Some(bytes)),
        Value::Nil => Ok(None),
        _ => Err(odd()),
    }
}

fn decimal(bytes: &[u8]) -> Result<u64, Error> {
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or_else(odd)
}

/// Reads the answer to [`read`] with the same needs.
pub(super) fn found(needs: &Needs, answer: Value) -> Result<Found, Error> {
    let mut parts = list(answer)?.into_iter();
    let mut part = || parts.next().ok_or_else(odd);
    let (seconds, micros) = (bytes(part()?)?.ok_or_else(odd)?, bytes(part()?)?.ok_or_else(odd)?);
    let now = decimal(&seconds)?.saturating_mul(1_000_000).saturating_add(decimal(&micros)?);
    let highest = bytes(part()?)?.map(|text| decimal(&text).map(Wall)).transpose()?;
    let (fields, bodies, scans) = (list(part()?)?, list(part()?)?, list(part()?)?);

    let (mut fields, mut bodies) = (fields.into_iter(), bodies.into_iter());
    let mut rows = Vec::with_capacity(needs.keys.len());
    for key in &needs.keys {
        let value = if slots::is_body(key) { bodies.next() } else { fields.next() };
        rows.push((key.clone(), bytes(value.ok_or_else(odd)?)?));
    }
    let mut scanned = Vec::with_capacity(needs.scans.len());
    for (scan, answer) in needs.scans.iter().zip(scans) {
        let mut parts = list(answer)?.into_iter();
        let mut part = || parts.next().ok_or_else(odd).and_then(list);
        let (keys, values, along, with) = (part()?, part()?, part()?, part()?);
        let mut found = Rows::with_capacity(keys.len());
        for (key, value) in keys.into_iter().zip(values) {
            let key = bytes(key)?.ok_or_else(odd)?;
            let Some(value) = bytes(value)? else {
                let name = String::from_utf8_lossy(&key).replace('\0', "|");
                return Err(Error::Broken(format!("row {name} is in the index and nowhere else")));
            };
            found.push((key, value));
        }
        for (key, value) in along.into_iter().zip(with) {
            rows.push((bytes(key)?.ok_or_else(odd)?, bytes(value)?));
        }
        scanned.push((scan.clone(), found));
    }
    Ok(Found { now: Wall(now), highest, rows, scans: scanned })
}

/// What stands for the rows of a scan when they are compared.
fn digest(rows: &Rows) -> Vec<u8> {
    let mut context = ring::digest::Context::new(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY);
    for (key, value) in rows {
        for part in [key, value] {
            context.update(part.len().to_string().as_bytes());
            context.update(b":");
            context.update(part);
        }
    }
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>().into_bytes()
}

/// The comparison and the writes of one command in its slot.
pub(super) fn apply(tag: &Tag, at: Wall, reads: Reads, writes: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Words {
    let mut keys = vec![tag.rows(), tag.index()];
    let mut args = vec![format!("{:016}", at.0).into_bytes()];
    let Reads { equal, absent, scans } = reads;
    args.push(number(equal.len()));
    args.extend(equal.into_iter().flat_map(|(key, value)| [key, value]));
    args.push(number(absent.len()));
    args.extend(absent);
    args.push(number(scans.len()));
    for (scan, rows) in &scans {
        args.extend(range(scan));
        args.push(digest(rows));
    }
    let (mut plain, mut indexed, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bodies, mut dropped) = (Vec::new(), Vec::new());
    for (key, value) in writes {
        match value {
            Some(value) if slots::is_body(&key) => {
                keys.push(tag.body(&key));
                bodies.push(value);
            }
            None if slots::is_body(&key) => dropped.push(tag.body(&key)),
            Some(value) if slots::is_indexed(&key) => indexed.push([key, value]),
            Some(value) => plain.push([key, value]),
            None => deleted.push(key),
        }
    }
    keys.extend(dropped);
    for section in [plain, indexed] {
        args.push(number(section.len()));
        args.extend(section.into_iter().flatten());
    }
    for section in [deleted, bodies] {
        args.push(number(section.len()));
        args.extend(section);
    }
    Words { keys, args }
}

/// Whether [`apply`] wrote.
pub(super) fn applied(answer: &Value) -> Result<bool, Error> {
    if let Value::Int(is) = answer { Ok(*is == 1) } else { Err(odd()) }
}
