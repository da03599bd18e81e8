//! The next civil time that an expression matches. No zone is known here, and the cost has a bound.

use super::Cron;

const DAY: i64 = 86_400;

/// How many years a search looks ahead. The rarest possible date, a 29 February on a given weekday across a century
/// without a leap day, comes after at most 40 years.
const HORIZON_YEARS: i64 = 41;

/// Bits 1 to the last day that the month can have, in any year.
pub(super) fn days_of_month(month: u32) -> u64 {
    let last = last_day(4, month);
    ((1_u64 << last) - 1) << 1
}

fn last_day(year: i64, month: u32) -> u32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Year, month and day of a day counted from 1970-01-01.
pub(crate) fn date_of(day: i64) -> (i64, u32, u32) {
    // A guess that is never too late, then a few steps.
    let mut year = 1970 + day.div_euclid(366).min(day.div_euclid(365));
    while first_day(year + 1) <= day {
        year += (day - first_day(year)).max(366) / 366;
    }
    let (mut month, mut left) = (1_u32, u32::try_from(day - first_day(year)).unwrap_or(0));
    while left >= last_day(year, month) {
        left -= last_day(year, month);
        month += 1;
    }
    (year, month, left + 1)
}

/// The day, counted from 1970-01-01, on which a year begins.
fn first_day(year: i64) -> i64 {
    let before = year - 1;
    let leaps = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    // 719,162 days lie between the first day of year 1 and 1970-01-01.
    before * 365 + leaps - 719_162
}

/// Weekday of a day counted from 1970-01-01, a Thursday: 0 is Sunday.
pub(crate) fn weekday_of(day: i64) -> u32 {
    u32::try_from((day + 4).rem_euclid(7)).unwrap_or(0)
}

/// The lowest set bit at or above `from`.
fn bit_from(bits: u64, from: u32) -> Option<u32> {
    let left = bits.checked_shr(from).unwrap_or(0);
    (left != 0).then(|| from + left.trailing_zeros())
}

impl Cron {
    /// The first matching civil second at or after `from`.
    pub(crate) fn next_civil(&self, from: i64) -> Option<i64> {
        let first = from.div_euclid(DAY);
        let (mut year, mut month, mut date) = date_of(first);
        let (last_year, mut day) = (year + HORIZON_YEARS, first);
        while year <= last_year {
            let length = last_day(year, month);
            if self.months & (1 << month) == 0 {
                day += i64::from(length - date + 1);
            } else {
                while date <= length {
                    if self.matches_day(date, weekday_of(day)) {
                        let since = if day == first { from.rem_euclid(DAY) } else { 0 };
                        if let Some(second) = self.next_second(since) {
                            return Some(day * DAY + second);
                        }
                    }
                    (date, day) = (date + 1, day + 1);
                }
            }
            (month, date) = (month + 1, 1);
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        None
    }

    fn matches_day(&self, date: u32, weekday: u32) -> bool {
        let by_date = self.days & (1 << date) != 0;
        let by_weekday = self.weekdays & (1 << weekday) != 0;
        if self.any_day || self.any_weekday { by_date && by_weekday } else { by_date || by_weekday }
    }

    /// The first matching second of a day at or after `from`.
    fn next_second(&self, from: i64) -> Option<i64> {
        let part = |value: i64| u32::try_from(value).unwrap_or(0);
        let (hour, minute, second) = (part(from / 3_600), part(from / 60 % 60), part(from % 60));
        let at = |hour: u32, minute: u32, second: u32| Some(i64::from(hour * 3_600 + minute * 60 + second));
        let lowest_second = self.seconds.trailing_zeros();
        if self.hours & (1 << hour) != 0 {
            if self.minutes & (1 << minute) != 0
                && let Some(second) = bit_from(self.seconds, second)
            {
                return at(hour, minute, second);
            }
            if let Some(minute) = bit_from(self.minutes, minute + 1) {
                return at(hour, minute, lowest_second);
            }
        }
        let hour = bit_from(self.hours, hour + 1)?;
        at(hour, self.minutes.trailing_zeros(), lowest_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_agree_with_the_calendar() {
        for day in (-20_000..80_000).chain(2_900_000..2_900_400) {
            let date = jiff::civil::date(1970, 1, 1).checked_add(jiff::Span::new().days(day)).expect("in range");
            let (year, month, of_month) = date_of(day);
            assert_eq!((year, month, of_month), (date.year().into(), date.month() as u32, date.day() as u32), "{day}");
            assert_eq!(weekday_of(day), date.weekday().to_sunday_zero_offset() as u32);
        }
    }

    #[test]
    fn the_rarest_date_is_found_and_an_impossible_one_ends() {
        let day = |text: &str| text.parse::<jiff::Timestamp>().expect("a timestamp").as_second();
        // Across the year 2100, which has no 29 February.
        let rare = Cron::parse("0 0 29-31/7 2 *").expect("valid");
        assert_eq!(rare.next_civil(day("2096-03-01T00:00:00Z")), Some(day("2104-02-29T00:00:00Z")));
        let never = Cron::parse("0 0 30 2 *").expect("valid");
        assert!(!never.possible());
        assert_eq!(never.next_civil(0), None);
    }
}
