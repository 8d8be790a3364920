//! Errors over HTTP: `{error, code, retry_after_ms?}`, as every path answers them.

use actix_web::http::StatusCode;
use actix_web::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::protocol::{ErrorCode, Failure};

/// An error, as every path answers it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    /// For people: what is wrong, and with which parameter.
    error: String,
    /// For programs.
    #[schema(example = "bad_request")]
    code: String,
    /// How long to wait before it is worth trying again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    retry_after_ms: Option<u64>,
}

/// An error that only HTTP has.
pub(super) fn error(status: StatusCode, code: &str, text: &str) -> HttpResponse {
    HttpResponse::build(status).json(Problem {
        error: text.to_owned(),
        code: code.to_owned(),
        retry_after_ms: None,
    })
}

/// The gateway takes no new work.
pub(super) fn going_down() -> HttpResponse {
    Refusal(shutting_down()).error_response()
}

pub(super) fn shutting_down() -> Failure {
    Failure::new(ErrorCode::ShuttingDown, "the gateway is going down")
}

/// A failure as an answer to an HTTP request.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.msg)]
pub(super) struct Refusal(pub(super) Failure);

impl ResponseError for Refusal {
    fn status_code(&self) -> StatusCode {
        match self.0.code {
            ErrorCode::Unauthorized | ErrorCode::BadToken | ErrorCode::JwtInvalid => StatusCode::UNAUTHORIZED,
            ErrorCode::Forbidden => StatusCode::FORBIDDEN,
            ErrorCode::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            ErrorCode::Conflict | ErrorCode::AlreadySubscribed => StatusCode::CONFLICT,
            ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorCode::UnknownId | ErrorCode::NotSubscribed | ErrorCode::NotFound => StatusCode::NOT_FOUND,
            ErrorCode::BadJson
            | ErrorCode::BadFrame
            | ErrorCode::BadRequest
            | ErrorCode::BadTopic
            | ErrorCode::SchemaInvalid => StatusCode::BAD_REQUEST,
            ErrorCode::Overloaded
            | ErrorCode::StoreUnavailable
            | ErrorCode::PublishFailed
            | ErrorCode::AckFailed
            | ErrorCode::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn error_response(&self) -> HttpResponse {
        let Failure {
            code,
            msg,
            retry_after_ms,
        } = &self.0;
        let mut response = HttpResponse::build(self.status_code());
        if let Some(ms) = retry_after_ms {
            response.insert_header((RETRY_AFTER, ms.div_ceil(1_000).to_string()));
        }
        if self.status_code() == StatusCode::UNAUTHORIZED {
            response.insert_header((WWW_AUTHENTICATE, "Bearer"));
        }
        response.json(Problem {
            error: msg.to_string(),
            code: code.as_str().to_owned(),
            retry_after_ms: *retry_after_ms,
        })
    }
}
