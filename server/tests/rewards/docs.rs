//! `docs/rewards.md` says what is true: its files are read, and its messages and rows are the real ones.

use tenure::timers::{RewardBook, preview};

use crate::wall;

/// A fenced block: what is after the three backticks, its text, its line.
struct Block<'a> {
    info: &'a str,
    text: String,
    line: usize,
}

fn blocks(document: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for (number, line) in document.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some(Block { info, text: String::new(), line: number + 1 }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/rewards.md");
    std::fs::read_to_string(path).expect("docs/rewards.md")
}

#[test]
fn its_examples_and_messages_are_real() {
    let document = document();
    let (mut good, mut wrong, mut shown) = (0, 0, 0);
    let mut book = RewardBook::empty();
    let mut errors = String::new();
    for block in blocks(&document) {
        let here = format!("docs/rewards.md:{}", block.line);
        let mut info = block.info.split(' ');
        match (info.next().unwrap_or_default(), info.next()) {
            ("toml", None) => {
                good += 1;
                book = RewardBook::parse("rewards.toml", &block.text)
                    .unwrap_or_else(|errors| panic!("{here}: {errors:#?}"));
            }
            ("toml", Some("wrong")) => {
                wrong += 1;
                let found = RewardBook::parse("rewards.toml", &block.text).expect_err(&here);
                errors = found.iter().map(|error| format!("{error}\n")).collect();
            }
            ("text", Some("error")) => assert_eq!(block.text, errors, "{here}"),
            ("text", Some("next")) => {
                shown += 1;
                let from = wall(info.next().expect("a moment"));
                let count = block.text.lines().count();
                let rows: String =
                    preview::next(&book, None, from, count).iter().map(|row| format!("{row}\n")).collect();
                assert_eq!(block.text, rows, "{here}");
            }
            ("text", Some("check")) => {
                shown += 1;
                let report = preview::report(&book, wall(info.next().expect("a moment")));
                let report: String = report.iter().skip(1).map(|line| format!("{line}\n")).collect();
                assert_eq!(block.text, report, "{here}");
            }
            ("sh", None) => {}
            other => panic!("{here}: unknown kind of block {other:?}"),
        }
    }
    assert!(good >= 5 && wrong >= 8 && shown >= 3, "{good} files, {wrong} wrong ones, {shown} previews");
}

#[test]
fn every_key_is_explained() {
    let document = document();
    let message = RewardBook::parse("rewards.toml", "[[schedule]]\nunknown-to-all = 1\n").expect_err("unknown");
    let keys = message.iter().find_map(|error| error.expected.strip_prefix("one of id")).expect("the list of keys");
    for key in keys.split(", ").filter(|key| !key.is_empty()).chain(["id"]) {
        assert!(document.contains(&format!("| `{key}` |")), "{key} is not in the table of docs/rewards.md");
    }
}

#[test]
fn the_demo_file_and_its_examples_are_valid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/rewards.toml");
    let text = std::fs::read_to_string(path).expect("config/rewards.toml");
    let book = RewardBook::parse("config/rewards.toml", &text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    assert_eq!(book.ids().map(|id| &**id).collect::<Vec<_>>(), ["chest"]);
    // The examples that are commented out: lines that begin with `#` and no space.
    let uncommented: String = text
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(code) if !code.starts_with(' ') => format!("{code}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let book = RewardBook::parse("config/rewards.toml", &uncommented).unwrap_or_else(|errors| panic!("{errors:#?}"));
    assert!(book.ids().count() >= 3, "cron and at are shown too");
}
