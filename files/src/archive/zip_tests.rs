//! Zip archives that need fields of 64 bits.

use super::{
    pack::{ArchiveWriter, MemberHeader},
    zip_reader::Directory,
    zip_writer::ZipWriter,
};
use std::{io::Write, os::unix::fs::FileExt, process::Command};

fn header(name: &str) -> MemberHeader {
    MemberHeader { name: name.as_bytes().to_vec(), mode: 0o644, modified: 0, size: 0 }
}

#[test]
fn many_entries_and_far_offsets_are_read_by_us_and_by_others() {
    for (begin, entries) in [(0, 70_000), (5 << 30, 3), ((4 << 30) - 60, 3), (5 << 30, 0)] {
        let mut writer = ZipWriter::behind(Vec::new(), begin);
        for number in 0..entries {
            writer.link(&header(&number.to_string()), b"target").unwrap();
        }
        let bytes = writer.finish().unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        // A hole before it.
        file.as_file().write_all_at(&bytes, begin).unwrap();
        file.flush().unwrap();
        let mut directory = Directory::find(file.as_file()).unwrap();
        let mut last = begin;
        for number in 0..entries {
            let listed = directory.next().unwrap().expect("an entry");
            assert_eq!(listed.name, number.to_string().as_bytes(), "{begin}");
            assert!(listed.offset == last || listed.offset > last && number > 0, "{begin}: {number}");
            last = listed.offset;
        }
        assert!(directory.next().unwrap().is_none());
        let script = "import sys,zipfile\nz=zipfile.ZipFile(sys.argv[1])\n\
            assert all(z.read(n)==b'target' for n in z.namelist()[-9:])\nprint(len(z.namelist()))";
        let output = Command::new("python3").args(["-c", script]).arg(file.path()).output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim(),
            entries.to_string(),
            "{begin}: {output:?}"
        );
    }
}
