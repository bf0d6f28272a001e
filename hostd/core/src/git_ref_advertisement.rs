//! The refs that a server advertises before a push: finds the commit of one branch. Pure, and fed as bytes come.
//!
//! ```text
//!  pkt-line*: HASH SP REF [NUL capabilities] LF   flush
//! ```

use crate::BranchName;

/// The longest hash, in hexadecimal digits.
const HASH_MAX_DIGITS: usize = 64;

/// Looks for one branch in an advertisement.
#[derive(Debug)]
pub struct AdvertisedBranch {
    /// A space and the ref. No ref contains a space, so that it stands nowhere else.
    needle: Vec<u8>,
    /// The end of the bytes so far, in which the ref may begin.
    tail: Vec<u8>,
    commit: Option<String>,
}

impl AdvertisedBranch {
    pub fn new(branch: &BranchName) -> Self {
        Self { needle: format!(" {}", branch.full_ref()).into_bytes(), tail: Vec::new(), commit: None }
    }

    /// Returns the commit of the branch, as soon as it was seen.
    pub fn feed(&mut self, bytes: &[u8]) -> Option<&str> {
        if self.commit.is_none() {
            self.tail.extend_from_slice(bytes);
            self.commit = self.find();
            // A hash, the ref and the byte after it.
            let kept = HASH_MAX_DIGITS + self.needle.len() + 1;
            self.tail.drain(..self.tail.len().saturating_sub(kept));
        }
        self.commit.as_deref()
    }

    fn find(&self) -> Option<String> {
        let ends = |at: usize| matches!(self.tail.get(at + self.needle.len()), Some(b'\n' | 0));
        let mut found =
            self.tail.windows(self.needle.len()).enumerate().filter(|(_, part)| *part == self.needle);
        let (at, _) = found.find(|(at, _)| ends(*at))?;
        [HASH_MAX_DIGITS, 40].into_iter().find_map(|digits| {
            let hash = std::str::from_utf8(self.tail.get(at.checked_sub(digits)?..at)?).ok()?;
            // The four digits before it are the length of the packet.
            hash.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| hash.to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(text: &str) -> String {
        format!("{:04x}{text}", text.len() + 4)
    }

    #[test]
    fn the_branch_is_found_however_the_bytes_are_cut() {
        let branch = BranchName::parse("main").expect("a name");
        let (one, two, long) = ("1".repeat(40), "2".repeat(40), "3".repeat(64));
        let service = format!("{}0000", packet("# service=git-receive-pack\n"));
        let line = |hash: &str, name: &str| packet(&format!("{hash} {name}\n"));
        let first = |hash: &str, name: &str| packet(&format!("{hash} {name}\0 report-status agent=git/2\n"));
        let table = [
            (
                format!("{service}{}{}0000", first(&one, "refs/heads/a"), line(&two, "refs/heads/main")),
                Some(&two),
            ),
            (format!("{service}{}0000", first(&two, "refs/heads/main")), Some(&two)),
            (format!("{service}{}0000", first(&long, "refs/heads/main")), Some(&long)),
            (
                format!("{service}{}{}0000", first(&one, "refs/heads/main2"), line(&two, "refs/heads/main")),
                Some(&two),
            ),
            (format!("{service}{}0000", line(&one, "refs/tags/refs/heads/main")), None),
            (format!("{service}{}0000", first(&one, "refs/heads/maintenance")), None),
            (format!("{service}0000"), None),
        ];
        for (text, expected) in table {
            for size in [1, 3, 64, 4_096] {
                let mut found = AdvertisedBranch::new(&branch);
                let commit = text
                    .as_bytes()
                    .chunks(size)
                    .filter_map(|part| found.feed(part).map(str::to_owned))
                    .last();
                assert_eq!(commit.as_ref(), expected, "{size} {text}");
            }
        }
    }
}
