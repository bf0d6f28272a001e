//! A stored key is sent only to the origin that it was given for.

use super::{KEY, ModelsFixture, OTHER_KEY, priced};
use crate::ModelsError;
use protocol::{Dialect, api::ProviderSpec};

const HERE: &str = "https://models.example.com/v1";

fn changed(base_url: Option<&str>, key: Option<&str>) -> ProviderSpec {
    ProviderSpec {
        dialect: Some(Dialect::Openai),
        base_url: base_url.map(str::to_owned),
        key: key.filter(|key| !key.is_empty()).map(str::to_owned),
        no_key: key == Some(""),
        models: Some(vec![priced("large")]),
        ..ProviderSpec::default()
    }
}

#[tokio::test]
async fn a_key_is_kept_where_it_was_given_for_and_nowhere_else() {
    let table = [
        // Another field changes: the base URL stays as well.
        (None, None, Some((HERE, Some(KEY)))),
        (
            Some("https://models.example.com:443/v2"),
            None,
            Some(("https://models.example.com:443/v2", Some(KEY))),
        ),
        (Some("https://MODELS.example.com/v1"), None, Some(("https://MODELS.example.com/v1", Some(KEY)))),
        (Some("https://other.example.com/v1"), None, None),
        (Some("http://models.example.com/v1"), None, None),
        (Some("https://models.example.com:8443/v1"), None, None),
        (Some("https://api.openai.com/v1"), None, None),
        // A caller who gives a key may choose the origin.
        (
            Some("https://other.example.com/v1"),
            Some(OTHER_KEY),
            Some(("https://other.example.com/v1", Some(OTHER_KEY))),
        ),
        (Some("https://other.example.com/v1"), Some(""), Some(("https://other.example.com/v1", None))),
    ];
    for (base_url, key, expected) in table {
        let fixture = ModelsFixture::new().await;
        fixture.models.put_provider("mine", &changed(Some(HERE), Some(KEY))).await.expect("a good provider");
        let spec = changed(base_url, key);
        let drafted = fixture.models.draft("mine", &spec).await;
        let drafted = drafted.map(|draft| draft.expect("its key can be used").provider);
        let put =
            fixture.models.put_provider("mine", &spec).await.map(|configured| (*configured.provider).clone());
        for provider in [drafted, put] {
            let seen = match provider {
                Ok(provider) => Some((provider.base_url, provider.key.map(|key| key.0.as_str().to_owned()))),
                Err(ModelsError::Invalid { field: "key", message }) => {
                    assert!(message.contains("was given for https://models.example.com:443"), "{message}");
                    None
                }
                Err(other) => panic!("{other}"),
            };
            let expected = expected.map(|(url, key)| (url.to_owned(), key.map(str::to_owned)));
            assert_eq!(seen, expected, "{base_url:?} {key:?}");
        }
    }
}

/// As the error of a task with a refused key suggests: the name alone is enough.
#[tokio::test]
async fn a_key_is_replaced_by_naming_the_provider() {
    let fixture = ModelsFixture::new().await;
    fixture.models.put_provider("mine", &changed(Some(HERE), Some(KEY))).await.expect("a good provider");
    let key = ProviderSpec { key: Some(OTHER_KEY.to_owned()), ..ProviderSpec::default() };
    let configured = fixture.models.put_provider("mine", &key).await.expect("another key");
    assert_eq!((configured.record.dialect, configured.record.base_url.as_str()), (Dialect::Openai, HERE));
    assert_eq!(configured.provider.key.as_ref().map(|key| key.0.as_str()), Some(OTHER_KEY));
    assert_eq!(configured.record.models, [priced("large")], "models and their prices are kept");
    let any = ProviderSpec { models: Some(Vec::new()), ..ProviderSpec::default() };
    assert_eq!(fixture.models.put_provider("mine", &any).await.expect("any model").record.models, []);
}

#[tokio::test]
async fn an_implied_base_url_follows_the_dialect() {
    let fixture = ModelsFixture::new().await;
    let spec = |dialect, key: Option<&str>| ProviderSpec { dialect: Some(dialect), ..changed(None, key) };
    fixture.models.put_provider("mine", &spec(Dialect::Openai, Some(KEY))).await.expect("a good provider");
    let other = fixture.models.put_provider("mine", &spec(Dialect::Gemini, None)).await;
    assert!(matches!(other, Err(ModelsError::Invalid { field: "key", .. })), "its key is another's");
    let other = fixture.models.put_provider("mine", &spec(Dialect::Gemini, Some(OTHER_KEY))).await;
    assert_eq!(
        other.expect("given again").record.base_url,
        "https://generativelanguage.googleapis.com/v1beta"
    );
}
