"""Each rule of the guards as a place in their sources that can be left out, and the eBPF object that is made without it.

What is found here is what the sources say: a rule that is new and that no pattern knows is an error, not a gap."""
import pathlib
import platform
import re
import shutil
import subprocess
import typing

GUARDS = ("destinations", "sockets", "options")  # steering.bpf.c is no guard: it is how the relay is reached
NO_RULES = ("denial.h", "policy.h")  # they name the rules

# (what it is, the text that goes, what stands in its place). In a function that allows, nothing is left out.
PATTERNS = [
    ("answers", r"(?<=return )PINFOLD_RULE_(?!NONE)\w+(?=;)", "PINFOLD_RULE_NONE"),
    ("answers", r"(?<=\? )PINFOLD_RULE_(?!NONE)\w+", "PINFOLD_RULE_NONE"),
    ("answers", r"(?<= : )PINFOLD_RULE_(?!NONE)\w+", "PINFOLD_RULE_NONE"),
    ("refuses", r"denial\.rule = PINFOLD_RULE_(?!NONE)\w+", "return ALLOW"),
    ("knows", r"pinfold_within\(\w+(?:\[0\])?, 0x\w+, \d+\)", "0"),
    ("knows", r"pinfold_within\(address, PINFOLD_OWN4, PINFOLD_OWN4_PREFIX\)", "0"),
    ("looks up", r"(?<=return found \? )found->rule", "PINFOLD_RULE_NONE"),
    ("asks", r"(?<=return ask \? )machine_rule[46]\(\w+\)", "PINFOLD_RULE_NONE"),
    ("reads inside", r"(?<=return )machine_rule4\(words\[3\]\)", "PINFOLD_RULE_NONE"),
    ("reads inside", r"(?<=return )pinfold_judge4\(words\[3\], mode\)", "PINFOLD_RULE_NONE"),
    ("refuses", r"(?<=return )protocol == IPPROTO_TCP", "1"),
    ("refuses", r"(?<=type != SOCK_DGRAM\)\n\t\treturn )0", "1"),
    ("refuses", r"(?<=return )family == AF_INET \? .*(?=;)", "1"),
    ("refuses", r"name == IP_OPTIONS(?= && size)", "0"),
    ("refuses", r"size > \(__s32\)sizeof\(struct in6_flowlabel_req\)", "0"),
    ("refuses", r"\tcase IPV6_\w+:\n(?=\tcase|\t\treturn size != 0)", ""),
    ("says", r"\tbpf_set_retval\(-EACCES\);", "\t;"),
    # Either of the two refuses: the kernel takes the errno that was set for a refusal, whatever is returned.
    ("refuses", r"bpf_set_retval\(-EACCES\);\s*return DENY(?=;)", "return ALLOW"),
    ("records", r"bpf_ringbuf_output\(&denials, denial, sizeof\(\*denial\), 0\)", "0"),
    ("counts", r"__sync_fetch_and_add\(lost, 1\)", "(void)lost"),
    ("names", r"denial->cage = policy->cage", "denial->cage = 0"),
    ("names", r"denial->pid = .*(?=;)", "denial->pid = 0"),
]
ALLOWING = ("pinfold_own4", "pinfold_own6", "pinfold_gateway4", "pinfold_gateway6", "pinfold_mapped",
            "pinfold_carries4", "ties_tcp_to_device")
# Shared with the relay, and asked by it alone: a guard lets a cage's own loopback pass before it asks. "relay this-host"
# leaves it out where it counts.
RELAYS_OWN = ("rule address.h: pinfold_never6 answers PINFOLD_RULE_THIS_HOST",)


class Rule(typing.NamedTuple):
    name: str
    file: str
    begin: int
    end: int
    instead: str


def function_at(text, place):
    heads = [m for m in re.finditer(r"^(?:PINFOLD_INLINE|static|int)\b[^;{]*?(\w+)\(", text, re.M) if m.start() < place]
    return heads[-1].group(1) if heads else "?"


def included_by(tree, file):
    """The guards that hold the file."""
    def reaches(source, seen):
        names = re.findall(r'#include [<"](?:pinfold/)?([\w.]+)[>"]', source.read_text(encoding="utf-8"))
        for path in (p for name in names for p in (tree / "bpf" / name, tree / "include/pinfold" / name) if p.exists()):
            if path not in seen:
                seen.add(path)
                reaches(path, seen)
        return seen

    return [guard for guard in GUARDS
            if file in {source := tree / f"bpf/{guard}.bpf.c", *reaches(source, set())}]


def without_comments(text):
    return re.sub(r"/\*.*?\*/", lambda comment: " " * len(comment.group()), text, flags=re.S)


def rules_of(tree, file):
    text = without_comments(file.read_text(encoding="utf-8"))
    covered = set()
    for kind, pattern, instead in PATTERNS:
        for match in re.finditer(pattern, text):
            covered.update(range(*match.span()))
            function = function_at(text, match.start())
            if function not in ALLOWING:
                what = re.sub(r"\s+", " ", match.group()).strip(" \t:;")
                yield Rule(f"rule {file.name}: {function} {kind} {what}", str(file.relative_to(tree)), *match.span(),
                           instead)
    for match in re.finditer(r"\bPINFOLD_RULE_(?!NONE\b|LAST\b)\w+", text):
        if match.start() not in covered and file.name not in NO_RULES:
            line = text.count("\n", 0, match.start()) + 1
            raise ValueError(f"{file}:{line}: no mutation leaves out {match.group()}")


def rules(tree):
    """All of them, in the order of the sources; two of one name are counted."""
    found = []
    for file in sorted([*tree.glob("include/pinfold/*.h"), *tree.glob("bpf/*.[ch]")]):
        if not included_by(tree, file):
            continue
        for rule in sorted(rules_of(tree, file), key=lambda rule: rule.begin):
            if rule.name in RELAYS_OWN:
                continue
            twins = sum(1 for each in found if each.name.split(" (#")[0] == rule.name)
            found.append(rule._replace(name=f"{rule.name} (#{twins + 1})" if twins else rule.name))
    return found


def objects_without(tree, rule, folder):
    """Compiles the guards that hold the rule, without it, into `folder`; the paths of their objects."""
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("bpf", "include"):
        shutil.copytree(tree / part, folder / part)
    changed = folder / rule.file
    text = changed.read_text(encoding="utf-8")
    changed.write_text(text[:rule.begin] + rule.instead + text[rule.end:], encoding="utf-8")
    made = []
    for guard in included_by(tree, tree / rule.file):
        target = folder / f"{guard}.bpf.o"
        subprocess.run(["clang-19", "-target", "bpf", "-mcpu=v3", "-g", "-O2", "-w", f"-I{folder}/include",
                        "-idirafter", f"/usr/include/{platform.machine()}-linux-gnu",
                        "-c", folder / "bpf" / f"{guard}.bpf.c", "-o", target], check=True)
        made.append(target)
    return made
