// The agent's connection to the keeper: requests and their answers, what the keeper says unasked, and reconnecting.
#pragma once

#include "agent/event.hpp"
#include "wire/channel.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace pinfold {

// Nobody answers: the API says 503.
class keeper_unreachable : public failure {
public:
    using failure::failure;
};
// The keeper said no; its words.
class keeper_refused : public failure {
public:
    using failure::failure;
};

class keeper_link {
public:
    struct observer {
        virtual void program_ended(const wire::ended& what) = 0;
        virtual void denials_came(const wire::denials& what) = 0;
        virtual void keeper_connected() = 0; // after hello, each time
        virtual void keeper_lost() = 0;

    protected:
        ~observer() = default;
    };

    keeper_link(uring& ring, std::filesystem::path socket, observer& watcher);
    keeper_link(const keeper_link&) = delete;
    keeper_link& operator=(const keeper_link&) = delete;
    ~keeper_link();

    // Connects, reads and connects again until stop(). Spawned once.
    task<> run();
    void stop();

    // The answer of the type that belongs to the request. Throws keeper_unreachable or keeper_refused.
    template <typename Reply>
    task<std::pair<Reply, std::vector<unique_fd>>> ask(wire::body question) {
        wire::message answer = co_await request(std::move(question));
        auto* reply = std::get_if<Reply>(&answer.body);
        if (reply == nullptr)
            throw keeper_refused("the keeper answered with another message than was asked for");
        co_return std::pair(std::move(*reply), std::move(answer.fds));
    }

    [[nodiscard]] bool connected() const noexcept { return channel_ != nullptr; }
    // Why there is no connection.
    [[nodiscard]] const std::string& trouble() const noexcept { return trouble_; }
    [[nodiscard]] const std::filesystem::path& socket() const noexcept { return socket_; }

private:
    struct pending {
        event done;
        std::optional<wire::message> answer;
    };

    task<wire::message> request(wire::body question);
    bool try_connect();
    void lose(const std::string& why);
    void read_all();
    void take(wire::message what);

    uring& ring_;
    std::filesystem::path socket_;
    observer& watcher_;
    std::unique_ptr<wire::channel> channel_;
    std::map<std::uint32_t, std::shared_ptr<pending>> pending_;
    one_by_one sending_;
    event wake_; // connected by a request, or stopped: run() looks again
    std::string trouble_;
    std::uint32_t hello_ = 0; // its number on this connection
    std::uint32_t last_number_ = 0;
    bool greeted_ = false; // it was answered well
    bool stopped_ = false;
};

} // namespace pinfold
