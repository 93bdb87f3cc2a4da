/* SPDX-License-Identifier: MIT */
/* One refused act, as the ring buffer carries it from a guard to the keeper, and the wire from the keeper to the agent. */
#ifndef PINFOLD_DENIAL_H
#define PINFOLD_DENIAL_H

#include <linux/types.h>

/* What was tried. */
enum pinfold_act {
	PINFOLD_ACT_NONE = 0,
	PINFOLD_ACT_CONNECT = 1, /* connect(), and what implies it (fast open) */
	PINFOLD_ACT_SEND = 2, /* sendto(), sendmsg(), sendmmsg() on an unconnected socket */
	PINFOLD_ACT_SOCKET = 3, /* socket() of a kind that no cage has */
	PINFOLD_ACT_OPTION = 4, /* setsockopt() that would steer packets past the destination */
};

/* Why it was refused. The texts live in userspace/spec/rules.cpp, one for each. */
enum pinfold_rule {
	PINFOLD_RULE_NONE = 0, /* not refused */
	PINFOLD_RULE_NO_POLICY = 1, /* nothing was written for this cage */
	PINFOLD_RULE_AGENT_PORT = 2, /* TCP 7387 */
	PINFOLD_RULE_THIS_HOST = 3, /* 0.0.0.0/8 beyond the cage's own loopback, the machine's loopback */
	PINFOLD_RULE_PRIVATE = 4, /* 10/8, 172.16/12, 192.168/16, fc00::/7, fec0::/10 */
	PINFOLD_RULE_SHARED = 5, /* 100.64/10: carriers and meshes */
	PINFOLD_RULE_LINK_LOCAL = 6, /* 169.254/16, fe80::/10 */
	PINFOLD_RULE_MULTICAST = 7, /* 224/4, ff00::/8, 255.255.255.255 */
	PINFOLD_RULE_RESERVED = 8, /* 192.0.0/24, 198.18/15, 240/4, 100::/64, 64:ff9b:1::/48, own ranges */
	PINFOLD_RULE_TUNNEL = 9, /* 2001::/32, 2002::/16, ::/96, ::ffff:0:0:0/96, ISATAP: IPv4 in disguise */
	PINFOLD_RULE_MACHINE = 10, /* an address of the machine itself */
	PINFOLD_RULE_ROUTE = 11, /* the machine has a more specific route than its default one */
	PINFOLD_RULE_SOCKET_KIND = 12, /* a kind of socket that no other guard sees */
	PINFOLD_RULE_SOURCE_ROUTE = 13, /* IP options, IPv6 extension headers, also by way of a flow label */
	PINFOLD_RULE_LAST = PINFOLD_RULE_SOURCE_ROUTE,
};

struct pinfold_denial {
	__u64 time_ns; /* CLOCK_BOOTTIME */
	__u64 cage; /* with PINFOLD_RULE_NO_POLICY the id of the cgroup: nobody wrote which cage it is */
	__u32 pid; /* of the machine's pid namespace */
	__u32 act; /* enum pinfold_act */
	__u32 rule; /* enum pinfold_rule */
	__u32 family; /* AF_INET (also for a v4-mapped address) or AF_INET6; for a socket the family asked for */
	__u32 type; /* SOCK_STREAM, …; for an option its level */
	__u32 protocol; /* IPPROTO_TCP, …; for an option its name */
	__u32 port; /* host byte order; 0 where there is none */
	__u32 reserved; /* zero */
	__u8 address[16]; /* network byte order; IPv4 in the first four bytes */
	char comm[16];
};

#ifdef __cplusplus
static_assert(sizeof(pinfold_denial) == 80, "the kernel's and the keeper's layout are one");
#else
_Static_assert(sizeof(struct pinfold_denial) == 80, "the kernel's and the keeper's layout are one");
#endif

#endif
