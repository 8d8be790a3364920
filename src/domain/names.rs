//! Names of topics and groups: checked once, where they enter, and trusted from there on.

use std::fmt;
use std::sync::Arc;

/// The longest name a client may give a topic, in bytes.
pub const TOPIC_NAME_MAX: usize = 190;
/// The longest name of a topic the gateway derives from another (`dlq.X`, `X.snapshot`), in bytes.
pub const DERIVED_TOPIC_NAME_MAX: usize = 200;
/// The longest name of a group, in bytes.
pub const GROUP_NAME_MAX: usize = 128;

/// What a topic of dead letters begins with.
pub const DEAD_LETTER_PREFIX: &str = "dlq.";
/// What a topic of snapshots ends with.
pub const SNAPSHOT_SUFFIX: &str = ".snapshot";

/// A name that does not follow its rule; the text says which rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadName(pub String);

/// The name of a topic: `[a-z0-9_-]+(\.[a-z0-9_-]+)*`. Cloning it is cheap.
///
/// ```
/// use tidegate::domain::TopicName;
/// let orders: TopicName = "orders.eu".parse()?;
/// assert_eq!(orders.dead_letters().as_str(), "dlq.orders.eu");
/// assert!("Orders".parse::<TopicName>().is_err());
/// # Ok::<(), tidegate::domain::BadName>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName(Arc<str>);

impl TopicName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is a topic of dead letters.
    pub fn is_dead_letters(&self) -> bool {
        self.0.starts_with(DEAD_LETTER_PREFIX)
    }

    /// Whether only the gateway itself publishes here: dead letters and snapshots.
    pub fn is_derived(&self) -> bool {
        self.is_dead_letters() || self.0.ends_with(SNAPSHOT_SUFFIX)
    }

    /// The topic that takes this one's dead letters.
    pub fn dead_letters(&self) -> TopicName {
        TopicName(format!("{DEAD_LETTER_PREFIX}{}", self.0).into())
    }

    /// The topic whose rights hold for this one: what `dlq.X` and `X.snapshot` are derived from, however often.
    pub fn origin(&self) -> &str {
        let mut name: &str = &self.0;
        while let Some(inner) = name
            .strip_prefix(DEAD_LETTER_PREFIX)
            .or_else(|| name.strip_suffix(SNAPSHOT_SUFFIX))
        {
            name = inner;
        }
        name
    }
}

impl std::str::FromStr for TopicName {
    type Err = BadName;

    fn from_str(name: &str) -> Result<Self, BadName> {
        let longest = if name.starts_with(DEAD_LETTER_PREFIX) || name.ends_with(SNAPSHOT_SUFFIX) {
            DERIVED_TOPIC_NAME_MAX
        } else {
            TOPIC_NAME_MAX
        };
        if name.len() > longest {
            return Err(BadName(format!(
                "a topic name has at most {longest} bytes, this one has {}",
                name.len()
            )));
        }
        let segment_is_valid = |segment: &str| {
            !segment.is_empty()
                && segment
                    .bytes()
                    .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
        };
        if !name.split('.').all(segment_is_valid) {
            return Err(BadName(
                "a topic name is made of a-z, 0-9, _ and -, in parts joined by single dots".into(),
            ));
        }
        Ok(TopicName(name.into()))
    }
}

/// The name of a consumer group: `[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)*`. Cloning it is cheap.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupName(Arc<str>);

impl GroupName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for GroupName {
    type Err = BadName;

    fn from_str(name: &str) -> Result<Self, BadName> {
        if name.len() > GROUP_NAME_MAX {
            return Err(BadName(format!(
                "a group name has at most {GROUP_NAME_MAX} bytes, this one has {}",
                name.len()
            )));
        }
        let part_is_valid = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-'))
        };
        if !name.split(':').all(part_is_valid) {
            return Err(BadName(
                "a group name is made of letters, digits, _, . and -, in parts joined by single colons".into(),
            ));
        }
        Ok(GroupName(name.into()))
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_names_follow_their_rule() {
        for good in ["a", "a.b", "heartbeat.received", "a-b_c.0", "dlq.a"] {
            assert!(good.parse::<TopicName>().is_ok(), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "A", "a b", "a/b", "é", "a:b"] {
            assert!(bad.parse::<TopicName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn derived_topics_may_be_longer() {
        assert!("a".repeat(190).parse::<TopicName>().is_ok());
        assert!("a".repeat(191).parse::<TopicName>().is_err());
        assert!(format!("dlq.{}", "a".repeat(190)).parse::<TopicName>().is_ok());
        assert!(format!("dlq.{}", "a".repeat(197)).parse::<TopicName>().is_err());
    }

    #[test]
    fn group_names_follow_their_rule() {
        for good in ["g", "G.1", "team:billing", "a:b:c", "_"] {
            assert!(good.parse::<GroupName>().is_ok(), "{good}");
        }
        for bad in ["", ":", "a:", ":a", "a::b", "a b", "a/b", "é"] {
            assert!(bad.parse::<GroupName>().is_err(), "{bad}");
        }
        assert!("g".repeat(129).parse::<GroupName>().is_err());
    }

    #[test]
    fn rights_on_derived_topics_are_those_of_their_origin() {
        for (name, origin) in [
            ("dlq.a.b", "a.b"),
            ("a.snapshot", "a"),
            ("dlq.a.snapshot", "a"),
            ("dlq.dlq.a", "a"),
            ("dlq.snapshot", "snapshot"),
            ("a", "a"),
        ] {
            let topic: TopicName = name.parse().unwrap();
            assert_eq!(topic.origin(), origin);
        }
    }
}
