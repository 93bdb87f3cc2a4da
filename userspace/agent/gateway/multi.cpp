#include "agent/gateway/multi.hpp"

#include <poll.h>

namespace pinfold {

// One poll of one of libcurl's sockets. It is armed again after each answer, and goes when libcurl lets the socket go.
struct curl_multi::watch final : completion {
    watch(curl_multi& whose, curl_socket_t of) : owner(whose), fd(of) {}
    ~watch() = default;

    void want(unsigned which) {
        events = which;
        if (!armed)
            arm();
        else
            owner.ring_.cancel(*this); // it comes back with ECANCELED, and is armed with what is wanted then
    }
    void arm() {
        armed = true;
        io_uring_prep_poll_add(&owner.ring_.prepare(*this), fd, events);
    }
    void leave() {
        gone = true;
        if (armed)
            owner.ring_.cancel(*this);
        else
            end();
    }
    void end() {
        owner.watches_.erase(this);
        delete this;
    }

    void complete(int result, unsigned) noexcept override {
        armed = false;
        if (gone) return end();
        if (result < 0) return arm();
        const auto got = static_cast<unsigned>(result);
        const int flags = ((got & (POLLIN | POLLHUP)) != 0 ? CURL_CSELECT_IN : 0) |
                          ((got & POLLOUT) != 0 ? CURL_CSELECT_OUT : 0) |
                          ((got & POLLERR) != 0 ? CURL_CSELECT_ERR : 0);
        acting = true;
        owner.act(fd, flags);
        acting = false;
        if (gone) return end();
        if (!armed) arm();
    }

    curl_multi& owner;
    curl_socket_t fd;
    unsigned events = 0;
    bool armed = false, gone = false, acting = false;
};

curl_multi::curl_multi(uring& ring)
    : ring_(ring), timer_(ring, [this] { rang(); }), multi_(::curl_multi_init()) {
    if (multi_ == nullptr) fail("cannot set up libcurl: out of memory");
    ::curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &curl_multi::socket_changed);
    ::curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
    ::curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &curl_multi::timer_changed);
    ::curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
}

curl_multi::~curl_multi() {
    stop();
    ring_.forget(*this);
}

void curl_multi::stop() {
    if (std::exchange(stopped_, true)) return;
    ::curl_multi_cleanup(multi_); // lets go of its sockets, through socket_changed
    due_.reset();
    timer_.stop();
}

void curl_multi::add(CURL* easy, transfer_user& user) {
    ::curl_easy_setopt(easy, CURLOPT_PRIVATE, static_cast<void*>(&user));
    const CURLMcode code = ::curl_multi_add_handle(multi_, easy);
    if (code != CURLM_OK) fail("begin a request: {}", ::curl_multi_strerror(code));
}

void curl_multi::remove(CURL* easy) noexcept {
    if (!stopped_) ::curl_multi_remove_handle(multi_, easy);
}

void curl_multi::note(transfer_user& user) {
    changed_.insert(&user);
    ring_.defer(*this);
}

void curl_multi::run() noexcept {
    while (!changed_.empty()) { // one by one: who is told may end another
        transfer_user* next = *changed_.begin();
        changed_.erase(changed_.begin());
        next->progressed();
    }
}

void curl_multi::act(curl_socket_t on, int events) noexcept {
    if (stopped_) return;
    int running = 0;
    ::curl_multi_socket_action(multi_, on, events, &running);
    collect();
}

void curl_multi::collect() noexcept {
    int left = 0;
    while (const CURLMsg* message = ::curl_multi_info_read(multi_, &left)) {
        if (message->msg != CURLMSG_DONE) continue;
        void* user = nullptr;
        ::curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &user);
        if (user == nullptr) continue;
        auto* whose = static_cast<transfer_user*>(user);
        results_.insert_or_assign(whose, message->data.result);
        note(*whose);
    }
}

std::optional<CURLcode> curl_multi::result_of(transfer_user& user) {
    const auto found = results_.find(&user);
    return found == results_.end() ? std::nullopt : std::optional(found->second);
}

void curl_multi::rang() {
    if (!due_ || stopped_) return;
    if (alarm_clock::clock::now() <
        *due_) { // an earlier moment was set before; libcurl does not say its time twice
        timer_.no_later_than(*due_);
        return;
    }
    due_.reset();
    act(CURL_SOCKET_TIMEOUT, 0);
}

int curl_multi::timer_changed(CURLM*, long milliseconds, void* self) {
    auto& multi = *static_cast<curl_multi*>(self);
    if (milliseconds < 0) {
        multi.due_.reset();
        return 0;
    }
    if (multi.stopped_) return 0;
    multi.due_ = alarm_clock::clock::now() + std::chrono::milliseconds(milliseconds);
    multi.timer_.no_later_than(*multi.due_);
    return 0;
}

int curl_multi::socket_changed(CURL*, curl_socket_t fd, int what, void* self, void* known) {
    auto& multi = *static_cast<curl_multi*>(self);
    auto* one = static_cast<watch*>(known);
    if (what == CURL_POLL_REMOVE) {
        if (one == nullptr) return 0;
        if (!multi.stopped_) ::curl_multi_assign(multi.multi_, fd, nullptr);
        if (one->acting && !one->armed)
            one->gone = true; // complete() ends it when libcurl has returned
        else
            one->leave();
        return 0;
    }
    if (one == nullptr) {
        one = new watch(multi, fd);
        multi.watches_.insert(one);
        ::curl_multi_assign(multi.multi_, fd, one);
    }
    const unsigned events = ((what & CURL_POLL_IN) != 0 ? static_cast<unsigned>(POLLIN) : 0U) |
                            ((what & CURL_POLL_OUT) != 0 ? static_cast<unsigned>(POLLOUT) : 0U);
    if (one->acting && !one->armed)
        one->events = events; // armed behind this call
    else
        one->want(events);
    return 0;
}

} // namespace pinfold
