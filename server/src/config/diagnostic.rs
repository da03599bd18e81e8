//! What is wrong with a file that people write: where, what was found, what was expected, and the nearest valid word.

use std::{borrow::Cow, fmt};

/// Longest piece of a found value that a message repeats, in characters.
const FOUND_CHARS: usize = 80;

/// One mistake in a file. A file is always answered with all of its mistakes at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    /// The file, as the reader was told to open it.
    pub file: String,
    /// Line, from 1; 0 when the mistake has no place (a missing key of the whole file).
    pub line: usize,
    /// Column in characters, from 1; 0 when unknown.
    pub column: usize,
    /// The key, with its tables: `schedule.chest.catch_up`.
    pub key: String,
    /// The value that was found, or what is wrong with it.
    pub found: String,
    /// What would have been right.
    pub expected: String,
    /// The valid word nearest to what was written.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// Puts the mistake at a byte offset of a text.
    #[must_use]
    pub fn at(mut self, index: &LineIndex<'_>, offset: usize) -> Self {
        (self.line, self.column) = index.position(offset);
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, " {}:", self.key)?;
        }
        write!(f, " found {}; expected {}", self.found, self.expected)?;
        match &self.hint {
            Some(word) => write!(f, "; did you mean `{word}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// The text in quotes, cut to a length that a terminal line can bear; control characters are escaped.
pub fn quoted(text: &str) -> String {
    if text.chars().count() <= FOUND_CHARS {
        return format!("{text:?}");
    }
    let cut: String = text.chars().take(FOUND_CHARS).collect();
    format!("{cut:?}…")
}

/// The text without what stands before the host of a URL: a user and a password, which no message may repeat. The last `@` ends them, so that
/// a password with an `@` is not shown in part.
pub(super) fn without_login(text: &str) -> Cow<'_, str> {
    let Some((login, rest)) = text.rsplit_once('@') else { return Cow::Borrowed(text) };
    let before = login.split_once("://").map_or(String::new(), |(scheme, _)| format!("{scheme}://"));
    Cow::Owned(format!("{before}…@{rest}"))
}

/// The candidate that a person most likely meant, if any is near enough: case does not count, a swap of two letters
/// counts once, and about a third of the letters may differ.
pub fn nearest<'a, I>(word: &str, candidates: I) -> Option<&'a str>
where
    I: IntoIterator<Item = &'a str>,
{
    /// Words longer than this are not compared: the distance costs the product of both lengths.
    const WORD_BYTES: usize = 64;
    if word.is_empty() || word.len() > WORD_BYTES {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates.into_iter().filter(|candidate| candidate.len() <= WORD_BYTES) {
        let distance = strsim::damerau_levenshtein(&word, &candidate.to_ascii_lowercase());
        let allowed = ((word.len().max(candidate.len()) + 1) / 3).max(1);
        if distance <= allowed && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Turns byte offsets of a text into lines and columns, as editors count them.
#[derive(Clone, Debug)]
pub struct LineIndex<'a> {
    text: &'a str,
    /// Byte offset at which each line begins.
    starts: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    /// Reads the text once.
    pub fn new(text: &'a str) -> Self {
        let after_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    /// Line and column, both from 1, the column in characters. An offset past the end is the end; one inside a
    /// character is its start.
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let column = self.text.get(start..offset).unwrap_or_default().chars().count() + 1;
        (line, column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_in_characters() {
        let index = LineIndex::new("a = 1\nüß = 2\n\nend");
        assert_eq!(index.position(0), (1, 1));
        assert_eq!(index.position(5), (1, 6), "the line break belongs to its line");
        assert_eq!(index.position(6), (2, 1));
        assert_eq!(index.position(7), (2, 1), "inside a character");
        assert_eq!(index.position(10), (2, 3));
        assert_eq!(index.position(15), (3, 1));
        assert_eq!(index.position(9_999), (4, 4));
        assert_eq!(LineIndex::new("").position(3), (1, 1));
    }

    #[test]
    fn the_nearest_word_is_near() {
        let keys = ["catch_up", "catch_up_limit", "timezone", "cron", "every"];
        assert_eq!(nearest("catchup", keys), Some("catch_up"));
        assert_eq!(nearest("time_zone", keys), Some("timezone"));
        assert_eq!(nearest("CRON", keys), Some("cron"));
        assert_eq!(nearest("ervey", keys), Some("every"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("", keys), None);
        assert_eq!(nearest(&"x".repeat(1_000), keys), None);
    }

    #[test]
    fn users_and_passwords_of_urls_are_left_out() {
        for (text, shown) in [
            ("redis://h:1/0", "redis://h:1/0"),
            ("rediss://:s3cret@h", "rediss://…@h"),
            ("redis://u:s3@cret@h", "redis://…@h"),
            (":s3cret@h", "…@h"),
            ("", ""),
        ] {
            assert_eq!(without_login(text), shown);
        }
    }

    #[test]
    fn it_reads_like_a_compiler() {
        let index = LineIndex::new("[[schedule]]\nid = \"x\"\ncatchup = \"all\"\n");
        let one = Diagnostic {
            file: "config/rewards.toml".into(),
            line: 0,
            column: 0,
            key: "schedule.x.catchup".into(),
            found: "an unknown key".into(),
            expected: "a key of a schedule".into(),
            hint: Some("catch_up".into()),
        }
        .at(&index, 22);
        assert_eq!(
            one.to_string(),
            "config/rewards.toml:3: schedule.x.catchup: found an unknown key; expected a key of a schedule; \
             did you mean `catch_up`?"
        );
        assert_eq!(one.column, 1);
        assert_eq!(quoted(&"x".repeat(100)).chars().count(), 83);
    }
}
