// docs/openapi.json and the running server are one: each path answers as it says, and the server has no other session path.
#include "session_fixture.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

using namespace pinfold;
using namespace pinfold::test;

namespace {

json document() {
    std::ifstream from(PINFOLD_SOURCE_DIR "/docs/openapi.json");
    return json::parse(from, nullptr, false);
}

// What is wrong with `value`, as far as the schemas in the document go; empty = nothing.
std::string wrong_in(const json& all, const json& schema, const json& value, const std::string& where) {
    if (schema.contains("$ref")) {
        const std::string name = schema["$ref"];
        return wrong_in(all, all.at(json::json_pointer(name.substr(1))), value, where);
    }
    const std::string type = schema.value("type", "");
    const bool right = type.empty() || (type == "object" && value.is_object()) ||
                       (type == "array" && value.is_array()) || (type == "string" && value.is_string()) ||
                       (type == "boolean" && value.is_boolean()) ||
                       (type == "integer" && value.is_number_integer()) ||
                       (type == "number" && value.is_number());
    if (!right) return where + " is no " + type + ": " + value.dump().substr(0, 80);
    if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end())
        return where + " is none of " + schema["enum"].dump();
    for (const json& key : schema.value("required", json::array())) {
        if (!value.contains(key)) return where + " lacks " + key.get<std::string>();
    }
    if (value.is_object() && schema.contains("properties")) {
        for (const auto& [key, each] : value.items()) {
            if (!schema["properties"].contains(key))
                return where + " has '" + key + "', which is not described";
            std::string wrong = wrong_in(all, schema["properties"][key], each, where + "." + key);
            if (!wrong.empty()) return wrong;
        }
    }
    if (value.is_array() && schema.contains("items")) {
        for (const json& each : value) {
            std::string wrong = wrong_in(all, schema["items"], each, where + "[]");
            if (!wrong.empty()) return wrong;
        }
    }
    return "";
}

std::string on(const std::string& path) {
    std::string real = path;
    for (const auto& [mark, value] : {std::pair{"{name}", "heron"}, std::pair{"{id}", "none"}}) {
        if (const std::size_t at = real.find(mark); at != std::string::npos)
            real.replace(at, std::string_view(mark).size(), value);
    }
    return real;
}

} // namespace

TEST_CASE("every answer is one that the document describes") {
    const json all = document();
    REQUIRE(all.is_object());
    session_fixture with;
    REQUIRE(with.create({{"harness", "command"}, {"command", {"cat"}}}).status == 201);
    event_reader events = with.events();
    REQUIRE(with.send("hello").status == 202);
    REQUIRE(!events.wait_for("stopped").is_null());

    // A request for each operation, in the document's own words; deleting comes last, since the others need a session.
    std::vector<std::tuple<std::string, std::string, json>> operations;
    for (const auto& [path, methods] : all["paths"].items()) {
        for (const auto& [method, operation] : methods.items()) {
            if (method != "delete") operations.emplace_back(method, path, operation);
        }
    }
    operations.emplace_back("delete", "/v1/sessions/{name}", all["paths"]["/v1/sessions/{name}"]["delete"]);
    CHECK(operations.size() > 20);
    for (const auto& [method, path, operation] : operations) {
        if (path == "/v1/sessions/{name}/events" || path == "/v1/sessions/{name}/rename") continue; // below
        std::string upper = method;
        for (char& c : upper) c = static_cast<char>(std::toupper(c));
        const std::string query = operation.value("x-example-query", "");
        const bool is_file = path.ends_with("/files") || path.ends_with("/drop");
        const std::string body = is_file ? "bytes" : operation.value("x-example-body", json::object()).dump();
        const answered got = parse_answer(with.agent.raw(
            fmt::format(
                "{} {}{} HTTP/1.1\r\nConnection: close\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}",
                upper, on(path), query, is_file ? "image/png" : "application/json",
                upper == "GET" ? 0 : body.size(), upper == "GET" ? "" : body),
            std::chrono::seconds(30)));
        INFO(upper << " " << on(path) << query << ": " << got.text.substr(0, 600));
        const std::string status = std::to_string(got.status);
        REQUIRE(operation["responses"].contains(status));
        CHECK(status == operation.value("x-example-status", "200"));
        const json& described = operation["responses"][status];
        if (!described.contains("content")) {
            CHECK(got.text.find("\r\n\r\n") + 4 == got.text.size());
            continue;
        }
        CHECK(wrong_in(all, described["content"]["application/json"]["schema"], got.body, "answer") == "");
    }
}

TEST_CASE("the document has each route of sessions, and each error is {\"error\"}") {
    const json all = document();
    REQUIRE(all.is_object());
    std::ifstream source(PINFOLD_SOURCE_DIR "/userspace/agent/api/session_routes.cpp");
    std::size_t routes = 0;
    for (std::string line; std::getline(source, line);) {
        const std::size_t begin = line.find("    route{\"");
        if (begin == std::string::npos) continue;
        std::array<std::string, 2> words;
        std::size_t at = begin;
        for (std::string& each : words) {
            const std::size_t open = line.find('"', at), close = line.find('"', open + 1);
            each = line.substr(open + 1, close - open - 1);
            at = close + 1;
        }
        for (char& c : words[0]) c = static_cast<char>(std::tolower(c));
        INFO(words[0] << " " << words[1]);
        CHECK(all["paths"].contains(words[1]));
        CHECK(all["paths"].value(words[1], json::object()).contains(words[0]));
        ++routes;
    }
    CHECK(routes > 20);
    session_fixture with;
    for (const auto& [path, methods] : all["paths"].items()) {
        if (path.find("{name}") == std::string::npos || !methods.contains("post")) continue;
        if (path.starts_with("/a2a")) continue; // JSON-RPC: always 200, with an error inside
        if (path.starts_with("/a2a")) continue; // JSON-RPC says it in a 200
        const answered missing = with.post(on(path), methods["post"].value("x-example-body", json::object()));
        INFO(path << ": " << missing.text);
        if (missing.status == 415 || missing.status == 501)
            continue; // files want another type; voice is not there
        CHECK(missing.status == 404);
        CHECK(wrong_in(all, {{"$ref", "#/components/schemas/Error"}}, missing.body, "answer") == "");
    }
}
