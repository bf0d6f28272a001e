//! Renders the status of a sandbox as HTML: plain, without scripts, and with everything escaped. Pure.

use super::status::{InnerView, ServiceSummary, StatusView};
use hostd_edge::html::escape;
use protocol::{Reason, ServiceState};
use std::fmt::Write;

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width\"><style>\
body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse}td,th{text-align:left;padding:.1rem 1.5rem .1rem 0}\
</style>\n";

pub fn html(view: &StatusView) -> String {
    let name = escape(&view.name);
    let status = match view.phase {
        Some(phase) => format!("{} ({})", word(&view.status), word(&phase)),
        None => word(&view.status),
    };
    let mut page = format!(
        "{HEAD}<title>{name}</title></head><body>\n<h1>{name}</h1>\n<p>Sandbox {}: {status}.</p>\n",
        view.id
    );
    if !view.previews.is_empty() {
        page.push_str("<h2>Previews</h2>\n<table>\n");
        for (port, url) in &view.previews {
            let (port, url) = (escape(port), escape(url));
            let _ = writeln!(page, "<tr><th>{port}</th><td><a href=\"{url}\">{url}</a></td></tr>");
        }
        page.push_str("</table>\n");
    }
    match &view.inner {
        Some(inner) => inside(&mut page, inner),
        None => page.push_str("<p>PID 1 does not answer at the moment.</p>\n"),
    }
    page.push_str("</body></html>\n");
    page
}

fn inside(page: &mut String, inner: &InnerView) {
    // Writing to a `String` cannot fail.
    if !inner.services.is_empty() {
        page.push_str("<h2>Services</h2>\n<table>\n");
        for service in &inner.services {
            let port = service.port.map(|port| port.to_string()).unwrap_or_default();
            let (name, state) = (escape(service.name.as_str()), escape(&state(service)));
            let _ = writeln!(page, "<tr><th>{name}</th><td>{port}</td><td>{state}</td></tr>");
        }
        page.push_str("</table>\n");
    }
    let since = escape(&inner.since);
    if !inner.busy {
        let _ = writeln!(page, "<p>Idle since {since}.</p>");
        return;
    }
    let _ = writeln!(page, "<h2>Awake since {since}, because of</h2>\n<ul>");
    for reason in &inner.reasons {
        let _ = writeln!(page, "<li>{}</li>", escape(&why(reason)));
    }
    page.push_str("</ul>\n");
}

fn state(service: &ServiceSummary) -> String {
    match &service.state {
        ServiceState::Waiting { on } => {
            let names: Vec<&str> = on.iter().map(|name| name.as_str()).collect();
            format!("waits for {}", names.join(", "))
        }
        ServiceState::Starting => "starting".to_owned(),
        ServiceState::Ready { .. } => "ready".to_owned(),
        ServiceState::Unhealthy { reason, .. } => format!("unhealthy: {reason}"),
        ServiceState::Backoff { failures, .. } => format!("failed {failures} times, is tried again"),
        ServiceState::Stopping => "stopping".to_owned(),
        ServiceState::Stopped => "stopped".to_owned(),
        ServiceState::FailedDependency { on } => format!("{on}, which it needs, is stopped"),
    }
}

fn why(reason: &Reason) -> String {
    match reason {
        Reason::Exec { exec } => format!("exec {exec}"),
        Reason::Task { task } => format!("task {task}"),
        Reason::Viewers { count } => format!("{count} viewers"),
        Reason::Tunnels { count } => format!("{count} tunnels"),
        Reason::Files { count } => format!("{count} transfers of files"),
        Reason::Hold { hold } => format!("hold {hold}"),
        Reason::ServiceStarting { service } => format!("service {service}, which is starting"),
        Reason::Cpu { percent } => format!("CPU use of {percent} %"),
        Reason::Preview { streams, .. } => format!("{streams} open previews"),
    }
}

/// The name of a variant, as in JSON.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    escape(value.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::SandboxStatus;

    fn view() -> StatusView {
        let service = |name: &str, state| ServiceSummary {
            name: protocol::ServiceName::parse(name).expect("a name"),
            port: Some(3000),
            state,
            restarts: 0,
        };
        StatusView {
            id: "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id"),
            name: "<script>alert('1')</script> & \"more\"".to_owned(),
            status: SandboxStatus::Running,
            phase: None,
            previews: [("3000".to_owned(), "http://s-x-3000.preview.localhost:8080".to_owned())].into(),
            inner: Some(InnerView {
                services: vec![
                    service("web", ServiceState::Ready { since_ms: 1 }),
                    service("api", ServiceState::Unhealthy { since_ms: 1, reason: "<b>down</b>".to_owned() }),
                ],
                tasks: vec![],
                busy: true,
                since: "2026-01-01T00:00:00Z".to_owned(),
                reasons: vec![Reason::Cpu { percent: 40 }],
            }),
        }
    }

    #[test]
    fn the_page_reads_well_and_nothing_in_it_runs() {
        let page = html(&view());
        assert!(!page.contains("<script") && !page.contains("<b>"), "{page}");
        insta::assert_snapshot!(page.trim_start_matches(HEAD), @r##"
        <title>&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;more&quot;</title></head><body>
        <h1>&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;more&quot;</h1>
        <p>Sandbox 01jb9xyzabcdefghjkmnpqrstv: running.</p>
        <h2>Previews</h2>
        <table>
        <tr><th>3000</th><td><a href="http://s-x-3000.preview.localhost:8080">http://s-x-3000.preview.localhost:8080</a></td></tr>
        </table>
        <h2>Services</h2>
        <table>
        <tr><th>web</th><td>3000</td><td>ready</td></tr>
        <tr><th>api</th><td>3000</td><td>unhealthy: &lt;b&gt;down&lt;/b&gt;</td></tr>
        </table>
        <h2>Awake since 2026-01-01T00:00:00Z, because of</h2>
        <ul>
        <li>CPU use of 40 %</li>
        </ul>
        </body></html>
        "##);
    }

    #[test]
    fn a_sandbox_whose_pid_1_is_silent_has_a_page_too() {
        let page = html(&StatusView { inner: None, ..view() });
        assert!(page.contains("PID 1 does not answer"), "{page}");
    }
}
