"""Boots one virtual machine and says what came of its tests."""

from __future__ import annotations

import json
import re
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from vm_kernels import Unpacked, VmError, run

BOOT_SECONDS = 180  # five are usual
BOOT_TRIES = 3  # on a busy machine a kernel sometimes stops while it brings up its second CPU, before any of ours runs


@dataclass
class Outcome:
    """Of one kernel. It is right only if QEMU's exit code, the line of process 1 and the results all say so."""

    kernel: Unpacked
    seconds: float = 0
    tests: list[dict[str, object]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # of the machine itself, beside the tests
    results: Path = Path()

    @property
    def failed(self) -> list[dict[str, object]]:
        return [test for test in self.tests if test["result"] in ("failed", "timeout")]

    def count(self, label: str, result: str) -> int:
        return sum(test["label"] == label and test["result"] == result for test in self.tests)


def _command(kernel: Unpacked, initrd: Path, image: Path, log: Path, memory: str) -> list[str]:
    """TCG in one thread: faster than several for all that wakes up across CPUs (docs/kernels.md). Without no_timer_check a
    kernel on a busy host may find that its timer does not work, and panics."""
    return ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-M", "q35",
            "-cpu", "max", "-smp", "2", "-m", memory, "-accel", "tcg,thread=single", "-kernel", str(kernel.vmlinuz),
            "-initrd", str(initrd), "-append", "console=ttyS0 panic=-1 quiet loglevel=3 mitigations=off no_timer_check",
            "-drive", f"file={image},if=none,id=d,format=raw,cache=unsafe", "-device", "virtio-blk-pci,drive=d",
            "-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-serial", f"file:{log}"]


class NotBooted(Exception):
    """The kernel did not get as far as process 1."""


def _follow(process: subprocess.Popen[bytes], log: Path, until: float, tell) -> int | None:
    """Tells each test's end as it comes. None where the time is up: the machine hangs."""
    read, boot_until = 0, time.monotonic() + BOOT_SECONDS
    while True:
        code = process.poll()
        text = log.read_text(errors="replace") if log.exists() else ""
        lines = text[read:].splitlines(keepends=True)
        for line in lines:
            if not line.endswith("\n"):
                break
            read += len(line)
            if found := re.search(r"VM-TEST (\S+) (\S+) (\S+)", line):
                tell(found[1], found[2], float(found[3]))
        if code is not None and "VM-UP" not in text:
            raise NotBooted
        if code is not None:
            return code
        if "VM-UP" not in text and time.monotonic() > boot_until:
            raise NotBooted
        if time.monotonic() > until:
            process.kill()
            process.wait()
            return None
        time.sleep(1)


def _fetch_results(image: Path, above: Path) -> None:
    """Makes the folder results in `above`; no mount is needed."""
    run(["debugfs", "-R", f"rdump /suite/results {above}", str(image)], "read the results out of the image")


def _judge(outcome: Outcome, code: int | None, log: str, wanted: int, seconds: int) -> None:
    said = re.findall(r"GUEST-EXIT: (\d+)", log)
    if code is None:
        outcome.problems.append(f"the machine did not end within {seconds} s")
    elif not said:
        outcome.problems.append(f"process 1 told no result (QEMU ended with {code}): see console.log")
    elif code != 2 * int(said[-1]) + 1:
        outcome.problems.append(f"process 1 said {said[-1]}, but QEMU ended with {code}")
    elif int(said[-1]) != min(len(outcome.failed), 90):
        outcome.problems.append(f"process 1 said {said[-1]}, but {len(outcome.failed)} results are failures")
    if len(outcome.tests) != wanted:
        outcome.problems.append(f"{len(outcome.tests)} of {wanted} tests have a result")


def boot(kernel: Unpacked, initrd: Path, image: Path, work: Path, wanted: int, seconds: int, memory: str, tell) -> Outcome:
    log = work / "console.log"
    outcome = Outcome(kernel, results=work / "results")
    begin = time.monotonic()
    code: int | None = None
    for left in reversed(range(BOOT_TRIES)):
        log.unlink(missing_ok=True)
        process = subprocess.Popen(_command(kernel, initrd, image, log, memory), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=(work / "qemu.log").open("wb"))
        try:
            code = _follow(process, log, begin + seconds, tell)
            break
        except NotBooted:
            print(f"vm: {kernel.release} did not get as far as process 1; {left} tries left", flush=True)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    outcome.seconds = time.monotonic() - begin
    try:
        _fetch_results(image, work)
        outcome.tests = json.loads((outcome.results / "results.json").read_text())
    except (VmError, OSError, ValueError) as problem:
        outcome.problems.append(f"no results came out: {problem}")
    _judge(outcome, code, log.read_text(errors="replace") if log.exists() else "", wanted, seconds)
    return outcome
