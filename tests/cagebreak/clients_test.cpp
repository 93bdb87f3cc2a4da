// Programs that people use, each with its own way from a name to a connection: a refused address costs them nothing where
// another one is allowed, and where none is they fail.
#include "cagebreak/owner_place.hpp"
#include "cagebreak/refusal.hpp"

namespace pinfold::test {
namespace {

using command = std::vector<std::string>;

// Names with two addresses: of the first AAAA is refused, of the second A, of the third both. A cage's own IPv6 address is a
// ULA, so libc and Go put A first.
const std::string no_v6 = "no6.example.com", no_v4 = "no4.example.com", neither = "inside.example.com";
constexpr aim refused_v6{"lan", "2a01:4f8:77:1::10", 0}, refused_v4{"lan", "192.168.1.10", 0};
constexpr aim allowed_v6{"lan", "2606:2800:220:1::34", 80}, allowed_v4{"lan", "93.184.216.34", 80};

struct client {
    const char* name;
    std::function<command(const std::string& host)> fetch;
    const char* heard = "hello from the internet"; // what it prints then
    bool takes_first = false;                      // tries the first address and no other, in a cage or not
};

command node(const char* code, const std::string& host, const char* option = "--no-warnings") {
    return {"node", option, "-e", code, "http://" + host + "/"};
}

constexpr const char* node_get =
    "require('http').get(process.argv[1], answer => answer.pipe(process.stdout))";
constexpr const char* node_fetch =
    "fetch(process.argv[1]).then(answer => answer.text()).then(text => process.stdout.write(text))";

constexpr const char* java_source = R"(
import java.io.*;
import java.net.*;
import java.net.http.*;

public class Fetch {
    public static void main(String[] arguments) throws Exception {
        URI site = URI.create("http://" + arguments[1] + "/");
        switch (arguments[0]) {
            case "url" -> site.toURL().openStream().transferTo(System.out);
            case "client" -> System.out.print(HttpClient.newHttpClient().send(
                HttpRequest.newBuilder(site).build(), HttpResponse.BodyHandlers.ofString()).body());
            case "each" -> {
                IOException last = null;
                for (InetAddress address : InetAddress.getAllByName(arguments[1])) {
                    try (Socket socket = new Socket(address, 80)) {
                        socket.getOutputStream().write(
                            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".getBytes());
                        socket.getInputStream().transferTo(System.out);
                        return;
                    } catch (IOException refused) {
                        last = refused;
                    }
                }
                throw last;
            }
        }
    }
}
)";

// The project holds Fetch.class.
command java(const char* how, const std::string& host) {
    return {"java", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv6Addresses=system", "Fetch", how, host};
}

// Go's own resolver, and libc's.
command go(const char* resolver, const std::string& host) {
    return {"env", std::string("GODEBUG=netdns=") + resolver, "gron", "http://" + host + "/when"};
}

const client clients[] = {
    {"curl",
     [](const std::string& host) {
         return command{"curl", "-sS", "--max-time", "20", "http://" + host + "/"};
     }},
    {"Python",
     [](const std::string& host) {
         return command{"python3", "-I", "-c",
                        "import urllib.request\nprint(urllib.request.urlopen('http://" + host +
                            "/').read().decode())"};
     }},
    {"Node, http", [](const std::string& host) { return node(node_get, host); }},
    {"Node, fetch", [](const std::string& host) { return node(node_fetch, host); }},
    {.name = "Node as before version 20",
     .fetch =
         [](const std::string& host) { return node(node_get, host, "--no-network-family-autoselection"); },
     .takes_first = true},
    {"Go", [](const std::string& host) { return go("go", host); }, "json.unix_milliseconds"},
    {"Go with libc's resolver", [](const std::string& host) { return go("cgo", host); },
     "json.unix_milliseconds"},
    {.name = "Java, URL",
     .fetch = [](const std::string& host) { return java("url", host); },
     .takes_first = true},
    {.name = "Java, HttpClient",
     .fetch = [](const std::string& host) { return java("client", host); },
     .takes_first = true},
    {"Java, each address", [](const std::string& host) { return java("each", host); }},
    {"git",
     [](const std::string& host) { return command{"git", "ls-remote", "http://" + host + "/demo.git"}; },
     "refs/heads/main"},
    {"apt",
     [](const std::string& host) {
         return command{"sh", "-c",
                        "/usr/lib/apt/apt-helper -o Acquire::Retries=0 download-file http://" + host +
                            "/ /tmp/got && cat /tmp/got"};
     }},
};

void reaches(const client& who, const cage_kind& kind, const std::string& host, const aim& allowed) {
    cage_machine& machine = cage_machine::here();
    machine.net().reset();
    const probed reached = machine.run(kind, who.fetch(host));
    CAPTURE(host, reached.output, reached.errors);
    CHECK(reached.status == 0);
    CHECK(reached.says(who.heard));
    CHECK(arrived_at(allowed).bytes > 0);
    CHECK(arrived_at(refused_v6) == nothing);
    CHECK(arrived_at(refused_v4) == nothing);
}

void fails(const client& who, const cage_kind& kind) {
    cage_machine& machine = cage_machine::here();
    machine.net().reset();
    const probed refused = machine.run(kind, who.fetch(neither));
    CAPTURE(refused.output, refused.errors);
    CHECK(refused.status > 0);
    CHECK_FALSE(refused.errors.empty());
    CHECK(arrived_at(refused_v6) == nothing);
    CHECK(arrived_at(refused_v4) == nothing);
}

TEST_CASE("B19 each client goes on to the address that is allowed, and none takes a refusal for a success") {
    cage_machine& machine = cage_machine::here();
    const owner_place project(1000, 0755);
    project.file("Fetch.java", java_source);
    const cage_kind both = sealed().with_project(project.path(), project.owner());
    const cage_kind relay_alone = both.without(guard::destinations);
    const probed compiled = machine.run(
        both, {"java", "-m", "jdk.compiler/com.sun.tools.javac.Main", "Fetch.java"});
    CAPTURE(compiled.output, compiled.errors);
    REQUIRE(compiled.status == 0);
    for (const client& who : clients) {
        CAPTURE(who.name);
        reaches(who, both, no_v6, allowed_v4);
        reaches(who, both, no_v4, allowed_v6);
        fails(who, both);
        // The guard's EACCES lets libc and Go sort the refused address last. The relay alone refuses what is tried.
        if (!who.takes_first) reaches(who, relay_alone, no_v4, allowed_v6);
        fails(who, relay_alone);

        machine.net().reset(); // with neither wall it is the refused address that they take
        const probed let = machine.run(relay_alone.with_open_relay(), who.fetch(no_v4));
        CAPTURE(let.output, let.errors);
        CHECK(arrived_at(refused_v4).syns > 0);
        CHECK(arrived_at(allowed_v6) == nothing);
    }
}

} // namespace
} // namespace pinfold::test
