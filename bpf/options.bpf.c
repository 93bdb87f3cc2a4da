// SPDX-License-Identifier: MIT
/*
 * No source routing: a packet with a route of its own passes the destination hooks with one address
 * and goes to another. Refused are IPv4 options and the IPv6 headers that a router would act on, by
 * their numbers of RFC 3542 and of RFC 2292, and as part of a flow label, which can carry them too.
 */
#include <linux/in.h>
#include <linux/in6.h>
#include "guard.h"

#define IP_OPTIONS	 4 /* from <bits/in.h> */
#define SOL_SOCKET	 1 /* from <asm-generic/socket.h> */
#define SO_BINDTODEVICE	 25
#define SO_BINDTOIFINDEX 62

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Without a value an option is cleared, which old servers do to be safe. */
static __always_inline int steers(__s32 level, __s32 name, __s32 size)
{
	if (level == IPPROTO_IP)
		return name == IP_OPTIONS && size != 0;
	if (level != IPPROTO_IPV6)
		return 0;
	switch (name) {
	case IPV6_RTHDR:
	case IPV6_HOPOPTS:
	case IPV6_DSTOPTS:
	case IPV6_RTHDRDSTOPTS:
	case IPV6_2292RTHDR:
	case IPV6_2292HOPOPTS:
	case IPV6_2292DSTOPTS:
	case IPV6_2292PKTOPTIONS:
		return size != 0;
	case IPV6_FLOWLABEL_MGR:
		return size > (__s32)sizeof(struct in6_flowlabel_req);
	}
	return 0;
}

/*
 * All TCP of a cage goes through lo (steering.bpf.c), so a socket that is tied to eth0 could not even
 * connect: it would wait for ever for an answer that comes by lo. There is one way out only, so
 * the wish is granted by doing nothing.
 */
static __always_inline int ties_tcp_to_device(struct bpf_sockopt *ctx, __s32 level, __s32 name)
{
	return level == SOL_SOCKET && (name == SO_BINDTODEVICE || name == SO_BINDTOIFINDEX) &&
	       ctx->sk->type == SOCK_STREAM;
}

SEC("cgroup/setsockopt")
int cage_option(struct bpf_sockopt *ctx)
{
	const struct pinfold_policy *policy = policy_of_cage();
	const __s32 level = ctx->level, name = ctx->optname;
	struct pinfold_denial denial = {};

	if (policy->mode == PINFOLD_DENY_ALL) {
		denial.rule = PINFOLD_RULE_NO_POLICY;
	} else if (steers(level, name, ctx->optlen)) {
		denial.rule = PINFOLD_RULE_SOURCE_ROUTE;
	} else if (ties_tcp_to_device(ctx, level, name)) {
		ctx->optlen = -1; /* the kernel's own code is left out, and the call succeeds */
		return ALLOW;
	} else {
		/*
		 * The kernel goes on with the program's own buffer. Before 6.4 it would take its
		 * copy instead, and refuse what is longer than a page.
		 */
		ctx->optlen = 0;
		return ALLOW;
	}
	denial.act = PINFOLD_ACT_OPTION;
	denial.family = ctx->sk->family;
	denial.type = level;
	denial.protocol = name;
	return deny(policy, &denial);
}
