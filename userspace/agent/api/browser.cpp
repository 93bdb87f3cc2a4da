#include "agent/api/browser.hpp"

#include "agent/api/answers.hpp"
#include "agent/api/session_routes.hpp"

#include <algorithm>

namespace pinfold {

namespace {

bool is_own_host(std::string_view host) {
    return host.empty() || host == "localhost" ||
           host == "pinfold"; // a socket has no host; curl wants one to be named
}

// Without its port; the brackets of an IPv6 address belong to it.
std::string host_of(std::string_view field) {
    const std::size_t colon = field.rfind(':');
    if (colon != std::string_view::npos && field.find(']', colon) == std::string_view::npos &&
        (field.front() == '[' || field.find(':') == colon))
        field = field.substr(0, colon);
    std::string host(field);
    std::ranges::transform(host, host.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return host;
}

// What a page can send to anybody without being asked first: a form's types, plain text, and no type at all.
bool is_simple(std::string_view type) {
    return type.empty() || type == "text/plain" || type == "application/x-www-form-urlencoded" ||
           type == "multipart/form-data";
}

} // namespace

std::optional<http::response> refuse_browser(const http::request& request,
                                             const std::vector<std::string>* hosts) {
    // A name that was rebound to an address of this machine comes with that name: it was meant for another server.
    if (hosts != nullptr && std::ranges::find(*hosts, host_of(request.field("host"))) == hosts->end())
        return answer_error(
            421, "Host must be an address at which this agent listens, or a name from --host-name");
    if (hosts == nullptr && !is_own_host(request.field("host")))
        return answer_error(403, "Host must be 'localhost' or 'pinfold'");
    // Every page's own request with effects carries an Origin, also "null"; a tool's has none.
    if (request.fields.contains("origin"))
        return answer_error(403, "requests from web pages are refused (Origin)");
    const std::string_view site = request.field("sec-fetch-site");
    if (!site.empty() && site != "none")
        return answer_error(403, "requests from web pages are refused (Sec-Fetch-Site)");
    // What a form or a simple request can send is text/plain or a form type: no page sends JSON without being asked first.
    if (request.method == "POST" || request.method == "PATCH" || request.method == "PUT") {
        std::string_view type = request.field("content-type");
        type = type.substr(0, type.find(';'));
        while (type.ends_with(' ')) type.remove_suffix(1);
        if (is_upload(request)) {
            if (is_simple(type))
                return answer_error(415, "a file needs a Content-Type of its own, such as "
                                         "application/octet-stream");
        } else if (type != "application/json")
            return answer_error(415, request.method + " needs Content-Type: application/json");
    }
    return std::nullopt;
}

} // namespace pinfold
