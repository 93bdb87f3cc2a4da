#include "agent/api/frame_reader.hpp"

#include <algorithm>

namespace pinfold {

bool frame_reader::put(std::string_view bytes, handler& to) {
    while (!bytes.empty()) {
        if (header_bytes_ < PINFOLD_FRAME_HEADER) {
            const std::size_t part = std::min(bytes.size(), PINFOLD_FRAME_HEADER - header_bytes_);
            std::copy_n(bytes.begin(), part, header_.begin() + static_cast<std::ptrdiff_t>(header_bytes_));
            header_bytes_ += part;
            bytes.remove_prefix(part);
            if (header_bytes_ < PINFOLD_FRAME_HEADER) return true;
            type_ = pinfold_get_header(header_.data(), &left_);
            small_.clear();
        }
        if (!put_payload(bytes, to)) return false;
    }
    return true;
}

bool frame_reader::put_payload(std::string_view& bytes, handler& to) {
    const std::string_view part = bytes.substr(0, left_);
    const bool input = type_ == PINFOLD_FRAME_STDIN;
    if (input) {
        if (!to.take_input(part)) return false;
    } else {
        if (small_.size() + left_ > largest_small) return false; // refused by its header already
        small_ += part;
    }
    bytes.remove_prefix(part.size());
    left_ -= static_cast<std::uint32_t>(part.size());
    if (left_ > 0) return true;
    header_bytes_ = 0;
    return input || to.take_frame(type_, small_);
}

} // namespace pinfold
