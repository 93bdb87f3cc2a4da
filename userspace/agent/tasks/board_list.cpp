// The tasks of this machine's sessions as A2A's ListTasks shows them: those asked for, page by page.
#include "agent/tasks/task_board.hpp"

#include <nlohmann/json.hpp>

namespace pinfold {

using nlohmann::json;

json task_board::list(const rpc_request& what, const viewer& who) {
    json page = json::array();
    std::size_t total = 0;
    std::int64_t last = 0;
    bool is_whole = true;
    for (const task_row& each : kept_.all()) {
        if (!shows(each, who)) continue;
        task_view shown = view(each);
        if ((!what.session.empty() && shown.session != what.session) ||
            (!what.context.empty() && shown.context != what.context) ||
            (!what.state.empty() && wire_of(shown.state) != what.state))
            continue;
        ++total;
        if (what.page_after > 0 && each.number >= what.page_after) continue; // the newest come first
        if (what.page_size > 0 && page.size() == what.page_size) {
            is_whole = false;
            continue;
        }
        cut_history(shown, what.history);
        page.push_back(task_json(each, shown, true));
        last = each.number;
    }
    return {{"nextPageToken", is_whole ? std::string() : std::to_string(last)},
            {"pageSize", page.size()},
            {"totalSize", total},
            {"tasks", std::move(page)}};
}

} // namespace pinfold
