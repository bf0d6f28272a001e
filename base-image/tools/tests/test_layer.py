"""Layers: the same bytes for the same content, and only what differs from the layer below."""

import gzip
import hashlib
import os
import tarfile
import unittest

from scratch import EPOCH, ScratchTest, special

from layer import root_entries, tree_entries, write_layer


class LayerTest(ScratchTest):
    def names(self, entries) -> list[str]:
        return [entry.name for entry, _ in entries]

    def tree(self, name: str):
        root = self.dir / name
        (root / "usr/bin").mkdir(parents=True)
        (root / "usr/bin/tool").write_bytes(b"#!/bin/sh\n")
        (root / "usr/bin/tool").chmod(0o700)
        (root / "usr/bin/alias").symlink_to("tool")
        (root / "note").write_bytes(b"text")
        (root / "note").chmod(0o600)
        return root

    def test_two_trees_of_one_content_give_the_same_bytes(self):
        layers = []
        for name in ("one", "two"):
            tree = self.tree(name)
            os.utime(tree / "note", (len(layers), len(layers)))
            layers.append(write_layer("tree", self.dir / f"{name}.gz", tree_entries(tree, EPOCH)))
        self.assertEqual(layers[0], layers[1])
        self.assertEqual((self.dir / "one.gz").read_bytes(), (self.dir / "two.gz").read_bytes())

    def test_digests_and_sizes_are_those_of_the_bytes_written(self):
        path = self.dir / "layer.gz"
        layer = write_layer("tree", path, tree_entries(self.tree("tree"), EPOCH))
        stored = path.read_bytes()
        self.assertEqual(layer.digest, f"sha256:{hashlib.sha256(stored).hexdigest()}")
        self.assertEqual(layer.diff_id, f"sha256:{hashlib.sha256(gzip.decompress(stored)).hexdigest()}")
        self.assertEqual((layer.compressed_bytes, layer.unpacked_bytes), (len(stored), 14))

    def test_entries_of_a_tree_are_sorted_and_owned_by_root(self):
        path = self.dir / "layer.gz"
        write_layer("tree", path, tree_entries(self.tree("tree"), EPOCH))
        with tarfile.open(path) as tar:
            seen = [(each.name, oct(each.mode), each.uid, each.gid, each.uname, each.mtime) for each in tar]
        self.assertEqual(seen, [
            ("note", "0o644", 0, 0, "", EPOCH),
            ("usr", "0o755", 0, 0, "", EPOCH),
            ("usr/bin", "0o755", 0, 0, "", EPOCH),
            ("usr/bin/alias", "0o777", 0, 0, "", EPOCH),
            ("usr/bin/tool", "0o755", 0, 0, "", EPOCH),
        ])

    def test_device_nodes_are_left_out(self):
        archive = self.archive("root.tar", {"dev": None, "dev/null": special("dev/null", tarfile.CHRTYPE), "etc": None})
        self.assertEqual(self.names(root_entries(archive)), ["dev", "etc"])
        odd = self.archive("odd.tar", {"etc": None, "etc/node": special("etc/node", tarfile.BLKTYPE)})
        with self.assertRaises(ValueError):
            list(root_entries(odd))

    def test_an_upper_layer_holds_what_differs(self):
        below = {"bin": "usr/bin", "usr": None, "usr/a": b"same", "usr/b": b"old", "usr/c": b"gone", "usr/d": None, "usr/d/e": b"gone"}
        cases = [
            ("nothing", below, []),
            ("a new file", below | {"usr/n": b"new"}, ["usr", "usr/n"]),
            ("other content of one size", below | {"usr/b": b"new"}, ["usr", "usr/b"]),
            ("another target of a link", below | {"bin": "usr/sbin"}, ["bin"]),
            ("a removed file", {name: each for name, each in below.items() if name != "usr/c"}, ["usr/.wh.c"]),
            ("a removed directory", {name: each for name, each in below.items() if not name.startswith("usr/d")}, ["usr/.wh.d"]),
            ("a hard link, with its target", below | {"usr/l": special("usr/l", tarfile.LNKTYPE, "./usr/a")}, ["usr", "usr/a", "usr/l"]),
        ]
        lower = self.archive("lower.tar", below)
        for case, content, expected in cases:
            with self.subTest(case):
                upper = self.archive("upper.tar", content)
                self.assertEqual(self.names(root_entries(upper, lower)), expected)


if __name__ == "__main__":
    unittest.main()
