//! Why a group moves or does not. [`explain`] is a function of [`Facts`] alone; [`explain_group`] collects them from a
//! running gateway.

mod facts;
mod judge;
mod sentence;
#[cfg(test)]
mod tests;

pub use facts::{Facts, MemberFacts, explain_group};
pub use judge::{Explanation, Moment, State, What, explain};
