//! Resolution of model names, and validation of providers.

use crate::{GrantRequest, ModelAvailability, Models, ModelsError};
use hostd_core::BudgetBounds;
use hostd_store::fixture::{label, with_one};
use protocol::{
    Dialect::{self, Anthropic, Gemini, Openai},
    api::{ModelPrice, ModelSpec, ProviderSpec},
};

const KEY: &str = "sk-a-key-that-is-long-enough";

fn spec(dialect: Dialect, models: &[(&str, Option<&str>)]) -> ProviderSpec {
    let model = |(name, alias): &(&str, Option<&str>)| ModelSpec {
        name: (*name).to_owned(),
        alias: alias.map(str::to_owned),
        price: None,
    };
    let models = models.iter().map(model).collect();
    ProviderSpec {
        dialect: Some(dialect),
        key: Some(KEY.to_owned()),
        models: Some(models),
        ..ProviderSpec::default()
    }
}

async fn models() -> (tempfile::TempDir, Models) {
    let (dir, store, _) = with_one().await;
    let models = Models::load(store, dir.path(), BudgetBounds::default()).await.expect("nothing is there");
    (dir, models)
}

async fn resolve(
    models: &Models,
    tenant: &str,
    name: Option<&str>,
    dialects: &[Dialect],
) -> Result<String, String> {
    let tenant = label(tenant);
    let request = GrantRequest { tenant: &tenant, model: name.map(str::to_owned), dialects, budget: None };
    match models.grant(request).await {
        Ok(granted) => Ok(format!("{}/{}", granted.model.provider, granted.model.model)),
        Err(error) => Err(error.to_string()),
    }
}

/// Three shared providers, and one of the tenant `other` with the name of one of them.
async fn providers() -> (tempfile::TempDir, Models) {
    let (dir, models) = models().await;
    let nothing = resolve(&models, "acme", None, &[Anthropic]).await.expect_err("there is none");
    assert!(nothing.contains("slipway model add"), "{nothing}");
    let large = spec(Anthropic, &[("large-4", Some("large")), ("small-4", None), ("shared", None)]);
    models
        .put_provider("one", &ProviderSpec { default: Some("large".to_owned()), ..large })
        .await
        .expect("good");
    models
        .put_provider("two", &spec(Openai, &[("vendor/wide", Some("wide")), ("shared", None)]))
        .await
        .expect("good");
    models.put_provider("any", &spec(Gemini, &[])).await.expect("good");
    let own = ProviderSpec { tenant: Some(label("other")), ..spec(Anthropic, &[("own-1", None)]) };
    models.put_provider("one", &own).await.expect("good");
    (dir, models)
}

const BOTH: &[Dialect] = &[Anthropic, Openai];

#[tokio::test]
async fn a_model_is_named_by_alias_by_its_name_or_with_its_provider() {
    let (_dir, models) = providers().await;
    let both = BOTH;
    let table = [
        (Some("large"), both, Ok("one/large-4")),
        (Some("large-4"), both, Ok("one/large-4")),
        (Some("one/large"), both, Ok("one/large-4")),
        (Some("one/large-4"), both, Ok("one/large-4")),
        (Some("vendor/wide"), both, Ok("two/vendor/wide")),
        (Some("two/vendor/wide"), both, Ok("two/vendor/wide")),
        (Some("any/thing/at-all"), &[Gemini], Ok("any/thing/at-all")),
        (Some("thing"), &[Gemini], Ok("any/thing")),
        (Some("shared"), &[Openai], Ok("two/shared")),
        (
            Some("shared"),
            both,
            Err("more than one provider has \"shared\"; say which: one/shared, two/shared"),
        ),
        (Some("none"), &[Openai], Err("there is no model \"none\" here; there are: wide, two/shared")),
        (
            Some("one/none"),
            &[Anthropic],
            Err("there is no model \"one/none\" here; there are: large, one/small-4, one/shared"),
        ),
        (Some("wide"), &[Anthropic], Err("\"wide\" speaks openai, and the agent speaks anthropic")),
        // The name of a provider means its default model.
        (Some("one"), both, Ok("one/large-4")),
        (Some("one"), &[Openai], Err("\"one\" speaks anthropic, and the agent speaks openai")),
        (
            Some("two"),
            both,
            Err(
                "the provider two has no default model: name one as two/MODEL, or give it a default with `slipway model add two --default MODEL`",
            ),
        ),
        (
            Some("any"),
            &[Gemini],
            Err(
                "the provider any has no default model: name one as any/MODEL, or give it a default with `slipway model add any --default MODEL`",
            ),
        ),
        (None, both, Ok("one/large-4")),
        (
            None,
            &[Openai],
            Err(
                "say which model, or give a provider a default with `slipway model add … --default`; there are: wide, two/shared",
            ),
        ),
    ];
    for (name, dialects, expected) in table {
        let found = resolve(&models, "acme", name, dialects).await;
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{name:?} {dialects:?}");
    }
}

#[tokio::test]
async fn an_agent_gets_the_vendors_name_unless_it_needs_quoting() {
    let (_dir, models) = providers().await;
    let odd = spec(Openai, &[("odd[1m]", Some("odd"))]);
    models.put_provider("strange", &odd).await.expect("good");
    let tenant = label("acme");
    for (name, expected) in [("odd", "odd"), ("wide", "vendor/wide")] {
        let request =
            GrantRequest { tenant: &tenant, model: Some(name.to_owned()), dialects: BOTH, budget: None };
        assert_eq!(models.grant(request).await.expect("granted").model.name, expected);
    }
}

#[tokio::test]
async fn a_tenants_own_provider_hides_a_shared_one() {
    let (_dir, models) = providers().await;
    // The provider has one model, which is its default.
    assert_eq!(resolve(&models, "other", None, BOTH).await.as_deref(), Ok("one/own-1"));
    assert!(resolve(&models, "other", Some("large"), BOTH).await.is_err());
    let views = models.available(&label("acme"));
    let shown: Vec<_> = views.iter().map(|view| (view.name.as_str(), view.default)).collect();
    let expected = [
        ("large", true),
        ("one/small-4", false),
        ("one/shared", false),
        ("wide", false),
        ("two/shared", false),
        ("any/*", false),
    ];
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn a_provider_counts_only_where_tasks_can_use_it() {
    let (_dir, models) = models().await;
    let availability = |dialect| models.availability(&label("acme"), dialect);
    let at = |url: Option<&str>, dialect| ProviderSpec {
        key: None,
        no_key: true,
        base_url: url.map(str::to_owned),
        ..spec(dialect, &[])
    };
    assert_eq!(availability(Anthropic), ModelAvailability::None);
    // The vendor's own API without a key.
    let configured = models.put_provider("anthropic", &at(None, Anthropic)).await.expect("written");
    assert_eq!(
        configured.problem().as_deref(),
        Some("it has no key: `slipway model add anthropic` asks for one")
    );
    assert_eq!(availability(Anthropic), ModelAvailability::None);
    let local = models.put_provider("local", &at(Some("http://127.0.0.1:9/v1"), Anthropic)).await;
    assert_eq!(local.expect("written").problem(), None);
    assert_eq!(availability(Anthropic), ModelAvailability::Named);
    let default = ProviderSpec { default: Some("m".to_owned()), ..spec(Openai, &[]) };
    models.put_provider("two", &default).await.expect("written");
    assert_eq!(
        (availability(Openai), availability(Gemini)),
        (ModelAvailability::Default, ModelAvailability::None)
    );
}

#[tokio::test]
async fn an_invalid_spec_is_refused_by_field_and_a_key_is_not_repeated() {
    let (_dir, models) = models().await;
    let good = || spec(Openai, &[("m", None)]);
    let url = |url: &str| ProviderSpec { base_url: Some(url.to_owned()), ..good() };
    let price = |input| {
        let price = ModelPrice { input, ..ModelPrice::default() };
        let model = ModelSpec { name: "m".to_owned(), alias: None, price: Some(price) };
        ProviderSpec { models: Some(vec![model]), ..good() }
    };
    let table = [
        ("UPPER", "name", good()),
        ("a/b", "name", good()),
        ("mine", "dialect", ProviderSpec { dialect: None, ..good() }),
        ("mine", "base_url", url("ftp://x/v1")),
        ("mine", "base_url", url("https://user:pass@x/v1")),
        ("mine", "base_url", url("https://x/v1?key=1")),
        ("mine", "base_url", url("/v1")),
        ("mine", "key", ProviderSpec { key: Some("two words".to_owned()), ..good() }),
        ("mine", "key", ProviderSpec { key: Some(String::new()), ..good() }),
        ("mine", "key", ProviderSpec { key: Some("seven-7".to_owned()), ..good() }),
        ("mine", "key", ProviderSpec { key: None, ..good() }),
        ("mine", "no_key", ProviderSpec { no_key: true, ..good() }),
        ("mine", "models", spec(Openai, &[("m", None), ("m", None)])),
        ("mine", "models", spec(Openai, &[("m", Some("n")), ("n", None)])),
        ("mine", "models", spec(Openai, &[("m", Some("a/b"))])),
        ("mine", "models", spec(Openai, &[("", None)])),
        ("mine", "models", price(-1.0)),
        ("mine", "models", price(f64::NAN)),
        ("mine", "default", ProviderSpec { default: Some("n".to_owned()), ..good() }),
    ];
    for (name, field, spec) in table {
        match models.put_provider(name, &spec).await {
            Err(ModelsError::Invalid { field: found, message }) => {
                assert_eq!(found, field, "{message}");
                assert!(!message.contains("two words"), "{message}");
            }
            Err(other) => panic!("{field}: {other}"),
            Ok(_) => panic!("{field}: taken"),
        }
    }
    let warned = |url: &str, has_key: bool| ProviderSpec {
        key: has_key.then(|| KEY.to_owned()),
        no_key: !has_key,
        base_url: Some(url.to_owned()),
        ..good()
    };
    for (spec, warns) in [
        (warned("http://10.0.0.1/v1/", true), true),
        (warned("http://10.0.0.1/v1", false), false),
        (warned("http://127.0.0.1:9/v1", true), false),
        (warned("http://[::1]:9/v1", true), false),
        (warned("https://example.com/v1", true), false),
    ] {
        let configured = models.put_provider("mine", &spec).await.expect("good");
        assert_eq!(configured.warning().is_some(), warns, "{}", configured.record.base_url);
        assert!(!configured.record.base_url.ends_with('/'));
    }
}
