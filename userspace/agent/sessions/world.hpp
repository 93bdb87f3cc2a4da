// What all sessions share: the ring, the cages, the store, and how this machine runs harnesses.
#pragma once

#include "agent/cages.hpp"
#include "agent/sessions/options.hpp"
#include "agent/store/store.hpp"

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

namespace pinfold {

class session;

// Looks at a session's project before a program of it runs in a cage, and after it. No std::function: it cannot return a coroutine.
class project_watch {
public:
    virtual task<> before_run(const session& one) = 0;
    virtual void after_run(const std::shared_ptr<session>& one) = 0; // its program has ended

protected:
    ~project_watch() = default;
};

struct session_world {
    uring& ring;
    task_group& group;
    cages& owned;
    store& kept;
    event stopping{};          // the agent ends
    std::uint64_t passing = 0; // counts the changes of what sessions show and the store does not have

    struct settings {
        std::filesystem::path state; // the agent's own directory
        std::filesystem::path home;  // the owner's
        std::string machine;         // its name
        std::string claude = "claude",
                    pi = "pi"; // programs, searched in the agent's PATH; empty = not offered
        std::vector<std::string> pi_arguments;
        std::map<std::string, std::string> environment; // the agent's own
        std::filesystem::path mcp; // pinfold-mcp on this machine; empty = cages have no tools for agents
        std::string image = "host";
        limits_spec limits; // of a cage that says nothing else
        std::filesystem::path sealed_token;
        std::string model_url; // the gateway's address inside a cage; empty = there is none
        bool sealed_model = false, caged_model = false; // the gateway has a credential for them
        // Its socket to this agent is opened before its cage is made, and closed when that is gone.
        std::function<void(const std::shared_ptr<const session>&)> open_door;
        std::function<void(const std::string& cage)> close_door;
        project_watch* watch = nullptr;
        std::chrono::milliseconds idle = std::chrono::minutes(30), look = std::chrono::seconds(15);
    } with;
};

// The program of a harness on this machine, links resolved. Throws session_refusal (409) where there is none.
[[nodiscard]] std::filesystem::path find_harness(const session_world::settings& with,
                                                 const std::string& harness);

} // namespace pinfold
