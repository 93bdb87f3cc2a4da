#!/usr/bin/env python3
"""A session's program that does what a task says. Started once for each message, which is its input.

  DONE TEXT    reports the task as done     FAIL TEXT   as failed
  BLOCK TEXT   asks back                    WAIT        says nothing: the task stays open
  FILE TEXT    sends result.txt with the text to who asked, then reports it as done

Usage: worker.py API_SOCKET SESSION [ASKERS_AGENT]
"""
import http.client
import json
import re
import socket
import sys

API, SESSION, ASKERS_AGENT = (sys.argv + [""])[1:4]


class Own(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(API)


def report(task, state, summary):
    own = Own("localhost")
    body = json.dumps({"state": state, "summary": summary, "session": SESSION})
    own.request("POST", f"/v1/tasks/{task}", body, {"Content-Type": "application/json"})
    answer = own.getresponse()
    print(answer.status, answer.read().decode().strip()[:200], flush=True)


def send_file(to, text):
    there = http.client.HTTPConnection(ASKERS_AGENT, 7387)
    there.request("POST", f"/v1/sessions/{to}/drop?name=result.txt&tell=0", text, {"X-Shrooms-From-Session": SESSION, "Content-Type": "application/octet-stream"})
    print(there.getresponse().status, flush=True)


given = re.match(r"\[shrooms task (\S+) from ([^\]]*)\]\n(\w+) ?(.*)", sys.stdin.read())
if given:
    task, asker, word, text = given.groups()
    if word == "FILE":
        send_file(re.search(r"/([\w.-]+)", asker)[1], text)
    states = {"DONE": "done", "FILE": "done", "BLOCK": "blocked", "FAIL": "failed"}
    if word in states:
        report(task, states[word], text)
    else:
        print("left open", flush=True)
