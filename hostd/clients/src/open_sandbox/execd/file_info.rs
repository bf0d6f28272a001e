//! What `stat` says of a file, as clients have it. Pure.

use hostd_core::rfc3339;
use serde_json::{Value, json};

/// The format of `stat`: mode, size, time, owner, group and path, and an end that no line has. Known to coreutils and busybox.
pub const FORMAT: &str = "%f %s %Y %U %G %n\u{1e}";
const END: &str = "\u{1e}\n";

const KIND_MASK: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    pub path: String,
    mode: u32,
    pub size: u64,
    modified_s: u64,
    owner: String,
    group: String,
}

/// Reads what `stat` printed; a record that is not as it should be is left out.
pub fn parse(printed: &[u8]) -> Vec<FileInfo> {
    String::from_utf8_lossy(printed).split_terminator(END).filter_map(record).collect()
}

fn record(text: &str) -> Option<FileInfo> {
    let mut fields = text.splitn(6, ' ');
    let mode = u32::from_str_radix(fields.next()?, 16).ok()?;
    let (size, modified_s) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let (owner, group) = (fields.next()?.to_owned(), fields.next()?.to_owned());
    Some(FileInfo { path: fields.next()?.to_owned(), mode, size, modified_s, owner, group })
}

impl FileInfo {
    pub fn is_file(&self) -> bool {
        self.mode & KIND_MASK == REGULAR
    }

    pub fn view(&self) -> Value {
        let kind = match self.mode & KIND_MASK {
            DIRECTORY => "directory",
            REGULAR => "file",
            LINK => "symlink",
            _ => "other",
        };
        // There is no time of creation on every file system; clients need one.
        let time = rfc3339(self.modified_s.saturating_mul(1000));
        json!({
            "path": self.path,
            "type": kind,
            "size": if kind == "directory" { 0 } else { self.size },
            "mode": decimal(self.mode),
            "owner": self.owner,
            "group": self.group,
            "modified_at": time,
            "created_at": time,
        })
    }
}

/// Permissions as clients write them: a decimal number whose digits are those of the octal one.
fn decimal(mode: u32) -> u32 {
    let bits = mode & 0o7777;
    (bits >> 9) * 1000 + (bits >> 6 & 7) * 100 + (bits >> 3 & 7) * 10 + (bits & 7)
}

/// Reads such a number as the text of an octal one, without set-id bits.
pub fn octal(mode: u32) -> Option<String> {
    let digits = format!("{mode:04}");
    let plain = digits.len() == 4 && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    (plain && digits.starts_with(['0', '1'])).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stat_prints_is_read() {
        let printed = "81a4 5 1700000000 sandbox sandbox /tmp/a b\nc\u{1e}\n\
                       41ed 4096 1700000001 root root /tmp\u{1e}\nnonsense\u{1e}\n";
        let found = parse(printed.as_bytes());
        assert_eq!(found.len(), 2);
        let view = found[0].view();
        assert_eq!((&view["path"], &view["type"]), (&json!("/tmp/a b\nc"), &json!("file")));
        assert_eq!(
            (&view["mode"], &view["size"], &view["owner"]),
            (&json!(644), &json!(5), &json!("sandbox"))
        );
        assert_eq!(view["modified_at"], "2023-11-14T22:13:20.000Z");
        let view = found[1].view();
        assert_eq!(
            (&view["type"], &view["mode"], &view["size"]),
            (&json!("directory"), &json!(755), &json!(0))
        );
    }

    #[test]
    fn permissions_are_decimal_digits_of_an_octal_number() {
        for (mode, expected) in [
            (755, Some("0755")),
            (0, Some("0000")),
            (1777, Some("1777")),
            (4755, None),
            (888, None),
            (12_345, None),
        ] {
            assert_eq!(octal(mode).as_deref(), expected, "{mode}");
        }
    }
}
