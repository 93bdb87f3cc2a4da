#include "agent/program.hpp"

#include "base/error.hpp"

#include <fcntl.h>

namespace pinfold {

namespace {

constexpr int pipe_bytes = 256 * 1024; // four times the kernel's default: fewer turns for bulk

void prepare(const unique_fd& fd) {
    const int flags = check(::fcntl(fd.get(), F_GETFL), "look at a stream of the program");
    check(::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK), "make a stream of the program non-blocking");
    ::fcntl(fd.get(), F_SETPIPE_SZ, pipe_bytes); // a terminal or a full quota: smaller is fine
}

} // namespace

program_streams program_streams::from(std::vector<unique_fd> fds, bool terminal) {
    if (fds.size() != (terminal ? 1U : 3U)) fail("the program came with {} streams", fds.size());
    for (const unique_fd& fd : fds) prepare(fd);
    program_streams streams;
    streams.terminal = terminal;
    streams.input = std::move(fds[0]);
    if (terminal) {
        streams.output = unique_fd(check(::fcntl(streams.input.get(), F_DUPFD_CLOEXEC, 3),
                                         "take the terminal of the program a second time"));
    } else {
        streams.output = std::move(fds[1]);
        streams.errors = std::move(fds[2]);
    }
    return streams;
}

} // namespace pinfold
