"""Namespaces and sockets: the only file that asks the kernel to change a network."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .topology import ADDRESSES, LINKS, NAMESPACES, ROUTES, SYSCTLS, SYSCTLS_EVERYWHERE, World, WorldError

# What children see. Nothing of the caller's environment, least of all a token, reaches a process of the world.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _setns(fd: int, what: str) -> None:
    if _libc.setns(fd, CLONE_NEWNET) != 0:  # os.setns exists from Python 3.12 on; Debian 12 has 3.11
        raise WorldError(f"cannot enter {what}: {os.strerror(ctypes.get_errno())}")


def enter(world: World, namespace: str) -> None:
    """Move the calling thread into a namespace. Only the network: /sys/fs/cgroup and bpffs stay as they are."""
    path = world.path(namespace)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise WorldError(f"cannot enter {path}: it does not exist; run `tests/world up`") from None
    try:
        _setns(fd, str(path))
    finally:
        os.close(fd)


@contextmanager
def inside(world: World, namespace: str) -> Iterator[None]:
    """Run a block in a namespace. A socket made there stays there, which is how one process serves all four."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(world, namespace)
        try:
            yield
        finally:
            _setns(before, "the namespace before")
    finally:
        os.close(before)


def bound_socket(world: World, namespace: str, kind: socket.SocketKind, address: str, port: int) -> socket.socket:
    """A non-blocking socket bound inside a namespace; a TCP one listens.

    SO_REUSEPORT lets a DNS server at one address stand beside the wildcard echo on port 53: the kernel prefers the former.
    """
    with inside(world, namespace):
        try:
            family, _, _, _, where = socket.getaddrinfo(address, port, type=kind, flags=socket.AI_NUMERICHOST)[0]
            sock = socket.socket(family, kind)
        except OSError as error:
            raise WorldError(f"cannot listen on {address} in {namespace}: {error.strerror}; give a numeric address") from None
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(where)
            if kind == socket.SOCK_STREAM:
                sock.listen(512)
        except OSError as error:
            sock.close()
            raise WorldError(f"cannot listen on {address} port {port} in {namespace}: {error.strerror}") from None
        return sock


def run(command: list[str], what: str, text: str = "", extra: dict[str, str] | None = None) -> None:
    """Run a tool to its end with a minimal environment; its words are the reason if it fails."""
    done = subprocess.run(command, input=text, env=ENVIRONMENT | (extra or {}), cwd="/", capture_output=True, text=True,
                          encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())
        raise WorldError(f"cannot {what}: {command[0]} said: {said[-400:]}")


def _batch(arguments: list[str], lines: Iterable[str], what: str) -> None:
    run(["ip", *arguments, "-batch", "-"], what, "".join(line + "\n" for line in lines))


def _write_sysctls(world: World, namespace: str) -> None:
    with inside(world, namespace):  # /proc/sys/net shows the namespace of the thread that opens it
        for name, value in (SYSCTLS_EVERYWHERE | SYSCTLS[namespace]).items():
            try:
                Path("/proc/sys/net", name).write_text(value)
            except OSError as error:
                raise WorldError(f"cannot set net/{name} in {namespace}: {error.strerror}") from None


def _links_from(world: World, namespace: str) -> Iterator[str]:
    # The two ends' numbers differ: where they are equal, linkwatch takes the device for a real one and lets it wait a second.
    for number, (near, interface, far, far_interface) in enumerate(LINKS, 101):
        if near == namespace:
            yield f"link add {interface} index {number} type veth peer name {far_interface} netns {world.kernel_name(far)}"


def _configuration(namespace: str) -> Iterator[str]:
    yield "link set lo up"
    for interface, addresses in ADDRESSES[namespace].items():
        for address in addresses:
            yield f"addr add {address} dev {interface}" + (" nodad" if ":" in address else "")
        yield f"link set {interface} up"
    for route in ROUTES[namespace]:
        yield f"route add {route}"


def _takes_multicast(world: World, namespace: str) -> set[str]:
    with inside(world, namespace):
        routes = Path("/proc/thread-self/net/ipv6_route").read_text().splitlines()
    return {route.split()[-1] for route in routes if route.startswith("ff" + 30 * "0" + " 08 ")}


def _wait_for_ipv6(world: World) -> None:
    """Until every interface has its multicast route: the kernel adds it some time after "up", and drops neighbour
    solicitations until then. Whoever asked waits for a second."""
    end = time.monotonic() + 10
    for namespace in NAMESPACES:
        while missing := ADDRESSES[namespace].keys() - _takes_multicast(world, namespace) - {"lo"}:
            if time.monotonic() > end:
                raise WorldError(f"{', '.join(sorted(missing))} of {namespace}: no IPv6 10 s after being set up")
            time.sleep(0.005)


def create_namespaces(world: World) -> None:
    """Make the four namespaces, their links, addresses and routes; a handful of `ip` processes in all."""
    _batch([], (f"netns add {world.kernel_name(namespace)}" for namespace in NAMESPACES), "create the namespaces")
    for namespace in NAMESPACES:
        _write_sysctls(world, namespace)
    for namespace in NAMESPACES:
        if links := list(_links_from(world, namespace)):
            _batch(["-n", world.kernel_name(namespace)], links, f"create the links of {namespace}")
    for namespace in NAMESPACES:
        _batch(["-n", world.kernel_name(namespace)], _configuration(namespace), f"configure {namespace}")
    _wait_for_ipv6(world)


def remove_namespaces(world: World) -> None:
    present = [namespace for namespace in NAMESPACES if world.path(namespace).exists()]
    if present:
        _batch(["-force"], (f"netns del {world.kernel_name(namespace)}" for namespace in present), "remove the namespaces")


def processes_inside(world: World) -> list[int]:
    """Processes whose network is one of the world's: found by inode, as `ip netns pids` does."""
    ours = {world.path(namespace).stat().st_ino for namespace in NAMESPACES if world.path(namespace).exists()}
    found = []
    for entry in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            if entry.stat().st_ino in ours:
                found.append(int(entry.parts[2]))
        except OSError:
            continue  # it ended meanwhile
    return found
