//! Errors over HTTP: `{error, code, retry_after_ms?}`, as every path answers them.

use actix_web::http::StatusCode;
use actix_web::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::{HttpResponse, ResponseError};

use crate::protocol::{ErrorCode, Failure};

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
        let mut body = serde_json::json!({"error": msg, "code": code.as_str()});
        let mut response = HttpResponse::build(self.status_code());
        if let Some(ms) = retry_after_ms {
            body["retry_after_ms"] = (*ms).into();
            response.insert_header((RETRY_AFTER, ms.div_ceil(1_000).to_string()));
        }
        if self.status_code() == StatusCode::UNAUTHORIZED {
            response.insert_header((WWW_AUTHENTICATE, "Bearer"));
        }
        response.json(body)
    }
}
