// The measured program, static, the same for every peer: its first act is to write the time (CLOCK_MONOTONIC, 8 bytes).
// With an argument it then stays until its standard input ends, as an idle cage does.
#include <cstdint>
#include <ctime>
#include <unistd.h>

int main(int argc, char**) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const std::int64_t nanoseconds = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
    if (::write(STDOUT_FILENO, &nanoseconds, sizeof nanoseconds) != sizeof nanoseconds) return 1;
    char byte = 0;
    while (argc > 1 && ::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}
