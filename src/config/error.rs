//! What is wrong with a configuration: everything that was found at once, so that it is put right in one go.

use std::fmt;

/// One thing that is wrong, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key, as in `store.kind`.
    pub key: String,
    /// Where the value came from: a file's path, a variable's name, `--set`, `flag`.
    pub origin: String,
    /// What was expected. Never has a secret's value in it.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.key, self.origin, self.message)
    }
}

/// A configuration that cannot be used. Its text has a line for each problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// At least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
