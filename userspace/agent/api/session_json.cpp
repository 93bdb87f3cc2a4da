// What the API shows of a session.
#include "agent/api/session_routes.hpp"
#include "agent/sessions/place.hpp"
#include "agent/sessions/shared_folder.hpp"

#include <ctime>
#include <nlohmann/json.hpp>

namespace pinfold {

using nlohmann::json;

namespace {

json cage_of(const session& one, const cage_options& cage, const session_world::settings& with) {
    json shown{{"image", cage.image.empty() ? with.image : cage.image}};
    if (cage.nix) shown["nix"] = true;
    if (cage.github) shown["github"] = true;
    if (cage.sealed) shown["sealed"] = true;
    if (cage.read_only_git) shown["read_only_git"] = true;
    if (cage.shared) shown["shared"] = shared_folder_name(one.settings().meshes);
    if (!one.options().outbox.empty()) shown["outbox"] = one.options().outbox;
    if (!one.options().memory.empty()) shown["memory"] = one.options().memory;
    if (!one.options().cpus.empty()) shown["cpus"] = one.options().cpus;
    return shown;
}

json prompts_of(const session& one) {
    json list = json::array();
    for (const auto& [id, each] : one.pending()) {
        json input = json::parse(each.input, nullptr, false);
        if (input.is_discarded()) input = nullptr;
        list.push_back(
            {{"id", id}, {"tool", each.is_question ? "AskUserQuestion" : each.tool}, {"input", input}});
    }
    return list;
}

} // namespace

json to_json(const session& one, const session_world::settings& with) {
    const session_row& row = one.row();
    const session_settings& set = one.settings();
    const harness::capabilities can = one.kind().can();
    json shown{{"name", row.name},
               {"dir", row.directory},
               {"mode", row.mode},
               {"state", to_string(one.state())},
               {"pending", one.pending().size()},
               {"running", one.runs()},
               {"last_seq", row.last_seq},
               {"last_time", row.last_time},
               {"auto_approve", set.auto_approve},
               {"harness", row.harness},
               {"caps", {{"approve", can.approve}, {"takeover", can.takeover}}},
               {"accept_caged", set.accept_caged.value_or(one.options().cage.has_value())},
               {"turns", row.turns}};
    const auto put = [&](const char* key, const auto& value, bool is_set) {
        if (is_set) shown[key] = value;
    };
    put("context_used", row.context_used, row.context_used > 0);
    put("context_window", row.context_window, row.context_window > 0);
    put("preview", row.preview, !row.preview.empty());
    put("model", row.model, !row.model.empty());
    put("starred", true, set.starred);
    put("keep_running", true, set.keep_running);
    put("accept_files_from", set.accept_files_from, !set.accept_files_from.empty());
    put("accept_caged_from", set.accept_caged_from, !set.accept_caged_from.empty());
    put("meshes", set.meshes, !set.meshes.empty());
    put("prompts", prompts_of(one), !one.pending().empty());
    put("error", one.trouble(), !one.trouble().empty());
    if (one.model().provider.fails())
        shown["provider"] = json::parse(one.model().provider.text(), nullptr, false);
    if (one.model().limited.holds(std::time(nullptr))) {
        shown["limited"] = {{"reason", one.model().limited.reason}};
        if (!one.model().limited.until.empty()) shown["limited"]["until"] = one.model().limited.until;
    }
    if (row.requests > 0)
        shown["usage"] = {
            {"requests", row.requests}, {"tokens_in", row.tokens_in}, {"tokens_out", row.tokens_out}};
    if (const auto& cage = one.options().cage) shown["cage"] = cage_of(one, *cage, with);
    return shown;
}

} // namespace pinfold
