// The keeper follows addresses and routes of a real namespace.
#include "cagebreak/kernel_scratch.hpp"
#include "keeper/routes.hpp"

#include <algorithm>
#include <linux/fib_rules.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <optional>
#include <poll.h>

using namespace pinfold;
using namespace pinfold::test;

namespace {

// In a namespace of its own with a dummy device that leads nowhere; all in one thread.
class island {
public:
    island() {
        require_root();
        check(::unshare(CLONE_NEWNET), "make a namespace");
        wire_.emplace();
        netlink_batch batch;
        ifinfomsg link = {};
        batch.begin(RTM_NEWLINK, NLM_F_CREATE, link, "make a veth pair");
        batch.put_bytes(IFLA_IFNAME, std::as_bytes(std::span("lan0")));
        const std::size_t info = batch.open(IFLA_LINKINFO);
        batch.put_bytes(IFLA_INFO_KIND, std::as_bytes(std::span("veth", 4)));
        batch.close(info);
        wire_->carry_out(batch);
        index_ = ::if_nametoindex("lan0");
        set_up(true);
    }
    void set_up(bool up) {
        netlink_batch batch;
        ifinfomsg link = {};
        link.ifi_index = static_cast<int>(index_);
        link.ifi_flags = up ? IFF_UP : 0;
        link.ifi_change = IFF_UP;
        batch.begin(RTM_NEWLINK, 0, link, "set a link up");
        wire_->carry_out(batch);
    }
    void address(const char* host, std::uint8_t length) {
        const test::address parsed = at(host, 0);
        netlink_batch batch;
        ifaddrmsg message = {};
        message.ifa_family = static_cast<std::uint8_t>(parsed.storage.ss_family);
        message.ifa_prefixlen = length;
        message.ifa_flags = IFA_F_NODAD;
        message.ifa_index = index_;
        batch.begin(RTM_NEWADDR, NLM_F_CREATE, message, "add an address");
        batch.put_bytes(IFA_LOCAL, bytes_of(parsed));
        batch.put_bytes(IFA_ADDRESS, bytes_of(parsed));
        wire_->carry_out(batch);
    }
    void route(std::uint16_t type, const char* host, std::uint8_t length, std::uint32_t table) {
        const test::address parsed = at(host, 0);
        netlink_batch batch;
        rtmsg message = {};
        message.rtm_family = static_cast<std::uint8_t>(parsed.storage.ss_family);
        message.rtm_dst_len = length;
        message.rtm_scope = RT_SCOPE_LINK;
        message.rtm_type = RTN_UNICAST;
        message.rtm_protocol = RTPROT_STATIC;
        batch.begin(type, type == RTM_NEWROUTE ? NLM_F_CREATE : 0, message, "change a route");
        batch.put_bytes(RTA_DST, bytes_of(parsed));
        batch.put(RTA_OIF, index_);
        batch.put(RTA_TABLE, table);
        wire_->carry_out(batch);
    }
    void rule(std::uint32_t table) {
        netlink_batch batch;
        fib_rule_hdr message = {};
        message.family = AF_INET;
        message.action = FR_ACT_TO_TBL;
        batch.begin(RTM_NEWRULE, NLM_F_CREATE, message, "add a rule");
        batch.put(FRA_TABLE, table);
        wire_->carry_out(batch);
    }

private:
    static std::span<const std::byte> bytes_of(const test::address& parsed) {
        if (parsed.storage.ss_family == AF_INET)
            return std::as_bytes(
                std::span(&reinterpret_cast<const sockaddr_in&>(parsed.storage).sin_addr, 1));
        return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in6&>(parsed.storage).sin6_addr, 1));
    }

    std::optional<netlink_socket> wire_;
    unsigned index_ = 0;
};

bool has_news(const routes& watched) {
    pollfd ready = {.fd = watched.fd(), .events = POLLIN, .revents = 0};
    return ::poll(&ready, 1, 2000) > 0;
}

std::string text_of(const local_prefix& prefix) {
    char text[INET6_ADDRSTRLEN];
    ::inet_ntop(prefix.family, prefix.address, text, sizeof text);
    return fmt::format("{}/{}{}", text, prefix.length, prefix.machine ? " machine" : "");
}

std::vector<std::string> now(routes& watched) {
    std::vector<std::string> all;
    for (const local_prefix& prefix : watched.refresh()) all.push_back(text_of(prefix));
    return all;
}

using texts = std::vector<std::string>;

// Returns what each step saw, from a thread whose namespace goes with it.
std::vector<std::pair<std::string, texts>> follow() {
    std::vector<std::pair<std::string, texts>> seen;
    std::exception_ptr error;
    std::thread([&] {
        try {
            island here;
            routes watched;
            const auto note = [&](const char* step) {
                if (!has_news(watched)) fail("no news of: {}", step);
                seen.emplace_back(step, now(watched));
            };
            (void)now(watched);
            here.address("203.0.113.9", 24);
            note("address");
            here.address("2001:db8:5::9", 64);
            note("address of the other family");
            here.route(RTM_NEWROUTE, "198.51.100.0", 24, 52);
            note("route in a table without a rule");
            here.rule(52);
            note("rule");
            here.route(RTM_DELROUTE, "198.51.100.0", 24, 52);
            note("route gone");
            here.set_up(false);
            note("link down");
        } catch (...) {
            error = std::current_exception();
        }
    }).join();
    if (error) std::rethrow_exception(error);
    return seen;
}

} // namespace

TEST_CASE("addresses, routes, rules and links that come and go change what is local at once") {
    require_root();
    const auto seen = follow();
    REQUIRE(seen.size() == 6);
    const auto has = [&](std::size_t step, const char* prefix) {
        return std::ranges::find(seen[step].second, prefix) != seen[step].second.end();
    };
    CHECK(seen[0].second == texts{"203.0.113.0/24", "203.0.113.9/32 machine"});
    CHECK(has(1, "2001:db8:5::/64"));
    CHECK(has(1, "2001:db8:5::9/128 machine"));
    CHECK_FALSE(has(2, "198.51.100.0/24"));
    CHECK(has(3, "198.51.100.0/24"));
    CHECK_FALSE(has(4, "198.51.100.0/24"));
    CHECK(has(4, "203.0.113.0/24"));
    CHECK_FALSE(has(5, "203.0.113.0/24")); // gone with the link, and nobody said so
}
