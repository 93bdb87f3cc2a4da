// The product as its owner has it: a real keeper, a real agent that the CLI starts, and the CLI, run by a user who is
// not root, on the machine of the test world.
#pragma once

#include "base/process.hpp"
#include "support/cli_process.hpp"
#include "support/world.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace pinfold::test {

using words = std::vector<std::string>;

inline constexpr uid_t owner_id = 48211; // "ada", known only where the tests planted /etc/passwd
inline constexpr const char* owner_name = "ada";

// Where nothing of a sealed cage may ever arrive: a neighbour that would answer.
inline constexpr const char* forbidden = "192.168.1.10";
inline constexpr std::uint16_t forbidden_port = 9000;
inline constexpr const char* internet = "93.184.216.34"; // HTTP on 80

// A `pinfold` that runs beside the test.
class started_cli {
public:
    started_cli(const cli& from, const words& arguments);
    started_cli(const started_cli&) = delete;
    started_cli& operator=(const started_cli&) = delete;
    ~started_cli(); // killed and reaped

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    [[nodiscard]] std::string out() const { return read("out"); }
    [[nodiscard]] std::string err() const { return read("err"); }
    [[nodiscard]] bool running() const;
    [[nodiscard]] bool says(const std::string& text) const { return out().find(text) != std::string::npos; }
    void type(std::string_view text) const { std::ignore = ::write(input_.get(), text.data(), text.size()); }
    void end_input() { input_.reset(); }
    void kill(int number) const { ::kill(pid_, number); }
    int wait(std::chrono::seconds limit = std::chrono::seconds(30)); // as a shell says it

private:
    [[nodiscard]] std::string read(const char* name) const;

    scratch_directory place_;
    unique_fd input_;
    pid_t pid_ = -1;
    std::optional<int> ended_;
};

// What the machines of one test binary have in common, since it takes long to make: the world, /etc with the owner in it,
// and images.
class common_ground {
public:
    static common_ground& here();
    common_ground(const common_ground&) = delete;
    common_ground& operator=(const common_ground&) = delete;
    [[nodiscard]] test::world& net() noexcept { return world_; }
    [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
    [[nodiscard]] std::filesystem::path home() const { return folder_ / "home"; }

private:
    common_ground();
    ~common_ground();
    void plant(const std::string& text, const char* over) const;

    test::world world_;
    std::filesystem::path folder_;
};

// One at a time.
class whole_machine {
public:
    struct settings {
        std::string run_size;   // of a tmpfs for the keeper's run directory; empty = none
        std::string state_size; // and for its state directory
        std::string config;     // more lines of keeper.conf
    };
    whole_machine() : whole_machine(settings{}) {}
    explicit whole_machine(settings how);
    whole_machine(const whole_machine&) = delete;
    whole_machine& operator=(const whole_machine&) = delete;
    ~whole_machine();

    // ---- the keeper ----
    void start_keeper(); // and waits until it serves; throws with its last words
    void kill_keeper(int number = SIGKILL);
    [[nodiscard]] process& keeper() noexcept { return keeper_; }
    [[nodiscard]] std::string keeper_log() const;

    // ---- the owner ----
    [[nodiscard]] cli& pinfold() noexcept { return pinfold_; }
    [[nodiscard]] cli_result run(words arguments,
                                 const std::string& input = "");       // pinfold -q …, as the owner
    [[nodiscard]] nlohmann::json ask(words arguments, int status = 0); // pinfold --json …
    // `pinfold run --sealed --name NAME -- python3 -c SCRIPT`, beside the test.
    [[nodiscard]] words in_cage(const std::string& name, const std::string& script,
                                const char* mode = "--sealed") const;
    [[nodiscard]] std::filesystem::path project() const { return home_ / "project"; }
    [[nodiscard]] std::filesystem::path home() const { return home_; }
    [[nodiscard]] pid_t agent(); // 0 where none runs
    void kill_agent(int number = SIGKILL);
    [[nodiscard]] std::string agent_log() const;

    // ---- what there is ----
    // Of cages: cgroups, pins, records, kept files, half-made images, mounts, the keeper's and the agent's descriptors by
    // kind, and the id range that the next cage would get is left out: next_range().
    [[nodiscard]] std::vector<std::string> census();
    // Waits until the census is this one again; what differs otherwise, empty = nothing.
    [[nodiscard]] std::string differs_from(const std::vector<std::string>& before,
                                           std::chrono::seconds limit = std::chrono::seconds(10));
    [[nodiscard]] std::vector<std::string> cages(); // cgroups of cages
    std::uint32_t next_range();                     // makes a cage and ends it
    // Hooks whose pin is missing while their cage has processes; empty = guarded, or gone.
    [[nodiscard]] std::vector<std::string> unguarded();

    [[nodiscard]] test::world& net() noexcept { return ground_.net(); }
    [[nodiscard]] arrived at_target() { return net().count("lan", "", forbidden); }
    [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
    [[nodiscard]] std::filesystem::path cgroup_folder() const { return cgroup_mount_ / name_; }
    [[nodiscard]] const std::filesystem::path& pins() const noexcept { return pins_; }
    [[nodiscard]] std::filesystem::path run_dir() const { return folder_ / "run"; }
    [[nodiscard]] std::filesystem::path state_dir() const { return folder_ / "state"; }

private:
    [[nodiscard]] std::vector<std::string> look(); // one census
    void make_places();
    void write_config();
    void end_cages() const;

    settings how_;
    common_ground& ground_ = common_ground::here();
    std::string name_;
    std::filesystem::path folder_, pins_, cgroup_mount_, home_;
    cli pinfold_;
    process keeper_;
};

// A program of a cage: tries to reach what is forbidden without end, and says "ready" after the first try. It ends only
// when it is killed; if anything ever arrives it says so.
[[nodiscard]] std::string trying_script();

[[nodiscard]] std::size_t count_lines(const std::string& text);

} // namespace pinfold::test
