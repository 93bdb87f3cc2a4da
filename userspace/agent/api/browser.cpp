#include "agent/api/browser.hpp"

#include "agent/api/answers.hpp"

#include <algorithm>

namespace pinfold {

namespace {

bool is_own_host(std::string_view host) {
    return host.empty() || host == "localhost" ||
           host == "pinfold"; // a socket has no host; curl wants one to be named
}

} // namespace

std::optional<http::response> refuse_browser(const http::request& request) {
    // A name that was rebound to a proxy of this socket comes with that name.
    if (!is_own_host(request.field("host")))
        return answer_error(403, "Host must be 'localhost' or 'pinfold'");
    // Every page's own request with effects carries an Origin, also "null"; a tool's has none.
    if (request.fields.contains("origin"))
        return answer_error(403, "requests from web pages are refused (Origin)");
    const std::string_view site = request.field("sec-fetch-site");
    if (!site.empty() && site != "none")
        return answer_error(403, "requests from web pages are refused (Sec-Fetch-Site)");
    // What a form or a simple request can send is text/plain or a form type: no page sends JSON without being asked first.
    if (request.method == "POST") {
        std::string_view type = request.field("content-type");
        type = type.substr(0, type.find(';'));
        while (type.ends_with(' ')) type.remove_suffix(1);
        if (type != "application/json") return answer_error(415, "POST needs Content-Type: application/json");
    }
    return std::nullopt;
}

} // namespace pinfold
