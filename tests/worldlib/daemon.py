"""The one process of a world: it owns every socket in its namespaces, serves, counts and answers the control socket."""

from __future__ import annotations

import asyncio
import os
import resource
import signal

from . import web
from .control import Control
from .counter import Counter
from .dns import Server
from .echo import Echo, KINDS
from .kernel import enter
from .topology import DNS_SERVERS, ECHO_PORTS, NAMESPACES, World, WorldError

OPEN_FILES = 16384


async def _serve(world: World, counting: bool, ready: int, lock: int) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    servers = [Server(world, *place) for place in DNS_SERVERS]
    for server in servers:
        await server.start()
    echo = Echo(world)
    for namespace in NAMESPACES:
        for protocol in KINDS:
            for port in ECHO_PORTS:
                await echo.listen(namespace, protocol, "*", port)
    web.start(world)
    counters = [Counter(world, namespace) for namespace in NAMESPACES]
    for counter in counters if counting else []:
        counter.start(loop)
    control = Control(world, counters, servers, echo)
    await control.start()
    os.write(ready, b"ready")  # fails when `up` died meanwhile: then nobody wants this world, and we end too
    os.close(ready)
    os.close(lock)
    await stop.wait()


def serve(world: World, counting: bool, ready: int, lock: int) -> int:
    """Run until SIGTERM. The lock keeps the next `up` waiting until this one is either ready or gone."""
    (world.state / "pid").write_text(f"{os.getpid()}\n")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, limit), limit))
    enter(world, "internet")  # so that not even a mistake of ours can use the real network
    try:
        asyncio.run(_serve(world, counting, ready, lock))
    except WorldError as error:
        os.write(ready, str(error).encode())
        return 1
    return 0
