"""The demo's act: runs the rows, prints the table. Started by tools/demo, which has installed and built everything."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
import rows  # noqa: E402
from stage import DemoError, Performer, Stage, say  # noqa: E402

SESSION = "heron"
NO_HANG_MS = 1000
DNS_SERVERS = ("1.1.1.1", "9.9.9.9")


def describe(result: dict) -> str:
    if "did" in result:
        return str(result["did"])
    return f"{result['error']} after {result['ms']} ms"


def arrived(counters: list[dict], address: str, asks_dns: bool = False) -> tuple[int, int]:
    """Bytes and packets at an address; with no address, anywhere at all (an answer to DNS aside where it is asked)."""
    chosen = []
    for row in counters:
        if asks_dns and (row["address"] in DNS_SERVERS or row["namespace"] == "machine"):
            continue
        if asks_dns and row["namespace"] == "lan" and row["address"] not in address:
            continue
        if not address or row["address"] == address:
            chosen.append(row)
    return sum(row["bytes"] for row in chosen), sum(row["packets"] for row in chosen)


def is_refused(row: rows.Row, result: dict) -> bool:
    said = str(result.get("error") or result.get("did"))
    return any(said == error or said.startswith(error + ":") for error in row.errors) and result["ms"] < NO_HANG_MS


def perform(stage: Stage, caged: Performer, uncaged: Performer, row: rows.Row) -> dict:
    stage.reset()
    result = caged.do(row.act)
    counters = stage.arrivals()
    size, packets = arrived(counters, row.target)
    if row.also:
        size += arrived(counters, row.also)[0]
    line = {"act": row.text, "expected": row.expected, "happened": describe(result), "target": row.target, "bytes": size}
    if row.expected == "works":
        line["right"] = row.holds in describe(result) and "error" not in result and (not row.target or size > 0)
        return line
    # Refused: nothing at the target, and nothing anywhere else either.
    anywhere = arrived(counters, "", row.asks_dns)[1]
    line["right"] = is_refused(row, result) and packets == 0 and anywhere == 0
    if anywhere:
        line["happened"] += f"; {anywhere} packets arrived somewhere"
    if row.compare and row.act["act"] in ("tcp", "udp", "dns", "run", "read"):
        stage.reset()
        told = uncaged.do(row.twin or row.act)
        if row.target:
            line["uncaged_bytes"] = arrived(stage.arrivals(), row.target)[0]
            line["right"] = line["right"] and line["uncaged_bytes"] > 0
        else:
            line["right"] = line["right"] and "did" in told
    return line


def fact(act: str, expected: str, happened: str, right: bool) -> dict:
    return {"act": act, "expected": expected, "happened": happened, "target": "", "bytes": None, "right": right}


def look_at_guards(stage: Stage, cage: dict) -> dict:
    """What the machine's owner sees with bpftool: the guards on the cage's cgroup, by name."""
    pins = sorted(pin.name for pin in (stage.pins / "cages" / cage["cage"]).glob("*"))
    cgroup = next(path for path in stage.cgroups() if path.exists()) / cage["cage"]
    shown = subprocess.run(["bpftool", "cgroup", "show", str(cgroup)], capture_output=True, text=True, check=False).stdout
    names = sorted(set(shown.split()) & {"cage_connect4", "cage_connect6", "cage_sendmsg4", "cage_sendmsg6",
                                         "cage_socket", "cage_option"})
    return fact("bpftool shows its guards", "all six", f"{len(names)} by name, {len(pins)} pinned",
                len(names) == 6 and len(pins) >= 6)


def look_at_files(stage: Stage) -> dict:
    made = stage.project / "clone/hello.c"
    owner = made.stat().st_uid if made.exists() else None
    return fact("what it wrote is the owner's", f"uid {stage.uid}", f"uid {owner}", owner == stage.uid)


def look_at_process(cage: dict) -> dict:
    status = Path(f"/proc/{cage['pid']}/status").read_text()
    uid = int(status.partition("Uid:")[2].split()[0])
    return fact("root inside is nobody outside", "an id of its own range", f"uid {uid}", uid >= 65536)


def look_at_denials(stage: Stage, refusals: int) -> dict:
    told = [line for line in stage.ask_lines("denials", "--json", SESSION) if "rule" in line]
    return fact("each refusal is on record", f"{refusals} or more", str(len(told)), len(told) >= refusals)


def play(stage: Stage) -> list[dict]:
    begin = time.monotonic()
    caged, uncaged = stage.start_session(SESSION), stage.start_uncaged()
    say(f"session {SESSION} runs after {(time.monotonic() - begin) * 1000:.0f} ms")
    cage = stage.ask("inspect", "--json", SESSION)
    table = [perform(stage, caged, uncaged, row) for row in rows.work(str(stage.project))]
    table += [look_at_files(stage), look_at_process(cage), look_at_guards(stage, cage)]
    tried = [perform(stage, caged, uncaged, row) for row in rows.attempts(str(stage.secret))]
    table += tried
    table.append(look_at_denials(stage, sum("EACCES" in line["happened"] for line in tried)))
    code = caged.finish()
    table.append(fact("ends with the program's exit code", "0", str(code), code == 0))
    subprocess.run(stage.ctl("rm", SESSION), env=stage.environment(), check=False, capture_output=True)
    return table


def print_table(table: list[dict]) -> None:
    colour = sys.stdout.isatty()
    mark = {True: "\033[32mok\033[0m" if colour else "ok", False: "\033[31mWRONG\033[0m" if colour else "WRONG"}
    heads = ("act", "expected", "what happened", "bytes at the target", "without a cage", "")
    lines = []
    for row in table:
        size = "" if row["bytes"] is None or (not row["target"] and row["expected"] == "works") else str(row["bytes"])
        lines.append((row["act"], row["expected"], row["happened"][:60], size, str(row.get("uncaged_bytes", "")),
                      row["right"]))
    widths = [max(len(head), *(len(line[column]) for line in lines)) for column, head in enumerate(heads[:-1])]
    print("  ".join(head.ljust(width) for head, width in zip(heads, widths)).rstrip())
    print("  ".join("-" * width for width in widths))
    for line in lines:
        cells = [cell.rjust(width) if column in (3, 4) else cell.ljust(width)
                 for column, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join([*cells, mark[line[-1]]]))


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--build", type=Path, required=True)
    options.add_argument("--json", action="store_true")
    options = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    stage = Stage(options.build.resolve())
    table: list[dict] = []
    failure = ""
    try:
        stage.up()
        table = play(stage)
    except (DemoError, subprocess.SubprocessError, OSError) as error:
        failure = str(error)
        for log in sorted(stage.home.glob("*.log")):
            failure += f"\n--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    finally:
        left = stage.down()
    if failure:
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    table.append(fact("nothing is left behind", "nothing", ", ".join(left) or "nothing", not left))
    right = all(row["right"] for row in table)
    if options.json:
        print(json.dumps({"right": right, "rows": table}, indent=1))
    else:
        print_table(table)
        wrong = sum(not row["right"] for row in table)
        print(f"\n{len(table)} rows, {wrong} wrong" if wrong else f"\nall {len(table)} rows are right")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
