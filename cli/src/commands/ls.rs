//! `slipway ls`: lists sandboxes.

use crate::{
    client::ApiRequest,
    context::Context,
    failure::Failure,
    humanize::age,
    output::{Colour, Output},
    table::{Cell, Table},
    text::wire_name,
};
use clap::{Args, ValueEnum};
use protocol::api::{SandboxStatus, SandboxView};

#[derive(Debug, Args)]
pub struct LsArgs {
    /// Only those with this status
    #[arg(long, value_name = "STATUS")]
    status: Option<StatusFlag>,
    /// Only those of this project
    #[arg(long)]
    project: Option<String>,
    /// Only those that colleagues share with you
    #[arg(long)]
    shared: bool,
    /// Destroyed ones too
    #[arg(long, short)]
    all: bool,
    /// Print ids only, one a line
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StatusFlag {
    Creating,
    Running,
    Paused,
    Stopped,
    Error,
    Destroyed,
}

impl From<StatusFlag> for SandboxStatus {
    fn from(flag: StatusFlag) -> Self {
        match flag {
            StatusFlag::Creating => Self::Creating,
            StatusFlag::Running => Self::Running,
            StatusFlag::Paused => Self::Paused,
            StatusFlag::Stopped => Self::Stopped,
            StatusFlag::Error => Self::Error,
            StatusFlag::Destroyed => Self::Destroyed,
        }
    }
}

pub async fn run(context: &Context, args: LsArgs) -> Result<(), Failure> {
    let status = args.status.map(|status| wire_name(&SandboxStatus::from(status)));
    let all = args.all || matches!(args.status, Some(StatusFlag::Destroyed));
    let request = ApiRequest::get("/v1/sandboxes")
        .long_pages()
        .query_if("status", status)
        .query_if("project", args.project)
        .query_if("all", all.then_some(1))
        .query_if("shared", args.shared.then_some(1))
        .query_if("listening", (!args.quiet).then_some(1));
    let output = context.output;
    context
        .show_list(
            request,
            |views: Vec<SandboxView>| if args.quiet { ids(&views) } else { table(&views, output) },
        )
        .await
}

fn ids(views: &[SandboxView]) -> String {
    views.iter().map(|view| format!("{}\n", view.id)).collect()
}

fn table(views: &[SandboxView], output: Output) -> String {
    let mut table = Table::new(["ID", "NAME", "STATUS", "IMAGE", "PORTS", "LISTENING", "AGE"]);
    let listed = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    for view in views {
        table.row([
            view.id.as_str().into(),
            name(view).into(),
            status_cell(view),
            view.image.clone().into(),
            listed(&view.ports).into(),
            listed(view.listening.as_deref().unwrap_or_default()).into(),
            age(&view.created_at).into(),
        ]);
    }
    table.render(output)
}

/// Formats the name; that of a colleague's sandbox with its owner and the access to it.
fn name(view: &SandboxView) -> String {
    match &view.shared {
        Some(shared) => format!("{} (of {}, {})", view.name, shared.owner, wire_name(&shared.access)),
        None => view.name.clone(),
    }
}

/// Formats the status, with the current phase or the problem.
pub fn status_cell(view: &SandboxView) -> Cell {
    let status = wire_name(&view.status);
    let text = match (&view.phase, &view.problem) {
        (Some(phase), _) => format!("{status} ({})", wire_name(phase)),
        (None, Some(problem)) if view.status == SandboxStatus::Error => {
            format!("{status} ({})", wire_name(&problem.code))
        }
        (None, _) => status,
    };
    match view.status {
        SandboxStatus::Running => Cell::painted(text, Colour::Green),
        SandboxStatus::Creating | SandboxStatus::Paused => Cell::painted(text, Colour::Yellow),
        SandboxStatus::Error => Cell::painted(text, Colour::Red),
        SandboxStatus::Stopped | SandboxStatus::Destroyed => Cell::painted(text, Colour::Dim),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns a sandbox with default fields, overridden by `fields`.
    pub fn view(fields: &str) -> SandboxView {
        let mut json: serde_json::Value = serde_json::from_str(
            r#"{"id":"01jb9xyzabcdefghjkmnpqrstv","name":"web","tenant":"t","principal":"p","project":"default",
            "status":"running","driver":"oci","image":"host","ports":[3000,5173],
            "previews":{"3000":"http://s-01jb9xyzabcdefghjkmnpqrstv-3000.preview.localhost:8080"},
            "limits":{"memory_mb":512,"cpus":1.0,"pids":256},"network":"none","idle_policy":"sleep",
            "visibility":"private","env":["KEY"],"services":["web"],"metadata":{"a":"b"},"attempt":1,
            "created_at":"","updated_at":""}"#,
        )
        .expect("JSON");
        let more: serde_json::Value = serde_json::from_str(fields).expect("JSON");
        for (key, value) in more.as_object().expect("an object") {
            json[key] = value.clone();
        }
        serde_json::from_value(json).expect("a view")
    }

    #[test]
    fn a_list_shows_what_goes_on_and_what_went_wrong() {
        let views = [
            view(r#"{"listening":[5173]}"#),
            view(r#"{"name":"b","status":"creating","phase":"provisioning","ports":[]}"#),
            view(r#"{"name":"c","status":"error","problem":{"code":"oom","message":"m"},"image":"node-22"}"#),
            view(r#"{"name":"d","shared":{"access":"run","owner":"ann"}}"#),
        ];
        insta::assert_snapshot!(table(&views, Output { json: false, colour: false }), @r"
        ID                          NAME             STATUS                   IMAGE    PORTS      LISTENING  AGE
        01jb9xyzabcdefghjkmnpqrstv  web              running                  host     3000,5173  5173       -
        01jb9xyzabcdefghjkmnpqrstv  b                creating (provisioning)  host     -          -          -
        01jb9xyzabcdefghjkmnpqrstv  c                error (oom)              node-22  3000,5173  -          -
        01jb9xyzabcdefghjkmnpqrstv  d (of ann, run)  running                  host     3000,5173  -          -
        ");
    }
}
