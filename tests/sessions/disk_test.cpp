// A disk that is full: what cannot be kept is refused or waits, nothing that was told of is lost, and others go on.
#include "session_fixture.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <vector>

using namespace pinfold;
using namespace pinfold::test;

namespace {

// The agent's state on a small disk of its own, in a mount namespace of this process.
class small_disk {
public:
    explicit small_disk(session_fixture& with) : with_(with) {
        with.agent.stop();
        check(::unshare(CLONE_NEWNS), "make a mount namespace");
        check(::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "make the mounts private");
        check(::mount("tmpfs", place().c_str(), "tmpfs", 0, "size=6m,mode=700"), "mount a small disk");
        with.agent.start(agent_with_standin::with_standin({}));
    }
    small_disk(const small_disk&) = delete;
    small_disk& operator=(const small_disk&) = delete;
    ~small_disk() {
        with_.agent.stop();
        ::umount2(place().c_str(), MNT_DETACH);
    }

    [[nodiscard]] std::filesystem::path place() const { return with_.agent.directory() / "state"; }
    // Until not a byte more goes in.
    void fill() const {
        const unique_fd file(
            check(::open(ballast().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), "open it"));
        std::vector<char> block(std::size_t{64} * 1024, 'x');
        for (std::size_t size = block.size(); size > 0;) {
            if (::write(file.get(), block.data(), size) <= 0) size /= 2;
        }
        struct statvfs left{};
        REQUIRE(::statvfs(place().c_str(), &left) == 0);
        REQUIRE(left.f_bavail == 0);
    }
    void free() const { std::filesystem::remove(ballast()); }

private:
    [[nodiscard]] std::filesystem::path ballast() const { return place() / "ballast"; }
    session_fixture& with_;
};

json shell(const std::string& script) {
    return {{"harness", "command"}, {"command", {"sh", "-c", script}}};
}

std::string said_in(const session_fixture& with, const std::string& name) {
    return with.get("/v1/sessions/" + name + "/history").body.dump();
}

} // namespace

TEST_CASE("a full disk is said, loses nothing, and what waited is kept when there is room") {
    if (::geteuid() != 0) skip("only root mounts a disk of its own");
    session_fixture with;
    const small_disk disk(with);
    REQUIRE(with.create(shell("read x; while [ ! -e go ]; do sleep 0.05; done; echo the answer")).status ==
            201);
    json second = shell("cat");
    second["name"] = "egret";
    REQUIRE(with.create(second).status == 201);
    event_reader events = with.events();
    REQUIRE(with.send("begin", "m-1").status == 202);

    disk.fill();
    const answered refused = with.post("/v1/sessions/egret/messages", {{"text", "lost?"}, {"id", "m-2"}});
    INFO(refused.text << with.agent.log());
    CHECK(refused.status == 503);
    CHECK_THAT(refused.body.value("error", ""), Catch::Matchers::ContainsSubstring("free some space"));
    CHECK(with.create({{"name", "ibis"}, {"harness", "command"}, {"command", {"cat"}}}).status == 503);
    CHECK(with.get("/v1/sessions").body["sessions"].size() == 2); // it goes on answering
    std::ofstream(with.project() / "go") << "now";                // the project's disk is another
    CHECK(eventually([&] { return with.info().contains("error"); }));
    CHECK(said_in(with, "heron").find("the answer") == std::string::npos);
    CHECK(said_in(with, "egret").find("lost?") == std::string::npos);

    disk.free();
    REQUIRE(!events.wait_for("stopped").is_null());
    CHECK(said_in(with, "heron").find("the answer") != std::string::npos); // it waited in the program's pipe
    CHECK(!with.info().contains("error"));
    CHECK(with.post("/v1/sessions/egret/messages", {{"text", "lost?"}, {"id", "m-2"}}).status ==
          202); // sent again
    CHECK(eventually([&] { return said_in(with, "egret").find("lost?") != std::string::npos; }));

    // One number after the other, each once; also for who comes after a kill -9.
    with.agent.stop(SIGKILL);
    with.agent.start(agent_with_standin::with_standin({}));
    event_reader again = with.events();
    const std::uint64_t last = with.info()["last_seq"];
    for (std::uint64_t seq = 1; seq <= last; ++seq) CHECK(again.next().value("seq", std::uint64_t{0}) == seq);
}

TEST_CASE("an agent that is killed while its disk is full has all that it told of") {
    if (::geteuid() != 0) skip("only root mounts a disk of its own");
    session_fixture with;
    const small_disk disk(with);
    REQUIRE(with.create(shell("read x; echo \"answer to $x\"")).status == 201);
    event_reader events = with.events();
    REQUIRE(with.send("one").status == 202);
    REQUIRE(!events.wait_for("stopped").is_null());
    const std::uint64_t told = with.info()["last_seq"];
    disk.fill();
    CHECK(with.send("two").status == 503);
    with.agent.stop(SIGKILL);
    disk.free();
    with.agent.start(agent_with_standin::with_standin({}));
    CHECK(with.info()["last_seq"].get<std::uint64_t>() >= told);
    CHECK(said_in(with, "heron").find("answer to one") != std::string::npos);
    CHECK(with.send("two").status == 202);
    CHECK(eventually([&] { return said_in(with, "heron").find("answer to two") != std::string::npos; }));
}
