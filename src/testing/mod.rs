//! A test kit for programs that use this library: a gateway in memory, with a clock that is paused, and with faults.
//!
//! It is behind the feature `testing`:
//!
//! ```toml
//! [dev-dependencies]
//! tidegate = { version = "0.1", features = ["testing"] }
//! ```
//!
//! [`run`] runs a test. In it time stands still while anything is at work, and jumps to the next timer when nothing is: back-offs,
//! timeouts and marks that last a week take no time. [`TestGateway`] is the gateway; its [builder](TestGateway::builder) takes
//! consumers and actors like a [`Builder`](crate::Builder), and faults: every event is delivered twice, a commit fails, the process dies
//! at a [`Crash`] point and comes back with nothing but its store.
//!
//! Is this consumer really idempotent?
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use tidegate::testing::{TestGateway, run};
//! use tidegate::{Context, Event, ExactlyOnce, Message, Subscribe, consumer_fn};
//!
//! run(async {
//!     let charged = Arc::new(AtomicU32::new(0));
//!     let effect = charged.clone();
//!     let gateway = TestGateway::builder()
//!         .deliver_twice()
//!         .consumer(Subscribe::group("payments", "ledger"), move || {
//!             let effect = effect.clone();
//!             ExactlyOnce::new(consumer_fn(move |payment: Event<u32>, _: Context| {
//!                 effect.fetch_add(payment.payload, Ordering::SeqCst);
//!                 async { Ok::<(), String>(()) }
//!             }))
//!         })
//!         .start()
//!         .await?;
//!     gateway.publish("payments", Message::json(&5)).await?;
//!     gateway.settled("payments", "ledger").await?;
//!     assert_eq!(charged.load(Ordering::SeqCst), 5);
//!     Ok(())
//! })
//! .unwrap();
//! ```

mod faults;
mod gateway;

use std::error::Error;
use std::future::Future;
use std::time::Duration;

pub use self::faults::Crash;
pub use self::gateway::{TestBuilder, TestGateway};

/// A test that waits so long, by its own clock, waits for something that does not come.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3_600);

/// What a test comes to: `?` takes any error.
pub type TestResult = Result<(), Box<dyn Error>>;

/// Runs a test on this thread, its clock paused: when nothing is at work, time jumps to the next timer.
pub fn run(test: impl Future<Output = TestResult>) -> TestResult {
    actix::System::new().block_on(async {
        tokio::time::pause();
        match tokio::time::timeout(LONGEST, test).await {
            Ok(result) => result,
            Err(_) => Err("the test waited for 30 days, by its own clock: what it waits for does not come".into()),
        }
    })
}
