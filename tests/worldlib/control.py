"""The control socket: one JSON line in, one JSON line out. docs/test-world.md describes it for programs in other languages."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any

from .counter import Counter, settle
from .dns import Server
from .echo import Echo
from .topology import NAMESPACES, World, WorldError

Answer = dict[str, Any]


class Control:
    """Answers requests inside the daemon. It runs in the event loop, so each answer is one consistent moment."""

    def __init__(self, world: World, counters: list[Counter], servers: list[Server], echo: Echo) -> None:
        self._world, self._counters, self._servers, self._echo = world, counters, servers, echo

    async def start(self) -> None:
        before = os.umask(0o177)  # root's, from the first moment on
        try:
            self._server = await asyncio.start_unix_server(self._serve, self._world.control)
        finally:
            os.umask(before)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError, asyncio.CancelledError):
            pass  # gone, or a line too long to be a request
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> Answer:
        try:
            request = json.loads(line)
            command = self._commands.get(request["cmd"])
            if command is None:
                raise WorldError(f"there is no command {request['cmd']!r}: use one of {', '.join(self._commands)}")
            return {"ok": True} | await command(self, request)
        except WorldError as error:
            return {"ok": False, "error": str(error)}
        except (KeyError, TypeError, ValueError) as error:
            return {"ok": False, "error": f"cannot read the request: {type(error).__name__} {error}"}

    async def _status(self, _: Answer) -> Answer:
        return {"world": self._world.name, "pid": os.getpid(), "counting": self._counters[0].on}

    async def _count(self, request: Answer) -> Answer:
        wanted = request.get("namespace")
        if wanted:
            self._world.path(wanted)  # refuses an unknown name
        if not self._counters[0].on:
            raise WorldError("cannot count: the counters are off; switch them on with `tests/world up`")
        settle()
        chosen = [counter for counter in self._counters if wanted in (None, counter.namespace)]
        for counter in chosen:
            counter.synchronize()
        rows = [row for counter in chosen for row in counter.report()]
        return {"counters": rows, "dropped": sum(counter.dropped for counter in chosen)}

    async def _reset(self, _: Answer) -> Answer:
        settle()
        for counter in self._counters:
            counter.reset()
        for server in self._servers:
            server.questions.clear()
        return {}

    async def _counting(self, request: Answer) -> Answer:
        loop = asyncio.get_running_loop()
        for counter in self._counters:
            if request["on"]:
                counter.start(loop)
            else:
                counter.stop(loop)
        return {}

    async def _dns(self, _: Answer) -> Answer:
        return {"questions": [row for server in self._servers for row in server.report()]}

    async def _listen(self, request: Answer) -> Answer:
        await self._echo.listen(request["namespace"], request["protocol"], request["address"], int(request["port"]))
        return {}

    async def _unlisten(self, request: Answer) -> Answer:
        self._echo.unlisten(request["namespace"], request["protocol"], request["address"], int(request["port"]))
        return {}

    _commands = {"status": _status, "count": _count, "reset": _reset, "counting": _counting, "dns": _dns,
                 "listen": _listen, "unlisten": _unlisten}


def ask(world: World, request: Answer) -> Answer:
    """Send one request to the world's daemon and return its answer."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(30)
            connection.connect(str(world.control))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as stream:
                answer: Answer = json.loads(stream.readline() or b'{"ok": false, "error": "it closed the connection"}')
    except (FileNotFoundError, ConnectionRefusedError):
        raise WorldError(f"cannot reach world {world.name}: it is not up; run `tests/world up`") from None
    except PermissionError:
        raise WorldError(f"cannot reach world {world.name}: {world.control} is root's; run as root") from None
    except OSError as error:
        raise WorldError(f"cannot ask world {world.name}: {error}; see {world.state}/daemon.log") from None
    if not answer["ok"]:
        raise WorldError(answer["error"])
    return answer


def is_up(world: World) -> bool:
    try:
        ask(world, {"cmd": "status"})
    except WorldError:
        return False
    return all(world.path(namespace).exists() for namespace in NAMESPACES)
