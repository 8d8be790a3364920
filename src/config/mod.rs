//! (filled in by the next step)
