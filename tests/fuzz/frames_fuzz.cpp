// The frames of whoever runs a program over the API, whole and cut anywhere: both ways the same is taken from them.
#include "agent/api/frame_reader.hpp"
#include "demand.hpp"

#include <algorithm>

namespace {

struct taken final : pinfold::frame_reader::handler {
    bool take_input(std::string_view part) override {
        input += part;
        return true;
    }
    bool take_frame(std::uint32_t type, std::string_view payload) override {
        pinfold::fuzz::demand(type != PINFOLD_FRAME_STDIN &&
                              payload.size() <= pinfold::frame_reader::largest_small);
        frames += std::to_string(type) + ":" + std::string(payload) + ";";
        return type != PINFOLD_FRAME_DONE;
    }
    std::string input, frames;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pinfold;
    if (size == 0) return 0;
    std::string_view bytes = fuzz::text_of(data + 1, size - 1);
    frame_reader whole, cut;
    taken from_whole, from_cut;
    const bool good = whole.put(bytes, from_whole);
    bool cut_good = true;
    for (const std::size_t part = std::size_t{1} + data[0] % 32; !bytes.empty() && cut_good;) {
        cut_good = cut.put(bytes.substr(0, part), from_cut);
        bytes.remove_prefix(std::min(part, bytes.size()));
    }
    fuzz::demand(good == cut_good && from_whole.frames == from_cut.frames);
    fuzz::demand(!good || from_whole.input == from_cut.input);
    return 0;
}
