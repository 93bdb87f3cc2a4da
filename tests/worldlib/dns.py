"""Small DNS servers over UDP and TCP that count what they are asked."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter

from .kernel import bound_socket
from .topology import World, Zone

TYPE_A, TYPE_AAAA, TYPE_ANY = 1, 28, 255
TYPE_NAMES = {TYPE_A: "A", TYPE_AAAA: "AAAA", TYPE_ANY: "ANY"}
TTL_SECONDS = 60
FORMAT_ERROR, NO_SUCH_NAME = 1, 3


def _question(message: bytes) -> tuple[str, int, bytes]:
    """Name, type and the bytes of the first question."""
    labels, offset = [], 12
    while length := message[offset]:
        if length > 63:
            raise ValueError("a compressed name in a question")
        labels.append(message[offset + 1:offset + 1 + length].decode("ascii", "replace").lower())
        offset += 1 + length
    (kind,) = struct.unpack_from("!H", message, offset + 1)
    return ".".join(labels), kind, message[12:offset + 5]


def _record(address: str) -> tuple[int, bytes]:
    if ":" in address:
        return TYPE_AAAA, socket.inet_pton(socket.AF_INET6, address)
    return TYPE_A, socket.inet_aton(address)


def _reply(message: bytes, question: bytes, code: int, answers: list[tuple[int, bytes]]) -> bytes:
    (identifier, flags) = struct.unpack_from("!HH", message)
    flags = 0x8480 | (flags & 0x0100) | code  # an authoritative answer; recursion is available
    head = struct.pack("!6H", identifier, flags, 1 if question else 0, len(answers), 0, 0)
    body = b"".join(struct.pack("!HHHIH", 0xC00C, kind, 1, TTL_SECONDS, len(data)) + data for kind, data in answers)
    return head + question + body


class Server:
    """One server at one address, with its own zone."""

    def __init__(self, world: World, namespace: str, address: str, zone: Zone) -> None:
        self._world, self._namespace, self._address, self._zone = world, namespace, address, zone
        self.questions: Counter[tuple[str, str]] = Counter()

    async def start(self) -> None:
        udp = bound_socket(self._world, self._namespace, socket.SOCK_DGRAM, self._address, 53)
        asyncio.get_running_loop().add_reader(udp, self._serve_udp, udp)
        tcp = bound_socket(self._world, self._namespace, socket.SOCK_STREAM, self._address, 53)
        self._tcp = await asyncio.start_server(self._serve_tcp, sock=tcp)

    def _answer(self, message: bytes) -> bytes | None:
        """None for what is no query: such a message gets no answer, so two servers cannot answer each other for ever."""
        if len(message) < 12 or message[2] & 0x80:
            return None
        try:
            name, kind, question = _question(message)
        except (IndexError, ValueError, struct.error):
            return _reply(message, b"", FORMAT_ERROR, [])
        self.questions[name, TYPE_NAMES.get(kind, str(kind))] += 1
        if name not in self._zone:
            return _reply(message, question, NO_SUCH_NAME, [])
        records = map(_record, self._zone[name])
        return _reply(message, question, 0, [record for record in records if kind in (record[0], TYPE_ANY)])

    def _serve_udp(self, sock: socket.socket) -> None:
        try:
            message, peer = sock.recvfrom(65535)
            if reply := self._answer(message):
                sock.sendto(reply, peer)
        except OSError:
            pass  # the peer is gone

    async def _serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(2), "big")
                reply = self._answer(await reader.readexactly(length))
                if reply is None:
                    break
                writer.write(len(reply).to_bytes(2, "big") + reply)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def report(self) -> list[dict[str, object]]:
        return [{"server": self._address, "name": name, "type": kind, "count": count}
                for (name, kind), count in sorted(self.questions.items())]
