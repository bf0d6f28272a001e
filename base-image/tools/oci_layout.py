"""Writes an image as an OCI image layout, and as one archive that Docker, Podman and Slipway load.

The archive is an OCI layout that also has the manifest.json of `docker save`, for Docker before version 25.
"""

import datetime
import hashlib
import io
import json
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path

from layer import Layer

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
INDEX = "application/vnd.oci.image.index.v1+json"
REF_NAME = "org.opencontainers.image.ref.name"


@dataclass(frozen=True)
class ImageMetadata:
    """What the configuration of an image says besides its layers."""

    tag: str
    epoch: int
    config: dict
    labels: dict[str, str]


@dataclass(frozen=True)
class WrittenImage:
    """The digests of an image, and its files."""

    manifest_digest: str
    config_digest: str
    directory: Path
    layers: list[Layer]
    tag: str


def encode(document: dict | list) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def write_layout(directory: Path, metadata: ImageMetadata, layers: list[tuple[Layer, Path]]) -> WrittenImage:
    """Writes the layout into an empty directory; files of layers are linked where possible."""
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for layer, path in layers:
        target = blobs / layer.digest.removeprefix("sha256:")
        # Two layers may be equal.
        if not target.exists():
            os.link(path, target)
    written = [layer for layer, _ in layers]
    config = _store(blobs, CONFIG, _image_config(metadata, written))
    descriptors = [
        {"mediaType": LAYER, "digest": layer.digest, "size": layer.compressed_bytes,
         "annotations": {"org.opencontainers.image.title": layer.name}}
        for layer in written
    ]
    manifest = _store(blobs, MANIFEST, {
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": descriptors, "annotations": metadata.labels,
    })
    reference = manifest | {"annotations": {REF_NAME: metadata.tag}, "platform": {"architecture": "amd64", "os": "linux"}}
    (directory / "index.json").write_bytes(encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": [reference]}))
    (directory / "oci-layout").write_bytes(encode({"imageLayoutVersion": "1.0.0"}))
    return WrittenImage(manifest["digest"], config["digest"], directory, written, metadata.tag)


def write_archive(image: WrittenImage, path: Path) -> None:
    """Writes the layout as one tar archive, small files first."""
    def blob(digest: str) -> str:
        return f"blobs/{digest.replace(':', '/')}"
    docker = [{
        "Config": blob(image.config_digest),
        "RepoTags": [image.tag],
        "Layers": [blob(layer.digest) for layer in image.layers],
    }]
    names = ["oci-layout", "index.json", blob(image.manifest_digest), blob(image.config_digest)]
    names += sorted({blob(layer.digest) for layer in image.layers})
    part = path.with_name(path.name + ".part")
    with tarfile.open(part, "w", format=tarfile.PAX_FORMAT, copybufsize=1 << 20) as tar:
        for parent in ("blobs", "blobs/sha256"):
            entry = tarfile.TarInfo(parent)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        _add(tar, "manifest.json", io.BytesIO(encode(docker)), len(encode(docker)))
        for name in names:
            with (image.directory / name).open("rb") as content:
                _add(tar, name, content, os.fstat(content.fileno()).st_size)
    part.replace(path)


def _add(tar: tarfile.TarFile, name: str, content, size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    tar.addfile(entry, content)


def _store(blobs: Path, media_type: str, document: dict) -> dict:
    """Writes a blob and returns its descriptor."""
    content = encode(document)
    digest = hashlib.sha256(content).hexdigest()
    (blobs / digest).write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _image_config(metadata: ImageMetadata, layers: list[Layer]) -> dict:
    created = datetime.datetime.fromtimestamp(metadata.epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": metadata.config | {"Labels": metadata.labels},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [{"created": created, "created_by": f"slipway build-image: {layer.name}"} for layer in layers],
    }
