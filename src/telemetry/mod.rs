//! What the gateway tells about itself: log lines for people and machines, and figures for a scraper. Neither ever has
//! a payload or a token in it.

mod logging;
mod metrics;

pub use logging::{LogError, LogFormat, check_filter, init_logging, set_log_filter};
pub use metrics::{
    ConsumerMetrics, FloatGauge, GroupMetrics, METRICS_CONTENT_TYPE, Metrics, PLAIN_METRICS_CONTENT_TYPE, TopicMetrics,
};
pub use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
