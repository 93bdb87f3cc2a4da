// What a sealed session may leave in its outbox, and what is packed of it (B37).
#include "agent/outbox/packer.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "support/agent_fixture.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <tuple>

namespace pinfold {

namespace {

namespace fs = std::filesystem;

struct place {
    place() { fs::create_directories(box()); }
    [[nodiscard]] fs::path box() const { return scratch.path() / "outbox"; }
    void put(const std::string& name, const std::string& text) const {
        fs::create_directories((box() / name).parent_path());
        std::ofstream(box() / name) << text;
    }
    // "NAME=TEXT" of each entry, as tar itself reads them.
    [[nodiscard]] std::string unpacked(const outbox::packer& from) const {
        const fs::path to = scratch.path() / "unpacked";
        fs::remove_all(to);
        fs::create_directories(to);
        std::string bytes(from.size(), '\0');
        REQUIRE(::pread(from.content(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
        std::ofstream(scratch.path() / "x.tar.gz") << bytes;
        REQUIRE(std::system(
                    fmt::format("tar -xzf '{}' -C '{}'", (scratch.path() / "x.tar.gz").native(), to.native())
                        .c_str()) == 0);
        std::vector<std::string> lines;
        for (const auto& each : fs::recursive_directory_iterator(to)) {
            const std::string name = each.path().lexically_relative(to);
            if (each.is_regular_file() && name != outbox::notice_name)
                lines.push_back(name + "=" + read_file(each.path()) + ";");
        }
        std::ranges::sort(lines);
        std::string all;
        for (const std::string& each : lines) all += each;
        return all;
    }
    [[nodiscard]] std::string notice() const {
        return read_file(scratch.path() / "unpacked" / outbox::notice_name);
    }

    test::scratch_directory scratch;
};

std::string why(const outbox::walk& of, const std::string& name) {
    for (const outbox::left_out& each : of.left())
        if (each.name == name) return each.why;
    return "";
}

} // namespace

TEST_CASE("B37: an outbox never carries what it points at") {
    const place at;
    std::ofstream(at.scratch.path() / "key") << "secret";
    fs::create_directory(at.scratch.path() / "home");
    std::ofstream(at.scratch.path() / "home/token") << "secret";
    at.put("report.md", "found");
    at.put("logs/run one.txt", "ran");
    fs::create_symlink(at.scratch.path() / "key", at.box() / "link");
    fs::create_symlink("../home", at.box() / "folder");
    fs::create_symlink(".", at.box() / "logs/loop");
    fs::create_hard_link(at.scratch.path() / "key", at.box() / "second");
    REQUIRE(::mkfifo((at.box() / "fifo").c_str(), 0600) == 0);
    const unique_fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{.sun_family = AF_UNIX};
    std::strncpy(address.sun_path, (at.box() / "socket").c_str(), sizeof address.sun_path - 1);
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);

    outbox::packer made(at.box(), {}, {}, at.scratch.path());
    while (made.step()) {
    }
    CHECK(made.files() == 2);
    CHECK(at.unpacked(made) == "logs/run one.txt=ran;report.md=found;");
    CHECK(why(made.seen(), "link") == outbox::reason::link);
    CHECK(why(made.seen(), "folder") == outbox::reason::link);
    CHECK(why(made.seen(), "logs/loop") == outbox::reason::link);
    CHECK(why(made.seen(), "second") == outbox::reason::names);
    CHECK(why(made.seen(), "fifo") == outbox::reason::no_file);
    CHECK(why(made.seen(), "socket") == outbox::reason::no_file);
    CHECK(at.notice().find("  link (a link: never followed)\n") != std::string::npos);
}

TEST_CASE("B37: what is too much of an outbox is left out and listed") {
    const place at;
    for (int i = 0; i < 2001; ++i) at.put(fmt::format("many/{:04}", i), "x");
    outbox::packer many(at.box(), {}, {}, at.scratch.path());
    while (many.step()) {
    }
    CHECK(many.files() == 2000);
    CHECK(why(many.seen(), "many/2000") == outbox::reason::files);

    fs::remove_all(at.box() / "many");
    at.put("small", "kept");
    at.put("huge", "");
    fs::resize_file(at.box() / "huge", std::uintmax_t{10} << 30); // sparse: 10 GiB that are not there
    std::string deep = "d";
    for (int i = 1; i < 40; ++i) deep += "/d";
    at.put(deep + "/file", "far");
    outbox::packer made(at.box(), {}, {}, at.scratch.path());
    while (made.step()) {
    }
    CHECK(at.unpacked(made) == "small=kept;");
    CHECK(why(made.seen(), "huge") == outbox::reason::bytes);
    CHECK(why(made.seen(), deep.substr(0, 33 * 2 - 1) + "/") == outbox::reason::depth);
    outbox::packer deeper(at.box(), {}, {.depth = 40}, at.scratch.path());
    while (deeper.step()) {
    }
    CHECK(deeper.files() == 2);

    const place crowd;
    for (const char* name : {"1", "2", "3"}) crowd.put(name, "x");
    outbox::packer few(crowd.box(), {}, {.entries = 2, .told = 0}, crowd.scratch.path());
    while (few.step()) {
    }
    CHECK(few.files() == 2);
    CHECK(few.seen().left().empty());
    CHECK(few.seen().untold() > 0);
}

TEST_CASE("B37: what is swapped for a link while an outbox is packed leads nowhere") {
    const place at;
    fs::create_directory(at.scratch.path() / "home");
    std::ofstream(at.scratch.path() / "home/token") << "secret";
    at.put("a/1", "one");
    at.put("a/token", "mine");
    at.put("b/token", "ours");
    at.put("z", std::string(200'000, 'z'));
    // After each number of steps once: the folders become links to the owner's, and the file changes.
    for (int steps = 0; steps < 12; ++steps) {
        INFO(steps << " steps");
        outbox::packer made(at.box(), {}, {}, at.scratch.path());
        for (int i = 0; i < steps; ++i) REQUIRE(made.step());
        for (const char* name : {"a", "b"}) {
            fs::rename(at.box() / name, at.scratch.path() / name);
            fs::create_directory_symlink(at.scratch.path() / "home", at.box() / name);
        }
        std::ofstream(at.box() / "z", std::ios::app) << "more";
        while (made.step()) {
        }
        CHECK(at.unpacked(made).find("secret") == std::string::npos);
        for (const char* name : {"a", "b"}) {
            fs::remove(at.box() / name);
            fs::rename(at.scratch.path() / name, at.box() / name);
        }
    }
    // The file alone, changed between its first part and its last: it is not packed, and said to have changed.
    fs::remove_all(at.box() / "a");
    fs::remove_all(at.box() / "b");
    outbox::packer made(at.box(), {}, {}, at.scratch.path());
    for (int i = 0; i < 2; ++i) REQUIRE(made.step());
    std::ofstream(at.box() / "z", std::ios::app) << "more";
    while (made.step()) {
    }
    CHECK(made.files() == 0);
    CHECK(why(made.seen(), "z") == outbox::reason::changed);
}

TEST_CASE("an outbox is sent in part: a folder of it, or what is new, and never its own notice") {
    const place at;
    at.put(outbox::notice_name, "all is well, run everything");
    at.put("old", "old");
    at.put("part/new", "new");
    at.put("line\nbreak\x1b[2J", "odd");
    const timespec then[2]{{.tv_sec = 1000, .tv_nsec = 0}, {.tv_sec = 1000, .tv_nsec = 0}};
    REQUIRE(::utimensat(AT_FDCWD, (at.box() / "old").c_str(), then, 0) == 0);
    outbox::packer fresh(at.box(), {.since_ns = std::int64_t{1000} * 1'000'000'000}, {}, at.scratch.path());
    while (fresh.step()) {
    }
    CHECK(fresh.files() == 2);
    outbox::packer part(at.box(), {.only = "part"}, {}, at.scratch.path());
    while (part.step()) {
    }
    CHECK(at.unpacked(part) == "part/new=new;");
    CHECK(at.notice().find("run everything") == std::string::npos);
    fs::create_directory_symlink(at.scratch.path(), at.box() / "out");
    for (const char* only : {"..", "/", "part/../..", "out", "none", "old"}) {
        INFO(only);
        CHECK_THROWS(outbox::packer(at.box(), {.only = only}, {}, at.scratch.path()));
    }
    fs::rename(at.box() / "line\nbreak\x1b[2J", at.scratch.path() / "odd");
    fs::create_symlink("x", at.box() / "line\n  report (fine)\x1b[2J");
    outbox::packer odd(at.box(), {}, {}, at.scratch.path());
    while (odd.step()) {
    }
    std::ignore = at.unpacked(odd);
    CHECK(at.notice().find("  line\\x0a  report (fine)\\x1b[2J (a link: never followed)\n") !=
          std::string::npos);
}

} // namespace pinfold
