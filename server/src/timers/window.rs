//! Times of day within which a schedule may run; a window may end on the next day (docs/invariants.md C22).

use super::{
    cron::{date_of, weekday_of},
    zone::Zone,
};

const DAY: i64 = 86_400;

/// A daily window on the wall clock. The weekday is that of the opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Opening, seconds of the day.
    start: i64,
    /// Closing, seconds of the day of the opening: over a day when it closes after midnight.
    end: i64,
    /// Bits 0 (Sunday) to 6 of the days on which it opens.
    weekdays: u8,
}

impl Window {
    /// From `start` to `end`, seconds of the day; an end at or before the start is on the next day. `None` when both
    /// are the same or no day is left: such a window says nothing.
    pub fn new(start: u32, end: u32, weekdays: u8) -> Option<Window> {
        let (start, end) = (i64::from(start), i64::from(end));
        let valid = start != end && (0..DAY).contains(&start) && (0..=DAY).contains(&end) && weekdays & 0x7f != 0;
        let end = if end < start { end + DAY } else { end };
        valid.then_some(Window { start, end, weekdays: weekdays & 0x7f })
    }

    /// Whether it is open at this instant: from the opening, up to but not including the closing.
    pub(crate) fn contains(&self, zone: &Zone, instant: i64) -> bool {
        let today = zone.civil(instant).div_euclid(DAY);
        (today - 2..=today + 1).any(|day| {
            self.opens_on(day)
                && zone.first_instant(day * DAY + self.start) <= instant
                && instant < self.closing(zone, day)
        })
    }

    /// The first opening strictly after this instant.
    pub(crate) fn next_opening(&self, zone: &Zone, instant: i64) -> Option<i64> {
        let today = zone.civil(instant).div_euclid(DAY);
        // A week and the reach of a skipped or repeated day on both sides.
        (today - 1..=today + 9)
            .filter(|day| self.opens_on(*day))
            .map(|day| zone.first_instant(day * DAY + self.start))
            .find(|opening| *opening > instant)
    }

    /// First and last second and the days, for people.
    pub fn describe(&self) -> String {
        let names = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
        let days: Vec<&str> = names
            .iter()
            .enumerate()
            .filter(|(day, _)| self.weekdays & (1 << day) != 0)
            .map(|(_, name)| *name)
            .collect();
        let time = |second: i64| format!("{:02}:{:02}", second / 3_600, second / 60 % 60);
        let end = if self.end > DAY { self.end - DAY } else { self.end };
        format!("{}-{} {}", time(self.start), time(end), days.join(","))
    }

    fn opens_on(&self, day: i64) -> bool {
        self.weekdays & (1 << weekday_of(day)) != 0
    }

    fn closing(&self, zone: &Zone, day: i64) -> i64 {
        zone.first_instant(day * DAY + self.end)
    }
}

/// Start of the period of a cap: the last time at or before `instant` when the wall clock reached `second` of a day.
pub(crate) fn day_start(zone: &Zone, second: i64, instant: i64) -> i64 {
    let today = zone.civil(instant).div_euclid(DAY);
    let starts = (today - 2..=today + 1).map(|day| zone.first_instant(day * DAY + second));
    starts.filter(|start| *start <= instant).max().unwrap_or(instant)
}

/// A civil second as `2026-03-08 02:30:00`.
pub(crate) fn civil_text(civil: i64) -> String {
    let (year, month, day) = date_of(civil.div_euclid(DAY));
    let second = civil.rem_euclid(DAY);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
}
