//! Handled once: whatever crashes where, and however often an event comes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::testing::{Crash, TestBuilder, TestGateway, TestResult, run};
use tidegate::{Claim, Consumer, Context, Event, ExactlyOnce, Marked, Message, Subscribe};

/// What the handler did outside, which no crash takes back.
#[derive(Clone, Default)]
struct Effects {
    calls: Arc<AtomicU32>,
    /// Ids whose effect is there: as a transaction with the id in it would have it.
    ids: Arc<Mutex<BTreeSet<String>>>,
    running: Arc<AtomicU32>,
    running_max: Arc<AtomicU32>,
}

impl Effects {
    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }
}

/// A handler without a transaction: each call is an effect.
struct Charge(Effects);

impl Consumer for Charge {
    type Payload = u32;
    type Error = String;

    async fn handle(&mut self, event: Event<u32>, _: &Context) -> Result<(), String> {
        let running = self.0.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.running_max.fetch_max(running, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        self.0.ids.lock().unwrap().insert(event.id);
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

fn ledger(builder: TestBuilder, effects: &Effects, instances: u32) -> TestBuilder {
    let effects = effects.clone();
    let options = Subscribe::group("payments", "ledger")
        .from_earliest()
        .concurrency(instances);
    builder.consumer(options, move || ExactlyOnce::new(Charge(effects.clone())))
}

#[test]
fn a_crash_at_every_step() -> TestResult {
    for crash in Crash::ALL {
        run(async {
            let effects = Effects::default();
            let builder = TestGateway::builder().crash_at(crash);
            let gateway = ledger(builder, &effects, 1).start().await?;
            gateway.publish("payments", Message::json(&5).id("p1")).await?;
            gateway.settled("payments", "ledger").await?;
            assert!(gateway.until(|| gateway.lives() == 2).await, "{crash:?} did not happen");
            // The life after the crash has all the time to do it again.
            gateway.advance(Duration::from_secs(600)).await;
            // Between the effect and its mark nothing can tell that it is there.
            let expected = if crash == Crash::BeforeMark { 2 } else { 1 };
            assert_eq!(effects.calls(), expected, "{crash:?}");
            // What keeps the id with the effect has it once in any case.
            assert_eq!(effects.ids.lock().unwrap().len(), 1);
            assert!(gateway.events::<serde_json::Value>("dlq.payments").await?.is_empty());
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn without_it_a_crash_before_the_ack_handles_twice() -> TestResult {
    run(async {
        let effects = Effects::default();
        let plain = effects.clone();
        let gateway = TestGateway::builder()
            .crash_at(Crash::BeforeAck)
            .consumer(Subscribe::group("payments", "ledger"), move || Charge(plain.clone()))
            .start()
            .await?;
        gateway.publish("payments", Message::json(&5)).await?;
        gateway.settled("payments", "ledger").await?;
        assert_eq!((effects.calls(), gateway.lives()), (2, 2));
        Ok(())
    })
}

#[test]
fn two_instances_never_handle_one_event_at_the_same_time() -> TestResult {
    run(async {
        let effects = Effects::default();
        let builder = TestGateway::builder().deliver_twice();
        let gateway = ledger(builder, &effects, 2).start().await?;
        for amount in 0..20 {
            gateway.publish("payments", Message::json(&amount)).await?;
            gateway.settled("payments", "ledger").await?;
        }
        gateway.advance(Duration::from_secs(60)).await;
        assert_eq!(effects.calls(), 20);
        // One event was published at a time, so two at once would have been the same.
        assert_eq!(effects.running_max.load(Ordering::SeqCst), 1);
        let health = gateway.handle().health().await;
        // Each event came twice, and was acked twice.
        assert_eq!((health.consumers[0].handled, health.consumers[0].failed), (40, 0));
        Ok(())
    })
}

#[test]
fn without_it_two_instances_do() -> TestResult {
    run(async {
        let effects = Effects::default();
        let plain = effects.clone();
        let gateway = TestGateway::builder()
            .deliver_twice()
            .consumer(Subscribe::group("payments", "ledger").concurrency(2), move || {
                Charge(plain.clone())
            })
            .start()
            .await?;
        gateway.publish("payments", Message::json(&1)).await?;
        assert!(gateway.until(|| effects.calls() == 2).await);
        assert_eq!(effects.running_max.load(Ordering::SeqCst), 2);
        Ok(())
    })
}

#[test]
fn a_commit_that_fails_anywhere_neither_loses_nor_doubles() -> TestResult {
    for nth in 1..=12 {
        run(async {
            let effects = Effects::default();
            let gateway = ledger(TestGateway::builder(), &effects, 1).start().await?;
            gateway.fail_commit(nth);
            for amount in 0..3 {
                gateway.publish("payments", Message::json(&amount)).await?;
            }
            gateway.settled("payments", "ledger").await?;
            gateway.advance(Duration::from_secs(600)).await;
            assert_eq!(effects.calls(), 3, "commit {nth}");
            Ok(())
        })?;
    }
    Ok(())
}

/// Fails at first, then panics, then works.
struct Reluctant(Arc<AtomicU32>);

impl Consumer for Reluctant {
    type Payload = u32;
    type Error = &'static str;

    async fn handle(&mut self, _: Event<u32>, ctx: &Context) -> Result<(), &'static str> {
        match ctx.attempt() {
            1 => Err("not yet"),
            2 => panic!("not yet either"),
            _ => {
                self.0.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
        }
    }
}

#[test]
fn a_handler_that_fails_or_panics_does_not_mark_and_is_called_again_soon() -> TestResult {
    run(async {
        let done = Arc::new(AtomicU32::new(0));
        let effect = done.clone();
        let gateway = TestGateway::builder()
            .consumer(Subscribe::group("payments", "ledger"), move || {
                ExactlyOnce::new(Reluctant(effect.clone()))
            })
            .start()
            .await?;
        let before = tokio::time::Instant::now();
        gateway.publish("payments", Message::json(&1)).await?;
        gateway.settled("payments", "ledger").await?;
        assert_eq!(done.load(Ordering::SeqCst), 1);
        // Claims were given back: nobody waited for their end.
        assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
        Ok(())
    })
}

#[test]
fn a_mark_lasts_a_week() -> TestResult {
    run(async {
        let effects = Effects::default();
        let gateway = ledger(TestGateway::builder(), &effects, 1).start().await?;
        gateway.publish("payments", Message::json(&5)).await?;
        gateway.settled("payments", "ledger").await?;
        let again = async || {
            let earliest = tidegate::domain::StartFrom::Earliest;
            gateway.handle().seek("payments", "ledger", earliest).await?;
            gateway.settled("payments", "ledger").await
        };
        gateway.advance(Duration::from_secs(7 * 24 * 3_600 - 60)).await;
        again().await?;
        assert_eq!(effects.calls(), 1, "a seek brings it again, the mark is there");
        gateway.advance(Duration::from_secs(60)).await;
        again().await?;
        assert_eq!(effects.calls(), 2, "after a week nobody knows any more");
        Ok(())
    })
}

#[test]
fn the_store_of_marks_is_there_for_programs_too() -> TestResult {
    run(async {
        let gateway = TestGateway::start().await?;
        let handle = gateway.handle();
        let _member = handle.subscribe::<u32>(Subscribe::group("t", "g")).await?;
        let dedupe = handle.dedupe();
        let event = Marked {
            topic: "t".into(),
            group: "g".into(),
            id: "a".into(),
        };
        let minute = Duration::from_secs(60);
        assert!(!dedupe.seen(event.clone()).await?);
        assert_eq!(dedupe.claim(event.clone(), "one".into(), minute).await?, Claim::Granted);
        let held = dedupe.claim(event.clone(), "two".into(), minute).await?;
        assert!(matches!(held, Claim::Held { left } if left <= minute), "{held:?}");
        gateway.advance(minute).await;
        assert_eq!(
            dedupe.claim(event.clone(), "two".into(), minute).await?,
            Claim::Granted,
            "it was over"
        );
        dedupe.mark(event.clone(), minute).await?;
        assert_eq!(dedupe.claim(event.clone(), "one".into(), minute).await?, Claim::Seen);
        assert!(dedupe.seen(event.clone()).await?);
        gateway.stop().await;
        assert_eq!(dedupe.seen(event).await, Err(tidegate::Error::Stopped));
        Ok(())
    })
}
