//! Who may ask the admin port: probes anybody; the rest a token where one is set, and no page of another origin.

use base64::Engine as _;
use hyper::{HeaderMap, Method, header};

use crate::config::Secret;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No token, or a wrong one.
    Token,
    /// A name that is not this machine's, while no token is set: a page could have made it point here (DNS rebinding).
    Host,
    /// A change that a page of another origin asks for.
    Origin,
}

/// Checks a request that is not a probe.
pub(super) fn check(method: &Method, headers: &HeaderMap, token: Option<&Secret>) -> Result<(), Refusal> {
    match token {
        Some(token) if !carries(headers, token) => return Err(Refusal::Token),
        None if !host(headers).is_some_and(is_loopback) => return Err(Refusal::Host),
        Some(_) | None => {}
    }
    let reads = method == Method::GET || method == Method::HEAD;
    if !reads && !same_origin(headers) { Err(Refusal::Origin) } else { Ok(()) }
}

/// `Authorization: Bearer <token>` from programs, `Basic` with the token as password from browsers.
fn carries(headers: &HeaderMap, token: &Secret) -> bool {
    let Some(value) = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let Some((scheme, rest)) = value.split_once(' ') else { return false };
    if scheme.eq_ignore_ascii_case("bearer") {
        return token.matches(rest.trim().as_bytes());
    }
    if scheme.eq_ignore_ascii_case("basic")
        && let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(rest.trim())
        && let Some(colon) = bytes.iter().position(|byte| *byte == b':')
    {
        return token.matches(bytes.get(colon + 1..).unwrap_or_default());
    }
    false
}

/// Programs send no `Origin`; browsers do with every change, and `Sec-Fetch-Site` as well.
fn same_origin(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("invalid"));
    let site = text("sec-fetch-site").is_none_or(|site| site == "same-origin" || site == "none");
    let origin = text("origin").is_none_or(|origin| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some() && authority == host(headers)
    });
    site && origin
}

fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST)?.to_str().ok()
}

fn is_loopback(authority: &str) -> bool {
    let name = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &Method, token: Option<&str>, headers: &[(&'static str, &str)]) -> Result<(), Refusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a header"));
        }
        check(method, &map, token.map(|token| Secret::new(token.as_bytes())).as_ref())
    }

    #[test]
    fn a_token_is_asked_for_where_one_is_set() {
        let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode("admin:se:cret"));
        for good in ["Bearer se:cret", "bearer se:cret", basic.as_str()] {
            assert_eq!(ask(&Method::GET, Some("se:cret"), &[("authorization", good)]), Ok(()), "{good}");
        }
        for bad in ["Bearer se:cre", "Bearer", "se:cret", "Basic !!!", "Basic c2U=", "Digest se:cret"] {
            let headers = [("authorization", bad), ("host", "localhost")];
            assert_eq!(ask(&Method::GET, Some("se:cret"), &headers), Err(Refusal::Token), "{bad}");
        }
        assert_eq!(ask(&Method::GET, Some("se:cret"), &[("host", "localhost:7778")]), Err(Refusal::Token));
    }

    #[test]
    fn without_a_token_only_names_of_this_machine_are_answered() {
        for good in ["localhost", "LOCALHOST:7778", "127.0.0.1:7778", "[::1]:7778", "[::1]", "127.9.9.9"] {
            assert_eq!(ask(&Method::GET, None, &[("host", good)]), Ok(()), "{good}");
        }
        for bad in ["evil.example", "evil.example:7778", "localhost.evil.example", "192.0.2.1", "[2001:db8::1]:1", ""] {
            assert_eq!(ask(&Method::GET, None, &[("host", bad)]), Err(Refusal::Host), "{bad}");
        }
        assert_eq!(ask(&Method::GET, None, &[]), Err(Refusal::Host));
    }

    #[test]
    fn changes_come_from_the_page_itself_or_from_programs() {
        let host = ("host", "localhost:7778");
        assert_eq!(ask(&Method::POST, None, &[host]), Ok(()));
        assert_eq!(ask(&Method::POST, None, &[host, ("origin", "http://localhost:7778")]), Ok(()));
        let foreign = [
            ("origin", "http://localhost:9999"),
            ("origin", "null"),
            ("origin", "https://evil.example"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ];
        for header in foreign {
            assert_eq!(ask(&Method::POST, None, &[host, header]), Err(Refusal::Origin), "{header:?}");
            assert_eq!(ask(&Method::GET, None, &[host, header]), Ok(()), "{header:?}");
        }
    }
}
