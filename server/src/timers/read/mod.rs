//! Reading `rewards.toml`: strict, and all mistakes at once (docs/invariants.md C24).

mod amounts;
mod schedule;
mod section;
mod when;

use std::{collections::BTreeMap, sync::Arc};

use toml::de::{DeTable, DeValue};

use self::section::{Reader, Section};
use super::{book::Limits, schedule::Schedule};
use crate::config::{Diagnostic, LineIndex, quoted};

/// Largest file, bytes.
pub(crate) const MAX_FILE_BYTES: usize = 1 << 20;

/// Most schedules of a file.
pub(crate) const MAX_SCHEDULES: usize = 1_000;

/// Reads a whole file.
pub(super) fn file(file: &str, text: &str, limits: &Limits) -> Result<(Vec<Schedule>, Vec<String>), Vec<Diagnostic>> {
    let index = LineIndex::new(text);
    let mut reader = Reader { file, index: &index, errors: Vec::new(), warnings: Vec::new() };
    if text.len() > MAX_FILE_BYTES {
        reader.error(0, "", format!("{} bytes", text.len()), format!("at most {MAX_FILE_BYTES} bytes"), None);
        return Err(reader.errors);
    }
    let (document, broken) = DeTable::parse_recoverable(text);
    for error in &broken {
        let (found, expected) = error.message().split_once(", expected ").unwrap_or((error.message(), "valid TOML"));
        let at = error.span().map_or(0, |span| span.start);
        reader.error(at, "", found.to_owned(), expected.to_owned(), None);
    }
    let syntax = reader.errors.len();
    let schedules = schedules(&mut reader, document.get_ref(), limits);
    if syntax > 0 {
        // What follows from broken syntax is no mistake of its own: the broken lines, and keys that seem to be missing.
        let lines: Vec<usize> = reader.errors.iter().take(syntax).map(|error| error.line).collect();
        let mut at = 0;
        reader.errors.retain(|error| {
            at += 1;
            at <= syntax || !(lines.contains(&error.line) || error.found == section::NOTHING)
        });
    }
    if reader.errors.is_empty() {
        return Ok((schedules, reader.warnings));
    }
    reader.errors.sort_by_key(|error| (error.line, error.column));
    Err(reader.errors)
}

fn schedules(reader: &mut Reader<'_>, document: &DeTable<'_>, limits: &Limits) -> Vec<Schedule> {
    for (key, value) in document {
        if key.get_ref() != "schedule" {
            misplaced(reader, key.get_ref(), key.span().start, value.get_ref());
        }
    }
    let Some(value) = document.get("schedule") else { return Vec::new() };
    let list = match value.get_ref() {
        DeValue::Array(list) => list,
        other => {
            let found = match other {
                DeValue::Table(_) => "`[schedule]`, a single table".to_owned(),
                other => section::describe(other),
            };
            let expected = "`[[schedule]]` in double brackets for each schedule, with its name as `id = \"…\"`";
            reader.error(value.span().start, "schedule", found, expected, None);
            return Vec::new();
        }
    };
    if list.len() > MAX_SCHEDULES {
        let found = format!("{} schedules", list.len());
        reader.error(value.span().start, "schedule", found, format!("at most {MAX_SCHEDULES}"), None);
        return Vec::new();
    }
    let mut read = Vec::with_capacity(list.len());
    let mut lines: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    for (number, item) in list.iter().enumerate() {
        let at = item.span().start;
        let DeValue::Table(table) = item.get_ref() else {
            reader.error(at, &format!("schedule[{number}]"), section::describe(item.get_ref()), "a table", None);
            continue;
        };
        let label = match table.get("id").map(|id| id.get_ref()) {
            Some(DeValue::String(id)) if !id.is_empty() && id.len() <= schedule::MAX_ID_BYTES => {
                format!("schedule.{id}")
            }
            _ => format!("schedule[{number}]"),
        };
        let before = reader.errors.len();
        let mut section = Section::new(reader, label, table, at);
        section.keys();
        if let Some(id) = section.id() {
            let here = section.at("id");
            let line = section.reader.index.position(here).0;
            if let Some(first) = lines.insert(id.clone(), line) {
                let found = format!("{}, the id of the schedule in line {first} too", quoted(&id));
                section.error("id", found, "one schedule for each id");
                lines.insert(id, first);
            }
        }
        let schedule = section.schedule(limits);
        if reader.errors.len() == before {
            read.extend(schedule);
        }
    }
    read
}

/// A key outside of all schedules.
fn misplaced(reader: &mut Reader<'_>, key: &str, at: usize, value: &DeValue<'_>) {
    let shown = quoted(key);
    let (found, expected, hint) = match value {
        _ if schedule::KEYS.contains(&key) => (
            "a key of a schedule outside of any schedule".to_owned(),
            "it below the line `[[schedule]]`".to_owned(),
            None,
        ),
        _ if crate::config::nearest(key, ["schedule"]).is_some() => {
            ("an unknown key".to_owned(), "`[[schedule]]`".to_owned(), Some("schedule".to_owned()))
        }
        DeValue::Table(_) | DeValue::Array(_) => {
            ("a table that is no schedule".to_owned(), format!("`[[schedule]]` with `id = {shown}` below it"), None)
        }
        _ => ("an unknown key".to_owned(), "nothing outside of `[[schedule]]`".to_owned(), None),
    };
    reader.error(at, key, found, expected, hint);
}
