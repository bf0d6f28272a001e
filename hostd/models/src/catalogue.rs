//! The catalogue of models: which exist for a tenant, and which one a name resolves to. No I/O.

use super::{KeyProblem, ModelsError, Price, Provider};
use hostd_store::ProviderRecord;
use protocol::{
    Dialect,
    api::{Label, ModelPrice, ModelSpec, ModelView},
};
use std::sync::Arc;

/// Most names that an error lists.
const NAMED_MAX: usize = 20;
const MICRO: f64 = 1_000_000.0;

/// A provider as stored, and as the gateway uses it.
#[derive(Debug, Clone)]
pub struct ConfiguredProvider {
    pub record: ProviderRecord,
    pub provider: Arc<Provider>,
    /// Why the key cannot be used.
    pub problem: Option<KeyProblem>,
}

/// All providers, oldest first.
#[derive(Debug, Default)]
pub struct Catalogue {
    pub providers: Vec<ConfiguredProvider>,
}

/// Which models of a dialect the tasks of a tenant can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelAvailability {
    /// No usable provider.
    None,
    /// Only models that a task names.
    Named,
    /// Also a default for tasks that name none.
    Default,
}

/// The model that a name resolves to.
#[derive(Debug, Clone)]
pub struct ResolvedModel<'a> {
    pub configured: &'a ConfiguredProvider,
    /// The provider's name of the model.
    pub model: String,
    pub alias: Option<String>,
    pub price: Option<Price>,
}

impl<'a> ResolvedModel<'a> {
    fn listed(configured: &'a ConfiguredProvider, spec: &ModelSpec) -> Self {
        let ModelSpec { name, alias, .. } = spec.clone();
        Self { configured, model: name, alias, price: spec.price.as_ref().map(price) }
    }

    fn unlisted(configured: &'a ConfiguredProvider, model: &str) -> Self {
        Self { configured, model: model.to_owned(), alias: None, price: None }
    }

    /// Returns the name to give to the agent. Many agents know models by their vendor's names, but some names
    /// break the configuration of an agent; those are replaced by the alias.
    pub fn agent_name(&self) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@+~".contains(&byte);
        let strange = !self.model.bytes().all(plain);
        self.alias.clone().filter(|_| strange).unwrap_or_else(|| self.model.clone())
    }

    pub fn full_name(&self) -> String {
        format!("{}/{}", self.configured.record.name, self.model)
    }
}

impl ConfiguredProvider {
    /// Returns a model by name or alias; any name where the provider has no list.
    pub fn model(&self, name: &str) -> Option<ResolvedModel<'_>> {
        if name.is_empty() {
            return None;
        }
        if self.record.models.is_empty() {
            return Some(ResolvedModel::unlisted(self, name));
        }
        self.listed(name)
    }

    fn listed(&self, name: &str) -> Option<ResolvedModel<'_>> {
        let spec = self.record.models.iter().find(|spec| is_called(spec, name))?;
        Some(ResolvedModel::listed(self, spec))
    }

    /// Returns the default model, or the only one of the list.
    fn default_model(&self) -> Option<ResolvedModel<'_>> {
        match (&self.record.default, self.record.models.as_slice()) {
            (Some(name), _) => self.model(name),
            (None, [only]) => Some(ResolvedModel::listed(self, only)),
            (None, _) => None,
        }
    }
}

fn is_called(spec: &ModelSpec, name: &str) -> bool {
    spec.name == name || spec.alias.as_deref() == Some(name)
}

impl Catalogue {
    /// Returns the providers that tasks of a tenant may use. The tenant's own come first, and hide shared
    /// ones of the same name.
    pub fn visible(&self, tenant: &Label) -> Vec<&ConfiguredProvider> {
        let own = |configured: &&ConfiguredProvider| configured.record.tenant.as_ref() == Some(tenant);
        let hidden = |configured: &&ConfiguredProvider| {
            self.providers.iter().filter(own).any(|other| other.record.name == configured.record.name)
        };
        let shared = self
            .providers
            .iter()
            .filter(|configured| configured.record.tenant.is_none() && !hidden(configured));
        self.providers.iter().filter(own).chain(shared).collect()
    }

    pub fn provider(&self, tenant: &Label, name: &str) -> Option<&ConfiguredProvider> {
        self.visible(tenant).into_iter().find(|configured| configured.record.name == name)
    }

    /// Resolves the model that a task names, among providers that speak one of the dialects. The name of a
    /// provider means its default model, unless a model has that name.
    pub fn resolve(
        &self,
        tenant: &Label,
        name: &str,
        dialects: &[Dialect],
    ) -> Result<ResolvedModel<'_>, ModelsError> {
        let visible = self.visible(tenant);
        let speaks = |configured: &ConfiguredProvider| dialects.contains(&configured.record.dialect);
        let mut found: Vec<ResolvedModel<'_>> =
            visible.iter().filter_map(|configured| configured.listed(name)).collect();
        if let Some((provider, model)) = name.split_once('/') {
            let named = visible.iter().filter(|configured| configured.record.name == provider);
            found.extend(named.filter_map(|configured| configured.model(model)));
        }
        if found.is_empty()
            && let Some(named) = visible.iter().find(|configured| configured.record.name == name)
        {
            found.push(named.default_model().ok_or_else(|| no_default(&named.record.name))?);
        }
        if found.is_empty() {
            let any =
                visible.iter().filter(|configured| configured.record.models.is_empty() && speaks(configured));
            found.extend(any.filter_map(|configured| configured.model(name)));
        }
        let other = found.first().map(|resolved| resolved.configured.record.dialect);
        found.retain(|resolved| speaks(resolved.configured));
        match (found.as_slice(), other) {
            ([], Some(speaks)) => {
                Err(ModelsError::DialectMismatch { model: name.to_owned(), speaks, agent: dialects.to_vec() })
            }
            ([], None) if visible.is_empty() => Err(no_provider()),
            ([], None) => {
                let available = self.names(tenant, dialects);
                Err(ModelsError::Unknown { model: name.to_owned(), available })
            }
            ([_], _) => Ok(found.remove(0)),
            // Two names of the same model.
            ([first, rest @ ..], _)
                if rest.iter().all(|resolved| resolved.full_name() == first.full_name()) =>
            {
                Ok(found.remove(0))
            }
            (several, _) => {
                let named = several.iter().map(ResolvedModel::full_name).take(NAMED_MAX).collect();
                Err(ModelsError::Ambiguous { model: name.to_owned(), named })
            }
        }
    }

    /// Returns the model of a task that names none.
    pub fn default_model(
        &self,
        tenant: &Label,
        dialects: &[Dialect],
    ) -> Result<ResolvedModel<'_>, ModelsError> {
        let visible = self.visible(tenant);
        if visible.is_empty() {
            return Err(no_provider());
        }
        let mut speaking =
            visible.into_iter().filter(|configured| dialects.contains(&configured.record.dialect));
        speaking.find_map(ConfiguredProvider::default_model).ok_or_else(|| {
            let names = self.names(tenant, dialects);
            ModelsError::NoModel(match names.is_empty() {
                true => {
                    let names: Vec<&str> = dialects.iter().map(|dialect| dialect.as_str()).collect();
                    let names = names.join(" or ");
                    format!("no model provider speaks {names}: add one with `slipway model add NAME --dialect …`")
                }
                false => format!(
                    "say which model, or give a provider a default with `slipway model add … --default`; there are: {}",
                    names.join(", ")
                ),
            })
        })
    }

    /// Returns the names that a task can use, for an error.
    pub fn names(&self, tenant: &Label, dialects: &[Dialect]) -> Vec<String> {
        let visible = self.visible(tenant);
        let fits = visible.into_iter().filter(|configured| dialects.contains(&configured.record.dialect));
        fits.flat_map(views_of).map(|view| view.name).take(NAMED_MAX).collect()
    }

    /// Returns whether tasks of a tenant have a model of this dialect by name, and whether they have a
    /// default.
    pub fn availability(&self, tenant: &Label, dialect: Dialect) -> ModelAvailability {
        let usable = |configured: &ConfiguredProvider| configured.problem().is_none();
        let mut speaking =
            self.visible(tenant).into_iter().filter(|configured| configured.record.dialect == dialect);
        if !speaking.any(usable) {
            return ModelAvailability::None;
        }
        match self.default_model(tenant, &[dialect]) {
            Ok(default) if usable(default.configured) => ModelAvailability::Default,
            Ok(_) | Err(_) => ModelAvailability::Named,
        }
    }

    /// Returns the models that tasks of a tenant may use, as the API shows them.
    pub fn views(&self, tenant: &Label) -> Vec<ModelView> {
        let visible = self.visible(tenant);
        let mut views: Vec<ModelView> = visible.iter().flat_map(|configured| views_of(configured)).collect();
        for dialect in Dialect::ALL {
            let Ok(default) = self.default_model(tenant, &[dialect]) else { continue };
            let (provider, model) = (&default.configured.record.name, &default.model);
            let is_it = |view: &&mut ModelView| {
                view.provider == *provider && (view.model.as_ref() == Some(model) || view.model.is_none())
            };
            if let Some(view) = views.iter_mut().find(is_it) {
                view.default = true;
            }
        }
        views
    }
}

fn no_default(provider: &str) -> ModelsError {
    ModelsError::NoModel(format!(
        "the provider {provider} has no default model: name one as {provider}/MODEL, or give it a default with \
         `slipway model add {provider} --default MODEL`"
    ))
}

fn no_provider() -> ModelsError {
    let message =
        "there is no model provider yet: add one with `slipway model add anthropic`, which asks for its key";
    ModelsError::NoModel(message.to_owned())
}

fn views_of(configured: &ConfiguredProvider) -> Vec<ModelView> {
    let ProviderRecord { name: provider, dialect, models, .. } = &configured.record;
    let view = |name: String, model: Option<String>, price: Option<ModelPrice>| ModelView {
        name,
        provider: provider.clone(),
        model,
        dialect: *dialect,
        price,
        default: false,
    };
    if models.is_empty() {
        return vec![view(format!("{provider}/*"), None, None)];
    }
    let of_spec = |spec: &ModelSpec| {
        let name = spec.alias.clone().unwrap_or_else(|| format!("{provider}/{}", spec.name));
        view(name, Some(spec.name.clone()), spec.price)
    };
    models.iter().map(of_spec).collect()
}

/// Converts dollars to millionths of a dollar.
pub fn price(of: &ModelPrice) -> Price {
    let micro = |dollars: f64| (dollars * MICRO).round() as u64;
    Price {
        input: micro(of.input),
        output: micro(of.output),
        cache_read: micro(of.cache_read.unwrap_or(of.input)),
        cache_write: micro(of.cache_write.unwrap_or(of.input)),
    }
}
