"""What is in the root directory of the image: made by scripts/image-root here, or by an engine."""

import json
import re
import subprocess

from harness.data import sha256
from harness.server import ROOT

USER = 10001
LIBRARY = re.compile(r"(usr/)?lib(64)?/([\w-]+/)?[\w.+-]+\.so(\.[\w.]+)?")


def check_contents(root):
    """That the program, what it needs and what licences demand are there, and nothing else."""
    names = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    zones = {name for name in names if name.startswith("usr/share/zoneinfo/")}
    assert {"usr/share/zoneinfo/UTC", "usr/share/zoneinfo/Asia/Shanghai"} <= zones
    licences = {name for name in names if re.fullmatch(r"usr/share/doc/[^/]+/copyright", name)}
    assert "usr/share/doc/libcurl4/copyright" in licences
    others = {name for name in names if not LIBRARY.fullmatch(name)} - zones - licences
    # Swift's libraries, if they are not in the program.
    assert others - {name for name in others if name.startswith("opt/")} == {
        "usr/bin/sluice",
        "usr/share/sluice/sbom.cdx.json",
        "etc/passwd",
        "etc/group",
        "etc/nsswitch.conf",
        "etc/ssl/certs/ca-certificates.crt",
    }


def check_size(root):
    """That it is as small as docs/install.md says; returns both sizes as text."""
    unpacked = sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    packed = subprocess.run(["sh", "-c", f"tar -C {root} -c . | gzip -6 | wc -c"], capture_output=True, text=True)
    sizes = f"{unpacked / 1e6:.0f} MB unpacked, {int(packed.stdout) / 1e6:.0f} MB compressed"
    assert unpacked <= 110e6 and int(packed.stdout) <= 45e6, sizes
    return sizes


def check_bill(root, *, is_of_this_system=True):
    """That its bill of materials names what is there; returns the program and the components by their references.

    `is_of_this_system`: its packages are those that are installed here, so dpkg knows their versions.
    """
    # Takes some seconds, and every process that runs tests imports this file.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    document = json.loads((root / "usr/share/sluice/sbom.cdx.json").read_text())
    errors = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document))
    assert errors is None, errors
    program = document["metadata"]["component"]
    assert program["hashes"] == [{"alg": "SHA-256", "content": sha256((root / "usr/bin/sluice").read_bytes())}]
    components = {one["bom-ref"]: one for one in document["components"]}
    assert document["dependencies"] == [{"ref": "sluice", "dependsOn": list(components)}]
    named = {file["name"]: (one, file) for one in components.values() for file in one.get("components", [])}
    # Each library that the dynamic linker loads for it, at its start or later, and no other.
    command = [ROOT / "scripts/libraries", root / "usr/bin/sluice"]
    libraries = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert libraries == {name for name in named if ".so" in name}
    for name, (component, file) in named.items():
        assert file["hashes"][0]["content"] == sha256((root / name[1:]).read_bytes()), name
        if is_of_this_system and component["bom-ref"].startswith("deb:"):
            known = ["dpkg-query", "-W", "-f", "${Version}", component["name"]]
            assert component["version"] == subprocess.run(known, capture_output=True, text=True).stdout, name
            assert component["purl"].startswith(f"pkg:deb/debian/{component['name']}@")
    assert {"deb:libssl3", "deb:libcurl4", "deb:ca-certificates", "deb:tzdata", "swift:runtime"} <= components.keys()
    return program, components
