//! `slipway model`: model providers.

use crate::{
    client::{ApiRequest, encode},
    context::Context,
    failure::{Failure, eprint_line},
    output::{Colour, Output},
    secret,
    table::{Cell, Table},
};
use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use protocol::{
    Dialect,
    api::{Label, ModelPrice, ModelSpec, ProviderSpec, ProviderView, SecretName, SecretRef},
};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct ModelArgs {
    #[command(subcommand)]
    command: ModelCommand,
}

const ADD_EXAMPLES: &str = "\
The key is prompted for, or read from standard input or a file; it is stored encrypted and never shown. Use --no-key
for a provider that needs none, such as a server on this machine.
Adding an existing name changes that provider; fields that are not given keep their values. The key is kept with
--keep-key, or when nothing is typed.
hostd lists the models of the provider to check the key: a rejected key is not stored, and a default model is chosen
from the list where none is given. An unreachable provider is added anyway; --no-check skips the check.

Examples:
  slipway model add anthropic
  slipway model add anthropic --default claude-sonnet-4-5
  slipway model add anthropic --key-secret anthropic-key
  slipway model add openai --key-file ./key --model gpt-5 --model gpt-5-mini=small --default gpt-5
  pass show gemini | slipway model add gemini --model gemini-2.5-pro --price gemini-2.5-pro=1.25,10
  slipway model add local --dialect openai --base-url http://127.0.0.1:11434/v1 --no-key";

#[derive(Debug, Subcommand)]
enum ModelCommand {
    /// Add or change a model provider
    #[command(after_help = ADD_EXAMPLES)]
    Add(AddArgs),
    /// List providers, without their keys
    #[command(visible_alias = "list")]
    Ls,
    /// Remove a provider and its key
    Rm {
        /// Its name, as `slipway model ls` shows it
        name: String,
        /// The provider of this tenant, not the one for all tenants
        #[arg(long, value_parser = label)]
        tenant: Option<Label>,
    },
}

#[derive(Debug, Args)]
struct AddArgs {
    /// Name of the provider. `anthropic`, `openai` and `gemini` imply the dialect
    name: String,
    /// API that it speaks
    #[arg(long, value_parser = dialect())]
    dialect: Option<Dialect>,
    /// Base URL with the version, as in `https://example.com/v1`; default: the stored one, or the vendor's API
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Read the key from this file; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_key", "keep_key"])]
    key_file: Option<PathBuf>,
    /// Use this secret as the key: see `slipway secret`
    #[arg(long, value_name = "NAME", value_parser = secret_name, conflicts_with_all = ["no_key", "keep_key", "key_file"])]
    key_secret: Option<SecretName>,
    /// The provider needs no key
    #[arg(long)]
    no_key: bool,
    /// Keep the stored key
    #[arg(long, conflicts_with = "no_key")]
    keep_key: bool,
    /// Model that tasks may use, with an optional alias; default: the stored models, or any model
    #[arg(long = "model", value_name = "NAME[=ALIAS]", value_parser = model)]
    models: Vec<ModelSpec>,
    /// Price of a model in dollars per million tokens: input, output, and optionally cache reads and cache writes
    #[arg(long = "price", value_name = "NAME=IN,OUT[,READ,WRITE]", value_parser = price)]
    prices: Vec<(String, ModelPrice)>,
    /// Model for tasks that name none; default: chosen from the provider's models
    #[arg(long, value_name = "NAME")]
    default: Option<String>,
    /// Do not check the key and the models with the provider
    #[arg(long)]
    no_check: bool,
    /// Only for tasks of this tenant
    #[arg(long, value_parser = label)]
    tenant: Option<Label>,
}

fn dialect() -> impl TypedValueParser<Value = Dialect> {
    let names = PossibleValuesParser::new(Dialect::ALL.map(Dialect::as_str));
    names.map(|name| Dialect::from_name(&name).expect("only names of dialects are possible"))
}

fn label(text: &str) -> Result<Label, String> {
    Label::parse(text).map_err(|error| error.to_string())
}

fn secret_name(text: &str) -> Result<SecretName, String> {
    SecretName::parse(text).map_err(|error| error.to_string())
}

fn model(text: &str) -> Result<ModelSpec, String> {
    let (name, alias) = text.split_once('=').map_or((text, None), |(name, alias)| (name, Some(alias)));
    if name.is_empty() || alias == Some("") {
        return Err("must be NAME or NAME=ALIAS".to_owned());
    }
    Ok(ModelSpec { name: name.to_owned(), alias: alias.map(str::to_owned), price: None })
}

fn price(text: &str) -> Result<(String, ModelPrice), String> {
    let wrong = || "must be NAME=IN,OUT or NAME=IN,OUT,READ,WRITE in dollars for a million tokens".to_owned();
    let (name, numbers) = text.rsplit_once('=').ok_or_else(wrong)?;
    let numbers: Result<Vec<f64>, _> = numbers.split(',').map(|number| number.trim().parse()).collect();
    let price = match numbers.map_err(|_| wrong())?.as_slice() {
        [input, output] => ModelPrice { input: *input, output: *output, ..ModelPrice::default() },
        [input, output, read, write] => {
            ModelPrice { input: *input, output: *output, cache_read: Some(*read), cache_write: Some(*write) }
        }
        _ => return Err(wrong()),
    };
    Ok((name.to_owned(), price))
}

pub async fn run(context: &Context, args: ModelArgs) -> Result<(), Failure> {
    match args.command {
        ModelCommand::Add(args) => add(context, args).await,
        ModelCommand::Ls => {
            let output = context.output;
            context.show_list(ApiRequest::get("/v1/model-providers"), |all| table(&all, output)).await
        }
        ModelCommand::Rm { name, tenant } => {
            let path = format!("/v1/model-providers/{}", encode(&name));
            context.client.send(ApiRequest::delete(path).query_if("tenant", tenant)).await?;
            if context.output.json { Ok(()) } else { context.output.line(&format!("{name} removed")) }
        }
    }
}

async fn add(context: &Context, args: AddArgs) -> Result<(), Failure> {
    let name = args.name.clone();
    let mut spec = spec(&args)?;
    spec.key = key(&args)?;
    spec.no_key = args.no_key;
    let path = format!("/v1/model-providers/{}", encode(&name));
    let format = |view: ProviderView| {
        if let Some(warning) = view.problem.as_ref().or(view.warning.as_ref()) {
            eprint_line(&format!("slipway: {warning}"));
        }
        Ok(added(&view))
    };
    context.show(ApiRequest::put(path).json(&spec), format).await
}

fn added(view: &ProviderView) -> String {
    let ProviderView { name, base_url, .. } = view;
    let key = if view.has_key { "with its key" } else { "without a key" };
    let added = format!("{name} added: {} at {base_url}, {key}\n", view.dialect.as_str());
    let only = match view.models.as_slice() {
        [only] => Some(&only.name),
        [] | [_, _, ..] => None,
    };
    match view.default.as_ref().or(only) {
        Some(model) => format!("{added}uses {model} unless a task names another\n"),
        None => {
            format!("{added}has no default: name a model with each task, or give it one with --default\n")
        }
    }
}

fn spec(args: &AddArgs) -> Result<ProviderSpec, Failure> {
    let mut models = args.models.clone();
    for (name, price) in &args.prices {
        let model = models.iter_mut().find(|model| model.name == *name);
        let wrong = || Failure::Usage(format!("--price {name}=…: there is no --model {name}"));
        model.ok_or_else(wrong)?.price = Some(*price);
    }
    Ok(ProviderSpec {
        dialect: args.dialect,
        base_url: args.base_url.clone(),
        key: None,
        key_from: args.key_secret.clone().map(SecretRef::new),
        no_key: false,
        models: (!models.is_empty()).then_some(models),
        default: args.default.clone(),
        tenant: args.tenant.clone(),
        verify: args.no_check.then_some(false),
    })
}

/// Reads the key; `None` keeps the stored one.
fn key(args: &AddArgs) -> Result<Option<String>, Failure> {
    if args.no_key || args.keep_key || args.key_secret.is_some() {
        return Ok(None);
    }
    let file = args.key_file.as_deref();
    let question = format!("key of {} (not shown; empty keeps the one it has): ", args.name);
    let key = secret::read(file, &question)?;
    if key.is_empty() && !secret::is_typed(file) {
        // Usually an unset variable or an empty file.
        let next = "give the key, --keep-key to leave the one it has, or --no-key if the provider wants none";
        return Err(Failure::Usage(format!("the key of {} is empty: {next}", args.name)));
    }
    Ok(Some(key).filter(|key| !key.is_empty()))
}

fn table(providers: &[ProviderView], output: Output) -> String {
    if providers.is_empty() {
        return "no model providers; add one with `slipway model add anthropic`\n".to_owned();
    }
    let mut table = Table::new(["NAME", "SPEAKS", "KEY", "MODELS", "DEFAULT", "TENANT", "ADDRESS"]);
    for provider in providers {
        let key = match (&provider.problem, provider.has_key) {
            (Some(_), _) => Cell::painted("unusable", Colour::Red),
            (None, true) => match &provider.key_from {
                Some(reference) => Cell::from(reference.to_string()),
                None => Cell::from("yes"),
            },
            (None, false) => Cell::from("none"),
        };
        let models = match provider.models.len() {
            0 => "any".to_owned(),
            count => count.to_string(),
        };
        table.row([
            provider.name.as_str().into(),
            provider.dialect.as_str().into(),
            key,
            models.into(),
            provider.default.as_deref().unwrap_or_default().into(),
            provider.tenant.as_ref().map_or("all", Label::as_str).into(),
            provider.base_url.as_str().into(),
        ]);
    }
    let problems = providers.iter().filter_map(|provider| {
        provider.problem.as_ref().map(|problem| format!("{}: {problem}\n", provider.name))
    });
    table.render(output) + &problems.collect::<String>()
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
