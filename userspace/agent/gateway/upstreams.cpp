#include "agent/gateway/upstreams.hpp"

#include "base/file.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

namespace pinfold {

namespace {

using nlohmann::json;

constexpr std::string_view provider_prefix = "/provider/";

// A secret that others of the machine could read is none: it is not used until that is mended.
std::string read_secret(const std::filesystem::path& file) {
    struct stat seen{};
    if (file.empty() || ::stat(file.c_str(), &seen) != 0) return {};
    if ((seen.st_mode & 077U) != 0)
        throw model_refusal(401, fmt::format("the credential in {} can be read by others, so it is not used: "
                                             "chmod 600 it on the machine",
                                             file.native()));
    std::string secret = read_file(file);
    const std::size_t begin = secret.find_first_not_of(" \t\r\n"), end = secret.find_last_not_of(" \t\r\n");
    secret = begin == std::string::npos ? "" : secret.substr(begin, end - begin + 1);
    if (secret.find_first_of("\r\n\0", 0, 3) != std::string::npos)
        throw model_refusal(401, fmt::format("the credential in {} is not one line", file.native()));
    return secret;
}

// A token of `claude setup-token` goes as a bearer and names the beta that it belongs to; a key has a field of its own.
void put_anthropic(upstream_request& into, const std::string& secret) {
    if (secret.starts_with("sk-ant-oat")) {
        into.credential.emplace_back("Authorization", "Bearer " + secret);
        into.beta = "oauth-2025-04-20";
    } else {
        into.credential.emplace_back("x-api-key", secret);
    }
}

// What a harness needs of Anthropic's API. The credential could do more (files, batches, the account): a cage's cannot.
void check_anthropic(std::string_view target) {
    constexpr std::array known{"/", "/v1/messages", "/v1/messages/count_tokens", "/v1/models"};
    const std::string_view path = target.substr(0, target.find('?'));
    if (std::ranges::find(known, path) == known.end() && !path.starts_with("/v1/models/"))
        throw model_refusal(
            403, fmt::format("a cage may use the model's messages, token counts and models, not {}", path));
}

// Without "..", so that nothing but the configured place below the upstream is reached.
void check_target(std::string_view target) {
    const std::string_view path = target.substr(0, target.find('?'));
    const bool plain = std::ranges::all_of(
        target, [](char c) { return c > ' ' && c < 127 && c != '\\' && c != '#'; });
    if (!target.starts_with('/') || !plain || path.find("/..") != std::string_view::npos ||
        lowered(path).find("%2e") != std::string::npos || lowered(path).find("%2f") != std::string::npos ||
        path.find("//") != std::string_view::npos)
        throw model_refusal(400, "this is no path of a model provider");
}

std::string without_slash(std::string url) {
    while (url.ends_with('/')) url.pop_back();
    return url;
}

upstream_request anthropic(const upstream_settings& with, const model_asker& who, std::string_view target) {
    check_anthropic(target);
    upstream_request made{.url = without_slash(with.anthropic) + std::string(target)};
    const std::filesystem::path& file = who.sealed ? with.sealed_token : with.key;
    const std::string secret = read_secret(file);
    if (secret.empty())
        throw model_refusal(
            401, who.sealed ? fmt::format("this machine has no token for sealed sessions: save one in {}",
                                          file.native())
                            : std::string("this machine's agent has no credential for the model: start "
                                          "it with --model-key FILE"));
    if (!made.url.starts_with("https://"))
        throw model_refusal(502, "the model's address is not https, so no credential is sent there");
    put_anthropic(made, secret);
    return made;
}

// As pi reads its own list: a key as it stands, or the name of a variable of the agent's.
std::string pi_key(const upstream_settings& with, const json& provider, const std::string& name) {
    const json key = provider.value("apiKey", json());
    if (!key.is_string()) return {};
    std::string text = key.get<std::string>();
    if (text.starts_with('!'))
        throw model_refusal(
            401, fmt::format("the key of provider {} is a command, which is not run for a cage", name));
    const auto variable = with.environment.find(text);
    return variable != with.environment.end() ? variable->second : text;
}

upstream_request pi_provider(const upstream_settings& with, std::string_view target) {
    target.remove_prefix(provider_prefix.size());
    const std::size_t slash = target.find('/');
    const std::string name(target.substr(0, slash));
    struct stat seen{};
    json list;
    if (!with.pi_models.empty() && ::stat(with.pi_models.c_str(), &seen) == 0 && seen.st_size < 1 << 20)
        list = json::parse(read_file(with.pi_models), nullptr, false);
    const json providers = list.is_object() ? list.value("providers", json::object()) : json::object();
    if (slash == std::string_view::npos || !providers.is_object() || !providers.contains(name) ||
        !providers[name].is_object() || !providers[name].value("baseUrl", json()).is_string())
        throw model_refusal(404, fmt::format("pi's models.json on the machine has no provider '{}'", name));
    const json& provider = providers[name];
    upstream_request made{.url = without_slash(provider["baseUrl"].get<std::string>()) +
                                 std::string(target.substr(slash))};
    const std::string key = pi_key(with, provider, name);
    if (key.empty() || !made.url.starts_with("https://"))
        return made; // a model of the machine's own: nothing to add
    if (provider.value("api", json()) == "anthropic-messages")
        put_anthropic(made, key);
    else
        made.credential.emplace_back("Authorization", "Bearer " + key);
    return made;
}

} // namespace

upstream_request find_upstream(const upstream_settings& with, const model_asker& who,
                               std::string_view target) {
    check_target(target);
    const bool is_provider = target.starts_with(provider_prefix);
    if (is_provider && (who.sealed || who.harness != "pi"))
        throw model_refusal(403, "this session may not use that provider");
    if (!is_provider && who.harness == "pi") throw model_refusal(403, "pi's models are below /provider/NAME");
    return is_provider ? pi_provider(with, target) : anthropic(with, who, target);
}

bool may_pass_on(std::string_view name) {
    constexpr std::array kept_out{"authorization",
                                  "x-api-key",
                                  "api-key",
                                  "x-goog-api-key",
                                  "cookie",
                                  "proxy-authorization",
                                  "proxy-connection",
                                  "connection",
                                  "keep-alive",
                                  "host",
                                  "upgrade",
                                  "te",
                                  "trailer",
                                  "expect",
                                  "transfer-encoding",
                                  "content-length",
                                  "forwarded",
                                  "accept-encoding",
                                  "via",
                                  "x-real-ip",
                                  "http2-settings",
                                  "anthropic-beta"};
    const std::string field = lowered(name);
    return std::ranges::find(kept_out, field) == kept_out.end() && !field.starts_with("x-forwarded-") &&
           !field.starts_with("sec-");
}

bool may_pass_back(std::string_view name) {
    constexpr std::array kept_out{"connection",
                                  "keep-alive",
                                  "transfer-encoding",
                                  "set-cookie",
                                  "alt-svc",
                                  "upgrade",
                                  "trailer",
                                  "content-length",
                                  "location",
                                  "proxy-authenticate",
                                  "te",
                                  "report-to",
                                  "nel",
                                  "strict-transport-security"};
    return std::ranges::find(kept_out, lowered(name)) == kept_out.end();
}

} // namespace pinfold
