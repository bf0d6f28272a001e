//! Archives that are larger than they look, damaged or cut.

use super::Fixture;
use crate::{
    TreeQuota,
    layer::{UnpackError, unpack_layer},
    tar_fixture::{archive, directory, file, gzip, member, other, unended, zstd},
};
use std::io::{self, Read};

/// Entries without end.
struct Endless {
    one: Vec<u8>,
    position: usize,
    read: u64,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        for byte in buffer.iter_mut() {
            *byte = self.one[self.position];
            self.position = (self.position + 1) % self.one.len();
        }
        self.read += buffer.len() as u64;
        Ok(buffer.len())
    }
}

#[test]
fn entries_without_end_stop_at_the_quota() {
    let pax = |length: usize| file("a", "").pax("comment", vec![b'x'; length]);
    for (what, one) in [
        ("files", unended(&[file("a", "x")])),
        ("directories", unended(&[directory("d")])),
        ("devices", unended(&[other(b'3', "device")])),
        ("headers", unended(&[pax(500_000)])),
        ("whiteouts", unended(&[file(".wh.a", "")])),
        ("content", unended(&[file("a", vec![0; 1 << 20])])),
    ] {
        let fixture = Fixture::new();
        let mut endless = Endless { one, position: 0, read: 0 };
        let mut quota = TreeQuota::new("the image", 8 << 20, 200);
        let error = unpack_layer(&mut endless, &fixture.to, &mut quota).expect_err(what);
        assert!(matches!(error, UnpackError::Quota(_)), "{what}: {error:?}");
        assert!(endless.read < 16 << 20, "{what}: {}", endless.read);
    }
}

#[test]
fn a_compressed_bomb_stops_at_the_quota() {
    let zeros = vec![0; 32 << 20];
    let large = archive(&[file("a", "x"), file("zeros", &zeros)]);
    for (what, bytes) in [("gzip", gzip(&large)), ("zstd", zstd(&large))] {
        assert!(bytes.len() < 1 << 20, "{what}");
        let fixture = Fixture::new();
        let error = fixture.unpack_bytes(&bytes).expect_err(what).to_string();
        assert_eq!(error, "the image has more than 16 MiB", "{what}");
    }
    let hidden = gzip(&[archive(&[file("a", "x")]), zeros].concat());
    let error = Fixture::new().unpack_bytes(&hidden).expect_err("after its end").to_string();
    assert_eq!(error, "more than 1024 KiB follow the end of the archive");
}

#[test]
fn a_size_is_not_believed() {
    // Holes count: a sparse file is as large as it says.
    let mut sparse = vec![];
    member(&mut sparse, (b'S', b"holes", b""), b"", |header| {
        header.as_gnu_mut().expect("made so").realsize[..11].copy_from_slice(b"77777777777");
    });
    let error = Fixture::new().unpack_bytes(&sparse).expect_err("too large").to_string();
    assert_eq!(error, "the image has more than 16 MiB");
    let mut short = vec![];
    member(&mut short, (b'0', b"short", b""), b"", |header| header.set_size(1 << 20));
    assert!(matches!(Fixture::new().unpack_bytes(&short), Err(UnpackError::Archive(_))));
}

#[test]
fn all_layers_share_one_quota() {
    let bytes = archive(&[file("a", vec![1; 600 << 10])]);
    let mut quota = TreeQuota::new("the image", 1 << 20, 100);
    unpack_layer(bytes.as_slice(), &Fixture::new().to, &mut quota).expect("the first fits");
    unpack_layer(bytes.as_slice(), &Fixture::new().to, &mut quota).expect_err("the second does not");
}

#[test]
fn damage_is_detected() {
    let plain = archive(&[file("a", vec![3; 100_000]), directory("b")]);
    let (gzip, zstd) = (gzip(&plain), zstd(&plain));
    let changed = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 0x55;
        bytes
    };
    let table = [
        ("gzip without its end", gzip[..gzip.len() - 1].to_vec()),
        ("gzip without its checksum", gzip[..gzip.len() - 8].to_vec()),
        ("gzip with another checksum", changed(&gzip, gzip.len() - 6)),
        ("half of gzip", gzip[..gzip.len() / 2].to_vec()),
        ("gzip and garbage", [&gzip[..], b"garbage"].concat()),
        ("gzip and half a member", [&gzip[..], &gzip[..20]].concat()),
        ("zstd without its end", zstd[..zstd.len() - 1].to_vec()),
        ("zstd and garbage", [&zstd[..], b"garbage"].concat()),
        ("plain, cut", plain[..5000].to_vec()),
        ("garbage", b"garbage".repeat(1000)),
        ("xz", b"\xfd7zXZ\0....".to_vec()),
    ];
    for (what, bytes) in table {
        let result = Fixture::new().unpack_bytes(&bytes);
        assert!(matches!(result, Err(UnpackError::Archive(_))), "{what}: {result:?}");
    }
    let error: io::Error = Fixture::new().unpack_bytes(b"\xfd7zXZ\0....").expect_err("xz").into();
    assert!(error.to_string().contains("xz") && error.to_string().contains("gzip or zstd"), "{error}");
}
