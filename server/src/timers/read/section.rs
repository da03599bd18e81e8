//! A table under reading, and the mistakes found in it.

use std::time::Duration;

use toml::de::{DeTable, DeValue};

use crate::{
    config::{Diagnostic, LineIndex, nearest, quoted},
    timers::span,
};

/// What is found where a required key is missing.
pub(super) const NOTHING: &str = "nothing";

/// Collects mistakes and warnings of a file.
pub(super) struct Reader<'t> {
    pub(super) file: &'t str,
    pub(super) index: &'t LineIndex<'t>,
    pub(super) errors: Vec<Diagnostic>,
    /// One line each, with the place.
    pub(super) warnings: Vec<String>,
}

impl Reader<'_> {
    pub(super) fn error(
        &mut self,
        at: usize,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
        hint: Option<String>,
    ) {
        let (file, key) = (self.file.to_owned(), key.to_owned());
        let error = Diagnostic { file, line: 0, column: 0, key, found: found.into(), expected: expected.into(), hint };
        self.errors.push(error.at(self.index, at));
    }
}

/// A text of the file and where it stands.
#[derive(Clone, Copy)]
pub(super) struct Text<'d> {
    pub(super) text: &'d str,
    /// Byte offset of its first character.
    pub(super) at: usize,
    /// Whether each byte of `text` is one byte of the file.
    plain: bool,
}

impl Text<'_> {
    /// Byte offset in the file of a byte of the text, as far as that can be known.
    pub(super) fn place(&self, byte: usize) -> usize {
        if self.plain { self.at + 1 + byte } else { self.at }
    }
}

/// One table.
pub(super) struct Section<'r, 'd, 't> {
    pub(super) reader: &'r mut Reader<'t>,
    /// `schedule.chest`.
    pub(super) label: String,
    pub(super) table: &'d DeTable<'d>,
    /// Byte offset of the table.
    pub(super) at: usize,
    /// Keys that an unknown one was most likely meant to be: that they are missing is no second mistake.
    pub(super) meant: Vec<String>,
}

impl<'r, 'd, 't> Section<'r, 'd, 't> {
    pub(super) fn new(reader: &'r mut Reader<'t>, label: String, table: &'d DeTable<'d>, at: usize) -> Self {
        Self { reader, label, table, at, meant: Vec::new() }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub(super) fn value(&self, key: &str) -> Option<&'d DeValue<'d>> {
        self.table.get(key).map(|value| value.get_ref())
    }

    /// Byte offset of a value, or of the table when the key is missing.
    pub(super) fn at(&self, key: &str) -> usize {
        self.table.get(key).map_or(self.at, |value| value.span().start)
    }

    pub(super) fn error(&mut self, key: &str, found: impl Into<String>, expected: impl Into<String>) {
        self.error_at(self.at(key), key, found, expected, None);
    }

    pub(super) fn error_at(
        &mut self,
        at: usize,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
        hint: Option<String>,
    ) {
        let key = format!("{}.{key}", self.label);
        self.reader.error(at, &key, found, expected, hint);
    }

    pub(super) fn warning(&mut self, key: &str, text: &str) {
        let line = self.reader.index.position(self.at(key)).0;
        self.reader.warnings.push(format!("{}:{line}: {}.{key}: {text}", self.reader.file, self.label));
    }

    /// A required key that is not there.
    pub(super) fn missing(&mut self, key: &str, expected: &str) {
        if !self.meant.iter().any(|meant| meant == key) {
            self.error(key, NOTHING, expected);
        }
    }

    /// A value of the wrong type.
    pub(super) fn mismatch(&mut self, key: &str, expected: &str) {
        match self.value(key) {
            Some(value) => self.error(key, describe(value), expected),
            None => self.missing(key, expected),
        }
    }

    /// Reports every key that is not one of `keys`. `foreign` has words of other systems and what they are here.
    pub(super) fn unknown(&mut self, keys: &[&'static str], what: &str, foreign: &[(&str, &'static str)]) {
        let unknown: Vec<(String, usize)> = self
            .table
            .keys()
            .filter(|key| !keys.contains(&key.get_ref().as_ref()))
            .map(|key| (key.get_ref().to_string(), key.span().start))
            .collect();
        for (key, at) in unknown {
            let same = foreign.iter().find(|(word, _)| key.eq_ignore_ascii_case(word)).map(|(_, here)| *here);
            let hint = same.or_else(|| nearest(&key, keys.iter().copied())).map(str::to_owned);
            let expected = if hint.is_some() { what.to_owned() } else { format!("one of {}", keys.join(", ")) };
            self.meant.extend(hint.clone());
            self.error_at(at, &key, "an unknown key", expected, hint);
        }
    }

    pub(super) fn text(&mut self, key: &str, expected: &str) -> Option<Text<'d>> {
        let spanned = self.table.get(key)?;
        let DeValue::String(text) = spanned.get_ref() else {
            self.mismatch(key, expected);
            return None;
        };
        let span = spanned.span();
        Some(Text { text: text.as_ref(), at: span.start, plain: span.len() == text.len() + 2 })
    }

    pub(super) fn flag(&mut self, key: &str) -> Option<bool> {
        match self.value(key)? {
            DeValue::Boolean(flag) => Some(*flag),
            _ => {
                self.mismatch(key, "true or false");
                None
            }
        }
    }

    /// A length of time of at least `least` and at most `most`.
    pub(super) fn length(&mut self, key: &str, least: Duration, most: Duration) -> Option<Duration> {
        let expected =
            format!("a time from {} to {}, such as \"30s\", \"90m\" or \"1d\"", span::write(least), span::write(most));
        let text = self.text(key, &expected)?;
        match span::parse(text.text) {
            Ok(length) if length >= least && length <= most => return Some(length),
            Ok(_) => self.error(key, quoted(text.text), expected),
            Err(why) => self.error(key, format!("{}, {why}", quoted(text.text)), expected),
        }
        None
    }

    pub(super) fn whole_number(&mut self, key: &str, least: i64, most: i64) -> Option<i64> {
        let value = self.value(key)?;
        match integer(value) {
            Some(number) if (least..=most).contains(&number) => return Some(number),
            _ => self.mismatch(key, &format!("a whole number from {least} to {most}")),
        }
        None
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&mut self, key: &str, words: &[(&'static str, T)]) -> Option<T> {
        let expected =
            format!("one of {}", words.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>().join(", "));
        let text = self.text(key, &expected)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text.text) {
            return Some(*value);
        }
        let hint = nearest(text.text, words.iter().map(|(word, _)| *word)).map(str::to_owned);
        self.error_at(text.at, key, quoted(text.text), expected, hint);
        None
    }
}

/// The number, if it is one that fits.
pub(super) fn integer(value: &DeValue<'_>) -> Option<i64> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// A value for people.
pub(super) fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(moment) => moment.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
