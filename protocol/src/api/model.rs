//! Models: providers, the models that tasks may use, prices and budgets.

use super::{Label, SecretRef};
use crate::Dialect;
use serde::{Deserialize, Serialize};

/// A provider to add or change: `PUT /v1/model-providers/{name}`.
// Not `Debug`: it may hold a key.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ProviderSpec {
    /// API that the provider speaks. Default: the stored one, or implied by the names `anthropic`, `openai` and `gemini`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// Base URL, with the version where the API has one, as in `https://example.com/v1`. Default: the stored one, or that
    /// of the vendor of the dialect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// API key, of 8 characters or more; no response shows it. A new provider needs `key`, `key_from` or `no_key`. When absent the
    /// stored key is kept, unless scheme, host or port of `base_url` change: then it must be given again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Secret that is the key, as in `secret:NAME`, instead of `key`: one of the provider's tenant, or of the operator's
    /// tenant `default` where all tenants use the provider. A new value of the secret is used from the next call on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_from: Option<SecretRef>,
    /// The provider needs no key, as a server on this machine may. A stored key is deleted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_key: bool,
    /// Models that tasks may use; an empty list allows any name. When absent the stored list is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<ModelSpec>>,
    /// Model, or its alias, for tasks that name none. The stored one is kept when `models` and `default` are both absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Restricts the provider to tasks of this tenant; absent: all tenants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Label>,
    /// Whether hostd first lists the provider's models with the key (default: true). A provider that refuses the key is
    /// not added. A default model is chosen from the list where `default` is absent and `models` has not exactly one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Name of the model at the provider.
    pub name: String,
    /// Alternative name that tasks may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<ModelPrice>,
}

/// Price in dollars per million tokens. Cached tokens cost as much as other input unless their price is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    pub input: f64,
    pub output: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

/// A configured provider, without its key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderView {
    pub name: String,
    pub dialect: Dialect,
    pub base_url: String,
    pub has_key: bool,
    /// Secret that is the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_from: Option<SecretRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Label>,
    pub models: Vec<ModelSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    pub created_at: String,
    /// Why tasks cannot use the provider, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// A risk of this configuration, or a check that could not be made when the provider was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// A model that the caller's tasks may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelView {
    /// Name to use in a task: an alias, the model's own name, or `provider/name`. `provider/*` stands for any name.
    pub name: String,
    pub provider: String,
    /// Name of the model at the provider; absent where any name is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub dialect: Dialect,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<ModelPrice>,
    /// Whether tasks that name no model use this one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
}

/// Limits on the model use of one task; an absent field is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct TaskBudget {
    /// Tokens of every kind: input, output, cache reads and cache writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

/// Limits on the model use of all tasks of a tenant together: `PUT /v1/budgets/{tenant}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BudgetSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    pub per: BudgetPeriod,
}

/// When the counters of a budget are reset. Days and months are UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BudgetPeriod {
    Day,
    Month,
    Total,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BudgetView {
    pub tenant: Label,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    pub per: BudgetPeriod,
    pub used: BudgetUse,
}

/// Model use since the period began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BudgetUse {
    pub tokens: u64,
    pub cost_usd: f64,
    pub requests: u64,
}
