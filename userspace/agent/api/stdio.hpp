// One program's standard streams over one client connection, in the frames of pinfold/stdio.h.
#pragma once

#include "agent/api/buffers.hpp"
#include "agent/api/frame_reader.hpp"
#include "agent/program.hpp"

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <pinfold/stdio.h>
#include <string>
#include <string_view>

namespace pinfold {

class stdio_session final : public std::enable_shared_from_this<stdio_session>,
                            private frame_reader::handler {
public:
    // `client` stays the caller's; `early` is what came behind the request.
    stdio_session(uring& ring, task_group& group, buffer_pool& buffers, int client, std::string early);
    stdio_session(const stdio_session&) = delete;
    stdio_session& operator=(const stdio_session&) = delete;
    ~stdio_session();

    // One JSON frame; nothing happens where the client is gone.
    task<> tell(pinfold_frame type, nlohmann::json what);

    // Carries the streams until the program has ended and its output is delivered. A client that hangs up ends the
    // program: SIGHUP, and kill() after a grace.
    task<> carry(std::shared_ptr<program> what);

    // Ends what still runs for this connection; the descriptor may be closed after that.
    task<> close();

    // The agent is stopping: as if the client had hung up, but it is told the end.
    void stop();

private:
    enum class stream : std::uint8_t { output, errors };
    using self_pointer = std::shared_ptr<stdio_session>;

    static task<> read_client(self_pointer self);
    static task<> write_input(self_pointer self);
    static task<> pump(self_pointer self, stream which);
    static task<> watch_end(self_pointer self);
    static task<> forward_signal(std::shared_ptr<program> to, int number);

    template <typename F, typename... Args>
    void begin(F function, Args... args);
    task<bool> send_frame(pinfold_frame type, std::span<std::byte> frame);
    task<> give_credit(std::uint32_t bytes);

    bool take_input(std::string_view part) override;
    bool take_frame(std::uint32_t type, std::string_view payload) override;
    [[nodiscard]] std::size_t allowed(stream which, std::size_t room) const;
    void hang_up();
    void poke();

    task<> until_ended();
    task<> end_program();
    task<> until_delivered();

    uring& ring_;
    task_group& group_;
    buffer_pool& buffers_;
    int client_;
    std::string early_;
    std::shared_ptr<program> program_;
    frame_reader frames_;
    one_by_one sending_;
    event changed_, input_changed_, all_done_, delivered_;
    std::string input_;                 // from the client, not yet written
    std::array<std::size_t, 2> last_{}; // bytes still taken from each stream after the last call
    int outputs_ = 0;                   // streams not at their end
    int running_ = 0;
    bool input_ended_ = false, input_closed_ = false;
    bool gone_ = false, stopping_ = false, last_call_ = false, closing_ = false;
};

} // namespace pinfold
