// What `pinfold doctor` runs in a cage: a forbidden act for each guard and each claim that can be tried from inside.
// Nothing it tries sends a byte in either mode: where a caged cage may connect, a datagram socket is only connected.
#include "incage/probe/endpoint.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <linux/capability.h>
#include <linux/magic.h>
#include <memory>
#include <net/if.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

namespace pinfold::probe {
namespace {

constexpr std::size_t longest_detail = 100;
constexpr std::string_view nothing_wrong = "nothing to be found";

// ---- what no act of its own is for; an error means that the claim holds ----

// By a socket that does not wait: a refusal must come at once. Without one the kernel would go on by itself.
outcome connect_at_once(std::string_view address, std::string_view port, int type) {
    const endpoint to = to_endpoint(address, port);
    const unique_fd socket = make_socket(to.family(), type | SOCK_NONBLOCK);
    if (!socket) return done("no socket: " + text_of_error(errno)); // says nothing about the destination
    if (::connect(socket.get(), to.get(), to.size) == 0 || errno == EINPROGRESS) return done();
    if (errno != EACCES) return done(text_of_error(errno) + " in place of EACCES");
    return failed({});
}

outcome tcp(arguments given) {
    return connect_at_once(given[0], given[1], SOCK_STREAM);
}

outcome udp(arguments given) {
    return connect_at_once(given[0], given[1], SOCK_DGRAM);
}

// An act of the library on a destination: any other error says that no guard was asked.
outcome sent(arguments given) {
    outcome result = find_act(given[0])->run(given.subspan(1));
    if (result.error == 0 || result.error == EACCES) return result;
    return done(text_of_error(result.error) + " in place of EACCES");
}

// Covered by /dev/null or by an empty folder, or not there.
outcome covered(arguments given) {
    const std::string path(given[0]);
    struct stat seen{};
    if (::stat(path.c_str(), &seen) != 0) return failed({});
    if (S_ISCHR(seen.st_mode)) return refused(EACCES, "covered");
    if (!S_ISDIR(seen.st_mode)) return done();
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
    if (!folder) return failed({});
    while (const dirent* entry = ::readdir(folder.get()))
        if (entry->d_name[0] != '.') return done(entry->d_name);
    return refused(EACCES, "covered");
}

outcome sysfs(arguments) {
    struct statfs seen{};
    if (::statfs("/sys", &seen) != 0) return failed({});
    return seen.f_type == SYSFS_MAGIC ? done() : refused(ENOENT, "no sysfs");
}

// What is in /dev beyond the harmless ones.
outcome devices(arguments) {
    constexpr std::array<std::string_view, 8> harmless{"null",    "zero", "full", "random",
                                                       "urandom", "tty",  "ptmx", "console"};
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/dev"), &::closedir);
    while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
        struct stat seen{};
        const std::string_view name = entry->d_name;
        if (::fstatat(::dirfd(folder.get()), entry->d_name, &seen, AT_SYMLINK_NOFOLLOW) != 0) continue;
        const bool is_device = S_ISCHR(seen.st_mode) || S_ISBLK(seen.st_mode);
        if (is_device && std::ranges::find(harmless, name) == harmless.end()) return done(std::string(name));
    }
    return refused(ENOENT, std::string(nothing_wrong));
}

outcome links_of_the_machine(arguments) {
    const std::unique_ptr<struct if_nameindex, void (*)(struct if_nameindex*)> list(::if_nameindex(),
                                                                                    &::if_freenameindex);
    if (!list) return done("the links cannot be listed: " + text_of_error(errno));
    for (const struct if_nameindex* each = list.get(); each->if_index != 0; ++each)
        if (const std::string_view name = each->if_name; name != "lo" && name != "eth0")
            return done(std::string(name));
    return refused(ENOENT, std::string(nothing_wrong));
}

outcome sockets_of_the_machine(arguments) {
    for (const char* path :
         {"/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock",
          "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/pinfold/keeper.sock"}) {
        struct stat seen{};
        if (::stat(path, &seen) == 0) return done(path);
    }
    return refused(ENOENT, std::string(nothing_wrong));
}

outcome capabilities_beyond(arguments) {
    for (const int which : {CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_MODULE, CAP_SYS_RAWIO,
                            CAP_SYS_PTRACE, CAP_MKNOD, CAP_SYS_TIME, CAP_SYS_BOOT, CAP_BPF, CAP_PERFMON,
                            CAP_DAC_READ_SEARCH, CAP_SYS_RESOURCE, CAP_SYSLOG, CAP_MAC_ADMIN})
        if (::prctl(PR_CAPBSET_READ, static_cast<unsigned long>(which), 0, 0, 0) == 1)
            return done(joined("capability ", which));
    return refused(EPERM, "not in the bounding set");
}

outcome new_privileges(arguments) {
    return ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? refused(EPERM, "no_new_privs") : done();
}

// Root inside must be an id that is not root outside.
outcome root_outside(arguments) {
    std::ifstream map("/proc/self/uid_map");
    std::uint64_t inside = 0;
    std::uint64_t outside = 0;
    if (!(map >> inside >> outside)) return done("/proc/self/uid_map cannot be read");
    return outside == 0 ? done() : refused(EPERM, joined("root is id ", outside, " outside"));
}

// ---- the rows ----

struct row {
    std::string_view name;
    outcome (*run)(arguments given); // null: the act of the library that is named first
    std::array<std::string_view, 4> given{};
};

constexpr row rows[] = {
    // guards: destinations
    {"TCP to the agents' port", tcp, {"192.0.2.1", "7387"}},
    {"TCP to a reserved address", tcp, {"240.0.0.1", "9"}},
    {"a private address", udp, {"10.255.255.1", "9"}},
    {"a private address in IPv6 clothes", udp, {"::ffff:10.255.255.1", "9"}},
    {"a shared address", udp, {"100.64.0.1", "9"}},
    {"the cloud's metadata address", udp, {"169.254.169.254", "80"}},
    {"a private IPv6 address", udp, {"fd00::1", "9"}},
    {"multicast", sent, {"send-udp", "224.0.0.251", "9"}},
    {"IPv6 multicast", sent, {"send-udp", "ff02::fb", "9"}},
    {"broadcast", sent, {"broadcast", "255.255.255.255", "9"}},
    // guards: sockets, and the families that seccomp closes
    {"raw sockets", nullptr, {"socket", "2", "3", "1"}},
    {"UDP-Lite", nullptr, {"socket", "2", "2", "136"}},
    {"SCTP", nullptr, {"socket", "2", "1", "132"}},
    {"multipath TCP", nullptr, {"socket", "2", "1", "262"}},
    {"packet sockets", nullptr, {"socket", "17", "3", "0"}},
    {"VSOCK", nullptr, {"socket", "40", "1", "0"}},
    {"kernel crypto sockets", nullptr, {"socket", "38", "5", "0"}},
    {"netlink beyond route", nullptr, {"socket", "16", "3", "15"}},
    // guards: options
    {"IP options", nullptr, {"ip-options", "192.0.2.1"}},
    {"IPv6 routing header", nullptr, {"rthdr", "2001:db8::1"}},
    // the network's own shape
    {"links of the machine", links_of_the_machine},
    {"changing routes and links", nullptr, {"netadmin"}},
    // system calls
    {"io_uring", nullptr, {"io-uring"}},
    {"bpf", nullptr, {"bpf"}},
    {"keyrings", nullptr, {"keyctl"}},
    {"perf events", nullptr, {"perf"}},
    {"userfaultfd", nullptr, {"userfaultfd"}},
    {"kernel modules", nullptr, {"module"}},
    {"kexec", nullptr, {"kexec"}},
    {"file handles", nullptr, {"open-by-handle"}},
    {"typing into a terminal", nullptr, {"tiocsti-high"}},
#ifdef __x86_64__
    {"i386 system calls", nullptr, {"i386"}},
    {"x32 system calls", nullptr, {"x32"}},
#endif
    {"user namespaces", nullptr, {"clone-userns"}},
    {"user namespaces by clone3", nullptr, {"clone3-userns"}},
    // mounts and files
    {"mounts", nullptr, {"mount"}},
    {"the newer mount calls", nullptr, {"fsopen"}},
    {"character devices", nullptr, {"mknod-char"}},
    {"block devices", nullptr, {"mknod-block"}},
    {"devices of the machine", devices},
    {"kernel memory", covered, {"/proc/kcore"}},
    {"the kernel's keys", covered, {"/proc/keys"}},
    {"kernel timers", covered, {"/proc/timer_list"}},
    {"sysrq", covered, {"/proc/sysrq-trigger"}},
    {"firmware", covered, {"/sys/firmware"}},
    {"sysfs", sysfs},
    {"kernel settings", nullptr, {"sysctl-write"}},
    {"cgroup files", nullptr, {"cgroup-write"}},
    {"sockets of the machine's daemons", sockets_of_the_machine},
    // identity
    {"root of the machine", root_outside},
    {"capabilities beyond a container's", capabilities_beyond},
    {"new privileges", new_privileges},
    {"the clock", nullptr, {"settime"}},
    {"init's environment", nullptr, {"read", "/proc/1/environ"}},
    {"init's memory", nullptr, {"ptrace-init"}},
    {"overwriting programs that enter", nullptr, {"open-proc-exe"}},
};

outcome try_row(const row& each) {
    const auto end = std::ranges::find(each.given, std::string_view());
    const arguments given(each.given.begin(), end);
    return each.run != nullptr ? each.run(given) : find_act(given[0])->run(given.subspan(1));
}

} // namespace

int run_doctor() {
    for (const row& each : rows) {
        const outcome result = try_row(each);
        std::string detail = result.error == 0 ? std::string() : text_of_error(result.error);
        if (!result.detail.empty())
            detail += (detail.empty() ? "" : " ") + result.detail.substr(0, longest_detail);
        std::printf("%.*s\t%s\t%s\n", static_cast<int>(each.name.size()), each.name.data(),
                    result.error == 0 ? "allowed" : "refused", detail.c_str());
        std::fflush(stdout); // one that kills us leaves what came before
    }
    return 0;
}

} // namespace pinfold::probe
