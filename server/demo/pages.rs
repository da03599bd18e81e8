//! The browser's files, built by `client-demo` and embedded, so that players need no Node.js and the binary stands alone.

use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/../client-demo/dist"]
struct Files;

/// The page of the arena.
pub(crate) struct Pages;

impl tenure::Assets for Pages {
    fn get(&self, path: &str) -> Option<(&str, tenure::Bytes)> {
        let file = Files::get(path)?;
        let kind = match path.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("png") => "image/png",
            _ => "application/octet-stream",
        };
        let bytes = match file.data {
            std::borrow::Cow::Borrowed(bytes) => tenure::Bytes::from_static(bytes),
            std::borrow::Cow::Owned(bytes) => bytes.into(),
        };
        Some((kind, bytes))
    }
}
