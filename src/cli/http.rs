//! A client over plain HTTP: one request after the other.

use std::time::Duration;

use serde::Deserialize;
pub(super) use ureq::http::Method;
use ureq::http::{Request, Response, StatusCode};
use ureq::{Agent, Body, Error};

use super::args::ClientArgs;
use super::failure::Failure;
use super::frames::Refusal;
use crate::config::Secret;
use crate::tls;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may take: longer than any deadline that the gateway gives itself.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest answer that is read as a whole.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// A gateway, and as whom it is talked to.
pub(super) struct HttpClient {
    agent: Agent,
    base: String,
    token: Option<Secret>,
}

/// An error as the gateway tells it.
#[derive(Deserialize)]
struct Problem {
    error: String,
    code: String,
    retry_after_ms: Option<u64>,
}

impl HttpClient {
    pub(super) fn new(args: &ClientArgs) -> Result<HttpClient, Failure> {
        let base = args.http_url()?;
        let mut config = Agent::config_builder()
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .timeout_per_read(Some(ANSWER_TIMEOUT))
            .http_status_as_error(false)
            // A token goes to the gateway that was named, and nowhere else.
            .max_redirects(0)
            .proxy(None);
        if base.starts_with("https:") {
            let trusted = tls::http_client_config(args.cacert.as_deref());
            config = config.tls_config(trusted.map_err(Failure::Usage)?);
        }
        Ok(HttpClient {
            agent: Agent::new_with_config(config.build()),
            base,
            token: args.token.clone(),
        })
    }

    /// Asks for a path. What is no success is a failure, in the gateway's words.
    pub(super) fn get(&self, path: &str) -> Result<Response<Body>, Failure> {
        self.send(Method::GET, path, "")
    }

    /// Asks for something to be done. What is no success is a failure, in the gateway's words.
    pub(super) fn send(&self, method: Method, path: &str, body: &str) -> Result<Response<Body>, Failure> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {}", token.reveal()));
        }
        let request = request
            .body(body.to_owned())
            .map_err(|error| Failure::Usage(format!("--url: {error}")))?;
        let mut response = self.agent.run(request).map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let text = response.body_mut().read_to_string().unwrap_or_default();
        Err(self.refused(status, &text))
    }

    /// Asks for a path whose answer is read as a whole.
    pub(super) fn get_text(&self, path: &str) -> Result<String, Failure> {
        self.send_text(Method::GET, path, "")
    }

    /// The same, for something to be done.
    pub(super) fn send_text(&self, method: Method, path: &str, body: &str) -> Result<String, Failure> {
        let mut response = self.send(method, path, body)?;
        let body = response
            .body_mut()
            .with_config()
            .limit(ANSWER_BYTES_MAX)
            .read_to_string();
        body.map_err(|error| Failure::Failed(format!("the answer broke off: {error}")))
    }

    fn refused(&self, status: StatusCode, text: &str) -> Failure {
        let Ok(Problem {
            error,
            code,
            retry_after_ms,
        }) = serde_json::from_str(text)
        else {
            return Failure::Failed(format!("{} is no gateway: HTTP {status}", self.base));
        };
        let hint = match (status, &self.token) {
            (StatusCode::UNAUTHORIZED, None) => " (give --token or set TIDEGATE_TOKEN)",
            (StatusCode::UNAUTHORIZED, Some(_)) => " (see --token and TIDEGATE_TOKEN)",
            _ => "",
        };
        Failure::Refused(Refusal {
            code,
            msg: format!("{error}{hint}"),
            retry_after_ms,
        })
    }

    fn unreachable(&self, error: &Error) -> Failure {
        let base = &self.base;
        match error {
            Error::Io(_) | Error::ConnectionFailed | Error::HostNotFound | Error::Timeout(_) => Failure::Failed(
                format!("no gateway at {base}: start one with `tidegate serve`, or give --url ({error})"),
            ),
            Error::Rustls(_) | Error::Tls(_) => {
                Failure::Failed(format!("{base} is not to be trusted: {error} (see --cacert)"))
            }
            Error::BadUri(_) => Failure::Usage(format!("--url: {error}")),
            other => Failure::Failed(format!("{base} is no gateway: {other}")),
        }
    }
}

/// A value as it stands in an address.
pub(super) fn escaped(text: &str) -> impl std::fmt::Display {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}
