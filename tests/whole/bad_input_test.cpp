// What is asked wrongly, or cannot be done: one clear line, exit code 125, and nothing left behind.

#include "support/catch.hpp"
#include "whole/whole_machine.hpp"

#include <sys/mount.h>
#include <sys/stat.h>

namespace pinfold::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

// A tmpfs over a folder, seen by the tests and by what they start: of this size, or read-only.
class small_mount {
public:
    small_mount(fs::path where, const std::string& options, unsigned long flags = 0)
        : where_(std::move(where)) {
        check(::mount("tmpfs", where_.c_str(), "tmpfs", flags, options.c_str()), "mount a tmpfs at {}",
              where_.native());
    }
    small_mount(const small_mount&) = delete;
    small_mount& operator=(const small_mount&) = delete;
    ~small_mount() { ::umount2(where_.c_str(), MNT_DETACH); }

private:
    fs::path where_;
};

// Writes into a folder until there is no room, and gives it back at the end.
class full_disk {
public:
    explicit full_disk(const fs::path& folder) : file_(folder / "filler") {
        const unique_fd filler(
            check(::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), "make a filler"));
        const std::string page(4096, 'x');
        while (::write(filler.get(), page.data(), page.size()) > 0) {
        }
        CHECK(errno == ENOSPC);
    }
    full_disk(const full_disk&) = delete;
    full_disk& operator=(const full_disk&) = delete;
    ~full_disk() { free(); }
    void free() { ::unlink(file_.c_str()); }

private:
    fs::path file_;
};

// One line, 125, nothing on standard output, and a cage made afterwards gets the ids of the one before.
void check_refused(whole_machine& machine, const words& arguments, const std::string& says) {
    const cli_result result = machine.run(arguments);
    INFO(arguments.back() << ": " << result.err);
    CHECK(result.status == 125);
    CHECK(result.out.empty());
    CHECK(count_lines(result.err) == 1);
    CHECK(result.err.starts_with("pinfold: "));
    CHECK_THAT(result.err, ContainsSubstring(says));
}

TEST_CASE("what is said wrongly is one line and 125, and leaves nothing") {
    whole_machine machine;
    const std::uint32_t range = machine.next_range();
    const auto before = machine.census();
    ::mkdir((machine.folder() / "roots").c_str(), 0700); // root's: the owner may not look into it
    const std::vector<std::pair<words, const char*>> wrong{
        {{"run"}, "CMD"},
        {{"run", "--frob", "--", "true"}, "--frob"},
        {{"run", "--name", std::string(65, 'a'), "--", "true"}, "name"},
        {{"run", "--name", "a/b", "--", "true"}, "name"},
        {{"run", "--name", "../a", "--", "true"}, "name"},
        {{"run", "--name", "-a", "--", "true"}, "name"},
        {{"run", "--name", "", "--", "true"}, "name"},
        {{"run", "--sealed", "--uncaged", "--", "true"}, "--uncaged"},
        {{"run", "--dir", "/no/such/directory", "--", "true"}, "/no/such/directory"},
        {{"run", "--dir", "/etc/passwd", "--", "true"}, "/etc/passwd"},
        {{"run", "--dir", machine.folder() / "roots", "--", "true"}, "roots"},
        {{"run", "--dir", "/", "--", "true"}, "/"},
        {{"run", "--image", "no-such-image", "--", "true"}, "no-such-image"},
        {{"run", "--image", "../host", "--", "true"}, "image"},
        {{"run", "--memory", "lots", "--", "true"}, "memory"},
        {{"run", "--memory", "1k", "--", "true"}, "memory"},
        {{"run", "--cpus", "0", "--", "true"}, "cpus"},
        {{"run", "--pids", "-1", "--", "true"}, "pids"},
        {{"run", "-t", "--", "true"}, "terminal"},
        {{"run", "--owner", "root", "--", "true"}, "--owner"},
        {{"exec"}, "exec"},
        {{"exec", "a/b", "--", "true"}, "name"},
        {{"exec", "nobody", "--", "true"}, "nobody"},
    };
    for (const auto& [arguments, says] : wrong) check_refused(machine, arguments, says);
    CHECK(machine.differs_from(before) == "");
    CHECK(machine.next_range() == range);
    CHECK(machine.run({"ls", "--frob"}).status == 2);
    CHECK(machine.run({"frob"}).status == 2);
    CHECK(machine.run({"rm"}).status == 2);
}

TEST_CASE("a spec with a key that nobody knows is refused by name, and nothing is made") {
    whole_machine machine;
    machine.next_range(); // starts the agent
    const auto before = machine.census();
    const fs::path api = machine.home() / "run/pinfold/api.sock";
    const auto answer = [&](const std::string& body) { // plan and run read it with one parser
        const unique_fd to = connect_unix(api);
        send_text(to, agent_fixture::post_head("/v1/plan", body) + body);
        return receive_all(to);
    };
    const std::string start = R"({"mode":"sealed","dir":")" + machine.project().native() +
                              R"(","argv":["true"])";
    for (const auto& [more, key] : {std::pair{R"(,"frob":1})", "frob"},
                                    {R"(,"limits":{"disk":1}})", "disk"},
                                    {R"(,"terminal":{"rows":1,"cols":1,"wide":1}})", "wide"}}) {
        CHECK_THAT(answer(start + more), ContainsSubstring("HTTP/1.1 400") && ContainsSubstring(key));
        CHECK_THAT(stdio_peer(api, "/v1/cages", start + more).head(), ContainsSubstring("HTTP/1.1 400"));
    }
    CHECK_THAT(answer(start + "}"), ContainsSubstring("HTTP/1.1 200"));
    CHECK(machine.differs_from(before) == "");
    // The twin: without it the same request is run.
    stdio_peer good(api, "/v1/cages", start + "}");
    CHECK_THAT(good.head(), ContainsSubstring("101"));
    good.collect(PINFOLD_FRAME_STDOUT);
    CHECK(good.last().type == PINFOLD_FRAME_EXIT);
}

TEST_CASE("a project on a read-only mount is refused in one line, and nothing is left") {
    whole_machine machine;
    const fs::path place = machine.home() / "read-only";
    fs::create_directory(place);
    const small_mount mounted(place, fmt::format("uid={0},gid={0},mode=755", owner_id), MS_RDONLY);
    machine.kill_keeper(SIGTERM); // a new one sees the mount
    machine.start_keeper();
    const std::uint32_t range = machine.next_range();
    const auto before = machine.census();
    for (const char* mode : {"--sealed", "--caged"})
        check_refused(machine, {"run", mode, "--dir", place, "--", "true"}, "read-only mount");
    CHECK(machine.differs_from(before) == "");
    CHECK(machine.next_range() == range);
    check(::mount("tmpfs", place.c_str(), "tmpfs", MS_REMOUNT, nullptr), "make it writable"); // the twin
    machine.kill_keeper(SIGTERM);
    machine.start_keeper();
    CHECK(
        machine.run({"run", "--sealed", "--dir", place, "--", "sh", "-c", "touch made && echo wrote"}).out ==
        "wrote\n");
}

TEST_CASE("a full project is the command's own error, and the cage is made and unmade as ever") {
    whole_machine machine;
    const fs::path place = machine.home() / "small";
    fs::create_directory(place);
    const small_mount mounted(place, fmt::format("uid={0},gid={0},mode=755,size=16k", owner_id));
    machine.kill_keeper(SIGTERM);
    machine.start_keeper();
    machine.next_range();
    const auto before = machine.census();
    {
        full_disk full(place);
        const cli_result told = machine.run(
            {"run", "--sealed", "--dir", place, "--", "sh", "-c", "cat /etc/passwd > made"});
        CHECK(told.status == 1); // cat's
        CHECK_THAT(told.err, ContainsSubstring("No space left on device"));
    }
    CHECK(machine.run({"run", "--sealed", "--dir", place, "--", "sh", "-c", "echo text > made && cat made"})
              .out == "text\n");
    CHECK(machine.differs_from(before) == "");
}

TEST_CASE("without a keeper every verb says so in one line, and run ends with 125") {
    whole_machine machine;
    machine.next_range();
    machine.kill_keeper();
    const auto before = machine.census();
    check_refused(machine, {"run", "--sealed", "--", "true"}, "pinfold-keeper");
    for (const words& each :
         {words{"ls"}, {"inspect", "heron"}, {"rm", "heron"}, {"plan", "--", "true"}, {"doctor"}}) {
        const cli_result result = machine.run(each);
        INFO(each.front() << ": " << result.err);
        CHECK(result.status == 1);
        CHECK(count_lines(result.err) == 1);
        CHECK_THAT(result.err, ContainsSubstring("keeper"));
    }
    CHECK(machine.run({"run", "--uncaged", "--", "echo", "done"}).out == "done\n"); // needs no keeper
    CHECK(machine.differs_from(before) == "");
    machine.start_keeper();
    CHECK(machine.run({"run", "--sealed", "--", "echo", "done"}).out == "done\n");
}

TEST_CASE(
    "a state directory without room: no image, one line, nothing left, and it works when there is room") {
    whole_machine machine({.run_size = "", .state_size = "256m", .config = ""});
    const auto state = machine.census();
    {
        full_disk full(machine.state_dir());
        check_refused(machine, {"run", "--sealed", "--", "true"}, "No space left on device");
        const auto before = machine.census();
        for (int i = 0; i < 5; ++i)
            check_refused(machine, {"run", "--sealed", "--", "true"}, "No space left on device");
        CHECK(machine.differs_from(before) == "");
    }
    CHECK(machine.run({"run", "--sealed", "--", "echo", "done"}).out == "done\n");
    (void)state;
}

TEST_CASE("a run directory without room: no cage without a record, one line, nothing left") {
    whole_machine machine({.run_size = "1m", .state_size = "", .config = ""});
    const std::uint32_t range = machine.next_range();
    const auto before = machine.census();
    {
        full_disk full(machine.run_dir());
        for (int i = 0; i < 5; ++i)
            check_refused(machine, {"run", "--sealed", "--", "true"}, "No space left on device");
        CHECK(machine.run({"ls"}).status == 0);
    }
    CHECK(machine.differs_from(before) == "");
    CHECK(machine.next_range() == range);
}

TEST_CASE("a home without room for the agent's log: the agent is started or the line says why") {
    whole_machine machine;
    const fs::path place = machine.home() / ".local";
    fs::create_directory(place);
    check(::chown(place.c_str(), owner_id, owner_id), "give away {}", place.native());
    const small_mount mounted(place, fmt::format("uid={0},gid={0},mode=700,size=1m", owner_id));
    full_disk full(place);
    const cli_result told = machine.run({"run", "--sealed", "--", "echo", "done"});
    if (told.status == 0) {
        CHECK(told.out == "done\n");
    } else {
        CHECK(told.status == 125);
        CHECK(count_lines(told.err) == 1);
        CHECK_THAT(told.err, ContainsSubstring("No space left on device"));
    }
    full.free();
    const cli_result again = machine.run({"run", "--sealed", "--", "echo", "done"});
    CAPTURE(again.err, machine.agent_log());
    CHECK(again.out == "done\n");
}

} // namespace
} // namespace pinfold::test
