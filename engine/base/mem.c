/* engine/base/mem.c — allocation that can't fail, and arenas.
 *
 * An arena is a chain of zeroed chunks. Each is twice as large as the previous one, up to
 * CHUNK_MAX, so that a small tree costs a kilobyte (each of ten thousand waiting attempts has one)
 * and a large tree few calls. An allocation that doesn't fit in the current chunk, and is more than
 * a quarter of the next one, gets its own chunk behind the current one, so that a large string
 * doesn't waste the rest of the current chunk. Nothing is freed before the arena.
 *
 * mem_die() prints one line without allocating and exits: callers never see a failed allocation.
 */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CHUNK_MIN 1024UL
#define CHUNK_MAX                                                                               \
	(1024UL * 1024) /* above malloc's mmap threshold: comes zeroed from the kernel and goes \
			   back to it */
#define ALIGN 16UL

void mem_die(size_t n)
{
	char line[80];
	int len = snprintf(line, sizeof(line), "cairn: out of memory (asked for %zu bytes)\n", n);

	if (write(STDERR_FILENO, line, (size_t)len) < 0) {
		/* there is nowhere to report it */
	}
	_exit(4);
}

void *xmalloc(size_t n)
{
	void *p = malloc(n ? n : 1);

	if (!p)
		mem_die(n);
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (!p)
		mem_die(n * size);
	return p;
}

void *xrealloc(void *p, size_t n)
{
	void *q = realloc(p, n ? n : 1);

	if (!q)
		mem_die(n);
	return q;
}

void *xreallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		mem_die(SIZE_MAX);
	return xrealloc(p, bytes);
}

char *xstrdup(const char *s)
{
	return xstrndup(s, strlen(s));
}

char *xstrndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *p = xmalloc(len + 1);

	memcpy(p, s, len);
	p[len] = '\0';
	return p;
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *p;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&p, fmt, ap);
	va_end(ap);
	if (n < 0)
		mem_die(0);
	return p;
}

/* Arena. */

struct chunk {
	struct chunk *next;
	size_t size;
	_Alignas(16) char bytes[];
};

struct arena {
	struct chunk *chunks; /* the first is the one in use */
	size_t used;          /* bytes used of the first */
	size_t next_size;
	size_t total;
};

struct arena *arena_new(void)
{
	struct arena *a = xcalloc(1, sizeof(*a));

	a->next_size = CHUNK_MIN;
	a->total = sizeof(*a);
	return a;
}

void arena_free(struct arena *a)
{
	if (!a)
		return;
	for (struct chunk *c = a->chunks, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	free(a);
}

static struct chunk *chunk_new(struct arena *a, size_t size)
{
	struct chunk *c;

	if (size > SIZE_MAX / 2)
		mem_die(size);
	c = xcalloc(1, sizeof(*c) + size);
	c->size = size;
	a->total += sizeof(*c) + size;
	return c;
}

static void *alloc_apart(struct arena *a, size_t n)
{
	struct chunk *c = chunk_new(a, n);

	if (a->chunks) {
		c->next = a->chunks->next;
		a->chunks->next = c;
	} else {
		a->chunks = c;
		a->used = n;
	}
	return c->bytes;
}

void *arena_alloc(struct arena *a, size_t n)
{
	size_t at = (a->used + ALIGN - 1) & ~(ALIGN - 1);
	struct chunk *c = a->chunks;

	if (!c || at > c->size || n > c->size - at) {
		if (n > a->next_size / 4)
			return alloc_apart(a, n);
		c = chunk_new(a, a->next_size - sizeof(*c));
		c->next = a->chunks;
		a->chunks = c;
		a->next_size = MIN(a->next_size * 2, CHUNK_MAX);
		at = 0;
	}
	a->used = at + n;
	return c->bytes + at;
}

void *arena_memdup(struct arena *a, const void *p, size_t n)
{
	void *q = arena_alloc(a, n);

	if (n)
		memcpy(q, p, n);
	return q;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *p = arena_alloc(a, len + 1);

	memcpy(p, s, len);
	return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	_cleanup_(freep) char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		text = NULL;
		mem_die(0);
	}
	return arena_strndup(a, text, (size_t)n);
}

size_t arena_bytes(const struct arena *a)
{
	return a->total;
}
