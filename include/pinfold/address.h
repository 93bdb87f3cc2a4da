/* SPDX-License-Identifier: MIT */
/* May a cage send there? One set of rules, for the guards in the kernel, for the relay and for the unit tests. */
#ifndef PINFOLD_ADDRESS_H
#define PINFOLD_ADDRESS_H

#include <linux/types.h>
#include <pinfold/denial.h>
#include <pinfold/network.h>
#include <pinfold/policy.h>

/*
 * All addresses are in host byte order: IPv4 as one word, IPv6 as four.
 *
 * What stays inside a cage (its own loopback, its own address) and the gateway are questions of their own, asked first:
 * a guard lets both pass, the relay must never dial them, and the judge, who speaks of what leaves, refuses them.
 */
#define PINFOLD_INLINE static inline __attribute__((always_inline))

/* Is the address within prefix/length? length is 1 to 32. */
PINFOLD_INLINE int pinfold_within(__u32 address, __u32 prefix, unsigned int length)
{
	return (address ^ prefix) >> (32 - length) == 0;
}

/* Stays in the cage: 127/8, 0.0.0.0 (which connect() takes for the loopback), its own address. */
PINFOLD_INLINE int pinfold_own4(__u32 address)
{
	return address == 0 || pinfold_within(address, 0x7f000000u, 8) || address == PINFOLD_OWN4;
}

PINFOLD_INLINE int pinfold_gateway4(__u32 address)
{
	return address == PINFOLD_GATEWAY4;
}

/* ::ffff:a.b.c.d, which a socket dials as IPv4. */
PINFOLD_INLINE int pinfold_mapped(const __u32 *words)
{
	return words[0] == 0 && words[1] == 0 && words[2] == 0xffffu;
}

/* Carries an IPv4 address, in its last word, by which it is judged: v4-mapped, or the NAT64 prefix 64:ff9b::/96. */
PINFOLD_INLINE int pinfold_carries4(const __u32 *words)
{
	return pinfold_mapped(words) || (words[0] == 0x0064ff9bu && words[1] == 0 && words[2] == 0);
}

PINFOLD_INLINE int pinfold_own6(const __u32 *words)
{
	const __u32 own[4] = PINFOLD_OWN6_WORDS;

	if (pinfold_mapped(words))
		return pinfold_own4(words[3]);
	if (words[0] == 0 && words[1] == 0 && words[2] == 0)
		return words[3] <= 1; /* :: and ::1 */
	return words[0] == own[0] && words[1] == own[1] && words[2] == own[2] && words[3] == own[3];
}

PINFOLD_INLINE int pinfold_gateway6(const __u32 *words)
{
	const __u32 gateway[4] = PINFOLD_GATEWAY6_WORDS;

	if (pinfold_mapped(words))
		return pinfold_gateway4(words[3]);
	return words[0] == gateway[0] && words[1] == gateway[1] && words[2] == gateway[2] &&
	       words[3] == gateway[3];
}

/* Never a destination for what leaves a cage, in any mode: the machine itself, or nothing that a relay could dial. */
PINFOLD_INLINE enum pinfold_rule pinfold_never4(__u32 address)
{
	if (pinfold_within(address, 0x00000000u, 8) || pinfold_within(address, 0x7f000000u, 8))
		return PINFOLD_RULE_THIS_HOST;
	if (pinfold_within(address, 0xe0000000u, 4) || address == 0xffffffffu)
		return PINFOLD_RULE_MULTICAST;
	if (pinfold_within(address, 0xf0000000u, 4) ||
	    pinfold_within(address, PINFOLD_OWN4, PINFOLD_OWN4_PREFIX))
		return PINFOLD_RULE_RESERVED; /* 192.0.0.0/29: the cages' own; the machine's default route would carry it */
	return PINFOLD_RULE_NONE;
}

PINFOLD_INLINE enum pinfold_rule pinfold_local4(__u32 address)
{
	if (pinfold_within(address, 0x0a000000u, 8) || pinfold_within(address, 0xac100000u, 12) ||
	    pinfold_within(address, 0xc0a80000u, 16))
		return PINFOLD_RULE_PRIVATE;
	if (pinfold_within(address, 0x64400000u, 10))
		return PINFOLD_RULE_SHARED;
	if (pinfold_within(address, 0xa9fe0000u, 16))
		return PINFOLD_RULE_LINK_LOCAL; /* cloud metadata lives here */
	if (pinfold_within(address, 0xc0000000u, 24) || pinfold_within(address, 0xc6120000u, 15))
		return PINFOLD_RULE_RESERVED;
	return PINFOLD_RULE_NONE;
}

PINFOLD_INLINE enum pinfold_rule pinfold_never6(const __u32 *words)
{
	const __u32 own[4] = PINFOLD_OWN6_WORDS;

	if (words[0] == 0 && words[1] == 0 && words[2] == 0)
		/* The rest of ::/96 is IPv4-compatible: a machine with an automatic tunnel sends it to the IPv4 inside. */
		return words[3] <= 1 ? PINFOLD_RULE_THIS_HOST : PINFOLD_RULE_TUNNEL;
	if (pinfold_within(words[0], 0xff000000u, 8))
		return PINFOLD_RULE_MULTICAST;
	if (pinfold_within(words[0], 0xfe800000u, 10))
		return PINFOLD_RULE_LINK_LOCAL; /* means nothing without a link, and a packet does not say which */
	if (words[0] == own[0] && words[1] == own[1]) /* a /64 */
		return PINFOLD_RULE_RESERVED;
	return PINFOLD_RULE_NONE;
}

PINFOLD_INLINE enum pinfold_rule pinfold_local6(const __u32 *words)
{
	if (pinfold_within(words[0], 0xfc000000u, 7) || pinfold_within(words[0], 0xfec00000u, 10))
		return PINFOLD_RULE_PRIVATE;
	if (words[0] == 0x01000000u && words[1] == 0) /* 100::/64, discarded */
		return PINFOLD_RULE_RESERVED;
	if (words[0] == 0x0064ff9bu && words[1] >> 16 == 1) /* 64:ff9b:1::/48, NAT64 of a site's own */
		return PINFOLD_RULE_RESERVED;
	if (words[0] == 0 && words[1] == 0 && words[2] == 0xffff0000u) /* ::ffff:0:a.b.c.d, translated */
		return PINFOLD_RULE_TUNNEL;
	if (words[0] == 0x20010000u || pinfold_within(words[0], 0x20020000u, 16)) /* Teredo, 6to4 */
		return PINFOLD_RULE_TUNNEL;
	if ((words[2] & ~0x03000000u) == 0x00005efeu) /* ISATAP, whatever its two flag bits say */
		return PINFOLD_RULE_TUNNEL;
	return PINFOLD_RULE_NONE;
}

/* PINFOLD_RULE_NONE, or why nothing of a cage in this mode may leave for this address. */
PINFOLD_INLINE enum pinfold_rule pinfold_judge4(__u32 address, __u32 mode)
{
	enum pinfold_rule rule;

	if (mode == PINFOLD_DENY_ALL)
		return PINFOLD_RULE_NO_POLICY;
	rule = pinfold_never4(address);
	if (rule == PINFOLD_RULE_NONE && mode != PINFOLD_CAGED)
		rule = pinfold_local4(address);
	return rule;
}

PINFOLD_INLINE enum pinfold_rule pinfold_judge6(const __u32 *words, __u32 mode)
{
	enum pinfold_rule rule;

	if (mode == PINFOLD_DENY_ALL)
		return PINFOLD_RULE_NO_POLICY;
	if (pinfold_carries4(words))
		return pinfold_judge4(words[3], mode);
	rule = pinfold_never6(words);
	if (rule == PINFOLD_RULE_NONE && mode != PINFOLD_CAGED)
		rule = pinfold_local6(words);
	return rule;
}

/* The agents' port, closed at every address that is not the cage's own. */
PINFOLD_INLINE int pinfold_agent_port(int is_stream, __u32 port)
{
	return is_stream && port == PINFOLD_AGENT_PORT;
}

#endif
