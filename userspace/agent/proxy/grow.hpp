// Room for bytes that are about to be received, without writing zeros there first.
#pragma once

#include <string>

namespace pinfold {

inline void grow(std::string& text, std::size_t size) {
    text.resize_and_overwrite(size, [](char*, std::size_t room) { return room; });
}

} // namespace pinfold
