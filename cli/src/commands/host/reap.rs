//! `slipway host reap`: what destroyed sandboxes left, listed or removed.

use crate::{
    client::ApiRequest,
    context::Context,
    failure::Failure,
    humanize::bytes,
    limits::SETTLE_TIMEOUT,
    output::{Colour, Output},
    table::{Cell, Table},
    text::{plain, wire_name},
};
use clap::Args;
use protocol::api::ReapReport;

#[derive(Debug, Args)]
pub struct ReapArgs {
    /// Remove what is listed; without it nothing is changed
    #[arg(long)]
    apply: bool,
}

/// Returns 1 when something could not be removed.
pub async fn run(context: &Context, args: &ReapArgs) -> Result<u8, Failure> {
    // Large trees take a while to measure and remove.
    let request = ApiRequest::post("/v1/host/reap").query("apply", args.apply).timeout(SETTLE_TIMEOUT);
    let response = context.client.send(request).await?;
    let report: ReapReport = response.parse()?;
    let output = context.output;
    context.show_response(&response, |report: ReapReport| Ok(format_report(&report, output)))?;
    Ok(u8::from(report.items.iter().any(|item| item.error.is_some())))
}

fn format_report(report: &ReapReport, output: Output) -> String {
    let mut text = if report.items.is_empty() {
        "nothing left by destroyed sandboxes was found\n".to_owned()
    } else {
        items(report, output) + &summary(report)
    };
    for unasked in &report.unasked {
        let line = format!("leftovers of {} are unknown: {}", unasked.driver, unasked.why);
        text.push_str(&format!("{}\n", plain(&line)));
    }
    text
}

fn items(report: &ReapReport, output: Output) -> String {
    let mut table = Table::new(["DRIVER", "KIND", "NAME", "SIZE", "REASON"]);
    for item in &report.items {
        let reason = match &item.error {
            None => Cell::from(item.reason.as_str()),
            Some(error) => Cell::painted(format!("not removed: {error}"), Colour::Red),
        };
        table.row([
            item.driver.as_str().into(),
            wire_name(&item.kind).replace('_', " ").into(),
            item.name.as_str().into(),
            bytes(item.bytes).into(),
            reason,
        ]);
    }
    table.render(output)
}

fn summary(report: &ReapReport) -> String {
    let failed = report.items.iter().filter(|item| item.error.is_some()).count();
    let (done, size) = (report.items.len() - failed, bytes(report.bytes));
    let mut text = if report.applied {
        format!("{done} removed, {size}\n")
    } else {
        format!("{done} would be removed, {size}; `slipway host reap --apply` removes them\n")
    };
    if failed > 0 {
        text.push_str(&format!(
            "{failed} could not be removed; hostd's log says more, and a repetition is harmless\n"
        ));
    }
    if report.more {
        let next = if report.applied {
            "repeat the command to remove them"
        } else {
            "they are listed once these are removed"
        };
        text.push_str(&format!("there are more: {next}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::{LeftoverKind, ReapItem, Unasked};

    const PLAIN: Output = Output { json: false, colour: false };

    fn item(kind: LeftoverKind, name: &str, error: Option<&str>) -> ReapItem {
        ReapItem {
            driver: "oci".into(),
            kind,
            name: name.into(),
            sandbox: None,
            bytes: 3 << 20,
            reason: "its sandbox is destroyed".into(),
            error: error.map(str::to_owned),
        }
    }

    #[test]
    fn what_is_left_is_listed_and_then_removed() {
        let id = "01jb9xyzabcdefghjkmnpqrstv";
        let items =
            vec![item(LeftoverKind::Workspace, id, None), item(LeftoverKind::SandboxDirectory, id, None)];
        let dry = ReapReport { items, bytes: 6 << 20, ..ReapReport::default() };
        insta::assert_snapshot!(format_report(&dry, PLAIN), @r"
        DRIVER  KIND               NAME                        SIZE     REASON
        oci     workspace          01jb9xyzabcdefghjkmnpqrstv  3.0 MiB  its sandbox is destroyed
        oci     sandbox directory  01jb9xyzabcdefghjkmnpqrstv  3.0 MiB  its sandbox is destroyed
        2 would be removed, 6.0 MiB; `slipway host reap --apply` removes them
        ");
        let mut applied = ReapReport { applied: true, bytes: 3 << 20, more: true, ..dry };
        applied.items[1].error = Some("it is\u{1b}[2J busy".into());
        insta::assert_snapshot!(format_report(&applied, PLAIN), @r"
        DRIVER  KIND               NAME                        SIZE     REASON
        oci     workspace          01jb9xyzabcdefghjkmnpqrstv  3.0 MiB  its sandbox is destroyed
        oci     sandbox directory  01jb9xyzabcdefghjkmnpqrstv  3.0 MiB  not removed: it is busy
        1 removed, 3.0 MiB
        1 could not be removed; hostd's log says more, and a repetition is harmless
        there are more: repeat the command to remove them
        ");
    }

    #[test]
    fn what_is_not_known_is_said() {
        let unasked = vec![Unasked { driver: "docker".into(), why: "it is away".into() }];
        let report = ReapReport { unasked, ..ReapReport::default() };
        insta::assert_snapshot!(format_report(&report, PLAIN), @r"
        nothing left by destroyed sandboxes was found
        leftovers of docker are unknown: it is away
        ");
    }
}
