//! Proves that objects are what their names say. The repository lies where the agent can write, and git does not
//! hash what it reads: an object whose file was replaced would give another diff without an error.

use super::git::{Git, GitError, is_object};
use sha1::{Digest, Sha1};
use std::io::{BufRead, Read, Write};

/// One piece of an object that is hashed.
const PIECE_BYTES: usize = 64 << 10;

/// The tree of a commit that is verified to be unchanged.
pub fn tree_of(git: &Git, commit: &str) -> Result<String, GitError> {
    if !is_object(commit) {
        return Err(GitError::Unexpected);
    }
    let lost = |_| GitError::Lost { what: format!("commit {commit}") };
    objects(git, [commit])?;
    let tree =
        git.object(&["rev-parse", "--verify", "--quiet", &format!("{commit}^{{tree}}")]).map_err(lost)?;
    Ok(tree)
}

/// Reads every object and compares the hash of its content with its name.
pub fn objects<'a>(git: &Git, names: impl IntoIterator<Item = &'a str>) -> Result<(), GitError> {
    let names: Vec<&str> = names.into_iter().collect();
    read(git, &names, |_| Ok(std::io::sink()), |_, _| Ok(()))
}

/// The content of objects that are small.
pub fn contents(git: &Git, names: &[&str]) -> Result<Vec<Vec<u8>>, GitError> {
    let mut found = Vec::with_capacity(names.len());
    read(
        git,
        names,
        |_| Ok(Vec::new()),
        |_, content| {
            found.push(content);
            Ok(())
        },
    )?;
    Ok(found)
}

/// Reads objects, each into a writer of its own, which is handed on once the content proved to be what its name says.
pub fn read<W: Write>(
    git: &Git,
    names: &[&str],
    mut open: impl FnMut(usize) -> Result<W, GitError>,
    mut verified: impl FnMut(usize, W) -> Result<(), GitError>,
) -> Result<(), GitError> {
    if names.is_empty() {
        return Ok(());
    }
    let list: String = names.iter().flat_map(|name| [name, "\n"]).collect();
    git.stream(&["cat-file", "--batch"], Some(list.as_bytes()), |mut from| {
        names.iter().enumerate().try_for_each(|(at, name)| {
            let mut to = open(at)?;
            object(&mut from, name, &mut to)?;
            verified(at, to)
        })
    })
}

fn object(from: &mut impl BufRead, name: &str, to: &mut impl Write) -> Result<(), GitError> {
    let lost = || GitError::Lost { what: format!("object {name}") };
    let io = GitError::io("read an object");
    let mut head = String::new();
    // A damaged object ends the output of git.
    from.by_ref().take(256).read_line(&mut head).map_err(io)?;
    let mut words = head.split_ascii_whitespace();
    let (Some(_), Some(kind), Some(Ok(bytes))) =
        (words.next(), words.next(), words.next().map(str::parse::<u64>))
    else {
        return Err(lost());
    };
    let mut hash = ObjectHash::new(kind, bytes);
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = bytes;
    while left > 0 {
        let most = left.min(PIECE_BYTES as u64) as usize;
        let read = from.read(&mut piece[..most]).map_err(GitError::io("read an object"))?;
        if read == 0 {
            return Err(lost());
        }
        hash.update(&piece[..read]);
        to.write_all(&piece[..read]).map_err(GitError::io("store a file of the checkpoint"))?;
        left -= read as u64;
    }
    let mut end = [0];
    from.read_exact(&mut end).map_err(|_| lost())?;
    if hash.name() == name { Ok(()) } else { Err(lost()) }
}

/// The name that git gives to some content.
pub struct ObjectHash(Sha1);

impl ObjectHash {
    pub fn new(kind: &str, bytes: u64) -> Self {
        let mut hash = Sha1::new();
        hash.update(format!("{kind} {bytes}\0"));
        Self(hash)
    }

    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub fn name(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
