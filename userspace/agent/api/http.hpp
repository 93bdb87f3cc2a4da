// HTTP/1.1 as bytes in and bytes out: Boost.Beast's parser and serializer behind types of ours, no I/O.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pinfold::http {

inline constexpr std::size_t largest_header = 16 * 1024;
inline constexpr std::size_t largest_body = 1024 * 1024;
inline constexpr std::size_t largest_upload = std::size_t{50} * 1024 * 1024; // a file for a session
inline constexpr std::size_t largest_drop = std::size_t{100} * 1024 * 1024;  // a file of another session's

struct request {
    std::string method;
    std::string path;                          // without the query, percent-decoded
    std::map<std::string, std::string> query;  // decoded; of two with one name the last counts
    std::map<std::string, std::string> fields; // names in lower case; equal ones joined with ", "
    std::string body;
    bool keep_alive = false;

    [[nodiscard]] std::string_view field(const std::string& name) const;
    // The protocol asked for with Connection: Upgrade, or nothing.
    [[nodiscard]] std::string_view upgrade() const;
};

struct response {
    int status = 200;
    std::string body;
    std::string type = "application/json";
    std::vector<std::pair<std::string, std::string>> fields; // further ones
    std::shared_ptr<const std::string> kept; // a body that is kept for others, too; instead of `body`
};

// Bytes of the response, with Content-Length. A kept body is not among them: it is sent behind them.
[[nodiscard]] std::string to_bytes(const response& from, bool keep_alive);
// The head of an answer without a body of known length: 101, or 200 with chunks.
[[nodiscard]] std::string upgrade_head(std::string_view protocol);
[[nodiscard]] std::string chunked_head(std::string_view type);
[[nodiscard]] std::string chunk(std::string_view bytes); // an empty one ends it

// One request from bytes as they come.
class request_reader {
public:
    request_reader();
    request_reader(const request_reader&) = delete;
    request_reader& operator=(const request_reader&) = delete;
    ~request_reader();

    enum class state {
        header,      // not even that yet
        body,        // header read, more to come
        continue_me, // the same, and the client waits for "100 Continue"; said once
        done,
        bad, // status() says why
    };

    // Takes what belongs to this request; what was not taken is the next one's, or the upgraded protocol's.
    state put(std::string_view bytes, std::size_t& taken);
    [[nodiscard]] bool is_upload() const noexcept;
    [[nodiscard]] response refusal() const; // after bad
    [[nodiscard]] request take();           // after done

private:
    struct parts;
    std::unique_ptr<parts> parts_;
};

} // namespace pinfold::http
