/* engine/serve/daemon.h — `cairn serve`: schedules, their runs, HTTP and notifications of some
 * projects, in one process, for months.
 *
 * Signals: SIGHUP loads everything again (a broken edit keeps the old version). SIGTERM and SIGINT
 * drain: nothing new begins, and runs may go on for drain_ns; then they are asked to stop and stay
 * resumable. A second signal asks them at once. A third one leaves them alone and ends the daemon.
 *
 * The loop's thread owns everything except what web.h and calls.h say. daemon_run() returns when
 * the daemon has ended.
 */
#ifndef CAIRN_SERVE_DAEMON_H
#define CAIRN_SERVE_DAEMON_H

#include "runners/kubernetes/api/access.h"
#include "serve/access/access.h"
#include "serve/project/project.h"

#define DAEMON_DEFAULT_LISTEN "127.0.0.1:8410"
#define DAEMON_PROJECTS_MAX   64
#define DAEMON_LISTEN_MAX     8

/* Of several servers with the same projects only this Lease's holder works; the others stand by. */
struct daemon_lease {
	const struct kube_access *access;
	const char *name;
	int64_t duration_ns; /* 0: 15 s; else at least 1 s */
};

struct daemon_options {
	const char *const *projects; /* directories; at least one */
	size_t n_projects;
	const char *const *pipelines; /* in the (only) project's root; none: all with schedules */
	size_t n_pipelines;
	/* Addresses; none: systemd's sockets, else DAEMON_DEFAULT_LISTEN. */
	const char *const *listen;
	size_t n_listen;
	bool no_http;
	struct access_options access;
	const char *tls_cert, *tls_key; /* files, or NULL */
	/* Called once, when requests are answered, with the first address and a token that is worth
	 * an admin's session once. Or NULL. */
	void (*serving)(void *arg, struct loop *l, const char *address, const char *once);
	void *arg;
	int64_t drain_ns;
	unsigned max_runs; /* at once; 0: no limit for schedules, RUNS_AT_ONCE for other runs */
	bool log_json;
	int verbosity;
	const struct daemon_lease *lease; /* or NULL */
};

/* 0: ended in order; ERR_BUSY: the lease was lost. */
int daemon_run(const struct daemon_options *o, struct err *err);

#endif
