//! The headers of one part of a form.

/// The names in `Content-Disposition`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    pub name: Option<String>,
    pub file_name: Option<String>,
}

/// Reads the headers of a part, without the empty line.
pub fn parse(headers: &[u8]) -> Part {
    let text = String::from_utf8_lossy(headers);
    let disposition = text.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then(|| value.to_owned())
    });
    let mut part = Part::default();
    for (name, value) in parameters(&disposition.unwrap_or_default()) {
        match name.as_str() {
            "name" => part.name = Some(value),
            "filename" if part.file_name.is_none() => part.file_name = Some(unescaped(&value)),
            // Names the file whatever `filename` says.
            "filename*" => {
                if let Some(decoded) = extended(&value) {
                    part.file_name = Some(decoded);
                }
            }
            _ => {}
        }
    }
    part
}

/// The parameters after the first `;`. Quoted values may have `\"` and `\\`.
fn parameters(value: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = value.split_once(';').map_or("", |(_, rest)| rest);
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches(|c: char| c == ';' || c.is_whitespace()).to_ascii_lowercase();
        let after = after.trim_start();
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let (value, left) = after.split_once(';').unwrap_or((after, ""));
                (value.trim().to_owned(), left)
            }
        };
        found.push((name, value));
        rest = left;
    }
    found
}

/// The text up to the closing quote, and what follows.
fn unquoted(quoted: &str) -> (String, &str) {
    let mut text = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (text, &quoted[at + 1..]),
            '\\' => match characters.next() {
                Some((_, escaped @ ('"' | '\\'))) => text.push(escaped),
                Some((_, other)) => text.extend(['\\', other]),
                None => text.push('\\'),
            },
            other => text.push(other),
        }
    }
    (text, "")
}

/// The three characters that forms escape in names.
fn unescaped(name: &str) -> String {
    name.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n")
}

/// `UTF-8''percent-encoded`.
fn extended(value: &str) -> Option<String> {
    let (charset, rest) = value.split_once('\'')?;
    let (_, encoded) = rest.split_once('\'')?;
    let decoded = protocol::files::FilePath::decode(encoded)?;
    charset.eq_ignore_ascii_case("utf-8").then(|| String::from_utf8(decoded.0).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_part_is_named_in_each_way_that_clients_write_it() {
        let table = [
            (r#"form-data; name="file"; filename="a.txt""#, Some("file"), Some("a.txt")),
            (r#"form-data; name="file"; filename="a \"b\" \\ ;=c""#, Some("file"), Some("a \"b\" \\ ;=c")),
            (r#"form-data; name="file"; filename="a%22b%0A.txt""#, Some("file"), Some("a\"b\n.txt")),
            ("form-data; name=file; filename=x", Some("file"), Some("x")),
            ("form-data; name=\"file\"; filename=\"/home/user/ü\"", Some("file"), Some("/home/user/ü")),
            (
                "form-data; name=\"file\"; filename=\"x\"; filename*=UTF-8''%C3%BC%20b",
                Some("file"),
                Some("ü b"),
            ),
            ("form-data; filename*=latin1''%FC", None, None),
            ("form-data", None, None),
            ("form-data; name=\"fi", Some("fi"), None),
        ];
        for (value, name, file_name) in table {
            let headers = format!("Content-Type: text/plain\r\ncontent-disposition: {value}");
            let expected = Part { name: name.map(str::to_owned), file_name: file_name.map(str::to_owned) };
            assert_eq!(parse(headers.as_bytes()), expected, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_headers_are_a_part(headers: Vec<u8>) {
            parse(&[b"content-disposition: form-data; ", &headers[..]].concat());
        }
    }
}
