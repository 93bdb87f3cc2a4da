"""The demo's rows: what a sealed session does and tries, what must come of it, and at which target bytes are counted."""

import socket
from dataclasses import dataclass, field
from typing import Any

Act = dict[str, Any]

INTERNET = "93.184.216.34"
INTERNET6 = "2606:2800:220:1::34"


@dataclass(frozen=True)
class Row:
    text: str
    act: Act
    expected: str  # "works", or how it is refused
    holds: str = ""  # for "works": what the answer must hold
    target: str = ""  # address at which bytes are counted; "" = none is meant
    also: str = ""  # the other address of the target's name: which of them is taken is a matter of the client's release
    asks_dns: bool = False  # a refused act that first asks a resolver in the internet
    compare: bool = True  # also tried on the machine without a cage, so that zero bytes mean something
    twin: Act | None = None  # what is tried there, where it is not the same act
    errors: tuple[str, ...] = field(default=("EACCES",))


def works(text: str, act: Act, holds: str, target: str = "", also: str = "") -> Row:
    return Row(text, act, "works", holds, target, also, compare=False)


def refused(text: str, act: Act, target: str = "", **more: Any) -> Row:
    return Row(text, act, "refused", target=target or act.get("address", ""), **more)


def tcp(address: str, port: int) -> Act:
    return {"act": "tcp", "address": address, "port": port}


def udp(address: str, port: int, **more: Any) -> Act:
    return {"act": "udp", "address": address, "port": port, **more}


def run(*argv: str) -> Act:
    return {"act": "run", "argv": list(argv)}


def work(project: str) -> list[Row]:
    """What the session is for."""
    return [
        works("is root in its own world", {"act": "identity"}, "uid 0"),
        works("asks DNS at 1.1.1.1", {"act": "resolve", "name": "www.example.com"}, INTERNET, "1.1.1.1"),
        works("clones from git.example.com", run("git", "clone", "-q", "http://git.example.com/demo.git", f"{project}/clone"),
              "exit 0", INTERNET, INTERNET6),
        works("downloads a file", run("curl", "-sSf", "-o", "/dev/null", "-w", "%{size_download} bytes",
                                      "http://www.example.com/bytes/1000000"), "1000000 bytes", INTERNET, INTERNET6),
        works("downloads over TLS", run("curl", "-sSf", "--cacert", f"{project}/ca.crt", "https://www.example.com/"),
              "hello from the internet", INTERNET, INTERNET6),
        works("installs a package into its own root",
              run("apt-get", "install", "-y", "-q", f"{project}/pinfold-greeting.deb"), "exit 0"),
        works("runs what it installed", run("pinfold-greeting"), "hello from a package"),
        works("compiles the clone", run("sh", "-c", f"cd {project}/clone && gcc -o hello hello.c && ./hello"), "hello, world"),
        works("runs node", run("node", "-e", "console.log(6 * 7)"), "42"),
        works("commits to the project",
              run("sh", "-c", f"cd {project} && git -c user.name=x -c user.email=x@example.com commit -q --allow-empty "
                  "-m inside && git log -1 --format=%s"), "inside"),
        works("speaks TCP to the internet", tcp(INTERNET, 9000), "16 bytes came back", INTERNET),
        works("speaks UDP to the internet", udp("9.9.9.9", 9000), "16 bytes came back", "9.9.9.9"),
        works("speaks IPv6 to the internet", tcp(INTERNET6, 9000), "16 bytes came back", INTERNET6),
        works("has no password of the machine", run("sh", "-c", "grep -c '[$]' /etc/shadow"), "exit 1: 0"),
        works("pings the internet", run("ping", "-n", "-c", "1", "-W", "3", INTERNET), "exit 0", INTERNET),
    ]


def attempts(secret: str) -> list[Row]:
    """What it tries and must not reach; `secret` is a file of the owner's beside the project."""
    targets = [
        ("the LAN", "192.168.1.10", 9000),
        ("the LAN's router", "192.168.1.1", 8080),
        ("the LAN by a ULA", "fdaa:bbbb:cccc:1::10", 9000),
        ("the LAN by its global IPv6", "2a01:4f8:77:1::10", 9000),
        ("the LAN by a public-looking address", "81.2.69.10", 9000),
        ("the mesh", "100.64.0.2", 9000),
        ("the mesh by IPv6", "fd5e:ca9e:7::2", 9000),
        ("the machine's own address", "192.168.1.2", 9000),
        ("the machine's public-looking address", "81.2.69.2", 9000),
        ("the machine's global IPv6", "2a01:4f8:77:1::2", 9000),
    ]
    rows = [refused(f"TCP to {name}", tcp(address, port)) for name, address, port in targets]
    rows += [refused(f"UDP to {name}", udp(address, port)) for name, address, port in targets]
    rows += [
        refused("connected UDP to the LAN", udp("192.168.1.10", 9000, connected=True)),
        refused("TCP to the LAN, v4-mapped", tcp("::ffff:192.168.1.10", 9000), "192.168.1.10"),
        refused("UDP to the LAN, v4-mapped", udp("::ffff:192.168.1.10", 9000), "192.168.1.10"),
        refused("TCP to the LAN through NAT64", tcp("64:ff9b::c0a8:10a", 9000), compare=False),
        refused("TCP to the LAN through 6to4", tcp("2002:c0a8:10a::1", 9000), compare=False),
        refused("the cloud's metadata", tcp("169.254.169.254", 80), compare=False),
        refused("another agent's port, in the internet", tcp(INTERNET, 7387)),
        refused("another agent's port, on the mesh", tcp("100.64.0.2", 7387)),
        refused("the LAN's DNS server", {"act": "dns", "server": "192.168.1.1", "name": "nas.lan"}, "192.168.1.1"),
        refused("a public name that points into the LAN", run("curl", "-sS", "-m", "5", "http://rebind.example.com/"),
                "192.168.1.10", asks_dns=True, errors=("exit 7",),
                twin=run("curl", "-sS", "-m", "5", "--resolve", "rebind.example.com:80:192.168.1.10",
                         "http://rebind.example.com/")),
        refused("a name of the LAN", {"act": "resolve", "name": "nas.lan"}, "192.168.1.1", asks_dns=True,
                errors=("does not resolve",), compare=False),
        refused("the machine's loopback", tcp("127.0.0.1", 9000), errors=("ECONNREFUSED",)),
        refused("the machine's DNS stub", {"act": "dns", "server": "127.0.0.53", "name": "nas.lan"}, "127.0.0.53",
                errors=("ECONNREFUSED", "EACCES")),
        refused("multicast", udp("224.0.0.251", 5353, silent=True)),
        refused("broadcast", udp("255.255.255.255", 9000, broadcast=True, silent=True)),
        refused("a raw socket", {"act": "socket", "family": socket.AF_INET, "type": socket.SOCK_RAW, "protocol": 1},
                errors=("EACCES", "EPERM", "EAFNOSUPPORT", "EPROTONOSUPPORT")),
        refused("a packet socket", {"act": "socket", "family": 17, "type": socket.SOCK_RAW, "protocol": 0x0300},
                errors=("EACCES", "EPERM", "EAFNOSUPPORT")),
        refused("source routing", {"act": "source_route"}, errors=("EACCES", "EPERM")),
        refused("a user namespace", {"act": "user_namespace"}, errors=("EPERM", "ENOSYS", "EACCES")),
        refused("another file of the owner", {"act": "read", "path": secret}, errors=("ENOENT",)),
        refused("root's home", {"act": "read", "path": "/root/.profile"}, errors=("ENOENT", "EACCES"), compare=False),
    ]
    return rows
