//! How a section is declared (`section!`) and read from the layers, the highest layer that has the key first.

use super::{
    Diagnostic, LineIndex,
    load::{DEFAULTS, DEFAULTS_FILE},
    rule::Rule,
    tree::{Layer, Leaf},
};

/// Reads typed values out of the layers and collects what is wrong.
pub(crate) struct Reader<'a> {
    /// Lowest first.
    layers: &'a [Layer],
    mistakes: Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(layers: &'a [Layer]) -> Self {
        Self { layers, mistakes: Vec::new() }
    }

    /// The value of `key`. Every layer's value is checked, also one that a higher layer overrides: it would strike on the day when
    /// the override goes away. After a mistake the next lower layer counts, so that the relations can still be checked.
    pub(crate) fn get<T>(&mut self, key: &str, rule: &Rule<T>) -> Option<T> {
        let mut value = None;
        for leaf in self.layers.iter().filter_map(|layer| layer.leaves.get(key)) {
            match rule.read(&leaf.value) {
                Some(good) => value = Some(good),
                None => self.mistakes.push(Diagnostic {
                    key: key.to_owned(),
                    found: leaf.value.found(),
                    expected: rule.expected().to_owned(),
                    ..leaf.origin.place()
                }),
            }
        }
        value
    }

    /// Where the value of `key` comes from: a diagnostic with only the place filled in.
    pub(crate) fn place(&self, key: &str) -> Diagnostic {
        let leaf = self.leaf(key);
        leaf.map_or_else(Diagnostic::nowhere, |leaf| leaf.origin.place())
    }

    /// What is written at `key`, for messages.
    pub(crate) fn written(&self, key: &str) -> String {
        self.leaf(key).map_or_else(|| "nothing".to_owned(), |leaf| leaf.value.found())
    }

    /// Whether `key` was refused already; what depends on it need not be said.
    pub(crate) fn refused(&self, key: &str) -> bool {
        self.mistakes.iter().any(|mistake| mistake.key == key)
    }

    /// How far up the layers `key` was set; 0 is the defaults.
    pub(crate) fn height(&self, key: &str) -> usize {
        self.layers.iter().rposition(|layer| layer.leaves.contains_key(key)).unwrap_or(0)
    }

    pub(crate) fn report(&mut self, mistake: Diagnostic) {
        self.mistakes.push(mistake);
    }

    pub(super) fn into_mistakes(self) -> Vec<Diagnostic> {
        self.mistakes
    }

    fn leaf(&self, key: &str) -> Option<&Leaf> {
        self.layers.iter().rev().find_map(|layer| layer.leaves.get(key))
    }
}

/// Reads one section, or all, from `config/default.toml` alone.
#[expect(clippy::panic, reason = "the file is part of the program, and a test proves that each section reads")]
pub(super) fn of_defaults<T>(read: impl Fn(&mut Reader<'_>) -> Option<T>) -> T {
    let (layer, mut mistakes) = Layer::from_toml(DEFAULTS_FILE, DEFAULTS, &LineIndex::new(DEFAULTS));
    let layers = [layer];
    let mut reader = Reader::new(&layers);
    let value = read(&mut reader);
    mistakes.extend(reader.into_mistakes());
    match value {
        Some(value) if mistakes.is_empty() => value,
        _ => panic!("config/default.toml is broken: {mistakes:?}"),
    }
}

/// Declares a section: its struct, its keys, and how each is read. The rule after `=` names type, range and unit.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident in $section:literal {
        $( $(#[$field_doc:meta])* $field:ident : $ty:ty = $rule:expr; )*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[$field_doc])* pub $field: $ty, )*
        }

        impl $name {
            /// Its keys, `section.key`.
            pub const KEYS: &'static [&'static str] = &[ $( concat!($section, ".", stringify!($field)), )* ];

            pub(super) fn read(reader: &mut $crate::config::section::Reader<'_>) -> Option<Self> {
                $( let $field: Option<$ty> = reader.get(concat!($section, ".", stringify!($field)), &$rule); )*
                Some(Self { $( $field: $field?, )* })
            }
        }

        impl Default for $name {
            /// The values of `config/default.toml`.
            fn default() -> Self {
                $crate::config::section::of_defaults(Self::read)
            }
        }
    };
}
pub(super) use section;
