/* SPDX-License-Identifier: MIT */
/* The frames in which agent and CLI carry a program's standard streams over one connection (docs/api.md). */
#ifndef PINFOLD_STDIO_H
#define PINFOLD_STDIO_H

#include <linux/types.h>

/* What the HTTP answer 101 switches to. */
#define PINFOLD_STDIO_PROTOCOL "pinfold-stdio"

/* A frame is this header and its payload: u8 type, three zero bytes, u32 length of the payload in network order. */
#define PINFOLD_FRAME_HEADER 8
#define PINFOLD_FRAME_PAYLOAD 65536 /* bytes at most */

/*
 * Bytes of standard input a client may send before the first CREDIT. Without this window a program that does not read
 * would hold up the frames behind its input: a signal, a hang-up.
 */
#define PINFOLD_STDIN_WINDOW 262144

enum pinfold_frame {
	PINFOLD_FRAME_NONE = 0, /* never sent */

	/* client to agent */
	PINFOLD_FRAME_STDIN = 1, /* bytes */
	PINFOLD_FRAME_STDIN_END = 2, /* nothing */
	PINFOLD_FRAME_RESIZE = 3, /* u16 rows, u16 columns, network order */
	PINFOLD_FRAME_SIGNAL = 4, /* u32 number, network order */
	PINFOLD_FRAME_DONE = 5, /* nothing; the same as hanging up */

	/* agent to client */
	PINFOLD_FRAME_STDOUT = 16, /* bytes */
	PINFOLD_FRAME_STDERR = 17, /* bytes */
	PINFOLD_FRAME_STARTED = 18, /* JSON: name, cage, notes */
	PINFOLD_FRAME_EXIT = 19, /* JSON: status, memory_kill, …; the last frame */
	PINFOLD_FRAME_ERROR = 20, /* JSON: error, status; the last frame */
	PINFOLD_FRAME_CREDIT = 21, /* u32: so many bytes of standard input more, network order */
};

static inline void pinfold_put32(unsigned char *to, __u32 value)
{
	to[0] = (unsigned char)(value >> 24);
	to[1] = (unsigned char)(value >> 16);
	to[2] = (unsigned char)(value >> 8);
	to[3] = (unsigned char)value;
}

static inline __u32 pinfold_get32(const unsigned char *from)
{
	return (__u32)from[0] << 24 | (__u32)from[1] << 16 | (__u32)from[2] << 8 | (__u32)from[3];
}

static inline void pinfold_put_header(unsigned char *to, __u32 type, __u32 length)
{
	pinfold_put32(to, type << 24);
	pinfold_put32(to + 4, length);
}

/* The type, or PINFOLD_FRAME_NONE where this is no header. */
static inline __u32 pinfold_get_header(const unsigned char *from, __u32 *length)
{
	*length = pinfold_get32(from + 4);
	if (from[1] || from[2] || from[3] || *length > PINFOLD_FRAME_PAYLOAD)
		return PINFOLD_FRAME_NONE;
	return from[0];
}

#endif
