//! User and group ids of a sandbox on the host: `/proc/<pid>/uid_map` and `gid_map`, parsed.

use super::{files, init::proc_of, limits::KERNEL_FILE_MAX_BYTES};
use std::io;

/// The kernel accepts no more lines.
const EXTENTS_MAX: usize = 340;

/// The id maps of one user namespace, as seen from hostd's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdMap {
    uids: IdExtents,
    gids: IdExtents,
}

/// Ranges of (inside, outside, count). No range is the identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct IdExtents {
    extents: Vec<(u32, u32, u32)>,
}

impl IdMap {
    /// Reads the maps of a process.
    pub fn of(pid: i32) -> io::Result<Self> {
        let read = |name: &str| {
            let text = files::read_text(&proc_of(pid).join(name), KERNEL_FILE_MAX_BYTES)?;
            IdExtents::parse(&text)
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{name}: {text}")))
        };
        Ok(Self { uids: read("uid_map")?, gids: read("gid_map")? })
    }

    /// A map with one range of `count` ids that starts at `base`.
    pub fn single_range(base: u32, count: u32) -> Self {
        let map = IdExtents { extents: vec![(0, base, count)] };
        Self { uids: map.clone(), gids: map }
    }

    /// The host's id of an id inside; `None` where it is not mapped.
    pub fn uid(&self, inside: u32) -> Option<u32> {
        self.uids.outside(inside)
    }

    pub fn gid(&self, inside: u32) -> Option<u32> {
        self.gids.outside(inside)
    }

    /// Whether root inside is root on the host.
    pub fn is_identity(&self) -> bool {
        self.uid(0) == Some(0)
    }
}

impl IdExtents {
    fn parse(text: &str) -> Option<Self> {
        let mut extents = vec![];
        for line in text.lines() {
            let numbers: Vec<u32> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
            let [inside, outside, count] = numbers[..] else { return None };
            inside.checked_add(count.checked_sub(1)?)?;
            outside.checked_add(count - 1)?;
            extents.push((inside, outside, count));
        }
        // Empty until the map is written: nothing is known.
        (1..=EXTENTS_MAX).contains(&extents.len()).then_some(Self { extents })
    }

    fn outside(&self, id: u32) -> Option<u32> {
        if self.extents.is_empty() {
            return Some(id);
        }
        self.extents.iter().find_map(|(inside, outside, count)| {
            let offset = id.checked_sub(*inside).filter(|offset| offset < count)?;
            Some(outside + offset)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_mapped_by_the_range_that_contains_it() {
        let rootless = "         0       1000          1\n         1     100000      65536\n";
        let whole = "         0          0 4294967295\n";
        for (text, inside, outside) in [
            (whole, 0, Some(0)),
            (whole, 1000, Some(1000)),
            (rootless, 0, Some(1000)),
            (rootless, 1, Some(100_000)),
            (rootless, 1000, Some(100_999)),
            (rootless, 65_536, Some(165_535)),
            (rootless, 65_537, None),
        ] {
            let map = IdExtents::parse(text).expect("as the kernel writes it");
            assert_eq!(map.outside(inside), outside, "{text} {inside}");
        }
        for bad in ["", "0 0", "0 0 0", "a b c", "0 0 1 1", "4294967295 0 2", "0 4294967295 2", "-1 0 1"] {
            assert_eq!(IdExtents::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn our_own_id_map_is_the_identity() {
        let own = IdMap::of(std::process::id() as i32).expect("our own can be read");
        assert_eq!(own.uid(0), Some(0));
        assert!(own.is_identity() && IdMap::default().is_identity());
        assert!(!IdMap::single_range(100_000, 65_536).is_identity());
    }
}
