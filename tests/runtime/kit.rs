//! The test kit itself: its clock, its crashes, its faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate::testing::{TestGateway, TestResult, run};
use tidegate::{Context, Error, Event, Message, Subscribe, consumer_fn};

#[test]
fn time_passes_without_waiting() -> TestResult {
    let begin = std::time::Instant::now();
    run(async {
        let gateway = TestGateway::start().await?;
        let before = tokio::time::Instant::now();
        gateway.advance(Duration::from_secs(3_600)).await;
        assert_eq!(before.elapsed().as_secs(), 3_600);
        Ok(())
    })?;
    assert!(begin.elapsed() < Duration::from_secs(60));
    Ok(())
}

#[test]
fn a_crash_leaves_the_store_and_nothing_else() -> TestResult {
    run(async {
        let gateway = TestGateway::start().await?;
        let before = gateway.handle();
        before.publish("t", Message::json(&1)).await?;
        let mut events = before
            .subscribe::<u32>(Subscribe::group("t", "g").from_earliest())
            .await?;
        let held = events.next().await.unwrap()?;
        gateway.crash().await;
        assert_eq!(gateway.lives(), 2);
        assert_eq!(before.publish("t", Message::json(&2)).await, Err(Error::Stopped));
        assert_eq!(held.ack().await, Err(Error::Stopped), "who died acks nothing");
        let mut events = gateway.handle().subscribe::<u32>(Subscribe::group("t", "g")).await?;
        let again = events.next().await.unwrap()?;
        assert_eq!(
            (again.payload, again.attempt()),
            (1, 1),
            "a delivery that the crash ended is not counted"
        );
        Ok(())
    })
}

#[test]
fn a_handler_in_the_middle_of_its_work_dies_with_the_process() -> TestResult {
    run(async {
        let (begun, done) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let counters = (begun.clone(), done.clone());
        let gateway = TestGateway::builder()
            .consumer(Subscribe::group("t", "g"), move || {
                let (begun, done) = counters.clone();
                consumer_fn(move |_: Event<u32>, _: Context| {
                    let done = done.clone();
                    let life = begun.fetch_add(1, Ordering::SeqCst);
                    async move {
                        if life == 0 {
                            tokio::time::sleep(Duration::from_secs(10)).await;
                        }
                        done.fetch_add(1, Ordering::SeqCst);
                        Ok::<(), String>(())
                    }
                })
            })
            .start()
            .await?;
        gateway.publish("t", Message::json(&1)).await?;
        assert!(gateway.until(|| begun.load(Ordering::SeqCst) == 1).await);
        gateway.crash().await;
        gateway.settled("t", "g").await?;
        gateway.advance(Duration::from_secs(60)).await;
        assert_eq!((begun.load(Ordering::SeqCst), done.load(Ordering::SeqCst)), (2, 1));
        Ok(())
    })
}

#[test]
fn a_commit_fails_when_it_is_told_to() -> TestResult {
    run(async {
        let gateway = TestGateway::builder().fail_commit(2).start().await?;
        let handle = gateway.handle();
        handle.publish("t", Message::json(&1)).await?;
        let error = handle.publish("t", Message::json(&2)).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        handle.publish("t", Message::json(&3)).await?;
        gateway.fail_commit(1);
        gateway.publish("t", Message::json(&4)).await?;
        let payloads: Vec<u32> = gateway
            .events::<u32>("t")
            .await?
            .iter()
            .map(|event| event.payload)
            .collect();
        assert_eq!(
            payloads,
            [1, 3, 4],
            "a patient publisher loses nothing, and doubles nothing"
        );
        Ok(())
    })
}

#[test]
fn a_test_that_waits_for_nothing_fails() {
    let result = run(async {
        std::future::pending::<()>().await;
        Ok(())
    });
    assert!(result.unwrap_err().to_string().contains("does not come"));
}
