#!/usr/bin/env python3
"""sbom.py BUILD ROOT VERSION SECONDS PACKAGE... - what is in each package, as SPDX 2.3 in PACKAGE.spdx.json.

Each packed file stands there by its sums, each library that its programs are linked with statically by
Debian's source package and version. BUILD is where the programs were built, ROOT the folder into which
Debian's libraries were unpacked, SECONDS the time to say (SOURCE_DATE_EPOCH).
"""

import datetime
import gzip
import hashlib
import importlib.metadata
import io
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

build, root, version, epoch, *packages = sys.argv[1:]
created = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def unpack(package, folder):
    if package.suffix == ".deb":
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    elif package.suffix == ".whl":
        zipfile.ZipFile(package).extractall(folder)
    else:
        archive = subprocess.run(["rpm2archive", "-"], check=True, stdin=package.open("rb"),
                                 stdout=subprocess.PIPE).stdout
        tarfile.open(fileobj=io.BytesIO(archive)).extractall(folder)


def linked():
    """Of each program by its name: (name, version, supplier) of what it is linked with statically."""
    said = {}
    for block in pathlib.Path(build, "build.ninja").read_text().split("\n\n"):
        program = re.search(r"^build (\S+): C_(?:EXECUTABLE|SHARED_LIBRARY)_LINKER", block, re.M)
        libraries = re.search(r"^  LINK_LIBRARIES = (.*)$", block, re.M)
        if program and libraries:
            said[pathlib.Path(program[1]).name] = {
                *(debian(stem) for stem in re.findall(rf"{re.escape(root)}/\S*/lib(\w+)\.a", libraries[1])),
                *([("libc++", importlib.metadata.version("ziglang") + " of ziglang", "Organization: LLVM")]
                  if "-lstdc++" in libraries[1] else [])}
    return said


def debian(stem):
    """The source package of libSTEM.a, and its version."""
    log = next(pathlib.Path(root, "usr/share/doc").glob(f"lib{stem}*/changelog.Debian.gz"))
    name, number = gzip.open(log, "rt", errors="replace").readline().split(")")[0].split(" (")
    return name, number, "Organization: Debian"


def part(identifier, name, number, supplier):
    return {"SPDXID": identifier, "name": name, "versionInfo": number, "supplier": supplier,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
            "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION"}


def document(package):
    with tempfile.TemporaryDirectory() as folder:
        unpack(package, folder)
        packed = [(f.relative_to(folder), f.read_bytes()) for f in sorted(pathlib.Path(folder).rglob("*"))
                  if f.is_file() and not f.is_symlink()]
    ours = part("SPDXRef-package", package.name, version, "Organization: cutin")
    sums = sorted(hashlib.sha1(content).hexdigest() for _, content in packed)
    ours.update(filesAnalyzed=True, licenseInfoFromFiles=["NOASSERTION"],
                packageVerificationCode={"packageVerificationCodeValue":
                                         hashlib.sha1("".join(sums).encode()).hexdigest()},
                licenseConcluded="Apache-2.0", licenseDeclared="Apache-2.0", packageFileName=package.name,
                checksums=[{"algorithm": "SHA256",
                            "checksumValue": hashlib.sha256(package.read_bytes()).hexdigest()}])
    static = sorted(set().union(*(programs.get(name.name, ()) for name, _ in packed)))
    parts = [part(f"SPDXRef-static-{i}", *said) for i, said in enumerate(static)]
    files = [{"SPDXID": f"SPDXRef-file-{i}", "fileName": f"./{name}",
              "licenseInfoInFiles": ["NOASSERTION"], "licenseConcluded": "NOASSERTION",
              "copyrightText": "NOASSERTION",
              "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(content).hexdigest()},
                            {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()}]}
             for i, (name, content) in enumerate(packed)]

    def related(kind, others):
        return [{"spdxElementId": "SPDXRef-package", "relationshipType": kind,
                 "relatedSpdxElement": other["SPDXID"]} for other in others]

    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": package.name,
            "documentNamespace": f"https://spdx.org/spdxdocs/{package.name}-"
                                 f"{ours['checksums'][0]['checksumValue']}",
            "creationInfo": {"created": created, "creators": ["Tool: cutin/tools/packaging/sbom.py"]},
            "packages": [ours, *parts], "files": files,
            "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                               "relatedSpdxElement": "SPDXRef-package"},
                              *related("STATIC_LINK", parts), *related("CONTAINS", files)]}


programs = linked()
for name in packages:
    package = pathlib.Path(name)
    said = json.dumps(document(package), indent=1) + "\n"
    package.with_name(package.name + ".spdx.json").write_text(said)
