#!/usr/bin/env python3
"""Validates packaging/kubernetes/headlong.yaml: each object against the schemas of Kubernetes, and
what no schema says: references between the objects, memory, the configuration, and what must equal
the image. Installs the schemas into target/tools if they are missing.

    scripts/kubernetes.py [HEADLONG]     # the program; default: target/debug/headlong
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tools/kubernetes"
VERSIONS = ["1.25", "1.31", "1.37"]
GI = 1 << 30

if not (TOOLS / "kubernetes_validate").is_dir():
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--root-user-action=ignore", "--target", TOOLS, "kubernetes-validate==1.37.0"], check=True)
sys.path.insert(0, str(TOOLS))
import kubernetes_validate  # noqa: E402
import yaml  # noqa: E402

objects = list(yaml.safe_load_all((ROOT / "packaging/kubernetes/headlong.yaml").read_text()))
for version in VERSIONS:
    for entry in objects:
        kubernetes_validate.validate(entry, version, strict=True)

named = {(entry["kind"], entry["metadata"]["name"]): entry for entry in objects}
pods = named["StatefulSet", "headlong"]["spec"]
pod = pods["template"]["spec"]
labels = pods["template"]["metadata"]["labels"]
(container,) = pod["containers"]
ports = {port["name"]: port["containerPort"] for port in container["ports"]}
config = named["ConfigMap", pod["volumes"][0]["configMap"]["name"]]["data"]["headlong.toml"]
settings = tomllib.loads(config)
mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
claims = {claim["metadata"]["name"]: claim["spec"] for claim in pods["volumeClaimTemplates"]}

assert ("Service", pods["serviceName"]) in named
for (kind, name), entry in named.items():
    if kind == "Service":
        assert entry["spec"]["selector"] == labels, name
        assert all(port["targetPort"] in ports for port in entry["spec"]["ports"]), name
    if kind in ("PodDisruptionBudget", "StatefulSet"):
        assert entry["spec"]["selector"]["matchLabels"] == labels, name
    if kind == "NetworkPolicy":
        assert entry["spec"]["podSelector"]["matchLabels"] == labels, name
        assert all(port["port"] in ports for rule in entry["spec"]["ingress"] for port in rule["ports"]), name
    if kind == "PersistentVolume":
        # A claim is never bound to a smaller volume.
        (claim,) = [claim for claim in claims.values() if claim["storageClassName"] == entry["spec"]["storageClassName"]]
        assert entry["spec"]["capacity"] == claim["resources"]["requests"], name
for claim in claims.values():
    assert ("StorageClass", claim["storageClassName"]) in named
for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
    assert container[probe]["httpGet"]["port"] in ports, probe
assert settings["listen"][0].endswith(f":{ports['http']}") and settings["admin"].endswith(f":{ports['admin']}")
assert mounts[settings["roots"][0]]["readOnly"] and not mounts[settings["state"]].get("readOnly")
assert set(claims) | {"config"} == {mount["name"] for mount in mounts.values()}
memory = int(re.fullmatch(r"(\d+)Gi", container["resources"]["limits"]["memory"])[1]) * GI
process = int(re.fullmatch(r"(\d+)GiB", settings["process_memory"])[1]) * GI
assert process * 10 <= memory * 9, "process_memory is more than nine tenths of the limit"

image = (ROOT / "scripts/image.sh").read_text()
assert f"--user {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']} " in image
version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
assert container["image"] == f"localhost/headlong:{version}"

program = sys.argv[1] if len(sys.argv) > 1 else TOOLS.parent.parent / "debug/headlong"
with tempfile.TemporaryDirectory() as folder:
    for path in [settings["roots"][0], settings["state"]]:
        os.mkdir(f"{folder}/{Path(path).name}")
        config = config.replace(path, f"{folder}/{Path(path).name}")
    file = Path(folder, "headlong.toml")
    file.write_text(config)
    subprocess.run([program, "check", "--quiet", "--config", file], check=True)
print(f"kubernetes: {len(objects)} objects are valid")
