// The CLI's side of a running program: its streams, signals and terminal over the agent's connection.
#pragma once

#include "base/unique_fd.hpp"
#include "ctl/sink.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <pinfold/stdio.h>
#include <string>
#include <string_view>
#include <vector>

namespace pinfold::ctl {

struct stdio_events {
    std::function<void(const nlohmann::json&)> started;
    std::function<void()> slow;    // not started after a moment
    std::function<void()> resumed; // SIGCONT
};

struct stdio_result {
    bool error = false; // the program was not started; `text` is {"error", "status"}
    std::string text;   // JSON: what the exit frame said
};

class stdio_client {
public:
    // `early` is what came behind the answer. Signals are taken over until this is destroyed.
    stdio_client(unique_fd connection, const std::string& early, bool terminal, stdio_events events);
    stdio_client(const stdio_client&) = delete;
    stdio_client& operator=(const stdio_client&) = delete;
    ~stdio_client();

    // Until the last frame. Throws where the agent goes away before.
    stdio_result run();

private:
    void queue(std::uint32_t type, std::string_view payload);
    void queue_number(std::uint32_t type, std::uint32_t number);
    void send_queued();
    void send_window();
    void receive();
    void take_frames();
    void take(std::uint32_t type, std::string_view payload);
    void put(sink& into, std::string_view payload);
    void read_input();
    void read_signals();
    void forward(std::uint32_t number);
    void interrupt(std::uint32_t number);

    unique_fd connection_;
    unique_fd signals_;
    stdio_events events_;
    sink output_, errors_;
    std::vector<char> inbox_;    // room for a frame and what is received at once
    std::size_t inbox_size_ = 0; // bytes of it that were received and not yet taken
    std::string outbox_;         // to be sent
    std::uint64_t credit_ = PINFOLD_STDIN_WINDOW;
    stdio_result result_;
    bool terminal_;
    bool input_open_ = true, started_ = false, done_ = false, pipe_told_ = false;
};

} // namespace pinfold::ctl
