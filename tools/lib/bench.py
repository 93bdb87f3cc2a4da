"""Runs the benchmarks of tests/bench and shows their figures. Started by tools/bench."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
from stage import ENVIRONMENT, TREE, DemoError, Stage, say, stop  # noqa: E402

NAMES = ("start", "relay", "crowd", "guard", "memory", "api", "gateway", "proxy")
IDLE_CAGES = 200
BUSY_CAGES = 200
IDLE_SECONDS = 10
SESSIONS, RUNNING = 1000, 50
Figures = dict[str, float]


def run_json(command: list[str], environment: dict[str, str] = ENVIRONMENT, seconds: int = 900) -> Figures:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds)
    if done.returncode != 0:
        raise DemoError(f"{command[0]}: exit {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def staged(build: Path, work) -> Figures:
    """Keeper and agent in a test world, and `mark` in the owner's project."""
    stage = Stage(build)
    try:
        stage.up()
        shutil.copy(build / "libexec/bench-mark", stage.project / "mark")
        return work(stage)
    except (DemoError, subprocess.SubprocessError, OSError) as error:
        logs = "".join(f"\n--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-15:])
                       for log in sorted(stage.home.glob("*.log")))
        raise DemoError(f"{error}{logs}") from None
    finally:
        left = stage.down()
        if left:
            say(f"left behind, removed now: {', '.join(left)}")


def bench_start(build: Path, runs: int) -> Figures:
    def work(stage: Stage) -> Figures:
        command = [f"{build}/tests/bench_start", "--keeper", f"{stage.run_dir}/keeper.sock", "--api", str(stage.api), "--cli",
                   f"{build}/bin/pinfold", "--project", str(stage.project), "--runs", str(runs or 100)]
        return run_json(stage.as_owner(command), stage.environment())
    return staged(build, work)


def bench_relay(build: Path, runs: int) -> Figures:
    return run_json([f"{build}/tests/bench_relay", str(runs or 3)])


def bench_crowd(build: Path, runs: int) -> Figures:
    return run_json([f"{build}/tests/bench_crowd", "--cages", str(runs or BUSY_CAGES)])


def bench_guard(build: Path, runs: int) -> Figures:
    return run_json([f"{build}/tests/bench_guard"])


# ---- memory: what an idle cage costs ----

def pss_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def switches(pid: int) -> int:
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if "ctxt_switches" in line:
                total += int(line.split()[1])
    return total


def daemon_pid(stage: Stage, number: int, name: str) -> int:
    """nsenter and setpriv exec the daemon, so its pid is theirs; a figure of anything else would be worthless."""
    pid = stage.daemons[number].pid
    comm = Path(f"/proc/{pid}/comm").read_text().strip()
    if not name.startswith(comm):
        raise DemoError(f"process {pid} is {comm}, not {name}")
    return pid


def cage_pids(stage: Stage) -> list[int]:
    pids = []
    for mount in [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
                  if line.split(" - ")[1].startswith("cgroup2 ")]:
        for procs in (Path(mount) / stage.name).rglob("cgroup.procs"):
            pids += [int(pid) for pid in procs.read_text().split()]
    return pids


def bench_memory(build: Path, runs: int) -> Figures:
    count = runs or IDLE_CAGES

    def start(stage: Stage, number: int) -> subprocess.Popen:
        command = stage.ctl("run", "--sealed", "--dir", str(stage.project), "--name", f"idle-{number}", "--",
                            f"{stage.project}/mark", "stay")
        process = subprocess.Popen(command, env=stage.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        if len(process.stdout.read(8)) != 8:
            raise DemoError(f"idle cage {number} did not start")
        return process

    def work(stage: Stage) -> Figures:
        keeper, agent = daemon_pid(stage, 0, "pinfold-keeper"), daemon_pid(stage, 1, "pinfold-agent")
        sessions = []
        try:
            sessions.append(start(stage, 0))
            agent_one, keeper_one = pss_kib(agent), pss_kib(keeper)
            begin = time.monotonic()
            sessions += [start(stage, number) for number in range(1, count)]
            seconds = time.monotonic() - begin
            time.sleep(2)
            before = switches(agent), switches(keeper)
            time.sleep(IDLE_SECONDS)
            after = switches(agent), switches(keeper)
            inside = cage_pids(stage)
            user = sum(pss_kib(pid) for pid in inside)
            agent_all, keeper_all = pss_kib(agent), pss_kib(keeper)
            return {
                "cages": count,
                "agent_pss_mb": round(agent_all / 1000 * 1.024, 3),
                "agent_one_cage_pss_mb": round(agent_one / 1000 * 1.024, 3),
                "agent_more_per_cage_kib": round((agent_all - agent_one) / max(1, count - 1), 2),
                "keeper_pss_mb": round(keeper_all / 1000 * 1.024, 3),
                "keeper_more_per_cage_kib": round((keeper_all - keeper_one) / max(1, count - 1), 2),
                "cage_user_memory_kib": round(user / count, 1),
                "cage_processes": round(len(inside) / count, 2),
                "agent_switches_in_10_s": after[0] - before[0],
                "keeper_switches_in_10_s": after[1] - before[1],
                "start_each_ms": round(seconds / max(1, count - 1) * 1000, 2),
            }
        finally:
            for process in sessions:
                process.stdin.close()
            for process in sessions:
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    stop(process)
    return staged(build, work)


# ---- api: the list, events to many, and what a thousand sessions need ----

class Socket(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))

    def post(self, path: str, body: dict[str, object]) -> dict[str, object]:
        self.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = self.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise DemoError(f"{path}: {answer.status} {text.decode(errors='replace')}")
        return json.loads(text) if text else {}


def bench_api(build: Path, runs: int) -> Figures:
    def work(stage: Stage) -> Figures:
        agent = daemon_pid(stage, 1, "pinfold-agent")
        empty = pss_kib(agent)
        api = Socket(stage.api)
        begin = time.monotonic()
        for number in range(SESSIONS):
            body = {"name": f"bench-{number}", "dir": str(stage.project), "harness": "command",
                    "command": ["sh", "-c", "read x; exec sleep 3600"]}
            if number < RUNNING:
                body["cage"] = {}
            else:
                body["auto_approve"] = True
            api.post("/v1/sessions", body)
        created = time.monotonic() - begin
        for number in range(RUNNING):
            api.post(f"/v1/sessions/bench-{number}/messages", {"text": "go"})
        command = [f"{build}/tests/bench_api", "--api", str(stage.api), "--session", "bench-0", "--runs", str(runs or 3)]
        figures = run_json(stage.as_owner(command), stage.environment())
        return figures | {
            "sessions": SESSIONS, "sessions_running": RUNNING,
            "create_session_ms": round(created * 1000 / SESSIONS, 3),
            "agent_empty_pss_mb": round(empty / 1000 * 1.024, 3),
            "agent_pss_with_sessions_mb": round(pss_kib(agent) / 1000 * 1.024, 3),
        }
    return staged(build, work)


def bench_gateway(build: Path, runs: int) -> Figures:
    return run_json(["unshare", "--net", "--", "python3", "-B", f"{TREE}/tests/bench/gateway_world.py",
                     f"{build}/tests/bench_gateway", str(runs or 200)])


def bench_proxy(build: Path, runs: int) -> Figures:
    return run_json([f"{build}/tests/bench_proxy", str(runs or 3)])


RUN = {"start": bench_start, "relay": bench_relay, "crowd": bench_crowd, "guard": bench_guard, "memory": bench_memory, "api": bench_api,
       "gateway": bench_gateway, "proxy": bench_proxy}


# ---- showing ----

# What is compared: benchmark, in words, figure, beside which figure (or None: a figure of its own), what is wanted.
RATIOS = (
    ("start", "cold start beside bwrap", "pinfold_cold_p50_ms", "bwrap_p50_ms", "≤ 1"),
    ("start", "start by the CLI beside bwrap", "pinfold_cli_p50_ms", "bwrap_p50_ms", ""),
    ("relay", "bulk up beside native", "relay_up_gbit_s", "native_up_gbit_s", "≥ 0.6"),
    ("relay", "bulk down beside native", "relay_down_gbit_s", "native_down_gbit_s", "≥ 0.6"),
    ("relay", "connect beside native", "relay_connect_p50_us", "native_connect_p50_us", "≤ 2.5"),
    ("relay", "connections a second beside native", "relay_connections_s", "native_connections_s", ""),
    ("relay", "bulk up beside pasta", "relay_up_gbit_s", "pasta_up_gbit_s", "≥ 5"),
    ("relay", "bulk down beside pasta", "relay_down_gbit_s", "pasta_down_gbit_s", ""),
    ("crowd", "200 busy cages upload, all together beside one alone", "crowd_up_gbit_s", "one_up_gbit_s", ""),
    ("crowd", "the least of them beside the mean", "crowd_up_least_share", None, "≥ 0.8"),
    ("crowd", "the most of them beside the mean", "crowd_up_most_share", None, "≤ 1.2"),
    ("crowd", "200 download, all together beside one alone", "crowd_down_gbit_s", "one_down_gbit_s", ""),
    ("crowd", "the least of them beside the mean", "crowd_down_least_share", None, "≥ 0.8"),
    ("crowd", "the most of them beside the mean", "crowd_down_most_share", None, "≤ 1.2"),
    ("crowd", "connect beside a cage that floods, 99th percentile, beside one that spins", "beside_flood_connect_p99_us",
     "beside_spin_connect_p99_us", "≤ 2"),
    ("crowd", "and when the flood is over, beside before", "afterwards_connect_p99_us", "alone_connect_p99_us", ""),
    ("guard", "connect() with 10 prefixes beside no guard", "guard_10_prefixes_connect_p50_ns", "no_guard_connect_p50_ns", ""),
    ("guard", "with 1,000", "guard_1000_prefixes_connect_p50_ns", "no_guard_connect_p50_ns", ""),
    ("guard", "with 100,000", "guard_100000_prefixes_connect_p50_ns", "no_guard_connect_p50_ns", ""),
    ("memory", "agent with 200 idle cages, MB", "agent_pss_mb", None, "≤ 25"),
    ("memory", "more of the agent for each cage, KiB", "agent_more_per_cage_kib", None, "≤ 40"),
    ("memory", "user memory of an idle cage, KiB", "cage_user_memory_kib", None, "≤ 700"),
    ("memory", "the agent's context switches in 10 idle seconds", "agent_switches_in_10_s", None, "0"),
    ("api", "GET /v1/sessions a second, with 1,000 sessions", "list_requests_s", None, "≥ 5000"),
    ("api", "an event at 200 readers, median, ms", "event_to_all_readers_p50_ms", None, "< 5"),
    ("api", "the same at one reader, ms", "event_to_one_reader_p50_ms", None, ""),
    ("api", "agent with 1,000 sessions, 50 running, MB", "agent_pss_with_sessions_mb", None, "< 60"),
    ("gateway", "added to the first byte, ms", "gateway_added_first_byte_p50_ms", None, "< 1"),
    ("gateway", "added to an event, ms", "gateway_added_event_p50_ms", None, "< 1"),
    ("gateway", "first byte beside nginx", "gateway_first_byte_p50_ms", "nginx_first_byte_p50_ms", ""),
    ("gateway", "an event beside nginx", "gateway_event_p50_ms", "nginx_event_p50_ms", ""),
    ("gateway", "processor time of a request beside nginx", "gateway_cpu_us_per_request", "nginx_cpu_us_per_request", ""),
    ("proxy", "GET requests a second beside nginx", "proxy_get_requests_s", "nginx_get_requests_s", "≥ 1"),
    ("proxy", "their p99 beside nginx", "proxy_get_p99_us", "nginx_get_p99_us", "≤ 1"),
    ("proxy", "questions a second, rewritten, beside nginx", "proxy_ask_requests_s", "nginx_ask_requests_s", "≥ 1"),
    ("proxy", "their p99 beside nginx", "proxy_ask_p99_us", "nginx_ask_p99_us", "≤ 1"),
    ("proxy", "memory of a cage's socket, KiB", "memory_per_cage_kib", None, "≤ 64"),
    ("proxy", "the same with a connection, KiB", "memory_per_cage_with_connection_kib", None, "≤ 64"),
    ("proxy", "p99 beside 5,000 half-open connections of another cage", "beside_half_open_p99_us", "alone_p99_us", "≤ 2"),
)


def compared(name: str, figures: Figures) -> list[tuple[str, str, str]]:
    """Rows of (what, ratio or figure, wanted)."""
    rows = []
    for benchmark, words, figure, beside, wanted in RATIOS:
        if benchmark == name and figure in figures and (beside is None or figures.get(beside)):
            value = figures[figure] / figures[beside] if beside else figures[figure]
            rows.append((words, f"{value:.2f}" + (" ×" if beside else ""), wanted))
    return rows


def print_figures(name: str, figures: Figures) -> None:
    print(f"{name}:")
    width = max(map(len, figures))
    for key, value in figures.items():
        print(f"  {key.ljust(width)}  {value:g}")
    for words, value, wanted in compared(name, figures):
        print(f"  {words}: {value}" + (f" (wanted {wanted})" if wanted else ""))


def machine_line() -> str:
    model = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), "unknown processor")
    release = Path("/etc/debian_version").read_text().strip() if Path("/etc/debian_version").exists() else "?"
    kernel = re.match(r"[0-9]+\.[0-9]+", os.uname().release)  # a suffix says whose build it is, and nothing of speed
    return f"{os.cpu_count()} × {model}, kernel {kernel[0] if kernel else 'unknown'}, Debian {release}"


def noise_line() -> str:
    """How far one fixed piece of work differs from run to run, and the load beside it: how much to trust a figure."""
    samples = []
    for _ in range(30):
        begin = time.perf_counter()
        sum(range(400_000))
        samples.append(time.perf_counter() - begin)
    samples.sort()
    return (f"one fixed computation took {samples[15] * 1000:.1f} ms (p50), {samples[-1] / samples[15]:.2f} × that at worst; "
            f"load average {os.getloadavg()[0]:.1f} at the start")


def section(name: str, figures: Figures, noise: str) -> str:
    body = [f"## {name}", "", f"Measured {time.strftime('%Y-%m-%d', time.gmtime())} on {machine_line()}. Noise: {noise}.", "",
            "| | measured | wanted |", "|---|---|---|"]
    body += [f"| {words} | {value} | {wanted} |" for words, value, wanted in compared(name, figures)]
    body += ["", "From: " + ", ".join(f"`{key}` {value:g}" for key, value in figures.items()) + ".", ""]
    return "\n".join(body) + "\n"


def with_sections(text: str, written: dict[str, str]) -> str:
    """The page with these sections anew; those of other benchmarks stay as they are."""
    begin, end = "<!-- figures: written by tools/bench --write-docs -->\n", "<!-- end of figures -->"
    before, found, rest = text.partition(begin)
    inside, closed, after = rest.partition(end)
    if not found or not closed:
        raise DemoError("docs/performance.md lacks the two marks between which the figures stand")
    there = {part.split("\n", 1)[0]: "## " + part for part in re.split(r"^## ", inside, flags=re.MULTILINE)[1:]}
    there |= written
    order = [name for name in NAMES if name in there] + sorted(set(there) - set(NAMES))
    return before + begin + "\n".join(there[name].rstrip("\n") + "\n" for name in order) + end + after


def write_docs(results: dict[str, Figures], noise: str) -> None:
    page = TREE / "docs/performance.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(with_sections(text, {name: section(name, figures, noise) for name, figures in results.items()}),
                    encoding="utf-8")
    say(f"wrote {', '.join(results)} in {page.relative_to(TREE)}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    noise = noise_line()
    results = {}
    try:
        for name in options.names or NAMES:
            say(f"measuring {name}")
            results[name] = RUN[name](options.build.resolve(), options.runs)
    except (DemoError, subprocess.SubprocessError, OSError, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if options.write_docs:
        write_docs(results, noise)
    if options.json:
        print(json.dumps({key: value for figures in results.values() for key, value in figures.items()}))
    else:
        print(machine_line())
        print(f"noise: {noise}")
        for name, figures in results.items():
            print_figures(name, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
