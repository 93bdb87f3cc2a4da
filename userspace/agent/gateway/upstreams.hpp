// Where a cage's model requests go, and the credential that is put on them: known here, outside of every cage.
#pragma once

#include "base/error.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pinfold {

// Who asks, as the relay knows: the cage the connection came out of.
struct model_asker {
    std::string session, harness;
    bool sealed = false;
};

struct upstream_request {
    std::string url;
    std::vector<std::pair<std::string, std::string>>
        credential;   // header fields; they replace what the cage sent
    std::string beta; // an anthropic-beta that the credential needs
};

// Not to be passed on; the words go to the program in the cage.
class model_refusal : public failure {
public:
    model_refusal(int status, const std::string& text) : failure(text), status_(status) {}
    [[nodiscard]] int status() const noexcept { return status_; }

private:
    int status_;
};

struct upstream_settings {
    std::string anthropic = "https://api.anthropic.com";
    std::filesystem::path key;                      // an API key or a token for caged sessions
    std::filesystem::path sealed_token;             // for sealed ones
    std::filesystem::path pi_models;                // pi's own list of providers, with the owner's keys
    std::map<std::string, std::string> environment; // of the agent: what pi's list names
};

// Throws model_refusal.
[[nodiscard]] upstream_request find_upstream(const upstream_settings& with, const model_asker& who,
                                             std::string_view target);

// Does this field of a cage's request go on? Not where it could carry a credential or belongs to the connection.
[[nodiscard]] bool may_pass_on(std::string_view name);
[[nodiscard]] bool may_pass_back(std::string_view name);

} // namespace pinfold
