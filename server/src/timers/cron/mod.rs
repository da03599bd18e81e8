//! Cron expressions: five fields (minute first) or six (second first), names, lists, ranges, steps and `@daily` words.
//!
//! The rules, each decided once (`docs/rewards.md` has them for people):
//! - 0 and 7 are Sunday; a range that ends in `sun` ends in 7.
//! - When both day fields are set, either of them is enough; but a field that starts with `*` counts as not set, and
//!   then both must match.
//! - `5/15` is `5-59/15`. A step larger than the largest value of its field is refused.
//! - A fixed hour is a time on the wall clock: in a gap it runs once at the first instant after the gap, of a repeated
//!   hour it runs on the first pass. An hour that starts with `*` runs on real time.

mod parse;
mod search;

pub use parse::CronError;
pub(crate) use search::{date_of, weekday_of};

use super::zone::Zone;

/// What a schedule does on the days when clocks change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DstRule {
    /// [`DstRule::Once`] for a fixed hour, [`DstRule::Real`] for an hour that starts with `*`.
    #[default]
    Auto,
    /// Each wall-clock time once: in a gap at the first instant after it, of a repeated hour on the first pass.
    Once,
    /// Whenever the wall clock shows the time: not in a gap, twice in a repeated hour.
    Real,
    /// As `Once`, but a time in a gap does not run that day.
    Skip,
}

/// How an expression was written: two that mean the same are the same, however they are spelt.
#[derive(Clone, Debug, Default)]
struct Written(String);

impl PartialEq for Written {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Written {}

/// A parsed expression. Values are bits: bit 5 of `minutes` is minute 5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    text: Written,
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    /// Bits 0 (Sunday) to 6.
    weekdays: u64,
    any_hour: bool,
    any_day: bool,
    any_weekday: bool,
    with_seconds: bool,
    warnings: Vec<String>,
}

impl Cron {
    /// Reads an expression.
    ///
    /// # Errors
    /// With the first mistake: field, place, what was found and what was expected.
    pub fn parse(text: &str) -> Result<Cron, CronError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(Cron { text: Written(words.join(" ")), ..parse::cron(text)? })
    }

    /// Reads a weekday field alone, such as `mon-fri,sun`; bits 0 (Sunday) to 6.
    ///
    /// # Errors
    /// As [`Cron::parse`].
    pub(crate) fn weekdays(text: &str) -> Result<u8, CronError> {
        parse::weekdays(text)
    }

    /// The expression as it was written, with single spaces.
    pub fn text(&self) -> &str {
        &self.text.0
    }

    /// Whether it has six fields.
    pub fn with_seconds(&self) -> bool {
        self.with_seconds
    }

    /// Whether the hour starts with `*`: such jobs run on real time.
    pub fn any_hour(&self) -> bool {
        self.any_hour
    }

    /// What is valid and yet often not meant, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether any date can match; `0 0 30 2 *` has none (docs/invariants.md C02).
    pub fn possible(&self) -> bool {
        let either = !self.any_day && !self.any_weekday;
        either || (1..=12).any(|month| self.months & (1 << month) != 0 && self.days & search::days_of_month(month) != 0)
    }

    /// The first instant strictly after `after` at which it runs, seconds since 1970.
    pub(crate) fn next(&self, zone: &Zone, dst: DstRule, after: i64) -> Option<i64> {
        match (dst, self.any_hour) {
            (DstRule::Real, _) | (DstRule::Auto, true) => self.next_real(zone, after),
            (DstRule::Once, _) | (DstRule::Auto, false) => self.next_once(zone, after, false),
            (DstRule::Skip, _) => self.next_once(zone, after, true),
        }
    }

    /// Each matching civil time once, at the first instant when the wall clock shows it or has jumped over it.
    fn next_once(&self, zone: &Zone, after: i64, skip_gaps: bool) -> Option<i64> {
        let mut civil = self.next_civil(zone.unseen(after))?;
        while skip_gaps && zone.in_gap(civil) {
            civil = self.next_civil(zone.civil(zone.first_instant(civil)).max(civil + 1))?;
        }
        Some(zone.first_instant(civil))
    }

    /// Every instant at which the wall clock shows a matching time, one stretch of constant offset after the other.
    fn next_real(&self, zone: &Zone, after: i64) -> Option<i64> {
        let mut stretch = after + 1;
        let mut shown = zone.civil(stretch);
        let mut civil = self.next_civil(shown)?;
        loop {
            let instant = civil - zone.offset(stretch);
            let Some(change) = zone.next_change(stretch).filter(|change| *change <= instant) else {
                return Some(instant);
            };
            let begins = zone.civil(change);
            // Nothing matches from `shown` up to `civil`; search again only where that says nothing.
            if begins < shown || begins > civil {
                civil = self.next_civil(begins)?;
                shown = begins;
            }
            stretch = change;
        }
    }
}
