#!/usr/bin/env python3
"""A model's provider for the tests: Anthropic's Messages API over TLS, and the OpenAI-compatible form, with no model.

What the last message of the owner says decides the answer:
  TOOL COMMAND   the harness's shell tool with this command, then "the tool said: OUTPUT"
  CALL NAME {…}  its tool of this name with this input, the same way
  FAIL STATUS N  this status, N times (once, where N is not said; or "always"); asked again, all is well
  DROP           the stream is cut in the middle, once
  STALL          the stream stops in the middle, once, until the other side hangs up
  SAY TEXT       "you said: TEXT (N answers before)"
Whatever else stands in a message is the harness's own and counts for nothing.

Usage: provider.py ADDRESS PORT CERTIFICATE KEY LOG
Each request is one line of JSON in LOG: method, path, fields, the size of its body.
"""
import http.server
import json
import socket
import ssl
import sys
import threading
import uuid

ADDRESS, PORT, CERTIFICATE, KEY, LOG = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
failed_once, failed_times = set(), {}
lock = threading.Lock()


def text_of(content):
    if isinstance(content, str):
        return content
    parts = []
    for block in content or []:
        if block.get("type") in ("text", "input_text"):
            parts.append(block.get("text", ""))
        elif block.get("type") == "tool_result":
            parts.append("RESULT " + text_of(block.get("content")))
    return "\n".join(parts)


def since_answer(messages):
    """The messages behind the last answer: a harness puts some of its own beside the owner's."""
    last = max((i for i, each in enumerate(messages) if each.get("role") == "assistant"), default=-1)
    return messages[last + 1:]


def owners_words(messages):
    """The last of them: a turn that failed leaves its words without an answer behind."""
    found = ""
    for each in since_answer(messages):
        for line in text_of(each.get("content")).splitlines():
            if line.startswith(("TOOL ", "CALL ", "FAIL ", "DROP ", "STALL ", "SAY ")):
                found = line.strip()
    return found


def tool_output(messages):
    for each in since_answer(messages):
        said = text_of(each.get("content"))
        if each.get("role") == "tool":
            return said
        if said.startswith("RESULT "):
            return said[len("RESULT "):]
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, body):
        with lock, open(LOG, "a") as log:
            log.write(json.dumps({"method": self.command, "path": self.path, "size": len(body),
                                  "fields": {k.lower(): v for k, v in self.headers.items()}}) + "\n")

    def do_HEAD(self):
        self.note(b"")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        self.note(b"")
        if self.path.endswith("?redirect"):
            self.send_response(302)
            self.send_header("Location", "https://93.184.216.34:%d/elsewhere" % PORT)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.answer(200, {"data": [], "has_more": False})

    def do_POST(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.note(body)
        path = self.path.split("?")[0]
        if path.endswith("/count_tokens"):
            return self.answer(200, {"input_tokens": 10})
        if self.path.endswith("?large"):
            return self.answer(200, {"size": len(body)})
        try:
            asked = json.loads(body)
        except ValueError:
            return self.answer(400, {"type": "error", "error": {"type": "invalid_request_error", "message": "no JSON"}})
        if path.endswith("/messages"):
            return self.messages(asked)
        if path.endswith("/chat/completions"):
            return self.completions(asked)
        self.answer(404, {"type": "error", "error": {"type": "not_found_error", "message": path}})

    def answer(self, status, body, **fields):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def event(self, name, data):
        text = "event: %s\ndata: %s\n\n" % (name, json.dumps(data)) if name else "data: %s\n\n" % data
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text.encode()), text.encode()))
        self.wfile.flush()

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def fails(self, words):
        """An error that was asked for, once for each wording, or as often as it says."""
        if not words.startswith("FAIL "):
            return False
        status, times = (words.split() + ["1"])[1:3]
        with lock:
            failed_times[words] = failed_times.get(words, 0) + 1
            if times != "always" and failed_times[words] > int(times):
                return False
        status = int(status)
        kind = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}.get(status, "api_error")
        fields = {"retry_after": "1"} if status == 429 else {}
        self.answer(status, {"type": "error", "error": {"type": kind, "message": "as you wished"}}, **fields)
        return True

    def plan(self, messages, tools):
        """(text, tool call): what is answered to these messages."""
        output = tool_output(messages)
        if output is not None:
            return "the tool said: " + output, None
        words = owners_words(messages)
        names = [each.get("name") or each.get("function", {}).get("name") for each in tools or []]
        shell = next((name for name in names if name in ("Bash", "bash")), None)
        if words.startswith("TOOL ") and shell:
            return None, (shell, {"command": words[len("TOOL "):], "description": "as asked"})
        if words.startswith("CALL "):
            name, _, given = words[len("CALL "):].partition(" ")
            if name in names:
                return None, (name, json.loads(given))
        before = sum(1 for each in messages if each.get("role") == "assistant")
        return "you said: %s (%d answers before)" % (words.removeprefix("SAY "), before), None

    def messages(self, asked):
        said = owners_words(asked.get("messages") or [])
        if self.fails(said):
            return
        text, call = self.plan(asked.get("messages") or [], asked.get("tools"))
        if call:
            block = {"type": "tool_use", "id": "toolu_" + uuid.uuid4().hex, "name": call[0], "input": call[1]}
        else:
            block = {"type": "text", "text": text}
        reason = "tool_use" if call else "end_turn"
        base = {"id": "msg_" + uuid.uuid4().hex, "type": "message", "role": "assistant", "model": asked.get("model"), "stop_sequence": None}
        if not asked.get("stream"):
            return self.answer(200, dict(base, content=[block], stop_reason=reason,
                                         usage={"input_tokens": 100, "output_tokens": 7}))
        self.begin_stream()
        self.event("message_start", {"type": "message_start", "message": dict(
            base, content=[], stop_reason=None, usage={"input_tokens": 100, "output_tokens": 1})})
        if call:
            self.event("content_block_start", {"type": "content_block_start", "index": 0,
                                               "content_block": dict(block, input={})})
            self.event("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": {
                "type": "input_json_delta", "partial_json": json.dumps(block["input"])}})
        else:
            self.event("content_block_start", {"type": "content_block_start", "index": 0,
                                               "content_block": {"type": "text", "text": ""}})
            for part in (text[:len(text) // 2], text[len(text) // 2:]):
                self.event("content_block_delta", {"type": "content_block_delta", "index": 0,
                                                   "delta": {"type": "text_delta", "text": part}})
                with lock:
                    drop = said.startswith(("DROP", "STALL")) and said not in failed_once
                    failed_once.add(said if drop else "")
                if drop and said.startswith("STALL"):
                    self.connection.recv(1)  # until the other side gives up
                if drop:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
        self.event("content_block_stop", {"type": "content_block_stop", "index": 0})
        self.event("message_delta", {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
                                     "usage": {"output_tokens": 7}})
        self.event("message_stop", {"type": "message_stop"})
        self.wfile.write(b"0\r\n\r\n")

    def completions(self, asked):
        messages = asked.get("messages") or [{}]
        if self.fails(owners_words(messages)):
            return
        text, call = self.plan(messages, asked.get("tools"))
        base = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": asked.get("model")}
        self.begin_stream()
        if call:
            delta = {"role": "assistant", "tool_calls": [{"index": 0, "id": "call_" + uuid.uuid4().hex, "type": "function", "function": {
                "name": call[0], "arguments": json.dumps(call[1])}}]}
        else:
            delta = {"role": "assistant", "content": text}
        self.event("", json.dumps(dict(base, choices=[{"index": 0, "delta": delta, "finish_reason": None}])))
        self.event("", json.dumps(dict(base, choices=[{"index": 0, "delta": {},
                                                       "finish_reason": "tool_calls" if call else "stop"}],
                                       usage={"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107})))
        self.event("", "[DONE]")
        self.wfile.write(b"0\r\n\r\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def finish_request(self, request, client_address):
        context = self.context.wrap_socket(request, server_side=True)
        super().finish_request(context, client_address)

    def handle_error(self, *_):
        pass


server = Server((ADDRESS, PORT), Handler)
server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.context.load_cert_chain(CERTIFICATE, KEY)
print("ready", flush=True)
server.serve_forever()
