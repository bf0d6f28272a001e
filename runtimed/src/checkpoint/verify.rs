//! Proves that objects are what their names say. The repository lies where the agent can write, and git does not
//! hash what it reads: an object whose file was replaced would give another diff without an error.

use super::git::{Git, GitError, is_object};
use sha1::{Digest, Sha1};
use std::io::{BufRead, Read};

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
    if names.is_empty() {
        return Ok(());
    }
    let list: String = names.iter().flat_map(|name| [name, "\n"]).collect();
    let list = git.write_list("verify", list.as_bytes())?;
    let verified = git.stream(&["cat-file", "--batch"], Some(&list), |mut from| {
        names.iter().try_for_each(|name| object(&mut from, name))
    });
    let _ = std::fs::remove_file(list);
    verified
}

fn object(from: &mut impl BufRead, name: &str) -> Result<(), GitError> {
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
    let mut hash = Sha1::new();
    hash.update(format!("{kind} {bytes}\0"));
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = bytes;
    while left > 0 {
        let most = left.min(PIECE_BYTES as u64) as usize;
        let read = from.read(&mut piece[..most]).map_err(GitError::io("read an object"))?;
        if read == 0 {
            return Err(lost());
        }
        hash.update(&piece[..read]);
        left -= read as u64;
    }
    let mut end = [0];
    from.read_exact(&mut end).map_err(|_| lost())?;
    let hashed: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if hashed == name { Ok(()) } else { Err(lost()) }
}
