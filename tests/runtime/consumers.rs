//! Consumers as members of groups: acks, retries, dead letters, order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::testing::{TestGateway, TestResult, run};
use tidegate::{Context, Event, Gateway, Message, Subscribe, consumer_fn};

use crate::connect;

#[derive(serde::Deserialize)]
struct Order {
    amount: u32,
}

#[test]
fn an_error_is_retried_and_then_a_dead_letter_with_its_reason() -> TestResult {
    run(async {
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let seen = attempts.clone();
        let options = Subscribe::group("orders", "billing").max_attempts(3);
        let gateway = TestGateway::builder()
            .consumer(options, move || {
                let seen = seen.clone();
                consumer_fn(move |order: Event<Order>, ctx: Context| {
                    seen.lock().unwrap().push((ctx.attempt(), ctx.is_last_attempt()));
                    async move {
                        match order.payload.amount {
                            0 => Err(format!(
                                "amount: nothing to bill, {} of {}",
                                ctx.attempt(),
                                ctx.max_attempts()
                            )),
                            _ => Ok(()),
                        }
                    }
                })
            })
            .start()
            .await?;
        gateway
            .publish("orders", Message::json(&json!({"amount": 0})).id("o1"))
            .await?;
        gateway.settled("orders", "billing").await?;
        assert_eq!(*attempts.lock().unwrap(), [(1, false), (2, false), (3, true)]);
        let letters = gateway.events::<Value>("dlq.orders").await?;
        assert_eq!(letters.len(), 1);
        let letter = &letters[0].payload;
        assert_eq!(letter["err"], "amount: nothing to bill, 3 of 3");
        assert_eq!(
            (&letter["original"]["id"], &letter["group"]),
            (&json!("o1"), &json!("billing"))
        );
        Ok(())
    })
}

#[test]
fn a_payload_that_is_no_such_thing_fails_alone() -> TestResult {
    run(async {
        let total = Arc::new(Mutex::new(0));
        let sum = total.clone();
        let gateway = TestGateway::builder()
            .consumer(Subscribe::group("orders", "billing"), move || {
                let sum = sum.clone();
                consumer_fn(move |order: Event<Order>, _: Context| {
                    *sum.lock().unwrap() += order.payload.amount;
                    async { Ok::<(), String>(()) }
                })
            })
            .start()
            .await?;
        for payload in [
            json!({"amount": 1}),
            json!({"amount": "a lot"}),
            json!(null),
            json!({"amount": 2}),
        ] {
            gateway.publish("orders", Message::json(&payload)).await?;
        }
        gateway.settled("orders", "billing").await?;
        assert_eq!(*total.lock().unwrap(), 3);
        let letters = gateway.events::<Value>("dlq.orders").await?;
        assert_eq!(letters.len(), 2);
        for letter in letters {
            let reason = letter.payload["err"].as_str().unwrap();
            assert!(reason.contains("is not what is expected"), "{reason}");
        }
        let health = gateway.handle().health().await;
        assert_eq!(health.consumers[0].restarts, 0, "the consumer was not to blame");
        Ok(())
    })
}

#[test]
fn with_ordered_the_events_of_a_key_are_handled_one_after_the_other() -> TestResult {
    run(async {
        let log = Arc::new(Mutex::new(Vec::new()));
        let written = log.clone();
        let options = Subscribe::group("orders", "billing").ordered(true).concurrency(8);
        let gateway = TestGateway::builder()
            .consumer(options, move || {
                let written = written.clone();
                consumer_fn(move |order: Event<u32>, ctx: Context| {
                    let written = written.clone();
                    async move {
                        // The earlier, the slower.
                        tokio::time::sleep(Duration::from_millis(u64::from(20 - order.payload))).await;
                        if order.payload == 3 && ctx.attempt() == 1 {
                            return Err("once more");
                        }
                        written.lock().unwrap().push((order.key, order.payload));
                        Ok(())
                    }
                })
            })
            .start()
            .await?;
        for number in 0..20_u32 {
            let key = format!("customer-{}", number % 4);
            gateway.publish("orders", Message::json(&number).key(key)).await?;
        }
        gateway.settled("orders", "billing").await?;
        let log = log.lock().unwrap();
        assert_eq!(log.len(), 20);
        for customer in 0..4_u32 {
            let key = Some(format!("customer-{customer}"));
            let of_key: Vec<u32> = log.iter().filter(|(of, _)| *of == key).map(|(_, n)| *n).collect();
            let expected: Vec<u32> = (0..20).filter(|n| n % 4 == customer).collect();
            assert_eq!(of_key, expected);
        }
        Ok(())
    })
}

#[test]
fn instances_work_at_the_same_time_and_hold_no_more_than_they_may() -> TestResult {
    run(async {
        let running = Arc::new(Mutex::new((0_u32, 0_u32)));
        let counted = running.clone();
        let options = Subscribe::group("orders", "billing").concurrency(4).prefetch(2);
        let gateway = TestGateway::builder()
            .consumer(options, move || {
                let counted = counted.clone();
                consumer_fn(move |_: Event<u32>, _: Context| {
                    let counted = counted.clone();
                    async move {
                        {
                            let mut counted = counted.lock().unwrap();
                            counted.0 += 1;
                            counted.1 = counted.1.max(counted.0);
                        }
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        counted.lock().unwrap().0 -= 1;
                        Ok::<(), String>(())
                    }
                })
            })
            .start()
            .await?;
        for number in 0..40_u32 {
            gateway.publish("orders", Message::json(&number)).await?;
        }
        let inflight = gateway.handle().group("orders", "billing").await?.inflight;
        assert_eq!(inflight, 6);
        let begin = tokio::time::Instant::now();
        gateway.settled("orders", "billing").await?;
        assert_eq!(running.lock().unwrap().1, 4);
        assert!(begin.elapsed() < Duration::from_millis(1_500), "{:?}", begin.elapsed());
        Ok(())
    })
}

/// Consumers and WebSocket clients are members of one group: each event goes to one of them.
#[tokio::test]
async fn a_group_is_shared_with_websocket_clients() {
    let (sender, mut handled) = tokio::sync::mpsc::unbounded_channel();
    let gateway = Gateway::builder()
        .in_memory()
        .listen(([127, 0, 0, 1], 0))
        .consumer(Subscribe::group("orders", "billing"), move || {
            let sender = sender.clone();
            consumer_fn(move |order: Event<u32>, _: Context| {
                sender.send(order.payload).unwrap();
                async { Ok::<(), String>(()) }
            })
        })
        .start()
        .await
        .unwrap();
    let mut client = connect(gateway.address().unwrap()).await;
    client.subscribe("orders", "billing", json!({"maxInFlight": 1})).await;
    for number in 0..40_u32 {
        gateway.publish("orders", Message::json(&number)).await.unwrap();
    }
    let mut all = Vec::new();
    // It holds one at a time: it gets what comes while it has none.
    let event = client.event().await;
    all.push(u32::try_from(event["event"]["payload"].as_u64().unwrap()).unwrap());
    while all.len() < 40 {
        all.push(handled.recv().await.unwrap());
    }
    all.sort_unstable();
    assert_eq!(all, (0..40).collect::<Vec<_>>());
    let group = gateway.group("orders", "billing").await.unwrap();
    assert_eq!((group.members, group.inflight), (2, 1));
    // What the client gives up comes to the consumer.
    client
        .ok(json!({"op": "UNSUBSCRIBE", "topic": "orders", "group": "billing"}))
        .await;
    assert_eq!(
        handled.recv().await.unwrap(),
        event["event"]["payload"].as_u64().unwrap() as u32
    );
    gateway.stop().await.unwrap();
}

#[test]
fn options_out_of_bounds_are_named_and_nothing_is_started() -> TestResult {
    run(async {
        let nothing = || consumer_fn(|_: Event<u32>, _: Context| async { Ok::<(), String>(()) });
        let refused = [
            (Subscribe::group("orders", "billing").concurrency(0), "concurrency"),
            (Subscribe::group("orders", "billing").timeout(Duration::ZERO), "timeout"),
            (
                Subscribe::group("orders", "billing").max_attempts(0).into(),
                "max_attempts",
            ),
            (Subscribe::group("Orders", "billing").into(), "topic"),
            (Subscribe::group("orders", "bill ing").into(), "group"),
            (Subscribe::ephemeral("orders").into(), "group"),
        ];
        for (options, field) in refused {
            let error = TestGateway::builder()
                .consumer(options, nothing)
                .start()
                .await
                .err()
                .unwrap();
            assert!(error.to_string().contains(field), "{field}: {error}");
        }
        Ok(())
    })
}
