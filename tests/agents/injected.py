"""What a prompt-injected agent in a cage tries, to reach agents otherwise than through its own.

Usage: injected.py WAY…   prints one line for each try: WAY TARGET RESULT
  ports      TCP, UDP and fast open to port 7387 in each form of each address (TARGETS: "FAMILY ADDRESS" in argv[2:])
  gateway    the model's gateway used as a proxy to an agent
  sockets    each socket that can be found on the file system or by other processes' roots
"""
import glob
import os
import socket
import sys

PORT = int(os.environ.get("TRY_PORT", "7387"))
SAY = b"POST /a2a/rev HTTP/1.1\r\nHost: x\r\nX-Shrooms-Caged: none\r\nContent-Length: 2\r\n\r\n{}"
MSG_FASTOPEN = 0x20000000


def tell(way, target, act):
    try:
        result = act()
    except OSError as error:
        result = f"errno {error.errno}" if error.errno else type(error).__name__
    print(way, target, result, sep="\t", flush=True)


def tcp(family, to, bind=None):
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(5)
        if bind:
            one.bind(bind)
        one.connect(to)
        one.sendall(SAY)
        one.shutdown(socket.SHUT_WR)
        return f"reached {len(one.recv(100))}"


def later(family, to):
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.setblocking(False)
        error = one.connect_ex(to)
        if error not in (0, 115):
            return f"errno {error}"
        import select
        select.select([], [one], [], 5)
        error = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            return f"errno {error}"
        one.send(SAY)
        return "reached"


def fast_open(family, to):
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(5)
        one.sendto(SAY, MSG_FASTOPEN, to)
        return f"reached {len(one.recv(100))}"


def child(family, to):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        try:
            text = tcp(family, to)
        except OSError as error:
            text = f"errno {error.errno}"
        os.write(writing, text.encode())
        os._exit(0)
    os.wait()
    return os.read(reading, 100).decode()


def ports(targets):
    for text in targets:
        kind, address = text.split()
        family = socket.AF_INET if kind == "4" else socket.AF_INET6
        to = socket.getaddrinfo(address, PORT, family, socket.SOCK_STREAM)[0][4]
        for way in (tcp, later, fast_open, child):
            tell(way.__name__, address, lambda: way(family, to))
        tell("privileged port", address, lambda: tcp(family, to, ("", 1000)))


def through_gateway(request):
    with socket.create_connection(("192.0.0.1", 80), 5) as one:
        one.sendall(request.encode())
        return "answered " + one.recv(100).split(b"\r\n")[0].decode()


def gateway(agents):
    for agent in agents:
        for line in (f"GET http://{agent}/v1/sessions HTTP/1.1", f"CONNECT {agent} HTTP/1.1", "GET /a2a/rev HTTP/1.1",
                     f"POST http://{agent}/v1/messages HTTP/1.1", f"GET //{agent}/v1/messages HTTP/1.1"):
            tell("gateway", line, lambda: through_gateway(
                f"{line}\r\nHost: {agent}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))


def unix(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(5)
        one.connect(path)
        one.sendall(SAY)
        return f"reached {one.recv(12)}"


def sockets(paths):
    own = os.environ["SHROOMS_AGENT_PROXY"]
    found = set(paths)
    for pattern in ("/run/**/*.sock", "/run/**/*sock*", "/proc/[0-9]*/root/run/**/*.sock", "/home/**/*.sock",
                    "/tmp/**/*.sock", "/run/shrooms-agent/../**/proxy.sock"):
        found.update(glob.glob(pattern, recursive=True))
    for path in sorted(found):
        if os.path.exists(path) and os.path.exists(own) and os.path.samefile(path, own):
            print("sockets", "own", "found", sep="\t")
            continue
        tell("sockets", path, lambda: unix(path))
    for name in ("\0pinfold", "\0shrooms", "\0proxy.sock"):
        tell("abstract", name[1:], lambda: unix(name))


{"ports": ports, "gateway": gateway, "sockets": sockets}[sys.argv[1]](sys.argv[2:])
