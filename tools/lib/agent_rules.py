"""What the agent refuses or writes for a cage, as places in its sources that can be left out: in the proxy socket and in the
model's gateway. Each is compiled without, linked in front of its library, and the cases that should notice are run.

A place whose text is not found any more is an error, not a gap."""
import html
import json
import pathlib
import re
import shlex
import subprocess
import typing

PROXY, GATEWAY = "userspace/agent/proxy/", "userspace/agent/gateway/"
ASK, SOCKET, UPSTREAMS = ("unit_tests", "cage_ask_test"), ("proxy_tests", "proxy_test"), ("unit_tests", "upstreams_test")


class Rule(typing.NamedTuple):
    name: str
    file: str
    text: str
    instead: str
    suites: tuple  # (binary, file of its cases): the first whose cases fail is enough


def rule(name, file, text, instead, *suites):
    return Rule(f"agent {name}", file, text, instead, suites)


RULES = (
    rule("proxy: the cage is named on what goes on", PROXY + "cage_ask.cpp", r"X-Shrooms-Caged: {}\r\n", "", ASK, SOCKET),
    rule("proxy: the cage's name cannot end the line", PROXY + "cage_ask.cpp", "host, percent_encoded(asker.session)",
         "host, asker.session", ASK),
    rule("proxy: a sealed cage asks nothing", PROXY + "cage_ask.cpp",
         "(asker.sealed && *kind != proxy_kind::task_update)", "false", ASK, SOCKET),
    rule("proxy: only known machines", PROXY + "cage_ask.cpp",
         'if (!which) return refuse(403, "no machine of this mesh has the address " + made.addr);',
         "if (!which) return made;", ASK),
    rule("proxy: nothing without the machines", PROXY + "cage_ask.cpp",
         'if (machines.empty()) return refuse(502, "this agent does not know its machines");',
         "if (machines.empty()) return made;", ASK),
    rule("proxy: a report at its own machine only", PROXY + "cage_ask.cpp",
         "made.kind == proxy_kind::task_update && !made.own", "false", ASK),
    rule("proxy: one segment behind a2a", PROXY + "cage_ask.cpp", 'is(0, "a2a") && at.size() <= 2', 'is(0, "a2a")', ASK),
    rule("proxy: of tasks the report only", PROXY + "cage_ask.cpp",
         'at.size() == 3 && is(0, "v1") && is(1, "tasks")', 'at.size() >= 3 && is(0, "v1") && is(1, "tasks")', ASK),
    rule("proxy: of a session's routes drop only", PROXY + "cage_ask.cpp", ' && is(3, "drop")', "", ASK),
    rule("proxy: sessions are read and not written", PROXY + "cage_ask.cpp", 'if (method == "GET") {', "{", ASK, SOCKET),
    rule("proxy: the methods of A2A", PROXY + "cage_ask.cpp",
         "if (std::ranges::find(rpc_methods, method) == rpc_methods.end())", "if (false)", ASK),
    rule("proxy: who asks is written", PROXY + "cage_ask.cpp",
         'metadata["shrooms/from"] = fmt::format("{}/{}", self, asker.session);', "(void)metadata, (void)self;", ASK, SOCKET),
    rule("proxy: whose task is written", PROXY + "cage_ask.cpp", 'whole["session"] = asker.session;', "(void)asker;", ASK,
         SOCKET),
    rule("proxy: no dots in a path", PROXY + "cage_ask.cpp", ' || made == ".."', "", ASK),
    rule("proxy: no separators, marks and second escapes in a segment", PROXY + "cage_ask.cpp",
         r"c == '/' || c == '\\' || c == '?' || c == '#' || c == '%'", "false", ASK),
    rule("proxy: no control characters in a segment", PROXY + "cage_ask.cpp", "byte < 0x20 || byte == 0x7f || ", "", ASK),
    rule("proxy: no empty segment", PROXY + "cage_ask.cpp", "if (made.empty() || made", "if (made", ASK),
    rule("proxy: a segment is encoded anew", PROXY + "cage_ask.cpp", '"/" + percent_encoded(each)', '"/" + each', ASK),
    rule("proxy: no query where none belongs", PROXY + "cage_ask.cpp",
         "!query.empty() && *kind != proxy_kind::read && *kind != proxy_kind::drop", "false", ASK),
    rule("proxy: a query without spaces and marks", PROXY + "cage_ask.cpp", "!segments || !is_query(query)", "!segments", ASK),
    rule("proxy: JSON is judged before it is built", PROXY + "cage_ask.cpp",
         "if (const auto wrong = read_json_strictly(body, whole))",
         "whole = json::parse(body, nullptr, false); if (const char* wrong = nullptr)", ASK),
    rule("proxy: no key twice", PROXY + "json_shape.cpp", "if (!is_new) return stop", "if (false) return stop", ASK),
    rule("proxy: no deep nesting", PROXY + "json_shape.cpp", "if (levels_.size() >= deepest)", "if (false)", ASK),
    rule("proxy: not too many values", PROXY + "json_shape.cpp", "++values_ <= most_values || ", "true || ", ASK),
    rule("proxy: the body's length is given once", PROXY + "ask_reader.cpp", "if (lengths + encodings > 1)", "if (false)",
         SOCKET),
    rule("proxy: a coding is chunked or none", PROXY + "ask_reader.cpp",
         'encodings == 1 && text_of(fields, beast::http::field::transfer_encoding) != "chunked"', "false", SOCKET),
    rule("proxy: one Host", PROXY + "ask_reader.cpp", "fields.count(beast::http::field::host) > 1", "false", SOCKET),
    rule("proxy: HTTP/1.1 only", PROXY + "ask_reader.cpp", "message.version() != 11", "false", SOCKET),
    rule("proxy: a head has a limit", PROXY + "ask_reader.cpp", "parser.header_limit(longest_head);",
         "parser.header_limit(1U << 30U);", SOCKET),
    rule("proxy: an answer is its asker's", PROXY + "peer.cpp", "parser && parser->is_done() && parser->keep_alive()", "parser",
         SOCKET),
    rule("proxy: a file has a limit", PROXY + "proxy.cpp", "is_file && length.value_or(0) > largest_drop", "false", SOCKET),
    rule("proxy: a door is closed for who is inside", PROXY + "proxy.cpp",
         "for (visit* each : gone.visits) each->hang_up();", "", SOCKET),
    rule("gateway: what of the provider may be used", GATEWAY + "upstreams.cpp",
         'if (std::ranges::find(known, path) == known.end() && !path.starts_with("/v1/models/"))', "if (false)", UPSTREAMS),
    rule("gateway: no way up in a path", GATEWAY + "upstreams.cpp", ' || path.find("/..") != std::string_view::npos', "",
         UPSTREAMS),
    rule("gateway: no escaped dots", GATEWAY + "upstreams.cpp", 'lowered(path).find("%2e") != std::string::npos || ', "",
         UPSTREAMS),
    rule("gateway: no escaped separators", GATEWAY + "upstreams.cpp", 'lowered(path).find("%2f") != std::string::npos', "false",
         UPSTREAMS),
    rule("gateway: no credential without TLS", GATEWAY + "upstreams.cpp",
         'if (!made.url.starts_with("https://"))\n        throw', "if (false)\n        throw", UPSTREAMS),
    rule("gateway: no secret that others can read", GATEWAY + "upstreams.cpp", "if ((seen.st_mode & 077U) != 0)", "if (false)",
         UPSTREAMS),
)


def rules(tree):
    for each in RULES:
        count = squeezed((tree / each.file).read_text(encoding="utf-8"))[0].count(squeezed(each.text)[0])
        if count != 1:
            raise ValueError(f"{each.file}: the place of '{each.name}' stands there {count} times: {each.text}")
    return list(RULES)


def run(binary, file, environment, seconds):
    """What failed and what ran of the cases of this file, by Catch's report; a case in which the run broke off has failed."""
    try:
        said = subprocess.run([binary, "-r", "xml", "--filenames-as-tags", f"[#{file}]"], env=environment, timeout=seconds,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
    cases = re.split(r"<TestCase name=", said.decode(errors="replace"))[1:]
    titles = [html.unescape(re.match(r'"([^"]*)"', case)[1]) for case in cases]
    return [title for title, case in zip(titles, cases) if '<OverallResult success="true"' not in case], titles


def squeezed(text):
    """Without white space, which clang-format moves; and where each character that stays was."""
    places = [i for i, c in enumerate(text) if not c.isspace()]
    return "".join(text[i] for i in places), places


def without(tree, what, file):
    text = file.read_text(encoding="utf-8")
    packed, places = squeezed(text)
    wanted = squeezed(what.text)[0]
    at = packed.index(wanted)
    return text[:places[at]] + what.instead + text[places[at + len(wanted) - 1] + 1:]


def binary_without(tree, build, what, suite, folder):
    """The suite's binary with this place left out; it is made in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / pathlib.Path(what.file).name
    source.write_text(without(tree, what, tree / what.file), encoding="utf-8")
    known = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    command = next(each for each in known if each["file"] == str(tree / what.file))
    words = shlex.split(command["command"])
    words = ["-w" if word == "-Werror" else word for word in words]
    words[words.index("-o") + 1] = str(source.with_suffix(".o"))
    words[words.index("-c") + 1] = str(source)
    words = [word for i, word in enumerate(words) if word != "-MD" and word not in ("-MT", "-MF")
             and words[i - 1] not in ("-MT", "-MF")]
    subprocess.run(words, cwd=command["directory"], check=True)
    link = subprocess.run(["ninja", "-C", build, "-t", "commands", "-s", f"tests/{suite}"], capture_output=True, text=True,
                          check=True).stdout.strip().splitlines()[-1]
    words = shlex.split(link.removeprefix(": && ").split(" && ")[0])
    at = words.index("-o") + 1
    binary = folder / suite
    words[at:at + 1] = [str(binary), str(source.with_suffix(".o"))]  # before the library, which is then not asked for it
    subprocess.run(words, cwd=build, check=True)
    return binary
