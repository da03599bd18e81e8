//! Rules of values: which notation, which range, and how the rule is said to people.

use std::{net::SocketAddr, ops::RangeInclusive, path::PathBuf, time::Duration};

use super::{Network, tree::Raw};

/// One second, minute, hour, day: for ranges.
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3_600);
pub(super) const DAY: Duration = Duration::from_secs(86_400);
/// Milliseconds, for ranges.
pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
/// Bytes, for ranges.
pub(super) const KIB: usize = 1024;
pub(super) const MIB: usize = 1024 * 1024;

type Read<T> = Box<dyn Fn(&Raw) -> Option<T>>;

/// How a value is read, and what to say when it is refused.
pub(crate) struct Rule<T> {
    expected: String,
    read: Read<T>,
}

impl<T> Rule<T> {
    pub(super) fn new(expected: impl Into<String>, read: impl Fn(&Raw) -> Option<T> + 'static) -> Self {
        Self { expected: expected.into(), read: Box::new(read) }
    }

    /// The value, or `None` when it is refused.
    pub(crate) fn read(&self, raw: &Raw) -> Option<T> {
        (self.read)(raw)
    }

    /// What would have been right.
    pub(crate) fn expected(&self) -> &str {
        &self.expected
    }
}

fn text_of(raw: &Raw) -> Option<&str> {
    match raw {
        Raw::Text(text) | Raw::String(text) => Some(text),
        Raw::Integer(_) | Raw::Bool(_) | Raw::List(_) | Raw::Other(_) => None,
    }
}

fn integer_of(raw: &Raw) -> Option<i128> {
    match raw {
        Raw::Integer(number) => Some(*number),
        Raw::Text(text) => text.trim().replace('_', "").parse().ok(),
        Raw::String(_) | Raw::Bool(_) | Raw::List(_) | Raw::Other(_) => None,
    }
}

/// A whole number in a range.
pub(super) fn number<T>(range: RangeInclusive<T>) -> Rule<T>
where
    T: TryFrom<i128> + PartialOrd + std::fmt::Display + Copy + 'static,
{
    let expected = format!("a whole number from {} to {}", range.start(), range.end());
    Rule::new(expected, move |raw| T::try_from(integer_of(raw)?).ok().filter(|n| range.contains(n)))
}

/// A duration in a range, written for people.
pub(super) fn duration(range: RangeInclusive<Duration>) -> Rule<Duration> {
    let expected = format!(
        "a duration like \"250ms\", \"3s\", \"5m\", \"1h\" or \"7d\" from \"{}\" to \"{}\"",
        show_duration(*range.start()),
        show_duration(*range.end())
    );
    Rule::new(expected, move |raw| parse_duration(text_of(raw)?).filter(|d| range.contains(d)))
}

/// A number of bytes in a range: an integer, or `"4KiB"`.
pub(super) fn size(range: RangeInclusive<usize>) -> Rule<usize> {
    let expected = format!(
        "a size in bytes like 4096, \"4KiB\" or \"1MiB\" from \"{}\" to \"{}\"",
        show_size(*range.start()),
        show_size(*range.end())
    );
    Rule::new(expected, move |raw| {
        let bytes = match integer_of(raw) {
            Some(bytes) => usize::try_from(bytes).ok()?,
            None => parse_size(text_of(raw)?)?,
        };
        range.contains(&bytes).then_some(bytes)
    })
}

/// `true` or `false`.
pub(super) fn switch() -> Rule<bool> {
    Rule::new("true or false", |raw| match raw {
        Raw::Bool(yes) => Some(*yes),
        Raw::Text(text) => text.trim().parse().ok(),
        Raw::String(_) | Raw::Integer(_) | Raw::List(_) | Raw::Other(_) => None,
    })
}

/// `address:port`, numbers only; port 0 lets the system choose.
pub(super) fn listen() -> Rule<SocketAddr> {
    Rule::new("an IP address and port like \"127.0.0.1:7777\" or \"[::1]:0\"", |raw| text_of(raw)?.trim().parse().ok())
}

/// Text of at most `most` bytes without control characters; may be empty.
pub(super) fn text(most: usize) -> Rule<String> {
    Rule::new(format!("a text of at most {most} bytes without control characters"), move |raw| {
        let text = text_of(raw)?;
        (text.len() <= most && !text.chars().any(char::is_control)).then(|| text.to_owned())
    })
}

/// A store: a text that names no password, since a value of the configuration is shown and stands on command lines.
pub(super) fn store_url(most: usize) -> Rule<String> {
    let inner = text(most);
    let expected = format!("{}, and without a password: that is in store.password_file", inner.expected());
    Rule::new(expected, move |raw| {
        let url = inner.read(raw)?;
        let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        let login = rest.rsplit_once('@').map_or("", |(login, _)| login);
        (!login.contains(':')).then_some(url)
    })
}

/// The same as `text`, `None` when it is empty.
pub(super) fn optional_text(most: usize) -> Rule<Option<String>> {
    let inner = text(most);
    Rule::new(format!("{}, \"\" for none", inner.expected()), move |raw| {
        Some(inner.read(raw)?).map(|text| Some(text).filter(|text| !text.is_empty()))
    })
}

/// A part of a room id: 1 to `most` of `[a-z0-9_-]`.
pub(super) fn label(most: usize) -> Rule<String> {
    Rule::new(format!("1 to {most} characters of [a-z0-9_-]"), move |raw| {
        let text = text_of(raw)?;
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'_' | b'-');
        ((1..=most).contains(&text.len()) && text.bytes().all(fits)).then(|| text.to_owned())
    })
}

/// A filter of logs, as `tracing` reads it.
pub(super) fn log_filter() -> Rule<String> {
    Rule::new("levels like \"info\" or \"warn,tenure::gateway=debug\"", |raw| {
        let text = text_of(raw)?;
        tracing_subscriber::EnvFilter::builder().parse(text).is_ok().then(|| text.to_owned())
    })
}

/// A path; relative ones start at the working directory.
pub(super) fn path() -> Rule<PathBuf> {
    Rule::new("a path", |raw| text_of(raw).filter(|text| !text.is_empty() && !text.contains('\0')).map(PathBuf::from))
}

/// A path, or `""` for none.
pub(super) fn optional_path() -> Rule<Option<PathBuf>> {
    Rule::new("a path, \"\" for none", |raw| {
        let text = text_of(raw).filter(|text| !text.contains('\0'))?;
        Some(Some(text).filter(|text| !text.is_empty()).map(PathBuf::from))
    })
}

/// One of the words.
pub(super) fn one_of<T: Copy + 'static>(words: &'static [(&'static str, T)]) -> Rule<T> {
    let list: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    Rule::new(format!("one of {}", list.join(", ")), move |raw| word(words, text_of(raw)?))
}

/// A list of words, each at most once, at least one.
pub(super) fn some_of<T: Copy + PartialEq + 'static>(words: &'static [(&'static str, T)]) -> Rule<Vec<T>> {
    let list: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    Rule::new(format!("a list of {}, each at most once", list.join(", ")), move |raw| {
        let mut found = Vec::new();
        for item in items(raw)? {
            let item = word(words, &item)?;
            if found.contains(&item) {
                return None;
            }
            found.push(item);
        }
        (!found.is_empty()).then_some(found)
    })
}

/// A list of at most `most` texts.
pub(super) fn texts(most: usize) -> Rule<Vec<String>> {
    Rule::new(format!("a list of at most {most} texts"), move |raw| items(raw).filter(|list| list.len() <= most))
}

/// A list of at most `most` labels of at most `bytes` characters, each once.
pub(super) fn labels(most: usize, bytes: usize) -> Rule<Vec<String>> {
    let expected = format!("a list of at most {most} different words of [a-z0-9_-], each of 1 to {bytes} characters");
    Rule::new(expected, move |raw| {
        let list = items(raw).filter(|list| list.len() <= most)?;
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'_' | b'-');
        let plain = |item: &String| (1..=bytes).contains(&item.len()) && item.bytes().all(fits);
        let once = list.iter().enumerate().all(|(at, item)| !list[..at].contains(item));
        (once && list.iter().all(plain)).then_some(list)
    })
}

/// A list of at most `most` addresses or networks.
pub(super) fn networks(most: usize) -> Rule<Vec<Network>> {
    let expected = format!("a list of at most {most} IP addresses or networks like \"10.0.0.0/8\"");
    Rule::new(expected, move |raw| {
        let list = items(raw).filter(|list| list.len() <= most)?;
        list.iter().map(|item| item.trim().parse().ok()).collect()
    })
}

fn word<T: Copy>(words: &[(&str, T)], text: &str) -> Option<T> {
    words.iter().find(|(word, _)| *word == text.trim()).map(|(_, value)| *value)
}

// In variables and flags a list is written with commas; one that was copied from a file, with brackets and quotes, means the same.
fn items(raw: &Raw) -> Option<Vec<String>> {
    match raw {
        Raw::List(list) => list.iter().map(|item| text_of(item).map(str::to_owned)).collect(),
        Raw::Text(text) if text.trim().is_empty() => Some(Vec::new()),
        Raw::Text(text) => {
            let text = text.trim();
            let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
            let unquoted = |item: &str| {
                let item = item.trim();
                let inner = item.strip_prefix('"').and_then(|item| item.strip_suffix('"'));
                inner.filter(|_| bare.is_some()).unwrap_or(item).to_owned()
            };
            let items = bare.unwrap_or(text);
            Some(if items.trim().is_empty() { Vec::new() } else { items.split(',').map(unquoted).collect() })
        }
        Raw::String(_) | Raw::Integer(_) | Raw::Bool(_) | Raw::Other(_) => None,
    }
}

/// `"250ms"`, `"3s"`, `"5m"`, `"1h"`, `"7d"`; one whole number and one unit.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let count: u64 = text.get(..digits)?.parse().ok()?;
    let unit_ms: u64 = match text.get(digits..)?.trim_start() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(Duration::from_millis(count.checked_mul(unit_ms)?))
}

fn show_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if ms >= size && ms.is_multiple_of(size) {
            return format!("{}{unit}", ms / size);
        }
    }
    format!("{ms}ms")
}

fn parse_size(text: &str) -> Option<usize> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let count: usize = text.get(..digits)?.parse().ok()?;
    let unit = match text.get(digits..)?.trim_start() {
        "" | "B" => 1,
        "KiB" => KIB,
        "MiB" => MIB,
        _ => return None,
    };
    count.checked_mul(unit)
}

fn show_size(bytes: usize) -> String {
    for (unit, size) in [("MiB", MIB), ("KiB", KIB)] {
        if bytes >= size && bytes.is_multiple_of(size) {
            return format!("{}{unit}", bytes / size);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_written_for_people() {
        assert_eq!(parse_duration("250ms"), Some(ms(250)));
        assert_eq!(parse_duration("3 s"), Some(3 * SECOND));
        assert_eq!(parse_duration("7d"), Some(7 * DAY));
        for bad in ["", "3", "s", "-1s", "1.5s", "3 sec", "99999999999999999999s", "9999999999999999d", "1h30m", "3S"] {
            assert_eq!(parse_duration(bad), None, "{bad:?}");
        }
        assert_eq!(parse_size("4KiB"), Some(4096));
        assert_eq!(parse_size("1 MiB"), Some(MIB));
        assert_eq!(parse_size("17"), Some(17));
        for bad in ["", "KiB", "4kb", "4KB", "-1", "18446744073709551615MiB"] {
            assert_eq!(parse_size(bad), None, "{bad:?}");
        }
        assert_eq!(
            (show_duration(90 * SECOND), show_duration(HOUR), show_size(1536)),
            ("90s".into(), "1h".into(), "1536".into())
        );
    }

    #[test]
    fn files_are_typed_and_variables_are_text() {
        let rule = number(1..=10_u32);
        assert_eq!(rule.read(&Raw::Integer(10)), Some(10));
        assert_eq!(rule.read(&Raw::Text(" 10 ".into())), Some(10));
        assert_eq!(rule.read(&Raw::String("10".into())), None);
        assert_eq!(rule.read(&Raw::Integer(11)), None);
        assert_eq!(rule.read(&Raw::Integer(-1)), None);
        assert_eq!(switch().read(&Raw::Text("true".into())), Some(true));
        assert_eq!(switch().read(&Raw::String("true".into())), None);
        let words = some_of(&[("a", 1), ("b", 2)]);
        assert_eq!(words.read(&Raw::Text("a, b".into())), Some(vec![1, 2]));
        assert_eq!(words.read(&Raw::List(vec![Raw::String("b".into())])), Some(vec![2]));
        assert_eq!(words.read(&Raw::Text(r#"["a", "b"]"#.into())), Some(vec![1, 2]));
        assert_eq!(words.read(&Raw::Text("[]".into())), None);
        assert_eq!(words.read(&Raw::Text("a,a".into())), None);
        assert_eq!(words.read(&Raw::Text(String::new())), None);
        assert_eq!(texts(2).read(&Raw::Text(String::new())), Some(Vec::new()));
    }
}
