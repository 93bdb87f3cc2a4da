// Completion as a person meets it: a real bash with the script that pinfold prints, and the TAB key.
#include "support/catch.hpp"
#include "support/cli_process.hpp"
#include "support/fake_keeper.hpp"

#include <algorithm>

using namespace pinfold;
using namespace pinfold::test;
using words = std::vector<std::string>;

namespace {

struct world {
    agent_fixture agent;
    fake_keeper keeper{agent.keeper_socket()};
    cli pinfold{agent.api()};

    world() {
        for (const char* name : {"heron", "hoopoe"}) {
            const std::string body = fmt::format(
                R"({{"name":"{}","dir":"{}","harness":"command","command":["cat"]}})", name,
                agent.directory().native());
            const unique_fd connection = connect_unix(agent.api());
            send_text(connection, agent_fixture::post_head("/v1/sessions", body) + body);
            REQUIRE(receive_all(connection, std::chrono::seconds(30)).starts_with("HTTP/1.1 201"));
        }
    }

    // What bash offers for the last of these words, by the function that it would call itself.
    [[nodiscard]] words offered(const std::string& line) const {
        const std::string script = fmt::format(
            R"(pinfold() {{ :; }}
source <({0} completion bash) || exit 1
COMP_WORDS=({1}); COMP_WORDS[0]={0}; COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_pinfold; printf '%s\n' "${{COMPREPLY[@]}}")",
            PINFOLD_BIN_DIR "/pinfold", line);
        const scratch_directory scratch;
        const unique_fd out(::open((scratch.path() / "out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        const pid_t pid = ::fork();
        if (pid == 0) {
            ::dup2(out.get(), 1);
            const std::string api = "PINFOLD_API=" + agent.api().native();
            const char* const environment[] = {"PATH=/usr/bin:/bin", "HOME=/nonexistent", api.c_str(),
                                               nullptr};
            const char* const arguments[] = {"bash", "--norc", "-c", script.c_str(), nullptr};
            ::execve("/bin/bash", const_cast<char**>(arguments), const_cast<char**>(environment));
            ::_exit(99);
        }
        if (cli::wait(pid) != 0) return {"bash failed"};
        std::ifstream from(scratch.path() / "out");
        words list;
        for (std::string word; std::getline(from, word);)
            if (!word.empty()) list.push_back(word);
        return list;
    }
};

bool has(const words& list, const std::string& word) {
    return std::ranges::find(list, word) != list.end();
}

// A shell on a terminal of its own, with nothing of the machine's settings.
void complete_in(const char* shell, std::vector<const char*> arguments, const std::string& prepare) {
    const world here;
    cli program(here.agent.api());
    program.environment = {"PATH=" PINFOLD_BIN_DIR ":/usr/bin:/bin", "HOME=/nonexistent", "TERM=dumb",
                           "PS1=ready ", "PINFOLD_API=" + here.agent.api().native()};
    arguments.insert(arguments.begin(), shell);
    arguments.push_back(nullptr);
    program.before = [environment = program.environment, shell, arguments] {
        std::vector<char*> own;
        for (const std::string& each : environment) own.push_back(const_cast<char*>(each.c_str()));
        own.push_back(nullptr);
        ::execve(shell, const_cast<char**>(arguments.data()), own.data());
    };
    cli_terminal terminal(program, {}, 24, 80);
    terminal.type("PS1='ready '; " + prepare + "; echo so''urced\n");
    REQUIRE(terminal.see("sourced"));
    REQUIRE(terminal.see("ready "));
    terminal.type("pinfold app\t");
    REQUIRE(terminal.see("approve "));
    terminal.type("her\t");
    REQUIRE(terminal.see("heron "));
    // The line is taken back: an interrupt would take what is typed behind it, too.
    terminal.type("\025exit\n");
    CHECK(cli::wait(terminal.pid()) != 999);
}

} // namespace

TEST_CASE("bash offers verbs, options and the names of what is there") {
    const world here;
    CHECK(here.offered("pinfold app") == words{"approve"});
    CHECK(has(here.offered("pinfold ''"), "completion"));
    CHECK(!has(here.offered("pinfold ''"), "complete")); // it is for the scripts
    CHECK(here.offered("pinfold send h") == words{"heron", "hoopoe"});
    CHECK(here.offered("pinfold send he") == words{"heron"});
    CHECK(here.offered("pinfold send heron h").empty()); // what is said is nobody's name
    CHECK(here.offered("pinfold rm heron h") == words{"heron", "hoopoe"});
    CHECK(here.offered("pinfold move heron --sea") == words{"--sealed"});
    CHECK(has(here.offered("pinfold new --"), "--auto-approve"));
    CHECK(here.offered("pinfold new --harness p") == words{"pi"});
    CHECK(here.offered("pinfold outbox s") == words{"send"});
    CHECK(here.offered("pinfold outbox send ho") == words{"hoopoe"});
    CHECK(here.offered("pinfold --json log") == words{"logs"});
    CHECK(here.offered("pinfold run --sealed -- l").empty()); // bash's own commands and files
    CHECK(here.offered("pinfold nonsense h").empty());
}

TEST_CASE("without an agent there are no names, no message, and none is started") {
    const agent_fixture none;
    const cli pinfold(none.directory() / "nobody/api.sock");
    const cli_result result = pinfold.run(
        {"complete", "--", "--api", (none.directory() / "nobody").native(), "send", ""});
    CHECK(result.status == 0);
    CHECK(result.out.empty());
    CHECK(result.err.empty());
    CHECK(!std::filesystem::exists(none.directory() / "nobody"));
    CHECK(pinfold.run({"completion", "fish"}).status == 2);
}

TEST_CASE("the TAB key completes a verb and a session's name in a real bash") {
    complete_in("/bin/bash", {"--norc", "--noprofile", "-i"}, "source <(pinfold completion bash)");
}

TEST_CASE("the TAB key completes a verb and a session's name in a real zsh") {
    if (!std::filesystem::exists("/bin/zsh")) SKIP("zsh");
    complete_in("/bin/zsh", {"-f", "-i"},
                "autoload -U compinit; compinit -D -u; source <(pinfold completion zsh)");
}
