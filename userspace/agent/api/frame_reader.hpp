// The frames of a client (pinfold/stdio.h) from bytes as they come, however they are cut.
#pragma once

#include <array>
#include <cstdint>
#include <pinfold/stdio.h>
#include <string>
#include <string_view>

namespace pinfold {

class frame_reader {
public:
    static constexpr std::uint32_t largest_small = 4; // bytes of a frame that is no input

    class handler {
    public:
        // Each says false where that is not the protocol.
        virtual bool take_input(std::string_view part) = 0; // of a STDIN frame, as it comes
        virtual bool take_frame(std::uint32_t type, std::string_view payload) = 0; // any other, whole

    protected:
        ~handler() = default;
    };

    // False: not the protocol, and nothing more may be put.
    [[nodiscard]] bool put(std::string_view bytes, handler& to);

private:
    [[nodiscard]] bool put_payload(std::string_view& bytes, handler& to);

    std::array<unsigned char, PINFOLD_FRAME_HEADER> header_{};
    std::size_t header_bytes_ = 0;
    std::uint32_t type_ = PINFOLD_FRAME_NONE, left_ = 0;
    std::string small_;
};

} // namespace pinfold
