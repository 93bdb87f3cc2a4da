// How the keeper is told what to do: three flags and one file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

namespace pinfold {

struct keeper_options {
    std::filesystem::path run_dir = "/run/pinfold";
    std::filesystem::path state_dir = "/var/lib/pinfold";
    std::filesystem::path config = "/etc/pinfold/keeper.conf";

    // From the file (pinfold.conf(5)); an unknown key is an error.
    std::string cgroup = "pinfold";                        // folder at the root of cgroup v2
    std::filesystem::path bpf_dir = "/sys/fs/bpf/pinfold"; // folder of a bpffs, for the pins
    std::filesystem::path libexec;                         // where pinfold-init and pinfold-probe are
    std::vector<std::string> accept_unlimited; // "memory", "cpu", "pids": cages without these limits
    std::uint32_t first_id = 0;                // of the pool of ids; 0 = the built-in one
    std::uint32_t last_id = 0;
    std::uint32_t most_cages = 1000;  // of one owner
    std::uint32_t spare_networks = 2; // made ahead while idle; each costs about 0.5 MB of the kernel's
    std::uint32_t claim_seconds = 30; // for an adopted cage's agent to come back, before the cage is ended
    unsigned socket_mode = 0666;      // who may ask; each asks for itself only
    std::string log_level = "info";

    [[nodiscard]] std::filesystem::path socket() const { return run_dir / "keeper.sock"; }
};

// The keys of the file. Throws failure with the one that is wrong.
void read_configuration(keeper_options& into, std::istream& from);
// Throws failure with the key or flag that is wrong. Prints and sets `done` for --help and --version.
[[nodiscard]] keeper_options read_options(int argc, char** argv, bool& done);

} // namespace pinfold
