// SPDX-License-Identifier: MIT
/*
 * Which kinds of internet socket exist in a cage: exactly TCP, UDP and ICMP echo. Raw sockets,
 * UDP-Lite and SCTP send past the destination hooks; MPTCP opens further subflows by itself.
 * Families other than AF_INET and AF_INET6 never come here: seccomp closes them.
 */
#include <linux/in.h>
#include <linux/in6.h>
#include "guard.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

static __always_inline int is_known(__u32 family, __u32 type, __u32 protocol)
{
	if (type == SOCK_STREAM)
		return protocol == IPPROTO_TCP;
	if (type != SOCK_DGRAM)
		return 0;
	if (protocol == IPPROTO_UDP)
		return 1;
	return family == AF_INET ? protocol == IPPROTO_ICMP : protocol == IPPROTO_ICMPV6;
}

SEC("cgroup/sock_create")
int cage_socket(struct bpf_sock *ctx)
{
	const struct pinfold_policy *policy = policy_of_cage();
	const __u32 family = ctx->family, type = ctx->type, protocol = ctx->protocol;
	struct pinfold_denial denial = {};

	if (policy->mode == PINFOLD_DENY_ALL)
		denial.rule = PINFOLD_RULE_NO_POLICY;
	else if (!is_known(family, type, protocol))
		denial.rule = PINFOLD_RULE_SOCKET_KIND;
	else
		return ALLOW;
	denial.act = PINFOLD_ACT_SOCKET;
	denial.family = family;
	denial.type = type;
	denial.protocol = protocol;
	return deny(policy, &denial);
}
