//! `slipway agents`: coding agents, whether installed, and whether they have a model.

use crate::{
    client::ApiRequest,
    context::Context,
    failure::Failure,
    output::{Colour, Output},
    table::{Cell, Table},
};
use clap::Args;
use protocol::api::AgentView;

#[derive(Debug, Args)]
pub struct AgentsArgs {
    /// Sandbox to look in: id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: Option<String>,
}

pub async fn run(context: &Context, args: AgentsArgs) -> Result<(), Failure> {
    let mut request = ApiRequest::get("/v1/agents").timeout(crate::limits::SETTLE_TIMEOUT);
    if let Some(sandbox) = &args.sandbox {
        request = request.query("sandbox", context.sandbox(sandbox).await?);
    }
    let output = context.output;
    context.show_list(request, |agents: Vec<AgentView>| format_list(&agents, output)).await
}

fn format_list(agents: &[AgentView], output: Output) -> String {
    let mut table = Table::new(["NAME", "STATUS", "VERSION", "MODELS", "TITLE"]);
    for agent in agents {
        let name = if agent.default { format!("{} *", agent.name) } else { agent.name.clone() };
        let version =
            agent.version.clone().or_else(|| agent.pinned.as_ref().map(|pinned| format!("({pinned})")));
        table.row([
            name.into(),
            status(agent),
            version.unwrap_or_default().into(),
            agent.dialects.join(", ").into(),
            agent.title.clone().into(),
        ]);
    }
    let mut text = table.render(output);
    let missing = |agent: &&AgentView| !agent.how_to_connect.is_empty();
    if agents.iter().any(|agent| missing(&agent)) {
        text.push('\n');
    }
    for agent in agents.iter().filter(missing) {
        let how = crate::text::plain(&agent.how_to_connect.join("; "));
        text.push_str(&output.paint(Colour::Dim, &format!("{}: {how}", crate::text::plain(&agent.name))));
        text.push('\n');
    }
    text
}

fn status(agent: &AgentView) -> Cell {
    match (agent.installed, agent.connected) {
        (true, true) if !agent.how_to_connect.is_empty() => Cell::painted("no default model", Colour::Yellow),
        (true, true) => Cell::painted("ready", Colour::Green),
        (true, false) => Cell::painted("no model", Colour::Yellow),
        (false, true) => Cell::painted("not installed", Colour::Dim),
        (false, false) => Cell::painted("not installed, no model", Colour::Dim),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_a_table_and_what_to_do() {
        let agent = |name: &str| AgentView {
            name: name.to_owned(),
            title: name.to_uppercase(),
            installed: true,
            connected: true,
            ..AgentView::default()
        };
        let agents = [
            AgentView {
                default: true,
                version: Some("1.18.33".to_owned()),
                dialects: vec!["anthropic".to_owned(), "openai".to_owned()],
                ..agent("opencode")
            },
            AgentView {
                installed: false,
                connected: false,
                pinned: Some("0.61.0".to_owned()),
                dialects: vec!["gemini".to_owned()],
                how_to_connect: vec!["install it".to_owned(), "add a model".to_owned()],
                ..agent("gemini")
            },
            AgentView { how_to_connect: vec!["name a model".to_owned()], ..agent("codex") },
            agent("command"),
        ];
        insta::assert_snapshot!(format_list(&agents, Output { json: false, colour: false }), @r"
        NAME        STATUS                   VERSION   MODELS             TITLE
        opencode *  ready                    1.18.33   anthropic, openai  OPENCODE
        gemini      not installed, no model  (0.61.0)  gemini             GEMINI
        codex       no default model         -         -                  CODEX
        command     ready                    -         -                  COMMAND

        gemini: install it; add a model
        codex: name a model
        ");
    }
}
