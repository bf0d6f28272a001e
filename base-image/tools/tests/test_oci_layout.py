"""The layout and the archive: complete, byte for byte the same twice, and with every digest right."""

import hashlib
import json
import tarfile
import unittest

from scratch import EPOCH, ScratchTest

from layer import file_entries, write_layer
from oci_layout import ImageMetadata, write_archive, write_layout

METADATA = ImageMetadata("slipway/tiny:1.2.3", EPOCH, {"User": "1000:1000", "Env": ["A=b"]}, {"org.opencontainers.image.version": "1.2.3"})


class LayoutTest(ScratchTest):
    def written(self, name: str):
        layers = []
        for number in range(2):
            path = self.dir / f"{name}-{number}.gz"
            files = file_entries({f"etc/file-{number}": b"content"}, EPOCH, self.dir / f"{name}-{number}")
            layers.append((write_layer(f"layer-{number}", path, files), path))
        return write_layout(self.dir / name, METADATA, layers)

    def test_two_layouts_and_archives_of_one_content_are_the_same_bytes(self):
        for name in ("one", "two"):
            write_archive(self.written(name), self.dir / f"{name}.tar")
        one = {path.relative_to(self.dir / "one"): path.read_bytes() for path in (self.dir / "one").rglob("*") if path.is_file()}
        two = {path.relative_to(self.dir / "two"): path.read_bytes() for path in (self.dir / "two").rglob("*") if path.is_file()}
        self.assertEqual(one, two)
        self.assertEqual((self.dir / "one.tar").read_bytes(), (self.dir / "two.tar").read_bytes())

    def test_every_blob_is_named_by_its_digest_and_described_with_its_size(self):
        image = self.written("layout")
        blobs = {path.name: path.read_bytes() for path in (image.directory / "blobs/sha256").iterdir()}
        for name, content in blobs.items():
            self.assertEqual(name, hashlib.sha256(content).hexdigest())
        index = json.loads((image.directory / "index.json").read_text())
        manifest = json.loads(blobs[index["manifests"][0]["digest"].removeprefix("sha256:")])
        for descriptor in [index["manifests"][0], manifest["config"], *manifest["layers"]]:
            self.assertEqual(descriptor["size"], len(blobs[descriptor["digest"].removeprefix("sha256:")]))
        self.assertEqual(index["manifests"][0]["annotations"], {"org.opencontainers.image.ref.name": "slipway/tiny:1.2.3"})
        config = json.loads(blobs[manifest["config"]["digest"].removeprefix("sha256:")])
        self.assertEqual(config["rootfs"]["diff_ids"], [layer.diff_id for layer in image.layers])
        self.assertEqual(config["config"], {"User": "1000:1000", "Env": ["A=b"], "Labels": {"org.opencontainers.image.version": "1.2.3"}})
        self.assertEqual(len(config["history"]), len(manifest["layers"]))

    def test_the_archive_is_a_layout_and_what_docker_loads(self):
        image = self.written("layout")
        write_archive(image, self.dir / "image.tar")
        with tarfile.open(self.dir / "image.tar") as tar:
            names = [each.name for each in tar if each.isfile()]
            docker = json.load(tar.extractfile("manifest.json"))
        expected = {str(path.relative_to(image.directory)) for path in image.directory.rglob("*") if path.is_file()}
        self.assertEqual(set(names), expected | {"manifest.json"})
        self.assertEqual(docker[0]["RepoTags"], ["slipway/tiny:1.2.3"])
        self.assertTrue({docker[0]["Config"], *docker[0]["Layers"]} <= set(names))


if __name__ == "__main__":
    unittest.main()
