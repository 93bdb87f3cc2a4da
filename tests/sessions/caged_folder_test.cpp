// What a cage may have left in its private home, and what its agent makes of it afterwards (B33).
#include "agent/sessions/caged_folder.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "support/catch.hpp"

#include <fstream>
#include <sys/stat.h>
#include <tuple>

namespace pinfold {

namespace {

namespace fs = std::filesystem;

// The agent's folder, and beside it what belongs to the owner alone.
struct place {
    place() {
        std::string name = fs::temp_directory_path() / "pinfold-caged-XXXXXX";
        if (::mkdtemp(name.data()) == nullptr) fail_errno(errno, "make {}", name);
        root = name;
        fs::create_directories(root / "owner/empty");
        fs::create_directories(home());
    }
    place(const place&) = delete;
    place& operator=(const place&) = delete;
    ~place() {
        std::error_code ignored;
        fs::remove_all(root, ignored);
    }
    [[nodiscard]] fs::path home() const { return root / "cage.home"; }
    [[nodiscard]] std::size_t owners() const { // entries that are the owner's
        std::size_t count = 0;
        for (const auto& each : fs::recursive_directory_iterator(root / "owner"))
            count += each.exists() ? 1 : 0;
        return count;
    }

    fs::path root;
};

} // namespace

TEST_CASE("B33: a link that a cage left in its home leads its agent nowhere") {
    const place at;
    fs::create_directory_symlink(at.root / "owner/empty", at.home() / "projects");
    fs::create_symlink(at.root / "owner/empty/file", at.home() / "settings.json");
    fs::create_symlink("/", at.home() / "root");
    const caged_folder inside(at.home());
    std::ignore = inside.make_folder("projects/-p");
    inside.make_file("settings.json");
    inside.make_file("root/tmp/x");
    CHECK(at.owners() == 1);
    CHECK(fs::is_directory(fs::symlink_status(at.home() / "projects")));
    CHECK(fs::is_regular_file(fs::symlink_status(at.home() / "settings.json")));
    CHECK(fs::is_regular_file(fs::symlink_status(at.home() / "root/tmp/x")));

    std::ofstream(at.root / "transcript") << "line";
    fs::remove_all(at.home() / "projects");
    fs::create_directory_symlink(at.root / "owner/empty", at.home() / "projects");
    CHECK(inside.take_in(at.root / "transcript", "projects/-p/a.jsonl"));
    CHECK(at.owners() == 1);
    CHECK(read_file(at.home() / "projects/-p/a.jsonl") == "line");
}

TEST_CASE("B33: a FIFO that a cage left does not hold its agent, nor does a folder where a file belongs") {
    const place at;
    const caged_folder inside(at.home());
    for (const char* name : {"settings.json", "a.jsonl.new", "models.json.new", "projects"})
        REQUIRE(::mkfifo((at.home() / name).c_str(), 0600) == 0);
    fs::create_directories(at.home() / "CLAUDE.md/deep");
    inside.make_file("settings.json");
    inside.make_file("CLAUDE.md");
    std::ofstream(at.root / "transcript") << "line";
    CHECK(inside.take_in(at.root / "transcript", "a.jsonl"));
    CHECK(inside.take_in(at.root / "transcript", "projects/b.jsonl"));
    replace_file_at(open_directory(at.home()).get(), "models.json", "{}");
    CHECK(read_file(at.home() / "models.json") == "{}");
    CHECK(fs::is_regular_file(at.home() / "CLAUDE.md"));
}

TEST_CASE("what is in a cage's home already stays, and only plain files with one name are taken in") {
    const place at;
    const caged_folder inside(at.home());
    std::ofstream(at.home() / "kept") << "inside";
    std::ofstream(at.root / "outside") << "outside";
    inside.make_file("kept");
    CHECK(inside.take_in(at.root / "outside", "kept"));
    CHECK(read_file(at.home() / "kept") == "inside");
    fs::create_hard_link(at.root / "outside", at.root / "twin");
    CHECK_FALSE(inside.take_in(at.root / "twin", "other"));
    fs::create_symlink(at.root / "outside", at.root / "link");
    CHECK_FALSE(inside.take_in(at.root / "link", "other"));
    CHECK_THROWS(inside.make_folder("../owner/x"));
    CHECK_THROWS(inside.make_folder("/tmp/x"));
    CHECK(at.owners() == 1);
}

} // namespace pinfold
