// The JSON of a cage's request as it goes on: judged and written anew in one pass, with one member that is its agent's.
#pragma once

#include <expected>
#include <span>
#include <string>
#include <string_view>

namespace pinfold {

struct json_member {
    std::span<const std::string_view>
        path; // the keys from the root to its object; the last one is made if need be
    std::string_view key;
    std::string_view value;
};

struct rewritten_json {
    std::string text;
    std::string method;  // the text at the root's "method"; empty where there is none
    bool placed = false; // false: what should hold the member is missing or no object
};

// The sender's own member of that name is left out, whatever its value. Numbers and the order of keys stay as they came.
// Or what is wrong with the text: no JSON object in UTF-8, a key twice in one object (json_shape.hpp says why), too deep,
// or too many values.
[[nodiscard]] std::expected<rewritten_json, std::string> rewrite_json(std::string text,
                                                                      const json_member& ours);

} // namespace pinfold
