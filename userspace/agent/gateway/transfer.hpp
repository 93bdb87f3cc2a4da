// One request to a provider: the body goes in piece by piece, the answer comes out piece by piece, with a bound on both.
#pragma once

#include "agent/event.hpp"
#include "agent/gateway/multi.hpp"
#include "agent/gateway/request_in.hpp"
#include "agent/gateway/upstreams.hpp"

#include <array>
#include <chrono>

namespace pinfold {

class model_transfer final : public transfer_user {
public:
    static constexpr std::size_t most_waiting = 256 *
                                                1024; // in each direction, before the other side has to wait

    // `authorities` is a file of certificates; empty = the machine's. A provider that is silent for longer is given up.
    model_transfer(curl_multi& in, const upstream_request& to, const model_request& from,
                   const std::filesystem::path& authorities, std::chrono::seconds longest_silence);
    model_transfer(const model_transfer&) = delete;
    model_transfer& operator=(const model_transfer&) = delete;
    ~model_transfer();

    void give(std::string_view body);
    void end_of_body();
    [[nodiscard]] bool takes_more() const noexcept { return outgoing_.size() < most_waiting; }

    [[nodiscard]] bool has_head() const noexcept { return head_done_; }
    [[nodiscard]] int status() const noexcept { return status_; }
    [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& fields() const noexcept {
        return fields_;
    }
    // What has come since the last time.
    [[nodiscard]] std::string take();
    [[nodiscard]] bool has_more() const noexcept { return !incoming_.empty(); }
    [[nodiscard]] bool ended() const noexcept { return result_.has_value(); }
    // Empty where the answer came to its end.
    [[nodiscard]] std::string failure_text() const;

    event news; // more of the answer, room for more of the body, or the end

private:
    void progressed() noexcept override;
    void pass_fields(const upstream_request& to, const model_request& from);
    static std::size_t read_body(char* into, std::size_t size, std::size_t count, void* self);
    static std::size_t take_head(char* from, std::size_t size, std::size_t count, void* self);
    static std::size_t take_body(char* from, std::size_t size, std::size_t count, void* self);

    curl_multi& in_;
    CURL* easy_;
    curl_slist* sent_fields_ = nullptr;
    std::string outgoing_, incoming_;
    std::vector<std::pair<std::string, std::string>> fields_;
    std::optional<CURLcode> result_;
    int status_ = 0;
    bool body_ended_ = false, head_done_ = false, sending_paused_ = false, receiving_paused_ = false;
    std::array<char, CURL_ERROR_SIZE> error_{};
};

} // namespace pinfold
