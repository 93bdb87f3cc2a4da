// All sessions of the owner: made, found by name, deleted, and looked at every few seconds.
#pragma once

#include "agent/event.hpp"
#include "agent/sessions/session.hpp"

#include <map>
#include <memory>
#include <string>

namespace pinfold {

class session_list {
public:
    // Reads what is kept. `settings` as the machine is configured.
    session_list(cages& owned, store& kept, session_world::settings settings);
    session_list(const session_list&) = delete;
    session_list& operator=(const session_list&) = delete;
    ~session_list() = default;

    [[nodiscard]] session_world& world() noexcept { return world_; }
    [[nodiscard]] const std::map<std::string, std::shared_ptr<session>, std::less<>>& all() const noexcept {
        return by_name_;
    }
    [[noreturn]] static void no_such_session(std::string_view name); // throws session_refusal (404)
    // Throws session_refusal (404).
    [[nodiscard]] std::shared_ptr<session> get(std::string_view name) const;

    // Throws session_refusal (400), store_failure.
    std::shared_ptr<session> create(create_request from, const std::string& by);
    task<> remove(std::string name);
    void rename(const std::string& from, const std::string& to, const std::string& by);

    // The session that this cage belongs to, or nothing.
    [[nodiscard]] std::shared_ptr<session> of_cage(std::string_view cage) const;

    // Delivers what waited when the agent was killed, then looks after all until stop(). Spawned once.
    task<> run();
    // Ends every program; returns at once, and cages.known() empties.
    void stop();

private:
    void refuse(const create_request& from) const;
    void take_conversation(create_request& from) const;
    static task<> look_at(std::shared_ptr<session> one);
    static task<> stop_one(std::shared_ptr<session> one);

    session_world world_;
    std::map<std::string, std::shared_ptr<session>, std::less<>> by_name_;
    event added_; // a session, or the end
};

} // namespace pinfold
