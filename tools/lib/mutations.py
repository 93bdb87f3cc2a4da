#!/usr/bin/env python3
"""Leaves out one protection after the other, in all cages of a run, and shows which cases of cagebreak fail then.

The list comes from the product: the steps of a plan, the hooks of the guards, the lists of the system call filter, the
answers of the relay, what each mount forbids (tests/cagebreak/left_out.cpp), and each rule in the guards' sources
(guard_rules.py), in the agent's proxy and in its gateway (agent_rules.py). A protection whose absence fails nothing is a failure: exit code 1."""
import argparse
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the tree stays as it is
import agent_rules  # noqa: E402
import guard_rules  # noqa: E402

TREE = pathlib.Path(__file__).resolve().parents[2]

# Which files are tried first, by the beginning of a protection's name. Where none of their cases fails, all of cagebreak
# is run before anything is said to fail nothing. The first that fits decides.
FIRST = [
    ("step write_policy", ["policy_test"]),
    ("step map_ids", ["identity_test"]),
    ("step join_keyring", ["identity_test"]),
    ("step set_hostname", ["identity_test"]),
    ("step drop_capabilities", ["identity_test"]),
    ("step filter_syscalls", ["syscalls_test"]),
    ("step bind_path", ["files_test"]),
    ("step place_binds", ["files_test"]),
    ("step mount_", ["machine_view_test", "mounts_test"]),
    ("step", ["machine_view_test"]),
    ("guard options", ["guards_test", "sockets_test"]),
    ("guard sockets", ["guards_test", "sockets_test"]),
    ("guard", ["guards_test", "network_test"]),
    ("hook", ["guards_test"]),
    ("filter clone", ["identity_test"]),
    ("filter unshare", ["identity_test"]),
    ("filter socket", ["sockets_test", "syscalls_test"]),
    ("filter", ["syscalls_test"]),
    ("relay", ["relay_rules_test"]),
    ("mount", ["mounts_test"]),
    ("rule guard.h", ["guards_test", "policy_test"]),
    ("rule options.bpf.c: cage_option", ["guards_test", "policy_test"]),
    ("rule sockets.bpf.c: cage_socket", ["guards_test", "policy_test"]),
    ("rule", ["guards_test"]),
]


LIMIT = "limit "  # these have a suite of their own, on machines with the controllers (tools/vm)


def first_files(name):
    return [] if name.startswith((LIMIT, "agent ")) else next(files for begin, files in FIRST if name.startswith(begin))


def unified():
    """Where cgroup v2 is mounted."""
    mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return next(pathlib.Path(line.split()[4]) for line in mounts if " - cgroup2 " in line)


def remove_what_is_left(pid):
    """Of a run that was ended by force: its processes, cgroup, pins and test world, all named for its pid."""
    group = unified() / f"pinfold-cagebreak-{pid}"
    if group.exists():
        (group / "cgroup.kill").write_text("1")
        for _ in range(100):
            if "populated 0" in (group / "cgroup.events").read_text():
                break
            time.sleep(0.05)
        for folder in sorted((each for each in group.rglob("*") if each.is_dir()), reverse=True):
            folder.rmdir()
        group.rmdir()
    shutil.rmtree(f"/sys/fs/bpf/pinfold-cagebreak-{pid}", ignore_errors=True)
    subprocess.run([TREE / "tests/world", "down"], env={"PATH": os.environ["PATH"], "PINFOLD_WORLD": f"pft{pid}x0"},
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


class Suite:
    """The cagebreak binary: a run of some of its files with one protection left out."""

    def __init__(self, build, limit):
        self.folder = build / "tests"
        self.binary = self.folder / "cagebreak_tests"
        self.limit = limit
        self.environment = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}

    def run(self, without, files, name="cagebreak_tests"):
        """What failed and what ran; a case in which the run broke off has failed."""
        with tempfile.NamedTemporaryFile("r") as report:
            environment = self.environment | {"PINFOLD_TEST_REPORT": report.name}
            if without:
                environment["PINFOLD_TEST_WITHOUT"] = without
            tags = ",".join(f"[#{file}]" for file in files) or "~[.]"
            process = subprocess.Popen([self.folder / name, "--filenames-as-tags", tags], env=environment, cwd=TREE,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True)
            try:
                process.wait(self.limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                remove_what_is_left(process.pid)
            lines = [line.split(" ", 1) for line in report.read().splitlines()]
        started = [title for what, title in lines if what == "started"]
        passed = {title for what, title in lines if what == "passed"}
        return [title for title in started if title not in passed], started

    @functools.cache
    def broken_anyway(self):
        """Cases of the whole suite that fail with every protection in place, and so prove nothing."""
        return self.run("", [])[0]

    def protections(self):
        listed = subprocess.run([self.binary, "[.protections]"], env=self.environment, cwd=TREE, text=True,
                                capture_output=True, check=True).stdout
        return re.findall(r"^protection: (.+)$", listed, re.M)


def check_lists(names):
    """Every list of refused system calls is in the matrix; the judged ones are listed by the product itself."""
    text = (TREE / "userspace/cage/syscall_list.hpp").read_text(encoding="utf-8")
    lists = set(re.findall(r"string_view (\w+)\[\]", text)) - {"allowed"}
    missing = [each for each in lists if f"filter {each}" not in names]
    if missing or not lists:
        sys.exit(f"mutations: lists of system calls that no mutation leaves out: {', '.join(missing) or 'none found'}")


def cases_without_in_agent(suite, build, rule, scratch):
    for binary, file in rule.suites:
        made = agent_rules.binary_without(TREE, build, rule, binary, scratch / "agent")
        failed, ran = agent_rules.run_without(suite.folder, binary, made, file, suite.environment, suite.limit)
        if not ran:
            sys.exit(f"mutations: no case ran without: {rule.name}")
        if failed:
            return failed
    return []


def cases_without(suite, name, rule, scratch, quick):
    without = name
    if rule:
        without = "object " + ":".join(map(str, guard_rules.objects_without(TREE, rule, scratch)))
    if name.startswith(LIMIT):
        return suite.run(without, [], "limits_tests")[0]
    failed, ran = suite.run(without, first_files(name))
    if not failed and not quick:
        broken = suite.broken_anyway()
        failed, ran = suite.run(without, [])
        failed = [title for title in failed if title not in broken]
    if not ran:
        sys.exit(f"mutations: no case ran without: {name}")
    return failed


def main():
    parser = argparse.ArgumentParser(prog="tools/test --mutations", description=__doc__)
    parser.add_argument("--json", action="store_true", help="a list of {protection, failed_cases}")
    parser.add_argument("--only", metavar="TEXT", help="protections with this in their names")
    parser.add_argument("--list", action="store_true", help="name the protections, run nothing")
    parser.add_argument("--quick", action="store_true", help="try only the files that should notice, for who writes tests")
    parser.add_argument("--budget", type=float, metavar="SECONDS",
                        help="stop then, and say what was not reached; each day begins at another place of the list")
    parser.add_argument("--build", default=TREE / "build/release", type=pathlib.Path)
    parser.add_argument("--limit", type=float, default=600, help="seconds for one run of the tests")
    options = parser.parse_args()

    def say(text):
        print(text, file=sys.stderr if options.json else sys.stdout, flush=True)

    suite = Suite(options.build.resolve(), options.limit)
    names = suite.protections()
    check_lists(names)
    rules = {rule.name: rule for rule in guard_rules.rules(TREE)}
    names += rules
    agents = {rule.name: rule for rule in agent_rules.rules(TREE)}
    names += agents
    names = [name for name in names if not options.only or options.only in name]
    if options.list or not names:
        print("\n".join(names))
        return 0 if names else 1
    if os.geteuid() != 0:
        sys.exit("mutations: they make cages: run 'sudo tools/test --mutations'")

    if options.budget:
        first = int(time.time() // 86400) * 29 % len(names)
        names = names[first:] + names[:first]

    # A case that fails with everything in place says nothing.
    begun = time.monotonic()
    needed = sorted({file for name in names for file in first_files(name)})
    broken, ran = suite.run("", needed) if needed else ([], True)
    for binary, file in sorted({each for name in names if name in agents for each in agents[name].suites}):
        failed, titles = agent_rules.run(suite.folder / binary, file, suite.environment, suite.limit)
        broken += failed
        ran = ran and titles
    if broken or not ran:
        sys.exit("mutations: these fail with every protection in place: " + "; ".join(broken or ["no case ran"]))

    controllers = (unified() / "cgroup.controllers").read_text().split()
    matrix = []
    unproven = []
    with tempfile.TemporaryDirectory(prefix="pinfold-mutations-") as scratch:
        for number, name in enumerate(names, 1):
            if options.budget and time.monotonic() - begun > options.budget:
                say(f"the budget is used up: {len(names) - number + 1} protections were not reached, from '{name}' on")
                break
            if name.startswith(LIMIT) and name.split()[1].split(".")[0] not in controllers:
                say(f"[{number}/{len(names)}] {name}: not on this machine: its controller is not on cgroup v2")
                continue
            if name in agents:
                failed = cases_without_in_agent(suite, options.build.resolve(), agents[name], pathlib.Path(scratch))
            else:
                failed = cases_without(suite, name, rules.get(name), pathlib.Path(scratch, "guards"), options.quick)
            matrix.append({"protection": name, "failed_cases": failed})
            if not failed:
                unproven.append(name)
            say(f"[{number}/{len(names)}] {name}: " + (f"{len(failed)} fail" if failed else "NOTHING FAILS"))
            for title in failed:
                say(f"    {title}")
    if options.json:
        print(json.dumps(matrix, indent=1, ensure_ascii=False))
    say(f"{len(matrix)} protections left out in {time.monotonic() - begun:.0f} s, {len(unproven)} fail nothing")
    for name in unproven:
        say(f"  fails nothing: {name}")
    return 1 if unproven else 0


if __name__ == "__main__":
    sys.exit(main())
