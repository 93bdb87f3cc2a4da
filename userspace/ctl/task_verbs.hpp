// The verbs of what other agents ask of sessions: tasks and files.
#pragma once

#include "ctl/verbs.hpp"

namespace pinfold::ctl {

int tasks_verb(common_options& options, const words& arguments);
int files_verb(common_options& options, const words& arguments);

} // namespace pinfold::ctl
