//! `slipway context add`. Nothing is stored before the server is verified and has accepted the token.

use super::{
    add_check::{self, Answered},
    show::ContextView,
};
use crate::{
    client::{Scheme, ServerUrl, Target, Trust},
    connection::{Connection, ConnectionFlags, Origin, TokenSource},
    contexts::{ContextName, ContextStore, ContextsError, NewToken, SavedContext, SavedContexts},
    failure::{Failure, eprint_line},
    output::Output,
    secret,
};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
The token is prompted for, or read from standard input or a file; it is kept in a file that only you can read.
The certificate of an https:// server is verified by the system's roots, by --ca-file, or by --fingerprint. If its issuer
is unknown and you are at a terminal, you are shown its fingerprint and asked whether to pin it: compare it with the one
that the host shows. A pin accepts exactly that certificate, also under another name and after it expired.

Examples:
  slipway context add prod --url https://build.example.com:9090 --use
  slipway context add lab --url https://10.0.0.5:9090 --fingerprint AB:CD:… --token-file ./token
  pass show slipway | slipway context add acme --url https://acme.example.com --ca-file /etc/ssl/acme.pem
  slipway context add lab --replace --keep-token --url https://10.0.0.5:9090 --fingerprint EF:01:…";

#[derive(Debug, Args)]
pub struct AddArgs {
    /// Name of the context, for --context and `slipway context use`
    name: ContextName,
    /// Address of hostd: https://host:port, or http://host:port without encryption
    #[arg(long)]
    url: ServerUrl,
    /// Read the token from this file; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_token", "keep_token"])]
    token_file: Option<PathBuf>,
    /// The hostd asks for no token
    #[arg(long, conflicts_with = "keep_token")]
    no_token: bool,
    /// Change a context that exists
    #[arg(long)]
    replace: bool,
    /// Keep the token of the context, whose URL must stay the same
    #[arg(long, requires = "replace")]
    keep_token: bool,
    /// Make it the current context
    #[arg(long = "use")]
    make_current: bool,
    /// Do not connect: neither the certificate nor the token is checked
    #[arg(long)]
    no_check: bool,
}

/// The result as JSON.
#[derive(Serialize)]
struct Added {
    #[serde(flatten)]
    context: ContextView,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostd: Option<String>,
}

pub async fn run(output: Output, flags: &ConnectionFlags, args: AddArgs) -> Result<(), Failure> {
    let store = ContextStore::locate()?;
    let kept = check_name(&store.load()?, &args)?;
    let given = given_trust(flags, &args.url)?;
    let trust = match (given, args.no_check) {
        (Some(trust), _) => trust,
        (None, true) => Trust::System,
        (None, false) => add_check::settle_trust(&args.url, &args.name).await?,
    };
    let token = match kept {
        Some(file) => Some(store.token(&file)?),
        None => new_token(&args)?,
    };
    warn(&args, &trust, token.is_some());
    let answered = if args.no_check {
        Answered::NotAsked
    } else {
        add_check::ask(Target::Url { url: args.url.clone(), trust: trust.clone() }, token.clone()).await?
    };
    let (context, is_current) = save(&store, &args, &trust, token.as_deref())?;
    if args.make_current {
        super::warn_overridden();
    }
    let view = ContextView::of(&args.name, &context, is_current);
    if output.json {
        return output.json(&Added { context: view, hostd: answered.version() });
    }
    output.text(&text(&args, &context, &answered, is_current))
}

/// Refuses a name that is taken before anything is asked; returns the token file that is kept.
fn check_name(saved: &SavedContexts, args: &AddArgs) -> Result<Option<String>, ContextsError> {
    if args.keep_token {
        return saved.kept_token(&args.name, &args.url);
    }
    match saved.get(&args.name) {
        Ok(_) if !args.replace => Err(ContextsError::Exists(args.name.clone())),
        Ok(_) | Err(_) => Ok(None),
    }
}

/// Returns how the server is verified, where that is given or the address decides it.
fn given_trust(flags: &ConnectionFlags, url: &ServerUrl) -> Result<Option<Trust>, Failure> {
    if flags.context.is_some() {
        return Err(Failure::Usage(
            "--context chooses an existing context; the new one has its name only".to_owned(),
        ));
    }
    let trust = match flags.trust()? {
        Some(Trust::Insecure) => {
            let why = "a context is always verified: give --fingerprint or --ca-file, not --insecure";
            return Err(Failure::Usage(why.to_owned()));
        }
        // Commands run in other directories.
        Some(Trust::CaFile(path)) => {
            let path = std::path::absolute(&path).map_err(|error| Failure::io("find the CA file", error))?;
            Some(Trust::CaFile(path))
        }
        trust => trust,
    };
    match (url.scheme, trust) {
        (Scheme::Http, Some(_)) => {
            Err(Failure::Usage(format!("--ca-file and --fingerprint are for https://, and {url} is not")))
        }
        (Scheme::Http, None) => Ok(Some(Trust::System)),
        (Scheme::Https, trust) => Ok(trust),
    }
}

fn new_token(args: &AddArgs) -> Result<Option<String>, Failure> {
    if args.no_token || args.keep_token {
        return Ok(None);
    }
    let question = format!("token for {} (not shown): ", args.url);
    let token = secret::read(args.token_file.as_deref(), &question)?;
    if token.is_empty() {
        // Usually an unset variable or an empty file.
        let next = "give the token with --token-file, on standard input or at the prompt; or --no-token";
        return Err(Failure::Usage(format!("the token of {} is empty: {next}", args.name)));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::Usage(format!("the token of {} is not one word of plain text", args.name)));
    }
    Ok(Some(token))
}

/// Prints the warning that every command of this context will print.
fn warn(args: &AddArgs, trust: &Trust, has_token: bool) {
    let token = if has_token { TokenSource::File(String::new()) } else { TokenSource::None };
    let target = Target::Url { url: args.url.clone(), trust: trust.clone() };
    if let Some(warning) = (Connection { target, token, origin: Origin::Url }).warning() {
        eprint_line(&warning);
    }
}

/// Stores the context; returns it, and whether it is the current one.
fn save(
    store: &ContextStore,
    args: &AddArgs,
    trust: &Trust,
    token: Option<&str>,
) -> Result<(SavedContext, bool), ContextsError> {
    let new = token.map(|text| NewToken { name: &args.name, text });
    store.update(new, |saved, token_file| {
        // Checked again: another command may have changed it meanwhile.
        check_name(saved, args)?;
        let context = SavedContext::new(args.url.clone(), trust, token_file);
        saved.add(&args.name, context.clone(), args.replace)?;
        if args.make_current {
            saved.set_current(Some(args.name.clone()))?;
        }
        Ok((context, saved.current.as_ref() == Some(&args.name)))
    })
}

fn text(args: &AddArgs, context: &SavedContext, answered: &Answered, is_current: bool) -> String {
    let AddArgs { name, url, .. } = args;
    let mut text = format!("{name} added: {url}, verified by {}\n", context.verified_by());
    text.push_str(&format!("{}\n", answered.describe(context.token_file.is_some())));
    text.push_str(&if is_current {
        format!("{name} is the current context\n")
    } else {
        format!("`slipway context use {name}` makes it the current one; `slipway --context {name} …` uses it once\n")
    });
    text
}
