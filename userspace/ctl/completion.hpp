// What a shell completes behind "pinfold": verbs, options, and names of what runs.
#pragma once

#include "ctl/verbs.hpp"

namespace pinfold::ctl {

struct completed_verb {
    std::string name;
    int (*act)(common_options&, const words&) = nullptr;
};

// `pinfold completion bash|zsh`: the script for that shell, which asks `pinfold complete`.
int completion_verb(common_options& options, const words& arguments);

// The words that can stand where the last of these stands; no agent is started for it.
[[nodiscard]] words complete(const std::vector<completed_verb>& verbs, const words& typed);

} // namespace pinfold::ctl
