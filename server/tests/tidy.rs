//! The house rules that a machine can check (docs/ARCHITECTURE.md): layers, lengths, first lines, invariants, metrics, codes, documents.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

#[path = "tidy_parts/docs.rs"]
mod docs;
#[path = "tidy_parts/layers.rs"]
mod layers;
#[path = "tidy_parts/metrics.rs"]
mod metrics;
#[path = "tidy_parts/sources.rs"]
mod sources;

use std::collections::BTreeSet;

use sources::{Source, all, ends_with};

/// Longest source file, lines: above it a file has more than one responsibility.
const LINES: usize = 400;

#[test]
fn no_source_file_is_longer_than_400_lines() {
    let code = all().iter().filter(|f| ends_with(&f.path, &[".rs", ".ts", ".css", ".html", ".sh", ".mjs"]));
    let long: Vec<String> = code
        .filter(|file| file.text.lines().count() > LINES)
        .map(|file| format!("{}: {} lines", file.path, file.text.lines().count()))
        .collect();
    assert!(long.is_empty(), "split by responsibility:\n{}", long.join("\n"));
}

#[test]
fn each_file_says_in_its_first_line_what_lives_there() {
    let starts: [(&[&str], &[&str]); 4] = [
        (&[".rs"], &["//! "]),
        (&[".ts", ".mjs", ".css"], &["// ", "/* ", "/** "]),
        (&[".html"], &["<!-- ", "<!doctype html>"]),
        (&[".toml"], &["# ", "[workspace]", "[package]", "[toolchain]", "max_width", "allow-"]),
    ];
    let mut bare = Vec::new();
    for (endings, starts) in starts {
        for file in all().iter().filter(|file| ends_with(&file.path, endings)) {
            let first = file.text.lines().next().unwrap_or_default();
            let said = starts.iter().any(|start| first.starts_with(start)) && first.len() > 8;
            if !said {
                bare.push(format!("{}: {first:?}", file.path));
            }
        }
    }
    assert!(bare.is_empty(), "no first line that says what lives there:\n{}", bare.join("\n"));
}

/// `H4` as a word.
fn invariants(text: &str) -> BTreeSet<u32> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter_map(|word| word.strip_prefix('H').and_then(|n| n.parse().ok())).collect()
}

#[test]
fn each_invariant_named_in_code_has_a_checker() {
    let rust: Vec<&Source> = all().iter().filter(|file| ends_with(&file.path, &[".rs"])).collect();
    let mut named: BTreeSet<(u32, &str)> = BTreeSet::new();
    let mut checked: BTreeSet<u32> = BTreeSet::new();
    for file in rust.iter().filter(|file| !file.path.contains("tests/tidy")) {
        let (code, test) = file.split_tests();
        named.extend(invariants(code).into_iter().map(|n| (n, file.path.as_str())));
        checked.extend(invariants(test));
        // A test may carry the invariant in its name: `fn h4_inputs_apply_once`.
        let names = test.split("fn h").skip(1).filter_map(|rest| rest.split('_').next()?.parse::<u32>().ok());
        checked.extend(names);
    }
    let missing: Vec<_> = named.iter().filter(|(n, _)| !checked.contains(n)).collect();
    assert!(missing.is_empty(), "invariants without a test that names them (H<n>):\n{missing:#?}");
    let unknown: Vec<_> = named.iter().filter(|(n, _)| !(1..=12).contains(n)).collect();
    assert!(unknown.is_empty(), "there is no such invariant:\n{unknown:#?}");
}

#[test]
fn each_key_has_a_comment_and_each_commented_line_is_a_key() {
    let mut section = String::new();
    let mut written = Vec::new();
    let mut previous = String::new();
    for line in tenure::config::DEFAULTS.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
        } else if let Some((key, rest)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            assert!(previous.starts_with("# ") || rest.contains(" # "), "{section}.{key} has no comment");
            written.push(format!("{section}.{key}"));
        }
        previous = line.to_owned();
    }
    let keys: Vec<&str> = tenure::config::Config::keys().collect();
    assert_eq!(written, keys, "config/default.toml and the structs name the same keys in the same order");
}

#[test]
fn the_crates_keep_to_their_sides() {
    let text = |path: &str| all().iter().find(|file| file.path == path).map_or("", |file| file.text.as_str());
    for name in ["tokio", "hyper", "bevy_ecs", "metrics", "tracing"] {
        let line = format!("\n{name}");
        assert!(!text("shared/Cargo.toml").contains(&line), "shared has no I/O: no {name}");
    }
    assert!(text("loadtest/Cargo.toml").contains("tenure-shared.workspace"), "found");
    assert!(!text("loadtest/Cargo.toml").contains("\ntenure.workspace"), "loadtest imports shared only");
    for file in all().iter().filter(|file| file.path.starts_with("shared/src/")) {
        for word in ["std::net", "std::fs", "Instant", "SystemTime", "std::thread"] {
            assert!(
                !file.split_tests().0.contains(word),
                "{}: shared has no sockets, files, clock or threads",
                file.path
            );
        }
    }
}
