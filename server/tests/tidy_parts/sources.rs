//! The files of the repository, without what is built or fetched.

use std::{path::Path, sync::OnceLock};

/// Folders that hold nothing written by hand.
const SKIPPED: [&str; 7] =
    ["target", "node_modules", "dist", "tenure-data", "snapshots", "proptest-regressions", "test-results"];

/// A text file.
pub(crate) struct Source {
    /// From the root, with `/`.
    pub(crate) path: String,
    /// Its content.
    pub(crate) text: String,
}

impl Source {
    /// The part that ships and the part that tests. A file of tests is all tests; elsewhere they begin at `#[cfg(test)]`, which by
    /// habit stands at the end.
    pub(crate) fn split_tests(&self) -> (&str, &str) {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let folder =
            self.path.contains("/tests/") || self.path.contains("/conformance/") || self.path.contains("/testing/");
        if folder || name == "tests.rs" || name.ends_with("_tests.rs") || name.starts_with("test_") {
            return ("", &self.text);
        }
        match self.text.find("#[cfg(test)]\nmod ") {
            // `mod tests;` points to a file of its own; what follows it still ships.
            Some(at) if !self.text[at..].lines().nth(1).is_some_and(|line| line.ends_with(';')) => {
                self.text.split_at(at)
            }
            _ => (&self.text, ""),
        }
    }
}

/// All text files below the root, sorted.
pub(crate) fn all() -> &'static [Source] {
    static FILES: OnceLock<Vec<Source>> = OnceLock::new();
    FILES.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the server's folder lies in the root");
        let mut files = Vec::new();
        collect(root, "", &mut files);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        assert!(files.iter().any(|file| file.path == "server/src/lib.rs"), "the walk starts at the root");
        files
    })
}

/// Whether the path ends with one of these.
pub(crate) fn ends_with(path: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| path.ends_with(ending))
}

/// The document, or a failure that names it.
pub(crate) fn document(path: &str) -> &'static str {
    let file = all().iter().find(|file| file.path == path);
    file.map(|file| file.text.as_str()).unwrap_or_else(|| panic!("{path} is missing"))
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let Ok(kind) = entry.file_type() else { continue };
        // Folders that begin with a dot are tools', except the CI's.
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) && (!name.starts_with('.') || name == ".ci") {
            collect(&entry.path(), &format!("{path}/"), files);
        } else if kind.is_file()
            && let Ok(text) = std::fs::read_to_string(entry.path())
        {
            files.push(Source { path, text });
        }
    }
}
