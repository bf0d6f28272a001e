//! `slipway context`: contexts of this user. Only `add` talks to a hostd.

mod add;
mod add_check;
mod show;

use crate::{
    connection::{ConnectionFlags, Environment},
    contexts::{ContextName, ContextStore, LOCAL},
    failure::{Failure, eprint_line},
    output::Output,
};
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct ContextArgs {
    #[command(subcommand)]
    command: ContextCommand,
}

#[derive(Debug, Subcommand)]
enum ContextCommand {
    /// Add a context, after its hostd was reached and accepted the token
    #[command(after_help = add::EXAMPLES)]
    Add(add::AddArgs),
    /// Make a context the current one, for commands that name none; `local` is this machine
    Use {
        /// Name of the context, or `local`
        #[arg(value_name = "CONTEXT")]
        name: String,
    },
    /// List contexts, without their tokens; the current one has a star
    #[command(visible_alias = "list")]
    Ls,
    /// Show the hostd that commands talk to, and what chose it; or that of a context
    Show {
        /// Name of the context, or `local`; default: what commands use now
        #[arg(value_name = "CONTEXT")]
        name: Option<String>,
    },
    /// Remove contexts and their tokens; a token stays valid until it is revoked
    Rm {
        /// Names of the contexts
        #[arg(required = true, value_name = "CONTEXT")]
        names: Vec<ContextName>,
    },
}

pub async fn run(output: Output, flags: &ConnectionFlags, args: ContextArgs) -> Result<(), Failure> {
    match args.command {
        ContextCommand::Add(args) => add::run(output, flags, args).await,
        ContextCommand::Use { name } => use_context(output, &name),
        ContextCommand::Ls => show::list(output),
        ContextCommand::Show { name } => show::show(output, flags, name),
        ContextCommand::Rm { names } => remove(output, &names),
    }
}

fn use_context(output: Output, name: &str) -> Result<(), Failure> {
    let wanted = match name {
        LOCAL => None,
        name => Some(name.parse::<ContextName>().map_err(Failure::Usage)?),
    };
    let store = ContextStore::locate()?;
    // There is nothing to change where no context was ever added.
    if wanted.is_some() || store.load()?.current.is_some() {
        store.update(None, |saved, _| saved.set_current(wanted))?;
    }
    warn_overridden();
    if output.json { Ok(()) } else { output.line(&format!("{name} is the current context")) }
}

/// Warns where a variable of the environment comes before the current context.
fn warn_overridden() {
    if let Some(variable) = Environment::read().overrides_current() {
        eprint_line(&format!("slipway: {variable} is set here, and comes before the current context"));
    }
}

fn remove(output: Output, names: &[ContextName]) -> Result<(), Failure> {
    let store = ContextStore::locate()?;
    let was_current = store.update(None, |saved, _| {
        let removed: Result<Vec<bool>, _> = names.iter().map(|name| saved.remove(name)).collect();
        Ok(removed?.contains(&true))
    })?;
    if was_current {
        eprint_line(&format!(
            "slipway: that was the current context; commands now go to {LOCAL}, this machine"
        ));
    }
    for name in names.iter().filter(|_| !output.json) {
        output.line(&format!("{name} removed"))?;
    }
    Ok(())
}
