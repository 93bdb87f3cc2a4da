// What a session was asked to be: what its cage is given, its limits, and what its owner set.
#pragma once

#include "base/error.hpp"
#include "spec/cage_spec.hpp"

#include <expected>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pinfold {

// A request that cannot be done; the API says `status` and these words.
class session_refusal : public failure {
public:
    session_refusal(int status, const std::string& text) : failure(text), status_(status) {}
    [[nodiscard]] int status() const noexcept { return status_; }

private:
    int status_;
};

// Nix, GitHub and the shared folder widen the cage; all are off where nothing is said.
struct cage_options {
    std::string image; // empty = the machine's
    bool sealed = false;
    bool nix = false, github = false, shared = false;
    bool read_only_git = false; // narrows it

    bool operator==(const cage_options&) const = default;
};

struct session_options {
    std::optional<cage_options> cage; // none = uncaged
    std::string memory, cpus;         // as they were written; empty = the machine's
    std::vector<std::string> command; // of a `command` session
    std::string outbox;               // of a sealed one; a rename keeps it
};

struct session_settings {
    bool auto_approve = false, starred = false, keep_running = false;
    std::optional<bool> accept_caged; // none = as its cage says
    std::vector<std::string> accept_files_from, accept_caged_from, meshes;
};

struct create_request {
    std::string name, directory, harness = "claude", resume;
    session_options options;
    bool auto_approve = false, keep_running = false;
};

// Keys that are not known are left alone where other agents' tools may send more; wrong types are an error.
[[nodiscard]] std::expected<create_request, problem> read_create(std::string_view text);
[[nodiscard]] std::expected<std::optional<cage_options>, problem> read_move(std::string_view text);
struct limits_request {
    std::string memory, cpus;
};
[[nodiscard]] std::expected<limits_request, problem> read_cage_limits(std::string_view text);
struct message_request {
    std::string text, id;
};
[[nodiscard]] std::expected<message_request, problem> read_message(std::string_view text);
struct answer_request {
    bool allow = false;
    std::string message;
    std::vector<std::pair<std::string, std::string>> answers;
};
[[nodiscard]] std::expected<answer_request, problem> read_answer(std::string_view text);
[[nodiscard]] std::expected<std::string, problem> read_rename(std::string_view text);
struct settings_change {
    std::optional<bool> auto_approve, starred, keep_running, accept_caged;
    std::optional<std::vector<std::string>> accept_files_from, accept_caged_from, meshes;
    std::optional<std::string> ignore_file_request; // a sender's; no setting of the session
};
[[nodiscard]] std::expected<settings_change, problem> read_settings(std::string_view text);

// As the store keeps them.
[[nodiscard]] std::string to_text(const session_options& from);
[[nodiscard]] std::string to_text(const session_settings& from);
[[nodiscard]] session_options options_from(std::string_view text);
[[nodiscard]] session_settings settings_from(std::string_view text);

// "16g", "512m", bytes; "8", "0.5". Empty leaves the default. Throws session_refusal (400).
void apply_limits(const std::string& memory, const std::string& cpus, limits_spec& to);

[[nodiscard]] bool is_session_name(std::string_view text) noexcept;

} // namespace pinfold
