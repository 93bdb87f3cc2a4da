// libcurl's multi interface on the ring: its sockets are polled, its timer is one alarm, and nobody else's thread waits.
#pragma once

#include "ring/alarm.hpp"
#include "ring/uring.hpp"

#include <curl/curl.h>
#include <map>
#include <optional>
#include <set>

namespace pinfold {

// Who has a transfer there. Told outside of libcurl's own calls, when something changed since the last time.
class transfer_user {
public:
    virtual void progressed() noexcept = 0;

protected:
    ~transfer_user() = default;
};

class curl_multi final : private deferred {
public:
    explicit curl_multi(uring& ring);
    curl_multi(const curl_multi&) = delete;
    curl_multi& operator=(const curl_multi&) = delete;
    ~curl_multi(); // after idle() and every transfer is removed

    void add(CURL* easy, transfer_user& user); // `user` is its CURLOPT_PRIVATE
    void remove(CURL* easy) noexcept;
    // Something a callback saw: its user is told soon.
    void note(transfer_user& user);
    void forget(transfer_user& user) noexcept {
        changed_.erase(&user);
        results_.erase(&user);
    }
    // Of a transfer that has ended.
    [[nodiscard]] std::optional<CURLcode> result_of(transfer_user& user);

    // Closes idle connections; whoever destroys this lets the ring run until quiet().
    void stop();
    [[nodiscard]] bool quiet() const noexcept { return watches_.empty() && !timer_.armed(); }

private:
    struct watch; // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final, see multi.cpp
    void run() noexcept override;
    void act(curl_socket_t on, int events) noexcept;
    void rang();
    void collect() noexcept;
    static int socket_changed(CURL* easy, curl_socket_t fd, int what, void* self, void* known);
    static int timer_changed(CURLM* multi, long milliseconds, void* self);

    uring& ring_;
    alarm_clock timer_;
    std::optional<alarm_clock::clock::time_point> due_;
    CURLM* multi_;
    std::set<watch*> watches_; // each ends with its last completion
    std::set<transfer_user*> changed_;
    std::map<transfer_user*, CURLcode> results_;
    bool stopped_ = false;
};

} // namespace pinfold
