#include "spec/plan.hpp"
#include "spec/validate.hpp"
#include "support/catch.hpp"

#include <algorithm>

namespace pinfold {
namespace {

const machine_facts everything{
    .kernel = "6.1.0", .memory_controller = true, .cpu_controller = true, .pids_controller = true};

cage_spec example() {
    cage_spec spec{.name = "heron", .mode = cage_mode::sealed, .project = "/home/me/project"};
    spec.command = {.argv = {"make"}, .environment = {"PATH=/usr/bin"}, .directory = "/home/me/project"};
    return spec;
}

const plan_inputs inputs{
    .cgroup_name = "00000000000000aa", .id_base = 0x70000000, .layers = {{"/image", "/"}, {"/usr", "/usr"}}};

template <typename Step>
std::size_t place_of(const std::vector<step>& steps) {
    return static_cast<std::size_t>(
        std::ranges::find_if(steps, [](const step& each) { return std::holds_alternative<Step>(each); }) -
        steps.begin());
}

TEST_CASE("the plan of a sealed cage is this list, in this order") {
    const std::vector<step> expected{
        make_cgroup{"00000000000000aa"},
        set_limit{"memory.max", "4294967296"},
        set_limit{"memory.swap.max", "0"},
        set_limit{"cpu.max", "200000 100000"},
        set_limit{"pids.max", "2048"},
        attach_guard{guard::destinations},
        attach_guard{guard::sockets},
        attach_guard{guard::options},
        write_policy{cage_mode::sealed},
        make_network{},
        start_child{},
        map_ids{.base = 0x70000000, .count = 65536},
        mount_layer{"/image", "/"},
        mount_layer{"/usr", "/usr"},
        bind_path{"/home/me/project", "/home/me/project", true},
        join_keyring{},
        set_hostname{"heron"},
        place_root{},
        mount_dev{},
        mount_proc{.masked = true},
        mount_sys{},
        mount_run{},
        place_binds{},
        pivot{},
        drop_capabilities{},
        no_new_privileges{},
        filter_syscalls{cage_mode::sealed},
        await_relay{},
        run_program{},
    };
    CHECK(plan(example(), everything, inputs) == expected);
}

TEST_CASE("no child exists before its limits are set, its guards attached and its policy written") {
    for (const cage_mode mode : {cage_mode::sealed, cage_mode::caged}) {
        cage_spec spec = example();
        spec.mode = mode;
        const std::vector<step> steps = plan(spec, everything, inputs);
        const std::size_t child = place_of<start_child>(steps);
        REQUIRE(child < steps.size());
        for (std::size_t i = child; i < steps.size(); ++i) {
            CHECK_FALSE(std::holds_alternative<set_limit>(steps[i]));
            CHECK_FALSE(std::holds_alternative<attach_guard>(steps[i]));
            CHECK_FALSE(std::holds_alternative<write_policy>(steps[i]));
        }
        CHECK(place_of<make_cgroup>(steps) == 0);
        CHECK(place_of<filter_syscalls>(steps) < place_of<await_relay>(steps));
        CHECK(place_of<await_relay>(steps) + 1 == place_of<run_program>(steps));
    }
}

TEST_CASE("a controller that is not there is named, and accepted only by name") {
    machine_facts facts{.kernel = "6.1.0", .pids_controller = true};
    CHECK(missing_controllers(facts) == std::vector<std::string>{"memory", "cpu"});
    facts.unlimited = {"memory"};
    CHECK(missing_controllers(facts) == std::vector<std::string>{"cpu"});
    CHECK(unenforced_limits(facts) == std::vector<std::string>{"memory"});
    CHECK(plan_limits({}, facts) == std::vector<set_limit>{{"pids.max", "2048"}});
    facts.unlimited = {"memory", "cpu", "pids"}; // accepted, and there: enforced all the same
    CHECK(unenforced_limits(facts) == std::vector<std::string>{"memory", "cpu"});
}

TEST_CASE("a spec with every default is sealed and limited") {
    const cage_spec spec;
    CHECK(spec.mode == cage_mode::sealed);
    CHECK(spec.limits.memory_bytes == std::uint64_t{4} << 30);
    CHECK(spec.limits.cpu_percent == 200);
    CHECK(spec.limits.processes == 2048);
    CHECK_FALSE(spec.keep_files);
}

TEST_CASE("what is wrong with a spec is said with its place") {
    const auto where = [](auto&& change) {
        cage_spec spec = example();
        change(spec);
        const auto problem = find_problem(spec);
        return problem ? problem->where : std::string();
    };
    CHECK(where([](cage_spec&) {}).empty()); // the twin: the example is right
    CHECK(where([](cage_spec& s) { s.name = ""; }) == "name");
    CHECK(where([](cage_spec& s) { s.name = std::string(65, 'a'); }) == "name");
    CHECK(where([](cage_spec& s) { s.name = std::string(64, 'a'); }).empty());
    for (const char* name : {"a/b", "../x", ".hidden", "-flag", "UPPER", "a b", "a\nb", "ä"}) {
        CAPTURE(name);
        CHECK(where([&](cage_spec& s) { s.name = name; }) == "name");
    }
    for (const char* path :
         {"relative", "/a/../b", "/a//b", "/a/./b", "/a/", "/proc/self", "/dev", "/etc", "/"}) {
        CAPTURE(path);
        CHECK(where([&](cage_spec& s) { s.project = path; }) == "dir");
    }
    for (const char* path : {"/srv/with space", "/home/me/my.app", "/home/mé/ünï"}) {
        CAPTURE(path);
        CHECK(where([&](cage_spec& s) { s.project = path; }).empty());
    }
    CHECK(where([](cage_spec& s) { s.project = std::string("/a\0b", 4); }) == "dir");
    CHECK(where([](cage_spec& s) { s.project = "/" + std::string(4095, 'a'); }) == "dir");
    CHECK(where([](cage_spec& s) { s.image = "../host"; }) == "image");
    CHECK(where([](cage_spec& s) { s.limits.memory_bytes = 1 << 20; }) == "limits.memory");
    CHECK(where([](cage_spec& s) { s.limits.cpu_percent = 0; }) == "limits.cpus");
    CHECK(where([](cage_spec& s) { s.limits.processes = 3; }) == "limits.pids");
    CHECK(where([](cage_spec& s) { s.command.argv.clear(); }) == "argv");
    CHECK(where([](cage_spec& s) { s.command.argv = {""}; }) == "argv");
    CHECK(where([](cage_spec& s) { s.command.argv.emplace_back("a\0b", 3); }) == "argv");
    CHECK(where([](cage_spec& s) { s.command.environment = {"NOVALUE"}; }) == "env");
    CHECK(where([](cage_spec& s) { s.command.environment = {"=x"}; }) == "env");
    CHECK(where([](cage_spec& s) { s.command.directory = "here"; }) == "directory");
    CHECK(where([](cage_spec& s) { s.binds = {{"/a", "/proc/x", false}}; }) == "binds[0].target");
    CHECK(where([](cage_spec& s) { s.binds = {{"/a", "/b", false}, {"a", "/b", false}}; }) ==
          "binds[1].source");
    CHECK(where([](cage_spec& s) { s.search_domains = {"lan"}; }) ==
          "search_domains"); // sealed resolves no local names
    CHECK(where([](cage_spec& s) {
              s.mode = cage_mode::caged;
              s.search_domains = {"lan"};
          }).empty());
    CHECK(where([](cage_spec& s) {
              s.mode = cage_mode::caged;
              s.search_domains = {"lan\nnameserver 10.0.0.1"};
          }) == "search_domains");
}

TEST_CASE("every step can be read by a person") {
    for (const step& each : plan(example(), everything, inputs)) CHECK(describe(each).size() > 4);
    CHECK(describe(map_ids{.base = 1000}) == "map ids 0-65535 to 1000-66535");
    CHECK(describe(bind_path{"/a", "/b", false}) == "bind /a at /b (ro, nosuid, nodev)");
}

} // namespace
} // namespace pinfold
