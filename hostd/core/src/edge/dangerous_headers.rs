//! Removes headers of an app's response that would act beyond the app's own hostname.

use http::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};

const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");
/// Values of `Clear-Site-Data` that only concern the app's own origin. Cookies are shared with other
/// previews.
const CLEARS: [&str; 2] = ["\"cache\"", "\"storage\""];
/// Prefixes: a reverse proxy in front obeys the first two, and the last marks our own responses.
const COMMANDS: [&str; 3] = ["x-accel-", "x-sendfile", "x-slipway-"];

pub fn strip_dangerous_headers(headers: &mut HeaderMap) {
    let commands = |name: &&HeaderName| COMMANDS.iter().any(|begins| name.as_str().starts_with(begins));
    let named: Vec<HeaderName> = headers.keys().filter(commands).cloned().collect();
    for name in named {
        headers.remove(name);
    }
    let values = headers.get_all(CLEAR_SITE_DATA).iter().filter_map(|value| value.to_str().ok());
    let kept: Vec<&str> = values
        .flat_map(|value| value.split(','))
        .filter_map(|word| CLEARS.into_iter().find(|kept| *kept == word.trim()))
        .collect();
    let kept = (!kept.is_empty()).then(|| HeaderValue::from_str(&kept.join(", ")));
    headers.remove(CLEAR_SITE_DATA);
    if let Some(Ok(kept)) = kept {
        headers.insert(CLEAR_SITE_DATA, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_commands_neither_proxies_nor_neighbours() {
        type Headers = &'static [(&'static str, &'static str)];
        let table: [(Headers, Headers); 6] = [
            (&[("x-slipway-error", "waking"), ("x-slipway-token", "x"), ("x-slip", "1")], &[("x-slip", "1")]),
            (&[("x-accel-redirect", "/etc/passwd"), ("x-accel-buffering", "no")], &[]),
            (&[("x-sendfile", "/etc/passwd"), ("accept", "a")], &[("accept", "a")]),
            (&[("clear-site-data", "\"cookies\"")], &[]),
            (&[("clear-site-data", "\"*\""), ("clear-site-data", "\"Cookies\", x")], &[]),
            (
                &[("clear-site-data", "\"cache\",\"cookies\""), ("clear-site-data", " \"storage\"")],
                &[("clear-site-data", "\"cache\", \"storage\"")],
            ),
        ];
        let map = |lines: Headers| -> HeaderMap {
            let line = |(name, value): &(&'static str, &'static str)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            };
            lines.iter().map(line).collect()
        };
        for (given, expected) in table {
            let mut headers = map(given);
            strip_dangerous_headers(&mut headers);
            assert_eq!(headers, map(expected), "{given:?}");
        }
    }
}
