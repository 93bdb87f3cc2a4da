#include "cage/bpf.hpp"

#include "base/error.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <spdlog/spdlog.h>
#include <string_view>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

namespace pinfold::bpf {
namespace {

[[gnu::format(printf, 2, 0)]] int log_quietly(libbpf_print_level, const char* format, va_list arguments) {
    if (!spdlog::should_log(spdlog::level::debug)) return 0;
    char line[512];
    std::vsnprintf(line, sizeof line, format, arguments);
    std::string_view text = line;
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    spdlog::debug("{}", text);
    return 0;
}

} // namespace

void set_up_library() {
    libbpf_set_print(log_quietly);
}

void make_pin_folder(const std::filesystem::path& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw std::system_error(error, fmt::format("make {} for pins", folder.string()));
    struct statfs kind = {};
    check(::statfs(folder.c_str(), &kind), "look at {}", folder.string());
    if (kind.f_type != BPF_FS_MAGIC)
        fail("pin eBPF objects below {}: it is not on a bpffs; mount one with 'mount -t bpf bpf /sys/fs/bpf'",
             folder.string());
}

std::filesystem::path cage_folder(const std::filesystem::path& pins, std::uint64_t cage) {
    return pins / "cages" / fmt::format("{:016x}", cage);
}

void pin(int fd, const std::filesystem::path& where) {
    check_negative(bpf_obj_pin(fd, where.c_str()), "pin {}", where.string());
}

void unpin(const std::filesystem::path& where) {
    if (::unlink(where.c_str()) < 0 && errno != ENOENT) fail_errno(errno, "unpin {}", where.string());
}

void remove_if_empty(const std::filesystem::path& folder) noexcept {
    ::rmdir(folder.c_str());
}

unique_fd create_link(int program, int target, std::uint32_t attach_type) noexcept {
    bpf_attr request;
    std::memset(&request, 0, sizeof request);
    request.link_create.prog_fd = static_cast<std::uint32_t>(program);
    request.link_create.target_fd = static_cast<std::uint32_t>(target); // a union with target_ifindex
    request.link_create.attach_type = attach_type;
    return unique_fd(static_cast<int>(::syscall(SYS_bpf, BPF_LINK_CREATE, &request, sizeof request)));
}

} // namespace pinfold::bpf
