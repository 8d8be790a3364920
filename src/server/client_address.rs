//! Whose request it is: the peer's address, or what a proxy that is trusted says.

use std::net::{IpAddr, Ipv4Addr};

use actix_web::HttpRequest;
use actix_web::http::header::HeaderMap;

use crate::config::IpRange;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The address of the client behind a request.
pub(super) fn client_address(request: &HttpRequest, trusted: &[IpRange]) -> IpAddr {
    // Every listener is TCP, so there is a peer; without one all would share a limit.
    let peer = request
        .peer_addr()
        .map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip());
    behind_proxies(peer, request.headers(), trusted)
}

/// The last address in the chain that no trusted proxy has: whatever stands before it can be made up.
fn behind_proxies(peer: IpAddr, headers: &HeaderMap, trusted: &[IpRange]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|range| range.contains(address));
    let lines: Vec<&str> = headers
        .get_all(FORWARDED_FOR)
        .map(|value| value.to_str().unwrap_or_default())
        .collect();
    let mut client = peer;
    for hop in lines.iter().flat_map(|line| line.split(',')).rev() {
        if !is_trusted(client) {
            break;
        }
        match parse_hop(hop.trim()) {
            Some(address) => client = address,
            None => break,
        }
    }
    client.to_canonical()
}

/// An address as proxies write it: bare, in brackets, or with a port.
fn parse_hop(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let with_port = || text.parse().ok().map(|address: std::net::SocketAddr| address.ip());
    bare.parse().ok().or_else(with_port)
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn only_trusted_proxies_are_believed() {
        let cases: [(&str, &[&str], &str); 9] = [
            ("10.0.0.1", &["1.2.3.4"], "1.2.3.4"),
            ("10.0.0.1", &["6.6.6.6, 1.2.3.4, 10.0.0.2"], "1.2.3.4"),
            ("10.0.0.1", &["6.6.6.6", "1.2.3.4"], "1.2.3.4"),
            ("9.9.9.9", &["1.2.3.4"], "9.9.9.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["nonsense"], "10.0.0.1"),
            ("10.0.0.1", &["1.2.3.4, nonsense"], "10.0.0.1"),
            ("10.0.0.1", &["1.2.3.4:5678"], "1.2.3.4"),
            ("10.0.0.1", &["[2001:db8::1]:80"], "2001:db8::1"),
        ];
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        for (peer, lines, expected) in cases {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(
                    HeaderName::from_static(FORWARDED_FOR),
                    HeaderValue::from_str(line).unwrap(),
                );
            }
            let found = behind_proxies(peer.parse().unwrap(), &headers, &trusted);
            assert_eq!(found, expected.parse::<IpAddr>().unwrap(), "{peer} {lines:?}");
        }
    }
}
