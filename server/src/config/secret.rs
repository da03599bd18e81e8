//! Secrets: read from files, compared by others, never printed.

use std::fmt;

use super::{Diagnostic, GatewayConfig, section::Reader};

/// Fewest bytes of a secret: 128 bits even if it is only hexadecimal digits.
const LEAST_BYTES: usize = 32;
/// Most bytes of a secret or key file; a mistaken path to something large is refused.
const MOST_BYTES: u64 = 64 * 1024;

/// Bytes that must not reach logs, pages or error texts.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Takes the bytes as they are.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Whether these are the same bytes, in a time that does not depend on where they differ.
    pub fn matches(&self, other: &[u8]) -> bool {
        let mut difference = u8::from(self.0.len() != other.len());
        for (at, byte) in self.0.iter().enumerate() {
            difference |= byte ^ other.get(at).copied().unwrap_or(0);
        }
        std::hint::black_box(difference) == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What the `*_file` keys hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    /// `link.secret_file`.
    pub link: Option<Secret>,
    /// `admin.token_file`.
    pub admin: Option<Secret>,
    /// `store.password_file`.
    pub store: Option<Secret>,
    /// `gateway.auth_secret_file`: signs players' tokens (HS256).
    pub auth: Option<Secret>,
    /// `gateway.auth_public_key_file`: PEM of the key that players' tokens are checked with.
    pub auth_public_key: Option<Secret>,
}

impl Secrets {
    /// Reads the files; each mistake is put at the key that names the file.
    pub(super) fn read(config: &super::Config, reader: &mut Reader<'_>) -> Self {
        let gateway: &GatewayConfig = &config.gateway;
        Self {
            link: read(reader, "link.secret_file", config.link.secret_file.as_deref(), LEAST_BYTES),
            admin: read(reader, "admin.token_file", config.admin.token_file.as_deref(), LEAST_BYTES),
            store: read(reader, "store.password_file", config.store.password_file.as_deref(), 1),
            auth: read(reader, "gateway.auth_secret_file", gateway.auth_secret_file.as_deref(), LEAST_BYTES),
            auth_public_key: read(reader, "gateway.auth_public_key_file", gateway.auth_public_key_file.as_deref(), 1),
        }
    }
}

fn read(reader: &mut Reader<'_>, key: &str, path: Option<&std::path::Path>, least: usize) -> Option<Secret> {
    let path = path?;
    let mut complain = |found: String| {
        let place = reader.place(key);
        let expected = format!("a readable file with a secret of {least} bytes to {} KiB", MOST_BYTES / 1024);
        let mistake = Diagnostic { key: key.to_owned(), found, expected, ..place };
        reader.report(mistake);
    };
    let shown = path.display();
    match std::fs::metadata(path) {
        Ok(about) if about.len() > MOST_BYTES => {
            complain(format!("{shown} with {} bytes", about.len()));
            return None;
        }
        Ok(_) => {}
        Err(error) => {
            complain(format!("{shown}: {error}"));
            return None;
        }
    }
    match std::fs::read(path) {
        // A line break at the end is the editor's, not the secret's.
        Ok(bytes) if bytes.trim_ascii_end().len() >= least => Some(Secret::new(bytes.trim_ascii_end())),
        Ok(bytes) => {
            complain(format!("{shown} with {} bytes", bytes.trim_ascii_end().len()));
            None
        }
        Err(error) => {
            complain(format!("{shown}: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown_and_compares_whole() {
        let secret = Secret::new(b"correct horse");
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert!(secret.matches(b"correct horse"));
        for other in [&b"correct hors"[..], b"correct horse ", b"", b"Correct horse"] {
            assert!(!secret.matches(other), "{other:?}");
        }
    }
}
