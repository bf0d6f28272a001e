use super::{added, model, price, table};
use crate::output::Output;
use protocol::{
    Dialect,
    api::{ModelSpec, ProviderView},
};

#[test]
fn models_and_prices_are_read_as_they_are_written() {
    let spec = model("vendor/large=big").expect("good");
    assert_eq!((spec.name.as_str(), spec.alias.as_deref()), ("vendor/large", Some("big")));
    assert!(model("=x").is_err() && model("x=").is_err());
    let (name, of) = price("large=3,15").expect("good");
    assert_eq!((name.as_str(), of.input, of.output, of.cache_read), ("large", 3.0, 15.0, None));
    assert_eq!(price("large=3,15,0.3,3.75").expect("good").1.cache_write, Some(3.75));
    for wrong in ["large", "large=3", "large=3,x", "large=1,2,3"] {
        assert!(price(wrong).is_err(), "{wrong}");
    }
}

fn view(name: &str, problem: Option<&str>) -> ProviderView {
    ProviderView {
        name: name.to_owned(),
        dialect: Dialect::Anthropic,
        base_url: "https://example.com/v1".to_owned(),
        has_key: true,
        key_from: None,
        tenant: None,
        models: vec![ModelSpec { name: "m".to_owned(), ..ModelSpec::default() }],
        default: None,
        created_at: String::new(),
        problem: problem.map(str::to_owned),
        warning: None,
    }
}

#[test]
fn who_adds_a_provider_is_told_what_tasks_use() {
    let any = ProviderView { models: Vec::new(), ..view("one", None) };
    let table = [
        (view("one", None), "uses m unless a task names another"),
        (ProviderView { default: Some("d".to_owned()), ..any.clone() }, "uses d unless a task names another"),
        (any, "has no default: name a model with each task, or give it one with --default"),
    ];
    for (view, expected) in table {
        let first = "one added: anthropic at https://example.com/v1, with its key";
        assert_eq!(added(&view), format!("{first}\n{expected}\n"));
    }
}

#[test]
fn providers_are_a_table_that_says_what_is_wrong() {
    let output = Output { json: false, colour: false };
    insta::assert_snapshot!(table(&[view("one", None), view("two", Some("its key is gone"))], output), @r"
    NAME  SPEAKS     KEY       MODELS  DEFAULT  TENANT  ADDRESS
    one   anthropic  yes       1       -        all     https://example.com/v1
    two   anthropic  unusable  1       -        all     https://example.com/v1
    two: its key is gone
    ");
    assert!(table(&[], output).contains("slipway model add"));
}
