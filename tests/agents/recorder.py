#!/usr/bin/env python3
"""An agent that does nothing but write down every byte that arrives, one connection after the other.

Usage: recorder.py ADDRESS PORT FILE
Answers 200 and a session called "old" to everything, as an agent that knows nothing of cages. "ready" when it listens; FILE holds the bytes.
"""
import socket
import sys
import threading

address, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
lock = threading.Lock()
BODY = b'{"sessions":[{"name":"old","harness":"claude","state":"idle","dir":"/"}]}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


def serve(connection):
    while data := connection.recv(65536):
        with lock, open(path, "ab") as record:
            record.write(data)
        try:
            connection.sendall(ANSWER)
        except OSError:
            break
    connection.close()


open(path, "wb").close()
listener = socket.create_server((address, port), family=socket.AF_INET6, backlog=64)
print("ready", flush=True)
while True:
    one, _ = listener.accept()
    threading.Thread(target=serve, args=(one,), daemon=True).start()
