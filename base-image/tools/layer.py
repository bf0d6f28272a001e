"""Writes layers: tar archives compressed with gzip, the same bytes for the same content.

Entries are sorted, owners are numbers, and gzip has no name and no time. Layers are not compressed with zstd, which
Docker 20.10 cannot read. The compressed bytes also depend on the version of zlib.
"""

import copy
import hashlib
import os
import tarfile
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

# zlib's default: level 9 takes three times as long for one per cent.
GZIP_LEVEL = 6
GZIP_WINDOW = 16 + zlib.MAX_WBITS
COPY_BYTES = 1 << 20


@dataclass(frozen=True)
class Layer:
    """A written layer: digests of its bytes, compressed and not, and its size."""

    name: str
    digest: str
    diff_id: str
    compressed_bytes: int
    unpacked_bytes: int

    def to_json(self) -> dict:
        return asdict(self)


class LayerWriter:
    """The file that tarfile writes to: compresses, and computes both digests."""

    def __init__(self, path: Path):
        self._file = path.open("wb")
        self._gzip = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_WINDOW)
        self._plain, self._compressed = hashlib.sha256(), hashlib.sha256()
        self._plain_bytes = self.compressed_bytes = 0

    def write(self, data: bytes) -> int:
        self._plain.update(data)
        self._plain_bytes += len(data)
        self._store(self._gzip.compress(data))
        return len(data)

    def tell(self) -> int:
        return self._plain_bytes

    def close(self) -> tuple[str, str]:
        """Returns the digests: compressed, and not compressed."""
        self._store(self._gzip.flush())
        self._file.close()
        return f"sha256:{self._compressed.hexdigest()}", f"sha256:{self._plain.hexdigest()}"

    def _store(self, data: bytes) -> None:
        self._compressed.update(data)
        self.compressed_bytes += len(data)
        self._file.write(data)


def write_layer(name: str, path: Path, entries) -> Layer:
    """Writes entries (a TarInfo, and a readable file or None) in the order given."""
    writer, unpacked = LayerWriter(path), 0
    with tarfile.open(fileobj=writer, mode="w", format=tarfile.PAX_FORMAT, copybufsize=COPY_BYTES) as tar:
        for entry, content in entries:
            tar.addfile(entry, content)
            unpacked += entry.size
    digest, diff_id = writer.close()
    return Layer(name, digest, diff_id, writer.compressed_bytes, unpacked)


def tree_entries(tree: Path, epoch: int):
    """The entries of a directory: owned by root, and with no mode but 755 and 644."""
    paths = sorted((path for path in tree.rglob("*")), key=lambda path: path.relative_to(tree).as_posix())
    for path in paths:
        entry = tarfile.TarInfo(path.relative_to(tree).as_posix())
        entry.mtime = epoch
        if path.is_symlink():
            entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, os.readlink(path), 0o777
            yield entry, None
        elif path.is_dir():
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            yield entry, None
        elif path.is_file():
            entry.size, entry.mode = path.stat().st_size, 0o755 if path.stat().st_mode & 0o111 else 0o644
            with path.open("rb") as content:
                yield entry, content
        else:
            raise ValueError(f"{path} is no file, directory or link")


def file_entries(files: dict[str, bytes], epoch: int, scratch: Path):
    """The entries of a few small files and of the directories above them."""
    for name, content in files.items():
        target = scratch / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    yield from tree_entries(scratch, epoch)


def root_entries(archive: Path, below: Path | None = None):
    """The entries of a root file system in a tar archive, without its device nodes.

    With `below`, only what is new or other than in that archive, and whiteouts for what is gone.
    """
    upper = _index(archive)
    lower = _index(below) if below else {}
    chosen = {name for name, entry in upper.items() if name not in lower or lower[name][1] != entry[1]}
    # A hard link and its target must be in one layer.
    chosen |= {upper[name][0].linkname for name in chosen if upper[name][0].islnk()}
    chosen |= {str(parent) for name in chosen for parent in PurePosixPath(name).parents if str(parent) in upper}
    gone = {name for name in lower if name not in upper and str(PurePosixPath(name).parent) in {*upper, "."}}
    with tarfile.open(archive) as tar:
        for name in sorted(chosen | {_whiteout(name) for name in gone}):
            if name not in upper:
                yield tarfile.TarInfo(name), None
                continue
            entry = upper[name][0]
            yield entry, tar.extractfile(upper[name][2]) if entry.isreg() else None


def _whiteout(name: str) -> str:
    path = PurePosixPath(name)
    return str(path.parent / f".wh.{path.name}")


def _index(archive: Path) -> dict[str, tuple]:
    """Entries by name: as they are written, as they are compared, as they are in the archive."""
    found = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.removeprefix("./").rstrip("/")
            # A container has its own /dev, and unpacking device nodes needs a privilege.
            if name in ("", ".") or name.startswith("dev/"):
                continue
            if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                raise ValueError(f"{archive}: {name} is no file, directory or link")
            entry = copy.copy(member)
            entry.name, entry.uname, entry.gname = name, "", ""
            entry.mtime = int(member.mtime)
            entry.pax_headers = {key: value for key, value in member.pax_headers.items() if key.startswith("SCHILY.xattr.")}
            if entry.islnk():
                entry.linkname = entry.linkname.removeprefix("./")
            content = tar.extractfile(member) if member.isreg() else None
            sum_ = hashlib.file_digest(content, "sha256").hexdigest() if content else ""
            facts = (entry.type, entry.mode, entry.uid, entry.gid, entry.mtime, entry.linkname, sum_, str(entry.pax_headers))
            found[name] = (entry, facts, member)
    return dict(sorted(found.items()))
