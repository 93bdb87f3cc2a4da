"""Counts every packet that arrives in a namespace, SYNs included, so that "nothing reached the target" is a number."""

from __future__ import annotations

import asyncio
import ctypes
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TextIO

from .kernel import inside
from .topology import World

ETH_P_ALL, ETH_P_IP, ETH_P_ARP, ETH_P_IPV6 = 0x0003, 0x0800, 0x0806, 0x86DD
SOL_PACKET, PACKET_STATISTICS, PACKET_IGNORE_OUTGOING = 263, 6, 23
SO_ATTACH_FILTER, SO_RCVBUFFORCE = 26, 33
SNAP_LENGTH = 256  # headers only: payload lengths come from the IP header
BUFFER_BYTES = 256 << 20
DRAIN_SECONDS = 5.0
SETTLE_SECONDS = 0.2

IGMP = 2
ICMPV6_NOISE = {130, 131, 132, 133, 134, 135, 136, 137, 143}  # MLD, router and neighbour discovery, redirects
TRANSPORTS = {socket.IPPROTO_TCP: "tcp", socket.IPPROTO_UDP: "udp", socket.IPPROTO_ICMP: "icmp", socket.IPPROTO_ICMPV6: "icmp"}


class Arrival(NamedTuple):
    protocol: str
    address: bytes | str
    port: int
    payload: int
    syn: bool


def _transport(packet: bytes, protocol: int, offset: int, length: int, address: bytes, first: bool) -> Arrival | None:
    name = TRANSPORTS.get(protocol, "other")
    if protocol == IGMP or (first and protocol == socket.IPPROTO_ICMPV6 and packet[offset] in ICMPV6_NOISE):
        return None
    if not first or name == "other":  # a later fragment has no ports; its bytes count all the same
        return Arrival(name, address, 0, length, False)
    if name == "icmp":
        return Arrival(name, address, 0, max(0, length - 8), False)
    port = int.from_bytes(packet[offset + 2:offset + 4], "big")
    if name == "udp":
        return Arrival(name, address, port, max(0, length - 8), False)
    header, flags = (packet[offset + 12] >> 4) * 4, packet[offset + 13]
    return Arrival(name, address, port, max(0, length - header), flags & 0x12 == 0x02)


def _parse_ipv4(packet: bytes) -> Arrival | None:
    header = (packet[0] & 0x0F) * 4
    total, _, fragment, _, protocol = struct.unpack_from("!HHHBB", packet, 2)
    return _transport(packet, protocol, header, total - header, packet[16:20], fragment & 0x1FFF == 0)


def _parse_ipv6(packet: bytes) -> Arrival | None:
    length, following = struct.unpack_from("!HB", packet, 4)
    offset, first = 40, True
    while following in (0, 43, 44, 51, 60):  # hop-by-hop, routing, fragment, authentication, destination options
        if following == 44:
            first, size = int.from_bytes(packet[offset + 2:offset + 4], "big") >> 3 == 0, 8
        else:
            size = (packet[offset + 1] + 2) * 4 if following == 51 else (packet[offset + 1] + 1) * 8
        following, offset = packet[offset], offset + size
        if not first:
            break
    return _transport(packet, following, offset, length + 40 - offset, packet[24:40], first)


def parse(packet: bytes, ethertype: int) -> Arrival | None:
    """What a packet counts as; None for the noise of a quiet network. What cannot be read is counted too, as "other"."""
    try:
        if ethertype == ETH_P_IP:
            return _parse_ipv4(packet)
        if ethertype == ETH_P_IPV6:
            return _parse_ipv6(packet)
    except (IndexError, struct.error):
        pass
    return Arrival("other", f"ethertype {ethertype:#06x}", 0, len(packet), False)


def _filter(ignored_interface: int) -> list[tuple[int, int, int, int]]:
    """Classic BPF: no ARP, nothing from one interface, headers only."""
    return [
        (0x28, 0, 0, 0xFFFFF000),  # ldh protocol
        (0x15, 3, 0, ETH_P_ARP),
        (0x20, 0, 0, 0xFFFFF008),  # ld interface index
        (0x15, 1, 0, ignored_interface),
        (0x06, 0, 0, SNAP_LENGTH),
        (0x06, 0, 0, 0),
    ]


def _attach(sock: socket.socket, program: list[tuple[int, int, int, int]]) -> None:
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(buffer)))


def settle() -> None:
    """Let packets on their way arrive: veth and lo pass through the CPUs' backlogs, which a busy machine may empty late.

    Two empty looks in a row, for a packet is in no backlog while a router forwards it. Bounded: other traffic uses them too.
    """
    empty, end = 0, time.monotonic() + SETTLE_SECONDS
    while empty < 2 and time.monotonic() < end:
        lines = Path("/proc/net/softnet_stat").read_text(encoding="ascii").splitlines()
        waiting = sum(int(length, 16) for line in lines for length in line.split()[11:12])
        empty = 0 if waiting else empty + 1
        time.sleep(0.0001)


class Counter:
    """Arrivals in one namespace, by protocol, destination address and destination port."""

    def __init__(self, world: World, namespace: str) -> None:
        self._world, self.namespace = world, namespace
        self._counts: dict[tuple[str, bytes | str, int], list[int]] = {}
        self._dropped = 0
        self._socket: socket.socket | None = None
        with inside(world, namespace):  # an open file of /proc/net keeps showing the namespace it was opened in
            self._ipv4: TextIO = open("/proc/thread-self/net/fib_trie", encoding="ascii")
            self._ipv6: TextIO = open("/proc/thread-self/net/if_inet6", encoding="ascii")

    @property
    def on(self) -> bool:
        return self._socket is not None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Capture from now on. ETH_P_ALL sockets see a packet before IP does: what was delivered has been captured."""
        if self._socket:
            return
        with inside(self._world, self.namespace):
            # What comes back through the router's own uplink was counted at its sender and counts again where it ends.
            ignored = socket.if_nametoindex("up0") if self.namespace == "lan" else 0
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
            _attach(sock, _filter(ignored))
            sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
            sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            sock.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                sock.recv(1)  # what came in before the filter was there
        self._socket = sock
        loop.add_reader(sock, self._drain, 1024)

    def stop(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._socket:
            loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def _drain(self, limit: int) -> bool:
        """Read what has been captured; true when the socket is empty."""
        assert self._socket
        for _ in range(limit):
            try:
                packet, where = self._socket.recvfrom(SNAP_LENGTH)
            except BlockingIOError:
                return True
            except OSError:
                continue  # ENETDOWN: an interface went away; it is reported once
            if arrival := parse(packet, where[1]):
                key = (arrival.protocol, arrival.address, arrival.port)
                count = self._counts.setdefault(key, [0, 0, 0])
                count[0] += 1
                count[1] += arrival.payload
                count[2] += arrival.syn
        return False

    def synchronize(self) -> None:
        """Take in all that was captured before this call. Bounded in time, so that a bulk transfer cannot hold it up."""
        end = time.monotonic() + DRAIN_SECONDS
        while self._socket and not self._drain(4096) and time.monotonic() < end:
            pass
        if self._socket:
            statistics = self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)  # reading resets them
            self._dropped += struct.unpack("=II", statistics)[1]

    def reset(self) -> None:
        self.synchronize()
        self._counts.clear()
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """Packets lost because nobody read in time: unless zero, the counts are too low."""
        return self._dropped

    def _owned(self) -> set[bytes]:
        """Addresses of the namespace at this moment, those added by a test too."""
        self._ipv4.seek(0)
        self._ipv6.seek(0)
        owned, last = set(), ""
        for line in self._ipv4:
            words = line.split()
            if words[0] in ("|--", "+--"):
                last = words[1]
            elif words[0] == "/32" and words[-1] == "LOCAL":
                owned.add(socket.inet_aton(last))
        return owned | {bytes.fromhex(line.split()[0]) for line in self._ipv6}

    def report(self) -> Iterator[dict[str, object]]:
        owned = self._owned()
        for (protocol, address, port), (packets, size, syns) in self._counts.items():
            own, text = False, address
            if isinstance(address, bytes):
                own = address in owned or (len(address) == 4 and address[0] == 127)
                text = socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address)
            yield {"namespace": self.namespace, "protocol": protocol, "address": text, "port": port,
                   "packets": packets, "bytes": size, "syns": syns, "owned": own}
