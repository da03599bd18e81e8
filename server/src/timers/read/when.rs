//! The keys that say when: moments, times of day, the window, the trigger.

use std::time::Duration;

use toml::{
    de::DeValue,
    value::{Datetime, Offset, Time},
};

use super::section::{self, Section, Text};
use crate::{
    config::quoted,
    timers::{
        cron::Cron,
        schedule::{GRID_ANCHOR, Trigger},
        window::Window,
        zone::{LAST_SECOND, Zone},
    },
};

/// Longest period and jitter.
const MAX_PERIOD: Duration = Duration::from_secs(3_650 * 86_400);

/// Most moments of `at`.
const MAX_MOMENTS: usize = 1_000;

const MOMENT: &str = "a moment from 1970 on in whole seconds, such as 2026-12-24T18:00:00 on the clock of `timezone` or \
                      2026-12-24T18:00:00Z";
const TIME_OF_DAY: &str = "a time of day such as \"22:00\"";

impl<'d> Section<'_, 'd, '_> {
    /// The trigger: exactly one of `cron`, `every`, `at`.
    pub(super) fn trigger(&mut self, zone: &Zone, starts: Option<i64>) -> Option<Trigger> {
        let given: Vec<&str> = ["cron", "every", "at"].into_iter().filter(|key| self.has(key)).collect();
        match given.as_slice() {
            ["cron"] => self.cron().map(Trigger::Cron),
            ["every"] => {
                let period = self.length("every", Duration::from_secs(1), MAX_PERIOD)?;
                let period = i64::try_from(period.as_secs()).ok()?;
                Some(Trigger::Every { period, anchor: starts.unwrap_or(GRID_ANCHOR) })
            }
            ["at"] => self.moments(zone).map(Trigger::At),
            [] | [_] => {
                if !["every", "at"].iter().any(|key| self.meant.iter().any(|meant| meant == key)) {
                    self.missing("cron", "one of `cron`, `every` and `at`: when it is due");
                }
                None
            }
            [_, second, ..] => {
                self.error(second, format!("{} at once", given.join(" and ")), "one of `cron`, `every` and `at`");
                None
            }
        }
    }

    fn cron(&mut self) -> Option<Cron> {
        let seconds = self.flag("seconds");
        let text = self.text("cron", "an expression such as \"0 18 * * fri\"")?;
        let cron = match Cron::parse(text.text) {
            Ok(cron) => cron,
            Err(error) => {
                let found = match error.field {
                    "expression" => error.found,
                    field => format!("{} in the {field} field of {}", error.found, quoted(text.text)),
                };
                self.error_at(text.place(error.at), "cron", found, error.expected, error.hint);
                return None;
            }
        };
        if cron.with_seconds() && seconds != Some(true) {
            let expected = "five fields (minute first), or `seconds = true` beside it if the first one means seconds";
            self.error("cron", format!("six fields in {}", quoted(text.text)), expected);
        } else if !cron.with_seconds() && seconds == Some(true) {
            let expected = "six fields, the second first, because of `seconds = true`";
            self.error("cron", format!("five fields in {}", quoted(text.text)), expected);
        }
        if !cron.possible() {
            let found = format!("{}, a date that no year has", quoted(text.text));
            self.error("cron", found, "a day that at least one of the months has");
            return None;
        }
        for warning in cron.warnings() {
            self.warning("cron", warning);
        }
        Some(cron)
    }

    fn moments(&mut self, zone: &Zone) -> Option<Vec<i64>> {
        let expected = "a moment or a list of moments";
        let spanned = self.table.get("at")?;
        let mut moments = Vec::new();
        match spanned.get_ref() {
            DeValue::Array(list) if list.is_empty() || list.len() > MAX_MOMENTS => {
                let found = format!("a list of {}", list.len());
                self.error("at", found, format!("1 to {MAX_MOMENTS} moments"));
                return None;
            }
            DeValue::Array(list) => {
                for item in list.iter() {
                    match moment(item.get_ref(), zone) {
                        Some(moment) => moments.push(moment),
                        None => self.error_at(item.span().start, "at", section::describe(item.get_ref()), MOMENT, None),
                    }
                }
            }
            DeValue::String(_) | DeValue::Datetime(_) => moments.extend(self.moment("at", zone)),
            _ => self.mismatch("at", expected),
        }
        moments.sort_unstable();
        moments.dedup();
        (!moments.is_empty()).then_some(moments)
    }

    /// A moment of the key, seconds since 1970.
    pub(super) fn moment(&mut self, key: &str, zone: &Zone) -> Option<i64> {
        let moment = moment(self.value(key)?, zone);
        if moment.is_none() {
            self.mismatch(key, MOMENT);
        }
        moment
    }

    /// A time of day, in seconds; `24:00` only where a day may end.
    pub(super) fn time_of_day(&mut self, key: &str, end_of_day: bool) -> Option<i64> {
        let second = match self.value(key)? {
            DeValue::String(text) => time_of_text(text),
            DeValue::Datetime(Datetime { date: None, time: Some(time), offset: None }) => time_second(*time),
            _ => None,
        };
        match second {
            Some(second) if second < 86_400 || end_of_day => return Some(second),
            _ => self.mismatch(key, TIME_OF_DAY),
        }
        None
    }

    pub(super) fn window(&mut self) -> Option<Window> {
        let Some(DeValue::Table(table)) = self.value("window") else {
            if self.has("window") {
                self.mismatch("window", "{ start = \"22:00\", end = \"02:00\", days = \"fri\" }");
            }
            return None;
        };
        let (label, at) = (format!("{}.window", self.label), self.at("window"));
        Section::new(self.reader, label, table, at).window_of()
    }

    fn window_of(&mut self) -> Option<Window> {
        self.unknown(
            &["start", "end", "days"],
            "a key of a window",
            &[("from", "start"), ("to", "end"), ("until", "end"), ("weekdays", "days"), ("on", "days")],
        );
        for key in ["start", "end"] {
            if !self.has(key) {
                self.missing(key, TIME_OF_DAY);
            }
        }
        let days = match self.text("days", "weekdays such as \"mon-fri,sun\"") {
            Some(text) => self.days(text)?,
            None => 0x7f,
        };
        let (start, end) = (self.time_of_day("start", false), self.time_of_day("end", true));
        let (start, end) = (start?, end?);
        let window = Window::new(u32::try_from(start).ok()?, u32::try_from(end).ok()?, days);
        if window.is_none() {
            self.error("end", "the same time as `start`", "another time; a whole day is \"00:00\" to \"24:00\"");
        }
        window
    }

    fn days(&mut self, text: Text<'d>) -> Option<u8> {
        match Cron::weekdays(text.text) {
            Ok(days) => Some(days),
            Err(error) => {
                self.error_at(text.place(error.at), "days", error.found, error.expected, error.hint);
                None
            }
        }
    }
}

/// A TOML date and time, or the same as a text. Without an offset it is on the wall clock of the zone; a date alone is
/// its first instant.
fn moment(value: &DeValue<'_>, zone: &Zone) -> Option<i64> {
    let written = match value {
        DeValue::Datetime(written) => *written,
        DeValue::String(text) => text.parse::<Datetime>().ok()?,
        _ => return None,
    };
    let date = written.date?;
    let date = jiff::civil::Date::new(
        i16::try_from(date.year).ok()?,
        i8::try_from(date.month).ok()?,
        i8::try_from(date.day).ok()?,
    );
    let midnight = jiff::tz::Offset::UTC.to_timestamp(date.ok()?.at(0, 0, 0, 0)).ok()?.as_second();
    let civil = midnight + written.time.map_or(Some(0), time_second)?;
    let instant = match written.offset {
        Some(Offset::Z) => civil,
        Some(Offset::Custom { minutes }) => civil - i64::from(minutes) * 60,
        None => zone.first_instant(civil),
    };
    (0..=LAST_SECOND).contains(&instant).then_some(instant)
}

fn time_second(time: Time) -> Option<i64> {
    if time.nanosecond.unwrap_or(0) != 0 || time.second == Some(60) {
        return None;
    }
    Some(i64::from(time.hour) * 3_600 + i64::from(time.minute) * 60 + i64::from(time.second.unwrap_or(0)))
}

/// `22:00` or `22:00:30`; also `24:00`.
fn time_of_text(text: &str) -> Option<i64> {
    let mut parts = text.split(':').map(|part| {
        let two = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        two.then(|| part.parse::<i64>().ok()).flatten()
    });
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = match parts.next() {
        Some(second) => second?,
        None => 0,
    };
    let valid = parts.next().is_none() && minute < 60 && second < 60;
    let total = hour * 3_600 + minute * 60 + second;
    (valid && total <= 86_400).then_some(total)
}
