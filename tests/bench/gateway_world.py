#!/usr/bin/env python3
"""The gateway benchmark's world, in a network namespace of its own: a provider over TLS, bench_gateway, and nginx where it is.

Usage: unshare --net -- gateway_world.py BENCH_GATEWAY RUNS
Prints the figures of bench_gateway as one flat JSON object, with the processor time of gateway and nginx.
"""
import http.server
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BENCH, RUNS = sys.argv[1], sys.argv[2]
PROVIDER, GATEWAY, NGINX = 8443, 8081, 8082
EVENTS, PAUSE = 20, 0.003
NGINX_CONFIG = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log error;
events {{ worker_connections 64; }}
http {{
    access_log off; client_max_body_size 128m; client_body_buffer_size 1m;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    keepalive_requests 100000;
    upstream provider {{ server 127.0.0.1:{provider}; keepalive 8; keepalive_requests 100000; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass https://provider; proxy_http_version 1.1; proxy_buffering off; proxy_request_buffering off;
            proxy_set_header Connection ""; proxy_set_header x-api-key secret; proxy_ssl_name 127.0.0.1;
            proxy_ssl_verify on; proxy_ssl_trusted_certificate {folder}/server.crt; proxy_ssl_session_reuse on;
        }}
    }}
}}
"""


class Provider(http.server.BaseHTTPRequestHandler):
    """An answer of some events, each with the moment at which it was sent."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        for number in range(EVENTS):
            text = b"data: %d\n\n" % time.monotonic_ns()
            self.wfile.write(head + b"%x\r\n%s\r\n" % (len(text), text))
            head = b""
            time.sleep(PAUSE)
        self.wfile.write(b"0\r\n\r\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def finish_request(self, request, client_address):
        super().finish_request(self.context.wrap_socket(request, server_side=True), client_address)

    def handle_error(self, *_):
        pass


def start_provider(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1,DNS:127.0.0.1", "-keyout", f"{folder}/server.key",
                    "-out", f"{folder}/server.crt"], check=True, capture_output=True)
    server = Server(("127.0.0.1", PROVIDER), Provider)
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.context.load_cert_chain(f"{folder}/server.crt", f"{folder}/server.key")
    threading.Thread(target=server.serve_forever, daemon=True).start()


def serves(port):
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    sys.exit(f"nothing serves port {port}")


def processor_ms(process):
    parts = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(parts[11]) + int(parts[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def main():
    if [name for _, name in socket.if_nameindex()] != ["lo"]:
        sys.exit("this network is not empty: start it with unshare --net")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    processes = {}
    with tempfile.TemporaryDirectory(prefix="pinfold-bench-") as folder:
        try:
            start_provider(folder)
            key = Path(folder) / "key"
            key.write_text("secret\n")
            key.chmod(0o600)
            processes["gateway"] = subprocess.Popen(
                [BENCH, "--serve", str(GATEWAY), "--upstream", f"https://127.0.0.1:{PROVIDER}", "--ca", f"{folder}/server.crt",
                 "--key", str(key)], stdout=subprocess.DEVNULL)
            serves(GATEWAY)
            places = [f"direct=https://127.0.0.1:{PROVIDER}", f"gateway=http://127.0.0.1:{GATEWAY}"]
            if shutil.which("nginx", path="/usr/sbin:/usr/bin"):
                config = Path(folder) / "nginx.conf"
                config.write_text(NGINX_CONFIG.format(folder=folder, provider=PROVIDER, port=NGINX))
                processes["nginx"] = subprocess.Popen(["/usr/sbin/nginx", "-c", str(config), "-p", folder], stderr=subprocess.DEVNULL)
                serves(NGINX)
                places.append(f"nginx=http://127.0.0.1:{NGINX}")
            else:
                print("nginx is not installed, so it is not measured: tools/setup --set bench", file=sys.stderr)
            before = {name: processor_ms(each) for name, each in processes.items()}
            command = [BENCH, "--ca", f"{folder}/server.crt", "--runs", RUNS]
            for place in places:
                command += ["--measure", place]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            if done.returncode != 0:
                sys.exit(done.stderr.strip())
            figures = json.loads(done.stdout)
            for name, each in processes.items():
                spent = processor_ms(each) - before[name]
                figures[f"{name}_cpu_us_per_request"] = round(spent * 1000 / (int(RUNS) + 3), 1)
            figures["events_in_an_answer"] = EVENTS
            print(json.dumps(figures))
        finally:
            for each in processes.values():
                each.kill()
                each.wait()


main()
