// The proxy socket of a session's real cage: what the program inside sees of it, and every other way to an agent.

#include "sessions/session_fixture.hpp"
#include "support/catch.hpp"
#include "whole/whole_machine.hpp"

#include <fmt/format.h>
#include <tuple>

namespace pinfold::test {
namespace {

using Catch::Matchers::ContainsSubstring;

whole_machine& here() {
    static whole_machine machine;
    return machine;
}

// The agent is started by the CLI's first word; then it is spoken to as an app does.
api_client api() {
    REQUIRE(here().run({"ls"}).status == 0);
    return api_client(here().home() / "run/pinfold/api.sock");
}

// What a python script says that runs as the session "heron".
std::string said(const std::string& script, const json& cage) {
    const api_client to = api();
    std::ignore = to.remove("/v1/sessions/heron");
    const answered made = to.post("/v1/sessions", {{"name", "heron"},
                                                   {"dir", here().project().native()},
                                                   {"harness", "command"},
                                                   {"command", {"python3", "-c", script}},
                                                   {"cage", cage}});
    CAPTURE(made.body.dump());
    REQUIRE(made.status == 201);
    event_reader events = to.events("?after=0");
    REQUIRE(to.send("go").status == 202);
    return events.wait_for_claude("assistant")["data"]["message"]["content"][0]["text"];
}

// HTTP over the socket of this cage: status and body.
constexpr const char* ask = R"(
import json, os, socket
def ask(method, path, body=None, fields=()):
    text = json.dumps(body) if body is not None else ''
    s = socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect(os.environ['SHROOMS_AGENT_PROXY'])
    head = [f'{method} {path} HTTP/1.1', 'Host: cage', 'Connection: close', 'Content-Type: application/json', *fields]
    s.sendall(('\r\n'.join(head) + f'\r\nContent-Length: {len(text)}\r\n\r\n' + text).encode())
    got = b''
    while part := s.recv(65536): got += part
    head, _, rest = got.partition(b'\r\n\r\n')
    return int(head.split()[1]), rest.decode()
)";

} // namespace

TEST_CASE(
    "a session in a cage learns of its machine and its sessions over its socket, and changes nothing there") {
    const std::string text = said(std::string(ask) + R"(
said = []
def print(*words): said.append(' '.join(map(str, words)))
status, machines = ask('GET', '/machines')
own = json.loads(machines)[0]['addr']
print(status, ask('GET', f'/peer/{own}/v1/sessions')[0])
for method, path in (('POST', 'v1/sessions'), ('DELETE', 'v1/sessions/heron'), ('POST', 'v1/sessions/heron/settings'),
                     ('POST', 'v1/sessions/heron/cage'), ('POST', 'v1/cages'), ('GET', 'v1/denials')):
    print(method, path, ask(method, f'/peer/{own}/{path}', {}, ['X-Shrooms-Caged: none'])[0])
try: os.unlink(os.environ['SHROOMS_AGENT_PROXY']); print('unlinked')
except OSError as error: print('unlink', error.errno)
try: open('/run/shrooms-agent/x', 'w'); print('written')
except OSError as error: print('write', error.errno)
import sys; sys.stdout.write('; '.join(said))
)",
                                  json::object());
    CHECK(text == "200 200; POST v1/sessions 403; DELETE v1/sessions/heron 403; "
                  "POST v1/sessions/heron/settings 403; POST v1/sessions/heron/cage 403; POST v1/cages 403; "
                  "GET v1/denials 403; unlink 30; write 30");
    CHECK(api().info()["name"] == "heron");
}

TEST_CASE("port 7387 and the owner's own socket are out of a cage's reach, its proxy is not") {
    for (const json& cage : {json::object(), json{{"sealed", true}}}) {
        if (cage.contains("sealed")) continue; // only for Claude Code
        const std::string text = said(std::string(ask) +
                                          fmt::format(R"(
def tried(act):
    try: act(); return 'reached'
    except OSError as error: return str(error.errno)
def tcp(family, to):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(5); s.connect(to)
def unix(path):
    s = socket.socket(socket.AF_UNIX); s.connect(path)
print(tried(lambda: tcp(socket.AF_INET, ('127.0.0.1', 7387))), tried(lambda: tcp(socket.AF_INET6, ('::1', 7387))),
      tried(lambda: tcp(socket.AF_INET, ('93.184.216.34', 7387))), tried(lambda: unix('{}')), ask('GET', '/machines')[0])
)",
                                                      (here().home() / "run/pinfold/api.sock").native()),
                                      cage);
        CHECK_THAT(text, ContainsSubstring(" 200"));
        CHECK(text.find("reached") == std::string::npos);
    }
}

TEST_CASE("the MCP server is in the cage, and lists the agents that can be asked") {
    const std::string text = said(R"(
import json, subprocess
lines = [{'jsonrpc': '2.0', 'id': 1, 'method': 'initialize', 'params': {'protocolVersion': '2025-06-18'}},
         {'jsonrpc': '2.0', 'method': 'notifications/initialized'},
         {'jsonrpc': '2.0', 'id': 2, 'method': 'tools/call', 'params': {'name': 'list_agents', 'arguments': {}}}]
run = subprocess.run(['/run/pinfold-mcp'], input='\n'.join(map(json.dumps, lines)) + '\n', capture_output=True, text=True)
answers = [json.loads(line) for line in run.stdout.splitlines()]
print(len(answers), answers[0]['result']['serverInfo']['name'], answers[1]['result']['content'][0]['text'])
)",
                                  json::object());
    CHECK_THAT(text, ContainsSubstring("2 shrooms "));
    CHECK_THAT(text, ContainsSubstring("/heron\tcommand, "));
}

} // namespace pinfold::test
