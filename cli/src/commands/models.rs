//! `slipway models`: models that tasks may use.

use crate::{
    client::ApiRequest,
    context::Context,
    failure::Failure,
    output::{Colour, Output},
    table::{Cell, Table},
};
use protocol::api::ModelView;

pub async fn run(context: &Context) -> Result<(), Failure> {
    let output = context.output;
    context.show_list(ApiRequest::get("/v1/models"), |models| table(&models, output)).await
}

fn table(models: &[ModelView], output: Output) -> String {
    if models.is_empty() {
        return "no models; add a provider with `slipway model add anthropic`\n".to_owned();
    }
    let mut table = Table::new(["MODEL", "PROVIDER", "SPEAKS", "INPUT", "OUTPUT", "CALLED THERE", ""]);
    for model in models {
        let usd = |of: fn(&protocol::api::ModelPrice) -> f64| {
            model.price.as_ref().map_or_else(String::new, |price| format!("${}", of(price)))
        };
        let default = if model.default { Cell::painted("default", Colour::Bold) } else { Cell::from(" ") };
        table.row([
            model.name.as_str().into(),
            model.provider.as_str().into(),
            model.dialect.as_str().into(),
            usd(|price| price.input).into(),
            usd(|price| price.output).into(),
            model.model.as_deref().unwrap_or("any").into(),
            default,
        ]);
    }
    let lines = table.render(output);
    lines.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Dialect, api::ModelPrice};

    #[test]
    fn models_are_shown_with_what_they_cost() {
        let price = ModelPrice { input: 3.0, output: 15.5, ..ModelPrice::default() };
        let view = |name: &str, price, default| ModelView {
            name: name.to_owned(),
            provider: "one".to_owned(),
            model: Some("large-4".to_owned()),
            dialect: Dialect::Anthropic,
            price,
            default,
        };
        let any = ModelView { model: None, ..view("one/*", None, false) };
        let output = Output { json: false, colour: false };
        insta::assert_snapshot!(table(&[view("large", Some(price), true), any], output), @r"
        MODEL  PROVIDER  SPEAKS     INPUT  OUTPUT  CALLED THERE  -
        large  one       anthropic  $3     $15.5   large-4       default
        one/*  one       anthropic  -      -       any
        ");
    }
}
