#include "cagebreak/cage_machine.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "cage/syscalls.hpp"
#include "cagebreak/counted.hpp"
#include "cagebreak/left_out.hpp"
#include "keeper/machine.hpp"
#include "ring/uring.hpp"
#include "support/catch.hpp"
#include "support/time_scale.hpp"

#include <array>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pinfold::test {

namespace {

using namespace std::chrono_literals;

constexpr uid_t nobody = 65534;

std::filesystem::path make_folder() {
    std::string path = "/tmp/pinfold-cagebreak-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) fail_errno(errno, "make a folder for the tests");
    check(::chmod(path.c_str(), 0711),
          "let root inside reach its root's place"); // as the keeper's run directory is
    return path;
}

// The keeper's preparations, in the machine's namespace of the world and behind a mount namespace of our own.
std::filesystem::path prepare(const world& net, const std::filesystem::path& pins) {
    check(::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "make the test undumpable, as the keeper is");
    need_bpffs(pins);
    leave_machine_mounts();
    net.enter("machine");
    return make_folder();
}

[[noreturn]] void serve(relay_cage served, bool open) {
    try {
        check(::setgroups(0, nullptr), "drop the groups");
        check(::setresgid(nobody, nobody, nobody), "become nobody's group");
        check(::setresuid(nobody, nobody, nobody), "become nobody");
        (void)::prctl(PR_SET_PDEATHSIG, SIGKILL); // a change of ids would take it back
        uring ring;
        relay relay(ring, open ? destination_check([](cage_mode, int, const endpoint&) { return 0U; })
                               : left_out::from_relay(machine_destinations()));
        relay.add(std::move(served));
        ring.run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "the relay of a test: %s\n", error.what());
    }
    ::_exit(1);
}

process start_relay(relay_cage served, bool open) {
    const pid_t pid = check(::fork(), "fork the relay");
    if (pid == 0) serve(std::move(served), open);
    return {pid, open_pidfd(pid)};
}

// What a program sends last lies in the tun when it ends. Writing there makes the relay runnable at once, so a relay that
// sleeps has dealt with all of it; else a count of zero could mean no more than a relay that was slow.
void wait_until_idle(const process& relay) {
    const std::string path = fmt::format("/proc/{}/stat", relay.pid());
    for (int left = 2000 * time_scale(); left > 0; --left) {
        const std::string stat = read_file(path);
        const std::size_t name_end = stat.rfind(')');
        if (name_end == std::string::npos || name_end + 2 >= stat.size() ||
            (stat[name_end + 2] != 'R' && stat[name_end + 2] != 'D'))
            return;
        ::usleep(1000);
    }
    fail("the relay of a test did not come to rest within two seconds");
}

// Both streams until their end, or until time is up.
void drain(const standard_streams& streams, probed& into, std::chrono::steady_clock::time_point end) {
    std::array<pollfd, 2> waiting{
        {{.fd = streams.output.get(), .events = POLLIN}, {.fd = streams.errors.get(), .events = POLLIN}}};
    std::array<char, 65536> part{};
    while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                              end - std::chrono::steady_clock::now())
                              .count();
        if (left <= 0 || ::poll(waiting.data(), waiting.size(), static_cast<int>(left)) == 0) return;
        for (std::size_t i = 0; i < waiting.size(); ++i) {
            if (waiting[i].fd < 0 || waiting[i].revents == 0) continue;
            const ssize_t got = ::read(waiting[i].fd, part.data(), part.size());
            if (got <= 0)
                waiting[i].fd = -1;
            else
                (i == 0 ? into.output : into.errors).append(part.data(), static_cast<std::size_t>(got));
        }
    }
}

} // namespace

cage_kind cage_kind::without(guard which) const {
    return changed([which](std::vector<step>& steps) { std::erase(steps, step(attach_guard{which})); });
}

cage_kind cage_kind::changed(std::function<void(std::vector<step>&)> change) const {
    cage_kind other = *this;
    other.changes_.push_back(std::move(change));
    return other;
}

cage_kind cage_kind::with_open_relay() const {
    cage_kind other = *this;
    other.open_relay_ = true;
    return other;
}

cage_kind cage_kind::with_project(std::filesystem::path project, uid_t owner) const {
    cage_kind other = *this;
    other.project_ = std::move(project);
    other.owner_ = owner;
    return other;
}

cage_kind cage_kind::with_limits(limits_spec limits) const {
    cage_kind other = *this;
    other.limits_ = limits;
    return other;
}

cage_kind cage_kind::with_bind(bind_spec bind) const {
    cage_kind other = *this;
    other.binds_.push_back(std::move(bind));
    return other;
}

cage_kind cage_kind::with_kept_files(std::filesystem::path folder, std::uint32_t id_base) const {
    cage_kind other = *this;
    other.kept_ = std::move(folder);
    other.kept_base_ = id_base;
    return other;
}

cage_machine& cage_machine::here() {
    if (::geteuid() != 0) SKIP("root, to build cages");
    static cage_machine machine;
    return machine;
}

cage_machine::cage_machine()
    : pins_(fmt::format("/sys/fs/bpf/pinfold-cagebreak-{}", ::getpid())),
      cgroups_(fmt::format("pinfold-cagebreak-{}", ::getpid())),
      anchor_(cgroup::make(cgroups_.fd(), "anchor")),
      places_((folder_ = prepare(world_, pins_)) / "scratch"),
      trees_(folder_ / "trees"),
      guards_(pins_, anchor_.fd()),
      steering_(pins_),
      networks_(steering_, 0),
      images_(std::filesystem::temp_directory_path() / "pinfold-test-images"),
      init_program_(load_program(PINFOLD_LIBEXEC_DIR, "pinfold-init")),
      probe_program_(load_program(PINFOLD_LIBEXEC_DIR, "pinfold-probe")),
      tools_{.cgroups = cgroups_,
             .guard_programs = guards_,
             .steering_programs = steering_,
             .networks = networks_,
             .places = places_,
             .trees = trees_,
             .ids = ids_,
             .sealed_filter = compile_filter(cage_mode::sealed),
             .caged_filter = compile_filter(cage_mode::caged),
             .init_program = init_program_.get()} {
    left_out::from_filter(tools_.sealed_filter, cage_mode::sealed);
    left_out::from_filter(tools_.caged_filter, cage_mode::caged);
    guards_.set_local_prefixes(routes_.refresh());
}

cage_machine::~cage_machine() {
    std::error_code ignored;
    std::filesystem::remove_all(pins_, ignored);
    (void)anchor_.remove();
    (void)cgroup::open(cgroups_.fd(), ".").kill(1s);
    std::filesystem::remove(cgroups_.mount() / fmt::format("pinfold-cagebreak-{}", ::getpid()), ignored);
}

cage_machine::folder_end::~folder_end() {
    try {
        const unique_fd above = open_directory(folder.parent_path());
        (void)remove_tree_at(above.get(), folder.filename().c_str());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "remove %s: %s\n", folder.c_str(), error.what());
    }
}

void cage_machine::refresh_routes() {
    guards_.set_local_prefixes(routes_.refresh());
}

std::unique_ptr<running_cage> cage_machine::start(const cage_kind& kind, std::vector<std::string> argv,
                                                  bool is_probe) {
    static std::uint64_t next = 0x7e57'0000'0000'0000;
    cage_order order{.id = ++next,
                     .owner = {kind.owner_, kind.owner_},
                     .id_base = kind.kept_.empty() ? ids_.take() : kind.kept_base_};
    order.spec = {.name = fmt::format("test-{:x}", order.id),
                  .mode = kind.mode_,
                  .project = kind.project_,
                  .limits = kind.limits_,
                  .binds = kind.binds_,
                  .keep_files = !kind.kept_.empty()};
    order.spec.command = {.argv = std::move(argv),
                          .environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"},
                          .directory = kind.project_.empty() ? "/" : kind.project_};
    plan_inputs inputs{.cgroup_name = cage_name(order.id), .id_base = order.id_base};
    for (const image_layer& layer : images_.get("host").layers)
        inputs.layers.push_back({layer.lower, layer.target});
    const machine_facts facts = find_facts(cgroups_, {"memory", "cpu", "pids"});
    order.steps = plan(order.spec, facts, inputs);
    for (const auto& change : kind.changes_) change(order.steps);
    left_out::from_plan(order.steps);
    if (!kind.project_.empty())
        order.sources.emplace_back(
            check(::open(kind.project_.c_str(), O_PATH | O_CLOEXEC), "open {}", kind.project_.native()));
    for (const bind_spec& bind : kind.binds_)
        order.sources.emplace_back(
            check(::open(bind.source.c_str(), O_PATH | O_CLOEXEC), "open {}", bind.source.native()));
    if (!kind.kept_.empty()) order.kept = open_directory(kind.kept_);
    if (is_probe) order.program_fd = probe_program_.get();

    std::unique_ptr<running_cage> started(new running_cage(*this));
    const std::uint32_t base = order.id_base;
    try {
        started->cage_ = cage::build(tools_, std::move(order));
    } catch (...) {
        ids_.give_back(base);
        throw;
    }
    left_out::from_guards(pins_, started->cage_->id());
    left_out::from_mounts(started->cage_->init().pid(), kind.project_);
    cage_network& network = started->cage_->network();
    started->relay_ = start_relay({.id = started->cage_->id(),
                                   .mode = kind.mode_,
                                   .tun = std::move(network.tun),
                                   .listener = std::move(network.listener),
                                   .resolvers = kind.mode_ == cage_mode::caged
                                                    ? std::vector<std::string>{"192.168.1.1"}
                                                    : std::vector<std::string>{}},
                                  kind.open_relay_);
    network.tun.reset();
    network.listener.reset();
    started->cage_->streams().input.reset();
    started->cage_->start();
    return started;
}

probed cage_machine::probe(const cage_kind& kind, std::vector<std::string> arguments) {
    std::string act;
    for (const std::string& each : arguments) act += (act.empty() ? "" : " ") + each;
    arguments.insert(arguments.begin(), "pinfold-probe");
    probed result = start(kind, std::move(arguments), true)->finish();
    if (kind.changes_.empty() && (result.status == 0 || result.status == 1))
        count_act(result.status == 0, kind.mode_ == cage_mode::caged ? "caged" : "sealed", act);
    return result;
}

probed cage_machine::run(const cage_kind& kind, std::vector<std::string> argv) {
    return start(kind, std::move(argv))->finish();
}

probed cage_machine::bare(const std::vector<std::string>& arguments) {
    std::string command = "setpriv --reuid 65534 --regid 65534 --clear-groups " PINFOLD_LIBEXEC_DIR
                          "/pinfold-probe";
    for (const std::string& argument : arguments) command += " '" + argument + "'";
    probed result;
    FILE* pipe = ::popen(command.c_str(), "re");
    if (pipe == nullptr) fail_errno(errno, "run the probe");
    std::array<char, 4096> part{};
    while (std::fgets(part.data(), part.size(), pipe) != nullptr) result.output += part.data();
    result.status = WEXITSTATUS(::pclose(pipe));
    return result;
}

std::vector<pinfold_denial> cage_machine::denials_of(std::uint64_t id) {
    guards_.take_denials([&](const pinfold_denial& each) { denials_.push_back(each); });
    std::vector<pinfold_denial> theirs;
    for (const pinfold_denial& each : denials_) {
        if (each.cage == id) theirs.push_back(each);
    }
    return theirs;
}

probed running_cage::finish(std::chrono::seconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit * time_scale();
    probed result;
    drain(cage_->streams(), result, end);
    const auto status = cage_->init().reap_within(2s * time_scale());
    result.status = status ? status->code : -1;
    wait_until_idle(relay_);
    result.denials = home_.denials_of(cage_->id());
    return result;
}

probed running_cage::enter(std::vector<std::string> argv, std::chrono::seconds limit) {
    caged_program program = cage_->enter({.argv = std::move(argv),
                                          .environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"},
                                          .directory = "/"});
    program.streams.input.reset();
    probed result;
    drain(program.streams, result, std::chrono::steady_clock::now() + limit * time_scale());
    const auto status = program.held.reap_within(2s * time_scale());
    result.status = status ? status->code : -1;
    wait_until_idle(relay_);
    result.denials = home_.denials_of(cage_->id());
    return result;
}

running_cage::~running_cage() {
    const std::uint32_t base = cage_ && !cage_->spec().keep_files ? cage_->id_base() : 0;
    const bool gone = !cage_ || cage_->destroy();
    relay_ = process();
    if (cage_ && gone) home_.ids_.give_back(base);
}

} // namespace pinfold::test
