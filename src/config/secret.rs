//! What must not be seen: tokens and keys, and passwords inside of addresses.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};

/// What stands for a secret wherever something is shown.
pub(super) const HIDDEN: &str = "***";

/// A text that shows itself as `***`. Only [`Secret::reveal`] gives it away.
///
/// There is one way to compare it, and it takes the same time whatever is in the secret: a guess cannot be improved by
/// measuring.
///
/// ```
/// use tidegate::config::Secret;
///
/// let secret = Secret::new("open sesame");
/// assert!(secret.matches("open sesame") && !secret.matches("open sesam"));
/// assert_eq!(format!("{secret:?}"), "***");
/// ```
///
/// ```compile_fail
/// use tidegate::config::Secret;
///
/// let _ = Secret::new("a") == "a"; // would end at the first letter that differs
/// ```
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself: for signing, never for showing or comparing.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether this is the text. Digests of one length are compared in constant time, so that neither where a guess goes
    /// wrong nor how long the secret is can be measured.
    pub fn matches(&self, guess: &str) -> bool {
        let own = digest(&SHA256, self.0.as_bytes());
        let given = digest(&SHA256, guess.as_bytes());
        verify_slices_are_equal(own.as_ref(), given.as_ref()).is_ok()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.matches(&other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// An address without the password in it, nor the options that carry secrets.
///
/// A password that was not escaped may itself have `/`, `?` or `@` in it: all before the last `@` counts as the user's, so
/// in doubt more is hidden than needed.
pub(super) fn hide_in_url(url: &str) -> String {
    let (scheme, rest) = url.split_at(url.find("://").map_or(0, |at| at + "://".len()));
    let (user, host) = rest.split_at(rest.rfind('@').unwrap_or(0));
    let user = match user.split_once(':') {
        Some((name, _)) => format!("{name}:{HIDDEN}"),
        None => user.to_owned(),
    };
    let host = match host.split_once('?') {
        Some((address, options)) => {
            let options: Vec<String> = options.split('&').map(hide_option).collect();
            format!("{address}?{}", options.join("&"))
        }
        None => host.to_owned(),
    };
    format!("{scheme}{user}{host}")
}

fn hide_option(option: &str) -> String {
    let Some((name, _)) = option.split_once('=') else {
        return option.to_owned();
    };
    let lower = name.to_ascii_lowercase();
    if ["password", "token", "secret", "properties"]
        .iter()
        .any(|word| lower.contains(word))
    {
        return format!("{name}={HIDDEN}");
    }
    option.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_nothing() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
        assert_eq!(secret.reveal(), "hunter2");
    }

    /// A comparison that ended at the first difference would be done with the early guess thousands of times sooner.
    #[test]
    fn a_guess_takes_as_long_wherever_it_goes_wrong() {
        let text = "s".repeat(256 << 10);
        let secret = Secret::new(text.clone());
        let wrong_at = |at: usize| {
            let mut guess = text.clone();
            guess.replace_range(at..=at, "x");
            guess
        };
        let (early, late) = (wrong_at(0), wrong_at(text.len() - 1));
        let mut fastest = [std::time::Duration::MAX; 2];
        for _ in 0..30 {
            for (guess, fastest) in [&early, &late].into_iter().zip(&mut fastest) {
                let began = std::time::Instant::now();
                assert!(!secret.matches(guess));
                *fastest = began.elapsed().min(*fastest);
            }
        }
        let [early, late] = fastest;
        assert!(early * 4 > late && late * 4 > early, "{early:?} and {late:?}");
        // And one of another length does not tell the length: what is looked at is the guess's own.
        assert!(!secret.matches("") && !secret.matches("s") && secret.matches(&text));
    }

    #[test]
    fn passwords_in_addresses_are_hidden() {
        let cases = [
            ("mongodb://h:27017/?replicaSet=rs0", "mongodb://h:27017/?replicaSet=rs0"),
            ("mongodb://u:pw@h1:1,h2:2/db", "mongodb://u:***@h1:1,h2:2/db"),
            ("mongodb+srv://u@h/db", "mongodb+srv://u@h/db"),
            ("mongodb://u:p@w/d?x@h/db", "mongodb://u:***@h/db"),
            ("mongodb://u:p?w@h/db", "mongodb://u:***@h/db"),
            ("mongodb://u:p/w@h/db", "mongodb://u:***@h/db"),
            ("u:pw@h", "u:***@h"),
            (
                "mongodb://h/?tlsCertificateKeyFilePassword=pw&w=1",
                "mongodb://h/?tlsCertificateKeyFilePassword=***&w=1",
            ),
        ];
        for (url, shown) in cases {
            assert_eq!(hide_in_url(url), shown);
        }
    }
}
