//! Which address a client has that comes through proxies: what they say counts only where they are trusted.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use hyper::HeaderMap;

use crate::config::Network;

/// The header in which each proxy appends whom it was called by.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Whoever comes through a proxy on this machine that is not trusted: somebody from anywhere. Were its own address taken, the whole internet
/// would count as loopback, with guests let in and no bound per address.
pub(super) const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Proxies that are believed.
#[derive(Clone, Debug)]
pub(super) struct Proxies(Vec<Network>);

impl Proxies {
    pub(super) fn new(list: &[Network]) -> Self {
        Self(list.to_vec())
    }

    /// Whether what this peer says about others is believed.
    pub(super) fn trust(&self, peer: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(peer))
    }

    /// The client: the last address in the chain that is not a trusted proxy's. What stands left of that one is anybody's claim.
    pub(super) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if peer.to_canonical().is_loopback() && !self.trust(peer) && headers.contains_key(FORWARDED_FOR) {
            return STRANGER;
        }
        let mut client = peer;
        let lines = headers.get_all(FORWARDED_FOR).iter().rev();
        for word in lines.flat_map(|line| line.to_str().unwrap_or("?").rsplit(',')) {
            if !self.trust(client) {
                return client;
            }
            let Some(address) = parse(word.trim()) else { return client };
            client = address;
        }
        client
    }
}

/// An address, with or without a port.
fn parse(word: &str) -> Option<IpAddr> {
    let address = word.parse().or_else(|_| word.parse::<SocketAddr>().map(|with_port| with_port.ip()));
    address.or_else(|_| word.trim_start_matches('[').trim_end_matches(']').parse()).ok()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn client(peer: &str, lines: &[&'static str]) -> String {
        let proxies = Proxies::new(&["10.0.0.0/8".parse().expect("network"), "2001:db8::7".parse().expect("network")]);
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, HeaderValue::from_static(line));
        }
        proxies.client(peer.parse().expect("ip"), &headers).to_string()
    }

    #[test]
    fn the_last_address_that_is_not_a_trusted_proxy_counts() {
        for (peer, lines, expected) in [
            ("203.0.113.9", &["198.51.100.1"][..], "203.0.113.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["1.2.3.4, 198.51.100.1, 10.9.9.9"], "198.51.100.1"),
            ("10.0.0.1", &["1.2.3.4", "198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &["1.2.3.4, nonsense"], "10.0.0.1"),
            ("10.0.0.1", &["1.2.3.4,"], "10.0.0.1"),
            ("2001:db8::7", &["[2001:db8:5::1]:443"], "2001:db8:5::1"),
            ("10.0.0.1", &["198.51.100.1:5555"], "198.51.100.1"),
            ("10.0.0.1", &["[2001:db8:5::2]"], "2001:db8:5::2"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &["198.51.100.1"], "0.0.0.0"),
            ("127.0.0.1", &["127.0.0.1"], "0.0.0.0"),
            ("::1", &[""], "0.0.0.0"),
            ("::ffff:127.0.0.1", &["198.51.100.1"], "0.0.0.0"),
        ] {
            assert_eq!(client(peer, lines), expected, "{peer} {lines:?}");
        }
    }
}
