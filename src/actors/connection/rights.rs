//! A connection's rights: who AUTH says it is, until when, and what ends where a new token covers less.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt;

use super::session::Session;
use crate::actors::limiter::{Denied, Limiter, retry_after_ms};
use crate::auth::{Action, Identity};
use crate::config::{Bucket, Limit};
use crate::protocol::{Answer, Corr, ErrorCode, Failure, encode_err, encode_ok};

/// How often a connection may AUTH. More often than an address may fail, so that guessing is still told as such.
const AUTHS: Bucket = Bucket {
    capacity: 30,
    refill_per_sec: 1.0,
};

/// What an AUTH came to, and whose it was.
pub(super) type Authenticated = (Result<Identity, Failure>, Option<Corr>);
/// An AUTH that is not ready yet.
pub(super) type WaitingAuth = Pin<Box<dyn Future<Output = Authenticated>>>;

impl Session {
    /// AUTH: answered at once, unless the token's key has to be fetched first.
    pub(super) fn authenticate(&mut self, token: Option<Box<str>>, corr: Option<Corr>) {
        if let Err(failure) = self.take_auth() {
            return self.write_err(corr.as_ref(), &failure);
        }
        let (shared, client) = (self.shared.clone(), self.client);
        let mut auth: WaitingAuth =
            Box::pin(async move { (shared.auth.authenticate(token.as_deref(), client).await, corr) });
        match (&mut auth).now_or_never() {
            Some((result, corr)) => self.authenticated(result, corr.as_ref()),
            None => self.waiting_auth = Some(auth),
        }
    }

    /// A signature takes as long to check as many other requests: nobody has it done all the time, not even with good
    /// tokens.
    fn take_auth(&mut self) -> Result<(), Failure> {
        if self.shared.auth.anonymous().is_some() {
            return Ok(());
        }
        let limiter = self
            .auths
            .get_or_insert_with(|| Box::new(Limiter::new(&Limit::Bucket(AUTHS), self.shared.clock.clone())));
        limiter.take(1).map_err(|denied| {
            self.shared.metrics.rate_limited("auth").inc();
            let failure = Failure::new(ErrorCode::RateLimited, "too many AUTHs on this connection");
            match denied {
                Denied::Wait(wait) => failure.retry_after(retry_after_ms(wait)),
                Denied::OverCapacity(_) => failure,
            }
        })
    }

    /// An AUTH is done. One that failed leaves the rights as they were.
    pub(super) fn authenticated(&mut self, result: Result<Identity, Failure>, corr: Option<&Corr>) {
        let identity = match result {
            Ok(identity) => identity,
            Err(failure) => return self.write_err(corr, &failure),
        };
        let left = |at: u64| at.saturating_sub(self.shared.clock.timestamp_ms());
        let expires_ms = identity.expires_ms.map(left);
        self.out.push(encode_ok(corr, &Answer::Authenticated { expires_ms }));
        self.end_uncovered(&identity);
        self.identity = Some(identity);
        self.renewed = true;
    }

    /// Ends the subscriptions that the new rights do not cover; their leases go back and do not count.
    fn end_uncovered(&mut self, identity: &Identity) {
        let check = |topic: &_, group: Option<&_>| identity.check(Action::Subscribe, topic, group);
        for (member, failure) in self.subscriptions.refused_by(check) {
            self.credit.close(member);
            if let Some(subscription) = self.subscriptions.end(member) {
                let whose = Some((&subscription.topic, subscription.group.as_ref()));
                self.out.push(encode_err(None, &failure, whose));
            }
        }
    }

    /// Whether there are new rights since this was last asked.
    pub(super) fn take_renewed(&mut self) -> bool {
        std::mem::take(&mut self.renewed)
    }

    /// Whether the token is over: nothing goes in or out any more.
    pub(super) fn is_expired(&self) -> bool {
        self.time_left().is_some_and(|left| left.is_zero())
    }

    /// Whether what let the client in is no longer in force.
    pub(super) fn is_taken_back(&self) -> bool {
        let identity = self.identity.as_ref();
        identity.is_some_and(|identity| !self.shared.auth.vouches_for(identity))
    }

    /// How long the token is still good, leeway included; None: for ever, or there is none.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let ends_ms = self.identity.as_ref()?.ends_ms()?;
        Some(Duration::from_millis(
            ends_ms.saturating_sub(self.shared.clock.timestamp_ms()),
        ))
    }
}
