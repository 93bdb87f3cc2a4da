// The image `host`, built from a fake machine in a temp directory, and images by name.
#include "keeper/host_etc.hpp"
#include "keeper/images.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>

using namespace pinfold;
namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

namespace {

void write(const fs::path& path, std::string_view text, mode_t mode = 0644) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    REQUIRE(::chmod(path.c_str(), mode) == 0);
}

std::string read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

mode_t mode_of(const fs::path& path) {
    struct stat status{};
    REQUIRE(::lstat(path.c_str(), &status) == 0);
    return status.st_mode & 07777;
}

bool is_there(const fs::path& path) {
    return fs::symlink_status(path).type() != fs::file_type::not_found;
}

// A machine with one package, one person, and secrets in the places where machines have them.
class fake_machine {
public:
    fake_machine() {
        std::string name = (fs::temp_directory_path() / "pinfold-images-XXXXXX").native();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        folder_ = name;
        for (const char* merged : {"bin", "sbin", "lib"}) {
            fs::create_directories(root() / "usr" / merged);
            fs::create_symlink(fs::path("usr") / merged, root() / merged);
        }
        write(root() / "usr/lib/os-release", "ID=fake\n");
        write(root() / "etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"
                                     "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n"
                                     "alice:x:1000:1000:Alice:/home/alice:/bin/bash\n"
                                     "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
        write(root() / "etc/group",
              "root:x:0:\nsudo:x:27:alice\nshadow:x:42:\nalice:x:1000:\nnogroup:x:65534:\n");
        write(root() / "etc/services", "ssh 22/tcp\n");
        write(root() / "var/lib/dpkg/status", "Package: fake\n");
        write(root() / "var/lib/dpkg/info/passwd.list", "/etc\n");
    }
    fake_machine(const fake_machine&) = delete;
    fake_machine& operator=(const fake_machine&) = delete;
    ~fake_machine() {
        std::error_code ignored;
        fs::remove_all(folder_, ignored);
    }

    [[nodiscard]] fs::path root() const { return folder_ / "machine"; }
    [[nodiscard]] fs::path store() const { return folder_ / "images"; }
    [[nodiscard]] images all() const { return images(store(), root()); }
    // Where the skeleton of `host` was made.
    [[nodiscard]] fs::path host() const { return all().get("host").layers.at(0).lower; }

private:
    fs::path folder_;
};

std::string message_of(images& from, std::string_view name) {
    try {
        (void)from.get(name);
    } catch (const std::exception& error) {
        return error.what();
    }
    return "no error";
}

} // namespace

TEST_CASE("the image host is a skeleton below and the machine's own usr") {
    const fake_machine machine;
    const image host = machine.all().get("host");
    REQUIRE(host.layers.size() == 2);
    CHECK(host.layers[0].target == "/");
    CHECK(host.layers[1].target == "/usr");
    CHECK(host.layers[1].lower == machine.root() / "usr");
    CHECK_THAT(host.path, ContainsSubstring("/usr/bin"));

    const fs::path root = host.layers[0].lower;
    CHECK(fs::read_symlink(root / "bin") == "usr/bin");
    CHECK(fs::is_empty(root / "usr"));
    CHECK(fs::is_empty(root / "root"));
    CHECK(mode_of(root / "root") == 0700);
    CHECK(mode_of(root / "tmp") == 01777);
    CHECK(mode_of(root / "var/tmp") == 01777);
    CHECK(mode_of(root) == 0755);
    CHECK(fs::read_symlink(root / "var/run") == "/run");
    CHECK(read(root / "etc/services") == "ssh 22/tcp\n");
    CHECK(read(root / "var/lib/dpkg/status") == "Package: fake\n");
    CHECK(read(root / "var/lib/dpkg/info/passwd.list") == "/etc\n");
    CHECK_THAT(read(root / "etc/nsswitch.conf"), ContainsSubstring("files dns"));
    for (const char* written_by_cages : {"etc/hosts", "etc/hostname", "etc/resolv.conf"})
        CHECK(fs::symlink_status(root / written_by_cages).type() == fs::file_type::regular);
}

TEST_CASE("no person and no password comes with the image host") {
    const fake_machine machine;
    const fs::path etc = machine.host() / "etc";
    CHECK_THAT(read(etc / "passwd"), ContainsSubstring("root:x:0:0:root:/root:/bin/bash"));
    CHECK_THAT(read(etc / "passwd"), ContainsSubstring("nobody:x:65534"));
    CHECK_THAT(read(etc / "passwd"), !ContainsSubstring("alice"));
    CHECK_THAT(read(etc / "group"), ContainsSubstring("sudo:x:27:\n"));
    CHECK_THAT(read(etc / "group"), !ContainsSubstring("alice"));
    CHECK_THAT(read(etc / "shadow"), ContainsSubstring("root:*:"));
    CHECK(mode_of(etc / "shadow") == 0640);
    CHECK(mode_of(etc / "gshadow") == 0640);
}

TEST_CASE("what is not on the list stays on the machine, and so does what may be a secret below it") {
    const fake_machine machine;
    const fs::path etc = machine.root() / "etc";
    for (const char* unlisted :
         {"shadow", "machine-id", "gitconfig", "npmrc", "environment", "fstab", "ssh/ssh_host_key",
          "ssl/private/server.key", "sudoers", "new-service/password", "docker/daemon.json",
          "apt/apt.conf.d/proxy", "apt/auth.conf.d/mirror"})
        write(etc / unlisted, "canary");
    for (const char* listed_but_secret :
         {"ssl/certs/server.key", "profile.d/aws-credentials.sh", "security/opasswd",
          "java-17/management/jmxremote.password", "profile.d/token"})
        write(etc / listed_but_secret, "canary");
    write(etc / "profile.d/private-to-root.sh", "canary", 0600);
    write(etc / "profile.d/owners.sh", "canary", 0640);
    write(machine.root() / "home/alice/.ssh/id_ed25519", "canary");
    write(machine.root() / "root/.netrc", "canary");
    write(machine.root() / "var/lib/postgresql/data", "canary");
    write(etc / "profile.d/path.sh", "harmless"); // the twin

    const fs::path root = machine.host();
    CHECK(read(root / "etc/profile.d/path.sh") == "harmless");
    int files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
        if (!entry.is_regular_file()) continue;
        ++files;
        CAPTURE(entry.path());
        CHECK(read(entry.path()).find("canary") == std::string::npos);
    }
    CHECK(files > 5);
}

TEST_CASE("links are kept where they lead into usr or etc, and never followed") {
    const fake_machine machine;
    write(machine.root() / "home/alice/secret", "canary");
    write(machine.root() / "root/folder/file", "canary");
    const fs::path profile = machine.root() / "etc/profile.d";
    write(profile / "plain.sh", "");
    fs::create_symlink("/usr/share/zoneinfo/UTC", machine.root() / "etc/localtime");
    fs::create_symlink("../../usr/lib/x", profile / "relative");
    fs::create_symlink("/home/alice/secret", profile / "to-a-person");
    fs::create_symlink("/usr/../home/alice/secret", profile / "to-a-person-by-dots");
    fs::create_symlink("../../../home/alice/secret", profile / "relative-to-a-person");
    fs::create_symlink(machine.root() / "root/folder", profile / "to-a-folder");
    fs::create_symlink(machine.root() / "root/folder",
                       machine.root() / "etc/skel"); // where a folder is on the list

    const fs::path etc = machine.host() / "etc";
    CHECK(fs::read_symlink(etc / "localtime") == "/usr/share/zoneinfo/UTC");
    CHECK(fs::read_symlink(etc / "profile.d/relative") == "../../usr/lib/x");
    CHECK(is_there(etc / "profile.d/plain.sh"));
    for (const char* name : {"to-a-person", "to-a-person-by-dots", "relative-to-a-person", "to-a-folder"})
        CHECK_FALSE(is_there(etc / "profile.d" / name));
    CHECK_FALSE(is_there(etc / "skel"));
}

TEST_CASE("only files and folders are copied, without setuid bits") {
    const fake_machine machine;
    const fs::path skel = machine.root() / "etc/skel";
    write(skel / "program", "x", 06755);
    REQUIRE(::mkfifo((skel / "fifo").c_str(), 0666) == 0);
    const int server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    const std::string path = (skel / "s").native();
    REQUIRE(path.size() < sizeof address.sun_path);
    std::ranges::copy(path, address.sun_path);
    REQUIRE(::bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::chmod(path.c_str(), 0666) == 0);

    const fs::path copied = machine.host() / "etc/skel"; // a FIFO that is opened would hang here
    CHECK(mode_of(copied / "program") == 0755);
    CHECK_FALSE(is_there(copied / "fifo"));
    CHECK_FALSE(is_there(copied / "s"));
    ::close(server);
}

TEST_CASE("package sources come without those that hold a password") {
    CHECK(public_source_lines("deb http://deb.debian.org/debian bookworm main\n"
                              "deb [signed-by=/x] https://user:pass@mirror.example/ a b\n"
                              "# https://token@mirror.example/\n"
                              "deb http://mirror.example/a@b/ c d\n") ==
          "deb http://deb.debian.org/debian bookworm main\ndeb http://mirror.example/a@b/ c d\n");
    CHECK(public_source_paragraphs("Types: deb\nURIs: https://u:p@one.example/\nSuites: a\n\n"
                                   "Types: deb\nURIs: https://two.example/\nSuites: b\n") ==
          "Types: deb\nURIs: https://two.example/\nSuites: b\n");
    CHECK(public_source_paragraphs("A: 1\n\n\nB: 2\n") == "A: 1\n\nB: 2\n");
    CHECK(public_source_lines("").empty());

    const fake_machine machine;
    const fs::path apt = machine.root() / "etc/apt";
    write(apt / "sources.list", "deb https://user:canary@mirror.example/ a b\ndeb http://deb.example/ a b\n");
    write(apt / "sources.list.d/x.sources", "URIs: https://user:canary@mirror.example/\n");
    write(apt / "sources.list.d/y.list.bak", "canary\n");
    write(apt / "keyrings/vendor.key", "public\n");
    const fs::path copied = machine.host() / "etc/apt";
    CHECK(read(copied / "sources.list") == "deb http://deb.example/ a b\n");
    CHECK(read(copied / "sources.list.d/x.sources").empty());
    CHECK_FALSE(is_there(copied / "sources.list.d/y.list.bak"));
    CHECK(read(copied / "keyrings/vendor.key") == "public\n");
}

TEST_CASE("accounts are read whatever the lines look like") {
    const system_accounts odd = read_system_accounts(
        "alice:$6$hash:999:100:,,,:/:/bin/sh\nbroken\n:x:1:1:::\n"
        "x:y:notanumber:1:::\n",
        "users:secret:100:alice,bob\n\nbad:x\n");
    CHECK(odd.passwd == "root:x:0:0:root:/root:/bin/bash\nalice:x:999:100:,,,:/:/bin/sh\n");
    CHECK(odd.shadow == "root:*:::::::\nalice:*:::::::\n");
    CHECK(odd.group == "users:x:100:alice\n");
    CHECK(odd.gshadow == "users:*::alice\n");
}

TEST_CASE("the image host is made once, and again when packages change") {
    const fake_machine machine;
    const fs::path first = machine.host();
    write(first / "mark", "");
    CHECK(machine.host() == first);
    CHECK(is_there(first / "mark"));

    write(machine.root() / "var/lib/dpkg/status", "Package: fake\n\nPackage: another\n");
    const fs::path second = machine.host();
    CHECK(second != first);
    CHECK(is_there(first)); // a running cage may have it below
    CHECK_FALSE(is_there(second / "mark"));
    CHECK(read(second / "var/lib/dpkg/status").ends_with("another\n"));
}

TEST_CASE("what a crash left of a build is removed by the next one") {
    const fake_machine machine;
    const fs::path left = machine.store() / "host/.building-0123456789abcdef";
    write(left / "root/etc/services", "half");
    (void)machine.host();
    CHECK_FALSE(is_there(left));
}

TEST_CASE("old versions go after a month, but never the newest two") {
    const fake_machine machine;
    const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(24 * 60);
    const auto version = [&](const char* name, std::chrono::hours later) {
        const fs::path path = machine.store() / "host" / name;
        fs::create_directories(path / "root");
        fs::last_write_time(path, long_ago + later);
        return path;
    };
    const fs::path oldest = version("1111111111111111", std::chrono::hours(0));
    const fs::path older = version("2222222222222222", std::chrono::hours(1));
    const fs::path recent = version("3333333333333333", std::chrono::hours(24 * 55));
    (void)machine.host();
    CHECK_FALSE(is_there(oldest));
    CHECK_FALSE(is_there(older));
    CHECK(is_there(recent));
}

TEST_CASE("a machine whose tree cannot be used is refused with what to do") {
    SECTION("bin is a folder of its own") {
        const fake_machine machine;
        fs::remove(machine.root() / "bin");
        fs::create_directory(machine.root() / "bin");
        images all = machine.all();
        CHECK_THAT(message_of(all, "host"), ContainsSubstring("usrmerge"));
        CHECK_FALSE(is_there(machine.store() / "host"));
    }
    SECTION("there is no usr") {
        const fake_machine machine;
        fs::remove_all(machine.root() / "usr");
        images all = machine.all();
        CHECK_THAT(message_of(all, "host"), ContainsSubstring("usr is no directory"));
    }
}

TEST_CASE("other images are folders by name") {
    const fake_machine machine;
    images all = machine.all();
    fs::create_directories(machine.store() / "workbench/usr");
    CHECK_THAT(message_of(all, "workbench"), ContainsSubstring("no directory etc"));
    fs::create_directories(machine.store() / "workbench/etc");
    const image found = all.get("workbench");
    REQUIRE(found.layers.size() == 1);
    CHECK(found.layers[0].lower == machine.store() / "workbench");
    CHECK(found.layers[0].target == "/");

    CHECK_THAT(message_of(all, "missing"), ContainsSubstring("there is no directory"));
    fs::create_directory_symlink(machine.store() / "workbench", machine.store() / "link");
    CHECK_THAT(message_of(all, "link"), ContainsSubstring("there is no directory"));
    for (const std::string& name :
         {std::string(), std::string(".."), std::string("../x"), std::string("a/b"), std::string("A"),
          std::string(".hidden"), std::string("a\0b", 3), std::string(65, 'a'), std::string("-x")})
        CHECK_THAT(message_of(all, name), ContainsSubstring("the name must be"));
}
