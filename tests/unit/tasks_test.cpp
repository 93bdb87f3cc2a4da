// The pure parts of tasks: who asks, what is a request, what is said and when.
#include "agent/sessions/shared_folder.hpp"
#include "agent/tasks/a2a.hpp"
#include "agent/tasks/asker.hpp"
#include "agent/tasks/dropped_files.hpp"
#include "agent/tasks/task_text.hpp"
#include "support/catch.hpp"

namespace pinfold {

namespace {

const std::vector<machine> machines{{"laptop", "fd12::1"}, {"pi5", "fd12:0::7"}, {"old", "198.19.0.4"}};

std::string name_of(const std::string& address, const std::string& caged = "",
                    const std::string& claim = "") {
    const asker who = who_asks({.address = address, .caged = caged, .claim = claim}, machines);
    return who.name() + "|" + who.shown() + "|" + who.address;
}

int code_of(const std::string& body, const std::string& session = "s") {
    const auto read = read_rpc(body, session);
    return read ? 0 : read.error().code;
}

} // namespace

TEST_CASE("who asks is known by address and by its agent's word, and a claim names its session only") {
    CHECK(name_of("") == "||");
    CHECK(name_of("", "", "laptop/w1") == "laptop/w1||");
    CHECK(name_of("127.0.0.1", "w1") == "laptop/w1|this machine (laptop/w1, in a cage)|");
    CHECK(name_of("fd12::1", "", "x/y") == "laptop/y||");
    CHECK(name_of("fd12::7", "", "laptop/w1") == "pi5/w1|pi5 (pi5/w1)|fd12::7"); // it is not the laptop
    CHECK(name_of("fd12::7", "rev", "laptop/w1") == "pi5/rev|pi5 (pi5/rev, in a cage)|fd12::7");
    CHECK(name_of("198.19.0.4") == "|old|198.19.0.4");
    CHECK(name_of("fd99::9", "", "laptop/w1") == "fd99::9/w1|fd99::9 (fd99::9/w1)|fd99::9"); // nobody known
    CHECK(name_of("fd12::7", "a, b") == "|pi5 (?, in a cage)|fd12::7"); // two headers are no name
    CHECK(name_of("fd12::7", "../x") == "|pi5 (?, in a cage)|fd12::7");
}

TEST_CASE("who looks is known by the meshes its address is on, and this machine sees everything") {
    const std::vector<pinfold::mesh> meshes{
        {.label = "home", .own = "fd12::1", .peers = {{"pi5", "fd12:0::7"}}},
        {.label = "work", .own = "fd13::1", .peers = {{"pi5", "fd13::7"}, {"desk", "198.19.0.4"}}}};
    session_settings all, home;
    home.meshes = {"home"};
    const auto sees = [&](const char* address) { return who_looks(address, meshes).sees(home); };
    for (const char* own : {"", "::1", "127.0.0.1", "::ffff:127.0.0.1", "fd12::1", "fd13::1"})
        CHECK(sees(own));
    CHECK(sees("fd12::7"));
    for (const char* other : {"fd13::7", "198.19.0.4", "::ffff:198.19.0.4", "fd99::9", "unknown"}) {
        CHECK_FALSE(sees(other));
        CHECK(who_looks(other, meshes).sees(all));
    }
    CHECK_FALSE(who_looks("fd12::7", {}).sees(home)); // the meshes are not known: nobody is on one
}

TEST_CASE("each set of meshes has a shared folder of its own") {
    using list = std::vector<std::string>;
    CHECK(shared_folder_name(list{}) == "shrooms-shared");
    const std::string home = shared_folder_name(list{"home"}),
                      both = shared_folder_name(list{"home", "work"});
    CHECK(home.starts_with("shrooms-shared-home-"));
    CHECK(both.starts_with("shrooms-shared-home-work-"));
    CHECK(shared_folder_name(list{"work", "home", "work"}) == both);
    CHECK(shared_folder_name(list{"home-work"}) != both); // the same letters, another set
    const std::string odd = shared_folder_name(list{"../../etc", std::string(300, 'x')});
    CHECK(odd.find('/') == std::string::npos);
    CHECK(odd.size() < 100);
}

TEST_CASE("a cage's tasks are taken by default in a cage, else by name, and an unnamed one never by name") {
    const asker w1 = who_asks({.caged = "w1"}, machines),
                other = who_asks({.address = "fd12::7", .caged = "w1"}, machines),
                nameless = who_asks({.address = "fd12::7", .caged = "?"}, machines),
                uncaged = who_asks({.address = "fd99::9"}, machines);
    session_settings set;
    CHECK(takes_from(set, true, w1));
    CHECK_FALSE(takes_from(set, false, w1));
    CHECK(takes_from(set, false, uncaged));
    set.accept_caged = false;
    CHECK_FALSE(takes_from(set, true, w1));
    set.accept_caged_from = {"laptop/w1"};
    CHECK(takes_from(set, true, w1));
    CHECK_FALSE(takes_from(set, true, other));
    set.accept_caged_from = {"pi5/*"};
    CHECK(takes_from(set, false, other));
    CHECK_FALSE(takes_from(set, false, nameless));
    CHECK_FALSE(takes_from(set, false, w1));
    set.accept_caged = true;
    CHECK(takes_from(set, false, nameless));
}

TEST_CASE("a request is read whole or refused with its code; duplicate keys and depth are no JSON") {
    const std::string ask =
        R"({"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"messageId":"m",)"
        R"("parts":[{"text":"a"},{"text":" "},{"text":"b"}],"metadata":{"shrooms/title":"x\ny"}}}})";
    const auto read = read_rpc(ask, "");
    REQUIRE(read);
    CHECK(read->id == "7");
    CHECK(read->text == "a\n\nb");
    CHECK(read->title == "x y");
    CHECK(read->session.empty());
    CHECK_FALSE(read->blocking);
    CHECK(code_of(R"({"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"GetTask"})") == -32700);
    CHECK(code_of(std::string(100, '[')) == -32700);
    CHECK(code_of("[]") == -32600);
    CHECK(code_of(R"({"jsonrpc":"2.0","id":{},"method":"GetTask"})") == -32600);
    CHECK(code_of(R"({"jsonrpc":"2.0","id":1,"method":7})") == -32601);
    CHECK(code_of(R"({"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]})") == -32602);
    CHECK(code_of(R"({"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":7}})") == -32602);
    const auto get = read_rpc(R"({"jsonrpc":"2.0","id":"a\"b","method":"GetTask","params":{"id":"rev:m"}})",
                              "");
    REQUIRE(get);
    CHECK(get->session == "rev");
    CHECK(rpc_reply(get->id, "{}") == R"({"jsonrpc":"2.0","id":"a\"b","result":{}})");
    const auto by_path = read_rpc(R"({"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"m"}})",
                                  "rev");
    REQUIRE(by_path);
    CHECK(by_path->session == "rev");
    for (const char* wrong : {"", "a/b", "a b", "a%2f", "a\n"}) CHECK_FALSE(is_message_id(wrong));
    CHECK_FALSE(is_message_id(std::string(129, 'a')));
    CHECK(is_message_id("cli-0f:1.2_~@+="));
}

TEST_CASE("reminders come after five minutes, of pi after two, then on the ladder") {
    CHECK(quiet_before(0, "claude") == 5 * minute_ms);
    CHECK(quiet_before(0, "pi") == 2 * minute_ms);
    for (const auto& [nudges, minutes] : {std::pair{1, 1}, std::pair{2, 2}, std::pair{3, 5}, std::pair{4, 10},
                                          std::pair{5, 30}, std::pair{9, 30}})
        CHECK(quiet_before(nudges, "claude") == minutes * minute_ms);
    CHECK(reported_state("done") == task_state::completed);
    CHECK(reported_state("input-required") == task_state::input_required);
    CHECK_FALSE(reported_state("working"));
    CHECK(parse_time(time_text(1'700'000'000'000)) == 1'700'000'000'000);
    CHECK(parse_time("yesterday") == 0);
}

TEST_CASE("each state has one word and one wire name, and an unknown word is held") {
    for (int i = 0; i <= static_cast<int>(task_state::rejected); ++i)
        CHECK(state_of(word_of(static_cast<task_state>(i))) == static_cast<task_state>(i));
    CHECK(state_of("anything") == task_state::held);
    CHECK(std::string(wire_of(task_state::held)) == "TASK_STATE_SUBMITTED");
    CHECK(task_row{}.state == task_state::held);
}

TEST_CASE("names of files and folders stay in one folder, and no two senders share one") {
    CHECK(plain_file_name("../../etc/passwd") == "passwd");
    CHECK(plain_file_name(".bashrc") == "bashrc");
    CHECK(plain_file_name("a b\n.txt") == "a_b_.txt");
    CHECK(plain_file_name("...") == "file");
    CHECK(sender_folder("laptop/w1") == "from-laptop_w1");
    CHECK(sender_folder("a_b/c") != sender_folder("a/b_c"));
    for (const char* each : {"laptop/w1", "a_b/c", "a/b_c", "fd12::7/x", "=5F/_"})
        CHECK(folder_sender(sender_folder(each)) == each);
    CHECK(folder_sender("elsewhere_x").empty());
}

} // namespace pinfold
