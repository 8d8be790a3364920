//! The gateway as a bus inside of this process: the messages that a connection would send, without frames.

use std::sync::Arc;
use std::time::Duration;

use tidegate::actors::connection::{ConnectionHandle, Outlet};
use tidegate::actors::messages::{
    Ack, Answers, Deliver, EndSubscription, FeedHandle, FeedLost, GoAway, GrantCredit, Publish, PublishRequest,
    Subscribe, WantCredit,
};
use tidegate::actors::reply::{Outcome, Replied, Reply};
use tidegate::domain::group::MemberId;
use tidegate::domain::{Event, GroupName, MemberSettings, StartFrom, TopicName};
use tidegate::protocol::{Draft, ErrorCode, SubscribeOpts};
use tokio::sync::{mpsc, oneshot};

use super::{InProcess, Result};

/// Nothing takes longer; what does has failed.
const DEADLINE: Duration = Duration::from_secs(60);
/// Events that may be on their way to a consumer without an ack.
const IN_FLIGHT: u32 = 1_000;
/// The bytes that may be on their way to a consumer.
const BUFFER: usize = 8 << 20;

/// A publish whose answer has not come yet.
pub struct Publishing(oneshot::Receiver<Replied>);

impl Publishing {
    /// Waits until the event is as durable as its topic asks for.
    pub async fn done(self) -> Result<()> {
        answered(self.0).await.map(drop)
    }
}

async fn answered(answer: oneshot::Receiver<Replied>) -> Result<Outcome> {
    let answer = tokio::time::timeout(DEADLINE, answer).await??;
    answer.map_err(|failure| format!("{}: {}", failure.code.as_str(), failure.msg).into())
}

impl InProcess {
    /// Publishes one event.
    pub fn publish(&self, topic: &TopicName, payload: String) -> Result<Publishing> {
        let (reply, answer) = Reply::to_caller(ErrorCode::PublishFailed);
        let draft = Draft {
            payload: payload.into(),
            ..Draft::default()
        };
        let bytes = draft.size();
        let request = PublishRequest {
            drafts: vec![draft],
            batch: false,
            reply,
        };
        let handle = self
            .shared
            .topics
            .topic(topic, &self.shared)
            .map_err(|failure| failure.msg)?;
        handle
            .offer(Publish(vec![request]), bytes)
            .map_err(|(rejected, _)| format!("{rejected:?}"))?;
        Ok(Publishing(answer))
    }

    /// Joins a group that begins with the topic's first event.
    pub async fn subscribe(&self, topic: &TopicName, group: &GroupName) -> Result<Consumer> {
        let (sender, news) = mpsc::unbounded_channel();
        let (member, number) = (self.shared.next_number(), self.shared.next_number());
        let connection = ConnectionHandle::new(number, Arc::new(Letterbox(sender)), BUFFER);
        let (reply, answer) = Reply::to_caller(ErrorCode::StoreUnavailable);
        let opts = SubscribeOpts {
            from: StartFrom::Earliest,
            member: MemberSettings {
                max_in_flight: IN_FLIGHT,
                batch_size: IN_FLIGHT,
                ..MemberSettings::default()
            },
            ..SubscribeOpts::default()
        };
        let subscribe = Subscribe {
            member,
            group: Some(group.clone()),
            position: None,
            opts,
            connection: connection.clone(),
            reply,
        };
        let handle = self
            .shared
            .topics
            .topic(topic, &self.shared)
            .map_err(|failure| failure.msg)?;
        handle
            .offer(subscribe, 0)
            .map_err(|(rejected, _)| format!("{rejected:?}"))?;
        let Outcome::Subscribed(feed) = answered(answer).await? else {
            return Err("a SUBSCRIBE without a group".into());
        };
        feed.grant(GrantCredit {
            member,
            events: IN_FLIGHT,
        });
        Ok(Consumer {
            member,
            connection,
            feed,
            news,
        })
    }
}

/// What comes to a consumer.
enum News {
    Events(Deliver),
    /// There were events but no room for them.
    Want,
    Ended,
}

/// Passes what would go to a socket on. The queue is bounded by credit and by room.
struct Letterbox(mpsc::UnboundedSender<News>);

impl Outlet for Letterbox {
    fn answers(&self, _: Answers) {}

    fn deliver(&self, events: Deliver) {
        let _ = self.0.send(News::Events(events));
    }

    fn want(&self, _: WantCredit) {
        let _ = self.0.send(News::Want);
    }

    fn end(&self, _: EndSubscription) {
        let _ = self.0.send(News::Ended);
    }

    fn go_away(&self, _: GoAway) {
        let _ = self.0.send(News::Ended);
    }

    fn feed_lost(&self, _: FeedLost) {
        let _ = self.0.send(News::Ended);
    }

    fn check_rights(&self) {}

    fn over_buffer(&self) {
        let _ = self.0.send(News::Ended);
    }

    fn is_open(&self) -> bool {
        !self.0.is_closed()
    }
}

/// A member of a group.
pub struct Consumer {
    member: MemberId,
    connection: ConnectionHandle,
    feed: FeedHandle,
    news: mpsc::UnboundedReceiver<News>,
}

impl Consumer {
    /// The next events, at least one.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>> {
        loop {
            match tokio::time::timeout(DEADLINE, self.news.recv()).await? {
                Some(News::Events(deliver)) => {
                    let events: Vec<_> = deliver.pushes.into_iter().map(|push| push.event).collect();
                    let bytes = events.iter().map(|event| event.json.len()).sum();
                    self.connection.room().give_back(bytes);
                    self.grant(u32::try_from(events.len())?);
                    return Ok(events);
                }
                Some(News::Want) => self.grant(0),
                Some(News::Ended) | None => return Err("the subscription ended".into()),
            }
        }
    }

    fn grant(&self, events: u32) {
        let member = self.member;
        self.feed.grant(GrantCredit { member, events });
    }

    /// Acks, and does not wait for the answer.
    pub fn ack(&self, events: &[Arc<Event>]) -> Result<Publishing> {
        let FeedHandle::Group(group) = &self.feed else {
            return Err("no group".into());
        };
        let (reply, answer) = Reply::to_caller(ErrorCode::AckFailed);
        let ids = events.iter().map(|event| event.id.clone()).collect();
        group
            .offer(Ack { ids, reply }, events.len() * 64)
            .map_err(|(rejected, _)| format!("{rejected:?}"))?;
        Ok(Publishing(answer))
    }
}
