/* runners/kubernetes/init/protocol.h — what the sidecar (engine/pod/pod.h) and the static helper
 * `cairn-init`, process 1 of the main container, tell each other.
 *
 * They do so by files in POD_RUN, a directory that both see. Each is written under another name and
 * renamed, so that it is whole when it is there. Both watch the directory with inotify.
 *
 *	placed          sidecar → its postStart hook: the helper is in POD_BIN, and there is
 *	                something of the right kind (an empty directory, an empty file) wherever
 *	                main mounts an input: main may be made. Content comes in place later: the
 *	                same inodes, since mounts hold them
 *	ready		sidecar → helper: everything is laid out, `plan` is there
 *	failed          sidecar → hook, helper: why the program can't start; the helper ends with
 *	                INIT_EXIT_REFUSED
 *	alive           locked by the helper (flock, LOCK_EX) from before it does anything else: the
 *	                kernel lets go of it when it dies, however it dies. The sidecar ends by
 *	                itself as soon as the result is written and this is free: the kubelet
 *	                sees both ends in one look, where telling the sidecar to end takes it
 *	                two more
 *	plan		sidecar → helper: what to run, init_plan_*() below
 *	I/log           helper: all that program I printed, secrets taken out; it goes to the
 *	                container's output, too
 *	I/exit		helper → sidecar: how program I ended, init_exit_*() below
 *	I/saved         sidecar → helper: "0" when its outputs are in the store, "1" when that
 *	                failed. After the last one the helper ends
 *	beat            sidecar: touched every few seconds while it lives; stale for INIT_STALE_S
 *	                with nothing saved: the helper ends with INIT_EXIT_SIDECAR
 *
 * The helper is linked statically, makes no use of names or locales of the system, and runs in any
 * image as any user with a read-only root. As process 1 it reaps what is left over, passes SIGTERM,
 * SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 on, sends SIGKILL after the grace time, and enforces the
 * timeout. It exits as the (last) program did: its status, or 128 + the signal.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_INIT_PROTOCOL_H
#define CAIRN_RUNNERS_KUBERNETES_INIT_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INIT_EXIT_REFUSED 121 /* the sidecar said `failed`, or the plan can't be read */
#define INIT_EXIT_SIDECAR 122 /* the sidecar fell silent */
#define INIT_EXIT_UPLOAD  123 /* the program ended well, but its outputs couldn't be kept */
#define INIT_STALE_S      120
#define INIT_PROGRAMS_MAX 256
/* Of I/log: nobody reads more, and it all goes into the store. */
#define INIT_LOG_MAX (16 * GIB)

struct init_program {
	const char *dir;              /* its working directory */
	const char *tmp;              /* its TMPDIR */
	const char *const *argv;      /* NULL-terminated */
	const char *const *env;       /* "NAME=value", added to the container's; NULL-terminated */
	const char *const *redact;    /* names of variables whose values are taken out of the log */
	int64_t timeout_ns, grace_ns; /* timeout 0: none */
	bool forwards_signals;        /* the program alone is told to end, not what it started */
};

struct init_exit {
	int status; /* -1: a signal ended it */
	int signo;
	bool timed_out, told_to_end; /* the timeout passed; the pod was told to end while it ran */
	bool oom; /* the kernel killed something of the container for memory meanwhile
		     (memory.events, memory.oom_control) */
	int64_t started_ns, ended_ns, cpu_ns;
	uint64_t max_rss_bytes;
};

/* A plan of 1 to INIT_PROGRAMS_MAX programs as bytes: magic "cairn-plan 1\n", then fields of a
 * 4-byte little-endian length each. The caller frees; *ret_len bytes. */
char *init_plan_encode(const struct init_program *programs, size_t n, size_t *ret_len);
/* The strings point into `bytes`, which is written to. -1: malformed. */
int init_plan_decode(char *bytes, size_t len, struct init_program **ret, size_t *ret_n);
void init_plan_free(struct init_program *programs, size_t n);
/* One line of text, "exit 0 signal 0 timeout 0 told 0 oom 0 started N ended N cpu N rss N\n".
 * Returns its length, < cap. */
size_t init_exit_encode(const struct init_exit *e, char *buf, size_t cap);
int init_exit_decode(const char *text, struct init_exit *ret); /* hostile; -1: malformed */

#endif
