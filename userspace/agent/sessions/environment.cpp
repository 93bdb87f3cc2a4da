#include "agent/sessions/place.hpp"

#include <algorithm>
#include <array>

namespace pinfold {

namespace {

// Nothing else passes, whatever its name: docs/decisions/024-cage-environment.md.
constexpr std::array passed{"TZ",        "LANG",       "LANGUAGE",    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
                            "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy",   "all_proxy"};
constexpr std::array claude_settings{"ANTHROPIC_MODEL",
                                     "ANTHROPIC_SMALL_FAST_MODEL",
                                     "ANTHROPIC_DEFAULT_OPUS_MODEL",
                                     "ANTHROPIC_DEFAULT_SONNET_MODEL",
                                     "ANTHROPIC_DEFAULT_HAIKU_MODEL",
                                     "CLAUDE_CODE_SUBAGENT_MODEL",
                                     "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
                                     "CLAUDE_CODE_MAX_RETRIES",
                                     "API_TIMEOUT_MS",
                                     "MAX_THINKING_TOKENS",
                                     "MAX_MCP_OUTPUT_TOKENS",
                                     "BASH_DEFAULT_TIMEOUT_MS",
                                     "BASH_MAX_TIMEOUT_MS",
                                     "DISABLE_TELEMETRY",
                                     "DISABLE_ERROR_REPORTING",
                                     "DISABLE_AUTOUPDATER",
                                     "CLAUDE_CODE_ENABLE_TELEMETRY",
                                     "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"};

bool may_pass(const std::string& name, const std::string& harness) {
    if (name.starts_with("LC_") || std::ranges::find(passed, name) != passed.end()) return true;
    return harness == "claude" && std::ranges::find(claude_settings, name) != claude_settings.end();
}

constexpr const char* dummy_key = "pinfold-gateway";

} // namespace

std::map<std::string, std::string> make_session_environment(const session_world::settings& with,
                                                            const placed_session& what) {
    const run_mode mode = mode_of(what.options);
    std::map<std::string, std::string> variables;
    if (mode == run_mode::uncaged) {
        variables = with.environment;
        variables["SHROOMS_AGENT_SESSION"] = what.row.name;
        return variables;
    }
    if (mode == run_mode::caged) {
        for (const auto& [name, value] : with.environment) {
            if (may_pass(name, what.row.harness) && value.find('\n') == std::string::npos)
                variables[name] = value;
        }
    } else {
        variables["LANG"] = "C.UTF-8";
        variables["SHROOMS_OUTBOX"] = "/outbox";
    }
    const std::string home = mode == run_mode::sealed ? "/root" : with.home.native();
    variables["HOME"] = home;
    variables["IS_SANDBOX"] = "1";
    variables["SHROOMS_AGENT_SESSION"] = what.row.name;
    variables["SHROOMS_AGENT_PROXY"] = "/run/shrooms-agent/proxy.sock";
    if (what.row.harness == "claude") variables["CLAUDE_CONFIG_DIR"] = home + "/.claude";
    if (what.row.harness == "claude" && !with.model_url.empty()) {
        variables["ANTHROPIC_BASE_URL"] = with.model_url;
        variables["ANTHROPIC_AUTH_TOKEN"] = dummy_key;
        // The gateway is reached as it is, whatever proxy the rest goes through.
        std::string& direct = variables["NO_PROXY"];
        direct += (direct.empty() ? "" : ",") + std::string("192.0.0.1");
        variables["no_proxy"] = direct;
    }
    if (what.options.cage && what.options.cage->nix)
        variables["PATH"] = home + "/.local/state/nix/profiles/profile/bin:/nix/var/nix/profiles/default/bin:"
                                   "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    if (what.options.cage && what.options.cage->nix && std::filesystem::exists("/nix/var/nix/daemon-socket"))
        variables["NIX_REMOTE"] = "daemon";
    if (what.options.cage && what.options.cage->shared) variables["SHROOMS_SHARED"] = "/shared";
    return variables;
}

} // namespace pinfold
