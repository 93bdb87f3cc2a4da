// A real agent with sessions, spoken to as a client would, and a stand-in for Claude Code.
#pragma once

#include "support/agent_fixture.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace pinfold::test {

using nlohmann::json;

struct answered {
    int status = 0;
    json body;
    std::string text;
};

inline answered parse_answer(const std::string& bytes) {
    answered got{.status = bytes.size() > 12 ? std::atoi(bytes.c_str() + 9) : 0, .text = bytes};
    const std::size_t end = bytes.find("\r\n\r\n");
    if (end != std::string::npos) got.body = json::parse(bytes.substr(end + 4), nullptr, false);
    return got;
}

// Server-sent events of one connection, read one by one.
class event_reader {
public:
    event_reader(const std::filesystem::path& api, const std::string& path, const std::string& fields = "")
        : connection_(connect_unix(api)) {
        send_text(connection_, fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, fields));
        while (raw_.find("\r\n\r\n") == std::string::npos && more()) {
        }
        head_ = raw_.substr(0, raw_.find("\r\n\r\n"));
        raw_.erase(0, std::min(raw_.size(), head_.size() + 4));
    }

    [[nodiscard]] const std::string& head() const { return head_; }
    [[nodiscard]] const unique_fd& connection() const { return connection_; }

    // The next event, comments left out; null at the end.
    json next() {
        for (;;) {
            const std::size_t end = held_.find("\n\n");
            if (end != std::string::npos) {
                const std::string block = held_.substr(0, end);
                held_.erase(0, end + 2);
                const std::size_t data = block.find("data: ");
                if (data == std::string::npos) continue;
                json event = json::parse(block.substr(data + 6), nullptr, false);
                event["has_id"] = block.starts_with("id: ");
                return event;
            }
            if (!take_chunk() && !more()) return nullptr;
        }
    }
    // The next of this kind, where its data satisfies `wanted`.
    template <typename Wanted>
    json wait_for(const std::string& kind, Wanted wanted) {
        for (json event = next(); !event.is_null(); event = next()) {
            if (event["kind"] == kind && wanted(event.value("data", json::object()))) return event;
        }
        return nullptr;
    }
    json wait_for(const std::string& kind) {
        return wait_for(kind, [](const json&) { return true; });
    }
    json wait_for_claude(const std::string& type) {
        return wait_for("claude", [&](const json& data) { return data.value("type", "") == type; });
    }

private:
    bool more() {
        std::array<char, 65536> buffer{};
        pollfd ready{connection_.get(), POLLIN, 0};
        if (::poll(&ready, 1, 30000) <= 0) return false;
        const ssize_t got = ::recv(connection_.get(), buffer.data(), buffer.size(), 0);
        if (got > 0) raw_.append(buffer.data(), static_cast<std::size_t>(got));
        return got > 0;
    }
    bool take_chunk() {
        const std::size_t line = raw_.find("\r\n");
        if (line == std::string::npos) return false;
        const std::size_t size = std::stoul(raw_.substr(0, line), nullptr, 16);
        if (raw_.size() < line + 2 + size + 2) return false;
        held_ += raw_.substr(line + 2, size);
        raw_.erase(0, line + 2 + size + 2);
        return size > 0;
    }

    unique_fd connection_;
    std::string head_, raw_, held_;
};

// Requests to one agent's socket.
class api_client {
public:
    explicit api_client(std::filesystem::path socket) : socket_(std::move(socket)) {}

    [[nodiscard]] std::string raw(std::string_view bytes) const {
        const unique_fd connection = connect_unix(socket_);
        send_text(connection, bytes);
        return receive_all(connection, std::chrono::seconds(60));
    }
    [[nodiscard]] answered get(const std::string& path) const {
        return parse_answer(
            raw(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path)));
    }
    [[nodiscard]] answered post(const std::string& path, const json& body = json::object()) const {
        return parse_answer(raw(agent_fixture::post_head(path, body.dump()) + body.dump()));
    }
    [[nodiscard]] answered remove(const std::string& path) const {
        return parse_answer(
            raw(fmt::format("DELETE {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path)));
    }
    [[nodiscard]] answered send(const std::string& text, const std::string& id = "") const {
        json body{{"text", text}};
        if (!id.empty()) body["id"] = id;
        return post("/v1/sessions/heron/messages", body);
    }
    [[nodiscard]] json info(const std::string& name = "heron") const {
        return get("/v1/sessions/" + name).body;
    }
    [[nodiscard]] event_reader events(const std::string& query = "", const std::string& fields = "") const {
        return {socket_, "/v1/sessions/heron/events" + query, fields};
    }
    [[nodiscard]] bool is(const std::string& state) const {
        return eventually([&] { return info().value("state", "") == state; }, std::chrono::seconds(30));
    }

private:
    std::filesystem::path socket_;
};

struct agent_with_standin {
    explicit agent_with_standin(std::vector<std::string> more) : agent(with_standin(std::move(more))) {}
    static std::vector<std::string> with_standin(std::vector<std::string> more) {
        more.insert(more.begin(), {"--claude", PINFOLD_SOURCE_DIR "/tests/sessions/claude_standin.py"});
        return more;
    }
    agent_fixture agent;
};

// The session of these tests is called "heron", and works in project().
class session_fixture : public agent_with_standin, public api_client {
public:
    explicit session_fixture(std::vector<std::string> more = {})
        : agent_with_standin(std::move(more)), api_client(agent.api()) {
        std::filesystem::create_directories(project());
    }

    [[nodiscard]] std::filesystem::path project() const { return agent.directory() / "project"; }
    [[nodiscard]] answered create(const json& more = json::object()) const {
        json body{{"name", "heron"}, {"dir", project().native()}};
        body.update(more);
        return post("/v1/sessions", body);
    }
};

} // namespace pinfold::test
