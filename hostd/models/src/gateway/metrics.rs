//! Metrics of model calls, by the dialect of their provider; `provider_metrics` has those by its name.

use super::provider_metrics::{ProviderCounters, ProviderMetrics};
use crate::{CallTarget, Dialect, Price, TokenUsage};
use hostd_metrics::{Counter, DURATION_BUCKETS_S, Family, Histogram, Label, LabeledHistograms, Registry};
use std::sync::Arc;
use tokio::time::Instant;

type TwoLabels = [(&'static str, &'static str); 2];

/// Clones count into the same families.
#[derive(Clone)]
pub struct GatewayMetrics {
    calls: Family<TwoLabels, Counter>,
    tokens: Family<TwoLabels, Counter>,
    bytes: Family<TwoLabels, Counter>,
    retries: Family<[(&'static str, &'static str); 1], Counter>,
    duration: LabeledHistograms<DialectLabel>,
    /// In the order of `Dialect::ALL`.
    by_dialect: [Arc<DialectMetrics>; Dialect::ALL.len()],
    providers: ProviderMetrics,
}

/// The metrics of one dialect, looked up once.
struct DialectMetrics {
    refused: Counter,
    succeeded: Counter,
    failed: Counter,
    abandoned: Counter,
    input_tokens: Counter,
    output_tokens: Counter,
    sent_bytes: Counter,
    received_bytes: Counter,
    retries: Counter,
    duration: Histogram,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// Not sent to a provider.
    Refused,
    Succeeded,
    Failed,
    /// The agent disconnected, or the task ended.
    Abandoned,
}

impl Default for GatewayMetrics {
    fn default() -> Self {
        let (calls, tokens, bytes) =
            (Family::default(), Family::default(), Family::<TwoLabels, Counter>::default());
        let retries = Family::<[(&'static str, &'static str); 1], Counter>::default();
        let duration = LabeledHistograms::new(|| Histogram::new(DURATION_BUCKETS_S));
        let by_dialect = Dialect::ALL.map(|dialect| {
            let name = ("dialect", dialect.as_str());
            let counter = |family: &Family<TwoLabels, Counter>, label, value| {
                family.get_or_create_owned(&[name, (label, value)])
            };
            Arc::new(DialectMetrics {
                refused: counter(&calls, "outcome", "refused"),
                succeeded: counter(&calls, "outcome", "succeeded"),
                failed: counter(&calls, "outcome", "failed"),
                abandoned: counter(&calls, "outcome", "abandoned"),
                input_tokens: counter(&tokens, "direction", "input"),
                output_tokens: counter(&tokens, "direction", "output"),
                sent_bytes: counter(&bytes, "direction", "sent"),
                received_bytes: counter(&bytes, "direction", "received"),
                retries: retries.get_or_create_owned(&[name]),
                duration: duration.of(DialectLabel(dialect)).clone(),
            })
        });
        Self { calls, tokens, bytes, retries, duration, by_dialect, providers: ProviderMetrics::default() }
    }
}

impl GatewayMetrics {
    pub fn register(&self, registry: &mut Registry) {
        let help = "Model calls of agents, by how they ended";
        registry.register("slipway_gateway_calls", help, self.calls.clone());
        let help = "Retries of calls that failed";
        registry.register("slipway_gateway_retries", help, self.retries.clone());
        let help = "Tokens of calls, as the provider reports them, or estimated";
        registry.register("slipway_gateway_tokens", help, self.tokens.clone());
        let help = "Bytes of request bodies sent to providers, and of response bodies relayed to agents";
        registry.register("slipway_gateway_bytes", help, self.bytes.clone());
        let help =
            "Duration of a call that was sent to a provider, with its retries, until its response ended";
        self.duration.register(registry, "slipway_gateway_call_duration_seconds", help);
        self.providers.register(registry);
    }

    /// Begins to meter a call.
    pub(super) fn meter(&self, dialect: Dialect) -> CallMeter {
        let at = Dialect::ALL.iter().position(|other| *other == dialect).expect("ALL lists every dialect");
        let metrics = self.by_dialect[at].clone();
        let providers = self.providers.clone();
        CallMeter { metrics, providers, sent: None, started: Instant::now(), outcome: CallOutcome::Refused }
    }
}

/// Counts one call when it is dropped, with the outcome that it has by then.
pub struct CallMeter {
    metrics: Arc<DialectMetrics>,
    providers: ProviderMetrics,
    /// Set once the call may be sent.
    sent: Option<SentCall>,
    started: Instant,
    outcome: CallOutcome,
}

/// The provider that a call was sent to, its price, and how it answered.
struct SentCall {
    provider: Arc<ProviderCounters>,
    price: Option<Price>,
    status: Option<u16>,
}

impl CallMeter {
    /// The call may be sent, with a body of this size. It counts as abandoned until its end is known.
    pub fn admitted(&mut self, target: &CallTarget, body_bytes: usize) {
        self.outcome = CallOutcome::Abandoned;
        self.metrics.sent_bytes.inc_by(body_bytes as u64);
        let provider = self.providers.of(&target.provider.name);
        self.sent = Some(SentCall { provider, price: target.price, status: None });
    }

    /// How the call ended, and the status of the provider's response.
    pub fn ended(&mut self, outcome: CallOutcome, tokens: Option<&TokenUsage>, status: Option<u16>) {
        self.outcome = outcome;
        if let Some(tokens) = tokens {
            self.metrics.input_tokens.inc_by(tokens.input);
            self.metrics.output_tokens.inc_by(tokens.output);
        }
        if let Some(sent) = &mut self.sent {
            sent.status = status;
            if let Some(tokens) = tokens {
                let cost = sent.price.map(|price| price.cost_micro_usd(tokens));
                sent.provider.count_tokens(tokens.input, tokens.output, cost);
            }
        }
    }

    pub fn retried(&self) {
        self.metrics.retries.inc();
    }

    pub fn received(&self, bytes: usize) {
        self.metrics.received_bytes.inc_by(bytes as u64);
    }
}

impl Drop for CallMeter {
    fn drop(&mut self) {
        let DialectMetrics { refused, succeeded, failed, abandoned, .. } = &*self.metrics;
        let counter = match self.outcome {
            CallOutcome::Refused => refused,
            CallOutcome::Succeeded => succeeded,
            CallOutcome::Failed => failed,
            CallOutcome::Abandoned => abandoned,
        };
        counter.inc();
        if let Some(sent) = &self.sent {
            sent.provider.count_end(self.outcome, sent.status);
        }
        if self.outcome != CallOutcome::Refused {
            self.metrics.duration.observe(self.started.elapsed().as_secs_f64());
        }
    }
}

/// A dialect as a label.
#[derive(Debug, Clone, Copy, PartialEq)]
struct DialectLabel(Dialect);

impl Label for DialectLabel {
    const NAME: &'static str = "dialect";
    const ALL: &'static [Self] = &[Self(Dialect::Anthropic), Self(Dialect::Openai), Self(Dialect::Gemini)];

    fn value(self) -> &'static str {
        self.0.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Provider;

    #[test]
    fn a_call_is_counted_with_the_outcome_it_has_when_it_is_dropped() {
        let metrics = GatewayMetrics::default();
        let tokens = TokenUsage { input: 5, output: 7, ..TokenUsage::default() };
        let provider =
            Provider { name: "mine".into(), dialect: Dialect::Gemini, base_url: String::new(), key: None };
        // Dollars per million tokens.
        let price = Some(Price { input: 100_000_000_000, ..Price::default() });
        let target = CallTarget { provider: Arc::new(provider), model: String::new(), price };
        drop(metrics.meter(Dialect::Gemini));
        metrics.meter(Dialect::Gemini).admitted(&target, 100);
        let mut call = metrics.meter(Dialect::Gemini);
        call.admitted(&target, 10);
        call.retried();
        call.received(20);
        call.ended(CallOutcome::Succeeded, Some(&tokens), Some(200));
        drop(call);
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let text = hostd_metrics::text(&registry);
        for line in [
            "slipway_gateway_calls_total{dialect=\"gemini\",outcome=\"refused\"} 1",
            "slipway_gateway_calls_total{dialect=\"gemini\",outcome=\"abandoned\"} 1",
            "slipway_gateway_calls_total{dialect=\"gemini\",outcome=\"succeeded\"} 1",
            "slipway_gateway_calls_total{dialect=\"anthropic\",outcome=\"succeeded\"} 0",
            "slipway_gateway_bytes_total{dialect=\"gemini\",direction=\"sent\"} 110",
            "slipway_gateway_bytes_total{dialect=\"gemini\",direction=\"received\"} 20",
            "slipway_gateway_tokens_total{dialect=\"gemini\",direction=\"output\"} 7",
            "slipway_gateway_retries_total{dialect=\"gemini\"} 1",
            "slipway_gateway_provider_calls_total{provider=\"mine\",outcome=\"succeeded\"} 1",
            "slipway_gateway_provider_calls_total{provider=\"mine\",outcome=\"abandoned\"} 1",
            "slipway_gateway_provider_tokens_total{provider=\"mine\",direction=\"input\"} 5",
            "slipway_gateway_provider_cost_usd_total{provider=\"mine\"} 0.5",
            "slipway_gateway_call_duration_seconds_count{dialect=\"gemini\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
