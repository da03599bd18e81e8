//! Whether a request for `/ws` may become a socket.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, Version,
    header::{self, HeaderName, HeaderValue},
};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::pages::{self, Answer};

/// Pages that may open a socket.
#[derive(Clone, Debug)]
pub(super) struct Origins(Vec<String>);

impl Origins {
    pub(super) fn new(list: &[String]) -> Self {
        Self(list.iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect())
    }

    /// Native clients send no origin. A page needs to be on the list or, without a list, to be of the host it connects to (C44).
    fn allow(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else { return true };
        let Ok(origin) = origin.to_str() else { return false };
        if origins.next().is_some() {
            return false;
        }
        let origin = origin.to_ascii_lowercase();
        if !self.0.is_empty() {
            return self.0.iter().any(|allowed| allowed == "*" || *allowed == origin);
        }
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let page = origin.split_once("://").map(|(_, host)| host);
        !host.is_empty() && page.is_some_and(|page| page == host.to_ascii_lowercase())
    }
}

/// Checks the request; the answer switches protocols.
///
/// # Errors
/// The answer that refuses, and a word for the counter.
pub(super) fn check<B>(request: &Request<B>, origins: &Origins) -> Result<Answer, (&'static str, Box<Answer>)> {
    let headers = request.headers();
    let wants = |name: HeaderName, word: &str| {
        let values = headers.get_all(name);
        let mut words = values.iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(','));
        words.any(|w| w.trim().eq_ignore_ascii_case(word))
    };
    let is_upgrade = wants(header::CONNECTION, "upgrade") && wants(header::UPGRADE, "websocket");
    if request.method() != Method::GET || request.version() != Version::HTTP_11 || !is_upgrade {
        return Err(("not_an_upgrade", upgrade_required("this is a WebSocket: connect with one\n")));
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(("version", upgrade_required("WebSocket version 13 is needed\n")));
    }
    let mut keys = headers.get_all(header::SEC_WEBSOCKET_KEY).iter();
    let key = keys.next().filter(|key| STANDARD.decode(key).is_ok_and(|nonce| nonce.len() == 16));
    let Some(key) = key.filter(|_| keys.next().is_none()) else {
        return Err(("key", plain(StatusCode::BAD_REQUEST, "a WebSocket key is missing or damaged\n")));
    };
    if !origins.allow(headers) {
        return Err(("origin", plain(StatusCode::FORBIDDEN, "pages of this origin may not connect\n")));
    }
    let mut answer = Response::new(http_body_util::Full::default());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()))
        .map_err(|_| ("key", plain(StatusCode::BAD_REQUEST, "a WebSocket key is damaged\n")))?;
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    answer.headers_mut().insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    Ok(answer)
}

fn plain(status: StatusCode, text: &'static str) -> Box<Answer> {
    Box::new(pages::plain(status, text))
}

fn upgrade_required(text: &'static str) -> Box<Answer> {
    let mut answer = pages::plain(StatusCode::UPGRADE_REQUIRED, text);
    answer.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    Box::new(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(change: impl FnOnce(&mut HeaderMap)) -> Request<()> {
        let mut request = Request::new(());
        let headers = request.headers_mut();
        for (name, value) in [
            ("host", "play.example.com"),
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        change(headers);
        request
    }

    fn status(request: &Request<()>, origins: &[&str]) -> u16 {
        let origins = Origins::new(&origins.iter().map(|&o| o.to_owned()).collect::<Vec<_>>());
        check(request, &origins).map_or_else(|(_, answer)| answer.status().as_u16(), |answer| answer.status().as_u16())
    }

    #[test]
    fn the_accept_key_is_that_of_the_standard() {
        let answer = check(&request(|_| ()), &Origins::new(&[])).expect("accepted");
        assert_eq!(answer.headers()[header::SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn damaged_upgrades_are_refused() {
        for (name, value, expected) in [
            ("connection", "keep-alive", 426),
            ("upgrade", "h2c", 426),
            ("sec-websocket-version", "8", 426),
            ("sec-websocket-key", "short", 400),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ", 400),
        ] {
            let request = request(|h| drop(h.insert(name, HeaderValue::from_static(value))));
            assert_eq!(status(&request, &[]), expected, "{name}: {value}");
        }
        let mut post = request(|_| ());
        *post.method_mut() = Method::POST;
        assert_eq!(status(&post, &[]), 426);
        assert_eq!(status(&request(|h| drop(h.remove("sec-websocket-key"))), &[]), 400);
    }

    #[test]
    fn foreign_origins_are_refused() {
        let from = |origin: &'static str| request(|h| drop(h.insert("origin", HeaderValue::from_static(origin))));
        assert_eq!(status(&request(|_| ()), &[]), 101, "native clients send none");
        assert_eq!(status(&from("https://play.example.com"), &[]), 101);
        for origin in ["https://evil.example", "null", "", "https://play.example.com.evil.example", "play.example.com"]
        {
            assert_eq!(status(&from(origin), &[]), 403, "{origin:?}");
            assert_eq!(status(&from(origin), &["https://other.example"]), 403, "{origin:?}");
        }
        assert_eq!(status(&from("https://OTHER.example"), &["https://other.example/"]), 101);
        assert_eq!(status(&from("https://evil.example"), &["*"]), 101);
        let twice = request(|h| {
            h.append("origin", HeaderValue::from_static("https://play.example.com"));
            h.append("origin", HeaderValue::from_static("https://evil.example"));
        });
        assert_eq!(status(&twice, &[]), 403);
    }
}
