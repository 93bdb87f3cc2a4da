/* SPDX-License-Identifier: MIT */
/* The addresses every cage has. Nothing links two cages, so all of them have the same ones. */
#ifndef PINFOLD_NETWORK_H
#define PINFOLD_NETWORK_H

/* RFC 7335's 192.0.0.0/29 is never on a LAN, so it shadows nothing. Host byte order. */
#define PINFOLD_OWN4 0xc0000002u /* 192.0.0.2: the cage */
#define PINFOLD_GATEWAY4 0xc0000001u /* 192.0.0.1: the relay answers here, no machine does */
#define PINFOLD_OWN4_PREFIX 29

/* fd5e:ca9e:1::2 and ::1, as four words in host byte order. */
#define PINFOLD_OWN6_WORDS { 0xfd5eca9eu, 0x00010000u, 0u, 2u }
#define PINFOLD_GATEWAY6_WORDS { 0xfd5eca9eu, 0x00010000u, 0u, 1u }
#define PINFOLD_OWN6_PREFIX 64

/* Where the relay's listener is bound inside the cage's namespace: ::ffff:127.99.99.99. */
#define PINFOLD_LISTENER4 0x7f636363u
#define PINFOLD_LISTENER_PORT 60999

#define PINFOLD_TUN_NAME "eth0"
/* Asked for by TUNSETIFINDEX. It must be the same in every cage, for the steering programs are loaded once for all, and
 * the 2 of an empty namespace is taken where sit or ipip (loaded on the machine) put a device into each new one. */
#define PINFOLD_TUN_IFINDEX 192
#define PINFOLD_TUN_MTU 65520

#endif
