//! An IP network, as `10.0.0.0/8`, or one address.

use std::{net::IpAddr, str::FromStr};

/// A network of IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    base: u128,
    mask: u128,
    v4: bool,
}

impl Network {
    /// Whether the address is of it. An IPv4 address written as IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (bits, v4) = bits(address);
        v4 == self.v4 && bits & self.mask == self.base
    }
}

fn bits(address: IpAddr) -> (u128, bool) {
    match address.to_canonical() {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), true),
        IpAddr::V6(v6) => (v6.to_bits(), false),
    }
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let (base, v4) = bits(address.parse().map_err(drop)?);
        let width = if v4 { 32 } else { 128 };
        let prefix: u32 = prefix.map_or(Ok(width), |prefix| prefix.parse().map_err(drop))?;
        if prefix > width {
            return Err(());
        }
        let all = u128::MAX >> (128 - width);
        let mask = all & all.checked_shl(width - prefix).unwrap_or(0);
        // With bits beside the prefix it is a slip of the pen.
        if base & !mask == 0 { Ok(Self { base, mask, v4 }) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses_and_no_others() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.255.3.4", true),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("0.0.0.0/0", "203.0.113.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::1", "::1", true),
            ("::/0", "2001:db8::1", true),
        ] {
            let parsed: Network = network.parse().expect(network);
            assert_eq!(parsed.contains(address.parse().expect("ip")), expected, "{network} {address}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.0/33", "10.0.0.1/8", "2001:db8::/129", "10.0.0.0/", "example.com", "10.0.0.0/-1"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
