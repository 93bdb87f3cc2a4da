// What an agent may send to root: bytes that are no message, or a message that says the same when it is written again.
#include "demand.hpp"
#include "wire/codec.hpp"

#include <algorithm>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pinfold;
    const auto bytes = fuzz::bytes_of(data, size);
    const auto read = wire::decode(bytes);
    if (!read) {
        fuzz::demand(!read.error().text().empty());
        return 0;
    }
    fuzz::demand(size <= wire::largest_message);
    const std::vector<std::byte> written = wire::encode(*read);
    fuzz::demand(std::ranges::equal(written, bytes));
    return 0;
}
