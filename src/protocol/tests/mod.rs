//! Tests of the whole way from a frame to a request.

mod accepted;
mod corpus;
mod fuzz;
mod payload;
mod refused;
mod refused_opts;
