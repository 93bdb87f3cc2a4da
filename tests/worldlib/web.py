"""Web servers of the world: a site in the internet with git over HTTP, the router's page, the NAS's files."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from .kernel import ENVIRONMENT, bound_socket
from .repository import GIT_ENVIRONMENT
from .topology import WEB_INTERNET, WEB_NAS, WEB_ROUTER, World

BLOCK = bytes(range(256)) * 1024  # byte i of /bytes/N is i modulo 256
LINGER_SECONDS = 2.0


class Site(BaseHTTPRequestHandler):
    """A server of static files; what has pages of its own overrides `page`."""

    protocol_version = "HTTP/1.1"
    timeout = 120
    root: Path

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Not logged: the log lies in memory and a bench makes many requests."""

    def reply(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        bodyless = status < 200 or status in (204, 304)
        if not bodyless:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not bodyless and self.command != "HEAD":
            self.wfile.write(body)

    def read_body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", "").lower():
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(chunks)

    def static(self, path: str) -> None:
        file = (self.root / unquote(path).lstrip("/")).resolve()
        if file.is_relative_to(self.root.resolve()) and file.is_file():
            self.reply(200, file.read_bytes(), "application/octet-stream")
        else:
            self.reply(404, f"no {path} here\n".encode())

    def page(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
        if path == "/":
            names = sorted(file.name for file in self.root.iterdir())
            self.reply(200, "".join(f"{line}\n" for line in ["nas file server", *names]).encode())
        else:
            self.static(path)

    def serve(self) -> None:
        try:
            parts = urlsplit(self.path)
            body = self.read_body()  # always, or the next request on this connection would start in the middle of it
            self.page(parts.path, parse_qs(parts.query), body)
        except ValueError as error:
            self.close_connection = True
            self.reply(400, f"bad request: {error}\n".encode())

    do_GET = do_HEAD = do_POST = do_PUT = serve


class RouterSite(Site):
    def page(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
        self.reply(200 if path == "/" else 404, b"router admin\n" if path == "/" else b"not found\n")


class InternetSite(Site):
    """Pages with known content and known behaviour, files of <state>/www, and git.example.com's repository."""

    git_root: Path

    def page(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
        if match := re.fullmatch(r"/bytes/(\d+)", path):
            self.stream(int(match[1]))
        elif match := re.fullmatch(r"/status/([2-5]\d\d)", path):
            self.reply(int(match[1]), f"status {match[1]}\n".encode())
        elif path.startswith("/demo.git/"):
            self.git(path, body)
        elif path == "/":
            self.reply(200, b"hello from the internet\n")
        elif path == "/slow":
            time.sleep(int(query.get("ms", ["1000"])[0]) / 1000)
            self.reply(200, b"slow\n")
        elif path == "/echo":
            self.reply(200, body, self.headers.get("Content-Type", "application/octet-stream"))
        elif path == "/when":
            self.reply(200, json.dumps({"unix_milliseconds": time.time_ns() // 1_000_000}).encode(), "application/json")
        elif path == "/peer":
            peer = {"address": self.client_address[0], "port": self.client_address[1]}
            self.reply(200, json.dumps(peer).encode(), "application/json")
        else:
            self.static(path)

    def stream(self, size: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(size))
        self.end_headers()
        while size > 0 and self.command != "HEAD":
            self.wfile.write(BLOCK[:size] if size < len(BLOCK) else BLOCK)
            size -= len(BLOCK)

    def git(self, path: str, body: bytes) -> None:
        """git-http-backend is a CGI program: header lines, an empty line, the body."""
        variables = {
            "GIT_PROJECT_ROOT": str(self.git_root), "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": urlsplit(self.path).query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_ADDR": self.client_address[0],
        }
        done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, check=False, cwd="/",
                              env=ENVIRONMENT | GIT_ENVIRONMENT | variables)
        head, separator, content = done.stdout.partition(b"\r\n\r\n")
        if not separator:
            self.log_error("git http-backend: %s", done.stderr.decode(errors="replace"))
            return self.reply(500, b"git http-backend failed\n")
        fields = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            if name.lower() != "content-length":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _finish(connection: socket.socket) -> None:
    """Close without a reset: say that nothing more comes, then take what the peer still sends for a moment."""
    connection.shutdown(socket.SHUT_WR)
    connection.settimeout(LINGER_SECONDS)
    end = time.monotonic() + LINGER_SECONDS
    while connection.recv(65536) and time.monotonic() < end:
        pass


def _serve(connection: socket.socket, peer: tuple[str, int], site: type[Site], tls: ssl.SSLContext | None) -> None:
    try:
        connection.settimeout(Site.timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            connection = tls.wrap_socket(connection, server_side=True)
        site(connection, peer, None)  # type: ignore[arg-type]  # it never asks for its server
        _finish(connection)
    except OSError:
        pass  # the peer is gone, or does not trust our CA: its business
    finally:
        connection.close()


def _listen(world: World, namespace: str, address: str, port: int, site: type[Site], tls: ssl.SSLContext | None) -> None:
    """Accept in the event loop, serve each connection in a thread: TLS and bulk bodies may block there."""
    listener = bound_socket(world, namespace, socket.SOCK_STREAM, address, port)

    def accept() -> None:
        try:
            connection, peer = listener.accept()
        except OSError:
            return  # it left before we came
        threading.Thread(target=_serve, args=(connection, peer, site, tls), daemon=True).start()

    asyncio.get_running_loop().add_reader(listener, accept)


def start(world: World) -> None:
    Site.root, InternetSite.root, InternetSite.git_root = world.state / "nas", world.state / "www", world.state / "git"
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(world.state / "server.crt", world.state / "server.key")
    tls.set_alpn_protocols(["http/1.1"])
    for address in WEB_INTERNET:
        _listen(world, "internet", address, 80, InternetSite, None)
        _listen(world, "internet", address, 443, InternetSite, tls)
    for address in WEB_ROUTER:
        _listen(world, "lan", address, 80, RouterSite, None)
    for address in WEB_NAS:
        _listen(world, "lan", address, 80, Site, None)
