//! The gateway over real sockets, driven by a client that is not ours.

mod support;

mod acks;
mod ephemeral;
mod frames;
mod groups;
mod limits;
mod publish;
