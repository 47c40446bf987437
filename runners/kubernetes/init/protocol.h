/* runners/kubernetes/init/protocol.h — the protocol between the sidecar (engine/pod/pod.h) and the
 * static helper `cairn-init`, process 1 of the main container.
 *
 * They exchange files in POD_RUN, a directory that both see. Each file is written under a temporary
 * name and renamed, so that it is complete when it appears. Both watch the directory with inotify.
 *
 *	placed          sidecar → its postStart hook: the helper is in POD_BIN, and an empty
 *	                directory or file of the right kind is at each place where main mounts
 *	                an input, so main may be created. Content comes later into the same
 *	                inodes, because mounts hold those. Large inputs are mounted out of the
 *	                node's cache (engine/pod/views.c)
 *	ready           sidecar → helper: all inputs are in place, `plan` exists
 *	failed          sidecar → hook, helper: why the program can't start; the helper ends with
 *	                INIT_EXIT_REFUSED
 *	alive           the helper locks it (flock, LOCK_EX) before it does anything else, and the
 *	                kernel unlocks it when the helper dies, for any reason. The sidecar ends
 *	                by itself as soon as the result is written and this lock is free. So the
 *	                kubelet sees both ends in one check; if it had to stop the sidecar,
 *	                that would take it two more
 *	plan            sidecar → helper: what to run, init_plan_*() below
 *	I/log           helper: all output of program I, without secrets; it goes to the
 *	                container's output, too
 *	I/exit          helper → sidecar: how program I ended, init_exit_*() below
 *	I/saved         sidecar → helper: "0" when its outputs are in the store, "1" when that
 *	                failed. After the last one the helper ends
 *	beat            the sidecar touches it every few seconds. When it is older than
 *	                INIT_STALE_S and nothing is saved, the helper ends with INIT_EXIT_SIDECAR
 *
 * The helper is linked statically, uses no name service or locales of the system, and runs in any
 * image as any user with a read-only root. As process 1 it reaps orphans, passes on SIGTERM,
 * SIGINT, SIGHUP, SIGUSR1 and SIGUSR2, sends SIGKILL after the grace time, and enforces the
 * timeout. It exits as the (last) program did: its status, or 128 + the signal.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_INIT_PROTOCOL_H
#define CAIRN_RUNNERS_KUBERNETES_INIT_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INIT_EXIT_REFUSED 121 /* the sidecar wrote `failed`, or the plan is unreadable */
#define INIT_EXIT_SIDECAR 122 /* the sidecar fell silent */
#define INIT_EXIT_UPLOAD  123 /* the program succeeded, but its outputs couldn't be stored */
#define INIT_STALE_S      120
#define INIT_PROGRAMS_MAX 256
/* The limit of I/log: nobody reads more, and it all goes into the store. */
#define INIT_LOG_MAX (16 * GIB)

struct init_program {
	const char *dir;              /* its working directory */
	const char *tmp;              /* its TMPDIR */
	const char *const *argv;      /* NULL-terminated */
	const char *const *env;       /* "NAME=value", added to the container's; NULL-terminated */
	const char *const *redact;    /* names of variables whose values are removed from the log */
	int64_t timeout_ns, grace_ns; /* timeout 0: none */
	/* Only the program gets the signal to end, not the processes that it started. */
	bool forwards_signals;
};

struct init_exit {
	int status; /* -1: a signal ended it */
	int signo;
	bool timed_out, told_to_end; /* timeout passed; the pod got the signal meanwhile */
	/* The kernel killed a process of the container for memory meanwhile (memory.events,
	 * memory.oom_control). */
	bool oom;
	int64_t started_ns, ended_ns, cpu_ns;
	uint64_t max_rss_bytes;
};

/* Encodes 1 to INIT_PROGRAMS_MAX programs: magic "cairn-plan 1\n", then fields, each after its
 * 4-byte little-endian length. The caller frees; *ret_len bytes. */
char *init_plan_encode(const struct init_program *programs, size_t n, size_t *ret_len);
/* The strings point into `bytes`, which it modifies. -1: malformed. */
int init_plan_decode(char *bytes, size_t len, struct init_program **ret, size_t *ret_n);
void init_plan_free(struct init_program *programs, size_t n);
/* One line of text, "exit 0 signal 0 timeout 0 told 0 oom 0 started N ended N cpu N rss N\n".
 * Returns its length, < cap. */
size_t init_exit_encode(const struct init_exit *e, char *buf, size_t cap);
int init_exit_decode(const char *text, struct init_exit *ret); /* hostile input; -1: malformed */

#endif
