//! The pages of the browser client, served beside the socket.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Response, StatusCode,
    header::{self, HeaderName, HeaderValue},
};

/// Scripts, styles and images of this host alone; sockets anywhere, for another gateway may be told to take over; no frames, no
/// forms, no plugins, nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; \
                      media-src 'self'; connect-src 'self' ws: wss:; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// An answer.
pub(super) type Answer = Response<Full<Bytes>>;

/// Files that are served: path without the leading slash → content type and content.
pub trait Assets: Send + Sync + 'static {
    /// The file, if there is one.
    fn get(&self, path: &str) -> Option<(&str, Bytes)>;
}

/// No files: a gateway for native clients alone.
impl Assets for () {
    fn get(&self, _path: &str) -> Option<(&str, Bytes)> {
        None
    }
}

/// Texts by path, for a page of a few files: `[("index.html", include_str!("../page/index.html"))]`. What they are is told by the
/// path's ending: html, js, css, json, svg, else plain text.
impl<const N: usize> Assets for [(&'static str, &'static str); N] {
    fn get(&self, path: &str) -> Option<(&str, Bytes)> {
        let (_, text) = self.iter().find(|(name, _)| *name == path)?;
        let kind = match path.rsplit_once('.').map(|(_, ending)| ending) {
            Some("html") => "text/html; charset=utf-8",
            Some("js" | "mjs") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("json" | "map") => "application/json",
            Some("svg") => "image/svg+xml",
            _ => "text/plain; charset=utf-8",
        };
        Some((kind, Bytes::from_static(text.as_bytes())))
    }
}

/// A short answer in plain text.
pub(super) fn plain(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *answer.status_mut() = status;
    set(&mut answer, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    secure(&mut answer);
    answer
}

/// An answer that says when to come back.
pub(super) fn later(status: StatusCode, text: &'static str, seconds: u32) -> Answer {
    let mut answer = plain(status, text);
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    set(&mut answer, header::CONNECTION, "close");
    answer
}

/// Serves a file.
pub(super) fn file(assets: &dyn Assets, method: &Method, path: &str, headers: &HeaderMap) -> Answer {
    if method != Method::GET && method != Method::HEAD {
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        set(&mut answer, header::ALLOW, "GET, HEAD");
        return answer;
    }
    let name = match path.trim_start_matches('/') {
        "" => "index.html",
        name => name,
    };
    // Names are looked up, never opened as paths; dots would still be a sign of somebody trying.
    let found = if name.split('/').any(|part| part == "..") { None } else { assets.get(name) };
    let Some((kind, content)) = found else { return plain(StatusCode::NOT_FOUND, "not found\n") };
    let tag = format!("\"{:016x}\"", xxhash_rust::xxh3::xxh3_64(&content));
    let unchanged = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|given| given.trim().trim_start_matches("W/") == tag);
    let length = content.len();
    let body = if unchanged || method == Method::HEAD { Bytes::new() } else { content };
    let mut answer = Response::new(Full::new(body));
    if unchanged {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        set(&mut answer, header::CONTENT_TYPE, kind);
        answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    set(&mut answer, header::ETAG, &tag);
    // Asked again each time, answered by 304: after an update nobody plays with an old page.
    set(&mut answer, header::CACHE_CONTROL, "no-cache");
    secure(&mut answer);
    answer
}

fn secure(answer: &mut Answer) {
    set(answer, header::CONTENT_SECURITY_POLICY, POLICY);
    set(answer, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(answer, header::REFERRER_POLICY, "no-referrer");
}

fn set(answer: &mut Answer, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;

    impl Assets for One {
        fn get(&self, path: &str) -> Option<(&str, Bytes)> {
            (path == "index.html").then_some(("text/html; charset=utf-8", Bytes::from_static(b"<p>arena")))
        }
    }

    #[test]
    fn pages_are_served_with_a_tag_and_a_policy() {
        let first = file(&One, &Method::GET, "/", &HeaderMap::new());
        assert_eq!(first.status(), 200);
        assert_eq!(first.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
        assert_eq!(first.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert!(
            first.headers()[header::CONTENT_SECURITY_POLICY].to_str().expect("text").contains("default-src 'none'")
        );
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone());
        assert_eq!(file(&One, &Method::GET, "/index.html", &headers).status(), 304);
        let head = file(&One, &Method::HEAD, "/", &HeaderMap::new());
        assert_eq!((head.status().as_u16(), &head.headers()[header::CONTENT_LENGTH]), (200, &HeaderValue::from(8)));
    }

    #[test]
    fn a_page_of_a_few_texts_needs_no_type_of_its_own() {
        let texts = [("index.html", "<p>farm"), ("game.js", "go()"), ("LICENSE", "free")];
        let kind = |path| Assets::get(&texts, path).map(|(kind, text)| (kind.to_owned(), text.len()));
        assert_eq!(kind("index.html"), Some(("text/html; charset=utf-8".to_owned(), 7)));
        assert_eq!(kind("game.js"), Some(("text/javascript; charset=utf-8".to_owned(), 4)));
        assert_eq!(kind("LICENSE"), Some(("text/plain; charset=utf-8".to_owned(), 4)));
        assert_eq!(kind("other.js"), None);
    }

    #[test]
    fn everything_else_is_refused() {
        assert_eq!(file(&One, &Method::GET, "/secret", &HeaderMap::new()).status(), 404);
        assert_eq!(file(&One, &Method::GET, "/../index.html", &HeaderMap::new()).status(), 404);
        let post = file(&One, &Method::POST, "/", &HeaderMap::new());
        assert_eq!(
            (post.status().as_u16(), &post.headers()[header::ALLOW]),
            (405, &HeaderValue::from_static("GET, HEAD"))
        );
    }
}
