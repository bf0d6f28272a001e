"""Builds an image without a container engine; `scripts/build-image` installs what it needs and starts it.

Debian packages -> layers of their own -> layers from npm -> the list of contents -> OCI layout, archive.
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import npm_tree
import oci_layout
import pins
import sbom
from debian_root import root_archive, say
from layer import GZIP_LEVEL, Layer, file_entries, root_entries, tree_entries, write_layer
from pins import BuildError, Image, Variant

SBOM_PATH = "usr/share/slipway/sbom.spdx.json"
DPKG_STATUS = "./var/lib/dpkg/status"
# The names of layers, by the list of packages that they add.
DEBIAN_LAYERS = {"packages.minimal": "debian", "packages.standard": "build-tools", "packages.interpreter": "python-kernel"}


class LayerCache:
    """Layers of earlier builds, found by what they were made from."""

    def __init__(self, directory: Path):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        # A change of these may change what is written.
        programs = [Path(__file__).with_name(name).read_bytes() for name in ("layer.py", "npm_tree.py")]
        self.programs = hashlib.sha256(b"".join(programs)).hexdigest()

    def layer(self, name: str, made_from: list, make) -> tuple[Layer, Path, list]:
        """Returns a layer, its file and its npm packages; `make(path)` writes one that is not there."""
        key = hashlib.sha256(json.dumps([self.programs, GZIP_LEVEL, name, made_from]).encode()).hexdigest()
        record, path = self.directory / f"{key}.json", self.directory / f"{key}.tar.gz"
        if record.exists() and path.exists():
            known = json.loads(record.read_text())
            return Layer(**known["layer"]), path, known["npm"]
        part = path.with_suffix(".part")
        layer, packages = make(part)
        part.replace(path)
        # The record is last: with it, the layer is whole.
        record.write_text(json.dumps({"layer": layer.to_json(), "npm": packages}))
        say(f"layer {name}: {megabytes(layer.compressed_bytes)}, unpacked {megabytes(layer.unpacked_bytes)}")
        return layer, path, packages


def megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def build(image: Image, variant: Variant, options) -> oci_layout.WrittenImage:
    """Writes the layout of a variant to `options.out`, which is replaced when all is there."""
    cache = LayerCache(options.work / "layers")
    archives = [
        root_archive(image, variant.package_lists[: count + 1], options.work, options.refresh)
        for count in range(len(variant.package_lists))
    ]
    with tempfile.TemporaryDirectory(dir=options.work) as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
        work = Path(scratch)
        jobs = [pool.submit(_debian_layer, cache, archives, n, variant.package_lists[n]) for n in range(len(archives))]
        jobs += [pool.submit(_npm_layer, cache, image, variant, name, work) for name in variant.layers]
        if variant.files:
            jobs.append(pool.submit(_files_layer, cache, image, variant.files))
        made = [job.result() for job in jobs]
        inputs = sbom_inputs(image, variant, [package for _, _, packages in made for package in packages])
        contents = sbom.encode(sbom.document(inputs, _dpkg_status(archives[-1])))
        made.append(cache.layer("sbom", [contents.decode(), image.epoch], lambda path: (
            write_layer("sbom", path, file_entries({SBOM_PATH: contents}, image.epoch, work / "sbom")), [])))
        check_budget(variant, [layer for layer, _, _ in made])
        metadata = oci_layout.ImageMetadata(tag(image, variant), image.epoch, variant.config, pins.labels(image, variant))
        staged = work / "layout"
        written = oci_layout.write_layout(staged, metadata, [(layer, path) for layer, path, _ in made])
        replace_layout(staged, options.out)
    (options.out.parent / f"{variant.name}.spdx.json").write_bytes(contents)
    return oci_layout.WrittenImage(
        written.manifest_digest, written.config_digest, options.out, written.layers, written.tag)


def tag(image: Image, variant: Variant) -> str:
    return f"slipway/{variant.name}:{image.version}"


def _debian_layer(cache: LayerCache, archives: list[Path], number: int, package_list: str):
    archive, below = archives[number], archives[number - 1] if number else None
    sums = [file_sum(path) for path in (archive, below) if path]
    name = DEBIAN_LAYERS[package_list]
    return cache.layer(name, sums, lambda path: (write_layer(name, path, root_entries(archive, below)), []))


def _npm_layer(cache: LayerCache, image: Image, variant: Variant, name: str, work: Path):
    projects = variant.layers[name]
    made_from = [[repr(project), npm_tree.locked(project).decode()] for project in projects]

    def make(path: Path):
        tree = work / "trees" / name
        packages = npm_tree.lay_out(projects, work / "npm", tree)
        return write_layer(name, path, tree_entries(tree, image.epoch)), packages

    return cache.layer(name, [made_from, image.epoch], make)


def _files_layer(cache: LayerCache, image: Image, tree: Path):
    made_from = [[path.relative_to(tree).as_posix(), file_sum(path), path.stat().st_mode & 0o111]
                 for path in sorted(tree.rglob("*")) if path.is_file()]
    name = tree.name
    return cache.layer(name, [made_from, image.epoch], lambda path: (write_layer(name, path, tree_entries(tree, image.epoch)), []))


def sbom_inputs(image: Image, variant: Variant, packages: list[dict]) -> dict:
    unique = {(package["name"], package["version"]): package for package in packages}
    return {"name": f"slipway/{variant.name}", "version": image.version, "epoch": image.epoch,
            "npm": [unique[key] for key in sorted(unique)]}


def _dpkg_status(archive: Path) -> str:
    with tarfile.open(archive) as tar:
        return tar.extractfile(DPKG_STATUS).read().decode()


def file_sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_budget(variant: Variant, layers: list[Layer]) -> None:
    """Refuses an image that has grown over its budget: someone should decide that it may."""
    sizes = [
        ("compressed", sum(layer.compressed_bytes for layer in layers), variant.compressed_budget),
        ("unpacked", sum(layer.unpacked_bytes for layer in layers), variant.unpacked_budget),
    ]
    for name, size, budget in sizes:
        say(f"{variant.name}, {name}: {megabytes(size)} of {megabytes(budget)}")
        if size > budget:
            raise BuildError(f"{variant.name} is {megabytes(size)} {name}, over its budget of {megabytes(budget)} in image.toml")


def replace_layout(staged: Path, out: Path) -> None:
    """Puts a complete layout in the place of an older one; any other directory is refused."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.exists():
        if any(out.iterdir()) and not (out / "oci-layout").exists():
            raise BuildError(f"{out} exists and is no OCI layout; name another directory with --out")
        shutil.rmtree(out)
    shutil.move(staged, out)


def context(image: Image, variant: Variant, options) -> None:
    """Writes the build context of the Containerfile to `options.out`: the same trees that layers are made of."""
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__", "tests", "locks")
    shutil.copytree(pins.BASE_IMAGE, options.out / "base-image", ignore=ignored)
    packages = []
    with tempfile.TemporaryDirectory(dir=options.work) as scratch:
        for name, projects in variant.layers.items():
            packages += npm_tree.lay_out(projects, Path(scratch), options.out / "layers" / name)
    (options.out / "sbom-input.json").write_text(json.dumps(sbom_inputs(image, variant, packages)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=["build", "context", "labels", "update-locks"])
    parser.add_argument("variant")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--archive", type=Path)
    parser.add_argument("--refresh", action="store_true")
    options = parser.parse_args()
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    image = pins.load(options.root, int(epoch) if epoch else None)
    variant = image.variant(options.variant)
    os.umask(0o022)
    options.work.mkdir(parents=True, exist_ok=True)
    match options.action:
        case "build":
            written = build(image, variant, options)
            if options.archive:
                oci_layout.write_archive(written, options.archive)
            print(written.tag, written.manifest_digest)
        case "context":
            context(image, variant, options)
        case "labels":
            for name, value in pins.labels(image, variant).items():
                print(f"{name}={value}")
        case "update-locks":
            with tempfile.TemporaryDirectory(dir=options.work) as scratch:
                for project in variant.projects():
                    say(f"lock of {project.name}: {' '.join(project.packages)}")
                    npm_tree.update_lock(project, Path(scratch))


if __name__ == "__main__":
    try:
        main()
    except BuildError as error:
        say(str(error))
        sys.exit(1)
