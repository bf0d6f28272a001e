//! Renders an error page as HTML: what is wrong, what to do, and what was printed. All text that is not ours
//! is escaped here, and only here.

use super::csp::{SCRIPT, STYLE};
use crate::html::escape;
use hostd_core::{ErrorPage, LogExcerpt, Previews};
use protocol::api::ApiErrorCode;
use std::fmt::Write;

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"robots\" content=\"noindex\">\n\
<link rel=\"icon\" href=\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E\
%3Cpath d='M3 16h18l-3 5H6zM11 2v12H4zM13 5v9h6z' fill='%230f766e'/%3E%3C/svg%3E\">\n";

const MARK: &str = "<p class=\"mark\"><svg viewBox=\"0 0 24 24\" aria-hidden=\"true\">\
<path d=\"M3 16h18l-3 5H6zM11 2v12H4zM13 5v9h6z\"/></svg>Slipway</p>\n";

// Writing to a `String` cannot fail, so the result of `write!` is ignored.

pub fn page(error: &ErrorPage, previews: &Previews, waits: bool) -> String {
    let waits = waits && error.page_waits;
    let mut page = format!(
        "{HEAD}<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body{}>\n<main>\n{MARK}",
        escape(&error.title),
        if waits { wait(error) } else { "" },
    );
    let _ = writeln!(page, "<h1>{}</h1>\n<p class=\"text\">{}</p>", prose(&error.title), prose(&error.text));
    let only_waits = only_waits(error);
    if waits && only_waits {
        steps(&mut page, error);
    }
    links(&mut page, error, previews);
    if let Some(lines) = &error.lines {
        printed(&mut page, lines);
    }
    advice(&mut page, &error.advice);
    if waits && !only_waits {
        // Hidden until the script runs: without it the page does not reload.
        page.push_str("<section id=\"wait\" hidden>\n<h2>This page opens by itself</h2>\n");
        steps(&mut page, error);
        page.push_str("</section>\n");
    }
    let _ = writeln!(
        page,
        "<footer><a href=\"\">Try again</a><span>{} {}</span></footer>\n</main>",
        error.status,
        code(error.code)
    );
    if waits {
        let _ = writeln!(page, "<script>{SCRIPT}</script>");
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// Whether nothing is wrong, and the app is only waited for.
fn only_waits(error: &ErrorPage) -> bool {
    matches!(error.code, ApiErrorCode::Waking | ApiErrorCode::ShuttingDown)
}

/// The attribute that tells the script which stream to open: one that ends when something is wrong, or one
/// that waits for a port.
fn wait(error: &ErrorPage) -> &'static str {
    if only_waits(error) { " data-wait=\"app\"" } else { " data-wait=\"port\"" }
}

/// The step that runs now; the script replaces it.
fn steps(page: &mut String, error: &ErrorPage) {
    let step = escape(error.step.as_deref().unwrap_or("waiting"));
    let _ =
        writeln!(page, "<ol id=\"steps\" role=\"status\"><li class=\"now\"><span>{step}</span></li></ol>");
}

fn links(page: &mut String, error: &ErrorPage, previews: &Previews) {
    if error.links.is_empty() {
        return;
    }
    page.push_str("<ul class=\"links\">\n");
    for link in &error.links {
        let (url, text) = (escape(&previews.url(&link.preview)), escape(&link.text));
        let _ = writeln!(page, "<li><a href=\"{url}\">Open {text}</a></li>");
    }
    page.push_str("</ul>\n");
}

fn printed(page: &mut String, lines: &LogExcerpt) {
    let _ = write!(page, "<figure>\n<figcaption>{}</figcaption>\n<pre tabindex=\"0\">", escape(&lines.of));
    for line in &lines.lines {
        let _ = writeln!(page, "{}", escape(line));
    }
    page.push_str("</pre>\n</figure>\n");
}

fn advice(page: &mut String, advice: &[String]) {
    if advice.is_empty() {
        return;
    }
    page.push_str("<h2>What to do</h2>\n<ul class=\"advice\">\n");
    for line in advice {
        let _ = writeln!(page, "<li>{}</li>", prose(line));
    }
    page.push_str("</ul>\n");
}

/// Text as HTML, with the parts between backquotes set as code.
fn prose(text: &str) -> String {
    let mut set = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, code, after)) = quoted(rest) {
        let _ = write!(set, "{}<code>{}</code>", escape(before), escape(code));
        rest = after;
    }
    set + &escape(rest)
}

fn quoted(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (code, after) = rest.split_once('`')?;
    Some((before, code, after))
}

/// The name of a code, as in JSON.
pub fn code(code: ApiErrorCode) -> String {
    let value = serde_json::to_value(code).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
