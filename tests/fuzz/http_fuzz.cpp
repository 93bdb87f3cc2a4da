// A request as it comes over the API's socket, whole and cut anywhere: both ways of receiving it must agree.
#include "agent/api/http.hpp"
#include "demand.hpp"

#include <cstdint>
#include <tuple>

namespace {

using reader = pinfold::http::request_reader;

reader::state put_in_parts(reader& to, std::string_view bytes, std::size_t part) {
    auto state = reader::state::header;
    while (!bytes.empty() && state != reader::state::done && state != reader::state::bad) {
        // What the parser did not take comes again, with more behind it: so does the server.
        std::size_t taken = 0;
        state = to.put(bytes.substr(0, part), taken);
        pinfold::fuzz::demand(taken <= part);
        bytes.remove_prefix(taken);
        part = taken == 0 ? part + 1 : part;
        if (taken == 0 && part > bytes.size()) break;
    }
    return state;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pinfold;
    if (size < 2) return 0;
    const std::string_view bytes = fuzz::text_of(data + 1, size - 1);
    reader whole;
    std::size_t taken = 0;
    const auto state = whole.put(bytes, taken);
    fuzz::demand(taken <= bytes.size());
    reader cut;
    const auto cut_state = put_in_parts(cut, bytes, std::size_t{1} + data[0] % 64);
    fuzz::demand((state == reader::state::done) == (cut_state == reader::state::done));
    if (state == reader::state::bad) fuzz::demand(whole.refusal().status >= 400);
    if (state != reader::state::done) return 0;
    const http::request request = whole.take(), same = cut.take();
    fuzz::demand(request.method == same.method && request.path == same.path && request.query == same.query);
    fuzz::demand(request.fields == same.fields && request.body == same.body);
    fuzz::demand(request.body.size() <= http::largest_body);
    std::ignore = request.upgrade();
    return 0;
}
