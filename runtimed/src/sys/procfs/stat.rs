//! The fields of `/proc/<pid>/stat` that are used. Pure.

/// One process, as any user can read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat<'a> {
    /// Set by the process itself: any bytes, including parentheses, spaces and line feeds.
    pub name: &'a [u8],
    pub state: u8,
    pub parent: i32,
    /// Live threads; one where the kernel does not report it.
    threads: u32,
}

/// Fields between the parent and the number of threads.
const FIELDS_BEFORE_THREADS: usize = 15;

impl Stat<'_> {
    /// Whether the process is dead and not reaped. A process whose first thread has ended looks dead, but
    /// continues in the others.
    pub fn is_zombie(&self) -> bool {
        self.state == b'Z' && self.threads <= 1
    }
}

/// Parses `1234 (name) S 1 …`. The name ends at the *last* parenthesis: nothing after it can contain one.
pub fn parse(bytes: &[u8]) -> Option<Stat<'_>> {
    let start = bytes.iter().position(|byte| *byte == b'(')? + 1;
    let end = bytes.iter().rposition(|byte| *byte == b')')?;
    let name = bytes.get(start..end)?;
    let rest = std::str::from_utf8(bytes.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let threads = fields.nth(FIELDS_BEFORE_THREADS).and_then(|count| count.parse().ok()).unwrap_or(1);
    Some(Stat { name, state, parent, threads })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, proptest};

    #[test]
    fn names_may_contain_anything() {
        for (line, name, state, parent) in [
            ("1 (init) S 0 1 1 0 -1", "init", b'S', 0),
            ("7 (a) b) R 3 7", "a) b", b'R', 3),
            ("7 (((sd-pam)) Z 12 7", "((sd-pam)", b'Z', 12),
            ("7 (x) Z 1 (y) R 9 7", "x) Z 1 (y", b'R', 9),
            ("7 (a\nb) D 5\n", "a\nb", b'D', 5),
            ("7 () S 1", "", b'S', 1),
        ] {
            let expected = Stat { name: name.as_bytes(), state, parent, threads: 1 };
            assert_eq!(parse(line.as_bytes()), Some(expected), "{line:?}");
        }
    }

    #[test]
    fn a_process_is_a_zombie_only_when_its_last_thread_has_ended() {
        for (state, threads, zombie) in [("Z", 1, true), ("Z", 0, true), ("Z", 2, false), ("S", 1, false)] {
            let line = format!("7 (x) {state} 1 7 7 0 -1 4228356 0 0 0 0 0 0 0 0 20 0 {threads} 0 99 0");
            assert_eq!(parse(line.as_bytes()).expect("well formed").is_zombie(), zombie, "{line}");
        }
    }

    #[test]
    fn what_is_torn_is_nothing() {
        for line in ["", "7", "7 (", "7 (x", "7 )x( S 1", "7 (x)", "7 (x) S", "7 (x) S y", "7 (x) \u{fffd}"] {
            assert_eq!(parse(line.as_bytes()), None, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_name_comes_back_as_it_was(name: Vec<u8>, parent in any::<u16>()) {
            let line = [b"9 (", name.as_slice(), format!(") S {parent} 9 9").as_bytes()].concat();
            let stat = parse(&line).expect("well formed");
            assert_eq!((stat.name, stat.parent), (name.as_slice(), i32::from(parent)));
        }
    }
}
