/* SPDX-License-Identifier: MIT */
/* What a guard reads about a cage. Shared by the kernel programs and the keeper; zero is the strictest value. */
#ifndef PINFOLD_POLICY_H
#define PINFOLD_POLICY_H

#include <linux/types.h>
#include <pinfold/denial.h>

/* The port on which agents listen for each other (A2A); closed inside every cage, at any address. */
#define PINFOLD_AGENT_PORT 7387

/* A mode, as the kernel sees it. What nobody wrote is PINFOLD_DENY_ALL. Uncaged sessions have no cgroup of ours. */
enum pinfold_mode {
	PINFOLD_DENY_ALL = 0, /* no policy was written: nothing may be sent, no socket may be made */
	PINFOLD_CAGED = 1, /* everything but the agents' port and what is never a lawful destination */
	PINFOLD_SEALED = 2, /* the internet and nothing local */
};

/* The value of the cgroup storage that all guards of a cage share. Updated as a whole (atomic for a reader). */
struct pinfold_policy {
	__u64 cage; /* the cage's id, copied into each denial */
	enum pinfold_mode mode; /* an enum, so that bpftool prints its name */
	__u32 reserved; /* zero */
};

/* What is local to the machine beyond the lists of address.h, in the tries local4 and local6: network byte order. */
struct pinfold_prefix4 {
	__u32 length; /* 0 to 32 */
	__u8 address[4];
};

struct pinfold_prefix6 {
	__u32 length; /* 0 to 128 */
	__u8 address[16];
};

struct pinfold_local {
	enum pinfold_rule rule; /* PINFOLD_RULE_MACHINE or PINFOLD_RULE_ROUTE */
};

#ifdef __cplusplus
static_assert(sizeof(pinfold_policy) == 16, "the kernel's and the keeper's layout are one");
#else
_Static_assert(sizeof(struct pinfold_policy) == 16, "the kernel's and the keeper's layout are one");
#endif

#endif
