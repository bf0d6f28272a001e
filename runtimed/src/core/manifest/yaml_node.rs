//! A YAML document as a tree with line numbers. Knows nothing about services, and nothing about the parser.

use super::syntax::segment;
use std::ops::Range;

#[derive(Debug)]
pub(super) struct Node {
    pub kind: Kind,
    pub line: u32,
    /// Byte range of a scalar in the source.
    pub at: Range<usize>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    /// The value where it is a whole number that is not negative.
    Number(Option<u64>),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub key: String,
    pub value: Node,
    pub line: u32,
}

impl Node {
    /// A scalar as it is written: `1.10` stays `1.10`. `None` for null, lists and maps.
    pub fn scalar(&self, source: &str) -> Option<String> {
        let quote = |c: char| c.is_whitespace() || c == '"' || c == '\'';
        match &self.kind {
            Kind::Text(text) => Some(text.clone()),
            // A number or a flag is quoted only where a tag made it one.
            Kind::Bool(_) | Kind::Number(_) => {
                source.get(self.at.clone()).map(|raw| raw.trim_matches(quote).to_owned())
            }
            Kind::Null | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// The line of the field, or of its nearest existing parent.
    pub fn line_of(&self, path: &str) -> u32 {
        self.line_inside(path).unwrap_or(self.line)
    }

    fn line_inside(&self, path: &str) -> Option<u32> {
        match &self.kind {
            Kind::Map(entries) => {
                let found =
                    entries.iter().filter_map(|entry| Some((entry, after(path, &segment(&entry.key))?)));
                // The longest key: a name may contain dots.
                let (entry, rest) = found.min_by_key(|(_, rest)| rest.len())?;
                entry.value.line_inside(rest).or(Some(entry.line))
            }
            Kind::List(items) => {
                let inside = |(index, item)| Some((item, after(path, &format!("[{index}]"))?));
                let (item, rest): (&Node, _) = items.iter().enumerate().find_map(inside)?;
                item.line_inside(rest).or(Some(item.line))
            }
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) => None,
        }
    }
}

/// The rest of the path after its first part, if that is `part`.
fn after<'p>(path: &'p str, part: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(part)?;
    match rest.chars().next() {
        None | Some('[') => Some(rest),
        Some('.') => Some(&rest[1..]),
        Some(_) => None,
    }
}
