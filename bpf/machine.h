/* SPDX-License-Identifier: MIT */
/* What is local to this machine beyond the lists of address.h: two tries that the keeper keeps up to date. */
#ifndef PINFOLD_MACHINE_H
#define PINFOLD_MACHINE_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <pinfold/address.h>

/* The machine's own addresses and every prefix with a more specific route than the default. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 18);
	__type(key, struct pinfold_prefix4);
	__type(value, struct pinfold_local);
} local4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 18);
	__type(key, struct pinfold_prefix6);
	__type(value, struct pinfold_local);
} local6 SEC(".maps");

static __always_inline __u32 machine_rule4(__u32 address)
{
	struct pinfold_prefix4 key = { .length = 32 };
	const struct pinfold_local *found;

	address = bpf_htonl(address);
	__builtin_memcpy(key.address, &address, sizeof(address));
	found = bpf_map_lookup_elem(&local4, &key);
	return found ? found->rule : PINFOLD_RULE_NONE;
}

static __always_inline __u32 machine_rule6(const __u32 *words)
{
	struct pinfold_prefix6 key = { .length = 128 };
	const struct pinfold_local *found;
	const __u32 address[4] = { bpf_htonl(words[0]), bpf_htonl(words[1]), bpf_htonl(words[2]),
				   bpf_htonl(words[3]) };

	if (pinfold_carries4(words))
		return machine_rule4(words[3]);
	__builtin_memcpy(key.address, address, sizeof(address));
	found = bpf_map_lookup_elem(&local6, &key);
	return found ? found->rule : PINFOLD_RULE_NONE;
}

#endif
