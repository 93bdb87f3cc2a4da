"""Up and down: everything a world needs is made here, and everything is removed again, also what a crash left behind."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import repository
from .control import ask, is_up
from .kernel import ENVIRONMENT, create_namespaces, processes_inside, remove_namespaces, run
from .topology import ADDRESSES, NAMESPACES, STATE_ROOT, TLS_NAMES, WEB_INTERNET, World, WorldError

TOOLS = {"ip": "iproute2", "git": "git", "openssl": "openssl"}
SCALE = max(1, int(os.environ.get("PINFOLD_TIME_SCALE") or 1))  # a virtual machine without KVM is slow
START_SECONDS = 30 * SCALE
STOP_SECONDS = 5 * SCALE


def require_root() -> None:
    if os.geteuid() != 0:
        raise WorldError("cannot make or enter network namespaces: this needs root; run it with sudo")


def _require_tools() -> None:
    for tool, package in TOOLS.items():
        if not shutil.which(tool, path=ENVIRONMENT["PATH"]):
            raise WorldError(f"cannot make a world without `{tool}`; install the package {package}")


@contextmanager
def _lock() -> Iterator[int]:
    """One `up` or `down` at a time. The lock is the directory itself, so nothing is left when the last world goes."""
    while True:
        STATE_ROOT.mkdir(mode=0o755, exist_ok=True)
        fd = os.open(STATE_ROOT, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(fd, fcntl.LOCK_EX)
        if STATE_ROOT.exists() and os.path.samestat(os.fstat(fd), os.stat(STATE_ROOT)):
            break
        os.close(fd)  # it was removed while we waited
    try:
        yield fd
    finally:
        try:
            STATE_ROOT.rmdir()
        except OSError:
            pass  # another world lives in it, or this one
        os.close(fd)


def _create_certificates(state: Path) -> None:
    """A CA that exists only for this world, and one certificate for all names of example.com."""
    names = [f"DNS:{name}" for name in TLS_NAMES] + [f"IP:{address}" for address in WEB_INTERNET]
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
           "-config", "/dev/stdin"]
    configuration = "[req]\ndistinguished_name=dn\n[dn]\n"
    ca, key = str(state / "ca.crt"), str(state / "ca.key")
    run([*new, "-keyout", key, "-out", ca, "-subj", "/CN=pinfold test world CA",
         "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
         "-addext", "subjectKeyIdentifier=hash"], "create the test CA", configuration)
    run([*new, "-CA", ca, "-CAkey", key, "-keyout", str(state / "server.key"), "-out", str(state / "server.crt"),
         "-subj", "/CN=www.example.com", "-addext", "subjectAltName=" + ",".join(names),
         "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=serverAuth",
         "-addext", "authorityKeyIdentifier=keyid"], "create the server's certificate", configuration)


def _create_files(state: Path) -> None:
    state.mkdir(mode=0o755)
    for name in ("www", "nas", "git"):
        (state / name).mkdir()
    (state / "www" / "hello.txt").write_text("a file of the internet\n")
    (state / "nas" / "holiday.txt").write_text("a file of the NAS\n")
    (state / "resolv.conf").write_text("nameserver 192.168.1.1\n")
    (state / "resolv-stub.conf").write_text("nameserver 127.0.0.53\n")
    _create_certificates(state)
    repository.create(state / "git")


def _start_daemon(world: World, script: str, counting: bool, lock: int) -> None:
    ours, theirs = os.pipe()
    with open(world.state / "daemon.log", "wb") as log:
        daemon = subprocess.Popen(
            [sys.executable, "-B", script, "serve", world.name, "count" if counting else "no-count", str(theirs), str(lock)],
            env=ENVIRONMENT, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(theirs, lock),
            start_new_session=True)
    os.close(theirs)
    readable, _, _ = select.select([ours], [], [], START_SECONDS)
    said = os.read(ours, 4096).decode() if readable else f"nothing for {START_SECONDS} s"
    os.close(ours)
    if said != "ready":
        lines = (world.state / "daemon.log").read_text(errors="replace").splitlines()
        raise WorldError(f"cannot start the daemon of world {world.name}: {said or (lines or ['it ended'])[-1]}")
    daemon.returncode = 0  # it is meant to outlive us: no warning about a child that still runs


def _daemon_pid(world: World) -> int | None:
    """The daemon's pid, if the process of that number is really ours: a pid may have been given to another since."""
    try:
        pid = int((world.state / "pid").read_text())
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if [b"serve", world.name.encode()] == arguments[3:5] else None


def _stop_daemon(world: World) -> None:
    pid = _daemon_pid(world)
    if pid is None:
        return
    handle = os.pidfd_open(pid)
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            os.killpg(pid, number)  # its group: git http-backend too
            if select.select([handle], [], [], STOP_SECONDS)[0]:
                return
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def _remove(world: World) -> None:
    _stop_daemon(world)
    remove_namespaces(world)
    shutil.rmtree(world.state, ignore_errors=True)


def up(world: World, script: str, counting: bool) -> float:
    """Make the world unless it is there; returns the seconds it took. What a crashed `up` left is removed first."""
    require_root()
    _require_tools()
    begin = time.monotonic()
    with _lock() as lock:
        if is_up(world):
            ask(world, {"cmd": "counting", "on": counting})
            return time.monotonic() - begin
        _remove(world)
        try:
            create_namespaces(world)
            _create_files(world.state)
            _start_daemon(world, script, counting, lock)
        except BaseException:
            _remove(world)
            raise
    return time.monotonic() - begin


def down(world: World) -> list[int]:
    """Remove the world, in whatever state it is. Returns processes of others that still run inside and keep their network."""
    require_root()
    with _lock():
        _stop_daemon(world)
        others = processes_inside(world)
        _remove(world)
    return others


def table(world: World) -> str:
    rows = []
    for namespace in NAMESPACES:
        for interface, addresses in ADDRESSES[namespace].items():
            for six in (False, True):
                shown = "  ".join(address for address in addresses if (":" in address) == six)
                rows.append(f"{namespace:9} {interface:6} {shown}")
    return "\n".join([f"world {world.name}: {world.state}, namespaces /run/netns/{world.name}-*", *rows])
