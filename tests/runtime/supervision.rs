//! What happens to a consumer that crashes: again and again, and then no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tidegate::testing::{TestGateway, TestResult, run};
use tidegate::{Condition, Consumer, Context, Event, Message, Restarts, Subscribe};
use tokio::time::Instant;

/// Panics while it is told to.
struct Fragile {
    broken: Arc<AtomicBool>,
    handled: Arc<AtomicU32>,
}

impl Consumer for Fragile {
    type Payload = u32;
    type Error = String;

    async fn handle(&mut self, _: Event<u32>, _: &Context) -> Result<(), String> {
        assert!(!self.broken.load(Ordering::SeqCst), "the bus is on fire");
        self.handled.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[derive(Clone, Default)]
struct Switches {
    broken: Arc<AtomicBool>,
    handled: Arc<AtomicU32>,
    made: Arc<AtomicU32>,
}

async fn start(switches: &Switches, restarts: Restarts) -> Result<TestGateway, tidegate::server::ServeError> {
    let Switches { broken, handled, made } = switches.clone();
    let options = Subscribe::group("rides", "drivers")
        .max_attempts(1_000)
        .backoff(Duration::ZERO);
    let consumer = move || {
        made.fetch_add(1, Ordering::SeqCst);
        Fragile {
            broken: broken.clone(),
            handled: handled.clone(),
        }
    };
    TestGateway::builder()
        .consumer(options.restarts(restarts), consumer)
        .start()
        .await
}

async fn condition(gateway: &TestGateway) -> Condition {
    gateway.handle().health().await.consumers.remove(0).condition
}

#[test]
fn the_intensity_is_kept_and_then_the_group_is_paused_with_the_reason() -> TestResult {
    run(async {
        let switches = Switches::default();
        switches.broken.store(true, Ordering::SeqCst);
        let second = Duration::from_secs(1);
        let restarts = Restarts::at_most(4, Duration::from_secs(60)).backoff(second, 4 * second);
        let gateway = start(&switches, restarts).await?;
        let begin = Instant::now();
        gateway.publish("rides", Message::json(&1)).await?;
        let made = &switches.made;
        for (instances, seconds) in [(2, 1), (3, 3), (4, 7), (5, 11)] {
            assert!(gateway.until(|| made.load(Ordering::SeqCst) == instances).await);
            let took = begin.elapsed();
            let expected = Duration::from_secs(seconds);
            assert!(
                took >= expected && took < expected + second,
                "instance {instances}: {took:?}"
            );
        }
        let paused = async || {
            gateway
                .handle()
                .group("rides", "drivers")
                .await
                .map(|group| group.paused)
        };
        while paused().await?.is_none() {
            gateway.advance(Duration::from_millis(10)).await;
        }
        let pause = paused().await?.unwrap();
        assert!(pause.by.contains("the bus is on fire"), "{}", pause.by);
        let Condition::Failed { why, .. } = condition(&gateway).await else {
            panic!("{:?}", condition(&gateway).await);
        };
        assert_eq!(why, "panicked: the bus is on fire");
        assert!(!gateway.handle().health().await.is_good());
        let explained = format!("{:?}", gateway.handle().explain("rides", "drivers").await?);
        assert!(explained.contains("the bus is on fire"), "{explained}");

        gateway.advance(Duration::from_secs(3_600)).await;
        assert_eq!(made.load(Ordering::SeqCst), 5, "it is left alone");
        let health = gateway.handle().health().await;
        assert_eq!(health.consumers[0].restarts, 5);
        Ok(())
    })
}

#[test]
fn a_consumer_that_was_given_up_works_again_when_its_group_is_resumed() -> TestResult {
    run(async {
        let switches = Switches::default();
        switches.broken.store(true, Ordering::SeqCst);
        let gateway = start(&switches, Restarts::at_most(2, Duration::from_secs(60))).await?;
        for ride in 0..5 {
            gateway.publish("rides", Message::json(&ride)).await?;
        }
        while !matches!(condition(&gateway).await, Condition::Failed { .. }) {
            gateway.advance(Duration::from_millis(10)).await;
        }
        gateway.advance(Duration::from_secs(10)).await;
        switches.broken.store(false, Ordering::SeqCst);
        gateway.handle().resume("rides", "drivers").await?;
        gateway.settled("rides", "drivers").await?;
        assert_eq!(switches.handled.load(Ordering::SeqCst), 5);
        assert_eq!(condition(&gateway).await, Condition::Running);
        assert!(gateway.handle().health().await.is_good());
        Ok(())
    })
}

#[test]
fn a_group_that_was_paused_in_an_earlier_life_still_says_why() -> TestResult {
    run(async {
        let switches = Switches::default();
        switches.broken.store(true, Ordering::SeqCst);
        let gateway = start(&switches, Restarts::at_most(1, Duration::from_secs(60))).await?;
        gateway.publish("rides", Message::json(&1)).await?;
        while gateway.handle().group("rides", "drivers").await?.paused.is_none() {
            gateway.advance(Duration::from_millis(10)).await;
        }
        gateway.crash().await;
        let Condition::Failed { why, .. } = condition(&gateway).await else {
            panic!("{:?}", condition(&gateway).await);
        };
        assert_eq!(why, "panicked: the bus is on fire");
        switches.broken.store(false, Ordering::SeqCst);
        gateway.handle().resume("rides", "drivers").await?;
        gateway.settled("rides", "drivers").await?;
        assert_eq!(condition(&gateway).await, Condition::Running);
        Ok(())
    })
}

#[test]
fn who_crashes_now_and_then_is_never_given_up() -> TestResult {
    run(async {
        let switches = Switches::default();
        let gateway = start(&switches, Restarts::at_most(2, Duration::from_secs(10))).await?;
        for ride in 1..=10_u32 {
            switches.broken.store(true, Ordering::SeqCst);
            let made = switches.made.load(Ordering::SeqCst);
            gateway.publish("rides", Message::json(&ride)).await?;
            assert!(gateway.until(|| switches.made.load(Ordering::SeqCst) > made).await);
            switches.broken.store(false, Ordering::SeqCst);
            gateway.settled("rides", "drivers").await?;
            assert_eq!(switches.handled.load(Ordering::SeqCst), ride);
            gateway.advance(Duration::from_secs(11)).await;
        }
        Ok(())
    })
}

/// Does not start before its third instance.
struct Late(Arc<AtomicU32>);

impl Consumer for Late {
    type Payload = u32;
    type Error = String;

    async fn handle(&mut self, _: Event<u32>, _: &Context) -> Result<(), String> {
        Ok(())
    }

    async fn started(&mut self) -> Result<(), String> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Err("no database".to_owned()),
            1 => panic!("still no database"),
            _ => Ok(()),
        }
    }
}

#[test]
fn one_that_does_not_start_is_tried_again() -> TestResult {
    run(async {
        let tries = Arc::new(AtomicU32::new(0));
        let late = tries.clone();
        let gateway = TestGateway::builder()
            .consumer(Subscribe::group("rides", "drivers"), move || Late(late.clone()))
            .start()
            .await?;
        gateway.publish("rides", Message::json(&1)).await?;
        gateway.settled("rides", "drivers").await?;
        assert_eq!(tries.load(Ordering::SeqCst), 3);
        let health = gateway.handle().health().await;
        // The event waited: none of that was an attempt.
        assert_eq!((health.consumers[0].restarts, health.consumers[0].failed), (2, 0));
        Ok(())
    })
}

#[test]
fn a_handler_that_takes_too_long_is_dropped_and_its_event_comes_again() -> TestResult {
    struct Slow(Arc<AtomicU32>);
    impl Consumer for Slow {
        type Payload = u32;
        type Error = String;
        async fn handle(&mut self, _: Event<u32>, ctx: &Context) -> Result<(), String> {
            if ctx.attempt() == 1 {
                std::future::pending::<()>().await;
            }
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
    }
    run(async {
        let done = Arc::new(AtomicU32::new(0));
        let slow = done.clone();
        let gateway = TestGateway::builder()
            .consumer(
                Subscribe::group("rides", "drivers").timeout(Duration::from_secs(5)),
                move || Slow(slow.clone()),
            )
            .start()
            .await?;
        gateway.publish("rides", Message::json(&1)).await?;
        gateway.settled("rides", "drivers").await?;
        assert_eq!(done.load(Ordering::SeqCst), 1);
        let health = gateway.handle().health().await;
        assert_eq!((health.consumers[0].restarts, health.consumers[0].failed), (1, 1));
        Ok(())
    })
}
