//! Addresses as the configuration writes them: where to listen, and whom to believe.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A range of IP addresses: `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpRange {
    address: IpAddr,
    prefix: u32,
}

impl IpRange {
    /// Whether an address is in the range. An IPv4 address written as IPv6 (`::ffff:10.0.0.1`) counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - self.prefix).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - self.prefix).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            _ => false,
        }
    }
}

/// Not an IP address, nor a range of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an IP address or a range such as 10.0.0.0/8")]
pub struct BadIpRange;

impl std::str::FromStr for IpRange {
    type Err = BadIpRange;

    fn from_str(text: &str) -> Result<Self, BadIpRange> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u32>().map_err(|_| BadIpRange)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| BadIpRange)?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(longest);
        if prefix > longest {
            return Err(BadIpRange);
        }
        Ok(IpRange { address, prefix })
    }
}

/// An address to listen on. Of names only `localhost` is one: what another name means is not the configuration's to ask.
pub(super) fn parse_listen(text: &str) -> Option<SocketAddr> {
    if let Some(port) = text.strip_prefix("localhost:") {
        return Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?)));
    }
    text.parse().ok()
}

/// Whether only this machine can reach a listener.
pub(super) fn is_local(listen: SocketAddr) -> bool {
    listen.ip().to_canonical().is_loopback()
}

/// Whether this is an origin as browsers send it: scheme, host and port, nothing else.
pub(super) fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else {
        return false;
    };
    let scheme_ok = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    scheme_ok && is_host(host)
}

/// Whether this is a host's name or address as in a `Host` header, without a port.
pub(super) fn is_host(text: &str) -> bool {
    if let Some(v6) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return v6.parse::<std::net::Ipv6Addr>().is_ok();
    }
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_their_addresses() {
        let cases = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
        ];
        for (range, address, expected) in cases {
            let parsed: IpRange = range.parse().unwrap();
            assert_eq!(parsed.contains(address.parse().unwrap()), expected, "{range} {address}");
        }
        for bad in [
            "",
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "host",
            "10.0.0.0/-1",
            "10.0.0.0/",
        ] {
            assert!(bad.parse::<IpRange>().is_err(), "{bad}");
        }
    }

    #[test]
    fn listeners_have_an_address_and_a_port() {
        assert_eq!(parse_listen("localhost:80"), "127.0.0.1:80".parse().ok());
        assert_eq!(parse_listen("[::1]:0"), "[::1]:0".parse().ok());
        for bad in [
            "",
            "localhost",
            "localhost:x",
            "example.org:80",
            "127.0.0.1",
            ":80",
            "127.0.0.1:70000",
        ] {
            assert_eq!(parse_listen(bad), None, "{bad}");
        }
        assert!(is_local("127.8.0.1:1".parse().unwrap()));
        assert!(is_local("[::ffff:127.0.0.1]:1".parse().unwrap()));
        assert!(!is_local("0.0.0.0:1".parse().unwrap()));
        assert!(!is_local("[::]:1".parse().unwrap()));
    }

    #[test]
    fn origins_are_scheme_host_and_port() {
        for good in [
            "https://app.example",
            "http://localhost:3000",
            "http://[::1]:8080",
            "tauri://localhost",
        ] {
            assert!(is_origin(good), "{good}");
        }
        for bad in [
            "*",
            "null",
            "app.example",
            "https://",
            "https://a/",
            "https://a:b",
            "https://a b",
            "://a",
        ] {
            assert!(!is_origin(bad), "{bad}");
        }
        assert!(!is_host("a:80") && !is_host("https://a") && is_host("[::1]") && is_host("a.example"));
    }
}
