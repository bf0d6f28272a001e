//! Puts a preview pass into an address, and takes it out again before an app or another site sees it.

use protocol::api::ApiError;

const PARAMETER: &str = "slipway_pass";
/// Size of the path that a link leads to.
pub const PATH_MAX_BYTES: usize = 2048;

/// A path and query without the passes that were in it, fit for `Location` on the same host.
#[derive(Debug, PartialEq, Eq)]
pub struct StrippedUrl<'a> {
    pub location: String,
    pub passes: Vec<&'a str>,
}

/// Removes passes from a query; none when there is none.
pub fn strip_passes<'a>(path: &'a str, query: Option<&'a str>) -> Option<StrippedUrl<'a>> {
    let query = query.filter(|query| query.contains(PARAMETER))?;
    let (mut passes, mut others) = (Vec::new(), Vec::new());
    for part in query.split('&') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        if name == PARAMETER { passes.push(value) } else { others.push(part) }
    }
    if passes.is_empty() {
        return None;
    }
    let mark = if others.is_empty() { "" } else { "?" };
    // Two slashes at the beginning would name another host.
    let same_host = if path[1.min(path.len())..].starts_with(['/', '\\']) { "/." } else { "" };
    let location = format!("{same_host}{path}{mark}{}", others.join("&"));
    Some(StrippedUrl { location, passes })
}

/// The address of a path of a preview, with a pass in its query.
pub fn url_with_pass(origin: &str, path: &str, pass: &str) -> Result<String, ApiError> {
    let good = path.starts_with('/')
        && path.len() <= PATH_MAX_BYTES
        && path.bytes().all(|b| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b));
    if !good {
        let message = format!("must begin with / and be at most {PATH_MAX_BYTES} bytes, percent-encoded");
        return Err(ApiError::invalid("path", message));
    }
    let (path, fragment) = path.find('#').map_or((path, ""), |at| path.split_at(at));
    let mark = if path.contains('?') { '&' } else { '?' };
    Ok(format!("{origin}{path}{mark}{PARAMETER}={pass}{fragment}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_leave_and_everything_else_stays() {
        type Row = (&'static str, Option<&'static str>, Option<(&'static str, &'static [&'static str])>);
        let table: [Row; 12] = [
            ("/", None, None),
            ("/", Some("a=b"), None),
            ("/", Some("my_slipway_pass=b&slipway_passes=c"), None),
            ("/", Some("slipway_pass=p"), Some(("/", &["p"]))),
            ("/x/y", Some("slipway_pass=p"), Some(("/x/y", &["p"]))),
            ("/", Some("a=b&slipway_pass=p&c=%20d&"), Some(("/?a=b&c=%20d&", &["p"]))),
            ("/", Some("slipway_pass=p&a&slipway_pass=q"), Some(("/?a", &["p", "q"]))),
            ("/", Some("slipway_pass"), Some(("/", &[""]))),
            ("//evil.example", Some("slipway_pass=p"), Some(("/.//evil.example", &["p"]))),
            ("/\\evil.example", Some("slipway_pass=p"), Some(("/./\\evil.example", &["p"]))),
            ("/a//b", Some("slipway_pass=p"), Some(("/a//b", &["p"]))),
            ("", Some("slipway_pass=p"), Some(("", &["p"]))),
        ];
        for (path, query, expected) in table {
            let expected = expected
                .map(|(location, passes)| StrippedUrl { location: location.into(), passes: passes.to_vec() });
            assert_eq!(strip_passes(path, query), expected, "{path} {query:?}");
        }
    }

    #[test]
    fn a_pass_goes_behind_the_query_and_before_the_fragment() {
        let table = [
            ("/", Some("http://h/?slipway_pass=p")),
            ("/a?b=c", Some("http://h/a?b=c&slipway_pass=p")),
            ("/a?b=c#/d?e", Some("http://h/a?b=c&slipway_pass=p#/d?e")),
            ("/#/d?e", Some("http://h/?slipway_pass=p#/d?e")),
            ("", None),
            ("a", None),
            ("/a b", None),
            ("/\u{e9}", None),
            ("/a\r\nx: y", None),
            ("/\\evil", None),
        ];
        for (path, expected) in table {
            assert_eq!(url_with_pass("http://h", path, "p").ok().as_deref(), expected, "{path:?}");
        }
        assert!(url_with_pass("http://h", &format!("/{}", "a".repeat(PATH_MAX_BYTES)), "p").is_err());
    }
}
