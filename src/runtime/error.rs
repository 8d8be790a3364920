//! What can go wrong between a program and the gateway inside it.

use std::time::Duration;

use crate::protocol::{ErrorCode, Failure};

/// Why something that was asked of a gateway did not happen. [`Error::is_retryable`] says whether it is worth trying again.
///
/// ```
/// # tidegate::testing::run(async {
/// use tidegate::testing::TestGateway;
/// use tidegate::{Error, Message};
///
/// let gateway = TestGateway::start().await?;
/// let handle = gateway.handle();
/// let error = handle.publish("Orders", Message::json(&1)).await.unwrap_err();
/// assert!(matches!(&error, Error::Refused { message, .. } if message.contains("topic")));
/// assert!(!error.is_retryable());
///
/// gateway.stop().await;
/// assert_eq!(handle.publish("orders", Message::json(&1)).await, Err(Error::Stopped));
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The gateway was stopped, or is being stopped.
    #[error("the gateway was stopped")]
    Stopped,
    /// The gateway said no, as it would have to a client over WebSocket.
    #[error("{}: {message}", code.as_str())]
    Refused {
        /// For programs.
        code: ErrorCode,
        /// For people: names the field, where one is wrong.
        message: String,
        /// When it is worth trying again, where the gateway knows.
        retry_after: Option<Duration>,
    },
    /// What was to be published is no JSON.
    #[error("payload: {0}")]
    BadPayload(String),
    /// An event came whose payload is not what the subscription expects. It was given back with this as the reason.
    #[error("the payload of event {id} is not what is expected: {message}")]
    UnexpectedPayload {
        /// Which event.
        id: String,
        /// What was expected, and where it was missing.
        message: String,
    },
    /// There is no such actor, or it has another type.
    #[error("there is no actor {0:?} of this type")]
    NoSuchActor(String),
    /// The actor is not there now, or ended with the message in its hands.
    #[error("the actor {name:?} does not answer: {why}")]
    ActorDown {
        /// Which.
        name: String,
        /// Why not.
        why: String,
        /// Whether it will be there again.
        restarts: bool,
    },
    /// The gateway failed while it ran.
    #[error("the gateway failed: {0}")]
    Failed(String),
}

impl Error {
    /// Whether the same may work a moment later: [`Error::retry_after`] says when, where that is known.
    ///
    /// A publish that failed may have happened all the same. With an [id](crate::Message::id) it can be repeated safely.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Refused { code, .. } => matches!(
                code,
                ErrorCode::RateLimited
                    | ErrorCode::Overloaded
                    | ErrorCode::StoreUnavailable
                    | ErrorCode::PublishFailed
                    | ErrorCode::AckFailed
            ),
            Error::ActorDown { restarts, .. } => *restarts,
            _ => false,
        }
    }

    /// How long to wait before it is worth trying again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure.code {
            ErrorCode::ShuttingDown => Error::Stopped,
            code => Error::Refused {
                code,
                message: failure.msg.into_owned(),
                retry_after: failure.retry_after_ms.map(Duration::from_millis),
            },
        }
    }
}

/// A value that is over its bounds; the message names the field.
pub(super) fn bad_request(message: impl Into<String>) -> Error {
    Error::Refused {
        code: ErrorCode::BadRequest,
        message: message.into(),
        retry_after: None,
    }
}
