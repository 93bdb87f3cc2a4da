// SPDX-License-Identifier: MIT
/*
 * How a cage's TCP reaches the relay. Not a guard: without these programs a cage is deaf, not free.
 *
 * Every address is local to a cage's namespace (AnyIP), so the kernel itself ends a connection at
 * the address that the program inside asked for. cage_syn diverts the opening SYN from lo into the
 * tun; the relay opens the upstream and only then puts the same SYN back; cage_steer gives that SYN
 * to the relay's listener. Data never touches the tun.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <pinfold/network.h>

#define AF_INET6 10
#define LEAVE_IT (-1) /* TCX_NEXT and TC_ACT_UNSPEC: the same program serves tcx and clsact */

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The relay's listener. One for each cage: the keeper gives each copy of cage_steer a map of its
 * own. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} cage_listener SEC(".maps");

static __always_inline int is_inside4(__u32 address)
{
	return address >> 24 == 127 || address == PINFOLD_OWN4;
}

/* ::/96, which spares ::1, and the cage's own address. */
static __always_inline int is_inside6(const __u32 *address)
{
	const __u32 own[4] = PINFOLD_OWN6_WORDS;
	const __u32 a = bpf_ntohl(address[0]), b = bpf_ntohl(address[1]);
	const __u32 c = bpf_ntohl(address[2]), d = bpf_ntohl(address[3]);

	if (!a && !b && !c)
		return 1;
	return a == own[0] && b == own[1] && c == own[2] && d == own[3];
}

static __always_inline int is_opening(const struct tcphdr *tcp)
{
	return tcp->syn && !tcp->ack;
}

/*
 * On the egress of lo. A SYN with IP options or extension headers is left alone, for the relay could
 * not read it; cage_steer drops what comes by lo, so it gets no answer. (The options guard refuses
 * the setsockopt() that would make one.)
 */
SEC("tc")
int cage_syn(struct __sk_buff *skb)
{
	void *packet =
		(void *)(long)skb->data + ETH_HLEN; /* lo has an Ethernet header, a tun none */
	void *end = (void *)(long)skb->data_end;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		const struct iphdr *ip = packet;
		const struct tcphdr *tcp = packet + sizeof(*ip);

		if ((void *)(tcp + 1) > end || ip->ihl != 5 || ip->protocol != IPPROTO_TCP)
			return LEAVE_IT;
		if (!is_opening(tcp) || is_inside4(bpf_ntohl(ip->daddr)))
			return LEAVE_IT;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		const struct ipv6hdr *ip = packet;
		const struct tcphdr *tcp = packet + sizeof(*ip);

		if ((void *)(tcp + 1) > end || ip->nexthdr != IPPROTO_TCP)
			return LEAVE_IT;
		if (!is_opening(tcp) || is_inside6(ip->daddr.in6_u.u6_addr32))
			return LEAVE_IT;
	} else {
		return LEAVE_IT;
	}
	return bpf_redirect(PINFOLD_TUN_IFINDEX, 0);
}

/* Runs only where the kernel looks for a listener; packets of established connections never come
 * here. */
SEC("sk_lookup")
int cage_steer(struct bpf_sk_lookup *ctx)
{
	__u32 first = 0, local6[4];
	struct bpf_sock *listener;
	long refused;

	if (ctx->protocol != IPPROTO_TCP)
		return SK_PASS;
	local6[0] = ctx->local_ip6[0];
	local6[1] = ctx->local_ip6[1];
	local6[2] = ctx->local_ip6[2];
	local6[3] = ctx->local_ip6[3];
	if (ctx->family == AF_INET6 ? is_inside6(local6) : is_inside4(bpf_ntohl(ctx->local_ip4)))
		return SK_PASS;

	/*
	 * What the relay put back comes by the tun. A SYN that came by lo was never seen by the
	 * relay: handing it to the listener would let connect() succeed and then reset.
	 */
	if (ctx->ingress_ifindex != PINFOLD_TUN_IFINDEX)
		return SK_DROP;
	listener = bpf_map_lookup_elem(&cage_listener, &first);
	if (!listener)
		return SK_DROP;
	refused = bpf_sk_assign(ctx, listener, 0);
	bpf_sk_release(listener);
	return refused ? SK_DROP : SK_PASS;
}
