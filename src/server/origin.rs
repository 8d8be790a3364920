//! Whether a web page, or a name that was made to point here, is behind a request: what `Origin` and `Host` say.

use std::net::{IpAddr, Ipv6Addr};

/// A host and its port, in lower case.
#[derive(Debug, PartialEq, Eq)]
struct Authority {
    host: String,
    port: Option<u16>,
}

impl Authority {
    fn parse(text: &str) -> Option<Authority> {
        let (host, port) = match text.rsplit_once(':') {
            // A colon inside of brackets is the address's own.
            Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
            _ => (text, None),
        };
        let is_v6 = |inner: &str| inner.parse::<Ipv6Addr>().is_ok();
        let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let valid = match bracketed {
            Some(inner) => is_v6(inner),
            None => {
                !host.is_empty()
                    && host
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
            }
        };
        let host = host.to_ascii_lowercase();
        valid.then_some(Authority { host, port })
    }

    /// Rebinding needs a name: an address, or a name that always means this machine, cannot be made to point here.
    fn is_safe(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<IpAddr>().is_ok() || self.host == "localhost" || self.host.ends_with(".localhost")
    }
}

/// Whether a `Host` may be served. Ports are not compared.
pub(super) fn host_allowed(host: &str, allowed_hosts: &[String]) -> bool {
    Authority::parse(host).is_some_and(|authority| authority.is_safe() || allowed_hosts.contains(&authority.host))
}

/// What an `Origin` is to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// A page of this very host and port.
    Same,
    /// Another page, which was invited: it gets CORS headers.
    Invited,
    /// Any other page.
    Foreign,
}

/// Judges an origin by the request's `Host` and the origins that were invited.
pub(super) fn relation(origin: &str, host: &str, allowed_origins: &[String]) -> Relation {
    let Some((scheme, authority)) = origin.split_once("://") else {
        return Relation::Foreign;
    };
    let scheme = scheme.to_ascii_lowercase();
    let (Some(page), Some(own)) = (Authority::parse(authority), Authority::parse(host)) else {
        return Relation::Foreign;
    };
    // A port that is not written is the scheme's, on both sides: in front of the gateway may be a proxy with TLS.
    let standard = match scheme.as_str() {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let same_port = page.port.or(standard) == own.port.or(standard);
    if standard.is_some() && page.host == own.host && same_port {
        return Relation::Same;
    }
    let without_standard_port = |text: &str| {
        let text = text.to_ascii_lowercase();
        let suffix = standard.map(|port| format!(":{port}")).unwrap_or_default();
        text.strip_suffix(&suffix).map(str::to_owned).unwrap_or(text)
    };
    let origin = without_standard_port(origin);
    match allowed_origins
        .iter()
        .any(|allowed| without_standard_port(allowed) == origin)
    {
        true => Relation::Invited,
        false => Relation::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_may_be_served() {
        let allowed = ["gw.example".to_owned()];
        for good in [
            "127.0.0.1:8090",
            "192.168.1.5",
            "[::1]:8090",
            "[2001:db8::1]",
            "localhost",
            "LOCALHOST:1",
            "app.localhost:8090",
            "gw.example",
            "GW.example:9999",
        ] {
            assert!(host_allowed(good, &allowed), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "evil.example:8090",
            "sub.gw.example",
            "gw.example.evil",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "a@127.0.0.1",
            "127.0.0.1:x",
            "127.0.0.1:99999",
            "[::1",
            "[evil]",
            "127.0.0.1, evil.example",
        ] {
            assert!(!host_allowed(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn pages_by_their_origin() {
        use Relation::{Foreign, Invited, Same};
        let allowed = ["https://app.example".to_owned(), "tauri://localhost".to_owned()];
        let cases = [
            ("http://localhost:8090", "localhost:8090", Same),
            ("https://localhost:8090", "localhost:8090", Same),
            ("http://LocalHost:8090", "localhost:8090", Same),
            ("http://localhost:3000", "localhost:8090", Foreign),
            ("http://127.0.0.1:8090", "localhost:8090", Foreign),
            ("https://gw.example", "gw.example", Same),
            ("http://gw.example", "gw.example", Same),
            ("https://gw.example", "gw.example:443", Same),
            ("https://gw.example", "gw.example:80", Foreign),
            ("https://gw.example:8443", "gw.example", Foreign),
            ("http://[::1]:8090", "[::1]:8090", Same),
            ("https://app.example", "gw.example", Invited),
            ("https://app.example:443", "gw.example", Invited),
            ("HTTPS://APP.example", "gw.example", Invited),
            ("http://app.example", "gw.example", Foreign),
            ("https://app.example.evil", "gw.example", Foreign),
            ("https://evil-app.example", "gw.example", Foreign),
            ("tauri://localhost", "localhost", Invited),
            ("ftp://localhost", "localhost", Foreign),
            ("null", "localhost", Foreign),
            ("", "localhost", Foreign),
            ("http://localhost/", "localhost", Foreign),
            ("http://a@localhost", "localhost", Foreign),
        ];
        for (origin, host, expected) in cases {
            assert_eq!(relation(origin, host, &allowed), expected, "{origin} at {host}");
        }
    }
}
