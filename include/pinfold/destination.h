/* SPDX-License-Identifier: MIT */
/* What the guards answer to a destination: one text for the kernel's programs and for `pinfold why`, which explains them. */
#ifndef PINFOLD_DESTINATION_H
#define PINFOLD_DESTINATION_H

#include <pinfold/address.h>

/*
 * The whole answer of the guards, but for the machine's tries: `*ask` is set where these have the last word. The kernel's
 * programs and `pinfold why` call these two, so that what is explained is what is enforced.
 */
PINFOLD_INLINE enum pinfold_rule pinfold_guard4(__u32 address, int is_stream, __u32 port, __u32 mode,
						int *ask)
{
	enum pinfold_rule rule;

	*ask = 0;
	if (mode != PINFOLD_DENY_ALL) {
		if (pinfold_own4(address))
			return PINFOLD_RULE_NONE;
		if (pinfold_agent_port(is_stream, port))
			return PINFOLD_RULE_AGENT_PORT;
		if (pinfold_gateway4(address))
			return PINFOLD_RULE_NONE;
	}
	rule = pinfold_judge4(address, mode);
	*ask = rule == PINFOLD_RULE_NONE && mode != PINFOLD_CAGED;
	return rule;
}

PINFOLD_INLINE enum pinfold_rule pinfold_guard6(const __u32 *words, int is_stream, __u32 port, __u32 mode,
						int *ask)
{
	enum pinfold_rule rule;

	*ask = 0;
	if (mode != PINFOLD_DENY_ALL) {
		if (pinfold_own6(words))
			return PINFOLD_RULE_NONE;
		if (pinfold_agent_port(is_stream, port))
			return PINFOLD_RULE_AGENT_PORT;
		if (pinfold_gateway6(words))
			return PINFOLD_RULE_NONE;
	}
	rule = pinfold_judge6(words, mode);
	*ask = rule == PINFOLD_RULE_NONE && mode != PINFOLD_CAGED;
	return rule;
}

#endif
