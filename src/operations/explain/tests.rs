//! Each case, from facts alone.
