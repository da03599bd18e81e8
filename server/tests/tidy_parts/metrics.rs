//! Metrics: what the code counts is in the catalogue with its labels, and the catalogue is in the documents.

use std::collections::{BTreeMap, BTreeSet};

use tenure::telemetry::{Kind, METRICS};

use crate::sources::{all, document};

/// A use of a metric in the code.
struct Use {
    path: String,
    kind: Kind,
    name: Option<String>,
    labels: BTreeSet<String>,
}

fn uses() -> Vec<Use> {
    let mut uses = Vec::new();
    for file in all().iter().filter(|file| file.path.starts_with("server/src/") && file.path.ends_with(".rs")) {
        let code = file.split_tests().0;
        for (word, kind) in [("counter!(", Kind::Counter), ("gauge!(", Kind::Gauge), ("histogram!(", Kind::Histogram)] {
            // `describe_counter!` is another macro.
            for (at, _) in code.match_indices(word).filter(|(at, _)| !code[..*at].ends_with('_')) {
                let call = call(&code[at + word.len()..]);
                let first = call.trim_start();
                let name = match first.strip_prefix('"') {
                    Some(rest) => rest.split('"').next(),
                    None => constant(&file.text, first.split([',', ' ', ')']).next().unwrap_or_default()),
                };
                let parts: Vec<&str> = call.split("=>").collect();
                let labels = parts.iter().take(parts.len() - 1).filter_map(|part| part.rsplit('"').nth(1));
                uses.push(Use {
                    path: file.path.clone(),
                    kind,
                    name: name.map(str::to_owned),
                    labels: labels.map(str::to_owned).collect(),
                });
            }
        }
    }
    uses
}

/// The text of a constant of the same file.
fn constant<'a>(file: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = file.split_once(&format!("const {name}: &str = \""))?;
    rest.split('"').next()
}

/// What stands between the brackets of a call.
fn call(rest: &str) -> &str {
    let mut depth = 1_usize;
    let end = rest.find(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    &rest[..end.unwrap_or(rest.len())]
}

#[test]
fn each_metric_of_the_code_is_in_the_catalogue() {
    let catalogue: BTreeMap<&str, _> = METRICS.iter().map(|metric| (metric.name, metric)).collect();
    assert_eq!(catalogue.len(), METRICS.len(), "each name once");
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for used in uses() {
        let Some(name) = used.name else {
            wrong.push(format!("{}: a metric whose name is not written out", used.path));
            continue;
        };
        seen.insert(name.clone());
        let Some(metric) = catalogue.get(name.as_str()) else {
            wrong.push(format!("{}: {name} is not in telemetry/metrics_names.rs", used.path));
            continue;
        };
        let labels: BTreeSet<String> = metric.labels.iter().map(|label| (*label).to_owned()).collect();
        if metric.kind != used.kind || labels != used.labels {
            wrong.push(format!(
                "{}: {name} is a {} with labels {labels:?} in the catalogue",
                used.path,
                metric.kind.name()
            ));
        }
    }
    wrong.extend(catalogue.keys().filter(|name| !seen.contains(**name)).map(|name| format!("{name} is never counted")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_end_in_their_unit() {
    for metric in METRICS {
        assert!(metric.name.starts_with("tenure_"), "{}", metric.name);
        assert_eq!(
            metric.name.ends_with("_total"),
            metric.kind == Kind::Counter,
            "{}: counters end in _total",
            metric.name
        );
        assert!(metric.help.ends_with('.'), "{}: a sentence", metric.name);
    }
}

#[test]
fn each_metric_is_documented() {
    let page = document("docs/operations.md");
    let wrong: Vec<String> = METRICS
        .iter()
        .filter(|metric| {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let row =
                format!("| `{}` | {} | {} | {} |", metric.name, metric.kind.name(), labels.join(" "), metric.help);
            !page.contains(&row.replace("|  |", "| |"))
        })
        .map(|metric| {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            format!("| `{}` | {} | {} | {} |", metric.name, metric.kind.name(), labels.join(" "), metric.help)
                .replace("|  |", "| |")
        })
        .collect();
    assert!(wrong.is_empty(), "rows missing in docs/operations.md:\n{}", wrong.join("\n"));
}
