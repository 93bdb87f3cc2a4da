// The model's address inside a cage: takes what the relay hands over from it, and carries it to the provider outside.
#pragma once

#include "agent/gateway/transfer.hpp"
#include "agent/gateway/usage.hpp"
#include "agent/provider_answer.hpp"
#include "base/unique_fd.hpp"
#include "ring/alarm.hpp"
#include "ring/uring.hpp"

#include <functional>
#include <memory>
#include <set>

namespace pinfold {

class gateway {
public:
    struct settings {
        upstream_settings upstreams;
        std::filesystem::path authorities; // certificates; empty = the machine's
        // Whose cage this is; nothing where it is no session's, which may use no model.
        std::function<std::optional<model_asker>(std::uint64_t cage)> who;
        std::function<void(std::uint64_t cage, std::uint64_t tokens_in, std::uint64_t tokens_out)> counted;
        // How the provider of this cage's session does; called with every answer, and when none comes.
        std::function<void(std::uint64_t cage, const provider_answer& what)> heard;
        // Told of when the provider is silent for so long; given up after so many times as long: a model may think for
        // minutes without a byte.
        std::chrono::seconds silence{60};
        static constexpr int patience = 15;
    };

    gateway(uring& ring, task_group& group, settings with);
    gateway(const gateway&) = delete;
    gateway& operator=(const gateway&) = delete;
    ~gateway() = default;

    // A connection out of this cage: the relay says so, whatever is sent on it.
    void take(std::uint64_t cage, unique_fd connection);
    // Ends what is carried. The ring runs until quiet().
    void stop();
    [[nodiscard]] bool quiet() const noexcept { return open_.empty() && multi_.quiet() && !silence_.armed(); }

private:
    struct connection;
    using connection_pointer = std::shared_ptr<connection>;

    static task<> serve(gateway* self, connection_pointer on);
    task<bool> read_head(connection& on, model_request_reader& reader, std::string& body);
    task<bool> exchange(connection_pointer on);
    task<bool> send_body(connection& on, model_request_reader& reader, model_transfer& to);
    task<bool> carry_answer(connection_pointer on, model_transfer& from, const model_request& asked);
    void tell_answer(const connection& on, const model_transfer& from, const model_request& asked,
                     const usage_counter& usage) const;
    void begin_wait(connection& on, bool in_answer);
    void look_for_silence();
    task<bool> refuse(connection& on, int status, std::string text);
    static task<> watch_client(gateway* self, connection_pointer on, event* news);
    task<bool> say(connection& on, std::string bytes);

    uring& ring_;
    task_group& group_;
    settings with_;
    curl_multi multi_;
    alarm_clock silence_;
    std::set<connection*> open_;
    bool stopped_ = false;
};

} // namespace pinfold
