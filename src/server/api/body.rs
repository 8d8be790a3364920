//! The body of a request: text, bounded in size and time.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};
use futures_util::StreamExt;

use super::super::refusal::Refusal;
use crate::actors::shared::Shared;
use crate::protocol::{ErrorCode, Failure};

/// How long a body may take to come.
const DEADLINE: Duration = Duration::from_secs(30);

/// The text of a request's body, of at most `limits.frame_bytes`.
pub(super) struct Body(pub(super) String);

impl FromRequest for Body {
    type Error = Refusal;
    type Future = Pin<Box<dyn Future<Output = Result<Body, Refusal>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let max = request
            .app_data::<web::Data<Shared>>()
            .map_or(0, |shared| shared.live.limits().frame_bytes);
        let payload = payload.take();
        Box::pin(async move {
            let late = |_| Err(Failure::new(ErrorCode::BadRequest, "the body did not come in time"));
            let read = tokio::time::timeout(DEADLINE, read(payload, max)).await;
            read.unwrap_or_else(late).map(Body).map_err(Refusal)
        })
    }
}

async fn read(mut payload: Payload, max: usize) -> Result<String, Failure> {
    let mut body = Vec::new();
    while let Some(piece) = payload.next().await {
        let piece =
            piece.map_err(|error| Failure::new(ErrorCode::BadRequest, format!("the body broke off: {error}")))?;
        if body.len() + piece.len() > max {
            let msg = format!("the body has more than {max} bytes, the most that limits.frame_bytes allows");
            return Err(Failure::new(ErrorCode::TooLarge, msg));
        }
        body.extend_from_slice(&piece);
    }
    String::from_utf8(body).map_err(|_| Failure::new(ErrorCode::BadJson, "not JSON: the body is not UTF-8"))
}
