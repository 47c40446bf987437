/* engine/base/os/process/namespace.h — what a program doesn't share with us: the mounts that it
 * sees, its network.
 *
 * Mounts: read-only directories become a part of its working directory, by an overlay (Linux 5.12).
 * What the program writes there stays in the overlay's upper directory. Nobody else sees the
 * mounts, and they end with the last process of the program.
 *
 * Network: own interfaces, ports and abstract Unix sockets; at first nothing but a loopback that is
 * down.
 *
 * Who may administrate the system needs nothing else. Others need a user namespace, which maps only
 * the own user and group: there sudo and other set-user-ID programs gain nothing, and files of
 * other owners seem to be nobody's. After exec such a program has no capability, unless it is
 * called root. Loop's thread only, except namespace_enter().
 */
#ifndef CAIRN_BASE_OS_PROCESS_NAMESPACE_H
#define CAIRN_BASE_OS_PROCESS_NAMESPACE_H

#include <stdbool.h>
#include "base/err.h"

/* Paths are absolute; everything is lent until the child has started. */
struct namespace_mounts {
	const char *dir;     /* becomes the overlay */
	int dir_number;      /* a descriptor that the child may use for `dir`: the caller's, open */
	const char *layers;  /* the child's working directory while it mounts */
	const char *options; /* of the overlay; its lower directories are relative to `layers` */
	const char *const *read_only; /* directories; NULL-terminated */
};

struct namespace_plan {
	int users;                             /* a user namespace to enter first; -1: none */
	bool network;                          /* its own network */
	bool loopback;                         /* whose loopback is up */
	const struct namespace_mounts *mounts; /* or NULL */
};

/* Overlay options longer than this don't fit into one call of mount(2). */
#define NAMESPACE_OPTIONS_MAX 4000

/* Whether this process needs a user namespace to make others. */
bool namespace_needs_users(void);
/* Makes a user namespace in which our user and group are themselves, if one is needed. *ret_fd is
 * for namespace_plan.users: -1 if not. ERR_UNSUPPORTED when the kernel doesn't allow it. Blocks for
 * some milliseconds. */
int namespace_users_new(int *ret_fd, struct err *err);
/* Tries in a process of its own whether the plan works, and, with mounts, whether `path` (relative
 * to mounts->dir) can be read there and written to. ERR_UNSUPPORTED. */
int namespace_try(const struct namespace_plan *p, const char *path, struct err *err);
/* Carries out the plan for the calling process. Makes only system calls: for a child before exec.
 * -1 with errno; *failed_at says what failed. With mounts the working directory is then undefined.
 */
int namespace_enter(const struct namespace_plan *p, const char **failed_at);

#endif
