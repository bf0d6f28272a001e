"""Reads what an image is made of: image.toml, the package lists, the agents' pins and the Containerfile."""

import copy
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

BASE_IMAGE = Path(__file__).resolve().parent.parent
LICENSE = "Apache-2.0 OR MIT"


class BuildError(Exception):
    """An error that the user can mend; its text is the whole message."""


@dataclass(frozen=True)
class Project:
    """What npm installs from one lock file."""

    name: str
    packages: tuple[str, ...]
    links: dict[str, str]
    drop: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    omit_optional: bool = False

    def dependencies(self) -> dict[str, str]:
        """The `dependencies` of its package.json: exact versions by name."""
        return dict(package.rsplit("@", 1) for package in self.packages)


@dataclass(frozen=True)
class Variant:
    """One image: lists of Debian packages, layers from npm, files of ours, the largest size in bytes, and how a container starts."""

    name: str
    package_lists: tuple[str, ...]
    layers: dict[str, tuple[Project, ...]]
    compressed_budget: int
    unpacked_budget: int
    config: dict
    # The directory below files/ that is copied into the image.
    files: Path | None = None

    def projects(self) -> list[Project]:
        return [project for projects in self.layers.values() for project in projects]


@dataclass(frozen=True)
class Image:
    """Everything that is the same for all variants, and the variants."""

    version: str
    release: str
    epoch: int
    variants: dict[str, Variant]

    def variant(self, name: str) -> Variant:
        if name not in self.variants:
            raise BuildError(f"there is no variant {name}; there are: {', '.join(self.variants)}")
        return self.variants[name]


def load(root: Path, epoch: int | None = None) -> Image:
    """Reads the files of the repository at `root`; `epoch` replaces that of image.toml."""
    table = tomllib.loads((BASE_IMAGE / "image.toml").read_text())
    agents = tomllib.loads((root / "hostd/src/agents/agents.toml").read_text())
    projects = {name: _project(name, entry, agents) for name, entry in table["projects"].items()}
    layers = {name: tuple(projects[each] for each in names) for name, names in table["layers"].items()}
    variants = {name: _variant(name, entry, layers) for name, entry in table["variants"].items()}
    return Image(
        version=tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"],
        release=table["release"],
        epoch=table["source_date_epoch"] if epoch is None else epoch,
        variants=variants,
    )


def _project(name: str, entry: dict, agents: dict) -> Project:
    install = entry.get("install") or agents[name]["install"]
    return Project(
        name=name,
        packages=tuple(install["packages"]),
        links=dict(install["links"]),
        drop=tuple(entry.get("drop", ())),
        env=tuple(entry.get("env", {}).items()),
        omit_optional=entry.get("omit_optional", False),
    )


def _variant(name: str, entry: dict, layers: dict) -> Variant:
    return Variant(
        name=name,
        package_lists=tuple(entry["packages"]),
        layers={layer: layers[layer] for layer in entry["layers"]},
        compressed_budget=entry["budget_mb"]["compressed"] * 1_000_000,
        unpacked_budget=entry["budget_mb"]["unpacked"] * 1_000_000,
        config=container_config((BASE_IMAGE / "Containerfile").read_text(), name),
        files=BASE_IMAGE / "files" / entry["files"] if "files" in entry else None,
    )


def debian_packages(lists: tuple[str, ...]) -> list[str]:
    """The packages of these lists, without comments."""
    lines = [line for name in lists for line in (BASE_IMAGE / name).read_text().splitlines()]
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def container_config(containerfile: str, target: str) -> dict:
    """The `config` of an OCI image that ENV, USER, WORKDIR and CMD of a stage, and those of the stages below it, mean."""
    stages: dict[str, dict] = {}
    stage: dict = {}
    for line in containerfile.splitlines():
        match line.strip().split(maxsplit=1):
            case ["FROM", rest]:
                below, _, name = rest.split()
                stage = stages[name] = copy.deepcopy(stages.get(below, {"Env": []}))
            case ["ENV", pair]:
                stage["Env"].append(pair)
            case ["USER", user]:
                stage["User"] = user
            case ["WORKDIR", directory]:
                stage["WorkingDir"] = directory
            case ["CMD", command]:
                stage["Cmd"] = json.loads(command)
            case _:
                pass
    return stages[target]


def labels(image: Image, variant: Variant) -> dict[str, str]:
    """The labels of an image: what it is, and the version of each tool from npm."""
    found = {
        "org.opencontainers.image.title": f"slipway/{variant.name}",
        "org.opencontainers.image.description": f"Slipway's sandbox image, variant {variant.name}",
        "org.opencontainers.image.version": image.version,
        "org.opencontainers.image.licenses": LICENSE,
        "org.opencontainers.image.base.name": f"debian:{image.release}",
        "slipway.image.variant": variant.name,
    }
    for project in variant.projects():
        for package, version in project.dependencies().items():
            found[f"slipway.image.npm.{package.lstrip('@').replace('/', '.')}"] = version
    return dict(sorted(found.items()))
