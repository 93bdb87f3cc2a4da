"""What a virtual machine of tools/vm is made of: a root tree of Debian packages, an initrd, and one image for each kernel."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from vm_kernels import Unpacked, VmError, debian_sources, os_release, run

TREE = Path(__file__).resolve().parents[2]
IMAGE_SIZE = "2G"  # sparse
# Loaded by the initrd to find its root, and by pinfold or the test world later: what cloud kernels do not have built in.
FOR_ROOT = ("virtio_pci", "virtio_blk", "ext4")
FOR_TESTS = ("overlay", "tun", "veth", "sch_ingress", "cls_bpf", "dummy", "macvlan", "bridge", "wireguard", "sctp", "loop", "fuse",
             "nf_tables", "vsock", "inet_diag")

INITRD_INIT = """#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for module in $(/bin/busybox cat /order); do /bin/busybox insmod /modules/$module; done
left=100
while [ ! -b /dev/vda ] && [ $left -gt 0 ]; do /bin/busybox usleep 50000; left=$((left - 1)); done
/bin/busybox mount -t ext4 -o rw,noatime /dev/vda /root || echo 'vm: no root file system'
exec /bin/busybox switch_root /root /suite/init
"""


@dataclass(frozen=True)
class Test:
    """One test as CTest knows it."""

    name: str
    label: str
    command: tuple[str, ...]
    seconds: int
    behind_others: bool


def packages(section: str) -> list[str]:
    """The names of one section of tools/packages."""
    names, inside = [], False
    for line in (TREE / "tools/packages").read_text().splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("["):
            inside = line == f"[{section}]"
        elif line and inside:
            names.append(line)
    return names


def tests(build: Path, labels: list[str]) -> list[Test]:
    shown = json.loads(run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], "list the tests of the build"))
    found = []
    for each in shown["tests"]:
        properties = {entry["name"]: entry["value"] for entry in each["properties"]}
        label = next(iter(properties.get("LABELS", [])), "")
        if label in labels and "command" in each:
            found.append(Test(each["name"], label, tuple(each["command"]), int(properties.get("TIMEOUT", 60)),
                              "DEPENDS" in properties))
    return sorted(found, key=lambda test: (labels.index(test.label), test.behind_others, test.name))


def _binaries(build: Path, wanted: list[Test]) -> list[Path]:
    found = {Path(test.command[0]) for test in wanted}
    found |= {path for folder in ("bin", "libexec") for path in (build / folder).iterdir() if path.is_file()}
    return sorted(path for path in found if path.is_relative_to(build))


def _library_packages(binaries: list[Path]) -> list[str]:
    """The packages of the shared libraries that the binaries name: the guest is of the same release as this machine."""
    paths: set[str] = set()
    for binary in binaries:
        listed = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False).stdout
        paths |= set(re.findall(r"=> (/\S+)", listed))
    found = set()
    for path in {str(Path(path).resolve()) for path in paths}:
        for shape in (path, path.removeprefix("/usr")):  # as dpkg knows it, before or after the merge of /usr
            done = subprocess.run(["dpkg", "-S", shape], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                found.add(done.stdout.split(":")[0])
                break
        else:
            raise VmError(f"the library {path} is of no package, so the virtual machine could not have it; "
                          "build with Debian's own libraries")
    return sorted(found)


def root_tar(cache: Path, build: Path, wanted: list[Test]) -> Path:
    """The root tree without kernel and tests: made once, and again when the packages change."""
    codename = os_release("VERSION_CODENAME")
    names = sorted({*packages("vm-guest"), *_library_packages(_binaries(build, wanted))})
    key = hashlib.sha256(" ".join([codename, *names]).encode()).hexdigest()[:12]
    tar = cache / f"root-{key}.tar"
    if tar.exists():
        return tar
    print(f"vm: making a root tree of {codename} with {len(names)} packages", flush=True)
    for old in cache.glob("root-*.tar"):
        old.unlink()
    lines = "".join(f"deb {address} {suite} {component}\n" for address, suite, component in debian_sources())
    part = tar.with_suffix(".part.tar")
    run(["mmdebstrap", "--quiet", "--variant=essential", "--format=tar", f"--include={','.join(names)}",
         "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
         "--dpkgopt=path-exclude=/usr/share/locale/*", codename, str(part), "-"],
        "make the root tree", text=lines)
    part.rename(tar)
    return tar


def _closure(kernel: Unpacked, modules: tuple[str, ...], must: bool) -> list[Path]:
    """Files of the modules and of what they need, in the order in which they must be loaded; built-in ones have none."""
    files: list[Path] = []
    for module in modules:
        shown = subprocess.run(["modprobe", "-d", str(kernel.tree), "-S", kernel.release, "--show-depends", module],
                               capture_output=True, text=True, check=False)
        if shown.returncode != 0 and must:
            raise VmError(f"kernel {kernel.release} has no module {module}: it cannot be booted this way")
        for line in shown.stdout.splitlines():
            if line.startswith("insmod ") and (path := Path(line.split()[1])) not in files:
                files.append(path)
    return files


def _copy_module(path: Path, to: Path) -> str:
    """Decompressed: neither busybox nor every kmod takes .ko.xz."""
    name = path.name.removesuffix(".xz")
    data = path.read_bytes()
    (to / name).write_bytes(lzma.decompress(data) if path.suffix == ".xz" else data)
    return name


def initrd(kernel: Unpacked, work: Path) -> Path:
    tree = work / "initrd"
    for folder in ("bin", "dev", "root", "modules"):
        (tree / folder).mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "/bin/busybox", tree / "bin/busybox")
    names = [_copy_module(path, tree / "modules") for path in _closure(kernel, FOR_ROOT, must=True)]
    (tree / "order").write_text(" ".join(names))
    (tree / "init").write_text(INITRD_INIT)
    (tree / "init").chmod(0o755)
    made = work / "initrd.gz"
    run(["sh", "-c", f"find . | cpio --quiet -o -H newc | gzip -1 >'{made}'"], "pack the initrd", cwd=tree)
    return made


def unpack_root(tar: Path, root: Path) -> None:
    """With root's owners and modes; one copy, and the images' trees are hard links to it."""
    root.mkdir()
    run(["tar", "-xf", str(tar), "-C", str(root), "--numeric-owner", "-p", "--exclude=./dev/*"], "unpack the root tree")
    for folder in ("dev", "proc", "sys", "run"):
        (root / folder).mkdir(exist_ok=True)


def add_suite(root: Path, build: Path, wanted: list[Test]) -> None:
    """The binaries, at the paths that were compiled into them, and the test world."""
    for binary in _binaries(build, wanted):
        to = root / binary.relative_to("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        run(["strip", "--strip-debug", "-o", str(to), str(binary)], f"copy {binary.name}")
    world = root / (TREE / "tests").relative_to("/")
    shutil.copytree(TREE / "tests/worldlib", world / "worldlib", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(TREE / "tests/world", world / "world")
    for script in {Path(test.command[0]) for test in wanted}:
        if script.is_relative_to(TREE / "tests"):
            (root / script.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(script, root / script.relative_to("/"))
    suite = root / "suite"
    (suite / "results").mkdir(parents=True)
    for name in ("init", "run"):
        shutil.copy(TREE / "tests/vm" / name, suite / name)
    shutil.copy(build / "libexec/vm-leave", suite / "leave")


def image(kernel: Unpacked, root: Path, work: Path, wanted: list[Test], scale: int, environment: dict[str, str]) -> Path:
    """An ext4 image: made without a mount, and its file system can be idmapped, as 9p and virtiofs cannot."""
    tree = work / "tree"
    run(["cp", "-al", str(root), str(tree)], "copy the root tree")
    modules = tree / "usr/lib/modules" / kernel.release
    modules.mkdir(parents=True)
    for path in _closure(kernel, FOR_TESTS, must=False):
        _copy_module(path, modules)
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        (modules / name).touch()
    run(["depmod", "-b", str(tree), kernel.release], f"list the modules of {kernel.release}")
    listed = [{"name": t.name, "label": t.label, "command": t.command, "seconds": t.seconds * scale} for t in wanted]
    (tree / "suite/tests.json").write_text(json.dumps({"environment": environment, "tests": listed}))
    made = work / "root.ext4"
    run(["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", str(tree), str(made), IMAGE_SIZE],
        "make the image of a virtual machine")
    shutil.rmtree(tree)
    return made
