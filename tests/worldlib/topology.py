"""What the world looks like: names, links, addresses and routes, as data and nothing else."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

STATE_ROOT = Path("/run/pinfold-world")
NAMESPACES = ("machine", "lan", "mesh", "internet")

# (namespace, interface) on both ends. Each pair is made inside the namespaces, so names never meet those of another world.
LINKS = (
    ("machine", "eth0", "lan", "eth0"),
    ("machine", "mesh0", "mesh", "mesh0"),
    ("lan", "up0", "internet", "up0"),
)

# The LAN is what a real one is: private IPv4, a ULA, *and* addresses that look public but are on-link. Every interface has a
# link-local address: without one a router cannot send the neighbour solicitation for a packet that it forwards.
ADDRESSES: dict[str, dict[str, tuple[str, ...]]] = {
    "machine": {
        "eth0": ("192.168.1.2/24", "81.2.69.2/24", "fdaa:bbbb:cccc:1::2/64", "2a01:4f8:77:1::2/64", "fe80::2/64"),
        "mesh0": ("100.64.0.1/10", "fd5e:ca9e:7::1/64", "fe80::1/64"),
    },
    "lan": {
        "eth0": (
            "192.168.1.1/24", "192.168.1.10/24", "81.2.69.10/24",
            "fdaa:bbbb:cccc:1::1/64", "fdaa:bbbb:cccc:1::10/64",
            "2a01:4f8:77:1::1/64", "2a01:4f8:77:1::10/64", "fe80::1/64", "fe80::10/64",
        ),
        "up0": ("192.0.2.1/30", "2001:db8:0:1::1/64", "fe80::1/64"),
    },
    "mesh": {"mesh0": ("100.64.0.2/10", "fd5e:ca9e:7::2/64", "fe80::2/64")},
    "internet": {
        "up0": ("192.0.2.2/30", "2001:db8:0:1::2/64", "fe80::2/64"),
        "lo": (
            "1.1.1.1/32", "9.9.9.9/32", "93.184.216.34/32",
            "2606:4700:4700::1111/128", "2620:fe::fe/128", "2606:2800:220:1::34/128",
        ),
    },
}

# The internet has no default route: what nobody owns ends there, counted, with "network unreachable", and does not loop.
ROUTES: dict[str, tuple[str, ...]] = {
    "machine": ("default via 192.168.1.1 dev eth0 src 192.168.1.2", "::/0 via fe80::1 dev eth0"),
    "lan": ("default via 192.0.2.2", "::/0 via 2001:db8:0:1::2"),
    "mesh": ("default via 100.64.0.1", "::/0 via fd5e:ca9e:7::1"),
    "internet": (
        "192.168.1.0/24 via 192.0.2.1", "81.2.69.0/24 via 192.0.2.1",
        "fdaa:bbbb:cccc:1::/64 via 2001:db8:0:1::1", "2a01:4f8:77:1::/64 via 2001:db8:0:1::1",
    ),
}

# Order matters: the kernel resets other settings when forwarding is switched. No rate limit: a refusal is never late.
SYSCTLS_EVERYWHERE = {
    "ipv6/conf/all/disable_ipv6": "0", "ipv6/conf/default/disable_ipv6": "0",
    "ipv6/conf/all/accept_ra": "0", "ipv6/conf/default/accept_ra": "0",
    "ipv6/conf/all/accept_dad": "0", "ipv6/conf/default/accept_dad": "0",
    "ipv6/conf/default/addr_gen_mode": "1",  # no address but those above
    "ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
    "ipv4/conf/all/send_redirects": "0", "ipv4/conf/default/send_redirects": "0",
    "ipv4/icmp_ratelimit": "0", "ipv6/icmp/ratelimit": "0",
}
SYSCTLS = {
    "machine": {"ipv4/conf/all/rp_filter": "2", "ipv4/ping_group_range": "0 2147483647"},
    "lan": {"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1"},
    "mesh": {},
    # It forwards nothing, having no route; but only a router answers "network unreachable" for what nobody owns.
    "internet": {"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1"},
}

ECHO_PORTS = (22, 53, 445, 631, 3000, 7387, 8080, 9000, 9001)

WEB_INTERNET = ("93.184.216.34", "2606:2800:220:1::34")
WEB_ROUTER = ("192.168.1.1", "fdaa:bbbb:cccc:1::1", "2a01:4f8:77:1::1")
WEB_NAS = ("192.168.1.10", "81.2.69.10", "fdaa:bbbb:cccc:1::10", "2a01:4f8:77:1::10")
TLS_NAMES = ("www.example.com", "example.com", "git.example.com", "dual.example.com", "*.example.com")

Zone = dict[str, tuple[str, ...]]
ZONE_PUBLIC: Zone = {
    "example.com": WEB_INTERNET,
    "www.example.com": WEB_INTERNET,
    "git.example.com": WEB_INTERNET,
    "dual.example.com": ("93.184.216.34", "2606:4700:4700::1111"),  # nothing on port 80 of the second: happy eyeballs
    "rebind.example.com": ("192.168.1.10",),
    "mapped.example.com": ("::ffff:192.168.1.10",),
    "no6.example.com": ("2a01:4f8:77:1::10", "93.184.216.34"),  # of these two one address is on the LAN
    "no4.example.com": ("2606:2800:220:1::34", "192.168.1.10"),
    "inside.example.com": ("2a01:4f8:77:1::10", "192.168.1.10"),
}
ZONE_LAN: Zone = ZONE_PUBLIC | {
    "machine.lan": ("192.168.1.2", "fdaa:bbbb:cccc:1::2"),
    "router.lan": ("192.168.1.1", "fdaa:bbbb:cccc:1::1"),
    "nas.lan": ("192.168.1.10", "fdaa:bbbb:cccc:1::10"),
    "peer.mesh": ("100.64.0.2", "fd5e:ca9e:7::2"),
}
DNS_SERVERS: tuple[tuple[str, str, Zone], ...] = (
    ("internet", "1.1.1.1", ZONE_PUBLIC),
    ("internet", "9.9.9.9", ZONE_PUBLIC),
    ("internet", "2606:4700:4700::1111", ZONE_PUBLIC),
    ("internet", "2620:fe::fe", ZONE_PUBLIC),
    ("lan", "192.168.1.1", ZONE_LAN),
    ("machine", "127.0.0.53", ZONE_LAN),
)


class WorldError(Exception):
    """A failure to show as one line: what was attempted, on what, why it failed, what to do."""


@dataclass(frozen=True)
class World:
    """One world by its name. Several may be up at once; they share nothing."""

    name: str

    @staticmethod
    def from_environment() -> World:
        name = os.environ.get("PINFOLD_WORLD") or "pinfold"
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", name):
            raise WorldError(f"PINFOLD_WORLD={name!r} is no world name: use up to 40 of a-z, 0-9 and -")
        return World(name)

    @property
    def state(self) -> Path:
        return STATE_ROOT / self.name

    @property
    def control(self) -> Path:
        return self.state / "control"

    def kernel_name(self, namespace: str) -> str:
        return f"{self.name}-{namespace}"

    def path(self, namespace: str) -> Path:
        """The file that holds the namespace: what setns and `nsenter --net=` take."""
        if namespace not in NAMESPACES:
            raise WorldError(f"there is no namespace {namespace!r}: use one of {', '.join(NAMESPACES)}")
        return Path("/run/netns") / self.kernel_name(namespace)
