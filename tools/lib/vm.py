"""tools/vm: the suites on Debian's kernels, each in a virtual machine with cgroup v2 alone. See docs/kernels.md."""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import vm_image  # noqa: E402
import vm_report  # noqa: E402
import vm_run  # noqa: E402
from vm_kernels import KERNELS, Kernel, Unpacked, VmError, fetch  # noqa: E402

TREE = Path(__file__).resolve().parents[2]
TIME_SCALE = 20  # what the tests' own deadlines and CTest's time-outs are multiplied with: TCG is 8 to 11 times slower
MEMORY = "2G"

# What is run where. Not worth its time, or not about the kernel: with the reason, which docs/kernels.md repeats.
SUITES = ("limits", "cagebreak", "crash", "relay")
UNASKED = ("limits", "cagebreak")  # the kernel interfaces of the others are the same on all three
LEFT_OUT = {
    "cagebreak.clients": "Go, Java and Node clients: not about the kernel, and 200 MB of packages",
    "cagebreak.image": "compilers and Node in the image 'host': not about the kernel, and 400 MB of packages",
    "cagebreak.clients": "how Node, Go and Java take a refusal: not about the kernel, and 300 MB of packages",
}


def say(text: str) -> None:
    print(f"vm: {text}", flush=True)


def wanted_tests(build: Path, labels: list[str], only: list[str]) -> list[vm_image.Test]:
    found = [test for test in vm_image.tests(build, labels) if test.name not in LEFT_OUT]
    if only:
        unknown = set(only) - {test.name for test in found}
        if unknown:
            raise VmError(f"no test {', '.join(sorted(unknown))} in {', '.join(labels)}: 'ctest -N' lists them")
        found = [test for test in found if test.name in only]
    if not found:
        raise VmError(f"the build {build} has no tests of {', '.join(labels)}: build it first")
    return found


class Factory:
    """Makes the images of one run, and the machines from them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.build = Path(options.build).resolve()
        self.cache = TREE / "build/vm"
        self.cache.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.cache / "lock", "w")  # until this process ends
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise VmError("another tools/vm runs on build/vm: wait for it, or end it") from None
        self.work = self.cache / "run"
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        self.root = self.work / "root"
        self.tests = wanted_tests(self.build, options.suite or list(UNASKED), options.only)

    def prepare(self) -> None:
        tar = vm_image.root_tar(self.cache, self.build, self.tests)
        vm_image.unpack_root(tar, self.root)
        vm_image.add_suite(self.root, self.build, self.tests)

    def boot(self, kernel: Unpacked) -> vm_run.Outcome:
        name, tests = kernel.kernel.name, self.tests
        work = self.work / name
        work.mkdir()
        initrd = vm_image.initrd(kernel, work)
        environment = {"PINFOLD_TIME_SCALE": str(TIME_SCALE)}
        if not self.options.only:  # the acts of a suite are counted where all of it runs
            environment["PINFOLD_TEST_ACTS"] = "/suite/results/acts"
        image = vm_image.image(kernel, self.root, work, tests, TIME_SCALE, environment)
        say(f"{name}: {kernel.release} with {len(tests)} tests")

        def tell(test: str, result: str, seconds: float) -> None:
            say(f"{name}: {test} {result} ({seconds:.0f} s)")

        outcome = vm_run.boot(kernel, initrd, image, work, len(tests), self.options.minutes * 60, MEMORY, tell)
        if not self.options.keep:
            image.unlink()
        return outcome


def run_all(options: argparse.Namespace) -> list[vm_run.Outcome]:
    begin = time.monotonic()
    kernels = [kernel for kernel in KERNELS if not options.kernel or kernel.name in options.kernel]
    factory = Factory(options)
    unpacked = [fetch(kernel, factory.cache, options.renew) for kernel in kernels]
    factory.prepare()
    say(f"prepared after {time.monotonic() - begin:.0f} s")
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(factory.boot, unpacked))
    if not options.keep:
        shutil.rmtree(factory.root)
    say(f"all done after {(time.monotonic() - begin) / 60:.1f} minutes")
    return outcomes


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/vm", description=__doc__)
    parser.add_argument("kernel", nargs="*", metavar="KERNEL", help=f"of {', '.join(k.name for k in KERNELS)}; all of them")
    parser.add_argument("--build", default="build/release", help=argparse.SUPPRESS)
    parser.add_argument("-L", "--suite", action="append", default=[], metavar="LABEL", choices=SUITES,
                        help=f"a suite, of {', '.join(SUITES)}; without it {' and '.join(UNASKED)}")
    parser.add_argument("--only", action="append", default=[], metavar="TEST", help="one test by its CTest name")
    parser.add_argument("--jobs", type=int, default=3, help="machines at a time (3)")
    parser.add_argument("--minutes", type=int, default=30, help="after which a machine counts as hung (30)")
    parser.add_argument("--renew", action="store_true", help="look for newer kernels now, not once a week")
    parser.add_argument("--keep", action="store_true", help="keep the images in build/vm/run")
    parser.add_argument("--write-docs", action="store_true", help="write the table into docs/kernels.md")
    options = parser.parse_args(arguments)
    if unknown := set(options.kernel) - {kernel.name for kernel in KERNELS}:
        parser.error(f"no kernel {', '.join(sorted(unknown))}; there are {', '.join(k.name for k in KERNELS)}")
    return options


def main() -> int:
    options = parse(sys.argv[1:])
    os.umask(0o022)
    try:
        outcomes = run_all(options)
        labels = [label for label in SUITES if any(test["label"] == label for o in outcomes for test in o.tests)]
        if options.write_docs:
            vm_report.write_docs(TREE / "docs/kernels.md", outcomes, labels)
    except VmError as problem:
        sys.exit(f"vm: {problem}")
    return vm_report.show(outcomes, labels)


if __name__ == "__main__":
    sys.exit(main())
