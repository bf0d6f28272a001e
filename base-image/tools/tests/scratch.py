"""A directory per test, and small trees and archives in it."""

import io
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True

EPOCH = 1_700_000_000


class ScratchTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = Path(directory.name)

    def archive(self, name: str, entries: dict) -> Path:
        """A root file system as mmdebstrap writes it: bytes are files, None a directory, a str a symbolic link."""
        path = self.dir / name
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
            for entry_name, content in entries.items():
                entry = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(f"./{entry_name}")
                entry.mtime = EPOCH
                if isinstance(content, bytes):
                    entry.size = len(content)
                    tar.addfile(entry, io.BytesIO(content))
                    continue
                if content is None:
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                elif isinstance(content, str):
                    entry.type, entry.linkname = tarfile.SYMTYPE, content
                tar.addfile(entry)
        return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """A hard link or a device node."""
    entry = tarfile.TarInfo(f"./{name}")
    entry.type, entry.linkname = kind, target
    return entry
