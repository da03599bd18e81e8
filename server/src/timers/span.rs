//! Lengths of time as people write them: `30s`, `1h30m`, `7d`.

use std::time::Duration;

/// Units, longest first, and their length in seconds; `ms` is refused on purpose: schedules count whole seconds.
const UNITS: [(char, u64); 5] = [('w', 604_800), ('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// The longest length that is read: ten years of 365 days.
const MOST: u64 = 3_650 * 86_400;

/// Reads a length in whole seconds; the units must come in falling order, each once.
///
/// # Errors
/// With what is wrong, as a phrase after "found".
pub(crate) fn parse(text: &str) -> Result<Duration, &'static str> {
    if text.starts_with('-') {
        return Err("a negative length of time");
    }
    let mut rest = text;
    let mut seconds = 0_u64;
    let mut units = UNITS.iter();
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let number: u64 = match number.parse() {
            Ok(number) => number,
            Err(_) if number.is_empty() => return Err("no length of time"),
            Err(_) => return Err("a length of time over ten years"),
        };
        let mut letters = after.chars();
        let Some(unit) = letters.next() else { return Err("a number without a unit") };
        if unit == 'm' && letters.as_str().starts_with('s') {
            return Err("milliseconds");
        }
        let Some((_, length)) = units.find(|(letter, _)| *letter == unit) else {
            return Err("no length of time");
        };
        seconds = number.checked_mul(*length).and_then(|part| part.checked_add(seconds)).unwrap_or(u64::MAX);
        if seconds > MOST {
            return Err("a length of time over ten years");
        }
        rest = letters.as_str();
    }
    if text.is_empty() { Err("an empty text") } else { Ok(Duration::from_secs(seconds)) }
}

/// Writes a length as [`parse`] reads it.
pub(crate) fn write(length: Duration) -> String {
    let mut left = length.as_secs();
    let mut text = String::new();
    // Without weeks: "30d" is read faster than "4w2d".
    for (letter, unit) in UNITS.into_iter().skip(1) {
        if left >= unit {
            text.push_str(&format!("{}{letter}", left / unit));
            left %= unit;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_and_written() {
        for (text, seconds) in
            [("30s", 30), ("90m", 5_400), ("1h30m", 5_400), ("1d", 86_400), ("2w", 1_209_600), ("0s", 0)]
        {
            let length = parse(text).expect("valid");
            assert_eq!(length.as_secs(), seconds);
            assert_eq!(parse(&write(length)), Ok(length));
        }
        for bad in [
            "",
            "30",
            "s",
            "-5s",
            "5x",
            "1s1h",
            "1h1h",
            "250ms",
            "1.5h",
            "5 s",
            "9999999999999999999999s",
            "999999d",
            "５s",
        ] {
            assert!(parse(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
