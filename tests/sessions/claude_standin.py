#!/usr/bin/env python3
"""Speaks Claude Code's stream-json, and does what the message says instead of thinking.

run COMMAND   asks for permission (unless it is skipped), then says "ran COMMAND"
ask QUESTION  asks the owner a question, and repeats the answer
slow          ends only when it is interrupted
hang          hears nothing any more, not even the end of its input
crash         writes a line to its standard error and ends with status 3
garbage       prints what is no protocol at all, then answers
big N         answers with N letters
env           answers with its environment, as JSON
anything else is echoed, streamed first in two parts
"""
import json
import os
import pathlib
import re
import sys
import time
import uuid

ARGUMENTS = sys.argv[1:]
SKIP = "--dangerously-skip-permissions" in ARGUMENTS
RESUMED = ARGUMENTS[ARGUMENTS.index("--resume") + 1] if "--resume" in ARGUMENTS else None
SESSION = RESUMED or str(uuid.uuid4())


def tell(**message):
    message.setdefault("session_id", SESSION)
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def hear():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def transcript():
    config = pathlib.Path(os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.environ["HOME"], ".claude"))
    return config / "projects" / re.sub(r"[^A-Za-z0-9]", "-", os.getcwd()) / (SESSION + ".jsonl")


def keep(role, text):
    with transcript().open("a") as file:
        file.write(json.dumps({"type": role, "cwd": os.getcwd(), "sessionId": SESSION, "text": text}) + "\n")


def say(*blocks):
    tell(type="assistant", message={"role": "assistant", "model": "stand-in", "content": list(blocks),
                                    "usage": {"input_tokens": 10, "output_tokens": 5}})


def text(words):
    keep("assistant", words)
    say({"type": "text", "text": words})


def ask_owner(identifier, tool, given):
    tell(type="control_request", request_id=identifier,
         request={"subtype": "can_use_tool", "tool_name": tool, "input": given})
    while True:
        message = hear()
        if message.get("type") == "control_response" and message["response"]["request_id"] == identifier:
            return message["response"]["response"]
        if message.get("type") == "control_request":
            tell(type="control_cancel_request", request_id=identifier)
            return {"behavior": "interrupted"}


def turn(words):
    """True when it went well."""
    keep("user", words)
    verb, _, rest = words.partition(" ")
    if verb == "run":
        say({"type": "tool_use", "id": "t-1", "name": "Bash", "input": {"command": rest}})
        if not SKIP:
            answer = ask_owner("req-" + uuid.uuid4().hex[:8], "Bash", {"command": rest})
            if answer["behavior"] != "allow":
                text("denied: " + answer.get("message", answer["behavior"]))
                return answer["behavior"] == "deny"
            rest = answer["updatedInput"]["command"]
        tell(type="user", message={"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t-1", "content": "ran " + rest}]})
        text("done")
    elif verb == "ask":
        given = {"questions": [{"question": rest, "options": [{"label": "a"}, {"label": "b"}]}]}
        answer = ask_owner("req-q", "AskUserQuestion", given)
        text("answered: " + json.dumps(answer.get("updatedInput", {}).get("answers")))
    elif verb == "slow":
        while hear().get("request", {}).get("subtype") != "interrupt":
            pass
        return False
    elif verb == "hang":
        say({"type": "text", "text": "hanging"})
        time.sleep(3600)
    elif verb == "crash":
        say({"type": "text", "text": "crashing"})
        print("the stand-in fell over", file=sys.stderr)
        sys.exit(3)
    elif verb == "garbage":
        sys.stdout.write("no json\n{\n[1,2]\n\x00\x01\xff\r\n{\"type\":7}\n" + "x" * 3_000_000 + "\n")
        text("after garbage")
    elif verb == "big":
        text("y" * int(rest))
    elif verb == "retry":  # what the real one says while it waits for its provider
        tell(type="system", subtype="api_retry", attempt=1, max_retries=10, error_status=int(rest), error="overloaded")
        text("after all")
    elif verb == "limit":
        status, seconds = rest.split()
        tell(type="rate_limit_event", rate_limit_info={"status": status, "rateLimitType": "five_hour",
                                                       "resetsAt": int(time.time()) + int(seconds)})
    elif verb == "env":
        text(json.dumps(dict(os.environ)))
    else:
        for part in (words[:len(words) // 2], words[len(words) // 2:]):
            tell(type="stream_event", event={"type": "content_block_delta",
                                             "delta": {"type": "text_delta", "text": part}})
        text("echo: " + words)
    return True


def main():
    if "--permission-prompt-tool" not in ARGUMENTS or "stream-json" not in ARGUMENTS:
        sys.exit("the stand-in is started as sessions start claude, and no other way")
    if RESUMED and not transcript().exists():
        sys.exit("No conversation found with session ID: " + RESUMED)
    transcript().parent.mkdir(parents=True, exist_ok=True)
    transcript().touch()
    told = False
    while True:
        message = hear()
        if message.get("type") != "user":
            continue
        content = message["message"]["content"]
        words = content if isinstance(content, str) else content[0]["text"]
        if not told:
            tell(type="system", subtype="init", model="stand-in", cwd=os.getcwd(), resumed=RESUMED,
                 skip_permissions=SKIP)
            told = True
        good = turn(words)
        tell(type="result", subtype="success" if good else "error_during_execution", is_error=not good,
             usage={"input_tokens": 10, "output_tokens": 5}, total_cost_usd=0.01,
             modelUsage={"stand-in": {"contextWindow": 200000}})


main()
