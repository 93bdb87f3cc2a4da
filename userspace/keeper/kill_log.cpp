#include "keeper/kill_log.hpp"

#include "base/error.hpp"
#include "cage/cage.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <string_view>
#include <unistd.h>

namespace pinfold {

namespace {

constexpr std::size_t most_cages = 4096; // remembered; a name more or less is no loss
constexpr std::size_t largest_record = 8192;

} // namespace

// "…,oom_memcg=/pinfold/ID,task_memcg=/pinfold/ID,task=NAME,pid=1,uid=1": paths are the keeper's own choice and hold no
// comma, the name is anybody's, so it ends at the last ",pid=".
std::optional<memory_victim> parse_kill(const std::string& record) {
    constexpr std::string_view kind = ";oom-kill:constraint=CONSTRAINT_MEMCG,", limited = ",oom_memcg=",
                               group = ",task_memcg=", task = ",task=", end = ",pid=";
    if (record.find(kind) == std::string::npos) return std::nullopt;
    const std::size_t path = record.find(limited);
    const std::size_t path_end = record.find(group, path);
    const std::size_t name = record.find(task, path_end);
    const std::size_t name_end = record.rfind(end);
    if (path == std::string::npos || path_end == std::string::npos || name == std::string::npos ||
        name_end == std::string::npos || name_end < name + task.size())
        return std::nullopt;
    const std::string where = record.substr(path + limited.size(), path_end - path - limited.size());
    const std::string cage = where.substr(where.rfind('/') + 1);
    if (!parse_cage_name(cage)) return std::nullopt;
    return memory_victim{.cage = cage,
                         .name = record.substr(name + task.size(), name_end - name - task.size())};
}

kill_log::kill_log() : log_(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    if (log_ && ::lseek(log_.get(), 0, SEEK_END) >= 0) return;
    spdlog::warn(
        "the kernel's log cannot be read ({}): what is killed at a memory limit is told without its name",
        std::generic_category().message(errno));
    log_.reset();
}

std::string kill_log::take(const std::string& cage) {
    read_on();
    const auto found = last_.find(cage);
    if (found == last_.end()) return {};
    std::string name = std::move(found->second);
    last_.erase(found);
    return name;
}

void kill_log::read_on() {
    std::array<char, largest_record> record{};
    while (log_) {
        const ssize_t size = ::read(log_.get(), record.data(), record.size()); // one record, as text
        if (size < 0 && errno == EPIPE) continue; // some were overwritten meanwhile
        if (size <= 0) return;
        if (auto found = parse_kill({record.data(), static_cast<std::size_t>(size)})) {
            if (last_.size() >= most_cages) last_.clear();
            last_[found->cage] = std::move(found->name);
        }
    }
}

} // namespace pinfold
