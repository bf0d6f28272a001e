//! `slipway doctor`: checks of this machine and of hostd.

use crate::{
    client::{ApiRequest, ClientError},
    commands::drivers,
    connection::ConnectionFlags,
    context::{Context, parse_items},
    contexts::LOCAL,
    doctor::{Check, Facts, Level, check_all},
    failure::{Failure, eprint_line},
    humanize::bytes,
    output::{Colour, Output},
};
use protocol::api::{ApiErrorCode, DiskLevel, DriverView, HostView};

/// Returns 1 when a requirement is missing. With a remote hostd only that hostd is checked.
pub async fn run(output: Output, flags: &ConnectionFlags) -> Result<u8, Failure> {
    let (mut checks, (hostd, drivers)) = match Context::open(output, flags) {
        Ok(context) => {
            let remote = context.remote().is_some();
            if let Some(url) = context.remote() {
                let origin = context.origin().describe();
                eprint_line(&format!(
                    "slipway: checks the hostd of {origin}, {url}; `slipway --context {LOCAL} doctor` checks this machine"
                ));
            }
            let local = if remote { Vec::new() } else { check_all(&Facts::gather(&context.data_dir)) };
            (local, (hostd(&context, remote).await, drivers_of(&context).await))
        }
        Err(error) => {
            let local = check_all(&Facts::gather(std::path::Path::new("/var/lib/slipway")));
            (local, (vec![bad_address(&error)], Vec::new()))
        }
    };
    checks.extend(hostd);
    checks.extend(drivers.iter().flat_map(driver_checks));
    if output.json {
        output.json(&serde_json::json!({ "checks": checks, "drivers": drivers }))?;
    } else {
        output.text(&text(&checks, &drivers, output))?;
    }
    Ok(u8::from(checks.iter().any(|check| check.level == Level::Missing)))
}

/// Fetches the drivers; empty where hostd does not respond, which another check reports.
async fn drivers_of(context: &Context) -> Vec<DriverView> {
    match context.client.list(ApiRequest::get("/v1/drivers")).await {
        Ok(items) => parse_items(items).unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

/// Checks a driver. An unusable default driver is an error; other drivers are listed in the table below.
fn driver_checks(driver: &DriverView) -> Vec<Check> {
    let name = &driver.name;
    if !driver.usable && driver.default {
        let why = driver.missing.first().cloned().unwrap_or_default();
        let fix = "get it going again, which hostd notices, or start hostd with another SLIPWAY_DRIVER";
        return vec![Check::missing("driver", format!("{name} cannot be used: {why}"), fix)];
    }
    if !driver.usable {
        return Vec::new();
    }
    let version = driver.version.as_deref().unwrap_or("it is there");
    let warnings = driver.missing.iter();
    let warnings = warnings.map(|text| Check::warning("driver", format!("{name}: {text}"), None));
    let disk = driver.capabilities.as_ref().and_then(|can| can.disk_limit.as_deref());
    let disk = disk.map(|means| Check::fine("disk limits", format!("{name}: {}", disk_limit(means))));
    std::iter::once(Check::fine("driver", format!("{name}: {version}"))).chain(disk).chain(warnings).collect()
}

/// Describes how `limits.disk_mb` is kept.
fn disk_limit(means: &str) -> &str {
    match means {
        "project" => "project quotas of the file system",
        "loop" => "a file system per sandbox, on space that is set aside",
        "measured" => "measured: a sandbox over its limit is stopped",
        other => other,
    }
}

/// Checks hostd's own warnings, without those of its drivers.
fn hostd_checks(host: &HostView) -> Vec<Check> {
    let answers = Check::fine("hostd", format!("{} answers, driver {}", host.version, host.default_driver));
    let of_driver = |text: &String| host.drivers.iter().any(|driver| driver.missing.contains(text));
    let warnings = host.warnings.iter().filter(|text| !of_driver(text));
    let warnings = warnings.map(|text| Check::warning("hostd", text.clone(), None));
    std::iter::once(answers).chain(full_disk(host)).chain(warnings).collect()
}

fn bad_address(failure: &Failure) -> Check {
    let fix = failure.next_step().unwrap_or_default();
    Check::missing("hostd", failure.to_string(), fix)
}

/// Checks hostd. A local hostd that is not running is a warning, because it can be started; a remote one must run.
async fn hostd(context: &Context, remote: bool) -> Vec<Check> {
    let host: Result<HostView, ClientError> = match context.client.send(ApiRequest::get("/v1/host")).await {
        Ok(response) => response.parse(),
        Err(error) => Err(error),
    };
    match host {
        Ok(host) => hostd_checks(&host),
        // Details are for the administrator of the host only.
        Err(error) if error.is(ApiErrorCode::Forbidden) => vec![Check::fine("hostd", "answers".to_owned())],
        Err(error) => {
            let fix = error.next_step();
            let level = if remote { Level::Missing } else { Level::Warning };
            vec![Check { name: "hostd", level, found: error.to_string(), fix }]
        }
    }
}

/// Checks the disk of hostd's data directory.
fn full_disk(host: &HostView) -> Option<Check> {
    let does = match host.disk_level {
        DiskLevel::Ok => return None,
        DiskLevel::Low => "creates and wakes are refused",
        DiskLevel::Full => "creates and wakes are refused, and sandboxes that grow are stopped",
    };
    let (free, floor) = (bytes(host.disk_free_bytes), bytes(host.disk_floor_bytes));
    let found = format!("disk_full: {free} free, and hostd keeps {floor}: {does}");
    let fix = "slipway exec ID -- rm FILE, or slipway rm ID; or a lower SLIPWAY_DISK_FLOOR_MB";
    Some(Check::missing("hostd's disk", found, fix))
}

fn text(checks: &[Check], drivers: &[DriverView], output: Output) -> String {
    let mut text = String::new();
    for check in checks {
        let (word, colour) = match check.level {
            Level::Fine => ("ok", Colour::Green),
            Level::Warning => ("warning", Colour::Yellow),
            Level::Missing => ("missing", Colour::Red),
        };
        let word = output.paint(colour, &format!("{word:<7}"));
        text.push_str(&format!("{word}  {:<15}  {}\n", check.name, check.found));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("{:26}fix: {fix}\n", ""));
        }
    }
    let missing = checks.iter().filter(|check| check.level == Level::Missing).count();
    let last = match missing {
        0 => "nothing that is needed is missing".to_owned(),
        1 => "1 thing that is needed is missing".to_owned(),
        count => format!("{count} things that are needed are missing"),
    };
    let ours: Vec<DriverView> = drivers.iter().filter(|driver| !driver.unsupported).map(briefly).collect();
    if !ours.is_empty() {
        text.push_str(&format!("\n{}", drivers::format_list(&ours, output)));
    }
    text + &format!("\n{last}\n")
}

/// Returns the driver for the short table. The warnings of a usable driver are among the checks.
fn briefly(driver: &DriverView) -> DriverView {
    let missing = if driver.usable { Vec::new() } else { driver.missing.clone() };
    DriverView { missing, ..driver.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_said_with_what_to_do() {
        let host = |level: &str| -> HostView {
            serde_json::from_value(serde_json::json!({
                "version": "1", "instance": "i", "default_driver": "oci", "default_image": "host", "drivers": [],
                "cpus": 1, "memory_total_bytes": 1, "memory_available_bytes": 1, "disk_total_bytes": 4 << 30,
                "disk_free_bytes": 1 << 20, "disk_floor_bytes": 200 << 20, "disk_level": level,
                "hostd_rss_bytes": 1, "sandboxes": {}, "warnings": [],
            }))
            .expect("a host")
        };
        assert_eq!(full_disk(&host("ok")), None);
        for (level, does) in [("low", "wakes are refused"), ("full", "grow are stopped")] {
            let check = full_disk(&host(level)).expect("said");
            assert!(check.found.starts_with("disk_full: ") && check.found.ends_with(does), "{check:?}");
            assert_eq!((check.level, check.fix.is_some()), (Level::Missing, true));
        }
    }

    #[test]
    fn a_check_says_how_to_fix_it() {
        let checks = [
            Check::fine("root", "yes".into()),
            Check::warning("inotify", "128 instances".into(), Some("sysctl -w x=1".into())),
            Check::missing("runtime", "none".into(), "apt-get install -y crun"),
        ];
        insta::assert_snapshot!(text(&checks, &[], Output { json: false, colour: false }), @r"
        ok       root             yes
        warning  inotify          128 instances
                                  fix: sysctl -w x=1
        missing  runtime          none
                                  fix: apt-get install -y crun

        1 thing that is needed is missing
        ");
    }
}
