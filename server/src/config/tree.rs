//! One layer of configuration: keys with the value as it was written and where.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::{Diagnostic, LineIndex, diagnostic::without_login, quoted};

/// Where a value was written.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// In a file.
    File {
        /// As it was opened.
        name: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// In an environment variable or a flag; the text names it.
    Outside(String),
}

/// A value as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Raw {
    /// In an environment variable or a flag, where everything is text.
    Text(String),
    /// A TOML string.
    String(String),
    /// A TOML integer.
    Integer(i128),
    /// A TOML boolean.
    Bool(bool),
    /// A TOML array.
    List(Vec<Raw>),
    /// What no key takes: floats, dates, tables in arrays.
    Other(String),
}

/// A key's value in one layer.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) value: Raw,
    pub(super) origin: Origin,
}

/// One file, the environment, or the flags.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    /// Full key (`gateway.listen`) → value.
    pub(super) leaves: BTreeMap<String, Leaf>,
    /// Tables, also empty ones: a misspelt section is a mistake even if nothing is in it.
    pub(super) tables: BTreeMap<String, Origin>,
}

impl Origin {
    /// A diagnostic with only the place filled in.
    pub(super) fn place(&self) -> Diagnostic {
        match self {
            Origin::File { name, line, column } => {
                Diagnostic { file: name.clone(), line: *line, column: *column, ..Diagnostic::nowhere() }
            }
            Origin::Outside(name) => Diagnostic { file: name.clone(), ..Diagnostic::nowhere() },
        }
    }
}

impl Diagnostic {
    pub(super) fn nowhere() -> Self {
        Self {
            file: String::new(),
            line: 0,
            column: 0,
            key: String::new(),
            found: String::new(),
            expected: String::new(),
            hint: None,
        }
    }
}

impl Raw {
    /// The value for an error message.
    pub(super) fn found(&self) -> String {
        match self {
            Raw::Text(text) | Raw::String(text) => quoted(&without_login(text)),
            Raw::Integer(number) => number.to_string(),
            Raw::Bool(yes) => yes.to_string(),
            Raw::List(items) => {
                let items: Vec<String> = items.iter().take(8).map(Raw::found).collect();
                format!("[{}]", items.join(", "))
            }
            Raw::Other(what) => what.clone(),
        }
    }
}

impl From<DeValue<'_>> for Raw {
    fn from(value: DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Raw::String(text.into_owned()),
            DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Raw::Integer(number),
                Err(_) => Raw::Other(format!("the number {number}")),
            },
            DeValue::Boolean(yes) => Raw::Bool(yes),
            DeValue::Array(items) => Raw::List(items.into_iter().map(|item| item.into_inner().into()).collect()),
            DeValue::Float(number) => Raw::Other(format!("the number {number}")),
            DeValue::Datetime(time) => Raw::Other(format!("the time {time}")),
            DeValue::Table(_) => Raw::Other("a table".to_owned()),
        }
    }
}

impl Layer {
    /// Reads TOML. A file that is not TOML gives its syntax errors and no values.
    pub(super) fn from_toml(name: &str, text: &str, index: &LineIndex<'_>) -> (Self, Vec<Diagnostic>) {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut layer = Self::default();
        if errors.is_empty() {
            layer.walk("", table.into_inner(), &|offset| {
                let (line, column) = index.position(offset);
                Origin::File { name: name.to_owned(), line, column }
            });
        }
        let mistakes = errors.iter().map(|error| {
            let mistake = Diagnostic {
                file: name.to_owned(),
                found: error.message().lines().next().unwrap_or("an error").to_owned(),
                expected: "TOML".to_owned(),
                ..Diagnostic::nowhere()
            };
            mistake.at(index, error.span().map_or(0, |span| span.start))
        });
        (layer, mistakes.collect())
    }

    /// Adds a value that came as text.
    pub(super) fn put_text(&mut self, key: String, text: String, origin: String) {
        self.leaves.insert(key, Leaf { value: Raw::Text(text), origin: Origin::Outside(origin) });
    }

    // As deep as the TOML parser lets tables nest; it has its own bound (80).
    fn walk(&mut self, prefix: &str, table: DeTable<'_>, origin: &impl Fn(usize) -> Origin) {
        for (key, value) in table {
            let place = origin(key.span().start);
            let name = key.get_ref();
            let path = if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") };
            match value.into_inner() {
                DeValue::Table(inner) => {
                    self.tables.insert(path.clone(), place);
                    self.walk(&path, inner, origin);
                }
                other => {
                    self.leaves.insert(path, Leaf { value: other.into(), origin: place });
                }
            }
        }
    }
}
