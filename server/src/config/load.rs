//! The layers: the defaults in the program, a file, the environment, flags; and every mistake in them at once.

use std::{fmt, path::PathBuf};

use super::{
    Config, Diagnostic, LineIndex, Secrets,
    diagnostic::without_login,
    nearest, quoted, relations,
    section::Reader,
    tree::{Layer, Origin},
};

/// `config/default.toml`, the lowest layer: there is no second list of defaults.
pub const DEFAULTS: &str = include_str!("../../../config/default.toml");
/// Its name in messages.
pub const DEFAULTS_FILE: &str = "config/default.toml";
/// What an environment variable of ours begins with: `TENURE_GATEWAY__LISTEN` is `gateway.listen`.
pub const VARIABLE_PREFIX: &str = "TENURE_";
/// Largest configuration file, bytes.
const FILE_BYTES: u64 = 1024 * 1024;

/// Where a configuration comes from, besides the defaults.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `--config`.
    pub file: Option<PathBuf>,
    /// The environment. Only names with `__` after the prefix count: Kubernetes puts `TENURE_PORT` and the like there for a Service
    /// called `tenure`.
    pub environment: Vec<(String, String)>,
    /// `--set key=value`, in order; the last one of a key wins.
    pub set: Vec<String>,
}

impl Sources {
    /// A file and flags, with the environment of this process. Variables that are not UTF-8 are not ours.
    pub fn from_process(file: Option<PathBuf>, set: Vec<String>) -> Self {
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
                .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
        });
        Self { file, environment: environment.collect(), set }
    }
}

/// All mistakes of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(pub Vec<Diagnostic>);

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mistake in &self.0 {
            writeln!(f, "{mistake}")?;
        }
        match self.0.len() {
            1 => f.write_str("1 mistake in the configuration"),
            count => write!(f, "{count} mistakes in the configuration"),
        }
    }
}

impl std::error::Error for Errors {}

impl Config {
    /// Reads all layers, and the files with secrets that they name.
    ///
    /// # Errors
    /// Every mistake at once: unknown keys, wrong types, values out of range, keys that do not agree with each other.
    pub fn load(sources: &Sources) -> Result<Self, Errors> {
        Self::load_with(sources, |_| Vec::new())
    }

    /// The same, with what `more` finds wrong in files that the configuration names. It is given the configuration as far as it is good:
    /// where a value was refused, that of the next lower layer.
    ///
    /// # Errors
    /// Every mistake at once, those of `more` last.
    pub fn load_with(sources: &Sources, more: impl FnOnce(&Self) -> Vec<Diagnostic>) -> Result<Self, Errors> {
        let mut mistakes = Vec::new();
        let mut layers = vec![read_text(DEFAULTS_FILE, DEFAULTS, &mut mistakes)];
        if let Some(path) = &sources.file {
            let name = path.display().to_string();
            match read_file(path) {
                Ok(text) => layers.push(read_text(&name, &text, &mut mistakes)),
                Err(found) => mistakes.push(Diagnostic {
                    file: name,
                    found,
                    expected: "a readable TOML file".to_owned(),
                    ..Diagnostic::nowhere()
                }),
            }
        }
        layers.push(environment(&sources.environment));
        layers.push(flags(&sources.set, &mut mistakes));
        for layer in &layers {
            unknown(layer, &mut mistakes);
        }

        let mut reader = Reader::new(&layers);
        let mut config = Self::read(&mut reader);
        if let Some(config) = &mut config {
            relations::check(config, &mut reader);
            config.secrets = Secrets::read(config, &mut reader);
        }
        mistakes.extend(reader.into_mistakes());
        mistakes.extend(config.as_ref().map(more).unwrap_or_default());
        match config {
            Some(config) if mistakes.is_empty() => Ok(config),
            _ => Err(Errors(mistakes)),
        }
    }
}

fn read_file(path: &std::path::Path) -> Result<String, String> {
    let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if about.len() > FILE_BYTES {
        return Err(format!("{} bytes, more than {FILE_BYTES}", about.len()));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

fn read_text(name: &str, text: &str, mistakes: &mut Vec<Diagnostic>) -> Layer {
    let (layer, errors) = Layer::from_toml(name, text, &LineIndex::new(text));
    mistakes.extend(errors);
    layer
}

fn environment(variables: &[(String, String)]) -> Layer {
    let mut layer = Layer::default();
    for (name, value) in variables {
        let Some((section, key)) = name.strip_prefix(VARIABLE_PREFIX).and_then(|rest| rest.split_once("__")) else {
            continue;
        };
        let key = format!("{section}.{key}").to_ascii_lowercase().replace("__", ".");
        layer.put_text(key, value.clone(), format!("environment variable {name}"));
    }
    layer
}

fn flags(set: &[String], mistakes: &mut Vec<Diagnostic>) -> Layer {
    let mut layer = Layer::default();
    for flag in set {
        match flag.split_once('=') {
            Some((key, value)) => {
                layer.put_text(key.trim().to_owned(), value.to_owned(), format!("--set {}", key.trim()));
            }
            None => mistakes.push(Diagnostic {
                file: "--set".to_owned(),
                found: quoted(&without_login(flag)),
                expected: "section.key=value".to_owned(),
                ..Diagnostic::nowhere()
            }),
        }
    }
    layer
}

fn unknown(layer: &Layer, mistakes: &mut Vec<Diagnostic>) {
    let known: Vec<&str> = Config::keys().collect();
    let sections: Vec<&str> = known.iter().filter_map(|key| Some(key.split_once('.')?.0)).collect();
    for (key, leaf) in layer.leaves.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
        let expected = match key.split_once('.') {
            None if sections.contains(&key.as_str()) => format!("a section [{key}] with keys"),
            Some((section, _)) if sections.contains(&section) => format!("a key of [{section}]"),
            _ => "a key of config/default.toml".to_owned(),
        };
        mistakes.push(Diagnostic {
            key: key.clone(),
            found: "an unknown key".to_owned(),
            expected,
            hint: suggestion(key, &known),
            ..leaf.origin.place()
        });
    }
    for (table, origin) in &layer.tables {
        let with_keys =
            layer.leaves.keys().any(|key| key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.')));
        // A table with keys in it was complained about key by key.
        if !with_keys && !sections.contains(&table.as_str()) {
            mistakes.push(unknown_table(table, origin, &sections));
        }
    }
}

fn unknown_table(table: &str, origin: &Origin, sections: &[&str]) -> Diagnostic {
    Diagnostic {
        key: table.to_owned(),
        found: "an unknown section".to_owned(),
        expected: "a section of config/default.toml".to_owned(),
        hint: nearest(table, sections.iter().copied()).map(str::to_owned),
        ..origin.place()
    }
}

/// The nearest key: one of the same section, the same key in another section, or one with a similar whole name.
fn suggestion(key: &str, known: &[&'static str]) -> Option<String> {
    let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
    let last = |key: &&'static str| key.split_once('.').map(|(_, last)| last).unwrap_or_default();
    let own: Vec<&str> =
        known.iter().filter(|key| key.split_once('.').is_some_and(|(s, _)| s == section)).copied().collect();
    if let Some(near) = nearest(name, own.iter().map(|key| key.split_once('.').map_or("", |(_, last)| last))) {
        return Some(format!("{section}.{near}"));
    }
    let elsewhere = known.iter().find(|key| last(key) == name).copied();
    elsewhere.or_else(|| nearest(key, known.iter().copied())).map(str::to_owned)
}
