#include "keeper/machine.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fcntl.h>
#include <linux/magic.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <thread>

#ifndef MFD_EXEC // kernel 6.3: said aloud, or the kernel warns
#define MFD_EXEC 0x0010U
#endif

namespace pinfold {

namespace {

std::string kernel_release() {
    utsname name{};
    check(::uname(&name), "ask for the kernel's release");
    return name.release;
}

std::vector<std::filesystem::path> program_folders(const std::filesystem::path& folder) {
    if (!folder.empty()) return {folder};
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    return {self.parent_path() / "libexec", self.parent_path() / "libexec/pinfold"};
}

bool is_new_enough(const std::string& release) {
    int major = 0, minor = 0;
    return std::sscanf(release.c_str(), "%d.%d", &major, &minor) == 2 &&
           (major > 6 || (major == 6 && minor >= 1)); // NOLINT(cert-err34-c)
}

bool is_bpffs(const std::filesystem::path& path) {
    struct statfs seen{};
    return ::statfs(path.c_str(), &seen) == 0 && static_cast<unsigned long>(seen.f_type) == BPF_FS_MAGIC;
}

} // namespace

machine_facts find_facts(const cgroup_tree& cgroups, const std::vector<std::string>& accept_unlimited) {
    return {.kernel = kernel_release(),
            .memory_controller = cgroups.has("memory"),
            .cpu_controller = cgroups.has("cpu"),
            .pids_controller = cgroups.has("pids"),
            .unlimited = accept_unlimited};
}

std::vector<wire::fact> list_facts(const cgroup_tree& cgroups, const machine_facts& facts,
                                   const std::filesystem::path& bpf_dir) {
    std::vector<wire::fact> list{
        {"kernel",
         is_new_enough(facts.kernel) ? facts.kernel : facts.kernel + ", and cages need 6.1 or newer",
         is_new_enough(facts.kernel)},
        {"cgroup v2", cgroups.mount(), true},
        {"pins", bpf_dir, is_bpffs(bpf_dir)},
    };
    for (const auto& [name, present] : {std::pair{"memory", facts.memory_controller},
                                        {"cpu", facts.cpu_controller},
                                        {"pids", facts.pids_controller}}) {
        const bool accepted = std::ranges::find(facts.unlimited, name) != facts.unlimited.end();
        list.push_back({fmt::format("{} limit", name),
                        present ? "enforced"
                        : accepted
                            ? "not enforced: no such controller on cgroup v2; accepted by accept-unlimited"
                            : "missing: no such controller on cgroup v2, so no cage is made",
                        present || accepted});
    }
    return list;
}

unique_fd load_program(const std::filesystem::path& folder, const char* name) {
    std::string looked;
    for (const std::filesystem::path& each : program_folders(folder)) {
        const std::filesystem::path path = each / name;
        looked += (looked.empty() ? "" : ", ") + path.native();
        const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        if (!file) continue;
        struct stat seen{};
        check(::fstat(file.get(), &seen), "look at {}", path.native());
        int made = static_cast<int>(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC));
        if (made < 0 && errno == EINVAL)
            made = static_cast<int>(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
        unique_fd memory(check(made, "make a place in memory for {}", name));
        for (off_t at = 0; at < seen.st_size;)
            check(::sendfile(memory.get(), file.get(), &at, static_cast<std::size_t>(seen.st_size - at)),
                  "load {}", path.native());
        // Pages that were just written may be held by the kernel for a moment more: EBUSY, on a busy machine.
        int sealed = -1;
        for (int tries = 0; tries < 50 && sealed < 0; ++tries) {
            if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
            sealed = ::fcntl(memory.get(), F_ADD_SEALS,
                             F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
            if (sealed < 0 && errno != EBUSY) break;
        }
        check(sealed, "seal {}", name);
        // Run, but not read: what cannot be read is not dumpable from its exec on (the kernel's would_dump), so there is no
        // moment in which a cage could trace its own pid 1.
        check(::fchmod(memory.get(), 0111), "let a cage run {}", name);
        return memory;
    }
    fail("{} was not found ({}): name its folder by libexec= in the configuration", name, looked);
}

void need_bpffs(const std::filesystem::path& bpf_dir) {
    static constexpr const char* usual = "/sys/fs/bpf";
    const std::filesystem::path above = bpf_dir.parent_path();
    if (is_bpffs(above) || is_bpffs(bpf_dir)) return;
    if (above != usual)
        fail("{} is on no bpffs: mount one there, or set bpf-dir in the configuration", bpf_dir.native());
    check(::mount("bpf", usual, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=700"), "mount a bpffs at {}",
          usual);
    spdlog::info("mounted a bpffs at {}: there was none", usual);
}

} // namespace pinfold
