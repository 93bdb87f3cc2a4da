// A request of a cage as its bytes come: head first, then the body in pieces, so that it can be passed on while it comes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pinfold {

struct model_request {
    std::string method, target;
    std::vector<std::pair<std::string, std::string>> fields;
    std::optional<std::uint64_t> body_size; // none = chunked
    bool has_body = false;
    bool keep_alive = false;
};

class model_request_reader {
public:
    static constexpr std::size_t largest_header = 64 * 1024;
    static constexpr std::uint64_t largest_body = std::uint64_t{128} << 20;

    model_request_reader();
    model_request_reader(const model_request_reader&) = delete;
    model_request_reader& operator=(const model_request_reader&) = delete;
    ~model_request_reader();

    // Takes what belongs to this request; body bytes go behind `body`. Returns what was taken. After a mistake bad() is set.
    std::size_t put(std::string_view bytes, std::string& body);
    [[nodiscard]] bool has_head() const;
    [[nodiscard]] bool done() const;
    [[nodiscard]] bool expects_continue() const;
    [[nodiscard]] int bad() const noexcept { return bad_; } // the status to answer; 0 = it is well
    [[nodiscard]] model_request head() const;

private:
    struct parts;
    std::unique_ptr<parts> parts_;
    int bad_ = 0;
};

} // namespace pinfold
