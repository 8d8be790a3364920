//! What the documentation says is true: its commands are run, its lists are compared with the code.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

mod actors;
mod blocks;
mod reference;
mod walkthrough;
