"""Lists what is in an image as an SPDX 2.3 document, from the status file of dpkg and the packages of npm.

usage, in the Containerfile: sbom.py INPUT STATUS OUT
"""

import datetime
import json
import re
import sys
import uuid
from pathlib import Path
from urllib.parse import quote


def dpkg_packages(status: str) -> list[dict[str, str]]:
    """The installed packages of a status file of dpkg, each with its fields of one line."""
    packages = []
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            packages.append(fields)
    return sorted(packages, key=lambda fields: fields["Package"])


def document(inputs: dict, status: str) -> dict:
    """The SPDX document of an image; `inputs` holds its name, version, epoch and npm packages."""
    packages = [_debian(fields) for fields in dpkg_packages(status)]
    packages += [_npm(package) for package in inputs["npm"]]
    image = {
        "SPDXID": "SPDXRef-Image",
        "name": inputs["name"],
        "versionInfo": inputs["version"],
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "primaryPackagePurpose": "CONTAINER",
    }
    # Equal content has an equal name, other content another.
    namespace = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([image, packages], sort_keys=True))
    created = datetime.datetime.fromtimestamp(inputs["epoch"], datetime.UTC)
    contains = [_relationship(image, "CONTAINS", package["SPDXID"]) for package in packages]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{inputs['name']}:{inputs['version']}",
        "documentNamespace": f"urn:uuid:{namespace}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: slipway-build-image"]},
        "packages": [image, *packages],
        "relationships": [_relationship({"SPDXID": "SPDXRef-DOCUMENT"}, "DESCRIBES", "SPDXRef-Image"), *contains],
    }


def encode(spdx: dict) -> bytes:
    return (json.dumps(spdx, indent=1, ensure_ascii=False) + "\n").encode()


def _relationship(element: dict, kind: str, related: str) -> dict:
    return {"spdxElementId": element["SPDXID"], "relationshipType": kind, "relatedSpdxElement": related}


def _debian(fields: dict[str, str]) -> dict:
    name, version, arch = fields["Package"], fields["Version"], fields["Architecture"]
    source = fields.get("Source", name).split()[0]
    # Licences are in /usr/share/doc/*/copyright, in no form that a program can rely on.
    return _package("deb", f"{name}-{arch}", name, version) | {
        "supplier": f"Organization: {re.sub(r' *<.*', '', fields.get('Maintainer', 'Debian'))}",
        "sourceInfo": f"built from the Debian source package {source}",
        "externalRefs": [_purl(f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={arch}")],
    }


def _npm(package: dict[str, str]) -> dict:
    name, version = package["name"], package["version"]
    # Only expressions of SPDX are allowed here.
    declared = package["license"] if re.fullmatch(r"\(?[A-Za-z0-9.+-]+( (OR|AND|WITH) [A-Za-z0-9.+-]+)*\)?", package["license"]) else ""
    if declared.upper() == "UNLICENSED":
        declared = "NONE"
    return _package("npm", f"{name}-{version}", name, version) | {
        "licenseDeclared": declared or "NOASSERTION",
        "externalRefs": [_purl(f"pkg:npm/{quote(name)}@{quote(version)}")],
    }


def _package(kind: str, key: str, name: str, version: str) -> dict:
    return {
        "SPDXID": f"SPDXRef-{kind}-{re.sub(r'[^A-Za-z0-9.-]', '-', key)}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
    }


def _purl(locator: str) -> dict:
    return {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator}


if __name__ == "__main__":
    inputs_path, status_path, out_path = map(Path, sys.argv[1:])
    out_path.write_bytes(encode(document(json.loads(inputs_path.read_text()), status_path.read_text())))
