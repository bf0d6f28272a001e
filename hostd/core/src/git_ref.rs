//! Names of branches, and of the revisions that a new branch may begin at. Pure.

use std::fmt;

/// Longest name of a branch.
pub const BRANCH_MAX_BYTES: usize = 250;
/// Parts of a name that git gives a meaning to.
const FORBIDDEN: [&str; 4] = ["..", "@{", "//", "/."];

/// A name that git accepts for a branch and that no program reads as an option.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BranchName(String);

/// A commit as a caller names it: a branch, a tag, a hash or a ref, without an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a name of 1 to {BRANCH_MAX_BYTES} bytes that git accepts: no spaces, no control characters, none of ~^:?*[\\, no \"..\", and no - at its beginning"
)]
pub struct InvalidRef;

impl BranchName {
    pub fn parse(text: &str) -> Result<Self, InvalidRef> {
        // `HEAD` means another branch at another time.
        let good = is_ref_part(text) && text != "HEAD" && text != "@" && !text.starts_with("refs/");
        if good { Ok(Self(text.to_owned())) } else { Err(InvalidRef) }
    }

    /// Parses `refs/heads/NAME`.
    pub fn of_full_ref(full: &str) -> Option<Self> {
        full.strip_prefix("refs/heads/").and_then(|name| Self::parse(name).ok())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn full_ref(&self) -> String {
        format!("refs/heads/{}", self.0)
    }
}

impl Revision {
    pub fn parse(text: &str) -> Result<Self, InvalidRef> {
        if is_ref_part(text) { Ok(Self(text.to_owned())) } else { Err(InvalidRef) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The rules of `git check-ref-format`, and no dash at the beginning.
fn is_ref_part(text: &str) -> bool {
    let plain = |c: char| !c.is_control() && !" ~^:?*[\\".contains(c);
    let component = |part: &str| {
        let is_lock = part.len() >= 5 && part.as_bytes()[part.len() - 5..].eq_ignore_ascii_case(b".lock");
        !part.is_empty() && !part.starts_with('.') && !is_lock
    };
    !text.is_empty()
        && text.len() <= BRANCH_MAX_BYTES
        && !text.starts_with('-')
        && !text.ends_with('.')
        && text.chars().all(plain)
        && !FORBIDDEN.iter().any(|part| text.contains(part))
        && text.split('/').all(component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_git_accepts_and_no_options() {
        for good in ["main", "feature/x-1", "a.b", "ä", "@x", "a@b", "heads/x"] {
            assert_eq!(BranchName::parse(good).expect(good).full_ref(), format!("refs/heads/{good}"));
        }
        let bad = [
            "",
            "-f",
            "--all",
            "HEAD",
            "@",
            "a b",
            "a..b",
            "a/",
            "/a",
            "a//b",
            ".a",
            "a/.b",
            "a.",
            "a.lock",
            "a.LOCK",
            "a.lock/b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "a@{1}",
            "a\nb",
            "a\u{7f}",
            "refs/heads/main",
        ];
        for bad in bad {
            assert_eq!(BranchName::parse(bad), Err(InvalidRef), "{bad:?}");
        }
        assert_eq!(BranchName::parse(&"a".repeat(BRANCH_MAX_BYTES + 1)), Err(InvalidRef));
        assert_eq!(BranchName::of_full_ref("refs/heads/a/b").expect("good").as_str(), "a/b");
        assert_eq!(BranchName::of_full_ref("refs/tags/a"), None);
    }

    #[test]
    fn a_revision_is_a_name_and_no_expression() {
        for good in ["HEAD", "main", "v1.0", "origin/main", "refs/tags/v1", "0123abc"] {
            assert_eq!(Revision::parse(good).expect(good).as_str(), good);
        }
        for bad in ["", "-x", "HEAD~1", "a..b", ":/fix", "main@{1}", "a^{tree}"] {
            assert_eq!(Revision::parse(bad), Err(InvalidRef), "{bad:?}");
        }
    }
}
