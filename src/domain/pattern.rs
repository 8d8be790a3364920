//! Patterns over topic names: `*` stands for one segment, `**` for any number of them, none too.

/// A pattern over topic names, as in the configuration and in permissions.
///
/// ```
/// use tidegate::domain::TopicPattern;
/// let pattern: TopicPattern = "heartbeat.*".parse()?;
/// assert!(pattern.matches("heartbeat.received"));
/// assert!(!pattern.matches("heartbeat.received.late"));
/// # Ok::<(), tidegate::domain::BadName>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPattern(Box<str>);

impl TopicPattern {
    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a topic's name fits.
    pub fn matches(&self, name: &str) -> bool {
        let pattern: Vec<&str> = self.0.split('.').collect();
        let name: Vec<&str> = name.split('.').collect();
        // reachable[i]: the pattern's first i segments can stand for what was read of the name. Linear in both.
        let mut reachable = vec![false; pattern.len() + 1];
        reachable[0] = true;
        skip_any(&pattern, &mut reachable);
        for segment in name {
            let mut next = vec![false; pattern.len() + 1];
            for (at, &wanted) in pattern.iter().enumerate() {
                match wanted {
                    "**" => next[at] |= reachable[at],
                    "*" => next[at + 1] |= reachable[at],
                    literal => next[at + 1] |= reachable[at] && literal == segment,
                }
            }
            skip_any(&pattern, &mut next);
            reachable = next;
        }
        reachable[pattern.len()]
    }
}

/// `**` may also stand for nothing: what is reachable before it is reachable after it.
fn skip_any(pattern: &[&str], reachable: &mut [bool]) {
    for (at, &wanted) in pattern.iter().enumerate() {
        if wanted == "**" && reachable[at] {
            reachable[at + 1] = true;
        }
    }
}

impl std::str::FromStr for TopicPattern {
    type Err = super::BadName;

    fn from_str(text: &str) -> Result<Self, super::BadName> {
        let valid = |segment: &str| {
            matches!(segment, "*" | "**")
                || (!segment.is_empty()
                    && segment
                        .bytes()
                        .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-')))
        };
        if text.len() > super::names::DERIVED_TOPIC_NAME_MAX || !text.split('.').all(valid) {
            return Err(super::BadName(format!(
                "{text:?} is no pattern: it is made of topic segments, * (one segment) and ** (any number), joined by dots"
            )));
        }
        Ok(TopicPattern(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_segments() {
        let cases = [
            ("a.b", "a.b", true),
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a.*", "a.b.c", false),
            ("a.**", "a", true),
            ("a.**", "a.b.c", true),
            ("**", "anything.at.all", true),
            ("**.z", "z", true),
            ("**.z", "a.b.z", true),
            ("a.**.z", "a.z", true),
            ("a.**.z", "a.b.c.z", true),
            ("a.**.z", "a.b.c", false),
            ("**.**", "a", true),
            ("*", "a", true),
            ("*", "a.b", false),
        ];
        for (pattern, name, expected) in cases {
            let parsed: TopicPattern = pattern.parse().unwrap();
            assert_eq!(parsed.matches(name), expected, "{pattern} on {name}");
        }
    }

    #[test]
    fn a_half_segment_is_no_pattern() {
        for bad in ["", "a*", "a.", "A", "***", "a..b"] {
            assert!(bad.parse::<TopicPattern>().is_err(), "{bad}");
        }
    }
}
