// Who asks: by the address a request came from and by what its own agent vouches for, never by what it says of itself.
#pragma once

#include "agent/proxy/machines.hpp"
#include "agent/sessions/options.hpp"

#include <span>
#include <string>

namespace pinfold {

struct arrival {
    std::string address; // it came from; empty = the owner's socket
    std::string caged;   // X-Shrooms-Caged
    std::string claim;   // MACHINE/SESSION or SESSION, as it says itself
};

struct asker {
    bool local = false; // of this machine
    bool caged = false;
    std::string machine; // its name; of an unknown address the address
    std::string address; // where its agent is told of news; empty = this machine
    std::string session; // empty = not named, or not to be named like that

    [[nodiscard]] std::string name() const;   // MACHINE/SESSION; empty without a session
    [[nodiscard]] std::string device() const; // "this machine", or the machine's name
    [[nodiscard]] std::string shown() const;  // as the worker reads it; empty = this machine's own
};

// `machines`: this machine first.
[[nodiscard]] asker who_asks(const arrival& what, std::span<const machine> machines);

// Whom a session that is limited to some meshes is shown to: this machine, and the machines on one of them. Everybody
// else is answered as if it were not there.
struct viewer {
    bool is_here = true;             // of this machine
    std::vector<std::string> meshes; // that it is on

    [[nodiscard]] bool sees(const session_settings& set) const;
};
// `address` as of an arrival.
[[nodiscard]] viewer who_looks(const std::string& address, std::span<const mesh> meshes);

// Is it on a list of MACHINE/SESSION and MACHINE/*?
[[nodiscard]] bool is_listed(const std::vector<std::string>& list, const asker& who);
// May it give the session tasks without its owner being asked? A cage's default is its own kind: caged ones, too.
[[nodiscard]] bool takes_caged(const session_settings& set, bool session_is_caged) noexcept;
[[nodiscard]] bool takes_from(const session_settings& set, bool session_is_caged, const asker& who);

} // namespace pinfold
