//! Layers: a module imports only modules of an earlier group, never of its own group or a later one.

use crate::sources::{Source, all};

/// The groups, lowest first. The split of the last ones is recorded in docs/decisions/0001-cli-before-app.md.
const GROUPS: [&[&str]; 12] = [
    &["config"],
    &["runtime"],
    &["telemetry", "plugin"],
    &["store", "link"],
    &["ownership", "replication", "timers"],
    &["room"],
    &["handoff", "daemon"],
    &["gateway"],
    &["ops"],
    &["cli"],
    &["app", "test"],
    &["prelude"],
];

fn group(module: &str) -> Option<usize> {
    GROUPS.iter().position(|group| group.contains(&module))
}

#[test]
fn imports_run_one_way() {
    let mut wrong = Vec::new();
    for file in all().iter().filter(|file| file.path.starts_with("server/src/") && file.path.ends_with(".rs")) {
        let inner = &file.path["server/src/".len()..];
        let Some(module) = inner.split('/').next().map(|first| first.trim_end_matches(".rs")) else { continue };
        if module == "lib" {
            continue;
        }
        let Some(own) = group(module) else {
            wrong.push(format!("{}: module {module} has no layer in server/tests/tidy_parts/layers.rs", file.path));
            continue;
        };
        for used in imports(file) {
            if used != module && group(&used).is_none_or(|other| other >= own) {
                wrong.push(format!("{}: {module} must not import {used}", file.path));
            }
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "imports against the layers:\n{}", wrong.join("\n"));
}

/// Top-level modules of the crate that a file names, in code (comments may name any).
fn imports(file: &Source) -> Vec<String> {
    let code: String =
        file.text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let known = |name: &String| group(name).is_some();
    let mut found: Vec<String> = code.split("crate::").skip(1).flat_map(first_names).filter(known).collect();
    // `super::store` in `server/src/ops/mod.rs` is `crate::store`; deeper files need as many `super` as they are deep.
    let depth = file.path["server/src/".len()..].trim_end_matches("/mod.rs").split('/').count();
    let chain = "super::".repeat(depth);
    for (at, _) in code.match_indices(&chain) {
        let longer = code[..at].ends_with("super::") || code[at + chain.len()..].starts_with("super");
        let child = |name: &String| code.contains(&format!("mod {name};")) || code.contains(&format!("mod {name} {{"));
        if !longer {
            found.extend(first_names(&code[at + chain.len()..]).into_iter().filter(known).filter(|name| !child(name)));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// `a::b` → `a`; `{a::{b, c}, d}` → `a`, `d`.
fn first_names(rest: &str) -> Vec<String> {
    let name = |text: &str| text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>();
    let Some(list) = rest.strip_prefix('{') else { return vec![name(rest)] };
    let (mut names, mut depth, mut start) = (Vec::new(), 0_usize, true);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            c if start && !c.is_whitespace() => {
                names.push(name(&list[at..]));
                start = false;
            }
            _ => {}
        }
    }
    names
}

#[test]
fn the_check_sees_every_form_of_import() {
    assert_eq!(first_names("store::Error;"), ["store"]);
    assert_eq!(
        first_names("{\n  config::{A, B},\n  runtime::Clock, room};\nuse x::{y}"),
        ["config", "runtime", "room"]
    );
    let file = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let text =
        "//! [`crate::app`]\nuse crate::{ops::x, cli};\nfn f() { super::super::room::y(); crate::gateway::z(); }";
    assert_eq!(imports(&file("server/src/ops/http.rs", text)), ["cli", "gateway", "ops", "room"]);
    assert_eq!(imports(&file("server/src/ops/mod.rs", "use super::app::X;")), ["app"]);
    assert_eq!(imports(&file("server/src/plugin/mod.rs", "mod timers;\nmod t { use super::timers::X; }")), [""; 0]);
}
