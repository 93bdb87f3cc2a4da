#include "cage/program.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/stat.h>

namespace pinfold {

namespace {

constexpr std::string_view default_path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr int report_timeout_ms = 10'000;

struct pipe_ends {
    unique_fd read;
    unique_fd write;
};

// Owned by root inside, so that a program can open /dev/stdout again.
pipe_ends make_pipe(std::uint32_t owner) {
    std::array<int, 2> ends{};
    check(::pipe2(ends.data(), O_CLOEXEC), "make a pipe for the program");
    pipe_ends made{unique_fd(ends[0]), unique_fd(ends[1])};
    check(::fchown(made.read.get(), owner, owner), "give a pipe to root inside");
    return made;
}

std::string_view path_of(const command_spec& command) {
    for (const std::string_view assignment : command.environment) {
        if (assignment.starts_with("PATH=")) return assignment.substr(5);
    }
    return default_path;
}

std::vector<std::string> candidates(const command_spec& command) {
    const std::string& program = command.argv.front();
    if (program.find('/') != std::string::npos) return {program};
    std::vector<std::string> result;
    for (std::string_view left = path_of(command); !left.empty();) {
        const std::size_t end = std::min(left.find(':'), left.size());
        if (end > 0) result.push_back(fmt::format("{}/{}", left.substr(0, end), program));
        left.remove_prefix(std::min(end + 1, left.size()));
    }
    return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    result.reserve(texts.size() + 1);
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
}

} // namespace

child_streams make_streams(const command_spec& command, int devpts, std::uint32_t id_base,
                           standard_streams& agent) {
    child_streams child;
    if (command.terminal) {
        terminal made = open_terminal(devpts, command.terminal->rows, command.terminal->columns);
        agent.terminal = std::move(made.master);
        for (unique_fd& end : child.ends)
            end = unique_fd(
                check(::fcntl(made.slave.get(), F_DUPFD_CLOEXEC, 0), "keep the cage's end of its terminal"));
        return child;
    }
    pipe_ends input = make_pipe(id_base);
    pipe_ends output = make_pipe(id_base);
    pipe_ends errors = make_pipe(id_base);
    child.ends[0] = std::move(input.read);
    child.ends[1] = std::move(output.write);
    child.ends[2] = std::move(errors.write);
    agent.input = std::move(input.write);
    agent.output = std::move(output.read);
    agent.errors = std::move(errors.read);
    return child;
}

program_work prepare_program(command_spec& command, int program_fd, const child_streams& streams) {
    program_work work;
    if (program_fd < 0) work.candidates = candidates(command);
    work.program_fd = program_fd;
    work.argv = pointers(command.argv);
    work.environment = pointers(command.environment);
    work.directory = command.directory;
    work.terminal = command.terminal.has_value();
    for (int i = 0; i < 3; ++i) work.standard[i] = streams.ends[i].get();
    return work;
}

std::optional<child_report> read_report(int pipe) {
    pollfd waiting{.fd = pipe, .events = POLLIN};
    if (check(::poll(&waiting, 1, report_timeout_ms), "wait for the child of a cage") == 0)
        fail("the child of the cage said nothing for {} s", report_timeout_ms / 1000);
    child_report report;
    const ssize_t size = check(::read(pipe, &report, sizeof report), "hear what the child of a cage says");
    if (size == 0) return std::nullopt;
    if (size != sizeof report || report.act > child_act::run_program || report.error > 4095)
        fail("the child of the cage said something that is not a report");
    return report;
}

void fail_child(const child_report& report, const cage_spec& spec, const command_spec& command) {
    const int error = static_cast<int>(report.error);
    const std::string reason = std::generic_category().message(error);
    if (report.act == child_act::run_program)
        throw cage_failure(fmt::format("run {} in cage {}: {}", command.argv.front(), spec.name, reason),
                           error == ENOENT ? 127 : 126);
    if (report.act == child_act::enter_directory)
        throw cage_failure(
            fmt::format("enter {} in cage {}: {}", command.directory.native(), spec.name, reason), 125);
    throw cage_failure(fmt::format("cage {} could not {}: {}", spec.name, to_string(report.act), reason),
                       125);
}

} // namespace pinfold
