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
fn the_browser_sdk_knows_each_close_code() {
    let sdk = document("client-demo/sdk/codes.ts");
    let missing: Vec<_> =
        CloseCode::ALL.iter().filter(|code| !sdk.contains(&format!("{code:?}: {},", code.code()))).collect();
    assert!(missing.is_empty(), "close codes that client-demo/sdk/codes.ts lacks: {missing:?}");
}

#[test]
fn each_command_is_documented() {
    let page = document("docs/operations.md");
    let mut missing = Vec::new();
    let commands = tenure::cli::Cli::command();
    // What this program asks of itself is no command for people.
    for command in commands.get_subcommands().filter(|command| !command.is_hide_set()) {
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
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    if let Some(package) = crate::all().iter().find(|file| file.path == "client-demo/package.json") {
        let json: serde_json::Value = serde_json::from_str(&package.text).expect("JSON");
        for part in ["dependencies", "devDependencies"] {
            names.extend(json[part].as_object().into_iter().flat_map(|part| part.keys().cloned()));
        }
    }
    names.retain(|name| !name.starts_with("tenure") && !page.contains(&format!("`{name}`")));
    let missing = names;
    assert!(missing.is_empty(), "dependencies without a reason in docs/dependencies.md: {missing:?}");
}

#[test]
fn each_dependency_is_used() {
    let rust = |folders: &[&str]| -> String {
        let files =
            crate::all().iter().filter(|f| f.path.ends_with(".rs") && folders.iter().any(|at| f.path.starts_with(at)));
        files.map(|file| file.text.as_str()).collect::<Vec<_>>().join("\n")
    };
    let mut unused = Vec::new();
    for (manifest, section, folders) in [
        ("server/Cargo.toml", "[dependencies]", &["server/src/", "server/demo/"][..]),
        ("server/Cargo.toml", "[dev-dependencies]", &["server/src/", "server/tests/", "server/examples/"][..]),
        ("shared/Cargo.toml", "[dependencies]", &["shared/src/"][..]),
        ("loadtest/Cargo.toml", "[dependencies]", &["loadtest/src/"][..]),
    ] {
        let code = rust(folders);
        let rows =
            document(manifest).split(section).nth(1).and_then(|rest| rest.split("\n[").next()).unwrap_or_default();
        for name in rows.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).filter(|name| !name.is_empty()) {
            let path = name.replace('-', "_");
            let used = [format!("{path}::"), format!("use {path};"), format!("use {path} as")];
            if !name.starts_with('#') && !used.iter().any(|used| code.contains(used)) {
                unused.push(format!("{manifest} {section}: {name}"));
            }
        }
    }
    assert!(unused.is_empty(), "dependencies that nothing uses:\n{}", unused.join("\n"));
}
