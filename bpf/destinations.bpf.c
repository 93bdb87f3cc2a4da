// SPDX-License-Identifier: MIT
/*
 * Where a cage may send. The hooks see the destination before anything is looked up or sent, and by
 * every way: connect, unconnected UDP, sendmmsg, fast open, io_uring, v4-mapped addresses. What they
 * do not see (sends of a ping socket) the relay refuses.
 *
 * The address alone is judged, never the family that the program wrote before it: sendto() on an
 * AF_INET socket takes AF_UNSPEC for AF_INET, and an AF_INET6 socket takes AF_INET addresses, for
 * which the kernel runs the IPv4 hooks. connect(AF_UNSPEC) only disconnects and runs no hook.
 */
#include "guard.h"
#include "machine.h"
#include <pinfold/destination.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

static __always_inline __u32 rule4(struct bpf_sock_addr *ctx, __u32 mode, __u32 address)
{
	int ask;
	const __u32 port = bpf_ntohs(ctx->user_port);
	const __u32 rule = pinfold_guard4(address, ctx->type == SOCK_STREAM, port, mode, &ask);

	return ask ? machine_rule4(address) : rule;
}

static __always_inline __u32 rule6(struct bpf_sock_addr *ctx, __u32 mode, const __u32 *words)
{
	int ask;
	const __u32 port = bpf_ntohs(ctx->user_port);
	const __u32 rule = pinfold_guard6(words, ctx->type == SOCK_STREAM, port, mode, &ask);

	return ask ? machine_rule6(words) : rule;
}

static __always_inline int refuse(struct bpf_sock_addr *ctx, const struct pinfold_policy *policy,
				  struct pinfold_denial *denial)
{
	denial->type = ctx->type;
	denial->protocol = ctx->protocol;
	denial->port = bpf_ntohs(ctx->user_port);
	return deny(policy, denial);
}

static __always_inline int check4(struct bpf_sock_addr *ctx, __u32 act)
{
	const struct pinfold_policy *policy = policy_of_cage();
	struct pinfold_denial denial = { .act = act, .family = AF_INET };
	const __u32 address = ctx->user_ip4;

	denial.rule = rule4(ctx, policy->mode, bpf_ntohl(address));
	if (denial.rule == PINFOLD_RULE_NONE)
		return ALLOW;
	__builtin_memcpy(denial.address, &address, sizeof(address));
	return refuse(ctx, policy, &denial);
}

static __always_inline int check6(struct bpf_sock_addr *ctx, __u32 act)
{
	const struct pinfold_policy *policy = policy_of_cage();
	struct pinfold_denial denial = { .act = act, .family = AF_INET6 };
	const __u32 a = ctx->user_ip6[0], b = ctx->user_ip6[1];
	const __u32 c = ctx->user_ip6[2], d = ctx->user_ip6[3];
	const __u32 address[4] = { a, b, c, d };
	const __u32 words[4] = { bpf_ntohl(a), bpf_ntohl(b), bpf_ntohl(c), bpf_ntohl(d) };

	denial.rule = rule6(ctx, policy->mode, words);
	if (denial.rule == PINFOLD_RULE_NONE)
		return ALLOW;
	if (pinfold_mapped(words)) { /* said as the IPv4 address that it is */
		denial.family = AF_INET;
		__builtin_memcpy(denial.address, &address[3], sizeof(address[3]));
	} else {
		__builtin_memcpy(denial.address, address, sizeof(address));
	}
	return refuse(ctx, policy, &denial);
}

SEC("cgroup/connect4")
int cage_connect4(struct bpf_sock_addr *ctx)
{
	return check4(ctx, PINFOLD_ACT_CONNECT);
}

SEC("cgroup/connect6")
int cage_connect6(struct bpf_sock_addr *ctx)
{
	return check6(ctx, PINFOLD_ACT_CONNECT);
}

SEC("cgroup/sendmsg4")
int cage_sendmsg4(struct bpf_sock_addr *ctx)
{
	return check4(ctx, PINFOLD_ACT_SEND);
}

SEC("cgroup/sendmsg6")
int cage_sendmsg6(struct bpf_sock_addr *ctx)
{
	return check6(ctx, PINFOLD_ACT_SEND);
}
