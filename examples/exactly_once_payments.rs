//! Payments that are charged once, although the process dies after the charge and before the ack.
//!
//! `cargo run --example exactly_once_payments` needs nothing else and ends by itself. The crash is the test kit's
//! (`tidegate::testing`); the consumer is what a program would have.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidegate::testing::{Crash, TestGateway, TestResult, run};
use tidegate::{Consumer, Context, Event, ExactlyOnce, Message, Subscribe};

#[derive(serde::Serialize, serde::Deserialize)]
struct Payment {
    customer: String,
    cents: u64,
}

/// What is outside, and stays when the process dies: here a map, in life a bank.
type Accounts = Arc<Mutex<BTreeMap<String, u64>>>;

struct Ledger {
    accounts: Accounts,
}

impl Consumer for Ledger {
    type Payload = Payment;
    type Error = String;

    async fn handle(&mut self, event: Event<Payment>, ctx: &Context) -> Result<(), String> {
        let Payment { customer, cents } = event.payload;
        if cents == 0 {
            return Err("cents: nothing to charge".to_owned());
        }
        println!(
            "charging {customer} {cents} cents for {}, attempt {}",
            event.id,
            ctx.attempt()
        );
        *self
            .accounts
            .lock()
            .map_err(|error| error.to_string())?
            .entry(customer)
            .or_default() += cents;
        Ok(())
    }
}

fn main() -> TestResult {
    run(async {
        let accounts = Accounts::default();
        let bank = accounts.clone();
        let gateway = TestGateway::builder()
            // The charge is made and marked, and then everything that is in memory is lost.
            .crash_at(Crash::BeforeAck)
            .consumer(Subscribe::group("payments", "ledger").from_earliest(), move || {
                let accounts = bank.clone();
                ExactlyOnce::new(Ledger { accounts })
            })
            .start()
            .await?;

        let payment = Payment {
            customer: "ada".to_owned(),
            cents: 1250,
        };
        // The publisher's own id: however often it is published, the topic has it once.
        for _ in 0..2 {
            gateway
                .publish("payments", Message::json(&payment).id("invoice-17"))
                .await?;
        }
        gateway.settled("payments", "ledger").await?;

        let charged = accounts.lock().map_err(|error| error.to_string())?.clone();
        println!("{} lives, charged: {charged:?}", gateway.lives());
        Ok(())
    })
}
