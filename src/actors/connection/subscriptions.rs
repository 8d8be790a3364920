//! A connection's subscriptions: the way from a frame to the group or topic that it is about.

use std::collections::HashMap;

use crate::actors::handle::Rejected;
use crate::actors::messages::{Ack, FeedHandle, FeedLost, Leave, Modack, Nack, SetPaused};
use crate::actors::reply::Reply;
use crate::domain::group::{Departure, MemberId};
use crate::domain::{GroupName, GroupSettingsPatch, TopicName};
use crate::protocol::{ErrorCode, Failure, SubscribeOpts};

/// The most subscriptions of a connection.
pub(super) const SUBSCRIPTIONS_MAX: usize = 256;

/// The most operations that wait for a subscription to begin: each may be as large as a frame.
const WAITING_MAX: usize = 64;
/// How often a lost subscription is tried again before its client is told that it ended.
const REJOINS_MAX: u32 = 100;

/// What a client can ask of a subscription that it has.
#[derive(Debug)]
pub enum Operation {
    /// ACK.
    Ack {
        /// The events.
        ids: Vec<Box<str>>,
    },
    /// NACK.
    Nack {
        /// The events.
        ids: Vec<Box<str>>,
        /// Why.
        reason: Option<Box<str>>,
        /// Instead of the back-off.
        delay_ms: Option<u64>,
    },
    /// MODACK.
    Modack {
        /// The event.
        id: Box<str>,
        /// How long the lease lasts from now on.
        extend_ms: u64,
    },
    /// PAUSE or RESUME.
    SetPaused(bool),
    /// UNSUBSCRIBE.
    Leave,
}

impl Operation {
    /// About how many bytes it takes on its way.
    pub fn size(&self) -> usize {
        let ids = |ids: &[Box<str>]| ids.iter().map(|id| id.len() + 16).sum();
        match self {
            Operation::Ack { ids: acked } => ids(acked),
            Operation::Nack {
                ids: nacked, reason, ..
            } => ids(nacked) + reason.as_ref().map_or(0, |reason| reason.len()),
            Operation::Modack { .. } | Operation::SetPaused(_) | Operation::Leave => 0,
        }
    }
}

#[derive(Debug)]
enum State {
    /// SUBSCRIBE is not answered yet; what came meanwhile follows when it is.
    Joining(Vec<(Operation, Reply)>),
    Joined(FeedHandle),
}

/// One subscription.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) topic: TopicName,
    pub(super) group: Option<GroupName>,
    pub(super) auto_ack: bool,
    /// As the client asked for it; to be asked again where whoever feeds it dies.
    opts: SubscribeOpts,
    paused: bool,
    /// Set while it is joined again by the gateway's own doing.
    rejoin: Option<Rejoin>,
    state: State,
}

/// A subscription that is joined again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rejoin {
    /// Where an ephemeral one goes on.
    position: Option<u64>,
    tries: u32,
}

impl Subscription {
    /// Where its events come from, once it is joined.
    pub(super) fn feed(&self) -> Option<&FeedHandle> {
        match &self.state {
            State::Joined(feed) => Some(feed),
            State::Joining(_) => None,
        }
    }
}

/// What tells a connection's subscriptions apart.
pub type Key = (TopicName, Option<GroupName>);

/// A connection's subscriptions. When it is dropped, however that comes, their leases go back.
pub(super) struct Subscriptions {
    by_key: HashMap<Key, MemberId>,
    by_member: HashMap<MemberId, Subscription>,
    /// How the leases end when the connection does.
    pub(super) departure: Departure,
}

impl Subscriptions {
    pub(super) fn new() -> Subscriptions {
        Subscriptions {
            by_key: HashMap::new(),
            by_member: HashMap::new(),
            departure: Departure::Counted,
        }
    }

    pub(super) fn get(&self, member: MemberId) -> Option<&Subscription> {
        self.by_member.get(&member)
    }

    /// A place for a new subscription, if it may be had.
    pub(super) fn check_new(&self, key: &Key) -> Result<(), Failure> {
        if self.by_key.contains_key(key) {
            let msg = match &key.1 {
                Some(group) => format!("this connection is a member of {group} in {} already", key.0),
                None => format!("this connection is subscribed to {} already", key.0),
            };
            return Err(Failure::new(ErrorCode::AlreadySubscribed, msg));
        }
        if self.by_member.len() >= SUBSCRIPTIONS_MAX {
            let msg = format!("topic: a connection has at most {SUBSCRIPTIONS_MAX} subscriptions");
            return Err(Failure::new(ErrorCode::BadRequest, msg));
        }
        Ok(())
    }

    pub(super) fn add(&mut self, key: Key, member: MemberId, opts: SubscribeOpts) {
        self.by_key.insert(key.clone(), member);
        let state = State::Joining(Vec::new());
        self.by_member.insert(
            member,
            Subscription {
                topic: key.0,
                group: key.1,
                auto_ack: opts.member.auto_ack,
                opts,
                paused: false,
                rejoin: None,
                state,
            },
        );
    }

    /// Forgets a subscription; its connection or client ended it, or it never came to be.
    pub(super) fn remove(&mut self, member: MemberId) -> Option<Subscription> {
        let subscription = self.by_member.remove(&member)?;
        self.by_key
            .remove(&(subscription.topic.clone(), subscription.group.clone()));
        Some(subscription)
    }

    /// SUBSCRIBE was refused: what waited for it has nothing to be about.
    pub(super) fn refused(&mut self, member: MemberId) {
        if let Some(Subscription {
            state: State::Joining(waited),
            ..
        }) = self.remove(member)
        {
            for (_, reply) in waited {
                let msg = "topic: the SUBSCRIBE before this was refused";
                reply.fail(Failure::new(ErrorCode::NotSubscribed, msg));
            }
        }
    }

    /// Whoever fed a subscription died: what comes from here on waits until it is joined again. False: it has ended.
    pub(super) fn lost(&mut self, lost: FeedLost) -> bool {
        let Some(subscription) = self.by_member.get_mut(&lost.member) else {
            return false;
        };
        subscription.state = State::Joining(Vec::new());
        subscription.rejoin = Some(Rejoin {
            position: lost.position,
            tries: 0,
        });
        true
    }

    /// Whether the gateway itself joins the subscription again.
    pub(super) fn is_rejoining(&self, member: MemberId) -> bool {
        self.get(member)
            .is_some_and(|subscription| subscription.rejoin.is_some())
    }

    /// What to ask for to join a lost subscription again. None: it has ended.
    pub(super) fn next_rejoin(&mut self, member: MemberId) -> Option<(Key, SubscribeOpts, Option<u64>)> {
        let subscription = self.by_member.get_mut(&member)?;
        let rejoin = subscription.rejoin.as_mut()?;
        rejoin.tries += 1;
        let mut opts = subscription.opts.clone();
        if subscription.group.is_some() {
            // The group is there, and others may have changed its settings since.
            opts.group = GroupSettingsPatch::default();
        }
        let key = (subscription.topic.clone(), subscription.group.clone());
        Some((key, opts, rejoin.position))
    }

    /// Whether a failed join is worth another try.
    pub(super) fn may_rejoin(&self, member: MemberId, code: ErrorCode) -> bool {
        let passing = matches!(code, ErrorCode::Overloaded | ErrorCode::StoreUnavailable);
        let rejoin = self.get(member).and_then(|subscription| subscription.rejoin);
        passing && rejoin.is_some_and(|rejoin| rejoin.tries < REJOINS_MAX)
    }

    /// The subscriptions that `check` refuses, with why.
    pub(super) fn refused_by(
        &self,
        check: impl Fn(&TopicName, Option<&GroupName>) -> Result<(), Failure>,
    ) -> Vec<(MemberId, Failure)> {
        let refused = |(member, subscription): (&MemberId, &Subscription)| {
            let failure = check(&subscription.topic, subscription.group.as_ref()).err()?;
            Some((*member, failure))
        };
        self.by_member.iter().filter_map(refused).collect()
    }

    /// Ends a subscription for a reason of the gateway's own: its leases go back and do not count. What waited for its
    /// SUBSCRIBE is refused; the SUBSCRIBE itself finds it gone when it is answered.
    pub(super) fn end(&mut self, member: MemberId) -> Option<Subscription> {
        let mut subscription = self.remove(member)?;
        match &mut subscription.state {
            State::Joined(feed) => feed.leave(Leave {
                member,
                departure: Departure::Uncounted,
                reply: None,
            }),
            State::Joining(operations) => {
                for (_, reply) in operations.drain(..) {
                    let msg = "topic: the subscription has ended";
                    reply.fail(Failure::new(ErrorCode::NotSubscribed, msg));
                }
            }
        }
        Some(subscription)
    }

    /// SUBSCRIBE was answered: what waited for that goes on. True: the subscription is there.
    pub(super) fn joined(&mut self, member: MemberId, feed: FeedHandle) -> bool {
        let Some(subscription) = self.by_member.get_mut(&member) else {
            feed.leave(Leave {
                member,
                departure: Departure::Uncounted,
                reply: None,
            });
            return false;
        };
        if subscription.rejoin.take().is_some() && subscription.paused {
            let (reply, _) = Reply::to_caller(ErrorCode::Overloaded);
            let paused = true;
            let _ = feed.set_paused(SetPaused { member, paused, reply });
        }
        let waited = std::mem::replace(&mut subscription.state, State::Joined(feed));
        if let State::Joining(operations) = waited {
            for (operation, reply) in operations {
                self.operate(member, operation, reply);
            }
        }
        self.by_member.contains_key(&member)
    }

    pub(super) fn find(&self, key: &Key) -> Result<MemberId, Failure> {
        self.by_key.get(key).copied().ok_or_else(|| {
            let msg = match &key.1 {
                Some(group) => format!("group: this connection is no member of {group} in {}", key.0),
                None => format!("topic: this connection has no subscription of its own to {}", key.0),
            };
            Failure::new(ErrorCode::NotSubscribed, msg)
        })
    }

    /// Passes an operation on.
    pub(super) fn operate(&mut self, member: MemberId, operation: Operation, reply: Reply) {
        let Some(subscription) = self.by_member.get_mut(&member) else {
            let msg = "topic: the subscription has ended";
            return reply.fail(Failure::new(ErrorCode::NotSubscribed, msg));
        };
        let feed = match &mut subscription.state {
            State::Joining(operations) if operations.len() >= WAITING_MAX => {
                let msg = "too much waits for this subscription to begin";
                return reply.fail(Failure::new(ErrorCode::Overloaded, msg).retry_after(100));
            }
            State::Joining(operations) => return operations.push((operation, reply)),
            State::Joined(feed) => feed.clone(),
        };
        if let Operation::SetPaused(paused) = operation {
            subscription.paused = paused;
        }
        let bytes = operation.size();
        let rejected = match (operation, &feed) {
            (Operation::Leave, _) => {
                self.remove(member);
                return feed.leave(Leave {
                    member,
                    departure: Departure::Uncounted,
                    reply: Some(reply),
                });
            }
            (Operation::SetPaused(paused), _) => feed
                .set_paused(SetPaused { member, paused, reply })
                .map_err(|(rejected, request)| (rejected, request.reply)),
            (Operation::Ack { ids }, FeedHandle::Group(group)) => group
                .offer(Ack { ids, reply }, bytes)
                .map_err(|(rejected, ack)| (rejected, ack.reply)),
            (Operation::Nack { ids, reason, delay_ms }, FeedHandle::Group(group)) => {
                let nack = Nack {
                    member,
                    ids,
                    reason,
                    delay_ms,
                    reply,
                };
                group
                    .offer(nack, bytes)
                    .map_err(|(rejected, nack)| (rejected, nack.reply))
            }
            (Operation::Modack { id, extend_ms }, FeedHandle::Group(group)) => {
                let modack = Modack {
                    member,
                    id,
                    extend_ms,
                    reply,
                };
                group
                    .offer(modack, 0)
                    .map_err(|(rejected, modack)| (rejected, modack.reply))
            }
            // Frames about leases need a group: the protocol sees to that.
            (_, FeedHandle::Topic(_)) => {
                return reply.fail(Failure::new(ErrorCode::NotSubscribed, "group: missing"));
            }
        };
        if let Err((rejected, reply)) = rejected {
            let msg = match rejected {
                Rejected::Full => "too much waits for this group",
                Rejected::Closed => "the group is being started again",
            };
            reply.fail(Failure::new(ErrorCode::Overloaded, msg).retry_after(100));
        }
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        for (member, subscription) in self.by_member.drain() {
            if let State::Joined(feed) = subscription.state {
                feed.leave(Leave {
                    member,
                    departure: self.departure,
                    reply: None,
                });
            }
        }
    }
}
