"""The repository behind git.example.com/demo.git: the same commits, with the same hashes, in every world."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .kernel import run

GIT_ENVIRONMENT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": "/nonexistent"}
AUTHOR = "Ada Example <ada@example.com>"
FIRST_COMMIT = 1_700_000_000  # seconds since 1970; each later one comes a minute after

README = "# demo\n\nA small program to clone, build and change.\n\n    make && ./hello\n"
MAKEFILE = "CFLAGS ?= -O2 -Wall\n\nhello: hello.c\n\t$(CC) $(CFLAGS) -o $@ $<\n\nclean:\n\trm -f hello\n\n.PHONY: clean\n"
HELLO = '#include <stdio.h>\n\nint main(void)\n{\n\tputs("hello, %s");\n\treturn 0;\n}\n'
COUNT = "#!/usr/bin/env python3\nimport sys\n\nfor number, line in enumerate(sys.stdin, 1):\n    print(number, line, end='')\n"

# (branch, message, {path: (mode, content)})
COMMITS: tuple[tuple[str, str, dict[str, tuple[str, str]]], ...] = (
    ("main", "Say what this is", {"README.md": ("644", README)}),
    ("main", "Greet the world", {"hello.c": ("644", HELLO % "world"), "Makefile": ("644", MAKEFILE)}),
    ("main", "Count lines", {"count.py": ("755", COUNT)}),
    ("greeting", "Greet the fold", {"hello.c": ("644", HELLO % "fold")}),
)


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}\n"


def _stream() -> Iterator[str]:
    """The input of git fast-import: one process writes all of it."""
    branches: set[str] = set()
    for number, (branch, message, files) in enumerate(COMMITS):
        yield f"commit refs/heads/{branch}\ncommitter {AUTHOR} {FIRST_COMMIT + 60 * number} +0000\n{_data(message)}"
        if branch not in branches and branches:
            yield "from refs/heads/main\n"
        branches.add(branch)
        for path, (mode, content) in files.items():
            yield f"M 100{mode} inline {path}\n{_data(content)}"
    yield f"tag v1.0\nfrom refs/heads/main\ntagger {AUTHOR} {FIRST_COMMIT + 3600} +0000\n{_data('The first one')}done\n"


def create(directory: Path) -> None:
    path = str(directory / "demo.git")
    init = ["git", "init", "--quiet", "--bare", "--template=", "--initial-branch=main", path]
    run(init, "create demo.git", extra=GIT_ENVIRONMENT)
    fill = ["git", f"--git-dir={path}", "fast-import", "--quiet", "--done"]
    run(fill, "fill demo.git", "".join(_stream()), GIT_ENVIRONMENT)
