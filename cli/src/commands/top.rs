//! `slipway top`: resource use of running sandboxes. Redrawn on a terminal, printed once otherwise.

use crate::{
    client::{ApiRequest, Client, ClientError},
    context::{Context, parse_items},
    failure::Failure,
    humanize::bytes,
    limits,
    output::{Colour, Output},
    table::{Cell, Table},
};
use protocol::api::{SandboxId, SandboxView, StatsView};
use std::{collections::HashMap, io::IsTerminal as _, time::Duration};
use tokio::time::{Instant, sleep};

/// Resource use of a sandbox at one moment.
struct Sample {
    id: SandboxId,
    name: String,
    stats: StatsView,
    at: Instant,
}

struct Row {
    id: SandboxId,
    name: String,
    stats: StatsView,
    /// Percent of one core; absent for the first sample of a sandbox.
    cpu_percent: Option<f64>,
}

pub async fn run(context: &Context) -> Result<(), Failure> {
    if context.output.json {
        return print_json(context).await;
    }
    let live = std::io::stdout().is_terminal();
    let mut before = sample(&context.client).await?;
    sleep(limits::TOP_SAMPLE).await;
    loop {
        let now = sample(&context.client).await?;
        let text = table(&rows(&before, &now), context.output);
        if !live {
            return context.output.text(&text);
        }
        // Cursor home, clear the screen.
        context.output.bytes(format!("\x1b[H\x1b[2J{text}").as_bytes())?;
        before = now;
        sleep(limits::TOP_EVERY).await;
    }
}

async fn print_json(context: &Context) -> Result<(), Failure> {
    let samples = sample(&context.client).await?;
    let items: Vec<serde_json::Value> = samples
        .iter()
        .map(|sample| serde_json::json!({ "id": sample.id, "name": sample.name, "stats": sample.stats }))
        .collect();
    context.output.items(&items)
}

async fn sample(client: &Client) -> Result<Vec<Sample>, ClientError> {
    let views: Vec<SandboxView> = parse_items(
        client.list(ApiRequest::get("/v1/sandboxes").long_pages().query("status", "running")).await?,
    )?;
    let mut samples = Vec::with_capacity(views.len());
    for view in views {
        match client.send(ApiRequest::get(format!("/v1/sandboxes/{}/stats", view.id))).await {
            Ok(response) => {
                samples.push(Sample {
                    id: view.id,
                    name: view.name,
                    stats: response.parse()?,
                    at: Instant::now(),
                });
            }
            // The sandbox stopped since the list was fetched.
            Err(error) if error.api().is_some() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(samples)
}

/// Sorts by CPU use, then by memory.
fn rows(before: &[Sample], now: &[Sample]) -> Vec<Row> {
    let earlier: HashMap<SandboxId, &Sample> = before.iter().map(|sample| (sample.id, sample)).collect();
    let row = |sample: &Sample| {
        let since = earlier.get(&sample.id);
        let cpu = since
            .map(|then| percent(then.stats.cpu_usage_us, sample.stats.cpu_usage_us, sample.at - then.at));
        Row { id: sample.id, name: sample.name.clone(), stats: sample.stats.clone(), cpu_percent: cpu }
    };
    let mut rows: Vec<Row> = now.iter().map(row).collect();
    rows.sort_by(|a, b| {
        let cpu = |row: &Row| row.cpu_percent.unwrap_or(0.0).round();
        cpu(b).total_cmp(&cpu(a)).then(b.stats.memory_bytes.cmp(&a.stats.memory_bytes))
    });
    rows
}

/// Computes CPU percent. A counter that decreased belongs to another run of the sandbox.
fn percent(before_us: u64, now_us: u64, elapsed: Duration) -> f64 {
    now_us.saturating_sub(before_us) as f64 * 100.0 / (elapsed.as_micros().max(1) as f64)
}

fn table(rows: &[Row], output: Output) -> String {
    let mut table = Table::new(["ID", "NAME", "CPU", "MEMORY", "LIMIT", "PEAK", "PIDS", "NOTES"]);
    for row in rows {
        let stats = &row.stats;
        table.row([
            row.id.as_str().into(),
            row.name.clone().into(),
            row.cpu_percent.map(|cpu| format!("{cpu:.0}%")).unwrap_or_default().into(),
            bytes(stats.memory_bytes).into(),
            bytes(stats.memory_limit_bytes).into(),
            bytes(stats.memory_peak_bytes).into(),
            format!("{}/{}", stats.pids, stats.pids_limit).into(),
            notes(stats),
        ]);
    }
    table.render(output)
}

/// A workspace with less than this part of its limit left is noted.
const DISK_NOTED_PART: u64 = 20;

fn notes(stats: &StatsView) -> Cell {
    let oom = (stats.oom_kills > 0).then(|| format!("{} killed for memory", stats.oom_kills));
    let pids = (stats.pids_limit_hits > 0).then(|| format!("{} forks refused", stats.pids_limit_hits));
    let disk = stats.disk_bytes.zip(stats.disk_limit_bytes);
    let disk =
        disk.filter(|(used, limit)| used.saturating_mul(DISK_NOTED_PART) >= limit * (DISK_NOTED_PART - 1));
    let disk = disk.map(|(used, limit)| format!("disk {} of {}", bytes(used), bytes(limit)));
    let notes: Vec<String> = oom.into_iter().chain(pids).chain(disk).collect();
    if notes.is_empty() { Cell::from("") } else { Cell::painted(notes.join(", "), Colour::Red) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_is_first_and_troubles_are_named() {
        let stats = |cpu_usage_us, memory_bytes, oom_kills| StatsView {
            memory_bytes,
            memory_working_bytes: memory_bytes,
            memory_peak_bytes: memory_bytes * 2,
            memory_limit_bytes: 512 << 20,
            cpu_usage_us,
            pids: 3,
            pids_limit: 256,
            cpus_limit: None,
            oom_kills,
            pids_limit_hits: 0,
            disk_bytes: None,
            disk_limit_bytes: None,
        };
        let start = Instant::now();
        let sample = |id: &str, name: &str, stats, after_s| Sample {
            id: id.parse().expect("a good id"),
            name: name.into(),
            stats,
            at: start + Duration::from_secs(after_s),
        };
        let (a, b, c) =
            ("01jb9xyzabcdefghjkmnpqrst0", "01jb9xyzabcdefghjkmnpqrst1", "01jb9xyzabcdefghjkmnpqrst2");
        let before =
            [sample(a, "quiet", stats(5, 9 << 20, 0), 0), sample(b, "busy", stats(0, 1 << 20, 0), 0)];
        let now = [
            sample(a, "quiet", stats(5, 9 << 20, 0), 2),
            sample(b, "busy", stats(3_000_000, 1 << 20, 2), 2),
            sample(c, "new", stats(7, 99 << 20, 0), 2),
        ];
        insta::assert_snapshot!(table(&rows(&before, &now), Output { json: false, colour: false }), @r"
        ID                          NAME   CPU   MEMORY    LIMIT      PEAK       PIDS   NOTES
        01jb9xyzabcdefghjkmnpqrst1  busy   150%  1.0 MiB   512.0 MiB  2.0 MiB    3/256  2 killed for memory
        01jb9xyzabcdefghjkmnpqrst2  new    -     99.0 MiB  512.0 MiB  198.0 MiB  3/256  -
        01jb9xyzabcdefghjkmnpqrst0  quiet  0%    9.0 MiB   512.0 MiB  18.0 MiB   3/256  -
        ");
    }
}
