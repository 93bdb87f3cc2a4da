// One program of a session, from its start to its end, with what is on the way to it and from it.
#pragma once

#include "agent/sessions/session.hpp"

namespace pinfold {

struct session::run {
    run(std::shared_ptr<cage_record> of, std::unique_ptr<harness::dialogue> in)
        : record(std::move(of)), talk(std::move(in)) {}

    std::shared_ptr<cage_record> record;
    std::unique_ptr<harness::dialogue> talk;
    harness::line_splitter lines;

    std::string outgoing; // not written yet
    bool close_input = false, output_ended = false, ending = false;
    event outgoing_changed, output_done;
    int pumps = 0; // coroutines that hold its streams
    event pumps_done;

    std::string errors;   // the last of what it said on its standard error
    std::string reason;   // why it is being stopped; empty = it was not asked to
    event finished;       // its end is kept, and the session has none
    std::size_t said = 0; // lines it was understood in
};

} // namespace pinfold
