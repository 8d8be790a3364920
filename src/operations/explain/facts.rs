//! What there is to know of a group at a moment.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::judge::{Explanation, explain};
use crate::actors::shared::Shared;
use crate::actors::subscription::{GroupView, MemberView, Trouble};
use crate::config::PushLimit;
use crate::domain::group::{BlockedKey, MemberSnapshot, Stats, Unacked, UnackedState};
use crate::domain::{GroupName, TopicName};
use crate::operations::changes::views;
use crate::operations::groups::{FoundGroup, find_group, place, topic_state};
use crate::protocol::{ErrorCode, Failure};
use crate::store::Pause;

/// What there is to know of a group at a moment. All times are epoch milliseconds by the gateway's clock.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Of which topic.
    pub topic: TopicName,
    /// Which.
    pub group: GroupName,
    /// When this was.
    pub now_ms: u64,
    /// How many events up to the tail are not acked.
    pub lag: u64,
    /// The oldest of them.
    pub oldest: Option<Unacked>,
    /// When retention by age takes the oldest.
    pub oldest_expires_ms: Option<u64>,
    /// How many events are published in a second, lately.
    pub published_per_second: f64,
    /// How many events the group settles in a second, lately.
    pub settled_per_second: f64,
    /// When it settled one last.
    pub settled_ms: Option<u64>,
    /// Set while the whole group is paused.
    pub paused: Option<Pause>,
    /// Set while the store does not do what it is asked to.
    pub store: Option<Trouble>,
    /// Who is connected.
    pub members: Vec<MemberFacts>,
    /// What the group holds.
    pub stats: Stats,
    /// Whether it would look further, had its window room.
    pub window_full: bool,
    /// The earliest end of a lease.
    pub lease_ends_ms: Option<u64>,
    /// The earliest end of a wait for redelivery.
    pub retry_due_ms: Option<u64>,
    /// With `ordered`: the key for whose oldest event the most others wait.
    pub blocked_key: Option<BlockedKey>,
    /// After so many deliveries that failed an event is a dead letter.
    pub max_attempts: u32,
    /// Which bucket pushes take their tokens from.
    pub bucket: &'static str,
    /// How long a client may take nothing before it is cut off.
    pub write_timeout_ms: u64,
}

/// One member.
#[derive(Debug, Clone)]
pub struct MemberFacts {
    /// What the group knows of it.
    pub rules: MemberSnapshot,
    /// Its connection's number.
    pub connection: u64,
    /// Where it comes from.
    pub client: String,
    /// How many bytes wait to be written to it.
    pub waiting_bytes: usize,
    /// Set while it takes nothing: since when.
    pub blocked_since_ms: Option<u64>,
    /// Set while its pushes wait for a token: when there is one.
    pub token_at_ms: Option<u64>,
}

impl From<MemberView> for MemberFacts {
    fn from(member: MemberView) -> Self {
        let MemberView { rules, connection } = member;
        MemberFacts {
            rules,
            connection: connection.number,
            client: connection
                .client
                .map_or_else(|| "this process".to_owned(), |client| client.to_string()),
            waiting_bytes: connection.waiting_bytes,
            blocked_since_ms: connection.blocked_since_ms,
            token_at_ms: connection.token_at_ms,
        }
    }
}

/// Why a group moves or does not, now.
pub async fn explain_group(shared: &Arc<Shared>, topic: &TopicName, group: &GroupName) -> Result<Explanation, Failure> {
    let judged = async {
        let found = find_group(shared, topic, group).await?;
        facts(shared, topic, group, found).await
    };
    match judged.await {
        Ok(facts) => Ok(explain(&facts)),
        // A store that cannot even be read: what the group itself knows is all there is.
        Err(failure) if failure.code == ErrorCode::StoreUnavailable => {
            let view = views(shared, topic, Some(group)).await?.pop();
            let mut facts = unknown(shared, topic, group);
            let why = failure.msg.clone().into_owned();
            let since_ms = facts.now_ms;
            facts.add_view(view.ok_or(failure)?);
            facts.store.get_or_insert(Trouble { since_ms, why });
            Ok(explain(&facts))
        }
        Err(failure) => Err(failure),
    }
}

async fn facts(
    shared: &Arc<Shared>,
    topic: &TopicName,
    group: &GroupName,
    found: FoundGroup,
) -> Result<Facts, Failure> {
    let state = topic_state(shared, topic).await?;
    let place = place(shared, topic, &state, &found).await?;
    let now_ms = shared.clock.now_ms();
    let FoundGroup { stored, running } = found;
    let stalled = shared.store_stalled.load(Ordering::Relaxed);
    let ready = shared.store.ready().await.err().map(|error| error.to_string());
    let why = ready.or_else(|| stalled.then(|| "it has not answered a commit in time".to_owned()));
    let oldest = place.oldest.map(|event| {
        let retry = stored.retries.iter().find(|retry| retry.seq == event.seq);
        Unacked {
            seq: event.seq,
            id: event.id.clone(),
            key: event.key.clone(),
            attempts: retry.map_or(0, |retry| retry.attempts),
            at: event.at,
            state: match retry.filter(|retry| retry.due_ms > now_ms) {
                Some(retry) => UnackedState::Waiting { until_ms: retry.due_ms },
                None => UnackedState::Ready,
            },
        }
    });
    let age_ms = shared.live.retention(topic).age_ms;
    let mut facts = Facts {
        lag: place.lag,
        oldest_expires_ms: oldest
            .as_ref()
            .and_then(|event| age_ms.map(|age| event.at.saturating_add(age))),
        oldest,
        paused: stored.paused,
        retry_due_ms: stored.retries.iter().map(|retry| retry.due_ms).min(),
        max_attempts: stored.settings.max_attempts,
        ..unknown(shared, topic, group)
    };
    facts.stats.waiting = stored.retries.len();
    if let Some(view) = running {
        facts.add_view(view);
        facts.lag = place.lag;
    }
    if let Some(why) = why {
        facts.store.get_or_insert(Trouble { since_ms: now_ms, why });
    }
    Ok(facts)
}

/// A group of which nothing is known yet.
fn unknown(shared: &Shared, topic: &TopicName, group: &GroupName) -> Facts {
    let now_ms = shared.clock.now_ms();
    Facts {
        topic: topic.clone(),
        group: group.clone(),
        now_ms,
        lag: 0,
        oldest: None,
        oldest_expires_ms: None,
        published_per_second: shared.topics.publish_rate(topic, now_ms),
        settled_per_second: 0.0,
        settled_ms: None,
        paused: None,
        store: None,
        members: Vec::new(),
        stats: Stats::default(),
        window_full: false,
        lease_ends_ms: None,
        retry_due_ms: None,
        blocked_key: None,
        max_attempts: 0,
        bucket: match shared.live.limits().push {
            PushLimit::Shared => "limits.connection",
            PushLimit::Own(_) => "limits.push",
        },
        write_timeout_ms: u64::try_from(shared.config.gateway.write_timeout.as_millis()).unwrap_or(u64::MAX),
    }
}

impl Facts {
    /// What a group that runs says of itself.
    fn add_view(&mut self, view: GroupView) {
        self.lag = view.rules.lag;
        self.settled_per_second = view.settled_per_second;
        self.settled_ms = view.settled_ms;
        self.paused = view.paused;
        self.store = view.trouble;
        self.members = view.members.into_iter().map(MemberFacts::from).collect();
        self.stats = view.rules.stats;
        self.window_full = view.rules.window_full;
        self.lease_ends_ms = view.rules.lease_ends_ms;
        self.retry_due_ms = view.rules.retry_due_ms;
        self.blocked_key = view.rules.blocked_key;
        self.max_attempts = view.rules.settings.max_attempts;
        // What it has looked at it knows best.
        self.oldest = view.rules.oldest.or(self.oldest.take());
    }
}
