//! Archives with bytes that were changed at random: each is unpacked or refused, and nothing else is touched.

use super::{
    archive::{FORMATS, pack},
    fixture::{Fixture, Recorder},
};
use crate::archive::unpack;
use std::{fs, os::unix::fs::symlink, time::SystemTime};

const ROUNDS: usize = 60;

/// Numbers that follow from a seed.
struct Noise(u64);

impl Noise {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

#[test]
fn changed_bytes_are_unpacked_or_refused() {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = since.as_nanos() as u64;
    println!("seed {seed}");
    let mut noise = Noise(seed);
    let source = Fixture::new();
    fs::create_dir(source.path("directory")).unwrap();
    fs::write(source.path("directory/file"), "content".repeat(100)).unwrap();
    fs::write(source.path("n".repeat(200).as_str()), "").unwrap();
    symlink("../secret", source.path("link")).unwrap();
    for format in FORMATS {
        let whole = pack(&source, "", format);
        let fixture = Fixture::new();
        for _ in 0..ROUNDS {
            let mut archive = whole.clone();
            for _ in 0..=noise.below(8) {
                let at = noise.below(archive.len());
                archive[at] = [0, 0xFF, b'/', b'.', archive[at] ^ 1][noise.below(5)];
            }
            archive.truncate(archive.len() - noise.below(2) * noise.below(archive.len()));
            let mut exchange = Recorder::with_large_body(archive);
            let done = unpack(&fixture.workspace, &mut exchange, &"".into(), format);
            assert_eq!(done.is_ok(), exchange.reply.is_some(), "seed {seed}");
        }
        assert_eq!(fs::read(fixture.outer.path().join("secret")).unwrap(), b"secret", "seed {seed}");
        assert_eq!(fs::read_dir(fixture.outer.path()).unwrap().count(), 2, "seed {seed}");
    }
}
