// The verbs for what a session leaves: the outbox of a sealed one, and the report on its project.
#pragma once

#include "ctl/verbs.hpp"

namespace pinfold::ctl {

int outbox_verb(common_options& options, const words& arguments);
int report_verb(common_options& options, const words& arguments);

} // namespace pinfold::ctl
