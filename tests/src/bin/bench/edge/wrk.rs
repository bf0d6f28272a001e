//! Load by `wrk`, and what it and the kernel say about it.

use super::target::Target;
use ::tests::scaled;
use anyhow::{Context, Result, ensure};
use std::process::{Command, Stdio};
use std::time::Duration;

#[derive(Clone, Copy)]
pub struct Load {
    pub what: &'static str,
    pub path: &'static str,
    pub connections: usize,
}

/// The result of one run, or the median of several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    pub per_s: f64,
    pub p50: Duration,
    pub p99: Duration,
    /// Processor time of the proxy for one request.
    pub cpu_us: f64,
}

pub fn run(target: &Target, load: &Load) -> Result<Run> {
    run_for(target, load, scaled(2, 5))
}

/// Sends requests that are not measured.
pub fn warm_up(target: &Target, load: &Load) -> Result<()> {
    run_for(target, load, 1).map(drop)
}

fn run_for(target: &Target, load: &Load, seconds: usize) -> Result<Run> {
    let mut command = target.command("wrk");
    command.args(["-t1", "--latency", "--timeout", "10s"]);
    command.arg(format!("-c{}", load.connections)).arg(format!("-d{seconds}s"));
    command.arg("-H").arg(format!("Host: {}", target.host));
    command.arg(format!("http://{}{}", target.address, load.path));
    let before = target.cpu()?;
    let said = output(&mut command)?;
    let cpu = target.cpu()?.saturating_sub(before);
    parse(&said, cpu).with_context(|| format!("{} {}: {said}", target.name, load.what))
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().context("start wrk")?;
    ensure!(output.status.success(), "wrk: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn parse(said: &str, cpu: Duration) -> Result<Run> {
    for wrong in ["Non-2xx", "Socket errors"] {
        ensure!(!said.contains(wrong), "not every request was served");
    }
    let word_after = |line: &str| {
        let found = said.lines().find_map(|text| text.trim().strip_prefix(line));
        found.and_then(|rest| rest.split_whitespace().next()).with_context(|| format!("no {line}"))
    };
    let requests = said.lines().find_map(|line| line.trim().split_once(" requests in "));
    let requests: f64 = requests.context("no count")?.0.parse()?;
    ensure!(requests > 0.0, "no request was served");
    Ok(Run {
        per_s: word_after("Requests/sec:")?.parse()?,
        p50: time(word_after("50%")?)?,
        p99: time(word_after("99%")?)?,
        cpu_us: cpu.as_secs_f64() * 1e6 / requests,
    })
}

fn time(text: &str) -> Result<Duration> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).context("no unit")?;
    let number: f64 = text[..at].parse()?;
    let unit_s = match &text[at..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        other => anyhow::bail!("unknown unit {other}"),
    };
    Ok(Duration::from_secs_f64(number * unit_s))
}

/// The median of each number by itself.
pub fn typical(runs: &[Run]) -> Run {
    let middle = |value: &dyn Fn(&Run) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    Run {
        per_s: middle(&|run| run.per_s),
        p50: Duration::from_secs_f64(middle(&|run| run.p50.as_secs_f64())),
        p99: Duration::from_secs_f64(middle(&|run| run.p99.as_secs_f64())),
        cpu_us: middle(&|run| run.cpu_us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "Running 2s test @ http://127.0.0.1:1/
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   713.27us  424.91us  10.46ms   90.55%
    Req/Sec    46.38k     4.30k   52.04k    75.00%
  Latency Distribution
     50%  631.00us
     75%  788.00us
     90%    1.01ms
     99%    2.38ms
  92400 requests in 2.00s, 27.32MB read
Requests/sec:  46161.91
Transfer/sec:     13.65MB
";

    #[test]
    fn what_wrk_says_is_understood() {
        let run = parse(SAID, Duration::from_millis(924)).unwrap();
        let expected = Run {
            per_s: 46161.91,
            p50: Duration::from_micros(631),
            p99: Duration::from_micros(2380),
            cpu_us: 10.0,
        };
        assert_eq!(run, expected);
        parse(&format!("{SAID}  Non-2xx or 3xx responses: 3\n"), Duration::ZERO).expect_err("a failure");
    }
}
