/* engine/base/macros.h — the few macros that every file uses: cleanup by scope, array length,
 * bounds. */
#ifndef CAIRN_BASE_MACROS_H
#define CAIRN_BASE_MACROS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f)   __attribute__((__cleanup__(f)))
#define _printf_(a, b) __attribute__((__format__(__printf__, a, b)))
#define _noreturn_     __attribute__((__noreturn__))
#define _pure_         __attribute__((__pure__))

#define ARRAY_LEN(a)                    (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
/* Each argument is evaluated once; both are first converted to their common type, as in `a < b ? a
 * : b`. Not usable where the language requires a constant (the size of an array). */
#define MIN(a, b) PICK_(a, b, <, __COUNTER__)
#define MAX(a, b) PICK_(a, b, >, __COUNTER__)
#define PICK_(a, b, op, n) \
	PICK_NUMBERED_(a, b, op, n) /* with unique names, because calls may nest */
#define PICK_NUMBERED_(a, b, op, n) PICK_AS_(a, b, op, _a##n, _b##n)
#define PICK_AS_(a, b, op, x, y)                                          \
	({                                                                \
		__typeof__(1 ? (a) : (b)) x = (a), y = (b);               \
		if (0) /* makes the compiler warn of a sign comparison */ \
			(void)((a)op(b));                                 \
		x op y ? x : y;                                           \
	})

#define NS_PER_S  1000000000LL
#define NS_PER_MS 1000000LL
#define KIB       (1024ULL)
#define MIB       (1024ULL * 1024)
#define GIB       (1024ULL * 1024 * 1024)

/* For `_cleanup_(freep) char *p`. */
static inline void freep(void *p)
{
	free(*(void **)p);
}

/* For `_cleanup_(fd_closep) int fd`. Keeps errno. */
void fd_closep(int *fd);

/* Moves a value out of a variable that a cleanup would otherwise release. */
#define TAKE_PTR(p)                   \
	({                            \
		__auto_type _t = (p); \
		(p) = NULL;           \
		_t;                   \
	})
#define TAKE_FD(fd)            \
	({                     \
		int _t = (fd); \
		(fd) = -1;     \
		_t;            \
	})

#endif
