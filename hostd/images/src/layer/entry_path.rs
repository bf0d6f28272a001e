//! Names of entries: parsed, relative to the root of the tree, and what they mean in a layer. Pure.

use super::Refusal;
use crate::limits::{ENTRY_NAME_MAX_BYTES, ENTRY_PATH_MAX_BYTES, IMAGE_DEPTH_MAX};

const WHITEOUT: &[u8] = b".wh.";
/// Names that AUFS kept for itself begin with this.
const RESERVED: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// A path below the root of a tree: names between single slashes, none of them empty, `.` or `..`. The root itself is
/// empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryPath(Vec<u8>);

/// What an entry of a layer is about.
#[derive(Debug, PartialEq, Eq)]
pub enum Meaning<'a> {
    Root,
    Entry {
        parent: &'a [u8],
        name: &'a [u8],
    },
    /// The layers below have no `name`.
    Whiteout {
        parent: &'a [u8],
        name: &'a [u8],
    },
    /// Nothing of the layers below is in `directory`.
    Opaque {
        directory: &'a [u8],
    },
    /// A file of AUFS itself.
    Reserved,
}

impl EntryPath {
    /// Parses the name of an entry or the target of a hard link. Absolute names are relative to the root.
    pub fn parse(name: &[u8]) -> Result<Self, Refusal> {
        if name.contains(&0) {
            return Err(Refusal::NulByte);
        }
        let mut path = Vec::with_capacity(name.len());
        let mut depth = 0;
        for part in name.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".") {
            if part == b".." {
                return Err(Refusal::LeadsOut);
            }
            if part.len() > ENTRY_NAME_MAX_BYTES {
                return Err(Refusal::NameTooLong);
            }
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend(part);
            depth += 1;
        }
        if depth > IMAGE_DEPTH_MAX {
            return Err(Refusal::TooDeep);
        }
        if path.len() > ENTRY_PATH_MAX_BYTES {
            return Err(Refusal::PathTooLong);
        }
        Ok(Self(path))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Splits off the last name; nothing for the root.
    pub fn split(&self) -> Option<(&[u8], &[u8])> {
        if self.0.is_empty() {
            return None;
        }
        Some(match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (&[], &self.0),
        })
    }

    /// Returns the meaning of the name in a tree without whiteouts.
    pub fn plain_meaning(&self) -> Meaning<'_> {
        self.split().map_or(Meaning::Root, |(parent, name)| Meaning::Entry { parent, name })
    }

    /// Returns the meaning of the name in a layer.
    pub fn layer_meaning(&self) -> Result<Meaning<'_>, Refusal> {
        let Some((parent, name)) = self.split() else { return Ok(Meaning::Root) };
        let mut above = parent.split(|byte| *byte == b'/');
        if above.clone().any(|part| part.starts_with(RESERVED)) {
            return Ok(Meaning::Reserved);
        }
        if above.any(|part| part.starts_with(WHITEOUT)) {
            return Err(Refusal::ThroughWhiteout);
        }
        if name == OPAQUE {
            return Ok(Meaning::Opaque { directory: parent });
        }
        if name.starts_with(RESERVED) {
            return Ok(Meaning::Reserved);
        }
        match name.strip_prefix(WHITEOUT) {
            Some(b"" | b"." | b"..") => Err(Refusal::WhiteoutName),
            Some(name) => Ok(Meaning::Whiteout { parent, name }),
            None => Ok(Meaning::Entry { parent, name }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_relative_to_the_root() {
        let long = "n".repeat(256);
        let deep = "d/".repeat(257);
        let wide = format!("{}/", "w".repeat(255)).repeat(17);
        type Parsed = Result<&'static [u8], Refusal>;
        let table: [(&[u8], Parsed); 14] = [
            (b"", Ok(b"")),
            (b"./", Ok(b"")),
            (b"/", Ok(b"")),
            (b"a", Ok(b"a")),
            (b"./a//b/./c/", Ok(b"a/b/c")),
            (b"///etc/passwd", Ok(b"etc/passwd")),
            (b"a/..b/...", Ok(b"a/..b/...")),
            (b"\xff\n", Ok(b"\xff\n")),
            (b"..", Err(Refusal::LeadsOut)),
            (b"a/../b", Err(Refusal::LeadsOut)),
            (b"a\0/../b", Err(Refusal::NulByte)),
            (long.as_bytes(), Err(Refusal::NameTooLong)),
            (deep.as_bytes(), Err(Refusal::TooDeep)),
            (wide.as_bytes(), Err(Refusal::PathTooLong)),
        ];
        for (name, expected) in table {
            let found = EntryPath::parse(name);
            assert_eq!(
                found.as_ref().map(EntryPath::as_bytes),
                expected.as_ref().copied(),
                "{}",
                name.escape_ascii()
            );
        }
    }

    #[test]
    fn whiteouts_are_recognized_by_their_names() {
        let table: [(&[u8], Result<Meaning<'_>, Refusal>); 13] = [
            (b"/", Ok(Meaning::Root)),
            (b"a", Ok(Meaning::Entry { parent: b"", name: b"a" })),
            (b"a/b/c", Ok(Meaning::Entry { parent: b"a/b", name: b"c" })),
            (b"a/.wh", Ok(Meaning::Entry { parent: b"a", name: b".wh" })),
            (b"a/.wh.b", Ok(Meaning::Whiteout { parent: b"a", name: b"b" })),
            (b".wh..x", Ok(Meaning::Whiteout { parent: b"", name: b".x" })),
            (b"a/.wh..wh..opq", Ok(Meaning::Opaque { directory: b"a" })),
            (b".wh..wh.plnk", Ok(Meaning::Reserved)),
            (b".wh..wh.plnk/1.2", Ok(Meaning::Reserved)),
            (b"a/.wh.", Err(Refusal::WhiteoutName)),
            (b".wh..", Err(Refusal::WhiteoutName)),
            (b".wh...", Err(Refusal::WhiteoutName)),
            (b".wh.a/b", Err(Refusal::ThroughWhiteout)),
        ];
        for (name, expected) in table {
            let path = EntryPath::parse(name).expect("valid");
            assert_eq!(path.layer_meaning(), expected, "{}", name.escape_ascii());
        }
        let path = EntryPath::parse(b"a/.wh.b").expect("valid");
        assert_eq!(path.plain_meaning(), Meaning::Entry { parent: b"a", name: b".wh.b" });
    }
}
