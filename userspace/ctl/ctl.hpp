// pinfold: picks the verb and turns what went wrong into one line and an exit code.
#pragma once

#include <string>
#include <vector>

namespace pinfold::ctl {

// The exit code. `arguments` without the program's own name.
int main_of(const std::vector<std::string>& arguments);

} // namespace pinfold::ctl
