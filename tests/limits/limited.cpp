#include "limits/limited.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <unistd.h>

namespace pinfold::test {

namespace {

std::vector<std::string> python(std::string script) {
    return {"/usr/bin/python3", "-c", std::move(script)};
}

} // namespace

void need_controllers() {
    if (::geteuid() != 0) SKIP("root, to build cages");
    const auto mount = find_cgroup2(read_file("/proc/self/mountinfo"));
    if (!mount) SKIP("cgroup v2");
    const std::string offered = " " + read_file(*mount / "cgroup.controllers");
    for (const char* each : {"memory", "cpu", "pids"}) {
        if (offered.find(fmt::format(" {}", each)) == std::string::npos)
            SKIP(fmt::format("the controller {} on cgroup v2: run 'sudo tools/vm -L limits'", each));
    }
}

cage_machine& limited_machine() {
    need_controllers();
    cage_machine& machine = cage_machine::here();
    for (const char* each : {"memory", "cpu", "pids"}) REQUIRE(machine.tools().cgroups.has(each));
    return machine;
}

cage_kind without_limit(const cage_kind& kind, const std::string& file) {
    return kind.changed([file](std::vector<step>& steps) {
        std::erase_if(steps, [&file](const step& each) {
            const auto* limit = std::get_if<set_limit>(&each);
            return limit != nullptr && limit->file == file;
        });
    });
}

std::vector<std::string> memory_hog(std::uint64_t bytes) {
    return python(fmt::format(
        "b = bytearray({})\nfor i in range(0, len(b), 4096): b[i] = 1\nprint('held', flush=True)", bytes));
}

std::vector<std::string> forker(int children) {
    return python(fmt::format(R"(
import os, time
made = []
for i in range({}):
    try:
        child = os.fork()
    except OSError:
        break
    if child == 0:
        time.sleep(600)
        os._exit(0)
    made.append(child)
print(len(made), flush=True)
for child in made:
    os.kill(child, 9)
)",
                              children));
}

std::vector<std::string> fork_bomb() {
    return python(R"(
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
)");
}

std::vector<std::string> cpu_hog() {
    return python("import os\nos.fork()\nwhile True: pass");
}

} // namespace pinfold::test
