/* SPDX-License-Identifier: MIT */
/* What the guards share: the policy of a cage, and the one place where a denial is written. */
#ifndef PINFOLD_GUARD_H
#define PINFOLD_GUARD_H

#include <linux/bpf.h>
#include <linux/errno.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <pinfold/denial.h>
#include <pinfold/policy.h>

/* From <bits/socket.h>, which a program without a libc does not have. */
#define AF_INET	    2
#define AF_INET6    10
#define SOCK_STREAM 1
#define SOCK_DGRAM  2

#define ALLOW 1
#define DENY  0

/*
 * One entry for each cgroup to which a guard is attached, made by attaching it and all zero at first: deny. All guards
 * use the same map (the keeper sees to it), so a cage has one policy; processes in child cgroups are judged by it too.
 */
struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_STORAGE);
	__type(key, __u64); /* the cgroup's id: shared by all kinds of hooks */
	__type(value, struct pinfold_policy);
} cage_policy SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} denials SEC(".maps");

/* How many denials found the ring full. They were refused all the same. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} denials_lost SEC(".maps");

static __always_inline const struct pinfold_policy *policy_of_cage(void)
{
	return bpf_get_local_storage(&cage_policy, 0); /* never NULL */
}

/* Completes the record of what was tried, sends it to the keeper, and makes the call fail with EACCES. */
static __always_inline int deny(const struct pinfold_policy *policy, struct pinfold_denial *denial)
{
	__u32 first = 0;
	__u64 *lost;

	denial->time_ns = bpf_ktime_get_boot_ns();
	/* Who is refused for want of a policy is known by the cgroup alone; the keeper finds the cage. */
	denial->cage = policy->cage ? policy->cage : bpf_get_current_cgroup_id();
	denial->pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(denial->comm, sizeof(denial->comm));
	if (bpf_ringbuf_output(&denials, denial, sizeof(*denial), 0)) {
		lost = bpf_map_lookup_elem(&denials_lost, &first);
		if (lost)
			__sync_fetch_and_add(lost, 1);
	}
	bpf_set_retval(-EACCES); /* else programs see EPERM, which says "you are not root" */
	return DENY;
}

#endif
