"""Installs projects from npm by their lock files, and lays them out as they are in the image."""

import fnmatch
import json
import os
import shutil
import subprocess
from pathlib import Path

from pins import BASE_IMAGE, BuildError, Project

LIB = "usr/local/lib/slipway"
BIN = "usr/local/bin"
# npm verifies the integrity of each package against the lock file. Install scripts are unreviewed code that no
# package here needs.
NPM = ["npm", "install", "--no-audit", "--no-fund", "--prefer-offline", "--ignore-scripts", "--loglevel=error",
       "--omit-lockfile-registry-resolved"]


def lock_file(project: Project) -> Path:
    return BASE_IMAGE / "locks" / f"{project.name}.json"


def locked(project: Project) -> bytes:
    """The lock file, after a check that it locks the pinned versions."""
    path = lock_file(project)
    wrong = BuildError(f"locks/{path.name} does not lock {' '.join(project.packages)}: run scripts/build-image --update-locks")
    if not path.exists():
        raise wrong
    lock = json.loads(path.read_bytes())
    if lock["packages"][""].get("dependencies") != project.dependencies():
        raise wrong
    for place, entry in lock["packages"].items():
        if place and not entry.get("inBundle") and "integrity" not in entry:
            raise BuildError(f"locks/{path.name} has no integrity of {place}")
    return path.read_bytes()


def update_lock(project: Project, work: Path) -> None:
    """Writes the lock file anew for the pinned versions."""
    directory = _npm_directory(project, work)
    _npm(directory, project, "--package-lock-only")
    lock_file(project).parent.mkdir(exist_ok=True)
    shutil.copyfile(directory / "package-lock.json", lock_file(project))


def lay_out(projects: tuple[Project, ...], work: Path, tree: Path) -> list[dict]:
    """Installs the projects into `tree`, a part of a root file system, and returns their npm packages."""
    packages = []
    for project in projects:
        lock = locked(project)
        directory = _npm_directory(project, work)
        (directory / "package-lock.json").write_bytes(lock)
        _npm(directory, project)
        if (directory / "package-lock.json").read_bytes() != lock and not _same_lock(directory, lock):
            raise BuildError(f"npm changed the lock file of {project.name}: run scripts/build-image --update-locks")
        modules = directory / "node_modules"
        (modules / ".package-lock.json").unlink(missing_ok=True)
        _drop(modules, project.drop)
        packages += _packages(modules)
        target = tree / LIB / project.name
        target.mkdir(parents=True)
        modules.rename(target / "node_modules")
        _link(project, tree)
    return packages


def _same_lock(directory: Path, lock: bytes) -> bool:
    """Whether npm only formatted the lock file otherwise."""
    def versions(content: bytes) -> dict:
        return {place: entry.get("integrity") for place, entry in json.loads(content)["packages"].items()}
    return versions((directory / "package-lock.json").read_bytes()) == versions(lock)


def _npm_directory(project: Project, work: Path) -> Path:
    directory = work / project.name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    package = {"name": project.name, "private": True, "dependencies": project.dependencies()}
    (directory / "package.json").write_text(json.dumps(package))
    return directory


def _npm(directory: Path, project: Project, *arguments: str) -> None:
    omit = ["--omit=optional"] if project.omit_optional else []
    result = subprocess.run([*NPM, *omit, *arguments], cwd=directory, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildError(f"npm could not install {project.name}: {result.stderr.strip()}")


def dropped(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether a file is left out: the last pattern that matches decides, and `!` keeps."""
    for pattern in reversed(patterns):
        if fnmatch.fnmatchcase(path, pattern.removeprefix("!")):
            return not pattern.startswith("!")
    return False


def _drop(modules: Path, patterns: tuple[str, ...]) -> None:
    for directory, _, names in os.walk(modules, topdown=False):
        for name in names:
            path = Path(directory, name)
            if dropped(str(path.relative_to(modules)), patterns):
                path.unlink()
        if not os.listdir(directory):
            os.rmdir(directory)


def _link(project: Project, tree: Path) -> None:
    """Makes the commands: links, or scripts that set the environment of an adapter."""
    commands = tree / BIN
    commands.mkdir(parents=True, exist_ok=True)
    for name, target in project.links.items():
        program = tree / LIB / project.name / "node_modules" / target
        if not program.exists():
            raise BuildError(f"npm installed no {target} of {project.name}")
        program.resolve().chmod(0o755)
        inside = f"/{LIB}/{project.name}/node_modules/{target}"
        if not project.env:
            (commands / name).symlink_to(os.path.relpath(inside, f"/{BIN}"))
            continue
        lines = ["#!/bin/sh", *(f'export {key}="${{{key}:-{value}}}"' for key, value in project.env)]
        (commands / name).write_text("\n".join([*lines, f'exec {inside} "$@"', ""]))
        (commands / name).chmod(0o755)


def _packages(modules: Path) -> list[dict]:
    """Name, version and licence of every package below, bundled ones too, sorted."""
    found = set()
    for file in modules.rglob("package.json"):
        parts = file.relative_to(modules).parts
        # Packages are node_modules/NAME and node_modules/@SCOPE/NAME; deeper files only mark a module format.
        below = parts[len(parts) - parts[::-1].index("node_modules"):] if "node_modules" in parts else parts
        if len(below) != (3 if below[0].startswith("@") else 2):
            continue
        package = json.loads(file.read_text())
        if "name" in package and "version" in package:
            license_ = package.get("license")
            found.add((package["name"], package["version"], license_ if isinstance(license_, str) else ""))
    return [{"name": name, "version": version, "license": license_} for name, version, license_ in sorted(found)]
