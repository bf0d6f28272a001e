//! Spans as OTLP has them in JSON. Pure. Ids are hexadecimal, and 64-bit integers are texts.

use super::{
    attribute::Attribute,
    span::{FinishedSpan, SpanKind},
};
use serde_json::{Value, json};
use std::fmt::Write;

/// The path below the endpoint, and the media type of a body.
pub const PATH: &str = "/v1/traces";
pub const CONTENT_TYPE: &str = "application/json";

const STATUS_ERROR: u8 = 2;

/// The body of an export. `instance` tells hosts apart.
pub fn body(spans: &[FinishedSpan], version: &str, instance: &str) -> Vec<u8> {
    let of_resource = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let resource = [
        of_resource("service.name", "hostd"),
        of_resource("service.version", version),
        of_resource("service.instance.id", instance),
    ];
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let scope = json!({"name": "hostd", "version": version});
    let of_scope = json!({"scope": scope, "spans": spans});
    let body = json!({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [of_scope]}]});
    body.to_string().into_bytes()
}

fn span(span: &FinishedSpan) -> Value {
    let attributes: Vec<Value> = span
        .attributes
        .iter()
        .map(|attribute| json!({"key": attribute.name(), "value": attribute.value()}))
        .collect();
    let mut value = json!({
        "traceId": hex(&span.ids.trace_id),
        "spanId": hex(&span.ids.span_id),
        "name": name(span),
        "kind": kind(span.kind),
        "startTimeUnixNano": span.begun_ns.to_string(),
        "endTimeUnixNano": span.ended_ns.to_string(),
        "attributes": attributes,
    });
    if let Some(parent) = &span.parent {
        value["parentSpanId"] = hex(parent).into();
    }
    if span.failed {
        value["status"] = json!({ "code": STATUS_ERROR });
    }
    value
}

/// A request is named by its method and route, as the conventions say.
fn name(span: &FinishedSpan) -> String {
    let (mut method, mut route) = (None, None);
    for attribute in &span.attributes {
        match attribute {
            Attribute::Method(word) => method = Some(*word),
            Attribute::Route(pattern) => route = Some(*pattern),
            Attribute::Sandbox(_)
            | Attribute::Task(_)
            | Attribute::Exec(_)
            | Attribute::Request(_)
            | Attribute::Status(_)
            | Attribute::Driver(_)
            | Attribute::Step(_)
            | Attribute::Wake(_) => {}
        }
    }
    match (span.kind, method, route) {
        (SpanKind::Server, Some(method), Some(route)) => format!("{method} {route}"),
        (SpanKind::Server | SpanKind::Client | SpanKind::Internal, _, _) => span.name.to_owned(),
    }
}

fn kind(kind: SpanKind) -> u8 {
    match kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _always = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::TraceParent;

    #[test]
    fn a_span_is_written_as_otlp_has_it() {
        let ids =
            TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").expect("good");
        let span = FinishedSpan {
            ids,
            parent: Some([1; 8]),
            name: "request",
            kind: SpanKind::Server,
            begun_ns: 1_700_000_000_000_000_001,
            ended_ns: 1_700_000_000_000_000_002,
            attributes: vec![
                Attribute::Method("GET"),
                Attribute::Route("/v1/sandboxes/{id}"),
                Attribute::Status(500),
            ],
            failed: true,
        };
        let body: Value = serde_json::from_slice(&body(&[span], "1.2.3", "a1")).expect("JSON");
        let resource = &body["resourceSpans"][0];
        assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "hostd");
        let expected = json!({
            "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
            "spanId": "00f067aa0ba902b7",
            "parentSpanId": "0101010101010101",
            "name": "GET /v1/sandboxes/{id}",
            "kind": 2,
            "startTimeUnixNano": "1700000000000000001",
            "endTimeUnixNano": "1700000000000000002",
            "attributes": [
                {"key": "http.request.method", "value": {"stringValue": "GET"}},
                {"key": "http.route", "value": {"stringValue": "/v1/sandboxes/{id}"}},
                {"key": "http.response.status_code", "value": {"intValue": "500"}},
            ],
            "status": {"code": 2},
        });
        assert_eq!(resource["scopeSpans"][0]["spans"][0], expected);
    }
}
