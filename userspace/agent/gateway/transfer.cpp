#include "agent/gateway/transfer.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cstring>

namespace pinfold {

namespace {

constexpr long connect_seconds = 30;

template <typename Value>
void set(CURL* easy, CURLoption option, Value value) {
    const CURLcode code = ::curl_easy_setopt(easy, option, value);
    if (code != CURLE_OK) fail("prepare a request to the model: {}", ::curl_easy_strerror(code));
}

} // namespace

model_transfer::model_transfer(curl_multi& in, const upstream_request& to, const model_request& from,
                               const std::filesystem::path& authorities, std::chrono::seconds longest_silence)
    : in_(in), easy_(::curl_easy_init()) {
    if (easy_ == nullptr) fail("prepare a request to the model: out of memory");
    set(easy_, CURLOPT_URL, to.url.c_str());
    set(easy_, CURLOPT_ERRORBUFFER, error_.data());
    set(easy_, CURLOPT_NOSIGNAL, 1L);
    set(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(easy_, CURLOPT_FOLLOWLOCATION, 0L); // a redirect would take the credential elsewhere
    set(easy_, CURLOPT_CONNECTTIMEOUT, connect_seconds);
    set(easy_, CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(easy_, CURLOPT_LOW_SPEED_TIME, static_cast<long>(longest_silence.count()));
    set(easy_, CURLOPT_TCP_KEEPALIVE, 1L);
    set(easy_, CURLOPT_HTTP_TRANSFER_DECODING, 1L);
    set(easy_, CURLOPT_SSL_VERIFYPEER, 1L);
    set(easy_, CURLOPT_SSL_VERIFYHOST, 2L);
    set(easy_, CURLOPT_PROTOCOLS_STR, "https,http");
    if (!authorities.empty()) set(easy_, CURLOPT_CAINFO, authorities.c_str());
    set(easy_, CURLOPT_HEADERFUNCTION, &model_transfer::take_head);
    set(easy_, CURLOPT_HEADERDATA, static_cast<void*>(this));
    set(easy_, CURLOPT_WRITEFUNCTION, &model_transfer::take_body);
    set(easy_, CURLOPT_WRITEDATA, static_cast<void*>(this));
    if (from.has_body) {
        // No way back to its beginning is given: libcurl cannot send it a second time behind our back.
        set(easy_, CURLOPT_UPLOAD, 1L);
        set(easy_, CURLOPT_READFUNCTION, &model_transfer::read_body);
        set(easy_, CURLOPT_READDATA, static_cast<void*>(this));
        set(easy_, CURLOPT_INFILESIZE_LARGE, from.body_size ? static_cast<curl_off_t>(*from.body_size) : -1);
    }
    if (from.method == "HEAD")
        set(easy_, CURLOPT_NOBODY, 1L);
    else
        set(easy_, CURLOPT_CUSTOMREQUEST, from.method.c_str());
    pass_fields(to, from);
    in_.add(easy_, *this);
}

model_transfer::~model_transfer() {
    in_.remove(easy_);
    in_.forget(*this);
    ::curl_easy_cleanup(easy_);
    ::curl_slist_free_all(sent_fields_);
}

void model_transfer::pass_fields(const upstream_request& to, const model_request& from) {
    const auto put = [&](const std::string& line) {
        curl_slist* longer = ::curl_slist_append(sent_fields_, line.c_str());
        if (longer == nullptr) fail("prepare a request to the model: out of memory");
        sent_fields_ = longer;
    };
    std::string beta = to.beta;
    for (const auto& [name, value] : from.fields) {
        const std::string key = lowered(name);
        if (key == "anthropic-beta") beta += (beta.empty() ? "" : ",") + value;
        if (may_pass_on(key)) put(value.empty() ? name + ";" : fmt::format("{}: {}", name, value));
    }
    if (!beta.empty()) put("anthropic-beta: " + beta);
    for (const auto& [name, value] : to.credential) put(fmt::format("{}: {}", name, value));
    put("Expect:"); // it would cost a round trip
    put("Accept-Encoding: identity");
    set(easy_, CURLOPT_HTTPHEADER, sent_fields_);
}

// ---- libcurl's callbacks: they change nothing but this object, and note that it changed ----

std::size_t model_transfer::read_body(char* into, std::size_t size, std::size_t count, void* self) {
    auto& one = *static_cast<model_transfer*>(self);
    const std::size_t part = std::min(size * count, one.outgoing_.size());
    if (part == 0) {
        if (one.body_ended_) return 0;
        one.sending_paused_ = true;
        return CURL_READFUNC_PAUSE;
    }
    one.outgoing_.copy(into, part);
    one.outgoing_.erase(0, part);
    one.in_.note(one);
    return part;
}

std::size_t model_transfer::take_head(char* from, std::size_t size, std::size_t count, void* self) {
    auto& one = *static_cast<model_transfer*>(self);
    std::string_view line(from, size * count);
    while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {
        one.fields_.clear(); // of a 100 before it
        const std::size_t space = line.find(' ');
        one.status_ = space == std::string_view::npos
                          ? 0
                          : std::atoi(std::string(line.substr(space + 1, 3)).c_str());
    } else if (line.empty()) {
        if (one.status_ >= 200) {
            one.head_done_ = true;
            one.in_.note(one);
        }
    } else if (const std::size_t colon = line.find(':'); colon != std::string_view::npos) {
        std::string_view value = line.substr(colon + 1);
        while (value.starts_with(' ') || value.starts_with('\t')) value.remove_prefix(1);
        one.fields_.emplace_back(line.substr(0, colon), value);
    }
    return size * count;
}

std::size_t model_transfer::take_body(char* from, std::size_t size, std::size_t count, void* self) {
    auto& one = *static_cast<model_transfer*>(self);
    if (one.incoming_.size() >= most_waiting) {
        one.receiving_paused_ = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    one.incoming_.append(from, size * count);
    one.in_.note(one);
    return size * count;
}

void model_transfer::progressed() noexcept {
    if (!result_) result_ = in_.result_of(*this);
    news.pulse();
}

// ---- for whoever carries it ----

void model_transfer::give(std::string_view body) {
    outgoing_ += body;
    if (std::exchange(sending_paused_, false))
        ::curl_easy_pause(easy_, receiving_paused_ ? CURLPAUSE_RECV : CURLPAUSE_CONT);
}

void model_transfer::end_of_body() {
    body_ended_ = true;
    give({});
}

std::string model_transfer::take() {
    std::string all = std::exchange(incoming_, {});
    if (std::exchange(receiving_paused_, false))
        ::curl_easy_pause(easy_, sending_paused_ ? CURLPAUSE_SEND : CURLPAUSE_CONT);
    return all;
}

std::string model_transfer::failure_text() const {
    if (!result_ || *result_ == CURLE_OK) return {};
    return error_[0] != '\0' ? std::string(error_.data()) : std::string(::curl_easy_strerror(*result_));
}

} // namespace pinfold
