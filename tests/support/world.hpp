// The test world from C++: four network namespaces without an uplink, and the number of bytes that arrived in them.
#pragma once

#include "base/unique_fd.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace pinfold::test {

// What arrived somewhere since the last reset.
struct arrived {
    std::uint64_t packets = 0;
    std::uint64_t bytes = 0;
    std::uint64_t syns = 0;

    bool operator==(const arrived&) const = default;
};
inline constexpr arrived nothing{};

// A world of this test's own, up for as long as the object lives. Skips the test where it is not root's to make.
class world {
public:
    world();
    world(const world&) = delete;
    world& operator=(const world&) = delete;
    ~world();

    // Takes the calling thread into a namespace of the world ("machine") until the process ends.
    void enter(const std::string& space) const;

    // Sums over every entry that fits; empty or 0 = any. Throws when the capture lost packets: then a count proves nothing.
    [[nodiscard]] arrived count(const std::string& space, const std::string& protocol = "",
                                const std::string& address = "", std::uint16_t port = 0);
    void reset();
    // How often a DNS server of the world was asked since the last reset; an empty name = anything.
    [[nodiscard]] std::uint64_t questions(const std::string& server, const std::string& name = "");
    // Runs a command in a namespace of the world; throws when it fails.
    void run(const std::string& space, const std::string& command) const;
    void listen(const std::string& space, const std::string& protocol, const std::string& address,
                std::uint16_t port);

    [[nodiscard]] const std::filesystem::path& directory() const noexcept { return directory_; }
    [[nodiscard]] const std::string& name() const noexcept { return name_; }

private:
    [[nodiscard]] std::string ask(const std::string& request);

    std::string name_;
    std::filesystem::path directory_;
    unique_fd control_;
};

// Runs a program of the tree with an environment of nothing but PATH and what is given. Its exit code.
int run_command(const std::string& command, const std::string& environment = "");

} // namespace pinfold::test
