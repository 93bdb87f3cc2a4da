// The routes of outboxes and reports; they stand in the table of session_routes.cpp.
#pragma once

#include "agent/api/services.hpp"

namespace pinfold {

task<std::optional<http::response>> list_outbox(services&, exchange&);
task<std::optional<http::response>> send_outbox(services&, exchange&);
task<std::optional<http::response>> show_report(services&, exchange&);

} // namespace pinfold
