#include "agent/api/server.hpp"
#include "agent/lockdown.hpp"
#include "agent/options.hpp"

#include <csignal>
#include <cstdio>
#include <poll.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>

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

// Ends what runs, tells the clients, and leaves the keeper: it ends the cages of a connection that is gone.
task<> until_stopped(uring& ring, int signals, server& api, cages& owned, event& stopped) {
    std::ignore = co_await poll_once(ring, signals, POLLIN);
    spdlog::info("stopping");
    api.stop();
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
    task_group group([](std::exception_ptr error) {
        try {
            std::rethrow_exception(error);
        } catch (const std::exception& what) {
            spdlog::error("{}", what.what());
        }
    });
    cages owned(ring, group,
                {.keeper = options.keeper, .resolv_conf = options.resolv_conf, .file_limit = file_limit});
    server api(owned, api_socket::listen(options.api));
    event stopped;
    group.spawn([](cages* all) -> task<> { co_await all->keeper().run(); }, &owned);
    group.spawn([](server* one) -> task<> { co_await one->run(); }, &api);
    group.spawn(until_stopped, std::ref(ring), signals.get(), std::ref(api), std::ref(owned),
                std::ref(stopped));
    spdlog::info("pinfold-agent {} serves {}", PINFOLD_VERSION, options.api.native());
    while (!stopped.is_set() || group.running() > 0) ring.run_once(true);
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
