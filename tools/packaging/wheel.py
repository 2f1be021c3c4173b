#!/usr/bin/env python3
"""wheel.py TREE LICENCES ARCH VERSION FOLDER - a wheel of an installed tree and the module beside this file.

Commands go where pip puts scripts, the rest below the environment's prefix, so that they find each other as
in any installed tree. A wheel has no links: the simulator is opened by its versioned name.
"""

import base64
import hashlib
import pathlib
import sys
import zipfile

tree, licences, arch, version, out = sys.argv[1:]
tree, here = pathlib.Path(tree), pathlib.Path(__file__).parent
tag = f"py3-none-manylinux_2_17_{arch}.manylinux2014_{arch}"
info, data = f"cutin-{version}.dist-info", f"cutin-{version}.data"
SYSTEMS_OWN = {"systemd", "sysusers.d", "tmpfiles.d", "doc", "lintian"}


def contents():
    """Name in the wheel, bytes, mode."""
    for file in sorted((here / "cutin").glob("*.py")):
        yield f"cutin/{file.name}", file.read_bytes(), 0o644
    for file in sorted(tree.rglob("*")):
        inside = file.relative_to(tree)
        if file.is_symlink() or file.is_dir() or SYSTEMS_OWN & set(inside.parts):
            continue
        command = inside.parts[0] == "bin"
        name = f"{data}/scripts/{file.name}" if command else f"{data}/data/{inside}"
        yield name, file.read_bytes(), 0o755 if command else 0o644
    for file in sorted(pathlib.Path(licences).iterdir()):
        yield f"{info}/licenses/{file.name}", file.read_bytes(), 0o644
    yield f"{info}/METADATA", f"""\
Metadata-Version: 2.1
Name: cutin
Version: {version}
Summary: Real-time work cuts in on a busy NVIDIA GPU, without changing a program
License: Apache-2.0
Requires-Python: >=3.8
Description-Content-Type: text/markdown

`cutin run -- python train.py` holds training while real-time work runs; `cutin --help` says the rest.
""".encode(), 0o644
    lines = ["Wheel-Version: 1.0", "Generator: cutin", "Root-Is-Purelib: false"]
    lines += [f"Tag: py3-none-{platform}" for platform in tag.split("-")[-1].split(".")]
    yield f"{info}/WHEEL", ("\n".join(lines) + "\n").encode(), 0o644


record = ""
with zipfile.ZipFile(f"{out}/cutin-{version}-{tag}.whl", "w", zipfile.ZIP_DEFLATED) as wheel:

    def add(name, content, mode):
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same tree, the same wheel
        entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
        wheel.writestr(entry, content)

    for name, content, mode in contents():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
        add(name, content, mode)
    add(f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode(), 0o644)
