//! What git prints with `-z`, parsed. Pure. It comes from a sandbox: anything may be in it, and nothing is believed to be
//! there.

use crate::rfc3339;
use protocol::api::{GitAuthor, GitCommitView, GitFile, GitFileState, GitStatus};

/// Most files of one status.
pub const STATUS_FILES_MAX: usize = 10_000;
/// The fields of a commit, each ended by NUL, for `git log --format`.
pub const LOG_FORMAT: &str = "%H%x00%P%x00%an%x00%ae%x00%at%x00%s%x00%b";
const LOG_FIELDS: usize = 7;

/// Parses `git status --porcelain=v2 --branch -z`. Of output that was cut, the last record is left out.
pub fn parse_status(output: &[u8], is_cut: bool) -> GitStatus {
    let mut status = GitStatus { truncated: is_cut, ..GitStatus::default() };
    let mut records = records(output).into_iter();
    while let Some(record) = records.next() {
        if let Some(header) = record.strip_prefix("# ") {
            read_header(header, &mut status);
            continue;
        }
        let Some(mut file) = parse_file(&record) else { continue };
        if record.starts_with("2 ") {
            file.original_path = records.next();
        }
        if status.files.len() >= STATUS_FILES_MAX {
            status.truncated = true;
            break;
        }
        status.files.push(file);
    }
    status
}

/// Parses `git log -z` in `LOG_FORMAT`. Of output that was cut, the last commit is left out.
pub fn parse_log(output: &[u8]) -> Vec<GitCommitView> {
    let fields = records(output);
    fields.chunks_exact(LOG_FIELDS).map(commit).collect()
}

fn commit(fields: &[String]) -> GitCommitView {
    let at_s: u64 = fields[4].parse().unwrap_or(0);
    GitCommitView {
        commit: fields[0].clone(),
        parents: fields[1].split_ascii_whitespace().map(str::to_owned).collect(),
        author: GitAuthor { name: fields[2].clone(), email: fields[3].clone() },
        authored_at: rfc3339(at_s.saturating_mul(1_000)),
        subject: fields[5].clone(),
        body: fields[6].trim_end().to_owned(),
    }
}

/// The texts before each NUL; what follows the last one is incomplete.
fn records(output: &[u8]) -> Vec<String> {
    let mut records: Vec<String> =
        output.split(|byte| *byte == 0).map(|record| String::from_utf8_lossy(record).into_owned()).collect();
    records.pop();
    records
}

fn read_header(header: &str, status: &mut GitStatus) {
    let known = |value: &str, none: &str| (value != none).then(|| value.to_owned());
    match header.split_once(' ') {
        Some(("branch.oid", value)) => status.head = known(value, "(initial)"),
        Some(("branch.head", value)) => status.branch = known(value, "(detached)"),
        Some(("branch.upstream", value)) => status.upstream = Some(value.to_owned()),
        Some(("branch.ab", value)) => {
            let mut counts = value.split(' ').map(|count| count.get(1..)?.parse().ok());
            (status.ahead, status.behind) = (counts.next().flatten(), counts.next().flatten());
        }
        Some(_) | None => {}
    }
}

fn parse_file(record: &str) -> Option<GitFile> {
    let (kind, rest) = record.split_once(' ')?;
    let file = |path: &str, staged, unstaged| GitFile {
        path: path.to_owned(),
        staged,
        unstaged,
        original_path: None,
    };
    // The fields before the path.
    let fields = match kind {
        "1" => 7,
        "2" => 8,
        "u" => 9,
        "?" => return Some(file(rest, GitFileState::Unmodified, GitFileState::Untracked)),
        _ => return None,
    };
    let path = rest.splitn(fields + 1, ' ').nth(fields)?;
    let mut states = rest.chars();
    let (staged, unstaged) = (state(states.next()?)?, state(states.next()?)?);
    match kind {
        "u" => Some(file(path, GitFileState::Unmerged, GitFileState::Unmerged)),
        _ => Some(file(path, staged, unstaged)),
    }
}

fn state(letter: char) -> Option<GitFileState> {
    match letter {
        '.' => Some(GitFileState::Unmodified),
        'M' => Some(GitFileState::Modified),
        'T' => Some(GitFileState::TypeChanged),
        'A' => Some(GitFileState::Added),
        'D' => Some(GitFileState::Deleted),
        'R' => Some(GitFileState::Renamed),
        'C' => Some(GitFileState::Copied),
        'U' => Some(GitFileState::Unmerged),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "1111111111111111111111111111111111111111";

    #[test]
    fn a_status_has_its_branch_and_its_files() {
        let text = format!(
            "# branch.oid {HASH}\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +2 -1\0\
             1 .M N... 100644 100644 100644 {HASH} {HASH} a b.txt\0\
             2 R. N... 100644 100644 100644 {HASH} {HASH} R100 new\0old\0\
             u UU N... 100644 100644 100644 100644 {HASH} {HASH} {HASH} both\0\
             ? new file\nwith a line\0"
        );
        let status = parse_status(text.as_bytes(), false);
        assert_eq!((status.branch.as_deref(), status.head.as_deref()), (Some("main"), Some(HASH)));
        let upstream = (status.upstream.as_deref(), status.ahead, status.behind);
        assert_eq!(upstream, (Some("origin/main"), Some(2), Some(1)));
        let files: Vec<_> = status
            .files
            .iter()
            .map(|file| (file.path.as_str(), file.staged, file.unstaged, file.original_path.as_deref()))
            .collect();
        use GitFileState::{Modified, Renamed, Unmerged, Unmodified, Untracked};
        let expected = [
            ("a b.txt", Unmodified, Modified, None),
            ("new", Renamed, Unmodified, Some("old")),
            ("both", Unmerged, Unmerged, None),
            ("new file\nwith a line", Unmodified, Untracked, None),
        ];
        assert_eq!(files, expected);
    }

    #[test]
    fn a_new_repository_has_neither_commit_nor_upstream() {
        let status = parse_status(b"# branch.oid (initial)\0# branch.head main\0? cut of", true);
        let expected = GitStatus { branch: Some("main".to_owned()), truncated: true, ..GitStatus::default() };
        assert_eq!(status, expected);
        assert_eq!(parse_status(b"# branch.head (detached)\0", false).branch, None);
    }

    #[test]
    fn output_that_git_does_not_print_is_left_out() {
        for bad in [
            "\0",
            "1 \0",
            "1 XX\0",
            "2 R\0",
            "# branch.ab \0",
            "# branch.ab x\0",
            "# branch.ab é é\0",
            "z a\0",
            "1\0?\0",
        ] {
            assert_eq!(parse_status(bad.as_bytes(), false).files, [], "{bad:?}");
        }
        let many = "? a\0".repeat(STATUS_FILES_MAX + 1);
        let status = parse_status(many.as_bytes(), false);
        assert_eq!((status.files.len(), status.truncated), (STATUS_FILES_MAX, true));
    }

    #[test]
    fn a_log_has_whole_commits() {
        let text = format!("{HASH}\0{HASH} {HASH}\0Ann\0ann@example\00\0subject\0body\n\n\0{HASH}\0\0Bob");
        let commits = parse_log(text.as_bytes());
        let [commit] = commits.as_slice() else { panic!("{commits:?}") };
        assert_eq!((commit.commit.as_str(), commit.parents.len()), (HASH, 2));
        assert_eq!(
            (commit.author.name.as_str(), commit.authored_at.as_str()),
            ("Ann", "1970-01-01T00:00:00.000Z")
        );
        assert_eq!((commit.subject.as_str(), commit.body.as_str()), ("subject", "body"));
    }
}
