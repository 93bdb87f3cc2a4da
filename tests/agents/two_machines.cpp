#include "agents/two_machines.hpp"

#include "support/catch.hpp"

#include <memory>
#include <tuple>

namespace pinfold::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr const char* search_path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";

std::string text_of(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

std::string output_of(const std::string& command, int& status) {
    std::FILE* pipe = ::popen(command.c_str(), "r");
    std::string text;
    std::array<char, 4096> buffer{};
    while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
        text.append(buffer.data(), got);
    status = ::pclose(pipe);
    return text;
}

void make_folder(const fs::path& path, uid_t owner) {
    fs::create_directories(path);
    check(::chmod(path.c_str(), 0755), "open the way to {}", path.native());
    check(::chown(path.c_str(), owner, owner), "give {} away", path.native());
}

// Once for all tests of this binary: the mesh without the world's own echoes at the agents' port.
void prepare_mesh(world& net) {
    static bool done = false;
    if (std::exchange(done, true)) return;
    for (const char* space : {"machine", "mesh"})
        if (run_command(fmt::format(PINFOLD_SOURCE_DIR "/tests/world unlisten {} tcp '*' 7387", space),
                        "PINFOLD_WORLD=" + net.name()) != 0)
            fail("the world still listens at port 7387 in {}", space);
    // Deprecated, so that nothing of pi5 is sent from it.
    net.run("mesh", fmt::format("ip addr add {}/64 dev mesh0 nodad preferred_lft 0", recorder_address));
    const auto entry = [](const char* name, const char* address) {
        return json{{"name", name}, {"addr", address}};
    };
    const json own = entry("laptop", own_address), other = entry("pi5", peer_address),
               third = entry("recorder", recorder_address);
    const fs::path folder = common_ground::here().folder();
    std::ofstream(folder / "peers-laptop.json") << json{{"machines", {own, other, third}}};
    std::ofstream(folder / "peers-pi5.json") << json{{"machines", {other, own}}};
    for (const char* each : {"peers-laptop.json", "peers-pi5.json"})
        check(::chmod((folder / each).c_str(), 0644), "open {} to its reader", each);
}

std::vector<std::string> in_mesh(const std::vector<std::string>& words) {
    const std::string id = std::to_string(owner_id);
    std::vector<std::string> whole{"/usr/bin/nsenter",
                                   "--net=/run/netns/" + common_ground::here().net().name() + "-mesh",
                                   "/usr/bin/setpriv",
                                   "--reuid=" + id,
                                   "--regid=" + id,
                                   "--clear-groups",
                                   "--"};
    whole.insert(whole.end(), words.begin(), words.end());
    return whole;
}

} // namespace

std::string sdk_modules() {
    int status = 0;
    std::string text = output_of(PINFOLD_SOURCE_DIR "/tests/agents/setup --only-look 2>&1", status);
    while (text.ends_with('\n')) text.pop_back();
    if (status != 0) skip(text);
    return text;
}

// ---- pi5 ----

peer_machine::peer_machine()
    : folder_(common_ground::here().folder() / "pi5"), api_(folder_ / "run/pinfold/api.sock") {
    prepare_mesh(common_ground::here().net());
    for (const fs::path& each : {folder_, folder_ / "project"}) make_folder(each, owner_id);
    start_recorder();
    start_agent();
}

peer_machine::~peer_machine() {
    agent_->end(SIGTERM);
    recorder_->end(SIGKILL);
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
}

fs::path peer_machine::peers_of_this_machine() {
    return common_ground::here().folder() / "peers-laptop.json";
}

void peer_machine::start_recorder() {
    const fs::path log = folder_ / "recorder.log";
    recorder_ = std::make_unique<beside>(
        in_mesh({"/usr/bin/python3", PINFOLD_SOURCE_DIR "/tests/agents/recorder.py", recorder_address, "7387",
                 folder_ / "recorded"}),
        std::vector<std::string>{search_path}, log, std::nullopt);
    if (!eventually([&] { return text_of(log).find("ready") != std::string::npos; }, 20s))
        fail("the recorder does not listen: {}", text_of(log));
}

void peer_machine::start_agent() {
    agent_ = std::make_unique<beside>(
        in_mesh({PINFOLD_BIN_DIR "/pinfold-agent", "--keeper", folder_ / "keeper.sock", "--state", state(),
                 "--api", folder_ / "run/pinfold/api.sock", "--listen", peer_address, "--peers",
                 common_ground::here().folder() / "peers-pi5.json", "--shrooms", folder_ / "none"}),
        std::vector<std::string>{search_path, "HOME=" + folder_.native()}, folder_ / "agent.log",
        std::nullopt);
    const fs::path socket = folder_ / "run/pinfold/api.sock";
    if (!eventually([&] { return connect_unix(socket) && api_.get("/v1/version").status == 200; }, 30s))
        fail("the agent of pi5 does not serve: {}", log());
}

void peer_machine::make_worker(const std::string& name, const json& more) const {
    json body{{"name", name},
              {"dir", (folder_ / "project").native()},
              {"harness", "command"},
              {"command",
               {"/usr/bin/python3", PINFOLD_SOURCE_DIR "/tests/agents/worker.py",
                (folder_ / "run/pinfold/api.sock").native(), name, own_address}}};
    const answered made = api_.post("/v1/sessions", body);
    INFO(made.text << log());
    REQUIRE(made.status == 201);
    if (!more.empty()) REQUIRE(api_.post("/v1/sessions/" + name + "/settings", more).status == 200);
}

json peer_machine::ask_laptop(const std::string& path, const json& body) const {
    const fs::path file = folder_ / "asked";
    std::ofstream(file) << body;
    check(::chmod(file.c_str(), 0644), "open {}", file.native());
    std::string line = "/usr/bin/env -i";
    for (const std::string& each :
         in_mesh({"/usr/bin/curl", "-s", "-m", "60", "-H", "Content-Type: application/json", "-d",
                  "@" + file.native(), fmt::format("http://[{}]:7387{}", own_address, path)}))
        line += " '" + each + "'";
    int status = 0;
    return json::parse(output_of(line, status), nullptr, false);
}

std::string peer_machine::log() const {
    return text_of(folder_ / "agent.log");
}

std::string peer_machine::recorded() const {
    return text_of(folder_ / "recorded");
}

// ---- both ----

std::vector<std::string> two_machines::agent_options() {
    return {"--listen", own_address, "--peers", peer_machine::peers_of_this_machine(), "--shrooms", "/none"};
}

two_machines::two_machines() : api_(whole_.home() / "run/pinfold/api.sock") {
    std::vector<std::string> words{
        PINFOLD_BIN_DIR "/pinfold-agent", "--keeper", whole_.run_dir() / "keeper.sock",      "--state",
        whole_.home() / "state",          "--api",    whole_.home() / "run/pinfold/api.sock"};
    for (const std::string& each : agent_options()) words.push_back(each);
    agent_ = std::make_unique<beside>(
        words,
        std::vector<std::string>{"PATH=/usr/bin:/bin", "HOME=" + whole_.home().native(), "LANG=C.UTF-8"},
        whole_.folder() / "agent.log", owner_id);
    const bool serves = eventually(
        [&] {
            if (!connect_unix(whole_.home() / "run/pinfold/api.sock")) return false;
            const answered told = api_.get("/v1/harnesses");
            return told.status == 200 && told.body["cage"]["available"] == true;
        },
        30s);
    if (!serves) fail("the agent does not serve: {}", log());
}

std::string two_machines::log() const {
    return text_of(whole_.folder() / "agent.log");
}

std::string two_machines::run(const std::vector<std::string>& words) const {
    std::string line = fmt::format(
        "/usr/bin/timeout 120 /usr/bin/setpriv --reuid={0} --regid={0} --clear-groups "
        "/usr/bin/env -i PATH=/usr/bin:/bin HOME={1} NO_COLOR=1",
        owner_id, whole_.home().native());
    for (const std::string& each : words) line += " '" + each + "'";
    int status = 0;
    return output_of(line + " 2>&1 </dev/null", status);
}

void two_machines::make(const std::string& name, const std::vector<std::string>& command,
                        const json& cage) const {
    std::ignore = api_.remove("/v1/sessions/" + name);
    const answered made = api_.post("/v1/sessions", {{"name", name},
                                                     {"dir", project().native()},
                                                     {"harness", "command"},
                                                     {"command", command},
                                                     {"cage", cage}});
    INFO(made.text << log());
    REQUIRE(made.status == 201);
}

std::string two_machines::said_by(const std::string& name) const {
    const answered told = api_.get("/v1/sessions/" + name + "/history");
    std::string last;
    for (const json& each : told.body.value("history", json::array()))
        if (each["role"] == "assistant") last = each["text"];
    return last;
}

} // namespace pinfold::test
