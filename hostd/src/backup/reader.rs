//! Reads a whole backup: every entry in its order, with the hash at its end. Nothing in it is trusted.
//!
//! ```text
//! manifest ─▶ database ─▶ keys, configuration (each once) ─▶ parts (of one tree after the other, from 0 on) ─▶ end
//! ```

use super::{
    encryption::OpenWith,
    entry::{End, EntryDigest, EntryName, FORMAT, Manifest, Tree},
    error::RestoreError,
    limits::{KEY_MAX_BYTES, LIST_MAX_BYTES, PART_BYTES, SETTING_MAX_BYTES},
};
use hostd_images::{Member, MemberKind, TarReader, decompress};
use serde::de::DeserializeOwned;
use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read},
};

const BUFFER_BYTES: usize = 256 << 10;

/// What a reader is told, in this order for each entry.
pub enum Piece<'a> {
    Begin(EntryName),
    Content(&'a [u8]),
    /// No more parts of the tree before follow.
    TreeEnd,
}

/// A backup that was read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeBackup {
    pub manifest: Manifest,
    pub end: End,
}

/// Reads a backup and passes the content of its entries on.
pub fn read_backup(
    source: impl Read + Send,
    key: &OpenWith,
    schema_known: u32,
    visit: &mut dyn FnMut(Piece<'_>) -> Result<(), RestoreError>,
) -> Result<WholeBackup, RestoreError> {
    let opened = BufReader::with_capacity(BUFFER_BYTES, key.open(BufReader::new(source))?);
    let unpacked = BufReader::with_capacity(BUFFER_BYTES, decompress(opened)?);
    let mut entries = Entries {
        archive: TarReader::new(unpacked),
        digest: EntryDigest::default(),
        order: Order::default(),
        visit,
    };
    let manifest = entries.manifest(schema_known)?;
    loop {
        if let Some(end) = entries.next()? {
            // Only at the end of the source is it known that nothing was cut off.
            let mut rest = entries.archive.finish()?;
            std::io::copy(&mut rest, &mut std::io::sink())?;
            return Ok(WholeBackup { manifest, end });
        }
    }
}

struct Entries<'a, R> {
    archive: TarReader<R>,
    digest: EntryDigest,
    order: Order,
    visit: &'a mut dyn FnMut(Piece<'_>) -> Result<(), RestoreError>,
}

impl<R: BufRead> Entries<'_, R> {
    fn manifest(&mut self, schema_known: u32) -> Result<Manifest, RestoreError> {
        let (name, size) = self.header()?;
        if name != EntryName::Manifest {
            return Err(RestoreError::damaged(format!("it begins with {name}")));
        }
        self.digest.begin(&name.to_string(), size);
        let text = self.held(size, LIST_MAX_BYTES)?;
        self.digest.update(&text);
        // Of a later format nothing but its number is known.
        let found: FormatOf = parsed(&text, "manifest.json")?;
        if found.format != FORMAT {
            return Err(RestoreError::Format { found: found.format, known: FORMAT });
        }
        let manifest: Manifest = parsed(&text, "manifest.json")?;
        if manifest.schema > schema_known {
            return Err(RestoreError::Schema { found: manifest.schema, known: schema_known });
        }
        Ok(manifest)
    }

    /// Reads one entry; returns the last one.
    fn next(&mut self) -> Result<Option<End>, RestoreError> {
        let (name, size) = self.header()?;
        if self.order.check(&name)?.is_some() {
            (self.visit)(Piece::TreeEnd)?;
        }
        if name == EntryName::End {
            let text = self.held(size, LIST_MAX_BYTES)?;
            let end: End = parsed(&text, "end.json")?;
            let (entries, sha256) = self.digest.clone().finish();
            if (end.entries, &end.sha256) != (entries, &sha256) {
                return Err(RestoreError::damaged("its hash is another one"));
            }
            if self.archive.next()?.is_some() {
                return Err(RestoreError::damaged("entries follow its end"));
            }
            return Ok(Some(end));
        }
        let most = size_max(&name);
        if size > most {
            return Err(RestoreError::damaged(format!("{name} has more than {most} bytes")));
        }
        self.digest.begin(&name.to_string(), size);
        (self.visit)(Piece::Begin(name))?;
        loop {
            let length = {
                let content = self.archive.content()?;
                self.digest.update(content);
                if !content.is_empty() {
                    (self.visit)(Piece::Content(content))?;
                }
                content.len()
            };
            match length {
                0 => return Ok(None),
                length => self.archive.consume(length),
            }
        }
    }

    fn header(&mut self) -> Result<(EntryName, u64), RestoreError> {
        let Some(member) = self.archive.next()? else { return Err(RestoreError::damaged("it has no end")) };
        let Member { name, kind, size, sparse, .. } = member;
        match EntryName::parse(&name) {
            Some(parsed) if kind == MemberKind::File && sparse.is_none() => Ok((parsed, size)),
            Some(_) | None => {
                let name = name.escape_ascii().to_string();
                Err(RestoreError::damaged(format!("a backup has no entry {name:?} of this kind")))
            }
        }
    }

    fn held(&mut self, size: u64, most: u64) -> Result<Vec<u8>, RestoreError> {
        if size > most {
            return Err(RestoreError::damaged("a list in it is too long"));
        }
        let mut text = Vec::new();
        loop {
            let length = {
                let content = self.archive.content()?;
                text.extend_from_slice(content);
                content.len()
            };
            match length {
                0 => return Ok(text),
                length => self.archive.consume(length),
            }
        }
    }
}

#[derive(serde::Deserialize)]
struct FormatOf {
    format: u32,
}

fn parsed<T: DeserializeOwned>(text: &[u8], name: &str) -> Result<T, RestoreError> {
    serde_json::from_slice(text)
        .map_err(|error| RestoreError::damaged(format!("{name} is not valid: {error}")))
}

fn size_max(name: &EntryName) -> u64 {
    match name {
        EntryName::Manifest | EntryName::End => LIST_MAX_BYTES,
        // The disk has to have room for it.
        EntryName::Database => u64::MAX,
        EntryName::Key(_) => KEY_MAX_BYTES,
        EntryName::Setting(_) => SETTING_MAX_BYTES,
        EntryName::Part(..) => PART_BYTES as u64,
    }
}

/// Which entries were there.
#[derive(Default)]
struct Order {
    has_database: bool,
    /// Keys and files of the configuration.
    small: BTreeSet<String>,
    /// The tree whose parts come now, and the number of the next one.
    tree: Option<(Tree, u64)>,
    trees: BTreeSet<Tree>,
}

impl Order {
    /// Refuses an entry that is not where it belongs. Returns the tree that is complete with it.
    fn check(&mut self, name: &EntryName) -> Result<Option<Tree>, RestoreError> {
        let misplaced = || Err(RestoreError::damaged(format!("{name} is not in its place")));
        if (*name == EntryName::Database) == self.has_database {
            return misplaced();
        }
        match name {
            EntryName::Manifest => misplaced(),
            EntryName::Database => {
                self.has_database = true;
                Ok(None)
            }
            EntryName::Key(_) | EntryName::Setting(_) => {
                let is_new = self.tree.is_none() && self.small.insert(name.to_string());
                if is_new { Ok(None) } else { misplaced() }
            }
            EntryName::Part(tree, number) => match &mut self.tree {
                Some((current, next)) if current == tree => {
                    if number != next {
                        return misplaced();
                    }
                    *next += 1;
                    Ok(None)
                }
                Some(_) | None => {
                    if *number != 0 || !self.trees.insert(*tree) {
                        return misplaced();
                    }
                    Ok(self.tree.replace((*tree, 1)).map(|(ended, _)| ended))
                }
            },
            EntryName::End => Ok(self.tree.take().map(|(ended, _)| ended)),
        }
    }
}
