"""What the agent refuses or writes for a cage, as places in its sources that can be left out: in the proxy socket, in the
model's gateway, in its API, and in what it gives a cage and takes off what that left. Each is compiled without, linked in front of its library, into the cases that should notice
or into the agent that they start, and they are run.

A place whose text is not found any more is an error, not a gap."""
import html
import json
import pathlib
import re
import shlex
import subprocess
import typing

PROXY, GATEWAY, API = "userspace/agent/proxy/", "userspace/agent/gateway/", "userspace/agent/api/"
ASK, SOCKET, UPSTREAMS = ("unit_tests", "cage_ask_test"), ("proxy_tests", "proxy_test"), ("unit_tests", "upstreams_test")
REWRITE = ("unit_tests", "json_rewrite_test")
WEB, HELD, FILES = ("sessions_tests", "web_test"), ("tasks_tests", "held_test"), ("tasks_tests", "files_test")
GIT, REPORT = ("sessions_tests", "read_only_git_test"), ("sessions_tests", "report_test")
STARTS_AGENT = ("sessions_tests",)  # the others hold the agent's parts themselves


class Rule(typing.NamedTuple):
    name: str
    file: str
    text: str
    instead: str
    suites: tuple  # (binary, file of its cases): the first whose cases fail is enough


def rule(name, file, text, instead, *suites):
    return Rule(f"agent {name}", file, text, instead, suites)


RULES = (
    rule("proxy: the cage is named on what goes on", PROXY + "cage_ask.cpp",
         r"""made += "\r\nX-Shrooms-Caged: " + percent_encoded(asker.session) + "\r\n";""", r'made += "\r\n";', ASK, SOCKET),
    rule("proxy: the cage's name cannot end the line", PROXY + "cage_ask.cpp",
         "percent_encoded(asker.session)", "asker.session", ASK),
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
         "std::ranges::find(rpc_methods, made->method) == rpc_methods.end()", "false", ASK),
    rule("proxy: who asks is written", PROXY + "cage_ask.cpp", '.key = "shrooms/from"', '.key = "other"', ASK, SOCKET),
    rule("proxy: whose task is written", PROXY + "cage_ask.cpp", '.key = "session"', '.key = "other"', ASK, SOCKET),
    rule("proxy: a message is there to be written in", PROXY + "cage_ask.cpp", " && !made->placed", " && false", ASK),
    rule("proxy: the cage's own word is left out", PROXY + "json_rewrite.cpp",
         "last_key_ == ours_.key) return leave_out();", "last_key_ == ours_.key) return to().Key(text, size);", REWRITE, ASK),
    rule("proxy: a text stays within its quotes", PROXY + "json_rewrite.cpp", "if (needs_escape({text, size})) return", "if (false) return",
         REWRITE),
    rule("proxy: what is left out is judged", PROXY + "json_rewrite.cpp", "has_other_bytes_ = has_other_bytes_ || !is_utf8(scratch_);",
         "", REWRITE),
    rule("proxy: UTF-8 goes on, nothing else", PROXY + "json_rewrite.cpp", "has_other_bytes_ || !is_utf8(made_)", "false", REWRITE),
    rule("proxy: no end in the middle of a body, no control characters", PROXY + "json_rewrite.cpp",
         "if (has_control_characters(text))", "if (false)", REWRITE),
    rule("proxy: no number that one parser refuses", PROXY + "json_rewrite.cpp", "if (is_beyond_double({text, size}))", "if (false)",
         REWRITE),
    rule("proxy: no key twice", PROXY + "json_rewrite.cpp", "if (!is_new(last_key_))", "if (false)", REWRITE, ASK),
    rule("proxy: no key twice among many", PROXY + "json_rewrite.cpp", "return at.many.insert(key).second;",
         "return at.many.insert(key), true;", REWRITE),
    rule("proxy: no deep nesting", PROXY + "json_rewrite.cpp", "if (levels_.size() >= deepest_json)", "if (false)", REWRITE),
    rule("proxy: not too many values", PROXY + "json_rewrite.cpp", "++values_ <= most_json_values || ", "true || ", REWRITE),
    rule("proxy: no dots in a path", PROXY + "cage_ask.cpp", ' || made == ".."', "", ASK),
    rule("proxy: no separators, marks and second escapes in a segment", PROXY + "cage_ask.cpp",
         r"c == '/' || c == '\\' || c == '?' || c == '#' || c == '%'", "false", ASK),
    rule("proxy: no control characters in a segment", PROXY + "cage_ask.cpp", "byte < 0x20 || byte == 0x7f || ", "", ASK),
    rule("proxy: no empty segment", PROXY + "cage_ask.cpp", "if (made.empty() || made", "if (made", ASK),
    rule("proxy: a segment is encoded anew", PROXY + "cage_ask.cpp", '.append(percent_encoded(each))', '.append(each)', ASK),
    rule("proxy: no query where none belongs", PROXY + "cage_ask.cpp",
         "!query.empty() && *kind != proxy_kind::read && *kind != proxy_kind::drop", "false", ASK),
    rule("proxy: a query without spaces and marks", PROXY + "cage_ask.cpp", "!segments || !is_query(query)", "!segments", ASK),
    rule("API: no key twice", PROXY + "json_shape.cpp", "if (!is_new) return stop", "if (false) return stop", ASK),
    rule("API: no deep nesting", PROXY + "json_shape.cpp", "if (levels_.size() >= deepest_json)", "if (false)", ASK),
    rule("API: not too many values", PROXY + "json_shape.cpp", "++values_ <= most_json_values || ", "true || ", ASK),
    rule("proxy: the body's length is given once", PROXY + "ask_reader.cpp", "if (lengths + encodings > 1)", "if (false)",
         SOCKET),
    rule("proxy: a coding is chunked or none", PROXY + "ask_reader.cpp",
         'encodings == 1 && view(fields[beast::http::field::transfer_encoding]) != "chunked"', "false", SOCKET),
    rule("proxy: one Host", PROXY + "ask_reader.cpp", "fields.count(beast::http::field::host) > 1", "false", SOCKET),
    rule("proxy: HTTP/1.1 only", PROXY + "ask_reader.cpp", "message.version() != 11", "false", SOCKET),
    rule("proxy: a head has a limit", PROXY + "ask_reader.cpp", "parser.header_limit(longest_head);",
         "parser.header_limit(1U << 30U);", SOCKET),
    rule("proxy: an answer is its asker's", PROXY + "peer.cpp", "parser && parser->is_done() && parser->keep_alive()", "parser",
         SOCKET),
    rule("proxy: a file has a limit", PROXY + "proxy.cpp", "is_file && length.value_or(0) > largest_drop", "false", SOCKET),
    rule("proxy: a door is closed for who is inside", PROXY + "proxy.cpp",
         "for (visit* each : gone.visits) each->hang_up();", "", SOCKET),
    rule("API: a page's name for this machine is none", API + "browser.cpp",
         "std::ranges::find(*hosts, host_of(request.field(\"host\"))) == hosts->end()", "false", WEB),
    rule("API: the socket has two names", API + "browser.cpp", "hosts == nullptr && !is_own_host(request.field(\"host\"))", "false",
         WEB),
    rule("API: nothing with an Origin", API + "browser.cpp", 'request.fields.contains("origin")', "false", WEB),
    rule("API: nothing across sites", API + "browser.cpp", '!site.empty() && site != "none"', "false", WEB),
    rule("API: JSON and no form", API + "browser.cpp", 'type != "application/json"', "false", WEB),
    rule("API: a file has a type of its own", API + "browser.cpp", "if (is_simple(type))", "if (false)", WEB),
    rule("API: a cage changes nothing", API + "router.cpp", 'asked.request.fields.contains("x-shrooms-caged") &&', "false &&", WEB,
         HELD),
    rule("API: a cage reads tasks by name only", API + "tasks_api.cpp", "!caged_session(asked.request).empty()", "false", HELD),
    rule("API: a cage reports on its own tasks", API + "tasks_api.cpp", "(who.caged && who.session != worker)", "false", HELD),
    rule("API: a task's report names its session", API + "tasks_api.cpp", "(!claimed.empty() && claimed != worker)", "false", HELD),
    rule("API: a header without a name is a cage's", API + "router.cpp", 'asked.request.fields.contains("x-shrooms-caged")',
         '!asked.request.field("x-shrooms-caged").empty()', HELD),
    rule("API: a cage asks, looks and acknowledges only", API + "a2a_api.cpp", "if (who.caged && !is_for_cages)", "if (false)", HELD),
    rule("API: files of listed senders only", API + "drop_api.cpp", "!is_listed(to.settings().accept_files_from, who)", "false",
         FILES),
    rule("API: a cage's file needs both words", API + "drop_api.cpp",
         "!takes_from(to.settings(), to.options().cage.has_value(), who)", "false", FILES),
    rule("session: a git folder that is to be read-only", "userspace/agent/run_request.cpp",
         "for (bind_spec& each : read_only_git(spec.project)) spec.binds.push_back(std::move(each));", "", GIT),
    rule("session: settings and hooks that no cage makes", "userspace/agent/cages.cpp",
         "if (request.read_only_git) complete_git_folder(request.directory);", "", GIT),
    rule("report: set-user-ID bits are taken off", "userspace/agent/report/set_id_bits.cpp",
         "change_mode(place, seen.st_mode & ~set_id) != 0", "false", REPORT),
    rule("report: bits that were there before stay", "userspace/agent/report/set_id_bits.cpp",
         "if (known_.contains({one.path, stamp_of(seen)})) return;", "", REPORT),
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


def run_without(tests, suite, made, file, environment, seconds):
    """The same with what binary_without() made for this suite, which is in the folder `tests`."""
    if suite in STARTS_AGENT:
        return run(tests / suite, file, environment | {"PINFOLD_TEST_AGENT": str(made)}, seconds)
    return run(made, file, environment, seconds)


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
    """The suite's binary, or the agent that it starts, with this place left out; it is made in `folder`."""
    target = "bin/pinfold-agent" if suite in STARTS_AGENT else f"tests/{suite}"
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
    link = subprocess.run(["ninja", "-C", build, "-t", "commands", "-s", target], capture_output=True, text=True,
                          check=True).stdout.strip().splitlines()[-1]
    words = shlex.split(link.removeprefix(": && ").split(" && ")[0])
    at = words.index("-o") + 1
    binary = folder / pathlib.Path(target).name
    words[at:at + 1] = [str(binary), str(source.with_suffix(".o"))]  # before the library, which is then not asked for it
    subprocess.run(words, cwd=build, check=True)
    return binary
