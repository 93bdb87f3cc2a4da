"""TCP and UDP listeners that send back what they are sent."""

from __future__ import annotations

import asyncio
import socket
import struct

from .kernel import bound_socket
from .topology import World, WorldError

IP_PKTINFO, IPV6_RECVPKTINFO, IPV6_PKTINFO = 8, 49, 50
KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
WILDCARDS = ("0.0.0.0", "::")
CHUNK = 1 << 18


async def _echo_tcp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the peer has finished sending; then finish too, so that a half-closed connection still gets its bytes."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except (OSError, asyncio.CancelledError):
        pass
    finally:
        writer.close()


def _source(ancillary: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    """Answer from the address that was asked: a wildcard socket would take the first one of the interface."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.IPPROTO_IP, IP_PKTINFO):
            return [(level, kind, struct.pack("@I4s4s", 0, data[4:8], bytes(4)))]
        if (level, kind) == (socket.IPPROTO_IPV6, IPV6_PKTINFO) and data[0] != 0xFF:  # multicast is nobody's source
            link_local = data[0] == 0xFE and data[1] & 0xC0 == 0x80
            return [(level, kind, data[:16] + (data[16:20] if link_local else bytes(4)))]
    return []


def _echo_udp(sock: socket.socket) -> None:
    for _ in range(256):
        try:
            data, ancillary, _, peer = sock.recvmsg(65535, 128)
            sock.sendmsg([data], _source(ancillary), 0, peer)
        except BlockingIOError:
            return
        except OSError:
            continue  # the peer is gone, or an ICMP error came back for an earlier answer


class Echo:
    """All echo listeners of a world, to be opened and closed one by one."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._open: dict[tuple[str, str, str, int], asyncio.Server | socket.socket] = {}

    async def listen(self, namespace: str, protocol: str, address: str, port: int) -> None:
        """Address `*` means every one, IPv4 and IPv6. What is open already stays as it is."""
        self._world.path(namespace)  # refuses an unknown name
        if protocol not in KINDS:
            raise WorldError(f"cannot listen for {protocol!r}: use tcp or udp")
        if not 0 < port < 65536:
            raise WorldError(f"cannot listen on port {port}: use 1 to 65535")
        for one in WILDCARDS if address == "*" else (address,):
            key = (namespace, protocol, one, port)
            if key not in self._open:
                sock = bound_socket(self._world, namespace, KINDS[protocol], one, port)
                self._open[key] = await self._serve(sock)

    @staticmethod
    async def _serve(sock: socket.socket) -> asyncio.Server | socket.socket:
        if sock.type == socket.SOCK_STREAM:
            return await asyncio.start_server(_echo_tcp, sock=sock, limit=CHUNK, backlog=512)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        asyncio.get_running_loop().add_reader(sock, _echo_udp, sock)
        return sock

    def unlisten(self, namespace: str, protocol: str, address: str, port: int) -> None:
        """Free a port, for a program under test that wants to listen there itself."""
        for one in WILDCARDS if address == "*" else (address,):
            listener = self._open.pop((namespace, protocol, one, port), None)
            if listener is None:
                raise WorldError(f"nothing to close: no {protocol} echo on {one} port {port} in {namespace}")
            if isinstance(listener, socket.socket):
                asyncio.get_running_loop().remove_reader(listener)
            listener.close()
