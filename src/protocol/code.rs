//! The codes a client sees: those of errors and those with which a connection is closed.

/// Why a request failed. Clients match on [`ErrorCode::as_str`], so these names are part of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The frame is not JSON, or has a lone surrogate in an escape.
    BadJson,
    /// Not a text frame.
    BadFrame,
    /// A field is missing, unknown, doubled, of the wrong type or over a limit; the message names it.
    BadRequest,
    /// The name of a topic does not follow its rule.
    BadTopic,
    /// AUTH has to come first.
    Unauthorized,
    /// The token is not the configured one.
    BadToken,
    /// The JWT is malformed, expired or not signed by a known key.
    JwtInvalid,
    /// The token does not cover this.
    Forbidden,
    /// A publish over a limit; `retry_after_ms` says when to come back.
    RateLimited,
    /// The connection has this subscription.
    AlreadySubscribed,
    /// The connection does not have this subscription.
    NotSubscribed,
    /// No event with this id where it was looked for.
    UnknownId,
    /// There is no such thing (over HTTP).
    NotFound,
    /// The event is larger than its store or topic takes.
    TooLarge,
    /// The payload does not follow the topic's schema.
    SchemaInvalid,
    /// It contradicts what is there: an id with another payload, settings while other members are connected.
    Conflict,
    /// A queue is full; the same request may work a moment later.
    Overloaded,
    /// The store does not answer or takes no writes.
    StoreUnavailable,
    /// The publish failed for a reason of the gateway's own.
    PublishFailed,
    /// The ack failed for a reason of the gateway's own.
    AckFailed,
    /// The gateway is going down.
    ShuttingDown,
}

impl ErrorCode {
    /// The code as it stands in a frame.
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrorCode::BadJson => "bad_json",
            ErrorCode::BadFrame => "bad_frame",
            ErrorCode::BadRequest => "bad_request",
            ErrorCode::BadTopic => "bad_topic",
            ErrorCode::Unauthorized => "unauthorized",
            ErrorCode::BadToken => "bad_token",
            ErrorCode::JwtInvalid => "jwt_invalid",
            ErrorCode::Forbidden => "forbidden",
            ErrorCode::RateLimited => "rate_limited",
            ErrorCode::AlreadySubscribed => "already_subscribed",
            ErrorCode::NotSubscribed => "not_subscribed",
            ErrorCode::UnknownId => "unknown_id",
            ErrorCode::NotFound => "not_found",
            ErrorCode::TooLarge => "too_large",
            ErrorCode::SchemaInvalid => "schema_invalid",
            ErrorCode::Conflict => "conflict",
            ErrorCode::Overloaded => "overloaded",
            ErrorCode::StoreUnavailable => "store_unavailable",
            ErrorCode::PublishFailed => "publish_failed",
            ErrorCode::AckFailed => "ack_failed",
            ErrorCode::ShuttingDown => "shutting_down",
        }
    }
}

/// Why the gateway closed a connection. Below 2000 the codes are RFC 6455's, from 4000 on our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum CloseCode {
    /// The gateway goes down: come back later, or to another one.
    GoingAway = 1001,
    /// The peer broke the WebSocket protocol.
    ProtocolError = 1002,
    /// A text frame that is not UTF-8.
    InvalidData = 1007,
    /// A frame declared to be longer than `frame_bytes`.
    TooBig = 1009,
    /// Too many connections: come back later.
    TryAgainLater = 1013,
    /// No AUTH in time, or the token expired: come back with a token.
    Unauthorized = 4401,
    /// The client did not read what was written to it.
    TooSlow = 4408,
}

impl CloseCode {
    /// The code as it stands in a close frame.
    pub const fn as_u16(self) -> u16 {
        self as u16
    }
}
