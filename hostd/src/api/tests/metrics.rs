//! `/metrics` as a whole: its format, its documentation, and that its counters move.

use super::{ApiFixture, TestRequest};
use protocol::api::TokenScope;
use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");

/// A family as its text shows it.
#[derive(Default)]
struct ParsedFamily<'a> {
    kind: &'a str,
    samples: Vec<Sample<'a>>,
}

struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, &'a str)>,
    value: f64,
}

/// Parses the text format of OpenMetrics as strictly as a scraper does.
#[track_caller]
fn parse(text: &str) -> BTreeMap<&str, ParsedFamily<'_>> {
    let body = text.strip_suffix("# EOF\n").expect("the text ends with EOF");
    let mut families = BTreeMap::<_, ParsedFamily<'_>>::new();
    let mut seen = BTreeSet::new();
    let (mut helped, mut current) = ("", "");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(help.ends_with('.') && !help.ends_with(".."), "{line}");
            helped = name;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(name, helped, "help and type come together");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            current = name;
            let before = families.insert(name, ParsedFamily { kind, samples: Vec::new() });
            assert!(before.is_none(), "{name} is there once");
        } else {
            let sample = parse_sample(line);
            assert!(seen.insert(line.rsplit_once(' ').expect("a value").0), "{line} is there once");
            let family = families.get_mut(current).expect("a sample of a family");
            let suffix = sample.name.strip_prefix(current).expect("a sample of this family");
            match family.kind {
                "counter" => assert_eq!(suffix, "_total", "{line}"),
                "gauge" => assert_eq!(suffix, "", "{line}"),
                _ => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
            }
            family.samples.push(sample);
        }
    }
    families
}

#[track_caller]
fn parse_sample(line: &str) -> Sample<'_> {
    let (name_and_labels, value) = line.rsplit_once(' ').expect("a value");
    let value = value.parse().unwrap_or_else(|error| panic!("{error}: {line}"));
    let (name, labels) = name_and_labels.split_once('{').unwrap_or((name_and_labels, "}"));
    let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    assert!(word(name), "{line}");
    let labels = labels.strip_suffix('}').expect("a closed list of labels");
    let label = |text| {
        let (name, value): (&str, &str) = str::split_once(text, "=\"").expect("a label");
        let value = value.strip_suffix('"').expect("a quoted value");
        assert!(word(name) && !value.contains(['"', '\\']), "{line}");
        (name, value)
    };
    let labels = labels.split(',').filter(|label| !label.is_empty()).map(label).collect();
    Sample { name, labels, value }
}

/// Checks that the buckets of each histogram of a family are cumulative, and that the last one has all.
#[track_caller]
fn check_histograms(family: &ParsedFamily<'_>) {
    let mut series = BTreeMap::<Vec<_>, (Vec<(f64, f64)>, f64)>::new();
    for sample in &family.samples {
        let rest = sample.labels.iter().filter(|(name, _)| *name != "le").collect();
        let (buckets, count) = series.entry(rest).or_default();
        if let Some((_, bound)) = sample.labels.iter().find(|(name, _)| *name == "le") {
            let bound = if *bound == "+Inf" { f64::INFINITY } else { bound.parse().expect("a bound") };
            buckets.push((bound, sample.value));
        } else if sample.name.ends_with("_count") {
            *count = sample.value;
        }
    }
    for (labels, (buckets, count)) in series {
        assert!(buckets.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1), "{labels:?}");
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)), "{labels:?}");
    }
}

/// The rows of the tables in the documentation: name, type and labels.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let code = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, kind, labels, ..] = cells[..] else { panic!("four columns: {line}") };
        let name = code(name).first().expect("a name").clone();
        (name, (kind.to_owned(), code(labels).into_iter().collect()))
    };
    rows.map(row).collect()
}

impl ApiFixture {
    async fn metrics(&self) -> String {
        String::from_utf8(self.get("/metrics").await.bytes.to_vec()).unwrap()
    }
}

#[tokio::test]
async fn the_text_can_be_scraped_and_is_documented() {
    let fixture = ApiFixture::new().await;
    let (oldest, _left_out) = (fixture.sandbox().await, fixture.sandbox().await);
    // A scrape shows what the one before it found of single sandboxes.
    while !fixture.metrics().await.contains(&format!("slipway_sandbox_memory_bytes{{sandbox=\"{oldest}\"}}"))
    {
        tokio::task::yield_now().await;
    }
    assert!(fixture.metrics().await.lines().any(|line| line == "slipway_sandbox_samples_left_out 1.0"));
    let reply = fixture.get("/metrics").await;
    assert_eq!(reply.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let text = String::from_utf8(reply.bytes.to_vec()).unwrap();
    let families = parse(&text);
    let mut documented = documented();
    for (name, family) in &families {
        let sampled = if family.kind == "counter" { format!("{name}_total") } else { (*name).to_owned() };
        let (kind, labels) =
            documented.remove(&sampled).unwrap_or_else(|| panic!("{sampled} is in docs/metrics.md"));
        assert_eq!(kind, family.kind, "{sampled}");
        assert!(!family.samples.is_empty(), "{sampled}: a sandbox was created and started");
        for sample in &family.samples {
            let found = sample.labels.iter().map(|(name, _)| (*name).to_owned()).filter(|name| name != "le");
            assert_eq!(found.collect::<BTreeSet<_>>(), labels, "{sampled}");
        }
        if family.kind == "histogram" {
            check_histograms(family);
        }
    }
    assert!(documented.is_empty(), "documented, but not there: {documented:?}");
}

#[tokio::test]
async fn counters_move_and_gauges_follow() {
    let fixture = ApiFixture::new().await;
    fixture.sandbox().await;
    let reader = fixture.token("acme", "ann", TokenScope::Read).await;
    let stream =
        fixture.open(TestRequest::get("/v1/events").with("accept", "text/event-stream").token(&reader)).await;
    assert_eq!(stream.status().as_u16(), 200);
    let text = fixture.metrics().await;
    for line in [
        "slipway_sandboxes{status=\"running\",driver=\"fake\"} 1",
        "slipway_sandbox_launch_duration_seconds_count{driver=\"fake\"} 1",
        "slipway_driver_up{driver=\"fake\"} 1",
        "slipway_api_requests_total{method=\"POST\",route=\"/v1/tokens\",status=\"201\"} 1",
        "slipway_api_event_streams 1",
        "slipway_store_feed_subscribers 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    drop(stream);
    let text = fixture.metrics().await;
    assert!(text.lines().any(|found| found == "slipway_api_event_streams 0"), "{text}");
}
