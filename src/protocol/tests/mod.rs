//! Tests of the whole way from a frame to a request.
