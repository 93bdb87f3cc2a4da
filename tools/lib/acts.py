"""Does one act for each line of JSON on the standard input and answers with one line. Runs inside the cage, and, for
comparison, on the test world's machine without a cage. Standard library only."""

import ctypes
import errno
import json
import os
import socket
import struct
import subprocess
import sys
import time

PATIENCE = 3.0  # seconds; whatever takes longer is told as a hang
CLONE_NEWUSER = 0x10000000


def address_of(act):
    family = socket.AF_INET6 if ":" in act["address"] else socket.AF_INET
    return family, (act["address"], act["port"])


def tcp(act):
    family, target = address_of(act)
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(target)
        connection.sendall(b"sixteen bytes...")
        return f"connected, {len(connection.recv(100))} bytes came back"


def udp(act):
    family, target = address_of(act)
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.settimeout(PATIENCE)
        if act.get("broadcast"):
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        if act.get("connected"):
            sender.connect(target)
            sender.send(b"sixteen bytes...")
        else:
            sender.sendto(b"sixteen bytes...", target)
        if act.get("silent"):
            return "sent"
        return f"sent, {len(sender.recv(100))} bytes came back"


def dns(act):
    query = struct.pack("!6H", 0x7066, 0x0100, 1, 0, 0, 0)
    query += b"".join(bytes([len(label)]) + label.encode() for label in act["name"].split("."))
    query += b"\0" + struct.pack("!2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(PATIENCE)
        sender.connect((act["server"], 53))  # connected: a closed port then answers, and does not hang
        sender.send(query)
        reply = sender.recv(512)
        code = reply[3] & 15
        return "no such name" if code == 3 else f"answered, {struct.unpack_from('!H', reply, 6)[0]} addresses"


def resolve(act):
    found = {entry[4][0] for entry in socket.getaddrinfo(act["name"], 80, type=socket.SOCK_STREAM)}
    return " ".join(sorted(found))


def run(act):
    done = subprocess.run(act["argv"], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return f"exit {done.returncode}: {lines[-1] if lines else ''}"


def read(act):
    with open(act["path"], "rb") as file:
        return f"read {len(file.read(100))} bytes"


def make_socket(act):
    socket.socket(act["family"], act["type"], act["protocol"]).close()
    return "made"


def source_route(_):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes([131, 7, 4, 1, 1, 1, 1, 0]))  # loose source route
    return "set"


def user_namespace(_):
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    return "made"


def identity(_):
    return f"uid {os.getuid()}, pid {os.getpid()}, host {socket.gethostname()}"


ACTS = {"tcp": tcp, "udp": udp, "dns": dns, "resolve": resolve, "run": run, "read": read, "socket": make_socket,
        "source_route": source_route, "user_namespace": user_namespace, "identity": identity}


def answer(act):
    begin = time.monotonic()
    try:
        result = {"did": ACTS[act["act"]](act)}
    except socket.gaierror as error:
        result = {"error": "does not resolve", "text": str(error)}
    except TimeoutError:
        result = {"error": "hang"}
    except OSError as error:
        result = {"error": errno.errorcode.get(error.errno, str(error))}
    except Exception as error:  # told, not lost: the row then is wrong
        result = {"error": f"{type(error).__name__}: {error}"}
    result["ms"] = round((time.monotonic() - begin) * 1000, 1)
    return result


print(json.dumps({"did": "ready"}), flush=True)
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
