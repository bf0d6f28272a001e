//! `slipway context ls` and `show`. Tokens are never printed.

use crate::{
    client::{Scheme, Target, Trust},
    connection::{Connection, ConnectionFlags, Environment, TokenSource},
    contexts::{ContextName, ContextStore, LOCAL, SavedContext, SavedContexts},
    failure::Failure,
    output::Output,
    table::Table,
};
use serde::Serialize;

/// A context as JSON.
#[derive(Debug, Serialize)]
pub struct ContextView {
    name: String,
    /// Absent: the socket of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    verified_by: String,
    has_token: bool,
    current: bool,
}

impl ContextView {
    pub fn of(name: &ContextName, context: &SavedContext, current: bool) -> Self {
        Self {
            name: name.to_string(),
            url: Some(context.url.to_string()),
            verified_by: context.verified_by(),
            has_token: context.token_file.is_some(),
            current,
        }
    }

    fn local(current: bool) -> Self {
        let verified_by = "the permissions of the socket".to_owned();
        Self { name: LOCAL.to_owned(), url: None, verified_by, has_token: false, current }
    }
}

pub fn list(output: Output) -> Result<(), Failure> {
    let views = views(&ContextStore::locate()?.load()?);
    super::warn_overridden();
    if output.json {
        return output.json(&serde_json::json!({ "items": views }));
    }
    output.text(&table(&views, output))
}

fn views(saved: &SavedContexts) -> Vec<ContextView> {
    let is_current = |name: &ContextName| saved.current.as_ref() == Some(name);
    let known = saved.contexts.iter().map(|(name, context)| ContextView::of(name, context, is_current(name)));
    std::iter::once(ContextView::local(saved.current.is_none())).chain(known).collect()
}

fn table(views: &[ContextView], output: Output) -> String {
    let mut table = Table::new(["NAME", "URL", "TOKEN", "VERIFIED BY"]);
    for view in views {
        let name = if view.current { format!("{} *", view.name) } else { view.name.clone() };
        table.row([
            name.into(),
            view.url.as_deref().unwrap_or("this machine").into(),
            if view.has_token { "yes" } else { "none" }.into(),
            view.verified_by.as_str().into(),
        ]);
    }
    table.render(output)
}

/// Shows what a command would use, with the flags of this one.
pub fn show(output: Output, flags: &ConnectionFlags, name: Option<String>) -> Result<(), Failure> {
    let flags = match name {
        Some(_) if flags.context.is_some() => {
            return Err(Failure::Usage("give the context once, as an argument or with --context".to_owned()));
        }
        Some(name) => ConnectionFlags { context: Some(name), ..flags.clone() },
        None => flags.clone(),
    };
    let connection = Connection::choose(&flags, &Environment::read(), || ContextStore::locate()?.load())?;
    let verified_by = verified_by(&connection.target);
    let has_token = connection.token != TokenSource::None;
    if output.json {
        let url = connection.target.url().map(ToString::to_string);
        return output.json(&serde_json::json!({
            "chosen_by": connection.origin.describe(), "url": url, "verified_by": verified_by, "has_token": has_token,
        }));
    }
    output.text(&format!(
        "chosen by    {}\naddress      {}\nverified by  {verified_by}\ntoken        {}\n",
        connection.origin.describe(),
        connection.address(),
        if has_token { "yes" } else { "none" },
    ))
}

fn verified_by(target: &Target) -> String {
    match target {
        Target::Socket(_) => "the permissions of the socket".to_owned(),
        Target::Url { url, .. } if url.scheme == Scheme::Http => "nothing: plain HTTP".to_owned(),
        Target::Url { trust: Trust::Insecure, .. } => "nothing: --insecure".to_owned(),
        Target::Url { trust, .. } => trust.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Fingerprint;

    #[test]
    fn contexts_are_listed_without_their_tokens() {
        let mut saved = SavedContexts::default();
        let mut add = |name: &str, url: &str, trust: Trust, token: Option<&str>| {
            let context = SavedContext::new(url.parse().expect("a URL"), &trust, token.map(str::to_owned));
            saved.add(&name.parse().expect("a name"), context, false).expect("added");
        };
        add(
            "acme",
            "https://acme.example.com",
            Trust::CaFile("/etc/ssl/acme.pem".into()),
            Some("acme.secret"),
        );
        add("lab", "https://10.0.0.5:9090", Trust::Pinned(Fingerprint::of(b"")), Some("lab.secret"));
        add("plain", "http://127.0.0.1:9090", Trust::System, None);
        add("prod", "https://prod", Trust::System, Some("prod.secret"));
        saved.set_current(Some("lab".parse().expect("a name"))).expect("it exists");
        insta::assert_snapshot!(table(&views(&saved), Output { json: false, colour: false }), @r"
        NAME   URL                       TOKEN  VERIFIED BY
        local  this machine              none   the permissions of the socket
        acme   https://acme.example.com  yes    CA file /etc/ssl/acme.pem
        lab *  https://10.0.0.5:9090     yes    fingerprint E3:B0:C4:42:98:FC:1C:14:9A:FB:F4:C8:99:6F:B9:24:27:AE:41:E4:64:9B:93:4C:A4:95:99:1B:78:52:B8:55
        plain  http://127.0.0.1:9090     none   nothing: plain HTTP
        prod   https://prod              yes    system roots
        ");
    }
}
