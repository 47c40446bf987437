/* runners/runner.h — where attempts execute. The engine knows this table and nothing behind it.
 *
 * An attempt is plain facts: what to run, which content belongs at which path, which outputs are
 * expected. The runner brings the inputs to the program, runs it, brings the outputs into the
 * store, and reports facts. It doesn't retry, cache or decide. Runners don't know the store: their
 * maker gives them a `struct runner_staging` (see engine/run/task/staging.h).
 *
 * All calls and all reports are on the loop's thread, except runner_staging's, which run on a
 * worker. Pointers in a runner_attempt stay valid until its last report (finished) has returned.
 */
#ifndef CAIRN_RUNNERS_RUNNER_H
#define CAIRN_RUNNERS_RUNNER_H

#include "base/crypto/digest.h"
#include "base/failure.h"
#include "base/os/loop.h"
#include "base/text/str.h"

/* Every attempt starts with this umask on every runner, so that the file modes in a result (in an
 * archive) are the same for every user. */
#define RUNNER_UMASK 022

struct runner_input {
	const char *name; /* as declared by the step */
	const char *path; /* its place, relative to the working directory: no "..", not absolute */
	struct content_id id;
	/* It isn't brought, but mounted read-only on a cluster: "claim://NAME[/PATH]", or
	 * "image://NAME@DIGEST[/PATH]"; or NULL. */
	const char *volume;
	/* It isn't copied, but mounted read-only out of the node's cache, as this view of its pod,
	 * counted from 1 (runners/kubernetes/job/views.c); 0: it is copied. Only the Kubernetes
	 * runner sets it. */
	uint32_t view;
};

struct runner_output {
	const char *name;
	const char *path; /* relative to the working directory */
	bool is_dir;      /* declared with a trailing slash */
};

struct runner_resources {
	uint32_t cpu_milli;
	uint64_t memory_bytes; /* 0: not stated */
	uint32_t gpus;
	uint32_t gpu_ids[16]; /* `gpus` of them, chosen by the scheduler (local runner) */
};

/* Several nodes that start, run and end together; or, with `min_nodes`, at least so many of them,
 * which come and go while they run. */
struct runner_gang {
	const char *framework; /* NULL: one node */
	uint32_t nodes, procs_per_node, servers;
	uint32_t min_nodes; /* 0: all of them */
};

/* What an attempt on this machine can see and reach (runners/sandbox.h). */
enum runner_network {
	RUNNER_NETWORK_HOST,
	RUNNER_NETWORK_LOOPBACK, /* an own loopback, and nothing else */
	RUNNER_NETWORK_NONE,
};
struct runner_sandbox {
	bool strict; /* only what is declared, and the system */
	enum runner_network network;
	const char *project_dir;  /* absolute, without links */
	const char *const *tools; /* commands whose programs are declared; NULL-terminated */
};

/* A node that holds large inputs of an attempt already, and how many of them: percent. */
struct runner_near {
	const char *node;
	uint32_t weight;
};
#define RUNNER_NEAR_MAX 4 /* more choice is of no use: each is only preferred */

/* What only a cluster uses of an attempt. */
struct runner_cluster {
	const char *step;  /* name of the step */
	const char *image; /* "registry/name@sha256:…"; NULL: Cairn's own (built-in steps)
			    */
	/* Volumes, spot, resources by name, Kubernetes (model/step/placement.h); or NULL. */
	const char *placement_json;
	struct runner_gang gang;
	uint32_t pack;      /* how many of the step's attempts may share a pod; 0, 1: none */
	uint32_t disrupted; /* so many earlier attempts ended as preempted or lost */
	/* An earlier attempt ended as FAILURE_STORE, perhaps for what a node keeps: its inputs are
	 * copies. */
	bool copies;
	const struct runner_near *near; /* the heaviest first, RUNNER_NEAR_MAX at most */
	size_t n_near;
};

/* What only the local runner uses. */
struct runner_machine {
	bool shell;  /* interactive: the terminal is the program's */
	bool copies; /* its inputs are never links */
	/* Report undeclared files that it reads (runners/audit.h); NULL: don't. */
	const struct runner_audit *audit;
	const struct runner_sandbox *sandbox; /* NULL: none */
};

/* One attempt to execute. Everything is borrowed. */
struct runner_attempt {
	uint64_t id; /* unique in the project for ever; submit is idempotent by it */
	const char *run_id;
	const char *task; /* label for people: "train[fold=0]" */
	unsigned number;  /* 1 for the first attempt of the task */
	const struct digest *key;
	const char *const *argv; /* NULL-terminated */
	const char *const *env;  /* "NAME=value": what the step declares and what the engine adds,
				    without the host's variables */
	const char *const *secrets; /* "NAME=value": given to the program, redacted from its log;
				       never stored */
	const struct runner_input *inputs;
	size_t n_inputs;
	const struct content_id *code; /* tree laid over the working directory first, or NULL */
	const struct runner_output *outputs;
	size_t n_outputs;
	const char *metrics_path; /* file to read after exit 0, or NULL */
	/* What series_poll() (series/series.h) reads while the program runs, reported by `metric`;
	 * or NULL. */
	const char *series_path;
	/* Directory that is kept per key, or NULL. It appears at this path with what earlier
	 * attempts of the key left there. It outlives this attempt, however that ends, until
	 * drop_checkpoint(). */
	const char *checkpoint_path;
	int64_t timeout_ns; /* 0: none */
	int64_t grace_ns;   /* between SIGTERM and SIGKILL */
	struct runner_resources resources;
	/* SIGTERM goes to the program only, which passes it on to its children. */
	bool forwards_signals;
	bool keep_workspace;         /* leave the working directory where it is, whatever happens */
	struct runner_machine local; /* this machine only */
	struct runner_cluster on;    /* a cluster only */
};

struct runner_result {
	enum failure_class failure; /* FAILURE_NONE: exit 0 and every output collected */
	int exit_status;            /* -1 when a signal ended it */
	int signo;
	int64_t started_ns, ended_ns; /* wall clock of the program itself */
	uint64_t max_rss_bytes;
	int64_t cpu_ns;
	/* n_outputs of them when failure is NONE or GATE; CONTENT_NONE for a missing one. */
	struct content_id *outputs;
	char *metrics_json;    /* bytes of metrics_path, NUL-terminated, or NULL; at most 1 MiB */
	struct content_id log; /* CONTENT_NONE when it printed nothing */
	char *log_tail;        /* the last lines, at most 4 KiB, for the error message; or NULL */
	char *workspace;       /* where it ran, when it was kept; or NULL */
	char *continues;  /* ids of the attempts whose checkpoint it continued, "12 15"; NULL: it
			     began without one */
	char *undeclared; /* the undeclared files that an audited attempt read, one a line, "" when
			     there are none; NULL: no audit */
	const char *node; /* host name */
	struct err err;   /* why, when failure isn't NONE */
};

/* Reports. The engine journals before it relies on them. The runner owns `result` and its content.
 */
struct runner_events {
	void (*started)(void *arg, uint64_t attempt_id, int64_t wall_ns, pid_t pid);
	/* The newest numbers of a series, at most once a second; before them the SERIES_STEP
	 * (series/series.h) where they belong. They are for people, and stop bad trials of a sweep;
	 * they aren't recorded. May be NULL. */
	void (*metric)(void *arg, uint64_t attempt_id, const char *name, double value);
	/* Whether somebody looks at this attempt's series now: a runner whose programs write it on
	 * another machine asks before it fetches points. Cheap. May be NULL: nobody does. */
	bool (*watched)(void *arg, uint64_t attempt_id);
	/* Points of a watched series that weren't reported yet, oldest first: a JSON object of
	 * numbers a line, with SERIES_STEP and `wall_time` (seconds). Set when `watched` is. */
	void (*points)(void *arg, uint64_t attempt_id, const char *lines, size_t n);
	/* Its program has ended, well so far, and none of its processes is left: what it used of
	 * the machine is free. The runner now takes in its outputs; finished() follows, and may
	 * still report a failure. May be NULL; a runner need not call it. */
	void (*exited)(void *arg, uint64_t attempt_id);
	void (*finished)(void *arg, uint64_t attempt_id, struct runner_result *result);
	/* Called when the reason why a submitted attempt doesn't run yet changes. `why` is for
	 * people ("no node has 2 nvidia.com/gpu"); NULL: nothing holds it up any more. May be NULL.
	 */
	void (*waiting)(void *arg, uint64_t attempt_id, const char *why);
	void *arg;
};

struct runner;
struct runner_ops {
	const char *name; /* "local", "kubernetes", "fake" */
	/* Attempts survive the engine's death. A resumed run submits each unfinished attempt again,
	 * unchanged (the same id, number and key), and submit() takes it up. */
	bool durable;
	int (*submit)(struct runner *r, const struct runner_attempt *a, struct err *err);
	/* Takes up an attempt that an earlier engine submitted: 1 adopted (reports will follow), 0
	 * it is gone. A durable runner gets this call for one attempt of a resumed run, before any
	 * submit() or forget(). It only tells the runner that the run existed before; the runner
	 * finds a living attempt when it is submitted again. */
	int (*adopt)(struct runner *r, const struct runner_attempt *a, struct err *err);
	/* The end of an attempt is on record: the runner may remove what it kept of the attempt.
	 * Idempotent. NULL: it keeps nothing. */
	void (*settled)(struct runner *r, uint64_t attempt_id);
	/* Removes what a dead engine left of an attempt that had ended (its workspace); cheap when
	 * nothing is left. NULL: nothing is ever left. */
	void (*forget)(struct runner *r, uint64_t attempt_id);
	/* Removes the checkpoint of this key, because its result is on record or it must start
	 * anew. NULL: no checkpoints are kept. */
	void (*drop_checkpoint)(struct runner *r, const struct digest *key);
	/* Ids of attempts that still have something here: running ones, kept workspaces, leftovers
	 * of dead engines. Caller frees *ret. NULL: there are never any. */
	size_t (*leftovers)(struct runner *r, uint64_t **ret);
	/* gentle: TERM, grace time, KILL. Otherwise KILL. `finished` with FAILURE_CANCELLED
	 * follows. */
	void (*cancel)(struct runner *r, uint64_t attempt_id, bool gentle);
	void (*free)(struct runner *r);
};
struct runner {
	const struct runner_ops *ops;
	struct runner_events events; /* set by the engine before the first submit */
};

/* How the inputs of an attempt get into its working directory. */
enum runner_place {
	RUNNER_PLACE_COPIES, /* reflinks where the file system has them */
	/* Hard links of the store's files, which the program must not be able to write to. */
	RUNNER_PLACE_LINKS,
	RUNNER_PLACE_VIEWS, /* not at all: the runner mounts views of them */
	RUNNER_PLACE_ASK,   /* not decided yet */
};

/* A directory in the store that has one input; `fd` keeps it there until it is closed. */
struct runner_view {
	int fd;
	char name[48]; /* below `views` in the store's directory */
};

struct runner_placing {
	/* What the runner wants for inputs of `from` bytes or more in all; fewer are copies. */
	enum runner_place want;
	uint64_t from;
	bool or_copies;     /* where the store can't have views; else that is an error */
	const char *prefix; /* in a view an input lies at PREFIX/PATH */
	bool spares; /* each input is a file that is there, writable: its bytes are replaced */
	/* What prepare() did. ASK: nothing yet, because they are so many; call it again. */
	enum runner_place did;
	struct runner_view *views; /* one for each input (VIEWS); the caller closes and frees */
};

/* Brings content to a working directory and back. Called on worker threads; one thread at a time
 * works on a workspace. */
struct runner_staging {
	/* Makes `a`'s code and inputs appear under dir_fd, and creates the parents of its outputs.
	 */
	int (*prepare)(void *arg, const struct runner_attempt *a, int dir_fd,
		       struct runner_placing *placing, struct err *err);
	/* Takes the declared outputs from dir_fd into the store. ret_ids has a->n_outputs places.
	 * `did`: how prepare() placed the inputs; an output may be a link to one.
	 * ERR_NOT_FOUND when a declared output is missing (message names it), ERR_INVALID when it
	 * is of the wrong kind, other codes when the store fails. */
	int (*collect)(void *arg, const struct runner_attempt *a, int dir_fd, enum runner_place did,
		       struct content_id *ret_ids, struct err *err);
	/* Puts the finished log, open at fd, into the store; *ret is set only on success. */
	int (*put_log)(void *arg, int fd, struct content_id *ret, struct err *err);
	/* For runners on other machines (may be NULL for the local one). publish: puts `bytes`, and
	 * makes sure that pods can reach it and everything that `attempts` read (ERR_IO: sending
	 * failed; ERR_NOT_FOUND: content is gone). fetch: a blob of at most `max` bytes. takes:
	 * whether laying it out takes `bytes` or more. drop_checkpoint: as runner_ops', in the
	 * store. */
	int (*publish)(void *arg, const struct runner_attempt *const *attempts, size_t n,
		       const void *bytes, size_t n_bytes, struct content_id *ret, struct err *err);
	int (*fetch)(void *arg, const struct content_id *id, uint64_t max, struct str *ret,
		     struct err *err);
	int (*takes)(void *arg, const struct content_id *id, uint64_t bytes, bool *ret,
		     struct err *err);
	int (*drop_checkpoint)(void *arg, const struct digest *key, struct err *err);
	void *arg;
};

/* Local: processes on this machine. */

/* How inputs get into workspaces. */
enum runner_inputs {
	RUNNER_INPUTS_COPIED, /* as copies; reflinks where the file system has them */
	/* Where there are no reflinks: large ones as mounts (mounts.h), else as links (links.h),
	 * else as copies. */
	RUNNER_INPUTS_AUTO,
	RUNNER_INPUTS_LINKED,  /* as links; links_check() has succeeded */
	RUNNER_INPUTS_MOUNTED, /* as mounts; mounts_check() has succeeded */
};

struct runner_local_options {
	const char *state_dir; /* absolute; holds work/<attempt>/ (log in it) and checkpoints/ */
	enum runner_inputs inputs;
	const char *store_dir; /* absolute: its files may become links; lent. NULL with COPIED */
	struct runner_staging staging;
	unsigned n_workers; /* threads for staging; 0: one per CPU */
};
int runner_local_new(struct loop *l, const struct runner_local_options *o, struct runner **ret,
		     struct err *err);
/* Where the log of a running attempt is, for `cairn logs -f`. Caller frees. */
char *runner_local_log_path(const char *state_dir, uint64_t attempt_id);
/* Where its program works meanwhile. Caller frees. */
char *runner_local_workspace(const char *state_dir, uint64_t attempt_id);

/* Fake: for tests; needs no machine, store or time. */

struct runner_fake_options {
	uint64_t seed;
	/* Decides how an attempt ends; NULL: all succeed. Fills failure, duration and outputs
	 * (n_outputs places). Must be a pure function of the attempt and the seed for runs to be
	 * comparable. */
	void (*script)(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		       int64_t *ret_duration_ns, struct content_id *ret_outputs,
		       char **ret_metrics_json);
	/* Not durable: this long after the program of an attempt has ended well, the attempt has
	 * ended; exited() is called between. 0: it isn't. */
	int64_t taking_in_ns;
	/* Durable only: false when the engine is dead, and then its calls have no effect. Checked
	 * before and after each effect. NULL: the engine is alive. */
	bool (*alive)(void *arg);
	void *arg;
};
int runner_fake_new(struct loop *l, const struct runner_fake_options *o, struct runner **ret,
		    struct err *err);
/* What the fake saw, for assertions. */
size_t runner_fake_submitted(const struct runner *r);
size_t runner_fake_running(const struct runner *r);   /* programs */
size_t runner_fake_taking_in(const struct runner *r); /* attempts whose program has ended */

/* A durable one. Attempts belong to a world, which stands for a cluster and outlives runners and
 * engines. The world makes one Job for a submitted attempt, or for several attempts that may share
 * it. The Job runs whether or not anybody watches, and stays with its result until all its attempts
 * are settled. A runner learns of the world's Jobs a while after its first request. Until then,
 * only a runner that knows of earlier attempts (adopt) waits. */
struct runner_fake_world;
struct runner_fake_world *runner_fake_world_new(struct clock *c,
						const struct runner_fake_options *o);
void runner_fake_world_free(struct runner_fake_world *w); /* after its runners */
int runner_fake_durable_new(struct loop *l, struct runner_fake_world *w, struct runner **ret,
			    struct err *err);
size_t
runner_fake_world_jobs(const struct runner_fake_world *w); /* those that exist, running or ended */
/* How often the program of this attempt was started, in any Job. */
unsigned runner_fake_world_executions(const struct runner_fake_world *w, uint64_t attempt_id);

#endif
