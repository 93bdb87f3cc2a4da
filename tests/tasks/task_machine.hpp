// The parts of an agent that tasks need, in a thread of this process, with a clock that the test moves.
#pragma once

#include "agent/api/server.hpp"
#include "agent/sessions/session_list.hpp"
#include "agent/tasks/task_board.hpp"
#include "agent/tcp_listener.hpp"
#include "sessions/session_fixture.hpp"

#include <atomic>
#include <future>
#include <iterator>
#include <poll.h>
#include <sys/eventfd.h>

namespace pinfold::test {

// JSON-RPC, as it is asked of a session.
inline json rpc(const std::string& method, json params, const json& id = 1) {
    return {{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}};
}
inline json message(const std::string& id, const std::string& text, json metadata = json::object()) {
    return {{"message",
             {{"messageId", id},
              {"role", "ROLE_USER"},
              {"parts", json::array({{{"text", text}}})},
              {"metadata", std::move(metadata)}}}};
}

// Requests as a local program's or, with a session's name, as its cage's agent sends them.
class asking_client : public api_client {
public:
    using api_client::api_client;

    [[nodiscard]] answered post_as(const std::string& caged, const std::string& path,
                                   const json& body) const {
        return send_as("POST", caged, path, body.dump());
    }
    [[nodiscard]] answered send_as(const std::string& method, const std::string& caged,
                                   const std::string& path, const std::string& body,
                                   const std::string& type = "application/json",
                                   const std::string& fields = "") const {
        const std::string header = caged.empty() ? "" : "X-Shrooms-Caged: " + caged + "\r\n";
        return parse_answer(raw(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}{}"
                                            "Content-Type: {}\r\nContent-Length: {}\r\n\r\n{}",
                                            method, path, header, fields, type, body.size(), body)));
    }
    // The task, or the error with its code.
    [[nodiscard]] json call(const std::string& method, const json& params, const std::string& caged = "",
                            const std::string& to = "heron") const {
        const answered got = post_as(caged, "/a2a/" + to, rpc(method, params));
        if (got.status != 200) return {{"status", got.status}, {"text", got.text}};
        if (got.body.contains("error")) return got.body["error"];
        return got.body["result"].contains("task") ? got.body["result"]["task"] : got.body["result"];
    }
    [[nodiscard]] json ask(const std::string& id, const std::string& text,
                           const std::string& caged = "") const {
        json metadata = json::object();
        if (!caged.empty()) metadata["shrooms/from"] = "laptop/" + caged;
        return call("SendMessage", message(id, text, metadata), caged);
    }
    [[nodiscard]] json task_now(const std::string& id, const std::string& caged = "") const {
        return call("GetTask", {{"id", id}}, caged);
    }
    [[nodiscard]] std::string state(const std::string& id) const {
        return task_now(id).value("status", json::object()).value("state", "");
    }
    [[nodiscard]] bool becomes(const std::string& id, const std::string& wanted) const {
        return eventually([&] { return state(id) == "TASK_STATE_" + wanted; }, std::chrono::seconds(30));
    }
    [[nodiscard]] answered report(const std::string& id, const std::string& word,
                                  const std::string& summary = "") const {
        return post("/v1/tasks/" + id, {{"state", word}, {"summary", summary}});
    }
};

// A worker that writes down what it is told, and says nothing.
inline json note_taker(const std::filesystem::path& out) {
    return {{"harness", "command"}, {"command", {"/bin/sh", "-c", "cat >> " + out.native()}}};
}
inline std::string text_of(const std::filesystem::path& file) {
    std::ifstream from(file);
    return {std::istreambuf_iterator<char>(from), {}};
}
inline bool says(const std::filesystem::path& file, const std::string& wanted) {
    return eventually([&] { return text_of(file).find(wanted) != std::string::npos; },
                      std::chrono::seconds(30));
}

class task_machine : public asking_client {
public:
    explicit task_machine(std::chrono::milliseconds hold = std::chrono::minutes(10), std::string address = "")
        : task_machine(std::make_unique<scratch_directory>(), hold, std::move(address)) {}
    task_machine(const task_machine&) = delete;
    task_machine& operator=(const task_machine&) = delete;
    ~task_machine() {
        const std::uint64_t one = 1;
        std::ignore = ::write(stop_.get(), &one, sizeof one);
        thread_.join();
    }

    [[nodiscard]] std::filesystem::path directory() const { return scratch_->path(); }
    [[nodiscard]] std::filesystem::path out(const std::string& name = "heron") const {
        return directory() / (name + ".out");
    }
    answered make(const std::string& name = "heron") const {
        json body = note_taker(out(name));
        std::filesystem::create_directories(directory() / "project");
        body.update({{"name", name}, {"dir", (directory() / "project").native()}});
        return post("/v1/sessions", body);
    }
    void pass(std::chrono::milliseconds time) { offset_ += time.count(); }
    [[nodiscard]] std::uint64_t clock_reads() const { return clock_reads_; }

private:
    task_machine(std::unique_ptr<scratch_directory> scratch, std::chrono::milliseconds hold,
                 std::string address)
        : asking_client(scratch->path() / "run/api.sock"),
          scratch_(std::move(scratch)),
          hold_(hold),
          address_(std::move(address)),
          stop_(::eventfd(0, EFD_CLOEXEC)) {
        std::filesystem::create_directories(directory() / "state");
        std::filesystem::create_directories(directory() / "home");
        std::ofstream(directory() / "peers.json") << R"({"machines": [
            {"name": "laptop", "addr": "fd12::1", "mesh": "home"}, {"name": "laptop", "addr": "fd13::1", "mesh": "work"},
            {"name": "pi5", "addr": "fd12::7", "mesh": "home"}, {"name": "desk", "addr": "fd13::9", "mesh": "work"}]})";
        std::promise<void> ready;
        std::future<void> begun = ready.get_future();
        thread_ = std::thread([this, &ready] { serve(ready); });
        begun.get();
    }

    void serve(std::promise<void>& ready) {
        uring ring;
        task_group group([](const std::exception_ptr& error) {
            try {
                std::rethrow_exception(error);
            } catch (const std::exception& what) {
                std::fprintf(stderr, "agent: %s\n", what.what());
            }
        });
        cages owned(ring, group,
                    {.keeper = directory() / "keeper.sock", .resolv_conf = directory() / "resolv.conf"});
        store kept(directory() / "state/sessions.db");
        session_list listed(owned, kept,
                            {.state = directory() / "state",
                             .home = directory() / "home",
                             .machine = "laptop",
                             .environment = {{"PATH", "/usr/bin:/bin"}}});
        task_board tasks(listed, {.now =
                                      [this] {
                                          ++clock_reads_;
                                          return system_now() + offset_.load();
                                      },
                                  .look = std::chrono::milliseconds(50),
                                  .hold = hold_,
                                  .machines = {.peers = directory() / "peers.json", .name = "laptop"}});
        server api(owned, api_socket::listen(directory() / "run/api.sock"), &listed);
        api.serve_tasks(tasks);
        if (!address_.empty()) {
            tcp_listener at = listen_at(address_, 7387);
            api.be_called(at.host);
            group.spawn(
                [](server* one, std::shared_ptr<unique_fd> socket) -> task<> {
                    co_await one->run_at(std::move(*socket));
                },
                &api, std::make_shared<unique_fd>(std::move(at.socket)));
        }
        bool stopped = false;
        group.spawn([](server* one) -> task<> { co_await one->run(); }, &api);
        group.spawn([](task_board* all) -> task<> { co_await all->run(); }, &tasks);
        group.spawn(
            [](uring* on, int fd, server* one, session_list* all, bool* end) -> task<> {
                std::ignore = co_await poll_once(*on, fd, POLLIN);
                one->stop();
                all->stop();
                *end = true;
            },
            &ring, stop_.get(), &api, &listed, &stopped);
        ready.set_value();
        while (!stopped || group.running() > 0) ring.run_once(true);
    }

    std::unique_ptr<scratch_directory> scratch_;
    std::chrono::milliseconds hold_;
    std::string address_; // at which it is served, too; empty = at its socket only
    unique_fd stop_;
    std::atomic<std::int64_t> offset_{0};
    std::atomic<std::uint64_t> clock_reads_{0};
    std::thread thread_;
};

} // namespace pinfold::test
