"""The table of tools/vm: kernel, suite, result; and what is to be known about each failure."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from vm_kernels import VmError
from vm_run import Outcome

BEGIN, END = "<!-- results: written by tools/vm --write-docs -->", "<!-- end of results -->"
LAST_LINES = 30


def cell(outcome: Outcome, label: str) -> str:
    counts = [(outcome.count(label, result), result) for result in ("passed", "failed", "timeout", "skipped")]
    return ", ".join(f"{count} {result}" for count, result in counts if count) or "not run"


def rows(outcomes: list[Outcome], labels: list[str]) -> list[list[str]]:
    table = [["kernel", "package", *labels, "machine", "minutes"]]
    for outcome in outcomes:
        table.append([outcome.kernel.release, outcome.kernel.package, *(cell(outcome, label) for label in labels),
                      "failed" if outcome.problems else "ended as it should", f"{outcome.seconds / 60:.1f}"])
    return table


def _show_failures(outcome: Outcome) -> None:
    name = outcome.kernel.kernel.name
    for problem in outcome.problems:
        print(f"\n{name}: {problem}")
    for test in outcome.failed:
        log = outcome.results / f"{test['name']}.log"
        print(f"\n{name}: {test['name']}: {test['result']} (exit code {test['code']}); the whole log is {log}")
        if log.exists():
            print("\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:]))


def show(outcomes: list[Outcome], labels: list[str]) -> int:
    for outcome in outcomes:
        _show_failures(outcome)
    table = rows(outcomes, labels)
    widths = [max(map(len, column)) for column in zip(*table)]
    print()
    for row in table:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
    passed, skipped = (sum(o.count(label, what) for o in outcomes for label in labels) for what in ("passed", "skipped"))
    failed = sum(len(o.failed) + len(o.problems) for o in outcomes)
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


def write_docs(page: Path, outcomes: list[Outcome], labels: list[str]) -> None:
    text = page.read_text()
    if BEGIN not in text or END not in text:
        raise VmError(f"cannot write the results into {page}: it has no lines '{BEGIN}' and '{END}'")
    table = rows(outcomes, labels)
    lines = [f"Run on {date.today().isoformat()}.", "", *(f"| {' | '.join(row)} |" for row in table)]
    lines.insert(3, "|" + " --- |" * len(table[0]))
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}")
