//! Arguments that several commands take.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use crate::config::{Config, ConfigError, Loaded, Secret, Sources, load};

/// Where the configuration comes from.
#[derive(Debug, Clone, Args)]
pub(super) struct ConfigArgs {
    /// The configuration's file, instead of tidegate.toml.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// One key of the configuration, such as store.kind=memory. Can be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl ConfigArgs {
    /// Loads the configuration of this process, with the keys that a command's flags stand for.
    pub fn load(&self, flags: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        load(&Sources {
            file: self.config.clone(),
            directory: PathBuf::new(),
            env: std::env::vars_os()
                .map(|(name, text)| (lossy(name), lossy(text)))
                .collect(),
            set: self.set.clone(),
            flags: flags
                .iter()
                .map(|&(key, text)| (key.to_owned(), text.to_owned()))
                .collect(),
        })
    }
}

/// Which gateway a client talks to, and as whom.
#[derive(Debug, Clone, Args)]
pub(super) struct ClientArgs {
    /// The gateway's address, such as ws://127.0.0.1:8090/ws (or http://127.0.0.1:8090 for commands over
    /// plain HTTP). By default that of the configuration's listener.
    #[arg(long, env = "TIDEGATE_URL")]
    pub url: Option<String>,
    /// The token to authenticate with.
    #[arg(long, env = "TIDEGATE_TOKEN", hide_env_values = true, value_parser = parse_secret)]
    pub token: Option<Secret>,
    /// A PEM file with the certificates to trust for wss://, instead of this machine's.
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Output for programs: JSON, one object a line.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

impl ClientArgs {
    /// The gateway's address. The configuration is only read where none was given.
    pub fn url(&self) -> Result<String, Failure> {
        let url = match &self.url {
            Some(url) => url.clone(),
            None => default_url(&self.config.load(&[])?.config)?,
        };
        match url.split_once("://") {
            Some(("ws" | "wss", _)) => Ok(url),
            _ => Err(Failure::Usage(
                "--url must begin with ws:// or wss://, as in ws://127.0.0.1:8090/ws".to_owned(),
            )),
        }
    }
}

impl ClientArgs {
    /// The gateway's address for plain HTTP, without a path.
    pub fn http_url(&self) -> Result<String, Failure> {
        let url = match &self.url {
            Some(url) if url.starts_with("http://") || url.starts_with("https://") => url.clone(),
            _ => self.url()?.replacen("ws", "http", 1),
        };
        let host_at = url.find("://").map_or(0, |at| at + 3);
        let end = url.get(host_at..).and_then(|rest| rest.find('/'));
        Ok(url
            .get(..end.map_or(url.len(), |at| host_at + at))
            .unwrap_or_default()
            .to_owned())
    }
}

fn parse_secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

/// Where a client on this machine finds the gateway of this configuration.
fn default_url(config: &Config) -> Result<String, Failure> {
    let listen = config.gateway.listen;
    if listen.port() == 0 {
        let message = "gateway.listen has no fixed port, so the gateway's address is not known: give --url";
        return Err(Failure::Usage(message.to_owned()));
    }
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let scheme = if config.tls.is_some() { "wss" } else { "ws" };
    Ok(format!("{scheme}://{}/ws", SocketAddr::new(ip, listen.port())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(set: &[&str]) -> Config {
        let set = set.iter().map(|&entry| entry.to_owned()).collect();
        let directory = "no-such-folder".into();
        load(&Sources {
            set,
            directory,
            ..Sources::default()
        })
        .unwrap()
        .config
    }

    fn client(url: &str) -> ClientArgs {
        let config = ConfigArgs {
            config: None,
            set: vec![],
        };
        ClientArgs {
            url: Some(url.to_owned()),
            token: None,
            cacert: None,
            json: false,
            config,
        }
    }

    #[test]
    fn the_default_address_is_the_listeners() {
        let url = |entry: &str| default_url(&config(&[entry])).map_err(|failure| failure.to_string());
        assert_eq!(url("gateway.listen=127.0.0.1:7"), Ok("ws://127.0.0.1:7/ws".to_owned()));
        assert_eq!(url("gateway.listen=0.0.0.0:7"), Ok("ws://127.0.0.1:7/ws".to_owned()));
        assert_eq!(url("gateway.listen=[::]:7"), Ok("ws://[::1]:7/ws".to_owned()));
        assert!(url("gateway.listen=127.0.0.1:0").is_err());
        let tls = default_url(&config(&["tls.cert=c", "tls.key=k"])).unwrap();
        assert!(tls.starts_with("wss://"));
    }

    #[test]
    fn the_address_for_http_is_that_of_the_websocket() {
        for (given, expected) in [
            ("ws://h:1/ws", "http://h:1"),
            ("wss://ws.example/ws", "https://ws.example"),
            ("https://h/", "https://h"),
            ("http://h:8083", "http://h:8083"),
        ] {
            assert_eq!(client(given).http_url().unwrap(), expected);
        }
        assert!(client("h:1").http_url().is_err());
    }

    #[test]
    fn an_address_needs_a_scheme() {
        assert!(client("ws://h/ws").url().is_ok() && client("wss://h/ws").url().is_ok());
        for wrong in ["127.0.0.1:8090", "http://h", ""] {
            assert!(matches!(client(wrong).url(), Err(Failure::Usage(_))), "{wrong}");
        }
    }
}
