// The whole product with the real harnesses: keeper, agent and cages on the test world's machine, a provider on its internet.
#pragma once

#include "sessions/session_fixture.hpp"
#include "whole/whole_machine.hpp"

#include <memory>
#include <tuple>

namespace pinfold::test {

// The programs of a child process group, ended with the object.
class beside {
public:
    beside(const std::vector<std::string>& words, const std::vector<std::string>& environment,
           const std::filesystem::path& log, std::optional<uid_t> user);
    beside(const beside&) = delete;
    beside& operator=(const beside&) = delete;
    ~beside() { end(SIGKILL); }
    void end(int number);
    [[nodiscard]] pid_t pid() const noexcept { return pid_; }

private:
    pid_t pid_ = -1;
};

class harness_machine {
public:
    static constexpr const char* key = "sk-ant-api03-never-in-a-cage-7b1f";       // the owner's
    static constexpr const char* token = "sk-ant-oat01-sealed-never-inside-93cd"; // of sealed sessions

    // Skips where the harnesses are not installed.
    explicit harness_machine(const std::vector<std::string>& more = {});
    harness_machine(const harness_machine&) = delete;
    harness_machine& operator=(const harness_machine&) = delete;
    ~harness_machine() = default;

    void start_agent();
    void start_provider();
    void end_provider() { provider_.reset(); }
    void end_agent(int number = SIGTERM) {
        agent_.reset();
        std::ignore = number;
    }

    [[nodiscard]] whole_machine& whole() noexcept { return whole_; }
    [[nodiscard]] const api_client& api() const noexcept { return api_; }
    [[nodiscard]] answered create(const json& more = json::object()) const;
    [[nodiscard]] std::filesystem::path home() const { return whole_.home(); }
    [[nodiscard]] std::filesystem::path state() const { return whole_.home() / "state"; }
    [[nodiscard]] std::filesystem::path project() const { return whole_.project(); }

    // Sends it, and the text of the answer; permissions are answered as `allow` says. What is told of the provider on the
    // way stands in it as "[provider WHAT STATUS]" and "[provider well]".
    [[nodiscard]] std::string turn(const std::string& text, std::optional<bool> allow = std::nullopt) const;
    // What reached the provider.
    [[nodiscard]] std::vector<json> requests() const;
    [[nodiscard]] std::string log() const;
    // Made and given to the owner.
    void write(const std::filesystem::path& file, const std::string& text, mode_t mode = 0600) const;

private:
    std::vector<std::string> more_;
    whole_machine whole_;
    std::string programs_;
    std::unique_ptr<beside> provider_, agent_;
    api_client api_;
};

} // namespace pinfold::test
