//! Metrics of model calls by their provider, whose name is the operator's. The label is bounded: providers beyond the
//! limit count as one.

use super::{limits::PROVIDERS_LABELED_MAX, metrics::CallOutcome};
use hostd_metrics::{BoundedLabel, Counter, Family, FloatCounter, Registry};
use std::sync::Arc;

type ProviderLabel = [(&'static str, String); 1];
type TwoLabels = [(&'static str, String); 2];

const MICRO: f64 = 1e-6;

/// Clones count into the same families.
#[derive(Clone)]
pub struct ProviderMetrics {
    calls: Family<TwoLabels, Counter>,
    tokens: Family<TwoLabels, Counter>,
    errors: Family<TwoLabels, Counter>,
    cost: Family<ProviderLabel, FloatCounter>,
    by_provider: Arc<BoundedLabel<ProviderCounters>>,
}

/// The metrics of one provider, looked up once.
pub struct ProviderCounters {
    succeeded: Counter,
    failed: Counter,
    abandoned: Counter,
    input_tokens: Counter,
    output_tokens: Counter,
    cost_usd: FloatCounter,
    /// In the order of [`ErrorStatus::ALL`].
    errors: [Counter; ErrorStatus::ALL.len()],
}

/// How a provider answered a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorStatus {
    /// It did not, or its answer broke off.
    NoResponse,
    RateLimited,
    OtherClientError,
    ServerError,
}

impl ErrorStatus {
    const ALL: [Self; 4] = [Self::NoResponse, Self::RateLimited, Self::OtherClientError, Self::ServerError];

    fn of(status: Option<u16>) -> Self {
        match status {
            None | Some(..400) => Self::NoResponse,
            Some(429) => Self::RateLimited,
            Some(400..500) => Self::OtherClientError,
            Some(500..) => Self::ServerError,
        }
    }

    fn value(self) -> &'static str {
        match self {
            Self::NoResponse => "none",
            Self::RateLimited => "429",
            Self::OtherClientError => "4xx",
            Self::ServerError => "5xx",
        }
    }
}

impl Default for ProviderMetrics {
    fn default() -> Self {
        let (calls, tokens, errors) = (
            Family::<TwoLabels, Counter>::default(),
            Family::<TwoLabels, Counter>::default(),
            Family::<TwoLabels, Counter>::default(),
        );
        let cost = Family::<ProviderLabel, FloatCounter>::default();
        let families = (calls.clone(), tokens.clone(), errors.clone(), cost.clone());
        let by_provider = BoundedLabel::new(PROVIDERS_LABELED_MAX, move |provider| {
            let (calls, tokens, errors, cost) = &families;
            let name = ("provider", provider.to_owned());
            let counter = |family: &Family<TwoLabels, Counter>, label, value: &str| {
                family.get_or_create_owned(&[name.clone(), (label, value.to_owned())])
            };
            ProviderCounters {
                succeeded: counter(calls, "outcome", "succeeded"),
                failed: counter(calls, "outcome", "failed"),
                abandoned: counter(calls, "outcome", "abandoned"),
                input_tokens: counter(tokens, "direction", "input"),
                output_tokens: counter(tokens, "direction", "output"),
                errors: ErrorStatus::ALL.map(|status| counter(errors, "status", status.value())),
                cost_usd: cost.get_or_create_owned(&[name]),
            }
        });
        Self { calls, tokens, errors, cost, by_provider: Arc::new(by_provider) }
    }
}

impl ProviderMetrics {
    pub fn register(&self, registry: &mut Registry) {
        let help = "Model calls that were sent to a provider, by how they ended";
        registry.register("slipway_gateway_provider_calls", help, self.calls.clone());
        let help = "Tokens of calls, as the provider reports them";
        registry.register("slipway_gateway_provider_tokens", help, self.tokens.clone());
        let help = "Calls that failed, by the status of the provider";
        registry.register("slipway_gateway_provider_errors", help, self.errors.clone());
        let help = "Cost of the reported tokens in US dollars, by the configured prices";
        registry.register("slipway_gateway_provider_cost_usd", help, self.cost.clone());
    }

    pub fn of(&self, provider: &str) -> Arc<ProviderCounters> {
        self.by_provider.of(provider)
    }
}

impl ProviderCounters {
    pub fn count_tokens(&self, input: u64, output: u64, cost_micro_usd: Option<u64>) {
        self.input_tokens.inc_by(input);
        self.output_tokens.inc_by(output);
        if let Some(micro) = cost_micro_usd {
            self.cost_usd.inc_by(micro as f64 * MICRO);
        }
    }

    pub fn count_end(&self, outcome: CallOutcome, status: Option<u16>) {
        match outcome {
            // It was not sent.
            CallOutcome::Refused => {}
            CallOutcome::Succeeded => drop(self.succeeded.inc()),
            CallOutcome::Abandoned => drop(self.abandoned.inc()),
            CallOutcome::Failed => {
                self.failed.inc();
                let status = ErrorStatus::of(status);
                let at = ErrorStatus::ALL.iter().position(|other| *other == status);
                self.errors[at.expect("ALL lists every status")].inc();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_provider_and_by_the_status_of_those_that_failed() {
        let metrics = ProviderMetrics::default();
        let one = metrics.of("local-llm");
        for (outcome, status) in [
            (CallOutcome::Succeeded, Some(200)),
            (CallOutcome::Failed, Some(429)),
            (CallOutcome::Failed, Some(401)),
            (CallOutcome::Failed, Some(529)),
            (CallOutcome::Failed, None),
            (CallOutcome::Failed, Some(200)),
            (CallOutcome::Abandoned, Some(200)),
            (CallOutcome::Refused, None),
        ] {
            one.count_end(outcome, status);
        }
        one.count_tokens(5, 7, Some(2_500_000));
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let text = hostd_metrics::text(&registry);
        for line in [
            "slipway_gateway_provider_calls_total{provider=\"local-llm\",outcome=\"succeeded\"} 1",
            "slipway_gateway_provider_calls_total{provider=\"local-llm\",outcome=\"failed\"} 5",
            "slipway_gateway_provider_calls_total{provider=\"local-llm\",outcome=\"abandoned\"} 1",
            "slipway_gateway_provider_errors_total{provider=\"local-llm\",status=\"429\"} 1",
            "slipway_gateway_provider_errors_total{provider=\"local-llm\",status=\"4xx\"} 1",
            "slipway_gateway_provider_errors_total{provider=\"local-llm\",status=\"5xx\"} 1",
            "slipway_gateway_provider_errors_total{provider=\"local-llm\",status=\"none\"} 2",
            "slipway_gateway_provider_tokens_total{provider=\"local-llm\",direction=\"output\"} 7",
            "slipway_gateway_provider_cost_usd_total{provider=\"local-llm\"} 2.5",
            "slipway_gateway_provider_calls_total{provider=\"other\",outcome=\"failed\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
