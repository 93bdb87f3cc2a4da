// Carries what a sealed session wrote into its outbox to another session: by its owner's word, or to who asked for it.
#pragma once

#include "agent/outbox/packer.hpp"
#include "agent/proxy/machines.hpp"
#include "agent/proxy/peer.hpp"
#include "agent/sessions/session_list.hpp"

#include <map>

namespace pinfold {

class outbox_carrier {
public:
    struct settings {
        machine_list::settings machines;
        std::filesystem::path own_agent; // our own API, for sessions of this machine
        std::uint16_t port = 7387;       // of other machines' agents
        outbox::limits within{};
    };

    outbox_carrier(session_list& listed, settings with);
    outbox_carrier(const outbox_carrier&) = delete;
    outbox_carrier& operator=(const outbox_carrier&) = delete;
    ~outbox_carrier() = default;

    // Each throws session_refusal with the status to answer.
    struct contents {
        std::filesystem::path folder;
        struct file {
            std::string name;
            std::uint64_t size = 0;
            std::int64_t time = 0; // seconds
        };
        std::vector<file> files;
        std::vector<outbox::left_out> left;
        std::uint64_t untold = 0;
    };
    task<contents> list(std::string session);
    // The line that tells what was sent, or a refusal: 400 `to` cannot be meant, 404 no such machine, 502 not sent.
    task<std::string> send(std::string session, std::string to, std::string only);

    // When a task of `session` has ended: what is new since it began goes to the session that asked, `to` as
    // MACHINE/SESSION, whose agent is at `address` (empty = this one). The line for its note: what was sent, or why not;
    // empty where there is nothing to tell. Never throws. The same task again is the same line, and nothing is sent twice.
    task<std::string> carry_results(std::string session, std::string to, std::string address,
                                    std::int64_t began_ms, std::string message);

private:
    struct parcel {
        std::string session; // whose outbox
        std::string to;      // a session, at
        std::string address; // this machine's agent where empty
        std::string name, note;
        outbox::selection what;
    };
    [[nodiscard]] std::filesystem::path folder_of(const std::string& session) const;
    task<std::size_t> deliver(parcel what); // how many files; 0 = there was nothing, and nothing was sent
    task<> transmit(parcel what, const outbox::packer& packed);

    session_list& listed_;
    settings with_;
    machine_list machines_;
    one_by_one turn_;                            // of packing: two at once would only take twice the room
    std::map<std::string, std::string> carried_; // the tasks' lines
};

} // namespace pinfold
