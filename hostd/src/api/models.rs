//! Models available to a caller, and their providers. Keys are write-only.

use super::{
    call::Call,
    error::{CallError, CallResult},
    views::{no_content, ok},
};
use hostd_core::{missing_models, rfc3339};
use hostd_models::{
    ConfiguredProvider, ModelsError, ProviderDraft,
    gateway::{Gateway, ListModelsError, ModelList},
};
use protocol::api::{Label, Page, ProviderSpec, ProviderView};

pub async fn list(call: Call) -> CallResult {
    let items = call.api.models.available(&call.caller.tenant);
    Ok(ok(&Page { items, next: None }))
}

pub async fn put(call: Call) -> CallResult {
    let mut spec: ProviderSpec = call.json()?;
    let (api, name) = (&call.api, call.param("provider")?);
    let draft = api.models.draft(name, &spec).await?;
    let unverified = match draft.filter(|_| spec.verify != Some(false)) {
        Some(draft) => verify_provider(&api.gateway, &draft, &mut spec).await?,
        None => None,
    };
    let known = api.models.put_provider(name, &spec).await?;
    let mut view = view(&known);
    let warnings: Vec<String> = [view.warning.take(), unverified].into_iter().flatten().collect();
    view.warning = (!warnings.is_empty()).then(|| warnings.join("; "));
    Ok(ok(&view))
}

/// Lists the models of a provider, and sets the default where the spec has none. Returns a warning where the
/// provider could not be verified; only a refused key is an error.
async fn verify_provider(
    gateway: &Gateway,
    ProviderDraft { provider, models, default }: &ProviderDraft,
    spec: &mut ProviderSpec,
) -> Result<Option<String>, ModelsError> {
    let offer = match gateway.list_models(provider).await {
        Ok(offer) => offer,
        Err(ListModelsError::KeyRefused(words)) => {
            let (provider, had_key) = (provider.name.clone(), provider.key.is_some());
            return Err(ModelsError::KeyRefused { provider, had_key, words });
        }
        Err(ListModelsError::Unavailable(words)) => {
            let key = if provider.key.is_some() { "whether its key is good and " } else { "" };
            return Ok(Some(format!("it is not known {key}which models it has: {words}")));
        }
    };
    let listed: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    // Where models are listed, the default is one of them, perhaps by its alias.
    let alone = default.as_deref().filter(|_| listed.is_empty());
    let named: Vec<&str> = listed.iter().copied().chain(alone).collect();
    let warning = unlisted_models(&provider.name, &named, &offer);
    if default.is_none() && listed.len() != 1 {
        spec.default = offer.default_model(provider.dialect, &listed);
    }
    Ok(warning)
}

fn unlisted_models(provider: &str, named: &[&str], offer: &ModelList) -> Option<String> {
    let missing = if offer.more { Vec::new() } else { missing_models(named, &offer.models) };
    (!missing.is_empty()).then(|| format!("{provider} does not list {} among its models", missing.join(", ")))
}

pub async fn providers(call: Call) -> CallResult {
    let tenant = (!call.caller.operator).then_some(&call.caller.tenant);
    let items = call.api.models.providers(tenant).iter().map(view).collect();
    Ok(ok(&Page { items, next: None }))
}

pub async fn remove(call: Call) -> CallResult {
    let invalid = |_| CallError::invalid("tenant", "must be the name of a tenant");
    let tenant = call.query.text("tenant").map(Label::parse).transpose().map_err(invalid)?;
    call.api.models.remove_provider(tenant.as_ref(), call.param("provider")?).await?;
    Ok(no_content())
}

fn view(known: &ConfiguredProvider) -> ProviderView {
    let record = &known.record;
    ProviderView {
        name: record.name.clone(),
        dialect: record.dialect,
        base_url: record.base_url.clone(),
        has_key: known.has_key(),
        key_from: record.key_from.clone(),
        tenant: record.tenant.clone(),
        models: record.models.clone(),
        default: record.default.clone(),
        created_at: rfc3339(record.created_ms),
        problem: known.problem(),
        warning: known.warning(),
    }
}
