//! `slipway secret`: secrets of a tenant, which other resources refer to by name.

use crate::{
    client::{ApiRequest, encode},
    context::Context,
    failure::Failure,
    humanize::age,
    output::{Colour, Output},
    secret,
    table::{Cell, Table},
};
use clap::{Args, Subcommand};
use protocol::api::{Label, SecretName, SecretSpec, SecretView};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub struct SecretArgs {
    #[command(subcommand)]
    command: SecretCommand,
}

const SET_EXAMPLES: &str = "\
The value is prompted for, or read from standard input or a file, without whitespace around it; it is stored encrypted
and never shown. Setting it again replaces it: whatever refers to it uses the new value from then on.

Examples:
  slipway secret set anthropic-key
  pass show registry | slipway secret set registry-token
  slipway secret set deploy-key --from-file ~/.ssh/deploy
  slipway model add anthropic --key-secret anthropic-key";

#[derive(Debug, Subcommand)]
enum SecretCommand {
    /// Set a secret
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// Its name: a to z, 0 to 9, `-`, `_` and `.`
        #[arg(value_parser = name)]
        name: SecretName,
        /// Read the value from this file; - is standard input
        #[arg(long, value_name = "FILE")]
        from_file: Option<PathBuf>,
        /// Tenant of the secret, for the operator; default: your own
        #[arg(long, value_parser = label)]
        tenant: Option<Label>,
    },
    /// List secrets, without their values
    #[command(visible_alias = "list")]
    Ls {
        /// Only those of this tenant, for the operator
        #[arg(long, value_parser = label)]
        tenant: Option<Label>,
    },
    /// Remove a secret: what refers to it fails and names it
    Rm {
        /// Its name
        #[arg(value_parser = name)]
        name: SecretName,
        /// Tenant of the secret, for the operator; default: your own
        #[arg(long, value_parser = label)]
        tenant: Option<Label>,
    },
}

fn name(text: &str) -> Result<SecretName, String> {
    SecretName::parse(text).map_err(|error| error.to_string())
}

fn label(text: &str) -> Result<Label, String> {
    Label::parse(text).map_err(|error| error.to_string())
}

pub async fn run(context: &Context, args: SecretArgs) -> Result<(), Failure> {
    match args.command {
        SecretCommand::Set { name, from_file, tenant } => {
            let spec = SecretSpec { value: value(&name, from_file.as_deref())?, tenant };
            let said = |view: SecretView| Ok(format!("{} set, version {}\n", view.name, view.version));
            context.show(ApiRequest::put(path(&name)).json(&spec), said).await
        }
        SecretCommand::Ls { tenant } => {
            let (output, request) =
                (context.output, ApiRequest::get("/v1/secrets").query_if("tenant", tenant));
            context.show_list(request, |secrets: Vec<SecretView>| table(&secrets, output)).await
        }
        SecretCommand::Rm { name, tenant } => {
            context.client.send(ApiRequest::delete(path(&name)).query_if("tenant", tenant)).await?;
            if context.output.json { Ok(()) } else { context.output.line(&format!("{name} removed")) }
        }
    }
}

fn path(name: &SecretName) -> String {
    format!("/v1/secrets/{}", encode(name.as_str()))
}

fn value(name: &SecretName, file: Option<&Path>) -> Result<String, Failure> {
    let value = secret::read(file, &format!("value of {name} (not shown): "))?;
    if value.is_empty() {
        // Usually an unset variable or an empty file.
        return Err(Failure::Usage(format!("the value of {name} is empty")));
    }
    Ok(value)
}

fn table(secrets: &[SecretView], output: Output) -> String {
    let mut table = Table::new(["NAME", "TENANT", "VERSION", "BY", "SET", "LAST USED"]);
    for secret in secrets {
        let used = match (&secret.problem, &secret.last_used_at) {
            (Some(_), _) => Cell::painted("unusable", Colour::Red),
            (None, Some(time)) => Cell::from(format!("{} ago", age(time))),
            (None, None) => Cell::from("never"),
        };
        table.row([
            secret.name.as_str().into(),
            secret.tenant.as_str().into(),
            secret.version.to_string().into(),
            secret.updated_by.clone().into(),
            format!("{} ago", age(&secret.updated_at)).into(),
            used,
        ]);
    }
    let problems = secrets
        .iter()
        .filter_map(|secret| secret.problem.as_ref().map(|problem| format!("{}: {problem}\n", secret.name)));
    table.render(output) + &problems.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_shows_use_and_problems_and_no_value() {
        let secret = |fields: &str| -> SecretView {
            let common = r#""tenant":"acme","updated_by":"ann","created_at":"","updated_at":"""#;
            serde_json::from_str(&format!("{{{fields},{common}}}")).expect("a view")
        };
        let secrets = [
            secret(r#""name":"fresh","version":1"#),
            secret(r#""name":"lost","version":7,"problem":"secrets.key is gone""#),
        ];
        insta::assert_snapshot!(table(&secrets, Output { json: false, colour: false }), @r"
        NAME   TENANT  VERSION  BY   SET    LAST USED
        fresh  acme    1        ann  - ago  never
        lost   acme    7        ann  - ago  unusable
        lost: secrets.key is gone
        ");
    }
}
