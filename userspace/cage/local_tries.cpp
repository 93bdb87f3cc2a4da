#include "cage/local_tries.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <bpf/bpf.h>
#include <cstring>
#include <pinfold/denial.h>
#include <pinfold/policy.h>
#include <sys/socket.h>

namespace pinfold {
namespace {

// The longer of the two kinds of key; both begin with the length.
using trie_key = pinfold_prefix6;

std::size_t address_size(std::uint8_t family) {
    return family == AF_INET ? 4 : 16;
}

// Without host bits and without the flag, so that equal prefixes are equal.
local_prefix bare(const local_prefix& prefix) {
    local_prefix made = {.family = prefix.family, .length = prefix.length};
    std::memcpy(made.address, prefix.address, address_size(prefix.family));
    for (unsigned bit = prefix.length; bit < address_size(prefix.family) * 8; ++bit)
        made.address[bit / 8] &= static_cast<std::uint8_t>(~(0x80u >> bit % 8));
    return made;
}

trie_key key_of(const local_prefix& prefix) {
    trie_key key = {.length = prefix.length, .address = {}};
    std::memcpy(key.address, prefix.address, address_size(prefix.family));
    return key;
}

const char* name_of(std::uint8_t family) {
    return family == AF_INET ? "local4" : "local6";
}

} // namespace

local_tries::local_tries(int local4, int local6) : local4_(local4), local6_(local6) {
    read(AF_INET);
    read(AF_INET6);
}

int local_tries::map_of(std::uint8_t family) const {
    return family == AF_INET ? local4_ : local6_;
}

void local_tries::read(std::uint8_t family) {
    trie_key key = {};
    for (const void* before = nullptr; bpf_map_get_next_key(map_of(family), before, &key) == 0;
         before = &key) {
        local_prefix prefix = {.family = family, .length = static_cast<std::uint8_t>(key.length)};
        std::memcpy(prefix.address, key.address, address_size(family));
        pinfold_local value = {};
        if (bpf_map_lookup_elem(map_of(family), &key, &value) == 0)
            held_[bare(prefix)] = value.rule == PINFOLD_RULE_MACHINE;
    }
}

void local_tries::add(const local_prefix& prefix) {
    const trie_key key = key_of(prefix);
    const pinfold_local value = {.rule = prefix.machine ? PINFOLD_RULE_MACHINE : PINFOLD_RULE_ROUTE};
    check_negative(bpf_map_update_elem(map_of(prefix.family), &key, &value, BPF_ANY),
                   "add a prefix to the {} local ones in {} (when it is full the machine has more routes "
                   "than pinfold can "
                   "guard)",
                   held_.size(), name_of(prefix.family));
}

void local_tries::remove(const local_prefix& prefix) {
    const trie_key key = key_of(prefix);
    const int error = bpf_map_delete_elem(map_of(prefix.family), &key);
    if (error < 0 && error != -ENOENT) fail_errno(-error, "remove a prefix from {}", name_of(prefix.family));
}

local_answer local_tries::find(const local_prefix& address) const {
    const trie_key key = key_of(address);
    pinfold_local value = {};
    if (bpf_map_lookup_elem(map_of(address.family), &key, &value) != 0) return {};
    local_answer answer = {.rule = value.rule};
    // The kernel tells the value and not which prefix it belongs to.
    for (int length = address.length; length >= 0 && answer.prefix.family == 0; --length) {
        local_prefix shorter = address;
        shorter.length = static_cast<std::uint8_t>(length);
        if (const auto found = held_.find(bare(shorter)); found != held_.end()) answer.prefix = found->first;
    }
    return answer;
}

void local_tries::set(std::span<const local_prefix> wanted) {
    std::map<local_prefix, bool> next;
    for (const local_prefix& prefix : wanted) {
        bool& machine = next[bare(prefix)];
        machine = machine || prefix.machine;
    }
    for (const auto& [prefix, machine] : next) {
        const auto found = held_.find(prefix);
        if (found != held_.end() && found->second == machine) continue;
        local_prefix flagged = prefix;
        flagged.machine = machine;
        add(flagged);
        held_[prefix] = machine;
    }
    std::erase_if(held_, [&](const auto& entry) {
        if (next.contains(entry.first)) return false;
        remove(entry.first);
        return true;
    });
}

} // namespace pinfold
