//! Providers: validated, their keys encrypted, stored; used from the next call on. Changed by the
//! administrator of the host.

use super::{
    KeyProblem, Models, ModelsError, Provider, ProviderKey,
    catalogue::{ConfiguredProvider, ModelAvailability},
    error::invalid,
    gateway::default_base_url,
    limits,
    service::{key_context, now_ms},
};
use hostd_store::{ProviderRecord, SecretError, SecretValue};
use hyper::Uri;
use protocol::{
    Dialect,
    api::{Label, ModelPrice, ModelSpec, ModelView, ProviderSpec, SecretRef},
};
use std::net::IpAddr;

/// A provider that is not stored yet, with its models.
pub struct ProviderDraft {
    pub provider: Provider,
    pub models: Vec<ModelSpec>,
    pub default: Option<String>,
}

impl Models {
    /// Returns the provider as it would be stored, to be tried first; `None` where its stored key cannot be
    /// used.
    pub async fn draft(&self, name: &str, spec: &ProviderSpec) -> Result<Option<ProviderDraft>, ModelsError> {
        let configured = self.find(spec.tenant.as_ref(), name);
        let mut record = validated(name, spec, configured.as_ref())?;
        let key = match key_change(name, spec, configured.as_ref())? {
            KeyChange::Forget => None,
            KeyChange::Set(key) => Some(ProviderKey(key.to_owned().into())),
            KeyChange::Refer(reference) => {
                record.key_from = Some(reference.clone());
                self.referred_key(&record).await?.map(ProviderKey)
            }
            KeyChange::Keep => match configured {
                Some(configured) if configured.problem.is_some() => return Ok(None),
                Some(configured) => configured.provider.key.clone(),
                None => None,
            },
        };
        let ProviderRecord { dialect, base_url, models, default, .. } = record;
        let provider = Provider { name: name.to_owned(), dialect, base_url, key };
        Ok(Some(ProviderDraft { provider, models, default }))
    }

    /// Returns the key that a new record refers to. A secret that is missing is an error of the caller.
    async fn referred_key(&self, record: &ProviderRecord) -> Result<Option<SecretValue>, ModelsError> {
        let key = self.service.key_of(record).await;
        key.map_err(|problem| match problem {
            KeyProblem::Secret(SecretError::Missing { .. }) | KeyProblem::Unfit { .. } => {
                invalid("key_from", problem.to_string())
            }
            KeyProblem::Sealed(_) | KeyProblem::Secret(_) => {
                ModelsError::Key { provider: record.name.clone(), source: problem }
            }
        })
    }

    /// Creates or changes a provider: key, base URL and models are kept where the spec gives none.
    pub async fn put_provider(
        &self,
        name: &str,
        spec: &ProviderSpec,
    ) -> Result<ConfiguredProvider, ModelsError> {
        // The lock covers read and write of the provider.
        let _changing = self.service.changing.lock().await;
        let configured = self.find(spec.tenant.as_ref(), name);
        let mut record = validated(name, spec, configured.as_ref())?;
        match key_change(name, spec, configured.as_ref())? {
            KeyChange::Forget => {}
            KeyChange::Set(key) => {
                let sealed = self.service.vault.seal(&key_context(&record), key);
                record.sealed = Some(sealed.map_err(ModelsError::Seal)?);
            }
            KeyChange::Refer(reference) => {
                record.key_from = Some(reference.clone());
                self.referred_key(&record).await?;
            }
            KeyChange::Keep => {
                let before = configured.map(|configured| configured.record);
                (record.sealed, record.key_from) =
                    before.map(|before| (before.sealed, before.key_from)).unwrap_or_default();
            }
        }
        let tenant = record.tenant.clone();
        let written = self.service.store.put_provider(record).await?;
        written.ok_or(ModelsError::TooMany("model providers"))?;
        self.service.read_providers().await?;
        self.find(tenant.as_ref(), name).ok_or(ModelsError::NotFound)
    }

    pub async fn remove_provider(&self, tenant: Option<&Label>, name: &str) -> Result<(), ModelsError> {
        let _changing = self.service.changing.lock().await;
        let there = self.service.store.remove_provider(tenant, name).await?;
        self.service.read_providers().await?;
        if there { Ok(()) } else { Err(ModelsError::NotFound) }
    }

    /// Returns all providers, or those that a tenant may use.
    pub fn providers(&self, tenant: Option<&Label>) -> Vec<ConfiguredProvider> {
        let catalogue = self.service.catalogue();
        match tenant {
            None => catalogue.providers.clone(),
            Some(tenant) => catalogue.visible(tenant).into_iter().cloned().collect(),
        }
    }

    /// Returns the models that tasks of a tenant may use.
    pub fn available(&self, tenant: &Label) -> Vec<ModelView> {
        self.service.catalogue().views(tenant)
    }

    /// Returns which models of a dialect tasks of a tenant can use.
    pub fn availability(&self, tenant: &Label, dialect: Dialect) -> ModelAvailability {
        self.service.catalogue().availability(tenant, dialect)
    }

    fn find(&self, tenant: Option<&Label>, name: &str) -> Option<ConfiguredProvider> {
        let catalogue = self.service.catalogue();
        let same = |configured: &&ConfiguredProvider| {
            configured.record.tenant.as_ref() == tenant && configured.record.name == name
        };
        catalogue.providers.iter().find(same).cloned()
    }
}

/// Validates a spec, including its key, which is not part of the result. `configured` is the provider of this
/// name.
fn validated(
    name: &str,
    spec: &ProviderSpec,
    configured: Option<&ConfiguredProvider>,
) -> Result<ProviderRecord, ModelsError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > limits::NAME_MAX_BYTES || !name.bytes().all(plain) {
        let most = limits::NAME_MAX_BYTES;
        let message = format!("must be 1 to {most} of a to z, 0 to 9, '-', '_' and '.'");
        return Err(invalid("name", message));
    }
    let before = configured.map(|configured| configured.record.dialect);
    let dialect =
        spec.dialect.or(before).or_else(|| Dialect::from_name(name)).ok_or_else(|| {
            invalid("dialect", format!("say what {name} speaks: anthropic, openai or gemini"))
        })?;
    let base_url = match (&spec.base_url, configured) {
        (Some(url), _) => base_url(url)?,
        // The base URL was set explicitly, not implied by the dialect.
        (None, Some(configured))
            if configured.record.base_url != default_base_url(configured.record.dialect) =>
        {
            configured.record.base_url.clone()
        }
        (None, Some(_) | None) => default_base_url(dialect).to_owned(),
    };
    if let (KeyChange::Keep, Some(configured)) = (key_change(name, spec, configured)?, configured) {
        check_kept_key(&configured.record, &base_url)?;
    }
    // Models of another dialect do not apply.
    let kept = configured.filter(|configured| spec.models.is_none() && configured.record.dialect == dialect);
    let models =
        spec.models.clone().or(kept.map(|configured| configured.record.models.clone())).unwrap_or_default();
    let default = spec.default.clone().or(kept.and_then(|configured| configured.record.default.clone()));
    check_models(&models)?;
    let called =
        |name: &String| models.iter().any(|model| model.name == *name || model.alias.as_ref() == Some(name));
    if let Some(default) = &default {
        check_name("default", default)?;
        if !models.is_empty() && !called(default) {
            return Err(invalid("default", format!("{default:?} is not among the models")));
        }
    }
    Ok(ProviderRecord {
        tenant: spec.tenant.clone(),
        name: name.to_owned(),
        dialect,
        base_url,
        sealed: None,
        key_from: None,
        models,
        default,
        created_ms: now_ms(),
    })
}

/// The change to the key of a provider.
enum KeyChange<'a> {
    Set(&'a str),
    /// The key is a secret.
    Refer(&'a SecretRef),
    Keep,
    /// The provider needs no key.
    Forget,
}

/// Reads what a spec says of the key. A provider without a key has to be explicit: a key that is missing or
/// empty is an error of the caller.
fn key_change<'a>(
    name: &str,
    spec: &'a ProviderSpec,
    configured: Option<&ConfiguredProvider>,
) -> Result<KeyChange<'a>, ModelsError> {
    const NONE: &str = "or no_key (`--no-key`) where it wants none";
    let (least, most) = (limits::KEY_MIN_BYTES, limits::KEY_MAX_BYTES);
    if let Some(reference) = &spec.key_from {
        return match spec.key.is_some() || spec.no_key {
            true => Err(invalid("key_from", "cannot be given together with key or no_key")),
            false => Ok(KeyChange::Refer(reference)),
        };
    }
    match (spec.key.as_deref(), spec.no_key) {
        (Some(_), true) => Err(invalid("no_key", "cannot be given together with a key")),
        (None, true) => Ok(KeyChange::Forget),
        (Some(""), false) => Err(invalid("key", format!("is empty: give the key of {name}, {NONE}"))),
        (Some(key), false) if limits::is_key(key) => Ok(KeyChange::Set(key)),
        // The error must not repeat the key.
        (Some(_), false) => {
            let message = format!("must be {least} to {most} visible ASCII characters without spaces");
            Err(invalid("key", message))
        }
        (None, false) if configured.is_none() => {
            Err(invalid("key", format!("is missing: {name} is new; give its key, {NONE}")))
        }
        (None, false) => Ok(KeyChange::Keep),
    }
}

/// Refuses to send a stored key to another origin: a caller who redirects it must know it.
fn check_kept_key(configured: &ProviderRecord, base_url: &str) -> Result<(), ModelsError> {
    let (before, after) = (origin(&configured.base_url), origin(base_url));
    if !has_key(configured) || (before.is_some() && before == after) {
        return Ok(());
    }
    let shown = |url: &str, origin: Option<(String, String, u16)>| match origin {
        Some((scheme, host, port)) => format!("{scheme}://{host}:{port}"),
        None => url.to_owned(),
    };
    let (before, after) = (shown(&configured.base_url, before), shown(base_url, after));
    let message = format!(
        "the key that is there was given for {before} and is not sent to {after}: give the key again, or \
         no_key for none"
    );
    Err(invalid("key", message))
}

/// Whether a provider has a key, of its own or by reference.
fn has_key(record: &ProviderRecord) -> bool {
    record.sealed.is_some() || record.key_from.is_some()
}

/// Returns scheme, host and port.
fn origin(url: &str) -> Option<(String, String, u16)> {
    let url: Uri = url.parse().ok()?;
    let (scheme, host) = (url.scheme_str()?.to_ascii_lowercase(), url.host()?.to_ascii_lowercase());
    let port = url.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    Some((scheme, host, port))
}

fn base_url(text: &str) -> Result<String, ModelsError> {
    let wrong = || {
        invalid(
            "base_url",
            "must be an address as in https://example.com/v1, without user, query or fragment",
        )
    };
    let url: Uri = text.parse().map_err(|_| wrong())?;
    let scheme_known = matches!(url.scheme_str(), Some("http" | "https"));
    let bare = url
        .authority()
        .is_some_and(|authority| !authority.as_str().contains('@') && !authority.host().is_empty());
    let short = text.len() <= limits::URL_MAX_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !scheme_known || !bare || !short || url.query().is_some() || text.contains(['#', '\\', '"']) {
        return Err(wrong());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn check_models(models: &[ModelSpec]) -> Result<(), ModelsError> {
    if models.len() > limits::MODELS_OF_PROVIDER_MAX {
        return Err(invalid("models", format!("are more than {}", limits::MODELS_OF_PROVIDER_MAX)));
    }
    let mut taken = std::collections::BTreeSet::new();
    for ModelSpec { name, alias, price } in models {
        check_name("models", name)?;
        if let Some(alias) = alias {
            check_name("models", alias)?;
            if alias.contains('/') {
                return Err(invalid("models", format!("the alias {alias:?} must not contain '/'")));
            }
        }
        for called in [Some(name), alias.as_ref().filter(|alias| *alias != name)].into_iter().flatten() {
            if !taken.insert(called) {
                return Err(invalid("models", format!("{called:?} is there twice")));
            }
        }
        let fair = |usd: f64| (0.0..=limits::PRICE_MAX_USD).contains(&usd);
        let parts =
            |price: &ModelPrice| [Some(price.input), Some(price.output), price.cache_read, price.cache_write];
        if !price.as_ref().is_none_or(|price| parts(price).into_iter().flatten().all(fair)) {
            let message =
                format!("a price must be 0 to {} dollars for a million tokens", limits::PRICE_MAX_USD);
            return Err(invalid("models", message));
        }
    }
    Ok(())
}

fn check_name(field: &'static str, name: &str) -> Result<(), ModelsError> {
    let wrong = || {
        let most = limits::NAME_MAX_BYTES;
        invalid(
            field,
            format!("{name:?} must be 1 to {most} visible ASCII characters without spaces and \"\\?#%"),
        )
    };
    if is_model_name(name) { Ok(()) } else { Err(wrong()) }
}

/// Returns whether a model can have this name.
pub fn is_model_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_graphic() && !b"\"\\?#%".contains(&byte);
    !name.is_empty() && name.len() <= limits::NAME_MAX_BYTES && name.bytes().all(good)
}

impl ConfiguredProvider {
    /// Whether it has a key, of its own or by reference.
    pub fn has_key(&self) -> bool {
        has_key(&self.record)
    }

    /// Returns why no task can use the provider, and what to do about it.
    pub fn problem(&self) -> Option<String> {
        if let Some(problem) = &self.problem {
            return Some(format!("its key cannot be used: {problem}"));
        }
        let keyless = !has_key(&self.record) && self.record.base_url == default_base_url(self.record.dialect);
        let name = &self.record.name;
        keyless.then(|| format!("it has no key: `slipway model add {name}` asks for one"))
    }

    /// Returns a warning about an unsafe configuration.
    pub fn warning(&self) -> Option<String> {
        let url: Uri = self.record.base_url.parse().ok()?;
        let host = url.host()?.trim_start_matches('[').trim_end_matches(']');
        let address: Option<IpAddr> = host.parse().ok();
        let near = host == "localhost" || address.is_some_and(|address| address.is_loopback());
        let bare = url.scheme_str() == Some("http") && has_key(&self.record) && !near;
        bare.then(|| {
            "the key goes over the network unencrypted, since base_url begins with http://; use https://"
                .to_owned()
        })
    }
}
