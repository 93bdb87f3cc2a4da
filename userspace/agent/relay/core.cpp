#include "agent/relay/core.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <sys/mman.h>
#include <sys/resource.h>

namespace pinfold {

bool fd_budget::take(std::size_t& of_cage, std::size_t count) noexcept {
    const std::size_t free = limit_ - used_;
    if (of_cage + count > free) return false;
    used_ += count;
    of_cage += count;
    return true;
}

void fd_budget::give(std::size_t& of_cage, std::size_t count) noexcept {
    used_ -= count;
    of_cage -= count;
}

std::size_t relay_fd_limit() {
    rlimit limit{};
    check(::getrlimit(RLIMIT_NOFILE, &limit), "read the limit of open files");
    limit.rlim_cur = limit.rlim_max;
    check(::setrlimit(RLIMIT_NOFILE, &limit), "raise the limit of open files to {}", limit.rlim_max);
    constexpr std::size_t most_kept = 1024; // for the agent's API, sessions and store
    const auto all = static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
    return all - std::min(most_kept, all / 4);
}

lazy_memory::lazy_memory(std::size_t size) {
    void* pages = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) fail_errno(errno, "reserve {} bytes for the relay", size);
    bytes_ = {static_cast<std::byte*>(pages), size};
}

lazy_memory::~lazy_memory() {
    ::munmap(bytes_.data(), bytes_.size());
}

relay_core::relay_core(uring& which, destination_check judge, relay_limits most)
    : ring(which),
      check(std::move(judge)),
      limits(most),
      schedule(which),
      timers(which),
      closing(which),
      fds(relay_fd_limit()),
      chunk(chunk_size),
      incoming(largest_packet),
      outgoing(largest_packet) {}

} // namespace pinfold
