/* runners/kubernetes/internal.h — the runner's state, shared by its files.
 *
 * A job is a Job of the cluster, or an operator's object in its place (job/kind.h), and what we
 * know of it. It holds bundles. A bundle is the attempts that one of its pods executes (one, or a
 * pack), or that all pods of a gang execute. A job has one bundle, or, as an array, one for each
 * index. A job is found by the id of its first attempt, which is its label; a bundle by each of its
 * attempts. Facts come in through the inbox (kubernetes/watch.c). job_reconcile() reconciles them
 * with what was reported so far (kubernetes/reconcile.c). Slow work and requests run on a thread of
 * the pool (kubernetes/requests.c, kubernetes/end.c), which owns everything that it touches.
 *
 * A job lives from its submission, or from the first event about it, until it is deleted on the
 * cluster; its bundles live as long. */
#ifndef CAIRN_RUNNERS_KUBERNETES_INTERNAL_H
#define CAIRN_RUNNERS_KUBERNETES_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/map.h"
#include "base/time/clock.h"
#include "runners/kubernetes/api/watch.h"
#include "runners/kubernetes/facts.h"
#include "runners/kubernetes/job/pod_spec.h"
#include "runners/kubernetes/runner.h"

struct kube;
struct job;
struct bundle;

/* An attempt that the engine waits for. */
struct member {
	struct kube *k;
	struct arena *arena;
	const struct runner_attempt *a; /* in it */
	struct bundle *b;               /* NULL: not in a Job yet */
	bool started;                   /* the start was reported */
	bool cancelled, hard;
	int64_t points_ns; /* time of the last point of its series that was reported; 0 */
	char *waiting;     /* the last reason that was reported; NULL: none */
};

struct pod {
	struct pod_facts f;
	uint64_t generation; /* of the list that contained it */
	enum {
		POD_LEFT_ALONE,
		POD_TOLD,
		POD_KILLED
	} end_asked; /* how we have deleted it: with its grace time, or without */
};

enum bundle_state {
	BUNDLE_OPEN,     /* not ended, as far as we know */
	BUNDLE_ENDING,   /* a worker reads its result */
	BUNDLE_REPORTED, /* all members have been reported */
};
struct bundle {
	struct kube *k;
	struct job *j;
	unsigned index;    /* in it */
	VEC(uint64_t) ids; /* of the attempts that the bundle was made for */
	VEC(struct member *) members;
	enum bundle_state state;
	unsigned nodes;     /* at most */
	unsigned min_nodes; /* of an elastic gang; else 0 */
	VEC(struct pod *) pods;

	/* progress */
	enum kube_stage stage;
	int64_t stage_ns;         /* monotonic: when we saw it reach the stage */
	int64_t first_running_ns; /* for several nodes: when the first one ran; 0 */
	int64_t podless_ns;       /* since when it is over without a known pod; 0: it isn't */
	int64_t unexplained_ns;   /* since when its pod has ended unexplained; 0: it isn't so */
	int64_t fetched_ns;       /* when to ask an unreachable store for the result again; 0 */
	int64_t reported_ns;
	int64_t asked_ns;  /* last request for events of its pod */
	int64_t series_ns; /* last request for numbers of a training */
	char *trouble;     /* message of its pod's events; NULL: none */
	bool cancelled;
	enum failure_class imposed; /* we ended it: its time was up, … */
	enum err_code imposed_code;
	char *imposed_text;
};

enum job_state {
	JOB_SEEN,   /* an event showed it; nobody has submitted it (yet) */
	JOB_MAKING, /* on a worker */
	JOB_PAUSED, /* not created yet, or that failed; retried at `again_ns` */
	JOB_THERE,  /* exists, or did */
};
struct job {
	struct kube *k;
	uint64_t id;                  /* of the first attempt */
	const struct kube_kind *kind; /* the Job of Kubernetes, or an operator's object instead */
	enum job_state state;
	struct kube_capacity capacity;
	VEC(struct bundle *) bundles; /* by index; at least one */
	char name[64];
	char uid[64];           /* "" unknown */
	struct content_id spec; /* once published */

	struct job_facts f;
	uint64_t generation;
	bool seen, gone; /* seen: f is known; gone: it doesn't exist any more */

	int64_t refused_ns;            /* monotonic: since when answers don't bring a Job; 0 */
	enum failure_class refused_as; /* the failure class if that goes on */
	unsigned tries;
	int64_t again_ns;
	int64_t asked_ns; /* last request for events */
	char *trouble;    /* why it couldn't be created, or the message of its events; NULL: none */
	bool deleting, deleted;
	int64_t released_ns; /* wall clock of the cluster: when its deletion was asked for; 0 */
	/* For a gang of a dead engine: its Service and policy may be missing; they are being
	 * created. */
	bool incomplete, repairing;
};

/* From a watch's thread to the loop's. */
struct watch_event {
	enum { WATCHED_JOB, WATCHED_POD } kind;
	const struct kube_kind *of; /* of Jobs: which kind */
	enum kube_event event;
	/* Instead of an object: the server can't be reached; it refuses us; it knows no such
	 * objects */
	bool trouble, denied, unknown;
	struct job_facts job;
	struct pod_facts pod;
	char *text;
	struct watch_event *next;
};
struct inbox {
	pthread_mutex_t lock;
	pthread_cond_t room;
	struct watch_event *first, **last;
	size_t n;
	bool closed;
	int fd; /* eventfd: the inbox isn't empty */
};

/* The state of one watch. */
struct view {
	struct kube *k;
	int kind;
	const struct kube_kind *of; /* of Jobs: which kind */
	struct kube_watch *watch;
	uint64_t generation;
	bool synced;
	bool troubled;     /* the server can't be reached */
	int64_t denied_ns; /* monotonic: since when it refuses us (401, 403); 0: it doesn't */
};

struct kube_watches {
	char *run_id;                 /* the watched run; NULL: none yet */
	struct view jobs[KUBE_KINDS]; /* by kind; only those that the run uses have a watch */
	struct view pods;
	char *trouble; /* why the server can't be reached, until both watches work; NULL: it can */
	bool shut_out; /* and it refuses us: we can't see how an attempt ends */
};

struct kube_index {
	struct map *members; /* attempt id → struct member * */
	struct map *jobs;    /* id of a first attempt → struct job * */
	struct map *holders; /* attempt id → struct bundle * that holds it */
	/* Attempt id → DONE: its end is on record; DELETED: its Job is gone, too. */
	struct map *done;
};

struct kube_questions {
	bool events, series; /* a request is under way, for any bundle */
	int64_t asked_ns;    /* last request; 0: never */
};

struct kube {
	struct runner base;
	struct loop *loop;
	struct runner_kubernetes_options o;
	int64_t save_within_ns; /* how long to wait for an unreachable store: the profile's */
	struct kube_client *client;
	struct pool *pool;
	struct kube_watches watches;
	struct inbox inbox;
	struct loop_source *inbox_source, *ticker, *flusher;
	bool leaving;        /* the runner is being freed: remove everything removable now */
	bool resumed;        /* earlier Jobs may exist: create nothing before they are known */
	atomic_bool closing; /* workers start nothing new */
	struct kube_index by_id;
	VEC(struct member *) held;  /* submitted, not in a bundle yet */
	int64_t held_ns, joined_ns; /* when the first and the last of them were submitted */
	size_t n_waiting;           /* members in Jobs that haven't started */
	struct kube_questions questions;
	int64_t skew_ns; /* added to our wall clock gives the cluster's, as its time stamps show */
	char node[256];
};

#define DONE    ((void *)1)
#define DELETED ((void *)2)

static inline struct kube *kube_of(struct runner *r)
{
	return CONTAINER_OF(r, struct kube, base);
}
static inline int64_t kube_mono(const struct kube *k)
{
	struct clock *c = loop_clock(k->loop);

	return c->mono_ns(c);
}
static inline int64_t kube_wall(const struct kube *k)
{
	struct clock *c = loop_clock(k->loop);

	return c->wall_ns(c);
}

/* kubernetes/jobs.c */
struct job *job_of(struct kube *k, uint64_t id); /* by its first attempt; created when unknown */
struct bundle *job_bundle(struct job *j, unsigned index); /* created when missing */
/* Takes over from the Job which attempts belong to which bundle. Members that the Job doesn't cover
 * are held again.
 */
void job_take_layout(struct job *j, const struct job_facts *f);
/* Forgets pods that its Job (whose uid is known now) doesn't control. */
void job_purge(struct job *j);
bool job_owns(const struct job *j, const struct pod_facts *f); /* as far as we know */
bool job_is_cancelled(const struct job *j); /* all members that wait for it are */
/* Deletes the Job when the ends of all its attempts are on record; before that, only its parts that
 * aren't needed any more. May free the job and its bundles. */
void job_settle(struct job *j);
/* Not while a worker has it (JOB_MAKING) or one of its bundles (BUNDLE_ENDING). */
void job_free(struct job *j);
void bundle_join(struct bundle *b, struct member *m);
bool bundle_hard(const struct bundle *b); /* all its waiting members: without grace */

/* runner.c */
void runner_hold(struct kube *k, struct member *m); /* puts it into a Job soon */
void runner_flush(struct kube *k);                  /* finds or makes Jobs for the held members */
void member_report(struct member *m, struct runner_result *r); /* finished(); frees it */

/* kubernetes/watch.c */
/* The run's pods and Jobs, and the objects of that kind. */
int runner_watch(struct kube *k, const char *run_id, const struct kube_kind *kind, struct err *err);
bool runner_has_list(const struct kube *k); /* of all Jobs, of each kind that is watched */
int inbox_open(struct kube *k, struct err *err);
void inbox_close(struct kube *k); /* no news comes after this */

/* kubernetes/reconcile.c */
/* Both may free the job and its bundles when it is gone. */
void job_reconcile(struct job *j);
void bundle_reconcile(struct bundle *b);
void bundle_impose(struct bundle *b, enum failure_class class, const char *fmt, ...) _printf_(3, 4);
void runner_reconcile_all(struct kube *k);

/* kubernetes/requests.c: blocking work */
void job_make(struct job *j); /* a paused job with at least one member */
/* For a gang whose earlier engine died: creates the objects that are missing. */
void job_repair(struct job *j);
void job_delete(struct job *j);                          /* Background, precondition: its uid */
void bundle_delete_pods(struct bundle *b, bool at_once); /* living ones */
void bundle_forget_pods(struct bundle *b);               /* ended ones */
/* Deletes Jobs of the run whose attempts' ends are on record; on the caller's thread. */
void runner_sweep(struct kube *k);

/* kubernetes/events.c: the newest warning becomes the `trouble` of the Job or of the bundle */
void kube_ask_events(struct job *j); /* or those of Kueue's Workload for it */
struct kube_log_part {
	unsigned lines;   /* the last ones; 0: all, up to max_bytes */
	bool before;      /* of the container before its last restart */
	bool stamped;     /* each line begins with its time and a space */
	int64_t since_ns; /* not what is older than this second; 0 */
	uint64_t max_bytes;
};
/* On a worker: a part of a sidecar's log, which the caller frees; NULL when there is none. */
char *kube_sidecar_log(struct kube *k, const char *pod, const struct kube_log_part *part);
/* Asks for the sidecar's last message, or else for the newest warning. */
void kube_ask_about_pod(struct bundle *b, const struct pod_facts *f);

/* kubernetes/gang.c: the log of several nodes. */
struct gang_part; /* what one node's pod left */
/* On the loop's thread: those of all nodes, in order; NULL for one node. */
struct gang_part *gang_parts(const struct bundle *b, size_t *ret_n);
void gang_parts_free(struct gang_part *parts, size_t n);
struct gang_log_options {
	const struct gang_part *parts;
	size_t n;
	unsigned nodes; /* of the gang; an elastic one may have more parts, or fewer */
	uint64_t attempt_id;
	/* The log of a pod whose sidecar stored none. */
	const char *other_pod;
	const struct content_id *other;
};
/* On a worker: stores the logs of all nodes as one, each after a line that names its node. NONE
 * when there is none. */
void gang_log(struct kube *k, const struct gang_log_options *o, struct content_id *ret);

/* kubernetes/series.c */
void runner_ask_series(struct kube *k);

/* kubernetes/end.c */
/* On a worker: kube_pod_result_read() of a sidecar's message, or of the blob in the store that it
 * names. */
int runner_read_result(struct kube *k, const char *message, struct arena *arena,
		       struct pod_result **ret, size_t *ret_n, struct err *err);
void bundle_end(struct bundle *b, const struct kube_verdict *v);

#endif
