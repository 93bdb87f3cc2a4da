"""Debian's kernels for tools/vm: found in the machine's own package sources, else by a side list, and unpacked."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

DAY = 24 * 3600
RENEW_AFTER = 7 * DAY  # old versions leave the package index in time
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class VmError(Exception):
    """What went wrong, as one line: attempt, object, reason, what to do."""


@dataclass(frozen=True)
class Kernel:
    """One to test on. Metapackages, not versions: a version is gone from the index some months later."""

    name: str
    version: str  # a regular expression for the version of the package
    metapackages: tuple[str, ...]
    suite: str  # of Debian, where it is if the machine's own sources have none


# The cloud flavour: small, and its modules are the same. See docs/kernels.md.
KERNELS = (
    Kernel("6.1", r"6\.1\.", ("linux-image-cloud-amd64",), "bookworm"),
    Kernel("6.12", r"6\.12\.", ("linux-image-6.12-cloud-amd64", "linux-image-cloud-amd64"), "trixie"),
    Kernel("newer", r"(6\.(1[89]|[2-9]\d)|[7-9]|\d\d)\.", ("linux-image-cloud-amd64",), "trixie-backports"),
)


@dataclass(frozen=True)
class Unpacked:
    kernel: Kernel
    release: str  # uname -r
    package: str  # version of the package
    vmlinuz: Path
    tree: Path  # has usr/lib/modules/RELEASE and a link lib -> usr/lib, as modprobe -d wants it


def run(command: list[str], what: str, cwd: Path | None = None, text: str | None = None) -> str:
    """Runs a tool to its end; its last words are the reason where it fails."""
    done = subprocess.run(command, input=text, cwd=cwd, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise VmError(f"cannot {what}: {command[0]} said: {' / '.join(said) or done.returncode}")
    return done.stdout


def os_release(key: str) -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith(f"{key}="):
            return line.split("=", 1)[1].strip('"')
    return ""


def _read_sources(codename: str) -> list[tuple[str, ...]]:
    found = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT) $(ORIGIN)",
                 "Created-By: Packages"], "read the package sources of this machine")
    lines = {tuple(line.split()[:3]) for line in found.splitlines() if line.split()[3:4] == ["Debian"]}
    return sorted(line for line in lines if line[1] == codename or line[1].startswith(f"{codename}-"))


def debian_sources() -> list[tuple[str, ...]]:
    """(address, suite, component) of each index of this machine's Debian release, from apt's own settings: no address
    is written down here."""
    codename = os_release("VERSION_CODENAME")
    found = _read_sources(codename)
    if not any(suite == codename for _, suite, _ in found):  # what a suite is stands in its index
        run(["apt-get", "update"], "read the package lists")
        found = _read_sources(codename)
    return found


def mirror() -> str:
    codename = os_release("VERSION_CODENAME")
    for address, suite, _ in debian_sources():
        if suite == codename:
            return address
    raise VmError(f"cannot tell where Debian's packages come from: apt has no source of the release '{codename}'; "
                  "run this on Debian 12 or 13")


def _side_list(folder: Path, suite: str) -> list[str]:
    """Options that make apt see one other suite only, with lists of its own: the system's stay as they are."""
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    source = folder / "side.list"
    source.write_text(f"deb [signed-by={KEYRING}] {mirror()} {suite} main\n")
    options = ["-o", f"Dir::Etc::sourcelist={source}", "-o", "Dir::Etc::sourceparts=-",
               "-o", f"Dir::State::lists={folder / 'lists'}",
               # Without these two apt would mix the system's cache into it.
               "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]
    run(["apt-get", *options, "-o", "APT::Sandbox::User=root", "update"], f"read the package list of {suite}")
    return options


def _field(stanza: str, name: str) -> str:
    found = re.search(rf"^{name}: (.*)$", stanza, re.MULTILINE)
    return found[1] if found else ""


def _look_up(options: list[str], package: str) -> str:
    done = subprocess.run(["apt-cache", *options, "show", "--no-all-versions", package],
                          capture_output=True, text=True, check=False)
    return done.stdout.split("\n\n")[0] if done.returncode == 0 else ""


def _parts(options: list[str], package: str) -> list[str]:
    """The metapackage's real packages. From 7.x on the image is an empty shell over three others."""
    found: list[str] = []
    waiting = [package]
    while waiting:
        for name in re.findall(r"linux-(?:image|binary|modules|base)-\d[^\s,|(]*", _field(_look_up(options, waiting.pop()), "Depends")):
            if name not in found:
                found.append(name)
                waiting.append(name)
    return found


def _find(kernel: Kernel, folder: Path) -> tuple[list[str], str, str]:
    """apt's options, the package and its version."""
    for sources in (lambda: [], lambda: _side_list(folder, kernel.suite)):
        options = sources()
        for package in kernel.metapackages:
            version = _field(_look_up(options, package), "Version")
            if re.match(kernel.version, version):
                return options, package, version
    raise VmError(f"no kernel {kernel.name}: neither this machine's package sources nor {kernel.suite} have one of "
                  f"{', '.join(kernel.metapackages)} in that version; run 'apt-get update'")


def _read(kernel: Kernel, folder: Path) -> Unpacked | None:
    stamp = folder / "version"
    if not stamp.exists():
        return None
    tree = folder / "tree"
    releases = sorted((tree / "usr/lib/modules").iterdir())
    return Unpacked(kernel, releases[0].name, stamp.read_text().strip(), folder / "vmlinuz", tree)


def _unpack(folder: Path, debs: list[Path]) -> None:
    raw, tree = folder / "raw", folder / "tree"
    for deb in debs:
        run(["dpkg", "-x", str(deb), str(raw)], f"unpack {deb.name}")
    images = [*raw.glob("boot/vmlinuz-*"), *raw.glob("usr/lib/modules/*/vmlinuz")]
    modules = [*raw.glob("usr/lib/modules/*/kernel"), *raw.glob("lib/modules/*/kernel")]
    if not images or not modules:
        raise VmError(f"the packages {', '.join(deb.name for deb in debs)} hold no kernel with modules: "
                      "their layout has changed, see tools/lib/vm_kernels.py")
    shutil.copy(images[0], folder / "vmlinuz")
    (tree / "usr/lib/modules").mkdir(parents=True)
    (tree / "lib").symlink_to("usr/lib")
    release = tree / "usr/lib/modules" / modules[0].parent.name
    release.mkdir()
    shutil.move(modules[0], release / "kernel")
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        found = [*raw.glob(f"usr/lib/modules/*/{name}"), *raw.glob(f"lib/modules/*/{name}")]
        if found:
            shutil.copy(found[0], release / name)
        else:
            (release / name).touch()
    run(["depmod", "-b", str(tree), release.name], f"list the modules of {release.name}")  # not shipped
    shutil.rmtree(raw)


def fetch(kernel: Kernel, cache: Path, renew: bool) -> Unpacked:
    """From the cache where it is young enough, else downloaded. A machine without a network goes on with an old one."""
    folder = cache / "kernels" / kernel.name
    known = _read(kernel, folder)
    stamp = folder / "version"
    if known and not renew and time.time() - stamp.stat().st_mtime < RENEW_AFTER:
        return known
    folder.mkdir(parents=True, exist_ok=True)
    try:
        options, package, version = _find(kernel, folder)
        if known and known.package == version:
            stamp.touch()
            return known
        fresh = folder / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        run(["apt-get", *options, "-o", "APT::Sandbox::User=root", "download", *_parts(options, package)],
            f"download kernel {kernel.name} ({version})", cwd=fresh)
        _unpack(fresh, sorted(fresh.glob("*.deb")))
    except VmError as problem:
        if known and not renew:
            print(f"vm: {problem}; going on with {known.package} from the cache", flush=True)
            return known
        raise
    for name in ("tree", "vmlinuz"):
        old = folder / name
        shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
        (fresh / name).rename(old)
    shutil.rmtree(fresh)
    stamp.write_text(version + "\n")
    read = _read(kernel, folder)
    assert read is not None
    return read
