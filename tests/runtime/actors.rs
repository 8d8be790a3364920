//! Custom actors: plain actix actors, found by name, started anew after a panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use actix::prelude::*;
use tidegate::testing::{TestGateway, TestResult, run};
use tidegate::{Condition, Error, Event, Gateway, Message as Publish, Restarts, Subscribe, consumer_fn};

/// Adds up what it is told.
#[derive(Default)]
struct Sum {
    total: u32,
}

impl Actor for Sum {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "u32")]
struct Add(u32);

impl Handler<Add> for Sum {
    type Result = u32;

    fn handle(&mut self, Add(number): Add, ctx: &mut Context<Self>) -> u32 {
        match number {
            13 => panic!("13 is too much"),
            99 => ctx.stop(),
            _ => self.total += number,
        }
        self.total
    }
}

#[test]
fn an_actor_gets_typed_messages_and_comes_back_after_a_panic_at_the_same_address() -> TestResult {
    run(async {
        let gateway = TestGateway::builder().actor("sum", Sum::default).start().await?;
        let sum = gateway.handle().actor::<Sum>("sum")?;
        assert_eq!(sum.send(Add(2)).await?, 2);
        assert_eq!(sum.send(Add(3)).await?, 5);
        let lost = sum.send(Add(13)).await.unwrap_err();
        assert!(lost.is_retryable(), "{lost}");
        let mut tries = 0;
        let answer = loop {
            match sum.send(Add(1)).await {
                Ok(answer) => break answer,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
            tries += 1;
            gateway.advance(Duration::from_millis(50)).await;
        };
        assert!(tries > 0, "there is a back-off");
        assert_eq!(answer, 1, "it began anew");
        let health = gateway.handle().health().await;
        assert_eq!(
            (health.actors[0].restarts, &health.actors[0].condition),
            (1, &Condition::Running)
        );
        assert!(matches!(
            gateway.handle().actor::<Sum>("other"),
            Err(Error::NoSuchActor(_))
        ));
        Ok(())
    })
}

#[test]
fn one_that_panics_too_often_is_given_up_and_that_is_seen() -> TestResult {
    run(async {
        let made = Arc::new(AtomicU32::new(0));
        let counted = made.clone();
        let restarts = Restarts::at_most(3, Duration::from_secs(60));
        let gateway = TestGateway::builder()
            .actor_with("sum", restarts, move || {
                counted.fetch_add(1, Ordering::SeqCst);
                Sum::default()
            })
            .start()
            .await?;
        let sum = gateway.handle().actor::<Sum>("sum")?;
        let given_up = loop {
            match sum.send(Add(13)).await {
                Err(error) if !error.is_retryable() => break error,
                _ => gateway.advance(Duration::from_millis(100)).await,
            }
        };
        assert!(given_up.to_string().contains("given up"), "{given_up}");
        gateway.advance(Duration::from_secs(600)).await;
        assert_eq!(made.load(Ordering::SeqCst), 4);
        let health = gateway.handle().health().await;
        assert!(matches!(health.actors[0].condition, Condition::Failed { .. }) && !health.is_good());
        assert!(sum.tell(Add(1)).is_err());
        Ok(())
    })
}

#[test]
fn one_that_ends_by_itself_is_left_so() -> TestResult {
    run(async {
        let gateway = TestGateway::builder().actor("sum", Sum::default).start().await?;
        let sum = gateway.handle().actor::<Sum>("sum")?;
        sum.tell(Add(1))?;
        sum.send(Add(99)).await?;
        gateway.advance(Duration::from_secs(60)).await;
        let error = sum.send(Add(1)).await.unwrap_err();
        assert!(
            !error.is_retryable() && error.to_string().contains("by itself"),
            "{error}"
        );
        assert_eq!(gateway.handle().health().await.actors[0].condition, Condition::Ended);
        Ok(())
    })
}

/// On threads of their own; a consumer hands its events to an actor, and an actor that blocks holds up nobody else.
#[tokio::test]
async fn events_reach_an_actor_and_one_that_blocks_holds_up_nobody() {
    struct Sleeper;
    impl Actor for Sleeper {
        type Context = Context<Self>;
    }
    impl Handler<Add> for Sleeper {
        type Result = u32;
        fn handle(&mut self, _: Add, _: &mut Context<Self>) -> u32 {
            std::thread::sleep(Duration::from_secs(5));
            0
        }
    }
    let gateway = Gateway::builder()
        .in_memory()
        .actor("sum", Sum::default)
        .actor("sleeper", || Sleeper)
        .consumer(Subscribe::group("numbers", "adder"), || {
            consumer_fn(|number: Event<u32>, ctx: tidegate::Context| async move {
                ctx.gateway()
                    .actor::<Sum>("sum")?
                    .send(Add(number.payload))
                    .await
                    .map(drop)
            })
        })
        .start()
        .await
        .unwrap();
    let begin = std::time::Instant::now();
    gateway.actor::<Sleeper>("sleeper").unwrap().tell(Add(0)).unwrap();
    for number in 1..=10 {
        gateway.publish("numbers", Publish::json(&number)).await.unwrap();
    }
    let sum = gateway.actor::<Sum>("sum").unwrap();
    while sum.send(Add(0)).await.unwrap() < 55 {
        tokio::task::yield_now().await;
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "it waited for the sleeper");
    gateway.stop().await.unwrap();
    assert_eq!(sum.send(Add(0)).await, Err(Error::Stopped));
}

#[tokio::test]
async fn two_actors_of_one_name_are_a_mistake() {
    let builder = Gateway::builder()
        .in_memory()
        .actor("sum", Sum::default)
        .actor("sum", Sum::default);
    let error = builder.start().await.err().unwrap();
    assert!(error.to_string().contains("two of the name"), "{error}");
}
