"""Makes root file systems of Debian packages with mmdebstrap, without an image registry."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from pins import BASE_IMAGE, BuildError, Image, debian_packages


def root_archive(image: Image, lists: tuple[str, ...], cache: Path, refresh: bool) -> Path:
    """The tar archive of a root file system with these lists of packages, from the cache unless `refresh`."""
    packages = debian_packages(lists)
    made_from = [image.release, image.epoch, packages]
    made_from += [(BASE_IMAGE / name).read_text() for name in ("dpkg.cfg", "configure-root")]
    key = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:16]
    archive = cache / f"debian-{key}.tar"
    if archive.exists() and not refresh:
        say(f"Debian packages of {', '.join(lists)}: from the cache, --refresh takes current ones")
        return archive
    say(f"Debian packages of {', '.join(lists)}: mmdebstrap, {image.release}")
    _mmdebstrap(image, packages, archive)
    return archive


def say(message: str) -> None:
    print(f"build-image: {message}", file=sys.stderr, flush=True)


def _mmdebstrap(image: Image, packages: list[str], archive: Path) -> None:
    part = archive.with_suffix(".part.tar")
    log = archive.with_suffix(".log")
    command = [
        "mmdebstrap", "--variant=minbase", "--mode=root", "--architectures=amd64", f"--include={','.join(packages)}",
        f"--dpkgopt={BASE_IMAGE / 'dpkg.cfg'}", f"--customize-hook={BASE_IMAGE / 'configure-root'}",
        image.release, str(part),
    ]
    # Hooks and Debian's own scripts take times from here, and names of locales from nowhere.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LC_") and name != "LANG"}
    environment |= {"SOURCE_DATE_EPOCH": str(image.epoch), "LC_ALL": "C.UTF-8"}
    with log.open("wb") as output:
        status = subprocess.run(command, env=environment, stdout=output, stderr=output, check=False).returncode
    if status != 0:
        last = log.read_text(errors="replace").splitlines()[-5:]
        raise BuildError("\n".join([f"mmdebstrap failed with status {status}, see {log}:", *last]))
    part.replace(archive)
