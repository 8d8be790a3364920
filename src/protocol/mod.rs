//! What clients and the gateway say to each other over a WebSocket: a text frame becomes a typed request or a typed
//! error, a typed answer becomes a text frame. Nothing in here knows sockets, actors or I/O, so that all of it can be
//! tested and fuzzed as plain functions.

mod code;
mod draft;
mod field;
pub(crate) mod limits;
mod opts;
mod parse;
mod reply;
mod request;
mod scan;
#[cfg(test)]
mod tests;
mod value;
mod walk;

pub use code::{CloseCode, ErrorCode};
pub use draft::Draft;
pub(crate) use field::unknown_name;
pub(crate) use limits::{DELAY_MS, REASON};
pub use opts::SubscribeOpts;
pub use parse::{parse, parse_payload};
pub use reply::{Answer, Corr, Failure, Lease, encode_err, encode_event, encode_ok};
pub use request::{Frame, Op, Request};
pub(crate) use value::{expected_integer, expected_text};
