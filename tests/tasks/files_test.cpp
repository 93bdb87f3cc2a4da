// Files between agents: from those who are listed, in folders of their own, never through a link.
#include "agent/tasks/dropped_files.hpp"
#include "support/catch.hpp"
#include "task_machine.hpp"

#include <cstdint>
#include <fstream>
#include <sys/stat.h>

using namespace pinfold;
using namespace pinfold::test;
namespace fs = std::filesystem;

namespace {

answered drop(const task_machine& with, const std::string& from, const std::string& name,
              const std::string& bytes, const std::string& caged = "", const std::string& more = "") {
    return with.send_as("POST", caged, "/v1/sessions/heron/drop?name=" + name + more, bytes,
                        "application/octet-stream", "X-Shrooms-From-Session: " + from + "\r\n");
}

answered set(const task_machine& with, const json& settings) {
    return with.post("/v1/sessions/heron/settings", settings);
}

fs::path folder(const task_machine& with, const std::string& sender = "w1") {
    return with.directory() / "state/uploads/heron/drop" / ("from-laptop_" + sender);
}

} // namespace

TEST_CASE("a file is taken from a listed sender, numbered, told of, listed and deleted; from others it is a "
          "request") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    answered refused = drop(with, "w1", "a.txt", "secret");
    CHECK(refused.status == 403);
    CHECK(refused.body["error"].get<std::string>().find("files allow heron laptop/w1") != std::string::npos);
    CHECK(!fs::exists(folder(with)));
    json request = with.info()["file_requests"][0];
    CHECK(request["from"] == "laptop/w1");
    CHECK(request["name"] == "a.txt");
    CHECK(request["size"] == 6);
    CHECK(drop(with, "", "a.txt", "x").status == 400);

    CHECK(set(with, {{"accept_files_from", {"laptop/w1"}}}).status == 200);
    CHECK(!with.info().contains("file_requests")); // granted
    answered taken = drop(with, "w1", "a.txt", "hello", "", "&note=read%20it");
    REQUIRE(taken.status == 201);
    CHECK(taken.body["path"] == (folder(with) / "a.txt").native());
    CHECK(text_of(folder(with) / "a.txt") == "hello");
    REQUIRE(says(with.out(), "[shrooms file from laptop/w1: a.txt, 5 bytes, at "));
    CHECK(says(with.out(), "read it"));
    CHECK(drop(with, "w1", "..%2f..%2fa.txt", "more", "", "&tell=0").body["path"] ==
          (folder(with) / "a-1.txt").native());
    CHECK(drop(with, "w2", "a.txt", "x").status == 403);
    CHECK(drop(with, "w1", "empty", "").status == 400);
    json files = with.get("/v1/sessions/heron/drop").body["files"];
    REQUIRE(files.size() == 2);
    CHECK(files[0]["from"] == "laptop/w1");
    const std::string one = "/v1/sessions/heron/drop?from=laptop/w1&file=a.txt";
    CHECK(with.send_as("DELETE", "w1", one, "").status == 403);
    CHECK(fs::exists(folder(with) / "a.txt"));
    CHECK(with.remove(one).status == 204);
    CHECK(with.remove(one).status == 404);
    CHECK(with.remove("/v1/sessions/heron/drop?from=laptop/w1&file=../../../../../peers.json").status == 404);
    CHECK(fs::exists(with.directory() / "peers.json"));
}

TEST_CASE("a caged sender must be listed, and taken tasks from, too") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    CHECK(set(with, {{"accept_files_from", {"laptop/*"}}}).status == 200);
    // What the cage says of itself does not count.
    answered refused = drop(with, "other", "a", "x", "w1");
    CHECK(refused.status == 403);
    CHECK(refused.body["error"].get<std::string>().find("accept_caged") != std::string::npos);
    CHECK(with.info()["file_requests"][0]["from"] == "laptop/w1");
    CHECK(!fs::exists(with.directory() / "state/uploads/heron/drop"));
    CHECK(set(with, {{"accept_caged_from", {"laptop/w1"}}}).status == 200);
    CHECK(drop(with, "other", "a", "x", "w1").status == 201);
    CHECK(fs::exists(folder(with) / "a"));
    CHECK(drop(with, "other", "a", "x", "w2").status == 403);
}

TEST_CASE("no link leads a file out of its folder, and none is listed") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    CHECK(set(with, {{"accept_files_from", {"laptop/*"}}}).status == 200);
    const fs::path elsewhere = with.directory() / "elsewhere";
    fs::create_directories(elsewhere);
    fs::create_directories(folder(with).parent_path());
    fs::create_directory_symlink(elsewhere, folder(with));
    CHECK(drop(with, "w1", "a", "x").status == 500);
    CHECK(fs::is_empty(elsewhere));
    fs::remove(folder(with));
    CHECK(drop(with, "w1", "a", "x").status == 201); // the positive twin
    fs::create_symlink(elsewhere / "made", folder(with) / "b");
    CHECK(drop(with, "w1", "b", "y").body["path"] == (folder(with) / "b-1").native());
    CHECK(fs::is_empty(elsewhere));
    CHECK(with.get("/v1/sessions/heron/drop").body["files"].size() == 2);
    CHECK(with.remove("/v1/sessions/heron/drop?from=laptop/w1&file=b").status == 404);
    CHECK(fs::is_symlink(folder(with) / "b"));
}

TEST_CASE("a file and a sender's folder have limits, and what is over them leaves nothing") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    CHECK(set(with, {{"accept_files_from", {"laptop/*"}}}).status == 200);
    const std::string head = "POST /v1/sessions/heron/drop?name=big&tell=0 HTTP/1.1\r\nHost: localhost\r\n"
                             "Connection: close\r\nX-Shrooms-From-Session: w1\r\n"
                             "Content-Type: application/octet-stream\r\nContent-Length: 104857601\r\n\r\n";
    CHECK(parse_answer(with.raw(head)).status == 413);
    CHECK(!fs::exists(folder(with)));
    CHECK(drop(with, "w1", "big", std::string(std::size_t{3} << 20U, 'x'), "", "&tell=0").status == 201);
    std::ofstream(folder(with) / "sparse") << "";
    fs::resize_file(folder(with) / "sparse", (std::uintmax_t{1} << 30U) - (std::uintmax_t{3} << 20U) - 10);
    CHECK(drop(with, "w1", "over", "eleven bytes", "", "&tell=0").status == 400);
    CHECK(!fs::exists(folder(with) / "over"));
    CHECK(drop(with, "w1", "fits", "ten bytes.", "", "&tell=0").status == 201);
    CHECK(drop(with, "w2", "other", "eleven bytes", "", "&tell=0").status == 201); // a folder of its own
}

TEST_CASE("ten refused senders are remembered, the latest ones, and one can be ignored") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    for (int i = 0; i < 12; ++i) {
        CHECK(drop(with, fmt::format("w{}", i), "a", "x").status == 403);
        with.pass(std::chrono::seconds(1));
    }
    CHECK(drop(with, "w11", "newer", "xyz").status == 403);
    json requests = with.info()["file_requests"];
    REQUIRE(requests.size() == 10);
    CHECK(requests[0]["from"] == "laptop/w11");
    CHECK(requests[0]["name"] == "newer");
    CHECK(set(with, {{"ignore_file_request", "laptop/w11"}}).status == 200);
    requests = with.info()["file_requests"];
    REQUIRE(requests.size() == 9);
    CHECK(requests[0]["from"] == "laptop/w10");
}
