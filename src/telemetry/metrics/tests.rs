//! Names and bounds of the figures.

use super::*;

fn topic(name: &str) -> TopicName {
    name.parse().unwrap()
}

fn group(name: &str) -> GroupName {
    name.parse().unwrap()
}

#[test]
fn every_figure_has_the_contracts_name() {
    let metrics = Metrics::new();
    metrics.topic(&topic("t")).published.inc_by(3);
    let figures = metrics.group(&topic("t"), &group("g"));
    figures.delivered.inc();
    figures.acked.inc();
    figures.nacked.inc();
    figures.redelivered.inc();
    figures.dead_lettered.inc();
    figures.expired_unacked.inc();
    figures.inflight.set(4);
    figures.lag_events.set(5);
    figures.lag_seconds.set(0.5);
    metrics.rate_limited("topic").inc();
    metrics.mailbox_depth("store").inc_by(7);
    metrics.actor_restarted("consumer");
    metrics.connection_cut("slow");
    metrics.ws_connections().inc();
    metrics.publish_took(Duration::from_millis(1));
    metrics.delivered_and_acked(Some(10), 11);
    metrics.commit_took(Duration::from_millis(1), 20);
    let text = metrics.clone().encode();
    for line in [
        "tidegate_events_published_total{topic=\"t\"} 3",
        "tidegate_events_delivered_total{topic=\"t\",group=\"g\"} 1",
        "tidegate_events_acked_total{topic=\"t\",group=\"g\"} 1",
        "tidegate_events_nacked_total{topic=\"t\",group=\"g\"} 1",
        "tidegate_events_redelivered_total{topic=\"t\",group=\"g\"} 1",
        "tidegate_events_dead_lettered_total{topic=\"t\",group=\"g\"} 1",
        "tidegate_events_expired_unacked_total{topic=\"t\",group=\"g\"} 1",
        "tidegate_events_inflight{topic=\"t\",group=\"g\"} 4",
        "tidegate_group_lag_events{topic=\"t\",group=\"g\"} 5",
        "tidegate_group_lag_seconds{topic=\"t\",group=\"g\"} 0.5",
        "tidegate_rate_limited_total{scope=\"topic\"} 1",
        "tidegate_mailbox_depth{actor=\"store\"} 7",
        "tidegate_actor_restarts_total{actor=\"consumer\"} 1",
        "tidegate_connections_cut_total{reason=\"slow\"} 1",
        "tidegate_ws_connections 1",
        "tidegate_publish_latency_seconds_count 1",
        "tidegate_delivery_latency_seconds_count 1",
        "tidegate_store_commit_seconds_count 1",
        "tidegate_store_batch_events_sum 20.0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn handles_of_one_name_count_together() {
    let metrics = Metrics::new();
    metrics.topic(&topic("t")).published.inc();
    metrics.clone().topic(&topic("t")).published.inc();
    assert_eq!(metrics.topic(&topic("t")).published.get(), 2);
}

#[test]
fn topics_beyond_the_bound_are_other() {
    let metrics = Metrics::new();
    for at in 0..LABELS_MAX + 5 {
        metrics.topic(&topic(&format!("t{at}"))).published.inc();
    }
    metrics.topic(&topic("t0")).published.inc();
    let text = metrics.encode();
    assert!(text.contains("tidegate_events_published_total{topic=\"_other\"} 5\n"));
    assert!(
        text.contains("tidegate_events_published_total{topic=\"t0\"} 2\n"),
        "an early one keeps its label"
    );
    assert_eq!(text.matches("tidegate_events_published_total{").count(), LABELS_MAX + 1);
}

#[test]
fn groups_beyond_the_bound_are_other_and_have_no_gauges() {
    let metrics = Metrics::new();
    for at in 0..LABELS_MAX + 5 {
        let figures = metrics.group(&topic("t"), &group(&format!("g{at}")));
        figures.acked.inc();
        figures.lag_events.set(1);
    }
    let text = metrics.encode();
    assert!(text.contains("tidegate_events_acked_total{topic=\"t\",group=\"_other\"} 5\n"));
    assert!(text.contains("tidegate_group_lag_events{topic=\"t\",group=\"g999\"} 1\n"));
    assert!(!text.contains("tidegate_group_lag_events{topic=\"t\",group=\"_other\"}"));
}

#[test]
fn groups_of_topics_beyond_the_bound_are_bounded_too() {
    let metrics = Metrics::new();
    for at in 0..LABELS_MAX {
        metrics.topic(&topic(&format!("t{at}")));
    }
    metrics.group(&topic("late"), &group("g")).acked.inc();
    let text = metrics.encode();
    assert!(text.contains("tidegate_events_acked_total{topic=\"_other\",group=\"g\"} 1\n"));
    assert!(!text.contains("\"late\""));
}
