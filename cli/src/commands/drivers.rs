//! `slipway drivers`, and the same table for `slipway doctor`.

use crate::{
    client::ApiRequest,
    context::Context,
    failure::Failure,
    output::{Colour, Output},
    table::{Cell, Table},
    text::plain,
};
use protocol::api::DriverView;

pub async fn run(context: &Context) -> Result<(), Failure> {
    let output = context.output;
    context
        .show_list(ApiRequest::get("/v1/drivers"), |drivers: Vec<DriverView>| format_list(&drivers, output))
        .await
}

/// Formats a row per driver, and below the isolation and problems of each.
pub fn format_list(drivers: &[DriverView], output: Output) -> String {
    let mut table = Table::new(["DRIVER", "STATUS", "NETWORKS", "IMAGES", "RUNTIMES", "PAUSE", "VERSION"]);
    for driver in drivers {
        let name = if driver.default { format!("{} *", driver.name) } else { driver.name.clone() };
        let can = driver.capabilities.as_ref();
        let words = |words: Option<&Vec<String>>| words.map(|words| words.join(", ")).unwrap_or_default();
        table.row([
            name.into(),
            status(driver),
            words(can.map(|can| &can.networks)).into(),
            words(can.map(|can| &can.images)).into(),
            words(can.map(|can| &can.runtimes)).into(),
            can.map(|can| if can.pause { "yes" } else { "no" }).unwrap_or_default().into(),
            driver.version.clone().unwrap_or_default().into(),
        ]);
    }
    let mut text = table.render(output);
    let lines: Vec<String> = drivers.iter().flat_map(lines).collect();
    if !lines.is_empty() {
        text.push('\n');
    }
    for line in lines {
        text.push_str(&output.paint(Colour::Dim, &plain(&line)));
        text.push('\n');
    }
    text
}

fn lines(driver: &DriverView) -> Vec<String> {
    let name = &driver.name;
    let isolation = driver.capabilities.as_ref().map(|can| can.isolation.join(", "));
    let isolation =
        isolation.filter(|text| !text.is_empty()).map(|text| format!("{name}: isolated by {text}"));
    let missing = driver.missing.iter().map(|missing| format!("{name}: {missing}"));
    isolation.into_iter().chain(missing).collect()
}

fn status(driver: &DriverView) -> Cell {
    match (driver.usable, driver.present, driver.unsupported) {
        (true, _, _) => Cell::painted("ready", Colour::Green),
        (false, _, true) => Cell::painted("not supported", Colour::Dim),
        (false, true, false) => Cell::painted("not usable", Colour::Yellow),
        (false, false, false) => Cell::painted("not there", Colour::Dim),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::Capabilities;

    #[test]
    fn drivers_are_a_table_and_what_is_missing() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let can = Capabilities {
            networks: words(&["none", "proxy"]),
            limits: words(&["memory_mb"]),
            disk_limit: Some("loop".to_owned()),
            snapshots: Some("overlay".to_owned()),
            pause: true,
            runtimes: words(&["crun"]),
            images: words(&["host", "imported"]),
            isolation: words(&["seccomp", "read-only root"]),
        };
        let named = |name: &str, missing: &str| DriverView {
            name: name.to_owned(),
            missing: words(&[missing]),
            ..DriverView::default()
        };
        let oci = DriverView {
            name: "oci".to_owned(),
            default: true,
            present: true,
            usable: true,
            version: Some("crun 1.8.1".to_owned()),
            capabilities: Some(can),
            ..DriverView::default()
        };
        let docker = DriverView { present: true, ..named("docker", "no response") };
        let lima = DriverView { unsupported: true, ..named("lima", "use oci") };
        insta::assert_snapshot!(format_list(&[oci, docker, lima], Output { json: false, colour: false }), @r"
        DRIVER  STATUS         NETWORKS     IMAGES          RUNTIMES  PAUSE  VERSION
        oci *   ready          none, proxy  host, imported  crun      yes    crun 1.8.1
        docker  not usable     -            -               -         -      -
        lima    not supported  -            -               -         -      -

        oci: isolated by seccomp, read-only root
        docker: no response
        lima: use oci
        ");
    }
}
