// Accepts the owner's tools at the API socket and reads their requests, within limits of size, time and number.
#pragma once

#include "agent/api/services.hpp"
#include "agent/api_socket.hpp"

#include <map>
#include <set>

namespace pinfold {

class server {
public:
    // Not counting those that carry streams. One more takes the place of whoever has been idle for longest, if anybody is.
    static constexpr std::size_t most_connections = 256;
    static constexpr std::size_t most_streams = 1024;
    static constexpr std::size_t most_uploads = 4; // files at once: each is in memory until it is whole
    static constexpr std::chrono::seconds header_time{10}, body_time{30}, idle_time{60}, upload_time{900};

    server(cages& owned, api_socket socket, session_list* listed = nullptr);
    server(const server&) = delete;
    server& operator=(const server&) = delete;
    ~server() = default;

    // Accepts until stop(). Spawned once.
    task<> run();
    // The same at an address of the network, where reaching it is the right to use it. Spawned once for each.
    task<> run_at(unique_fd listener);
    // What its clients may call this agent there, beside the addresses.
    void be_called(std::string host) { services_.hosts.push_back(std::move(host)); }
    void serve_tasks(task_board& tasks) { services_.tasks = &tasks; }
    void serve_results(outbox_carrier& outboxes, project_reports& reports) {
        services_.outboxes = &outboxes;
        services_.reports = &reports;
    }
    // No new request; running programs are ended, and their clients told.
    void stop();

private:
    using clock = std::chrono::steady_clock;

    task<> accept_all(int listener, bool from_network);
    static task<> serve(server* self, std::shared_ptr<unique_fd> client, std::string by);
    // One of the files that are being received, from its first byte until its request was answered.
    class upload_share {
    public:
        explicit upload_share(std::size_t& all) noexcept : all_(all) {}
        upload_share(const upload_share&) = delete;
        upload_share& operator=(const upload_share&) = delete;
        ~upload_share() {
            if (taken_) --all_;
        }
        bool take() noexcept {
            if (!taken_ && all_ < most_uploads) {
                ++all_;
                taken_ = true;
            }
            return taken_;
        }

    private:
        std::size_t& all_;
        bool taken_ = false;
    };
    task<bool> read_request(int client, std::string& held, upload_share& upload, http::request& into,
                            http::response& refusal);
    task<int> receive_more(int client, std::string& held, clock::time_point limit);
    task<> converse(int client, std::string by);
    bool make_room();

    uring& ring_;
    task_group& group_;
    services services_;
    api_socket socket_;
    std::set<int> listeners_;           // at addresses
    std::map<std::uint64_t, int> idle_; // connections between requests, by how long
    std::uint64_t tickets_ = 0;
    std::set<int> reading_; // connections between requests or in the middle of one
    std::size_t connections_ = 0, uploads_ = 0;
};

} // namespace pinfold
