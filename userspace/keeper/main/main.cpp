// pinfold-keeper: root, in the foreground. Makes and destroys cages; reads nothing from a network or a cage.

#include "base/error.hpp"
#include "cage/mounts.hpp"
#include "keeper/keeper.hpp"
#include "keeper/machine.hpp"

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

// Cages need fds; a soft limit of 1024 would be met by a hundred of them.
void raise_fd_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

void prepare_process(const pinfold::keeper_options& options) {
    spdlog::set_default_logger(spdlog::stderr_logger_st("keeper"));
    spdlog::set_level(spdlog::level::from_str(options.log_level));
    spdlog::set_pattern(std::getenv("JOURNAL_STREAM") != nullptr ? "%v" : "%H:%M:%S.%e %^%l%$ %v");
    if (::geteuid() != 0)
        pinfold::fail("pinfold-keeper must run as root: it makes namespaces, mounts and cgroups");
    // A child on its way into a cage is a copy of this process: nothing may trace it or read its memory.
    pinfold::check(::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "make the keeper undumpable");
    (void)::umask(077);
    (void)std::signal(SIGPIPE, SIG_IGN);
    raise_fd_limit();
    pinfold::need_bpffs(options.bpf_dir);
    pinfold::leave_machine_mounts();
}

} // namespace

int main(int argc, char** argv) {
    try {
        bool done = false;
        const pinfold::keeper_options options = pinfold::read_options(argc, argv, done);
        if (done) return EXIT_SUCCESS;
        prepare_process(options);
        pinfold::keeper(options).run();
        return EXIT_SUCCESS;
    } catch (const std::exception& error) {
        std::cerr << "pinfold-keeper: " << error.what() << '\n';
        return EXIT_FAILURE;
    }
}
