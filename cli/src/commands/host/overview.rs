//! `slipway host`: load, memory, disk and counts of the host, and a table of what each sandbox costs.

use crate::{
    client::ApiRequest,
    context::{Context, parse_items},
    failure::Failure,
    humanize::bytes,
    output::{Colour, Output},
    table::{Cell, Table},
    text::{plain, wire_name},
};
use protocol::api::{DiskLevel, HostView, MemoryLevel, SandboxCost};
use std::collections::BTreeMap;

pub async fn run(context: &Context) -> Result<(), Failure> {
    let output = context.output;
    let response = context.client.send(ApiRequest::get("/v1/host")).await?;
    let sandboxes = context.client.list(ApiRequest::get("/v1/host/sandboxes").long_pages()).await?;
    if output.json {
        let host: serde_json::Value = response.parse()?;
        return output.json(&serde_json::json!({ "host": host, "sandboxes": sandboxes }));
    }
    let host: HostView = response.parse()?;
    let costs: Vec<SandboxCost> = parse_items(sandboxes)?;
    output.text(&(describe(&host, output) + &table(&costs, output)))
}

fn describe(host: &HostView, output: Output) -> String {
    let [one, five, fifteen] = host.load;
    let mut lines = vec![
        field("hostd", &format!("{}, instance {}", host.version, host.instance)),
        field("driver", &driver(host)),
        field("load", &format!("{one:.2} {five:.2} {fifteen:.2} (1, 5 and 15 minutes), {} CPUs", host.cpus)),
        field("memory", &memory(host, output)),
        field("disk", &disk(host, output)),
        field("sandboxes", &sandboxes(host)),
    ];
    lines.extend(
        host.warnings.iter().map(|warning| field("warning", &output.paint(Colour::Yellow, &plain(warning)))),
    );
    lines.join("\n") + "\n"
}

/// The default driver, with the program behind it.
fn driver(host: &HostView) -> String {
    let name = &host.default_driver;
    let view = host.drivers.iter().find(|driver| driver.name == *name);
    match view.and_then(|driver| driver.version.as_ref()) {
        Some(version) => format!("{} ({})", plain(name), plain(version)),
        None => plain(name),
    }
}

fn memory(host: &HostView, output: Output) -> String {
    // A limit of all sandboxes together is what their memory is measured by.
    let (total, whose) = match host.memory_limit_bytes {
        Some(limit) if limit < host.memory_total_bytes => (limit, "limit of all sandboxes"),
        Some(_) | None => (host.memory_total_bytes, "total"),
    };
    let used = total.saturating_sub(host.memory_available_bytes);
    let level = match host.memory_level {
        MemoryLevel::Ok => "ok".to_owned(),
        MemoryLevel::Tight => output.paint(Colour::Yellow, "tight: creates and wakes are refused"),
        MemoryLevel::Critical => output.paint(Colour::Red, "critical: idle sandboxes are stopped"),
    };
    let admitted = match host.memory_admitted_bytes {
        0 => String::new(),
        admitted => format!(", {} admitted", bytes(admitted)),
    };
    let stalls = host.memory_pressure.map_or_else(
        || "pressure unknown".to_owned(),
        |stalls| format!("pressure some {:.1}% full {:.1}%", stalls.some_percent, stalls.full_percent),
    );
    format!(
        "{level}; {} used of {} ({whose}), {} available, {} reserve{admitted}; {stalls}",
        bytes(used),
        bytes(total),
        bytes(host.memory_available_bytes),
        bytes(host.memory_reserve_bytes),
    )
}

fn disk(host: &HostView, output: Output) -> String {
    let level = match host.disk_level {
        DiskLevel::Ok => "ok".to_owned(),
        DiskLevel::Low => output.paint(Colour::Yellow, "low: creates and wakes are refused"),
        DiskLevel::Full => output.paint(Colour::Red, "full: sandboxes that grow are stopped"),
    };
    format!(
        "{level}; {} free of {}, {} floor",
        bytes(host.disk_free_bytes),
        bytes(host.disk_total_bytes),
        bytes(host.disk_floor_bytes),
    )
}

fn sandboxes(host: &HostView) -> String {
    let counted = |counts: &BTreeMap<String, u64>| {
        let shown = counts.iter().filter(|(_, count)| **count > 0);
        shown.map(|(name, count)| format!("{count} {}", plain(name))).collect::<Vec<_>>().join(", ")
    };
    match (counted(&host.sandboxes), counted(&host.sandboxes_by_driver)) {
        (by_status, _) if by_status.is_empty() => "none".to_owned(),
        (by_status, by_driver) if by_driver.is_empty() => by_status,
        (by_status, by_driver) => format!("{by_status}; by driver: {by_driver}"),
    }
}

fn field(name: &str, value: &str) -> String {
    format!("{name:<10} {value}")
}

fn table(costs: &[SandboxCost], output: Output) -> String {
    if costs.is_empty() {
        return String::new();
    }
    let heads = ["ID", "NAME", "OWNER", "STATUS", "DRIVER", "MEMORY", "PEAK", "LIMIT", "CPU TIME", "DISK"];
    let mut table = Table::new(heads);
    let size = |count: Option<u64>| Cell::from(count.map(bytes).unwrap_or_default());
    for cost in costs {
        table.row([
            cost.id.as_str().into(),
            cost.name.as_str().into(),
            format!("{}/{}", cost.owner.tenant, cost.owner.principal).into(),
            wire_name(&cost.status).into(),
            cost.driver.as_str().into(),
            size(cost.memory_bytes),
            size(cost.memory_peak_bytes),
            size(Some(cost.memory_limit_bytes)),
            cost.cpu_usage_us.map(cpu_time).unwrap_or_default().into(),
            size(cost.disk_bytes),
        ]);
    }
    format!("\n{}", table.render(output))
}

/// Formats CPU time as in `0.3s`, `12m05s` or `3h07m`.
fn cpu_time(us: u64) -> String {
    let seconds = us / 1_000_000;
    match seconds {
        0..60 => format!("{}.{}s", seconds, us / 100_000 % 10),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600.. => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::{DriverView, PressureView};

    const PLAIN: Output = Output { json: false, colour: false };
    const GB: u64 = 1 << 30;

    fn host() -> HostView {
        HostView {
            version: "0.1.0".into(),
            instance: "a1b2".into(),
            default_driver: "oci".into(),
            default_image: "host".into(),
            drivers: vec![DriverView {
                name: "oci".into(),
                version: Some("crun 1.8".into()),
                ..DriverView::default()
            }],
            cpus: 8,
            memory_total_bytes: 16 * GB,
            memory_available_bytes: 10 * GB,
            memory_reserve_bytes: GB,
            memory_admitted_bytes: 0,
            memory_limit_bytes: None,
            memory_level: MemoryLevel::Ok,
            memory_pressure: Some(PressureView { some_percent: 0.25, full_percent: 0.0 }),
            load: [0.52, 1.0, 10.25],
            disk_total_bytes: 100 * GB,
            disk_free_bytes: 40 * GB,
            disk_floor_bytes: GB,
            disk_level: DiskLevel::Ok,
            hostd_rss_bytes: 30 << 20,
            sandboxes: [("running".to_owned(), 2), ("stopped".to_owned(), 1), ("error".to_owned(), 0)].into(),
            sandboxes_by_driver: [("oci".to_owned(), 3)].into(),
            warnings: vec![],
        }
    }

    #[test]
    fn the_host_is_described() {
        insta::assert_snapshot!(describe(&host(), PLAIN), @r"
        hostd      0.1.0, instance a1b2
        driver     oci (crun 1.8)
        load       0.52 1.00 10.25 (1, 5 and 15 minutes), 8 CPUs
        memory     ok; 6.0 GiB used of 16.0 GiB (total), 10.0 GiB available, 1.0 GiB reserve; pressure some 0.2% full 0.0%
        disk       ok; 40.0 GiB free of 100.0 GiB, 1.0 GiB floor
        sandboxes  2 running, 1 stopped; by driver: 3 oci
        ");
        let short = HostView {
            drivers: vec![],
            memory_limit_bytes: Some(4 * GB),
            memory_available_bytes: GB / 4,
            memory_admitted_bytes: 64 << 20,
            memory_level: MemoryLevel::Critical,
            memory_pressure: None,
            disk_level: DiskLevel::Low,
            disk_free_bytes: GB / 2,
            sandboxes: BTreeMap::new(),
            warnings: vec!["two\u{1b}[2J\nlines".into()],
            ..host()
        };
        insta::assert_snapshot!(describe(&short, PLAIN), @r"
        hostd      0.1.0, instance a1b2
        driver     oci
        load       0.52 1.00 10.25 (1, 5 and 15 minutes), 8 CPUs
        memory     critical: idle sandboxes are stopped; 3.8 GiB used of 4.0 GiB (limit of all sandboxes), 256.0 MiB available, 1.0 GiB reserve, 64.0 MiB admitted; pressure unknown
        disk       low: creates and wakes are refused; 512.0 MiB free of 100.0 GiB, 1.0 GiB floor
        sandboxes  none
        warning    two lines
        ");
    }

    #[test]
    fn sandboxes_are_listed_with_what_they_cost() {
        let costs = r#"[
            {"id":"01jb9xyzabcdefghjkmnpqrst0","name":"web","tenant":"acme","principal":"ann","project":"default",
             "status":"running","driver":"oci","memory_limit_bytes":536870912,"memory_bytes":104857600,
             "memory_peak_bytes":209715200,"cpu_usage_us":725000000,"disk_bytes":5242880},
            {"id":"01jb9xyzabcdefghjkmnpqrst1","name":"idle","tenant":"acme","principal":"bob","project":"default",
             "status":"stopped","driver":"docker","memory_limit_bytes":1073741824}
        ]"#;
        let costs: Vec<SandboxCost> = serde_json::from_str(costs).expect("costs");
        insta::assert_snapshot!(table(&costs, PLAIN), @r"

        ID                          NAME  OWNER     STATUS   DRIVER  MEMORY     PEAK       LIMIT      CPU TIME  DISK
        01jb9xyzabcdefghjkmnpqrst0  web   acme/ann  running  oci     100.0 MiB  200.0 MiB  512.0 MiB  12m05s    5.0 MiB
        01jb9xyzabcdefghjkmnpqrst1  idle  acme/bob  stopped  docker  -          -          1.0 GiB    -         -
        ");
        assert_eq!(table(&[], PLAIN), "");
    }

    #[test]
    fn cpu_time_has_two_units_at_most() {
        for (us, expected) in [
            (0, "0.0s"),
            (340_000, "0.3s"),
            (59_990_000, "59.9s"),
            (725_000_000, "12m05s"),
            (11_220_000_000, "3h07m"),
        ] {
            assert_eq!(cpu_time(us), expected, "{us}");
        }
    }
}
