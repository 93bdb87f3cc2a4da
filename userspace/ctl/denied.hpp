// What a denial is called on the command line, and the word about denials at the end of a run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace pinfold::ctl {

// "tcp 192.168.1.1:80", "ping 10.0.0.1", "family 2 type 3 protocol 1": without control characters.
[[nodiscard]] std::string target_of(const nlohmann::json& denial);

// Whether standard error is the place for it: a terminal, or the program failed. What a program that succeeded wrote to a
// pipe or a file is for whoever reads it, and stays as it was.
[[nodiscard]] bool may_tell_denials(const nlohmann::json& end);
void tell_denials(const nlohmann::json& end, const std::string& name);

} // namespace pinfold::ctl
