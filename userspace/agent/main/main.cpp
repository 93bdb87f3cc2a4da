#include "agent/api/server.hpp"
#include "agent/gateway/gateway.hpp"
#include "agent/lockdown.hpp"
#include "agent/options.hpp"
#include "agent/outbox/carrier.hpp"
#include "agent/proxy/proxy.hpp"
#include "agent/report/reports.hpp"
#include "agent/sessions/place.hpp"
#include "agent/sessions/session_list.hpp"
#include "agent/tasks/task_board.hpp"
#include "agent/tcp_listener.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <poll.h>
#include <pwd.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sstream>
#include <sys/signalfd.h>
#include <unistd.h>

namespace pinfold {

namespace {

constexpr std::chrono::seconds stop_time{15}; // longer than a program's grace and its kill together

void begin_log(const agent_options& options) {
    spdlog::set_default_logger(spdlog::stderr_logger_mt("pinfold-agent"));
    spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    const auto level = spdlog::level::from_str(options.log_level);
    if (level == spdlog::level::off && options.log_level != "off")
        fail("--log-level is trace, debug, info, warn or error, not '{}'", options.log_level);
    spdlog::set_level(level);
}

unique_fd watch_signals() {
    sigset_t ending;
    ::sigemptyset(&ending);
    for (const int number : {SIGTERM, SIGINT}) ::sigaddset(&ending, number);
    check(::sigprocmask(SIG_BLOCK, &ending, nullptr), "take signals over");
    for (const int number : {SIGPIPE, SIGHUP})
        std::signal(number, SIG_IGN); // it outlives the terminal it was started from
    return unique_fd(check(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK), "take signals over"));
}

// Beside this program, as it is built, or in libexec, as it is installed.
std::filesystem::path find_mcp() {
    std::error_code none;
    const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
    for (const auto& each : {here / "pinfold-mcp", here.parent_path() / "libexec/pinfold-mcp"})
        if (std::filesystem::exists(each, none)) return each;
    spdlog::warn("pinfold-mcp is not beside {}: agents in cages have no tools to ask others", here.native());
    return {};
}

session_world::settings settings_of(const agent_options& options) {
    session_world::settings with;
    for (char** each = environ; *each != nullptr; ++each) {
        const std::string_view text = *each;
        const std::size_t equals = text.find('=');
        if (equals != std::string_view::npos && equals > 0)
            with.environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    const auto home = with.environment.find("HOME");
    const passwd* owner = ::getpwuid(::geteuid());
    with.home = home != with.environment.end() && home->second.starts_with('/') ? home->second
                : owner != nullptr                                              ? owner->pw_dir
                                                                                : "/nonexistent";
    std::array<char, 256> name{};
    with.machine = ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
    with.state = std::filesystem::absolute(options.state);
    with.claude = options.claude;
    with.pi = options.pi;
    std::istringstream words(options.pi_arguments);
    for (std::string word; words >> word;) with.pi_arguments.push_back(word);
    with.mcp = find_mcp();
    with.image = options.image;
    apply_limits(options.cage_memory, options.cage_cpus, with.limits);
    with.sealed_token = options.sealed_token;
    with.model_url = "http://192.0.0.1"; // the same in every cage, and answered for each by this agent alone
    with.idle = std::chrono::seconds(options.idle_seconds);
    with.look = std::clamp<std::chrono::milliseconds>(with.idle / 4, std::chrono::milliseconds(250),
                                                      std::chrono::seconds(15));
    return with;
}

gateway::settings gateway_of(const agent_options& options, cages& owned, session_list& listed) {
    const session_world::settings& with = listed.world().with;
    const auto session_of = [&owned, &listed](std::uint64_t cage) -> std::shared_ptr<session> {
        for (const auto& each : owned.known()) {
            if (each->id == cage) return listed.of_cage(each->name);
        }
        return nullptr;
    };
    return {.upstreams = {.anthropic = options.model_url,
                          .key = options.model_key,
                          .sealed_token = options.sealed_token,
                          .pi_models = with.home / ".pi/agent/models.json",
                          .environment = with.environment},
            .authorities = options.model_ca,
            .who = [session_of](std::uint64_t cage) -> std::optional<model_asker> {
                const std::shared_ptr<session> one = session_of(cage);
                if (!one) return std::nullopt;
                return model_asker{.session = one->row().name,
                                   .harness = one->row().harness,
                                   .sealed = one->options().cage && one->options().cage->sealed};
            },
            .counted =
                [session_of](std::uint64_t cage, std::uint64_t tokens_in, std::uint64_t tokens_out) {
                    try {
                        if (const auto one = session_of(cage)) one->count(1, tokens_in, tokens_out);
                    } catch (const store_failure& error) {
                        spdlog::warn("tokens are not counted: {}", error.what());
                    }
                },
            .heard =
                [session_of](std::uint64_t cage, const provider_answer& what) {
                    if (const auto one = session_of(cage)) one->hear(what);
                },
            .silence = std::chrono::seconds(options.model_silence_seconds)};
}

// Who sits behind a socket is the session it was opened for, by the name that it has then.
void give_doors(session_world::settings& with, proxy& doors) {
    const std::filesystem::path state = with.state;
    with.open_door = [&doors, with = session_world::settings{.state = state}](
                         const std::shared_ptr<const session>& whose) {
        const std::weak_ptr<const session> known = whose;
        doors.open(door_of(with, whose->row().cage), [known]() -> std::optional<proxy_asker> {
            const auto one = known.lock();
            if (!one) return std::nullopt;
            return proxy_asker{.session = one->row().name,
                               .sealed = one->options().cage && one->options().cage->sealed};
        });
    };
    with.close_door = [&doors, with = session_world::settings{.state = state}](const std::string& cage) {
        doors.close(door_of(with, cage));
    };
}

// What a session left that could run later outside is an event of it: its owner need not ask. Told once, until it differs.
class remembering final : public project_watch {
public:
    remembering(project_reports& reports, task_group& group) : reports_(reports), group_(group) {}
    remembering(const remembering&) = delete;
    remembering& operator=(const remembering&) = delete;
    ~remembering() = default;

    task<> before_run(const session& one) override {
        co_await reports_.remember(one.row().id, one.row().directory);
    }
    void after_run(const std::shared_ptr<session>& one) override {
        group_.spawn(&remembering::tell, this, one);
    }

private:
    static task<> tell(remembering* self, std::shared_ptr<session> one) {
        try {
            const std::string text = report::event_text(
                co_await self->reports_.clear_and_look(one->row().id, one->row().directory));
            if (one->is_gone()) co_return;
            std::string& last = self->told_[one->row().id];
            if (text != last && !text.empty()) one->record("report", "shrooms", text);
            last = text;
        } catch (const std::exception& error) {
            spdlog::warn("session \"{}\": what it left is not known: {}", one->row().name, error.what());
        }
    }

    project_reports& reports_;
    task_group& group_;
    std::map<std::int64_t, std::string> told_;
};

class carrying final : public results_carrier {
public:
    explicit carrying(outbox_carrier& outboxes) : outboxes_(outboxes) {}
    task<std::string> carry(std::string session, task_row of) override {
        co_return co_await outboxes_.carry_results(std::move(session), of.asker, of.address, of.created,
                                                   of.message);
    }

private:
    outbox_carrier& outboxes_;
};

void listen_at_all(const agent_options& options, task_group& group, server& api) {
    for (const std::string& each : options.host_names) api.be_called(each);
    for (const std::string& each : options.listen) {
        tcp_listener made = listen_at(each, options.port);
        api.be_called(made.host);
        group.spawn([](server* one,
                       std::shared_ptr<unique_fd> at) -> task<> { co_await one->run_at(std::move(*at)); },
                    &api, std::make_shared<unique_fd>(std::move(made.socket)));
        spdlog::info("serves {} port {}", made.host, options.port);
    }
}

// Ends what runs, tells the clients, and leaves the keeper: it ends the cages of a connection that is gone.
task<> until_stopped(uring& ring, int signals, server& api, session_list& listed, cages& owned,
                     event& stopped) {
    std::ignore = co_await poll_once(ring, signals, POLLIN);
    spdlog::info("stopping");
    api.stop();
    listed.stop();
    const auto limit = std::chrono::steady_clock::now() + stop_time;
    while (!owned.known().empty() && std::chrono::steady_clock::now() < limit)
        std::ignore = co_await sleep_for(ring, std::chrono::milliseconds(20));
    owned.keeper().stop();
    stopped.set();
}

int serve(const agent_options& options) {
    begin_log(options);
    check_owner();
    lock_down();
    const unique_fd signals = watch_signals();
    const std::uint64_t file_limit = raise_file_limit();
    std::filesystem::create_directories(options.state);

    uring ring;
    task_group group([](const std::exception_ptr& error) {
        try {
            std::rethrow_exception(error);
        } catch (const std::exception& what) {
            spdlog::error("{}", what.what());
        }
    });
    cages owned(ring, group,
                {.keeper = options.keeper, .resolv_conf = options.resolv_conf, .file_limit = file_limit});
    std::unique_ptr<store> opened;
    api_socket socket = api_socket::listen(
        options.api, [&] { opened = std::make_unique<store>(options.state / "sessions.db"); });
    store& kept = *opened;
    session_world::settings with = settings_of(options);
    proxy doors(ring, group,
                {.machines = {.peers = options.peers, .daemon = options.shrooms, .name = with.machine},
                 .own_agent = options.api,
                 .port = options.port});
    give_doors(with, doors);
    project_reports reports(ring, options.state);
    remembering before(reports, group);
    with.watch = &before;
    session_list listed(owned, kept, std::move(with));
    outbox_carrier outboxes(
        listed,
        {.machines = {.peers = options.peers, .daemon = options.shrooms, .name = listed.world().with.machine},
         .own_agent = options.api,
         .port = options.port});
    gateway models(ring, group, gateway_of(options, owned, listed));
    owned.offer(
        {.port = 80, .for_sealed = true, .accepted = [&models](std::uint64_t cage, unique_fd connection) {
             models.take(cage, std::move(connection));
         }});
    carrying results(outboxes);
    task_board tasks(
        listed,
        {.machines = {.peers = options.peers, .daemon = options.shrooms, .name = listed.world().with.machine},
         .port = options.port,
         .carrier = &results});
    server api(owned, std::move(socket), &listed);
    api.serve_tasks(tasks);
    api.serve_results(outboxes, reports);
    event stopped;
    group.spawn([](cages* all) -> task<> { co_await all->keeper().run(); }, &owned);
    group.spawn([](server* one) -> task<> { co_await one->run(); }, &api);
    group.spawn([](session_list* all) -> task<> { co_await all->run(); }, &listed);
    group.spawn([](task_board* all) -> task<> { co_await all->run(); }, &tasks);
    listen_at_all(options, group, api);
    group.spawn(until_stopped, std::ref(ring), signals.get(), std::ref(api), std::ref(listed),
                std::ref(owned), std::ref(stopped));
    spdlog::info("pinfold-agent {} serves {}", PINFOLD_VERSION, options.api.native());
    while (!stopped.is_set()) ring.run_once(true);
    models.stop();
    doors.stop();
    while (!models.quiet() || group.running() > 0) ring.run_once(true);
    return 0;
}

} // namespace

} // namespace pinfold

int main(int argc, char* argv[]) {
    auto read = pinfold::read_agent_options(
        std::span(const_cast<const char* const*>(argv), static_cast<std::size_t>(argc)));
    if (const auto* answer = std::get_if<pinfold::agent_answer>(&read)) {
        std::fputs(answer->text.c_str(), answer->status == 0 ? stdout : stderr);
        return answer->status;
    }
    try {
        return pinfold::serve(std::get<pinfold::agent_options>(read));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "pinfold-agent: %s\n", error.what());
        return 1;
    }
}
