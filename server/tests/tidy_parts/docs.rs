//! Documents that must keep up with the code: codes, commands, dependencies.

use clap::CommandFactory as _;
use tenure_shared::codes::{CloseCode, ErrorCode};

use crate::sources::document;

#[test]
fn each_close_code_and_error_code_is_documented() {
    let page = document("docs/wire.md");
    let close = CloseCode::ALL.iter().filter(|code| !page.contains(&format!("| {} |", code.code())));
    let close: Vec<String> = close.map(|code| format!("{} {}", code.code(), code.name())).collect();
    assert!(close.is_empty(), "close codes without a row in docs/wire.md: {close:?}");
    let error: Vec<&str> =
        ErrorCode::ALL.iter().map(|code| code.as_str()).filter(|word| !page.contains(&format!("`{word}`"))).collect();
    assert!(error.is_empty(), "error codes without a row in docs/wire.md: {error:?}");
}

#[test]
fn each_command_is_documented() {
    let page = document("docs/operations.md");
    let mut missing = Vec::new();
    for command in tenure::cli::Cli::command().get_subcommands() {
        let leaves: Vec<_> =
            command.get_subcommands().map(|leaf| format!("{} {}", command.get_name(), leaf.get_name())).collect();
        let names = if leaves.is_empty() { vec![command.get_name().to_owned()] } else { leaves };
        missing.extend(names.into_iter().filter(|name| !page.contains(&format!("`{name}"))));
    }
    assert!(missing.is_empty(), "commands without a row in docs/operations.md: {missing:?}");
}

#[test]
fn each_dependency_has_its_reason() {
    let page = document("docs/dependencies.md");
    let workspace = document("Cargo.toml");
    let section = workspace.split("[workspace.dependencies]").nth(1).and_then(|rest| rest.split("\n[").next());
    let names =
        section.expect("a section").lines().filter_map(|line| line.split_once(" = ").map(|(name, _)| name.trim()));
    let mut missing: Vec<&str> =
        names.filter(|name| !name.starts_with("tenure") && !page.contains(&format!("`{name}`"))).collect();
    if let Some(package) = crate::all().iter().find(|file| file.path == "client-demo/package.json") {
        let json: serde_json::Value = serde_json::from_str(&package.text).expect("JSON");
        for part in ["dependencies", "devDependencies"] {
            let names = json.get(part).and_then(|part| part.as_object()).into_iter().flat_map(|part| part.keys());
            missing.extend(
                names
                    .map(String::as_str)
                    .filter(|name| !page.contains(&format!("`{name}`")))
                    .map(|n| Box::leak(n.to_owned().into_boxed_str()) as &str),
            );
        }
    }
    assert!(missing.is_empty(), "dependencies without a reason in docs/dependencies.md: {missing:?}");
}
