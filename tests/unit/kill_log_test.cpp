#include "keeper/kill_log.hpp"
#include "support/catch.hpp"

namespace pinfold {
namespace {

std::string record(const std::string& name, const std::string& constraint = "CONSTRAINT_MEMCG") {
    return "6,812,5731220,-;oom-kill:constraint=" + constraint +
           ",nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/pinfold/00000000000000a7,"
           "task_memcg=/pinfold/00000000000000a7,task=" +
           name + ",pid=4242,uid=1879048192\n";
}

TEST_CASE("the kernel's log tells which process of which cage was killed at its memory limit") {
    CHECK(parse_kill(record("python3")) == memory_victim{"00000000000000a7", "python3"});
}

TEST_CASE("whoever names a process cannot make it look like another cage's or break the line") {
    CHECK(parse_kill(record("x,pid=1,uid=0")) == memory_victim{"00000000000000a7", "x,pid=1,uid=0"});
    CHECK(parse_kill(record(",oom_memcg=/b,")) == memory_victim{"00000000000000a7", ",oom_memcg=/b,"});
    CHECK(parse_kill(record("")) == memory_victim{"00000000000000a7", ""});
}

TEST_CASE("what is not a kill at a cage's limit is not taken for one") {
    CHECK(parse_kill(record("python3", "CONSTRAINT_NONE")) == std::nullopt); // the machine's memory
    CHECK(parse_kill("6,1,1,-;Memory cgroup out of memory: Killed process 7 (python3)\n") == std::nullopt);
    CHECK(parse_kill("6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)") == std::nullopt);
    CHECK(parse_kill("6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,x,oom_memcg=/user.slice,"
                     "task_memcg=/user.slice,task=cc1,pid=1,uid=0") == std::nullopt);
    CHECK(parse_kill("") == std::nullopt);
}

} // namespace
} // namespace pinfold
