"""The demo's stage: a test world, keeper and agent in its machine, a project; and taking all of it down again."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tests"))
from worldlib import lifecycle  # noqa: E402
from worldlib.control import ask  # noqa: E402
from worldlib.topology import World  # noqa: E402

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
START_SECONDS = 30
STOP_SECONDS = 10


class DemoError(Exception):
    """What went wrong, as one line."""


def say(text: str) -> None:
    print(f"demo: {text}", file=sys.stderr, flush=True)


def choose_owner() -> tuple[int, int, str]:
    """uid, gid and name of whom the session is for: who called sudo, or the first user of the machine that is a person."""
    caller = int(os.environ.get("SUDO_UID", "0"))
    people = [entry for entry in pwd.getpwall() if 1000 <= entry.pw_uid < 60000]
    chosen = next((entry for entry in people if entry.pw_uid == caller), None) or (people[0] if people else None)
    if chosen is None:
        chosen = pwd.getpwnam("games")  # a fresh machine with root alone: an account that every Debian has
    return chosen.pw_uid, chosen.pw_gid, chosen.pw_name


class Stage:
    def __init__(self, build: Path) -> None:
        self.build = build
        self.name = f"pinfold-demo-{os.getpid()}"
        self.world = World(f"demo-{os.getpid()}")
        self.uid, self.gid, self.owner = choose_owner()
        self.home = Path("/var/tmp") / self.name
        self.run_dir, self.state_dir = self.home / "run", self.home / "state"
        self.agent_dir, self.project = self.home / "agent", self.home / "project"
        self.secret = self.agent_dir / "secret"
        self.api = self.agent_dir / "api.sock"
        self.pins = Path("/sys/fs/bpf") / self.name
        self.daemons: list[subprocess.Popen[bytes]] = []
        self.session: subprocess.Popen[str] | None = None

    # ---- up ----

    def up(self) -> None:
        say("making the test world")
        lifecycle.up(self.world, str(TREE / "tests/world"), True)
        for directory in (self.home, self.run_dir, self.state_dir):
            directory.mkdir(mode=0o755)
        for directory in (self.agent_dir, self.project):
            directory.mkdir(mode=0o700)
            os.chown(directory, self.uid, self.gid)
        self.secret.write_text("the owner's alone\n")
        self.secret.chmod(0o600)
        os.chown(self.secret, self.uid, self.gid)
        self._make_project()
        config = self.home / "keeper.conf"
        config.write_text(f"cgroup={self.name}\nbpf-dir={self.pins}\naccept-unlimited=memory,cpu,pids\n")
        say("starting keeper and agent in it")
        keeper = [f"{self.build}/bin/pinfold-keeper", "--run-dir", str(self.run_dir), "--state-dir", str(self.state_dir),
                  "--config", str(config)]
        self._start(keeper, self.run_dir / "keeper.sock")
        agent = [f"{self.build}/bin/pinfold-agent", "--keeper", f"{self.run_dir}/keeper.sock", "--state",
                 str(self.agent_dir), "--api", str(self.api), "--resolv-conf", f"{self.world.state}/resolv.conf"]
        self._start(self.as_owner(agent), self.api)

    def _make_project(self) -> None:
        for file in ("acts.py",):
            shutil.copy(Path(__file__).with_name(file), self.project / file)
        shutil.copy(self.world.state / "ca.crt", self.project / "ca.crt")
        (self.project / "README.md").write_text("# a small project\n")
        self._make_package(self.project / "pinfold-greeting.deb")
        for path in (*self.project.iterdir(), self.project):
            os.chown(path, self.uid, self.gid)
        git = ["git", "-C", str(self.project), "-c", "user.name=Demo", "-c", "user.email=demo@example.com"]
        for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "begin"]):
            subprocess.run(self.as_owner([*git, *arguments]), check=True, env=self.environment())

    def _make_package(self, target: Path) -> None:
        """A .deb of one program, for the session to install."""
        root = self.home / "package"
        (root / "DEBIAN").mkdir(parents=True)
        (root / "usr/bin").mkdir(parents=True)
        (root / "DEBIAN/control").write_text(
            "Package: pinfold-greeting\nVersion: 1.0\nArchitecture: all\nMaintainer: Demo <demo@example.com>\n"
            "Description: a greeting\n")
        program = root / "usr/bin/pinfold-greeting"
        program.write_text("#!/bin/sh\necho hello from a package\n")
        program.chmod(0o755)
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", str(root), str(target)], check=True, env=ENVIRONMENT,
                       stdout=subprocess.DEVNULL)

    def _start(self, command: list[str], socket: Path) -> None:
        log = (self.home / f"{Path(socket).stem}.log").open("wb")
        daemon = subprocess.Popen(["nsenter", f"--net={self.world.path('machine')}", "--", *command],
                                  env=self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")
        self.daemons.append(daemon)
        end = time.monotonic() + START_SECONDS
        while not socket.exists():
            if daemon.poll() is not None or time.monotonic() > end:
                said = Path(log.name).read_text(errors="replace").strip()
                raise DemoError(f"{Path(command[-1]).name if not command else command} did not start:\n{said}")
            time.sleep(0.02)

    # ---- using it ----

    def environment(self) -> dict[str, str]:
        return ENVIRONMENT | {"HOME": str(self.agent_dir)}

    def as_owner(self, command: list[str]) -> list[str]:
        return ["setpriv", "--reuid", str(self.uid), "--regid", str(self.gid), "--clear-groups", "--", *command]

    def ctl(self, *arguments: str) -> list[str]:
        return self.as_owner([f"{self.build}/bin/pinfold", "--api", str(self.api), *arguments])

    def ask(self, *arguments: str) -> dict[str, object]:
        return self.ask_lines(*arguments)[0]

    def ask_lines(self, *arguments: str) -> list[dict[str, object]]:
        done = subprocess.run(self.ctl(*arguments), env=self.environment(), capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise DemoError(f"pinfold {' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]

    def cgroups(self) -> list[Path]:
        return [Path(mount) / self.name for mount in cgroup2_mounts()]

    def start_session(self, name: str) -> Performer:
        command = self.ctl("run", "--sealed", "--dir", str(self.project), "--name", name, "--",
                           "python3", "-B", f"{self.project}/acts.py")
        self.session = subprocess.Popen(command, env=self.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=(self.home / "session.log").open("w"), text=True, cwd=self.project)
        return Performer(self.session, self.home / "session.log")

    def start_uncaged(self) -> Performer:
        command = ["nsenter", f"--net={self.world.path('machine')}", "--", "python3", "-B", f"{self.project}/acts.py"]
        self.uncaged = subprocess.Popen(command, env=self.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, cwd="/")
        return Performer(self.uncaged, Path("/dev/null"))

    def reset(self) -> None:
        ask(self.world, {"cmd": "reset"})

    def arrivals(self) -> list[dict[str, object]]:
        return ask(self.world, {"cmd": "count"})["counters"]

    # ---- down ----

    def down(self) -> list[str]:
        """Ends everything. Returns what the product should have removed and did not; that is removed here."""
        for process in (self.session, getattr(self, "uncaged", None), *reversed(self.daemons)):
            stop(process)
        left = [str(pin) for pin in (self.pins / "cages").glob("*/*")] if self.pins.exists() else []
        cgroups = self.cgroups()
        left += [str(path) for cgroup in cgroups if cgroup.exists() for path in cgroup.glob("*/") if is_cage(path)]
        left += mounts_below(self.home)
        for mount in reversed(mounts_below(self.home)):
            subprocess.run(["umount", "-l", mount], check=False)
        for cgroup in cgroups:
            remove_cgroup(cgroup)
        remove_pins(self.pins)
        lifecycle.down(self.world)
        shutil.rmtree(self.home, ignore_errors=True)
        return left


class Performer:
    """acts.py behind a pair of pipes: one act, one answer."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process, self.log = process, log
        self.read()  # "ready"

    def read(self) -> dict[str, object]:
        line = self.process.stdout.readline()
        if not line:
            said = self.log.read_text(errors="replace").strip() if self.log.is_file() else ""
            raise DemoError(f"the session ended early (exit code {self.process.wait(10)}): {said}")
        return json.loads(line)

    def do(self, act: dict[str, object]) -> dict[str, object]:
        self.process.stdin.write(json.dumps(act) + "\n")
        self.process.stdin.flush()
        return self.read()

    def finish(self) -> int:
        self.process.stdin.close()
        return self.process.wait(30)


def stop(process: subprocess.Popen | None) -> None:
    if process is None or process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        process.send_signal(number)
        try:
            process.wait(STOP_SECONDS)
            return
        except subprocess.TimeoutExpired:
            pass


def cgroup2_mounts() -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines if line.split(" - ")[1].startswith("cgroup2 ")]


def is_cage(cgroup: Path) -> bool:
    """A cgroup with a number for a name, in hexadecimal; the keeper's anchor is no cage."""
    return re.fullmatch("[0-9a-f]{16}", cgroup.name) is not None


def mounts_below(directory: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines if line.split()[4].startswith(f"{directory}/")]


def remove_cgroup(cgroup: Path) -> None:
    if not cgroup.exists():
        return
    if (cgroup / "cgroup.kill").exists():
        (cgroup / "cgroup.kill").write_text("1")
    for below in sorted((path for path in cgroup.rglob("*/") if path.is_dir()), reverse=True):
        retry_rmdir(below)
    retry_rmdir(cgroup)


def retry_rmdir(directory: Path) -> None:
    for _ in range(100):
        try:
            directory.rmdir()
            return
        except OSError:
            time.sleep(0.02)


def remove_pins(directory: Path) -> None:
    if not directory.exists():
        return
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    directory.rmdir()
