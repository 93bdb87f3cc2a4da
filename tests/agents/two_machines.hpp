// Two pinfold machines that know each other by their peers files, on the mesh of the test world: this one, with a real
// keeper and cages, and "pi5", whose sessions run outside of cages. And "recorder", which writes down what arrives.
#pragma once

#include "harness/harness_machine.hpp"

#include <memory>

namespace pinfold::test {

inline constexpr const char* own_address = "fd5e:ca9e:7::1";
inline constexpr const char* peer_address = "fd5e:ca9e:7::2";
inline constexpr const char* recorder_address = "fd5e:ca9e:7::3";

// The node_modules of the SDKs, or a skip that says how to install them.
[[nodiscard]] std::string sdk_modules();

// The mesh's side: the agent of pi5 and the recorder. Made before the agent of this machine, for it frees port 7387.
class peer_machine {
public:
    peer_machine();
    peer_machine(const peer_machine&) = delete;
    peer_machine& operator=(const peer_machine&) = delete;
    ~peer_machine();

    [[nodiscard]] const api_client& api() const noexcept { return api_; }
    // A session of worker.py, outside a cage.
    void make_worker(const std::string& name, const json& more = json::object()) const;
    // As a program of pi5 outside of cages posts it to the agent of this machine.
    [[nodiscard]] json ask_laptop(const std::string& path, const json& body) const;
    [[nodiscard]] std::filesystem::path state() const { return folder_ / "state"; }
    [[nodiscard]] std::string log() const;
    // All bytes that came to the recorder, as they came.
    [[nodiscard]] std::string recorded() const;
    [[nodiscard]] static std::filesystem::path peers_of_this_machine();

private:
    void start_agent();
    void start_recorder();

    std::filesystem::path folder_;
    std::unique_ptr<beside> agent_, recorder_;
    api_client api_;
};

// The whole of both, for tests that need no real harness.
class two_machines {
public:
    two_machines();
    two_machines(const two_machines&) = delete;
    two_machines& operator=(const two_machines&) = delete;
    ~two_machines() = default;

    [[nodiscard]] peer_machine& peer() noexcept { return peer_; }
    [[nodiscard]] whole_machine& whole() noexcept { return whole_; }
    [[nodiscard]] const api_client& api() const noexcept { return api_; }
    [[nodiscard]] std::filesystem::path project() const { return whole_.project(); }
    [[nodiscard]] std::string log() const;
    [[nodiscard]] static std::vector<std::string> agent_options();

    // Runs a program on this machine, outside of cages, as its owner: what it prints.
    [[nodiscard]] std::string run(const std::vector<std::string>& words) const;
    // A session in a cage whose program is started by each message; and the last line that it said.
    void make(const std::string& name, const std::vector<std::string>& command,
              const json& cage = json::object()) const;
    [[nodiscard]] std::string said_by(const std::string& name) const;

private:
    peer_machine peer_;
    whole_machine whole_;
    std::unique_ptr<beside> agent_;
    api_client api_;
};

} // namespace pinfold::test
