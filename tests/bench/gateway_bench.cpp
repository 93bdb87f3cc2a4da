// The model gateway beside nginx, in front of one provider over TLS.
//   bench_gateway --serve PORT --upstream URL --ca FILE --key FILE    the gateway alone, as a server
//   bench_gateway --measure NAME=URL … --ca FILE [--runs N]           a harness's requests, in turns to each; one flat JSON
#include "agent/gateway/gateway.hpp"
#include "base/error.hpp"
#include "bench/figures.hpp"

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <curl/curl.h>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace {

using namespace pinfold;
using bench::now_ns;

// ---- the gateway ----

task<> accept_all(uring& ring, int listener, gateway& to) {
    for (;;) {
        unique_fd client(co_await accept(ring, listener));
        if (!client) continue;
        const int on = 1;
        ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        to.take(1, std::move(client));
    }
}

int serve(int port, const std::string& upstream, const std::string& ca, const std::string& key) {
    uring ring;
    task_group group([](const std::exception_ptr&) { std::abort(); });
    gateway models(ring, group,
                   {.upstreams = {.anthropic = upstream, .key = key},
                    .authorities = ca,
                    .who = [](std::uint64_t) { return model_asker{.session = "bench", .harness = "claude"}; },
                    .counted = [](std::uint64_t, std::uint64_t, std::uint64_t) {},
                    .heard =
                        [](std::uint64_t, const provider_answer& what) {
                            if (what.outcome != provider_outcome::answered)
                                std::fprintf(stderr, "%s\n", what.text.c_str());
                        }});
    const unique_fd listener(check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "make a socket"));
    sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<std::uint16_t>(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    check(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), "bind {}",
          port);
    check(::listen(listener.get(), 64), "listen");
    group.spawn(accept_all, std::ref(ring), listener.get(), std::ref(models));
    std::printf("ready\n");
    std::fflush(stdout);
    for (;;) ring.run_once(true); // until it is killed
}

// ---- a harness ----

// The events of the provider carry the moment at which it sent them.
struct answer_times {
    std::int64_t begin = 0, first = 0;
    std::vector<double> events; // milliseconds on the way
    std::string held;
};

std::size_t take_part(char* bytes, std::size_t size, std::size_t count, void* into) {
    auto& times = *static_cast<answer_times*>(into);
    const std::int64_t now = now_ns();
    if (times.first == 0) times.first = now;
    times.held.append(bytes, size * count);
    constexpr std::string_view mark = "data: ";
    for (std::size_t end = 0; (end = times.held.find("\n\n")) != std::string::npos;
         times.held.erase(0, end + 2)) {
        const std::size_t at = times.held.find(mark);
        if (at == std::string::npos || at > end) fail("no event: {}", times.held.substr(0, end));
        std::int64_t sent = 0;
        std::from_chars(times.held.data() + at + mark.size(), times.held.data() + end, sent);
        times.events.push_back(static_cast<double>(now - sent) / 1e6);
    }
    return size * count;
}

class place {
public:
    place(std::string name, const std::string& url, const std::string& ca)
        : name_(std::move(name)), easy_(::curl_easy_init()) {
        fields_ = ::curl_slist_append(nullptr, "Content-Type: application/json");
        fields_ = ::curl_slist_append(fields_, "x-api-key: from-inside");
        fields_ = ::curl_slist_append(fields_, "Expect:");
        ::curl_easy_setopt(easy_, CURLOPT_URL, (url + "/v1/messages").c_str());
        ::curl_easy_setopt(easy_, CURLOPT_CAINFO, ca.c_str());
        ::curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, fields_);
        ::curl_easy_setopt(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
        ::curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, body_.c_str());
        ::curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, take_part);
    }
    place(const place&) = delete;
    place& operator=(const place&) = delete;
    ~place() {
        ::curl_easy_cleanup(easy_);
        ::curl_slist_free_all(fields_);
    }

    void ask(bool counts) {
        answer_times times{.begin = now_ns()};
        ::curl_easy_setopt(easy_, CURLOPT_WRITEDATA, static_cast<void*>(&times));
        const CURLcode code = ::curl_easy_perform(easy_);
        long status = 0;
        ::curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
        if (code != CURLE_OK || status != 200 || times.events.size() < 2)
            fail("{}: {}, status {}, {} events", name_, ::curl_easy_strerror(code), status,
                 times.events.size());
        if (!counts) return;
        first_.push_back(static_cast<double>(times.first - times.begin) / 1e6);
        events_.insert(events_.end(), times.events.begin() + 1, times.events.end());
    }

    void add_to(bench::figures& all) {
        all.add_ms(name_ + "_first_byte", first_);
        all.add_ms(name_ + "_event", events_);
    }
    [[nodiscard]] const std::string& name() const { return name_; }
    double first_byte() { return bench::percentile(first_, 0.5); }
    double event() { return bench::percentile(events_, 0.5); }

private:
    std::string name_,
        body_ = std::string(std::size_t{100} * 1024, ' ') + "{}"; // as large as a harness's request
    CURL* easy_;
    curl_slist* fields_ = nullptr;
    std::vector<double> first_, events_;
};

int measure(const std::vector<std::string>& names, const std::string& ca, int runs) {
    std::vector<std::unique_ptr<place>> places;
    for (const std::string& each : names) {
        const std::size_t equals = each.find('=');
        places.push_back(std::make_unique<place>(each.substr(0, equals), each.substr(equals + 1), ca));
    }
    for (int run = -3; run < runs; ++run) { // three to warm up; kept connections from then on
        for (const auto& each : places) each->ask(run >= 0);
    }
    bench::figures figures;
    for (const auto& each : places) each->add_to(figures);
    for (const auto& each : places) {
        if (each == places.front()) continue; // the provider itself
        figures.add(each->name() + "_added_first_byte_p50_ms",
                    each->first_byte() - places.front()->first_byte());
        figures.add(each->name() + "_added_event_p50_ms", each->event() - places.front()->event());
    }
    figures.add("runs", runs);
    figures.print();
    return 0;
}

} // namespace

int main(int argc, char* argv[]) {
    try {
        std::signal(SIGPIPE, SIG_IGN);
        ::curl_global_init(CURL_GLOBAL_DEFAULT);
        std::vector<std::string> places;
        std::string upstream, ca, key;
        int port = 0, runs = 200;
        for (int i = 1; i + 1 < argc; i += 2) {
            const std::string name = argv[i], value = argv[i + 1];
            if (name == "--serve")
                port = std::atoi(value.c_str());
            else if (name == "--upstream")
                upstream = value;
            else if (name == "--ca")
                ca = value;
            else if (name == "--key")
                key = value;
            else if (name == "--measure")
                places.push_back(value);
            else if (name == "--runs")
                runs = std::atoi(value.c_str());
            else
                fail("unknown argument '{}'", name);
        }
        return port != 0 ? serve(port, upstream, ca, key) : measure(places, ca, runs);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_gateway: %s\n", error.what());
        return 1;
    }
}
