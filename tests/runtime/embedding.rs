//! The gateway inside a program: built, talked to through its handle, stopped.

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tidegate::domain::StartFrom;
use tidegate::protocol::ErrorCode;
use tidegate::testing::{TestGateway, TestResult, run};
use tidegate::{Context, Error, Event, Gateway, Message, Subscribe, consumer_fn};

use crate::connect;

#[tokio::test]
async fn the_handle_after_stop_gives_errors_and_never_hangs() {
    let gateway = Gateway::builder().in_memory().start().await.unwrap();
    let handle = gateway.handle();
    let mut events = handle.subscribe::<u32>(Subscribe::group("t", "g")).await.unwrap();
    handle.publish("t", Message::json(&1)).await.unwrap();
    let delivery = events.next().await.unwrap().unwrap();
    let waiting = tokio::spawn(async move {
        let end = events.next().await;
        (end.map(|end| end.map(|_| ())), events.next().await.is_none())
    });
    gateway.stop().await.unwrap();
    assert_eq!(waiting.await.unwrap(), (Some(Err(Error::Stopped)), true));
    assert_eq!(delivery.ack().await, Err(Error::Stopped));

    let work = async {
        assert!(handle.is_stopped());
        assert_eq!(handle.publish("t", Message::json(&1)).await, Err(Error::Stopped));
        assert_eq!(
            handle.publish_batch("t", [Message::json(&1)]).await,
            Err(Error::Stopped)
        );
        let subscribed = handle.subscribe::<u32>(Subscribe::group("t", "g")).await;
        assert_eq!(subscribed.err(), Some(Error::Stopped));
        assert_eq!(handle.group("t", "g").await.err(), Some(Error::Stopped));
        assert_eq!(handle.groups("t").await.err(), Some(Error::Stopped));
        assert_eq!(handle.explain("t", "g").await.err(), Some(Error::Stopped));
        assert_eq!(handle.pause("t", "g", "me").await, Err(Error::Stopped));
        assert_eq!(handle.resume("t", "g").await, Err(Error::Stopped));
        assert_eq!(handle.seek("t", "g", StartFrom::Earliest).await, Err(Error::Stopped));
        assert!(handle.health().await.store.is_err());
        assert_eq!(handle.stop().await, Ok(()));
        assert_eq!(handle.ended().await, Ok(()));
    };
    tokio::time::timeout(Duration::from_secs(20), work)
        .await
        .expect("answers");
}

#[tokio::test]
async fn a_stop_lets_the_handler_finish_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let (begun, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
    let builder = Gateway::builder()
        .in_folder(folder.path())
        .consumer(Subscribe::group("t", "g"), move || {
            let begun = begun.clone();
            consumer_fn(move |event: Event<u32>, ctx: Context| {
                let begun = begun.clone();
                async move {
                    begun.send(event.payload).unwrap();
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    // What follows from an event can still be published.
                    let follows = Message::json(&event.payload).caused_by(event.id);
                    ctx.gateway().publish("done", follows).await.map(drop)
                }
            })
        });
    let gateway = builder.clone().start().await.unwrap();
    for number in 0..3 {
        gateway.publish("t", Message::json(&number)).await.unwrap();
    }
    assert_eq!(has_begun.recv().await, Some(0));
    gateway.stop().await.unwrap();

    // The next life begins with the second event: the first was acked, and none of the others had been an attempt.
    let gateway = builder.start().await.unwrap();
    assert_eq!(has_begun.recv().await, Some(1));
    let mut done = gateway
        .subscribe::<u32>(Subscribe::group("done", "g").from_earliest())
        .await
        .unwrap();
    assert_eq!(done.next().await.unwrap().unwrap().payload, 0);
    assert_eq!(gateway.group("t", "g").await.unwrap().floor, 1);
    gateway.stop().await.unwrap();
}

#[test]
fn events_are_typed_or_raw_single_or_in_batches() -> TestResult {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Order {
        amount: f64,
    }
    run(async {
        let gateway = TestGateway::start().await?;
        let handle = gateway.handle();
        let full = Message::json(&Order { amount: 1.5 })
            .id("o1")
            .key("k")
            .header("h", "v")
            .tag("t")
            .caused_by("c")
            .ts(9);
        let published = handle.publish("orders", full).await?;
        assert_eq!((published.id.as_str(), published.seq), ("o1", 1));
        let batch = [
            Message::raw(r#"{"amount": 2.50}"#),
            Message::json(&json!({"amount": 3})),
        ];
        let published = handle.publish_batch("orders", batch).await?;
        assert_eq!(published.iter().map(|one| one.seq).collect::<Vec<_>>(), [2, 3]);

        let mut typed = handle
            .subscribe::<Order>(Subscribe::group("orders", "a").from_earliest())
            .await?;
        let batch = typed.next_batch(10).await.unwrap()?;
        let first = &batch[0];
        assert_eq!(
            (&first.payload, first.key.as_deref(), first.ts),
            (&Order { amount: 1.5 }, Some("k"), 9)
        );
        assert_eq!((first.headers["h"].as_str(), first.tags[0].as_str()), ("v", "t"));
        assert_eq!((first.caused_by[0].as_str(), first.topic.as_str()), ("c", "orders"));
        assert_eq!(
            batch.iter().map(|order| order.payload.amount).collect::<Vec<_>>(),
            [1.5, 2.5, 3.0]
        );
        for order in batch {
            order.ack().await?;
        }
        let mut raw = handle
            .subscribe::<Box<RawValue>>(Subscribe::ephemeral("orders").from_earliest())
            .await?;
        raw.next().await.unwrap()?;
        assert_eq!(
            raw.next().await.unwrap()?.payload.get(),
            r#"{"amount":2.50}"#,
            "its text is kept"
        );
        Ok(())
    })
}

#[test]
fn what_is_refused_is_refused_as_to_a_client() -> TestResult {
    run(async {
        let gateway = TestGateway::start().await?;
        let handle = gateway.handle();
        let code = |error: Error| match error {
            Error::Refused { code, .. } => code,
            other => panic!("{other}"),
        };
        let publish = async |topic: &str, message: Message| handle.publish(topic, message).await;
        assert_eq!(
            code(publish("No Topic", Message::json(&1)).await.unwrap_err()),
            ErrorCode::BadTopic
        );
        assert_eq!(
            code(publish("dlq.t", Message::json(&1)).await.unwrap_err()),
            ErrorCode::Forbidden
        );
        let large = "x".repeat(2 << 20);
        assert_eq!(
            code(publish("t", Message::json(&large)).await.unwrap_err()),
            ErrorCode::TooLarge
        );
        assert!(matches!(
            publish("t", Message::raw("{no")).await,
            Err(Error::BadPayload(_))
        ));
        publish("t", Message::json(&1).id("a")).await?;
        assert_eq!(
            publish("t", Message::json(&1).id("a")).await?.seq,
            1,
            "the same again is no error"
        );
        assert_eq!(
            code(publish("t", Message::json(&2).id("a")).await.unwrap_err()),
            ErrorCode::Conflict
        );
        assert_eq!(
            code(handle.publish_batch("t", []).await.unwrap_err()),
            ErrorCode::BadRequest
        );
        let mut rates = 0;
        for number in 0..2_000 {
            match publish("t", Message::json(&number)).await {
                Ok(_) => {}
                Err(error) => {
                    assert!(error.is_retryable() && error.retry_after().is_some());
                    assert_eq!(code(error), ErrorCode::RateLimited);
                    rates += 1;
                }
            }
        }
        assert!(rates > 0, "the topic's limit holds inside too");
        assert_eq!(
            code(handle.group("t", "nobody").await.unwrap_err()),
            ErrorCode::NotFound
        );
        Ok(())
    })
}

#[test]
fn a_delivery_that_is_dropped_comes_again_and_a_subscription_that_is_dropped_costs_no_attempt() -> TestResult {
    run(async {
        let gateway = TestGateway::start().await?;
        let handle = gateway.handle();
        let options = Subscribe::group("t", "g").max_attempts(3);
        let mut events = handle.subscribe::<u32>(options.clone()).await?;
        handle.publish("t", Message::json(&7)).await?;
        let first = events.next().await.unwrap()?;
        assert_eq!((first.attempt(), first.max_attempts()), (1, Some(3)));
        drop(first);
        let second = events.next().await.unwrap()?;
        assert_eq!(second.attempt(), 2);
        drop(events);
        drop(second);
        let mut events = handle.subscribe::<u32>(options).await?;
        let third = events.next().await.unwrap()?;
        assert_eq!(third.attempt(), 2, "leaving on purpose is no attempt");
        third.nack("no stock").await?;
        let fourth = events.next().await.unwrap()?;
        assert_eq!(fourth.attempt(), 3);
        fourth.nack("still no stock").await?;
        gateway.settled("t", "g").await?;
        let letters = gateway.events::<Value>("dlq.t").await?;
        assert_eq!(letters[0].payload["err"], "still no stock");
        Ok(())
    })
}

#[test]
fn a_lease_ends_or_is_extended() -> TestResult {
    run(async {
        let gateway = TestGateway::start().await?;
        let handle = gateway.handle();
        let options = Subscribe::group("t", "g").ack_timeout(Duration::from_secs(10));
        let mut events = handle.subscribe::<u32>(options).await?;
        handle.publish("t", Message::json(&7)).await?;
        let first = events.next().await.unwrap()?;
        gateway.advance(Duration::from_secs(9)).await;
        first.extend(Duration::from_secs(60)).await?;
        gateway.advance(Duration::from_secs(59)).await;
        assert_eq!(handle.group("t", "g").await?.inflight, 1);
        let again = events.next().await.unwrap()?;
        assert_eq!(again.attempt(), 2);
        again.ack().await?;
        first.ack().await?;
        assert_eq!(handle.group("t", "g").await?.lag, 0);
        Ok(())
    })
}

#[test]
fn a_payload_that_is_something_else_is_told_and_others_follow() -> TestResult {
    run(async {
        let gateway = TestGateway::start().await?;
        let handle = gateway.handle();
        let mut events = handle
            .subscribe::<u32>(Subscribe::group("t", "g").max_attempts(1))
            .await?;
        handle.publish("t", Message::json("seven").id("bad")).await?;
        handle.publish("t", Message::json(&7)).await?;
        let error = events.next().await.unwrap().unwrap_err();
        assert!(
            matches!(&error, Error::UnexpectedPayload { id, .. } if id == "bad"),
            "{error}"
        );
        events.next().await.unwrap()?.ack().await?;
        gateway.settled("t", "g").await?;
        assert_eq!(gateway.events::<Value>("dlq.t").await?.len(), 1);
        Ok(())
    })
}

#[test]
fn groups_can_be_looked_at_paused_and_moved() -> TestResult {
    run(async {
        let gateway = TestGateway::start().await?;
        let handle = gateway.handle();
        let mut events = handle.subscribe::<u32>(Subscribe::group("t", "g")).await?;
        handle.pause("t", "g", "somebody").await?;
        handle.publish("t", Message::json(&1)).await?;
        gateway.advance(Duration::from_secs(10)).await;
        let group = handle.group("t", "g").await?;
        assert_eq!((group.lag, group.inflight), (1, 0));
        assert_eq!(&*group.paused.unwrap().by, "somebody");
        handle.resume("t", "g").await?;
        events.next().await.unwrap()?.ack().await?;
        handle.seek("t", "g", StartFrom::Earliest).await?;
        let again = events.next().await.unwrap()?;
        assert_eq!((again.seq, again.attempt()), (1, 1));
        events.pause().await?;
        handle.publish("t", Message::json(&2)).await?;
        gateway.advance(Duration::from_secs(10)).await;
        assert_eq!(handle.groups("t").await?[0].inflight, 1);
        events.resume().await?;
        assert_eq!(events.next().await.unwrap()?.payload, 2);
        Ok(())
    })
}

/// More bytes than a subscription has room for: they come as it takes them.
#[test]
fn large_events_wait_until_there_is_room() -> TestResult {
    run(async {
        let gateway = TestGateway::start().await?;
        let handle = gateway.handle();
        let mut events = handle.subscribe::<String>(Subscribe::group("t", "g")).await?;
        for _ in 0..20 {
            handle.publish("t", Message::json(&"x".repeat(500_000))).await?;
        }
        gateway.advance(Duration::from_secs(1)).await;
        let inflight = handle.group("t", "g").await?.inflight;
        assert!(inflight < 10, "{inflight} are on their way");
        for _ in 0..20 {
            events.next().await.unwrap()?.ack().await?;
        }
        assert_eq!(handle.group("t", "g").await?.lag, 0);
        Ok(())
    })
}

#[tokio::test]
async fn with_and_without_listeners() {
    let silent = Gateway::builder().in_memory().start().await.unwrap();
    assert_eq!(silent.address(), None);
    let listening = Gateway::builder()
        .in_memory()
        .listen(([127, 0, 0, 1], 0))
        .start()
        .await
        .unwrap();
    let mut client = connect(listening.address().unwrap()).await;
    client.subscribe("t", "g", json!({})).await;
    listening.publish("t", Message::json(&json!({"n": 1}))).await.unwrap();
    assert_eq!(client.event().await["event"]["payload"], json!({"n": 1}));
    let open = Gateway::builder().in_memory().listen(([0, 0, 0, 0], 0)).start().await;
    assert!(
        open.err().unwrap().to_string().contains("auth.mode"),
        "nobody is let in by accident"
    );
    drop(silent);
    listening.stop().await.unwrap();
    assert_eq!(client.closed().await, 1001);
}

/// The least of all runtimes.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut work = std::pin::pin!(work);
    loop {
        if let std::task::Poll::Ready(done) = work.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            return done;
        }
        std::thread::park();
    }
}

/// No tokio anywhere: the gateway has its own.
#[test]
fn a_program_without_a_runtime() {
    let gateway = block_on(Gateway::builder().in_memory().start()).unwrap();
    let mut events = block_on(gateway.subscribe::<u32>(Subscribe::group("t", "g"))).unwrap();
    block_on(gateway.publish("t", Message::json(&1))).unwrap();
    let event = block_on(events.next()).unwrap().unwrap();
    block_on(event.ack()).unwrap();
    assert_eq!(block_on(gateway.group("t", "g")).unwrap().lag, 0);
    block_on(gateway.stop()).unwrap();
    let consumer = || consumer_fn(|_: Event<u32>, _: Context| async { Ok::<(), String>(()) });
    let refused = block_on(
        Gateway::builder()
            .in_memory()
            .consumer(Subscribe::group("t", "g"), consumer)
            .start(),
    );
    assert!(refused.err().unwrap().to_string().contains("tokio"));
}

/// A start that fails leaves nothing behind: the folder is free, the port too.
#[tokio::test]
async fn a_start_that_fails_can_be_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let builder = || Gateway::builder().in_folder(folder.path());
    let error = builder()
        .listen(taken.local_addr().unwrap())
        .start()
        .await
        .err()
        .unwrap();
    assert!(matches!(error, tidegate::ServeError::Listen { .. }), "{error}");
    let consumer = || consumer_fn(|_: Event<u32>, _: Context| async { Ok::<(), String>(()) });
    let error = builder()
        .consumer(Subscribe::group("NO", "g"), consumer)
        .start()
        .await
        .err()
        .unwrap();
    assert!(error.to_string().contains("topic"), "{error}");
    let gateway = builder().listen(([127, 0, 0, 1], 0)).start().await.unwrap();
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_gateway_that_is_dropped_ends() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::builder().in_folder(folder.path()).start().await.unwrap();
    let handle = gateway.handle();
    drop(gateway);
    tokio::time::timeout(Duration::from_secs(20), handle.ended())
        .await
        .expect("an end")
        .unwrap();
    assert!(handle.is_stopped());
    // Its folder is free.
    let again = Gateway::builder().in_folder(folder.path()).start().await.unwrap();
    again.stop().await.unwrap();
}
