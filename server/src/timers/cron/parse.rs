//! From text to bits. Every mistake is told with its field and its place; nothing is read with another meaning.

use std::fmt;

use super::Cron;
use crate::config::{nearest, quoted};

/// Longest expression, bytes.
const MAX_BYTES: usize = 256;

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronError {
    /// The field: `minute`, or `expression` when it is about the whole.
    pub field: &'static str,
    /// Byte offset in the expression.
    pub at: usize,
    /// What was found.
    pub found: String,
    /// What would have been right.
    pub expected: String,
    /// The nearest valid word.
    pub hint: Option<String>,
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in the {} field; expected {}", self.found, self.field, self.expected)
    }
}

impl std::error::Error for CronError {}

/// One field of the grammar.
struct Kind {
    name: &'static str,
    least: u32,
    /// The last value of `*` and of `5/15`.
    most: u32,
    /// The last value that may be written: 7 for weekdays.
    written: u32,
    names: &'static [&'static str],
    /// Whether `?` may stand for `*`.
    question: bool,
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const WORDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

const fn plain(name: &'static str, least: u32, most: u32) -> Kind {
    Kind { name, least, most, written: most, names: &[], question: false }
}

const WEEKDAY: Kind = Kind { name: "weekday", least: 0, most: 6, written: 7, names: &WEEKDAYS, question: true };
const FIELDS: [Kind; 6] = [
    plain("second", 0, 59),
    plain("minute", 0, 59),
    plain("hour", 0, 23),
    Kind { question: true, ..plain("day of month", 1, 31) },
    Kind { names: &MONTHS, ..plain("month", 1, 12) },
    WEEKDAY,
];

/// What a field says.
struct Field {
    bits: u64,
    star: bool,
    warning: Option<String>,
}

/// A piece of the expression and where it begins.
#[derive(Clone, Copy)]
struct Piece<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Piece<'a> {
    /// Splits at every `separator`, keeping the places.
    fn split(self, separator: char) -> impl Iterator<Item = Piece<'a>> {
        let mut at = self.at;
        self.text.split(separator).map(move |text| {
            let piece = Piece { text, at };
            at += text.len() + separator.len_utf8();
            piece
        })
    }

    fn once(self, separator: char) -> Option<(Piece<'a>, Piece<'a>)> {
        let (left, right) = self.text.split_once(separator)?;
        Some((
            Piece { text: left, at: self.at },
            Piece { text: right, at: self.at + left.len() + separator.len_utf8() },
        ))
    }
}

fn error(field: &'static str, piece: Piece<'_>, found: impl Into<String>, expected: impl Into<String>) -> CronError {
    CronError { field, at: piece.at, found: found.into(), expected: expected.into(), hint: None }
}

pub(super) fn cron(text: &str) -> Result<Cron, CronError> {
    let whole = Piece { text, at: 0 };
    if text.len() > MAX_BYTES {
        let found = format!("{} bytes", text.len());
        return Err(error("expression", whole, found, format!("at most {MAX_BYTES} bytes")));
    }
    let fields: Vec<Piece<'_>> =
        whole.split(' ').flat_map(|piece| piece.split('\t')).filter(|piece| !piece.text.is_empty()).collect();
    if let Some(first) = fields.first().filter(|first| first.text.starts_with('@')) {
        return word(&fields, *first);
    }
    let kinds = match fields.len() {
        5 => FIELDS.get(1..).unwrap_or_default(),
        6 => &FIELDS[..],
        count => {
            let found = if count == 0 { "nothing".to_owned() } else { format!("{count} fields") };
            let expected = "five fields (minute, hour, day of month, month, weekday), or six with the second first";
            return Err(error("expression", whole, found, expected));
        }
    };
    let mut read = Vec::with_capacity(kinds.len());
    for (kind, piece) in kinds.iter().zip(&fields) {
        read.push(field(kind, *piece)?);
    }
    Ok(assemble(read))
}

/// A single weekday field.
pub(super) fn weekdays(text: &str) -> Result<u8, CronError> {
    let field = field(&WEEKDAY, Piece { text, at: 0 })?;
    Ok(u8::try_from(field.bits & 0x7f).unwrap_or(0))
}

fn word(fields: &[Piece<'_>], first: Piece<'_>) -> Result<Cron, CronError> {
    let text = first.text.to_ascii_lowercase();
    let known = WORDS.iter().map(|(word, _)| *word);
    match WORDS.iter().find(|(word, _)| *word == text) {
        Some((_, meaning)) if fields.len() == 1 => cron(meaning),
        Some(_) => Err(error("expression", first, "a word and more fields", format!("{text} alone"))),
        None if text == "@every" => {
            Err(error("expression", first, "@every", "the key `every = \"6h\"` instead of `cron`"))
        }
        None if text == "@reboot" => {
            Err(error("expression", first, "@reboot", "a time: a restart of a node is no event of a game"))
        }
        None => Err(CronError {
            hint: nearest(&text, known.clone()).map(str::to_owned),
            ..error("expression", first, quoted(first.text), known.collect::<Vec<_>>().join(", "))
        }),
    }
}

fn assemble(mut read: Vec<Field>) -> Cron {
    let mut warnings: Vec<String> = read.iter_mut().filter_map(|field| field.warning.take()).collect();
    let with_seconds = read.len() == 6;
    let offset = usize::from(with_seconds);
    let bits = |at: usize| read.get(at + offset).map_or(0, |field| field.bits);
    let star = |at: usize| read.get(at + offset).is_some_and(|field| field.star);
    let (days, weekdays) = (bits(2), (bits(4) & 0x7f) | (bits(4) >> 7 & 1));
    let all_days = days == 0xffff_fffe;
    let cron = Cron {
        text: super::Written::default(),
        seconds: if with_seconds { read.first().map_or(1, |field| field.bits) } else { 1 },
        minutes: bits(0),
        hours: bits(1),
        days,
        months: bits(3),
        weekdays,
        any_hour: star(1),
        any_day: star(2),
        any_weekday: star(4),
        with_seconds,
        warnings: Vec::new(),
    };
    if !cron.any_day && !cron.any_weekday {
        warnings.push(
            "both day fields are set: it runs when either of them matches, not only when both do (write one as `*`)"
                .to_owned(),
        );
    } else if weekdays != 0x7f && cron.any_day && !all_days {
        warnings.push(
            "the day of month starts with `*` and the weekday is set: it runs only when both of them match".to_owned(),
        );
    } else if weekdays != 0x7f && cron.any_weekday && !all_days {
        warnings.push(
            "the weekday starts with `*` and the day of month is set: it runs only when both of them match".to_owned(),
        );
    }
    if !cron.any_hour && cron.hours == 0x00ff_ffff {
        warnings.push(
            "every hour is written out: each hour is a fixed time that runs once on the day clocks go back (write `*` \
             to run on real time)"
                .to_owned(),
        );
    }
    Cron { warnings, ..cron }
}

fn field(kind: &Kind, piece: Piece<'_>) -> Result<Field, CronError> {
    let mut whole = Field { bits: 0, star: piece.text.starts_with(['*', '?']), warning: None };
    for item in piece.split(',') {
        if item.text.is_empty() {
            return Err(error(kind.name, item, "an empty entry of a list", "a value on both sides of each comma"));
        }
        let (bits, warning) = entry(kind, item)?;
        whole.bits |= bits;
        whole.warning = whole.warning.or(warning);
    }
    Ok(whole)
}

/// One entry of a list: `*`, `*/5`, `7`, `5/15`, `1-5`, `1-5/2`.
fn entry(kind: &Kind, item: Piece<'_>) -> Result<(u64, Option<String>), CronError> {
    let (range, step) = match item.once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (item, None),
    };
    let every = match step {
        None => 1,
        Some(step) => step_of(kind, step)?,
    };
    let (first, last) = if range.text == "*" || (range.text == "?" && kind.question && step.is_none()) {
        (kind.least, kind.most)
    } else if range.text == "?" {
        return Err(error(kind.name, range, "`?`", "`*`: a `?` stands only in the day fields, alone"));
    } else if let Some((from, to)) = range.once('-') {
        let (first, mut last) = (value(kind, from)?, value(kind, to)?);
        // `fri-sun` is meant to end the week.
        if kind.written == 7 && last == 0 && first > 0 && to.text.eq_ignore_ascii_case("sun") {
            last = 7;
        }
        if first > last {
            let expected =
                format!("the smaller value first, or two ranges such as `{first}-{},{}-{last}`", kind.most, kind.least);
            return Err(error(kind.name, range, format!("the range `{}` that runs backwards", range.text), expected));
        }
        (first, last)
    } else {
        let first = value(kind, range)?;
        match step {
            None => (first, first),
            Some(_) if first > kind.most => {
                return Err(error(kind.name, range, format!("a step from {first}"), "0 for Sunday before a step"));
            }
            Some(_) => (first, kind.most),
        }
    };
    let mut bits = 0;
    for value in (first..=last).step_by(every as usize) {
        bits |= 1_u64 << value;
    }
    let only_first = step.is_some() && every > last - first && last > first;
    let warning = only_first.then(|| {
        format!(
            "the step of `{}` in the {} field is larger than its range: it means {first} alone",
            item.text, kind.name
        )
    });
    Ok((bits, warning))
}

fn step_of(kind: &Kind, step: Piece<'_>) -> Result<u32, CronError> {
    let expected = format!("a step from 1 to {}, the largest {}", kind.written, kind.name);
    match number(step.text) {
        Some(every) if (1..=kind.written).contains(&every) => Ok(every),
        _ if step.text.is_empty() => Err(error(kind.name, step, "no step after `/`", expected)),
        _ => Err(error(kind.name, step, format!("the step {}", quoted(step.text)), expected)),
    }
}

fn value(kind: &Kind, piece: Piece<'_>) -> Result<u32, CronError> {
    let mut expected = format!("{} to {}", kind.least, kind.written);
    if let (Some(first), Some(last)) = (kind.names.first(), kind.names.last()) {
        expected = format!("{expected} or a name from {first} to {last}");
    }
    if let Some(number) = number(piece.text) {
        if (kind.least..=kind.written).contains(&number) {
            return Ok(number);
        }
        return Err(error(kind.name, piece, format!("{number}"), expected));
    }
    let lower = piece.text.to_ascii_lowercase();
    if let Some(at) = kind.names.iter().position(|name| *name == lower) {
        return Ok(kind.least + u32::try_from(at).unwrap_or(0));
    }
    if let Some(why) = foreign(kind, &lower) {
        return Err(error(kind.name, piece, quoted(piece.text), why));
    }
    let hint = nearest(&lower, kind.names.iter().copied()).map(str::to_owned);
    Err(CronError { hint, ..error(kind.name, piece, quoted(piece.text), expected) })
}

/// Letters of other dialects: named, so that nobody believes they work.
fn foreign(kind: &Kind, lower: &str) -> Option<&'static str> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if lower.contains('#') {
        return Some("no `#`: give the dates with `at`");
    }
    if kind.question && (lower == "lw" || lower.strip_suffix('w').is_some_and(digits)) {
        return Some("no `W`: the nearest working day has no meaning in a game");
    }
    if kind.question && (lower.strip_suffix('l').is_some_and(|rest| digits(rest) || WEEKDAYS.contains(&rest))) {
        return Some("no `L`: for the last day of a month write the first day of the next at 00:00, or use `at`");
    }
    (lower == "h").then_some("no `H`: the key `jitter` spreads the rooms")
}

/// Digits alone, at most four: no sign, no space.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}
