#include "harness/harness_machine.hpp"

#include "support/catch.hpp"

#include <grp.h>
#include <memory>
#include <tuple>

namespace pinfold::test {

namespace fs = std::filesystem;

namespace {

constexpr const char* provider_address = "93.184.216.34";
constexpr int provider_port = 8443;

std::string text_of(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

// The folder of the installed programs, or a skip that says how to install them.
std::string installed() {
    std::FILE* pipe = ::popen(PINFOLD_SOURCE_DIR "/tests/harness/setup --only-look 2>&1", "r");
    std::string text;
    std::array<char, 1024> buffer{};
    while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
        text.append(buffer.data(), got);
    while (text.ends_with('\n')) text.pop_back();
    if (::pclose(pipe) != 0) skip(text);
    return text;
}

} // namespace

beside::beside(const std::vector<std::string>& words, const std::vector<std::string>& environment,
               const fs::path& log, std::optional<uid_t> user) {
    std::vector<char*> argv, env;
    for (const std::string& each : words) argv.push_back(const_cast<char*>(each.c_str()));
    for (const std::string& each : environment) env.push_back(const_cast<char*>(each.c_str()));
    argv.push_back(nullptr);
    env.push_back(nullptr);
    pid_ = check(::fork(), "fork {}", words.front());
    if (pid_ != 0) return;
    const int to = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::dup2(::open("/dev/null", O_RDONLY), 0);
    ::dup2(to, 1);
    ::dup2(to, 2);
    ::syscall(SYS_close_range, 3U, ~0U, 0U);
    if (user && (::setgroups(0, nullptr) != 0 || ::setgid(*user) != 0 || ::setuid(*user) != 0)) ::_exit(122);
    ::execve(argv[0], argv.data(), env.data());
    ::_exit(121);
}

void beside::end(int number) {
    if (pid_ <= 0) return;
    ::kill(pid_, number);
    int status = 0;
    if (!eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, std::chrono::seconds(20))) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, &status, 0);
    }
    pid_ = -1;
}

harness_machine::harness_machine(const std::vector<std::string>& more)
    : more_(more), programs_(installed()), api_(whole_.home() / "run/pinfold/api.sock") {
    start_provider();
    write(home() / "key", key);
    write(state() / "sealed-claude-token", token);
    write(whole_.folder() / "ca.crt", text_of(whole_.net().directory() / "ca.crt"), 0644);
    start_agent();
}

void harness_machine::start_provider() {
    const fs::path folder = whole_.folder();
    const fs::path certificates = whole_.net().directory();
    fs::remove(folder / "provider.log"); // of the one before
    provider_ = std::make_unique<beside>(
        std::vector<std::string>{"/usr/bin/nsenter", "--net=/run/netns/" + whole_.net().name() + "-internet",
                                 "/usr/bin/python3", PINFOLD_SOURCE_DIR "/tests/harness/provider.py",
                                 provider_address, std::to_string(provider_port), certificates / "server.crt",
                                 certificates / "server.key", folder / "requests.jsonl"},
        std::vector<std::string>{"PATH=/usr/bin:/bin"}, folder / "provider.log", std::nullopt);
    if (!eventually([&] { return text_of(folder / "provider.log").find("ready") != std::string::npos; },
                    std::chrono::seconds(20)))
        fail("the provider does not serve: {}", text_of(folder / "provider.log"));
}

void harness_machine::write(const fs::path& file, const std::string& text, mode_t mode) const {
    for (fs::path each = file.parent_path(); !fs::exists(each); each = each.parent_path()) {
        std::vector<fs::path> missing;
        for (fs::path up = each; !fs::exists(up); up = up.parent_path()) missing.insert(missing.begin(), up);
        for (const fs::path& one : missing) {
            fs::create_directory(one);
            check(::chown(one.c_str(), owner_id, owner_id), "give {} away", one.native());
        }
        break;
    }
    std::ofstream(file) << text;
    check(::chown(file.c_str(), owner_id, owner_id), "give {} away", file.native());
    check(::chmod(file.c_str(), mode), "set the mode of {}", file.native());
}

void harness_machine::start_agent() {
    const fs::path socket = home() / "run/pinfold/api.sock";
    std::vector<std::string> words{PINFOLD_BIN_DIR "/pinfold-agent",
                                   "--keeper",
                                   whole_.run_dir() / "keeper.sock",
                                   "--state",
                                   state(),
                                   "--api",
                                   socket,
                                   "--claude",
                                   programs_ + "/claude",
                                   "--pi",
                                   programs_ + "/pi",
                                   "--model-url",
                                   fmt::format("https://{}:{}", provider_address, provider_port),
                                   "--model-key",
                                   home() / "key",
                                   "--model-ca",
                                   whole_.folder() / "ca.crt",
                                   "--log-level",
                                   "debug"};
    words.insert(words.end(), more_.begin(), more_.end());
    agent_ = std::make_unique<beside>(
        words,
        std::vector<std::string>{"PATH=/usr/bin:/bin", "HOME=" + home().native(), "LANG=C.UTF-8",
                                 "DISABLE_TELEMETRY=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
                                 "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_MAX_RETRIES=3",
                                 std::string("SOME_TOKEN=") + key, std::string("ANTHROPIC_API_KEY=") + key},
        whole_.folder() / "agent.log", owner_id);
    const bool serves = eventually(
        [&] { return connect_unix(socket) && api_.get("/v1/harnesses").body["cage"]["available"] == true; },
        std::chrono::seconds(30));
    if (!serves) fail("the agent does not serve: {}", log());
}

std::string harness_machine::log() const {
    return text_of(whole_.folder() / "agent.log");
}

answered harness_machine::create(const json& more) const {
    json body{{"name", "heron"}, {"dir", project().native()}};
    body.update(more);
    return api_.post("/v1/sessions", body);
}

std::string harness_machine::turn(const std::string& text, std::optional<bool> allow) const {
    event_reader events = api_.events(fmt::format("?after={}", api_.info()["last_seq"].dump()));
    const answered sent = api_.send(text);
    if (sent.status != 202) return "not sent: " + sent.text;
    std::string said;
    for (json event = events.next(); !event.is_null(); event = events.next()) {
        const json data = event.value("data", json::object());
        if (event["kind"] == "stopped") return said + " STOPPED " + data.value("reason", "");
        if (event["kind"] == "provider-error")
            said += fmt::format("[provider {} {}]", data.value("what", ""), data.value("status", 0));
        if (event["kind"] == "provider-ok") said += "[provider well]";
        if (event["kind"] != "claude") continue;
        const std::string type = data.value("type", "");
        if (type == "assistant") {
            for (const json& block : data["message"]["content"]) said += block.value("text", "");
        } else if (type == "control_request" && data["request"].value("subtype", "") == "can_use_tool") {
            if (!allow) return said + " ASKS " + data["request"].value("tool_name", "");
            std::ignore = api_.post("/v1/sessions/heron/prompts/" + data["request_id"].get<std::string>(),
                                    {{"allow", *allow}, {"message", "not allowed"}});
        } else if (type == "result") {
            return data.value("is_error", false) ? said + " FAILED" : said;
        }
    }
    return said + " NO END";
}

std::vector<json> harness_machine::requests() const {
    std::vector<json> list;
    std::istringstream lines(text_of(whole_.folder() / "requests.jsonl"));
    for (std::string line; std::getline(lines, line);) list.push_back(json::parse(line, nullptr, false));
    return list;
}

} // namespace pinfold::test
