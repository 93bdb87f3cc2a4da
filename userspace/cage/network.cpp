#include "cage/network.hpp"

#include "base/error.hpp"
#include "cage/bpf.hpp"
#include "cage/netlink.hpp"
#include "steering.skel.h"

#include <arpa/inet.h>
#include <array>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/fib_rules.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <pinfold/network.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace pinfold {
namespace {

constexpr int loopback = 1; // lo is the first device of every namespace
constexpr std::uint32_t anyip_table = 200;
constexpr const char* own_space = "/proc/thread-self/ns/net";

// Takes the calling thread into a new network namespace and, when destroyed, back.
class namespace_visit {
public:
    namespace_visit() : home_(check(::open(own_space, O_RDONLY | O_CLOEXEC), "open {}", own_space)) {
        check(::unshare(CLONE_NEWNET), "make a network namespace");
    }
    namespace_visit(const namespace_visit&) = delete;
    namespace_visit& operator=(const namespace_visit&) = delete;
    ~namespace_visit() {
        // A keeper that stayed in a cage's namespace would do its next work there: better no keeper.
        if (::setns(home_.get(), CLONE_NEWNET) == 0) return;
        spdlog::critical("cannot leave a cage's network namespace: {}; the keeper ends",
                         std::strerror(errno));
        std::abort();
    }

private:
    unique_fd home_;
};

// `path` is below /proc/sys/net, which shows the namespace of the task that opens it.
void write_sysctl(const char* path, std::string_view value) {
    const std::string name = fmt::format("/proc/sys/net/{}", path);
    const unique_fd file(
        check(::open(name.c_str(), O_WRONLY | O_CLOEXEC), "open {} in a cage's network", name));
    check(::write(file.get(), value.data(), value.size()), "write {:?} to {}", value, name);
}

unique_fd open_tun() {
    unique_fd tun(check(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC),
                        "open /dev/net/tun (the module tun is needed: 'modprobe tun')"));
    int index = PINFOLD_TUN_IFINDEX;
    check(::ioctl(tun.get(), TUNSETIFINDEX, &index), "ask for the index {} of a cage's tun", index);
    ifreq request = {};
    std::strncpy(request.ifr_name, PINFOLD_TUN_NAME, sizeof request.ifr_name - 1);
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    check(::ioctl(tun.get(), TUNSETIFF, &request), "make the tun of a cage");
    return tun;
}

void set_option(int socket, int level, int name, int value, const char* text) {
    check(::setsockopt(socket, level, name, &value, sizeof value), "set {} on the listener of a cage", text);
}

// Bound to an address of 127/8, in its v4-mapped form: one socket takes both families from sk_lookup, nothing reaches
// it by the cage's own address, and it does not show as a listener on all of them. On ::1 it would serve IPv6 only.
unique_fd open_listener() {
    unique_fd listener(check(::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
                             "make the listener of a cage (pinfold needs a kernel with IPv6)"));
    const int fd = listener.get();
    set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0, "IPV6_V6ONLY");
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
    // It answers from addresses that are not the cage's own.
    set_option(fd, IPPROTO_IP, IP_TRANSPARENT, 1, "IP_TRANSPARENT");
    set_option(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, 1, "IPV6_TRANSPARENT");
    sockaddr_in6 address = {};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(PINFOLD_LISTENER_PORT);
    const std::uint32_t inside = htonl(PINFOLD_LISTENER4);
    address.sin6_addr.s6_addr[10] = address.sin6_addr.s6_addr[11] = 0xff;
    std::memcpy(&address.sin6_addr.s6_addr[12], &inside, sizeof inside);
    check(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address),
          "bind the listener of a cage");
    check(::listen(fd, 4096), "listen in a cage");
    return listener;
}

// A new namespace inherits the machine's settings, so each is written, whatever it may be already.
void write_sysctls() {
    // The same for the tun is said in add_links. The SYN that the relay puts back comes from the tun with the cage's own
    // address as its source: a martian without accept_local; and rp_filter is the maximum of `all` and the device.
    write_sysctl("ipv4/conf/all/rp_filter", "0");
    write_sysctl("ipv4/conf/all/accept_local", "1");
    write_sysctl("ipv6/conf/all/disable_ipv6", "0");
    // The last packet of a handshake comes by lo: with a SYN cookie it would need the listener, which serves the tun only.
    write_sysctl("ipv4/tcp_syncookies", "0");
    write_sysctl("ipv4/ping_group_range", "0 2147483647");
    write_sysctl("ipv4/ip_unprivileged_port_start", "0"); // root inside has no power over the namespace
}

in_addr address4(std::uint32_t host_order) {
    return in_addr{htonl(host_order)};
}

in6_addr address6(std::array<std::uint32_t, 4> words) {
    for (std::uint32_t& word : words) word = htonl(word);
    in6_addr address = {};
    std::memcpy(&address, words.data(), sizeof address);
    return address;
}

void add_links(netlink_batch& batch) {
    ifinfomsg link = {};
    link.ifi_index = PINFOLD_TUN_IFINDEX;
    batch.begin(RTM_NEWLINK, 0, link, "set the mtu of a cage's tun");
    batch.put(IFLA_MTU, std::uint32_t{PINFOLD_TUN_MTU}); // keeps datagrams whole
    const std::size_t families = batch.open(IFLA_AF_SPEC);
    std::size_t family = batch.open(AF_INET6);
    batch.put(IFLA_INET6_ADDR_GEN_MODE,
              std::uint8_t{IN6_ADDR_GEN_MODE_NONE}); // no fe80 address, which would not be OWN
    batch.close(family);
    family = batch.open(AF_INET);
    const std::size_t settings = batch.open(
        IFLA_INET_CONF); // as conf/eth0 of /proc/sys, at a tenth of the time
    batch.put(IPV4_DEVCONF_RP_FILTER, std::uint32_t{0});
    batch.put(IPV4_DEVCONF_ACCEPT_LOCAL, std::uint32_t{1});
    batch.close(settings);
    batch.close(family);
    batch.close(families);

    link.ifi_flags = link.ifi_change = IFF_UP;
    batch.begin(RTM_NEWLINK, 0, link, "set a cage's tun up");
    link.ifi_index = loopback;
    batch.begin(RTM_NEWLINK, 0, link, "set a cage's lo up");
}

template <typename Address>
void add_family(netlink_batch& batch, std::uint8_t family, std::uint8_t prefix, const Address& own,
                const Address& gateway) {
    ifaddrmsg address = {};
    address.ifa_family = family;
    address.ifa_prefixlen = prefix;
    address.ifa_flags = IFA_F_NODAD; // or IPv6 is unusable for the first second
    address.ifa_index = PINFOLD_TUN_IFINDEX;
    batch.begin(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, address, "add a cage's own address");
    batch.put(IFA_LOCAL, own);
    batch.put(IFA_ADDRESS, own);

    rtmsg route = {};
    route.rtm_family = family;
    route.rtm_table = RT_TABLE_MAIN;
    route.rtm_protocol = RTPROT_STATIC;
    route.rtm_scope = RT_SCOPE_UNIVERSE;
    route.rtm_type = RTN_UNICAST;
    batch.begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, route, "add a cage's default route");
    batch.put(RTA_GATEWAY, gateway);
    batch.put(RTA_OIF, std::uint32_t{PINFOLD_TUN_IFINDEX});
    batch.put(RTA_PREFSRC, own);

    route.rtm_table = anyip_table;
    route.rtm_scope = RT_SCOPE_HOST;
    route.rtm_type = RTN_LOCAL;
    batch.begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, route, "make every address local to a cage's TCP");
    batch.put(RTA_OIF, std::uint32_t{loopback});
    batch.put(RTA_PREFSRC, own); // or a connection's source would equal its destination

    fib_rule_hdr rule = {};
    rule.family = family;
    rule.table = anyip_table;
    rule.action = FR_ACT_TO_TBL;
    batch.begin(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, rule, "add the routing rule for a cage's TCP");
    batch.put(FRA_PRIORITY, std::uint32_t{100}); // after the table of what is really local
    batch.put(FRA_TABLE, anyip_table);
    batch.put(FRA_IP_PROTO, std::uint8_t{IPPROTO_TCP});
}

void configure_devices() {
    netlink_batch batch;
    add_links(batch);
    add_family(batch, AF_INET, PINFOLD_OWN4_PREFIX, address4(PINFOLD_OWN4), address4(PINFOLD_GATEWAY4));
    add_family(batch, AF_INET6, PINFOLD_OWN6_PREFIX, address6(PINFOLD_OWN6_WORDS),
               address6(PINFOLD_GATEWAY6_WORDS));
    netlink_socket().carry_out(batch);
}

// 0, or -errno where the kernel has no clsact (the modules sch_ingress and cls_bpf).
int attach_classic(int program) {
    auto hook = bpf::options<bpf_tc_hook>();
    hook.ifindex = loopback;
    hook.attach_point = BPF_TC_EGRESS;
    const int error = bpf_tc_hook_create(&hook);
    if (error < 0) return error;
    auto options = bpf::options<bpf_tc_opts>();
    options.prog_fd = program;
    options.handle = options.priority = 1;
    return bpf_tc_attach(&hook, &options);
}

} // namespace

struct steering::parts {
    struct close_skeleton {
        void operator()(steering_bpf* object) const { steering_bpf__destroy(object); }
    };

    std::filesystem::path pins;
    std::unique_ptr<steering_bpf, close_skeleton> skeleton;

    [[nodiscard]] int syn() const { return bpf_program__fd(skeleton->progs.cage_syn); }
    [[nodiscard]] unique_fd load_steer(int listener) const;
    [[nodiscard]] unique_fd attach_syn() const;
};

// A copy of cage_steer with a map of its own: sk_lookup cannot tell for which namespace it runs (there is no netns cookie
// in its context on any kernel, nor an index that differs), so the listener is found by the program's map alone.
unique_fd steering::parts::load_steer(int listener) const {
    const bpf_program& model = *skeleton->progs.cage_steer;
    unique_fd map(check_negative(bpf_map_create(BPF_MAP_TYPE_SOCKMAP, "cage_listener", sizeof(std::uint32_t),
                                                sizeof(std::uint64_t), 1, nullptr),
                                 "make the map for the listener of a cage"));
    const std::uint32_t first = 0;
    const auto value = static_cast<std::uint64_t>(listener);
    check_negative(bpf_map_update_elem(map.get(), &first, &value, BPF_ANY),
                   "put the listener of a cage into its map");

    const bpf_insn* begin = bpf_program__insns(&model);
    std::vector<bpf_insn> code(begin, begin + bpf_program__insn_cnt(&model));
    for (bpf_insn& instruction : code)
        if (instruction.code == (BPF_LD | BPF_IMM | BPF_DW) && instruction.src_reg == BPF_PSEUDO_MAP_FD)
            instruction.imm = map.get();
    auto options = bpf::options<bpf_prog_load_opts>();
    options.expected_attach_type = BPF_SK_LOOKUP;
    return unique_fd(check_negative(bpf_prog_load(BPF_PROG_TYPE_SK_LOOKUP, "cage_steer", "Dual MIT/GPL",
                                                  code.data(), code.size(), &options),
                                    "load cage_steer"));
}

// Where this fails every connect() would seem to succeed, so there is no cage without it. A classic filter first: it lives
// as long as the namespace, and nobody in the cage has the power over that to delete it. A tcx link (6.6) waits for an
// RCU grace period, measured 6 to 14 ms on 6.18 against 0.2 ms, so it is for kernels that were built without clsact.
unique_fd steering::parts::attach_syn() const {
    const int error = attach_classic(syn());
    if (error == 0) return {};
    unique_fd link = bpf::create_link(syn(), loopback, bpf::tcx_egress);
    if (!link)
        fail_errno(
            -error,
            "attach cage_syn to a cage's lo (before kernel 6.6 the modules sch_ingress and cls_bpf are "
            "needed: 'modprobe -a sch_ingress cls_bpf')");
    return link;
}

steering::steering(const std::filesystem::path& pins) : parts_(std::make_unique<parts>()) {
    bpf::set_up_library();
    parts_->pins = pins;
    bpf::make_pin_folder(pins / "progs");
    bpf::make_pin_folder(pins / "cages");
    parts_->skeleton.reset(steering_bpf__open());
    if (!parts_->skeleton) fail_errno(errno, "open the steering programs");
    check_negative(steering_bpf__load(parts_->skeleton.get()), "load the steering programs");
    // Only to be looked at: the links of each cage hold what it uses.
    for (const bpf_program* program :
         {parts_->skeleton->progs.cage_syn, parts_->skeleton->progs.cage_steer}) {
        const auto where = pins / "progs" / bpf_program__name(program);
        bpf::unpin(where);
        bpf::pin(bpf_program__fd(program), where);
    }
}

steering::steering(steering&&) noexcept = default;
steering::~steering() = default;

spare_network steering::prepare() {
    const namespace_visit inside;
    spare_network made;
    made.network.space = unique_fd(
        check(::open(own_space, O_RDONLY | O_CLOEXEC), "open a cage's network namespace"));
    made.network.tun = open_tun();
    made.network.listener = open_listener();
    // Before any process enters, and before the devices are up.
    const unique_fd steer = parts_->load_steer(made.network.listener.get());
    made.steer = bpf::create_link(steer.get(), made.network.space.get(), BPF_SK_LOOKUP);
    if (!made.steer) fail_errno(errno, "attach cage_steer to a cage's network namespace");
    made.syn = parts_->attach_syn();
    write_sysctls();
    configure_devices();
    return made;
}

cage_network steering::make(std::uint64_t cage, spare_network ahead) {
    const auto folder = bpf::cage_folder(parts_->pins, cage);
    bpf::make_pin_folder(folder);
    try {
        bpf::pin(ahead.steer.get(), folder / "steer");
        if (ahead.syn) bpf::pin(ahead.syn.get(), folder / "syn");
    } catch (...) {
        release(cage);
        throw;
    }
    return std::move(ahead.network);
}

cage_network steering::make(std::uint64_t cage) {
    return make(cage, prepare());
}

void steering::release(std::uint64_t cage) {
    const auto folder = bpf::cage_folder(parts_->pins, cage);
    bpf::unpin(folder / "syn");
    bpf::unpin(folder / "steer");
    bpf::remove_if_empty(folder);
}

cage_network spare_networks::make(std::uint64_t cage) {
    if (ready_.empty()) return programs_.make(cage);
    spare_network ahead = std::move(ready_.back());
    ready_.pop_back();
    return programs_.make(cage, std::move(ahead));
}

bool spare_networks::fill_one() {
    if (ready_.size() >= wanted_) return false;
    ready_.push_back(programs_.prepare());
    return true;
}

} // namespace pinfold
