/* engine/base/mem.h — memory: allocation that can't fail, and arenas.
 *
 * Running out of memory is fatal by design: x* functions print one line on stderr and _exit(4).
 * That is safe, because the engine survives kill -9 at any point. Callers limit sizes that come
 * from outside.
 *
 * An arena frees all at once. Not thread-safe; one owner.
 */
#ifndef CAIRN_BASE_MEM_H
#define CAIRN_BASE_MEM_H

#include "base/macros.h"

void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size); /* overflow-checked */
void *xrealloc(void *p, size_t n);
void *xreallocarray(void *p, size_t n, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) _printf_(1, 2);
_noreturn_ void mem_die(size_t n);

struct arena;
struct arena *arena_new(void);
void arena_free(struct arena *a); /* NULL is fine */
static inline void arena_freep(struct arena **a)
{
	arena_free(*a);
}
void *arena_alloc(struct arena *a, size_t n); /* zeroed, aligned to 16 */
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);
void *arena_memdup(struct arena *a, const void *p, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) _printf_(2, 3);
size_t arena_bytes(const struct arena *a); /* bytes taken from the system */

/* Growing array: struct { T *v; size_t n, cap; } name; VEC_PUSH(&name, value). Free name.v. */
#define VEC(T)                 \
	struct {               \
		T *v;          \
		size_t n, cap; \
	}
#define VEC_GROW(vec)                                                                      \
	do {                                                                               \
		if ((vec)->n == (vec)->cap) {                                              \
			(vec)->cap = (vec)->cap ? (vec)->cap * 2 : 8;                      \
			(vec)->v = xreallocarray((vec)->v, (vec)->cap, sizeof(*(vec)->v)); \
		}                                                                          \
	} while (0)
#define VEC_PUSH(vec, value)                    \
	do {                                    \
		VEC_GROW(vec);                  \
		(vec)->v[(vec)->n++] = (value); \
	} while (0)
#define VEC_ADD(vec)                                    \
	({                                              \
		VEC_GROW(vec);                          \
		__auto_type _e = &(vec)->v[(vec)->n++]; \
		__builtin_memset(_e, 0, sizeof(*_e));   \
		_e;                                     \
	})
#define VEC_FREE(vec)                      \
	do {                               \
		free((vec)->v);            \
		(vec)->v = NULL;           \
		(vec)->n = (vec)->cap = 0; \
	} while (0)
/* Moves the content out, into a new vector (`__auto_type taken`) that the caller VEC_FREEs. The old
 * one is then empty. */
#define VEC_TAKE(vec)                        \
	({                                   \
		__auto_type _taken = *(vec); \
		(vec)->v = NULL;             \
		(vec)->n = (vec)->cap = 0;   \
		_taken;                      \
	})
/* Copies the content to *ret (an array in the arena, never NULL) and *ret_n, and frees the vector.
 */
#define VEC_TO_ARENA(vec, arena, ret, ret_n)                                              \
	do {                                                                              \
		*(ret) = arena_alloc((arena), ((vec)->n + 1) * sizeof(*(vec)->v));        \
		if ((vec)->n)                                                             \
			__builtin_memcpy(*(ret), (vec)->v, (vec)->n * sizeof(*(vec)->v)); \
		*(ret_n) = (vec)->n;                                                      \
		VEC_FREE(vec);                                                            \
	} while (0)

#endif
