#include "cage/mounts.hpp"

#include "base/error.hpp"
#include "base/file.hpp"

#include <array>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <utility>

namespace pinfold {

namespace {

struct setting {
    const char* key;
    std::string value;
};

// fsopen, fsconfig, fsmount: a detached mount of a new file system. The kernel's own words about a bad option are
// read back from the context.
unique_fd mount_new(const char* type, std::initializer_list<setting> settings, unsigned attributes) {
    const unique_fd context(check(::fsopen(type, FSOPEN_CLOEXEC), "open a file system of type {}", type));
    const auto why = [&] {
        std::array<char, 512> text{};
        const ssize_t size = ::read(context.get(), text.data(), text.size() - 1);
        return size > 0 ? fmt::format(" ({})", std::string(text.data(), static_cast<std::size_t>(size)))
                        : std::string();
    };
    for (const auto& [key, value] : settings) {
        const int result = value.empty()
                               ? ::fsconfig(context.get(), FSCONFIG_SET_FLAG, key, nullptr, 0)
                               : ::fsconfig(context.get(), FSCONFIG_SET_STRING, key, value.c_str(), 0);
        if (result < 0) fail_errno(errno, "set {}={} of a {}{}", key, value, type, why());
    }
    if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) < 0)
        fail_errno(errno, "make a {}{}", type, why());
    return unique_fd(check(::fsmount(context.get(), FSMOUNT_CLOEXEC, attributes), "mount a {}", type));
}

void set_attributes(int mount, std::uint64_t attributes, int user_namespace, bool recursive,
                    const std::string& what) {
    mount_attr attr{};
    attr.attr_set = attributes;
    if (user_namespace >= 0) {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = static_cast<std::uint64_t>(user_namespace);
    }
    const unsigned flags = AT_EMPTY_PATH | (recursive ? static_cast<unsigned>(AT_RECURSIVE) : 0U);
    if (::mount_setattr(mount, "", flags, &attr, sizeof attr) == 0) return;
    const int error = errno;
    if (error == EINVAL && user_namespace >= 0)
        fail_errno(error, "shift the ids of {}: its file system ({}) cannot be idmapped on this kernel", what,
                   file_system_name(mount));
    fail_errno(error, "set the mount attributes of {}", what);
}

void own_directory(int parent, const std::string& name, unsigned mode, std::uint32_t owner) {
    if (::mkdirat(parent, name.c_str(), mode) != 0) {
        if (errno == EEXIST) return; // a kept upper: it is as it was left
        fail_errno(errno, "make the directory {} for what the cage writes", name);
    }
    check(::fchmodat(parent, name.c_str(), mode, 0), "set the mode of the directory {}",
          name); // past the umask
    check(::fchownat(parent, name.c_str(), owner, owner, AT_SYMLINK_NOFOLLOW),
          "give the directory {} to id {}", name, owner);
}

void make_node(int directory, const char* name, unsigned minor_number, unsigned major_number = 1) {
    check(::mknodat(directory, name, S_IFCHR | 0666, makedev(major_number, minor_number)),
          "make the device {}", name);
    check(::fchmodat(directory, name, 0666, 0), "open the device {} to everybody", name); // past the umask
}

void make_subdirectory(int directory, const char* name, unsigned mode = 0755) {
    check(::mkdirat(directory, name, mode), "make the directory {}", name);
    check(::fchmodat(directory, name, mode, 0), "set the mode of the directory {}", name); // past the umask
}

void copy_small_file(int directory, const char* name, const char* from) {
    const unique_fd file(
        check(::openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444), "make {}", name));
    check(::fchmod(file.get(), 0444), "open {} to everybody", name); // past the umask
    const std::string text = ::access(from, R_OK) == 0 ? read_file(from) : "";
    check(::write(file.get(), text.data(), text.size()), "write {}", name);
}

unique_fd make_dev_tree() {
    unique_fd dev = make_tmpfs(std::uint64_t{1} << 20);
    make_node(dev.get(), "null", 3);
    make_node(dev.get(), "zero", 5);
    make_node(dev.get(), "full", 7);
    make_node(dev.get(), "random", 8);
    make_node(dev.get(), "urandom", 9);
    make_node(dev.get(), "tty", 0, 5);
    for (const auto& [name, target] : {std::pair{"ptmx", "pts/ptmx"},
                                       {"fd", "/proc/self/fd"},
                                       {"stdin", "/proc/self/fd/0"},
                                       {"stdout", "/proc/self/fd/1"},
                                       {"stderr", "/proc/self/fd/2"}})
        check(::symlinkat(target, dev.get(), name), "make the link {}", name);
    for (const char* name : {"pts", "shm", "mqueue"}) make_subdirectory(dev.get(), name);
    set_attributes(dev.get(), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, -1, false, "/dev");
    return dev;
}

// What programs read to size themselves; nothing of the machine's devices. Plain files, copied once.
unique_fd make_sys_tree() {
    unique_fd sys = make_tmpfs(std::uint64_t{1} << 20);
    for (const char* name : {"devices", "devices/system", "devices/system/cpu", "fs", "fs/cgroup", "kernel",
                             "kernel/mm", "kernel/mm/transparent_hugepage", "class", "block"})
        make_subdirectory(sys.get(), name);
    for (const char* name :
         {"devices/system/cpu/online", "devices/system/cpu/possible", "devices/system/cpu/present",
          "kernel/mm/transparent_hugepage/enabled", "kernel/mm/transparent_hugepage/hpage_pmd_size"})
        copy_small_file(sys.get(), name, fmt::format("/sys/{}", name).c_str());
    set_attributes(sys.get(), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                   -1, false, "/sys");
    return sys;
}

unique_fd make_empty_tree() {
    unique_fd empty = make_tmpfs(4096, 0555);
    set_attributes(empty.get(), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                   -1, false, "a cover");
    return empty;
}

unique_fd clone_mount(const std::string& place) {
    return unique_fd(check(::open_tree(AT_FDCWD, place.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC),
                           "clone the mount {}", place));
}

std::string through_fd(int fd, const std::string& below) {
    return fmt::format("/proc/self/fd/{}{}", fd, below);
}

} // namespace

void leave_machine_mounts() {
    check(::unshare(CLONE_NEWNS), "make a mount namespace for the keeper");
    check(::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr),
          "keep the keeper's mounts out of the machine's tree");
}

attachment::attachment(int mount, const std::string& place) : place_(place) {
    check(::move_mount(mount, "", AT_FDCWD, place.c_str(), MOVE_MOUNT_F_EMPTY_PATH), "attach a mount at {}",
          place);
}

attachment::~attachment() {
    (void)::umount2(place_.c_str(), MNT_DETACH);
}

scratch::scratch(const std::filesystem::path& folder)
    : lower_(folder / "lower"), upper_(folder / "upper"), root_(folder / "root") {
    for (const std::string& place : {lower_, upper_, root_}) (void)make_directory(place);
    // The child walks to its root with an id that owns nothing.
    for (const std::string& place : {folder.native(), root_})
        check(::chmod(place.c_str(), 0711), "open the way to {}", place);
}

unique_fd make_tmpfs(std::uint64_t bytes, unsigned mode) {
    const std::string permissions = fmt::format("{:o}", mode);
    if (bytes == 0) return mount_new("tmpfs", {{"mode", permissions}}, 0);
    return mount_new("tmpfs", {{"mode", permissions}, {"size", fmt::format("{}", bytes)}}, 0);
}

unique_fd make_overlay(const scratch& places, const std::filesystem::path& lower, int user_namespace,
                       int writable, const std::string& name, std::uint32_t base, bool durable) {
    unique_fd below(check(::open_tree(AT_FDCWD, lower.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC),
                          "clone the image layer {}", lower.native()));
    set_attributes(below.get(), MOUNT_ATTR_RDONLY, user_namespace, false, lower.native());
    check(::mkdirat(writable, name.c_str(), 0700) == 0 || errno == EEXIST ? 0 : -1,
          "make {} for what the cage writes", name);
    own_directory(writable, name + "/upper", 0755, base);
    own_directory(writable, name + "/work", 0755, base);

    const attachment lower_there(below.get(), places.lower());
    const std::string upper = through_fd(writable, "/" + name + "/upper");
    const std::string work = through_fd(writable, "/" + name + "/work");
    // Setuid programs gain nothing in a cage (no_new_privs). File capabilities outside of the bounding set would make
    // exec fail with EPERM, as for Debian's ping; nosuid makes the kernel ignore them.
    constexpr std::uint64_t attributes = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID;
    unique_fd overlay = durable ? mount_new("overlay",
                                            {{"source", "pinfold"},
                                             {"lowerdir", places.lower()},
                                             {"upperdir", upper},
                                             {"workdir", work}},
                                            attributes)
                                : mount_new("overlay",
                                            {{"source", "pinfold"},
                                             {"lowerdir", places.lower()},
                                             {"upperdir", upper},
                                             {"workdir", work},
                                             {"volatile", ""}},
                                            attributes);
    // An upper that the overlay cannot use makes it silently read-only (errno 75 in the kernel's log).
    struct statvfs seen{};
    check(::fstatvfs(overlay.get(), &seen), "look at the overlay of {}", lower.native());
    if ((seen.f_flag & ST_RDONLY) != 0)
        fail("the overlay of {} came up read-only: see the kernel's log", lower.native());
    return overlay;
}

unique_fd make_bind(int source, int user_namespace, bool writable, const std::filesystem::path& path) {
    unique_fd bind(
        check(::open_tree(source, "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC),
              "clone the mount of {}", path.native()));
    const std::uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                     (writable ? 0 : MOUNT_ATTR_RDONLY);
    set_attributes(bind.get(), attributes, user_namespace, true, path.native());
    return bind;
}

shared_trees::shared_trees(const std::filesystem::path& folder)
    : dev_(folder / "dev"), sys_(folder / "sys"), empty_(folder / "empty") {
    const auto place = [this](const std::string& where, const unique_fd& tree) {
        (void)make_directory(where);
        attached_.push_back(std::make_unique<attachment>(tree.get(), where));
    };
    place(dev_, make_dev_tree());
    place(sys_, make_sys_tree());
    place(empty_, make_empty_tree());
}

unique_fd shared_trees::dev() const {
    return clone_mount(dev_);
}

unique_fd shared_trees::sys() const {
    return clone_mount(sys_);
}

unique_fd shared_trees::empty() const {
    return clone_mount(empty_);
}

unique_fd make_devpts(std::uint32_t base) {
    constexpr std::uint32_t tty_group = 5; // Debian's "tty"
    return mount_new("devpts",
                     {{"mode", "620"},
                      {"ptmxmode", "666"},
                      {"uid", fmt::format("{}", base)},
                      {"gid", fmt::format("{}", base + tty_group)}},
                     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

terminal open_terminal(int devpts, std::uint16_t rows, std::uint16_t columns) {
    terminal made;
    made.master = unique_fd(
        check(::openat(devpts, "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), "open a terminal for the cage"));
    const int unlocked = 0;
    check(::ioctl(made.master.get(), TIOCSPTLCK, &unlocked), "unlock the cage's terminal");
    // By the master and not by a path: the slave cannot be somebody else's.
    made.slave = unique_fd(check(::ioctl(made.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC),
                                 "open the cage's end of its terminal"));
    const winsize size{.ws_row = rows, .ws_col = columns};
    check(::ioctl(made.master.get(), TIOCSWINSZ, &size), "set the size of the cage's terminal");
    return made;
}

std::string file_system_name(int fd) {
    struct statfs seen{};
    if (::fstatfs(fd, &seen) != 0) return "unknown";
    static constexpr std::array known{
        std::pair{0xef53L, "ext4"},          std::pair{0x01021994L, "tmpfs"},
        std::pair{0x794c7630L, "overlayfs"}, std::pair{0x65735546L, "fuse"},
        std::pair{0x6969L, "nfs"},           std::pair{0x58465342L, "xfs"},
        std::pair{0x9123683eL, "btrfs"},     std::pair{0x01021997L, "9p"},
        std::pair{0xff534d42L, "cifs"},      std::pair{0x2fc12fc1L, "zfs"},
        std::pair{0x4d44L, "vfat"},          std::pair{0x2011bab0L, "exfat"},
        std::pair{0xf15fL, "ecryptfs"},      std::pair{0xfe534d42L, "smb2"},
        std::pair{0xf2f52010L, "f2fs"},      std::pair{0x73717368L, "squashfs"},
    };
    for (const auto& [magic, name] : known) {
        if (static_cast<long>(seen.f_type) == magic) return name;
    }
    return fmt::format("type {:#x}", seen.f_type);
}

} // namespace pinfold
