//! Models on the public API: who provides them, which there are, and what may be used of them.

use super::Label;
use crate::Dialect;
use serde::{Deserialize, Serialize};

/// `PUT /v1/model-providers/{name}`. Not `Debug`: it may have a key.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ProviderSpec {
    /// What it speaks; what it spoke before, or implied by the names `anthropic`, `openai` and `gemini`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// With the version where the API has one, as in `https://example.com/v1`. When absent the one that is there is
    /// kept; at first it is that of the dialect's maker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The credential, of 8 characters or more; a provider that is new needs one, or `no_key`. Shown by no answer; the
    /// one that is there is kept when absent. It is not kept where scheme, host or port of `base_url` change: then it
    /// must be given again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// It wants no key, as a server on this machine may: one that is there is forgotten.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_key: bool,
    /// Those that tasks may use; an empty list allows any name. When absent the list that is there is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<ModelSpec>>,
    /// The model, or its alias, for tasks that name none. Kept with `models` when both are absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Only for tasks of this tenant; for those of all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Label>,
    /// Whether it is asked first which models it has, with its key: yes unless `false`. One that refuses the key is
    /// not added. Where `default` is absent and there is not just one of `models`, a default is chosen from the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// As the provider calls it.
    pub name: String,
    /// Another name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<ModelPrice>,
}

/// In dollars for a million tokens. What is read from or written to a cache costs as much as other input unless
/// given.
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

/// A provider as an administrator sees it. Its key is shown to nobody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderView {
    pub name: String,
    pub dialect: Dialect,
    pub base_url: String,
    pub has_key: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Label>,
    pub models: Vec<ModelSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    pub created_at: String,
    /// Why tasks cannot use it, and what to do about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What is unwise about it, or what could not be found out when it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// A model that tasks of the caller may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelView {
    /// What a task names it by: an alias, its own name, or `provider/name`. `provider/*` is any name.
    pub name: String,
    pub provider: String,
    /// As the provider calls it; absent where any will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub dialect: Dialect,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<ModelPrice>,
    /// For tasks that name none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
}

/// What one task may use of models; what is absent has no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct TaskBudget {
    /// All of them: input, output, and what is read from or written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

/// What all tasks of a tenant together may use: `PUT /v1/budgets/{tenant}`.
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

/// When it begins anew; days and months are those of UTC.
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

/// Since the period began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BudgetUse {
    pub tokens: u64,
    pub cost_usd: f64,
    pub requests: u64,
}
