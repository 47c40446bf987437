/* runners/kubernetes/internal.h — the runner's state, for its files.
 *
 * A job is a Job of the cluster and what we know of it. It holds bundles: the attempts that one of
 * its pods executes (one, or a pack), or that all pods of a gang do. A job has one bundle, or, as
 * an array, one for each index. It is found by the id of its first attempt, which is its label;
 * bundles by each attempt that they hold. Facts come in through the inbox (kubernetes/watch.c);
 * job_look() reconciles them with what was reported so far (kubernetes/reconcile.c); what takes
 * time or the network is work on a thread of the pool (kubernetes/requests.c, kubernetes/end.c)
 * that owns all that it touches.
 *
 * A job lives from its submission, or from the first event that tells of it, until it is deleted on
 * the cluster; its bundles live as long. */
#ifndef CAIRN_RUNNERS_KUBERNETES_INTERNAL_H
#define CAIRN_RUNNERS_KUBERNETES_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/clock.h"
#include "base/map.h"
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
	bool started;                   /* was reported */
	bool cancelled, hard;
	char *waiting; /* what was reported last; NULL: nothing */
};

struct pod {
	struct pod_facts f;
	uint64_t generation; /* of the list that had it */
	enum {
		POD_LEFT_ALONE,
		POD_TOLD,
		POD_KILLED
	} end_asked; /* we have deleted it: with its grace time, without */
};

enum bundle_state {
	BUNDLE_OPEN,     /* not at its end, as far as we know */
	BUNDLE_ENDING,   /* its result is being read, on a worker */
	BUNDLE_REPORTED, /* all members have been reported */
};
struct bundle {
	struct kube *k;
	struct job *j;
	unsigned index;    /* in it */
	VEC(uint64_t) ids; /* of the attempts that it was made for */
	VEC(struct member *) members;
	enum bundle_state state;
	unsigned nodes;
	VEC(struct pod *) pods;

	/* how far we are */
	enum kube_stage stage;
	int64_t stage_ns;         /* monotonic: when it came there, as far as we saw */
	int64_t first_running_ns; /* of several nodes: when the first one ran; 0 */
	int64_t podless_ns; /* since when it is over without a pod that we know of; 0: it isn't */
	int64_t unexplained_ns; /* since when its pod has ended and its Job hasn't said why; 0: it
				   isn't so */
	int64_t fetched_ns; /* its result is asked for again then, of a store that was away; 0 */
	int64_t reported_ns;
	int64_t asked_ns;  /* for events of its pod, last */
	int64_t series_ns; /* for numbers of a training, last */
	char *trouble;     /* the words of its pod's events; NULL: none */
	bool cancelled;
	enum failure_class imposed; /* ended by us: its time was up, … */
	enum err_code imposed_code;
	char *imposed_text;
};

enum job_state {
	JOB_SEEN,   /* an event showed it; nobody has submitted it (yet) */
	JOB_MAKING, /* on a worker */
	JOB_PAUSED, /* not made yet, or it couldn't be; tried again at `again_ns` */
	JOB_THERE,  /* is, or was */
};
struct job {
	struct kube *k;
	uint64_t id; /* of the first attempt */
	enum job_state state;
	struct kube_room room;
	VEC(struct bundle *) bundles; /* by index: one at least */
	char name[64];
	char uid[64];           /* "" unknown */
	struct content_id spec; /* once published */

	struct job_facts f;
	uint64_t generation;
	bool seen, gone; /* f is known; it is not there any more */

	int64_t refused_ns; /* monotonic: since when those who are asked for it answer, and not with
			       a Job; 0 */
	enum failure_class refused_as; /* what it is when that goes on */
	unsigned tries;
	int64_t again_ns;
	int64_t asked_ns; /* for events, last */
	char *trouble;    /* why it couldn't be made, or the words of its events; NULL: none */
	bool deleting, deleted;
	bool half_made, mending; /* a gang's, of an engine that is gone: its Service and policy may
				    be missing; they are being made */
};

/* From a watch's thread to the loop's. */
struct news {
	enum { NEWS_JOB, NEWS_POD } kind;
	enum kube_event event;
	bool trouble, denied; /* instead: whether the server answers; it does, but not to us */
	struct job_facts job;
	struct pod_facts pod;
	char *text;
	struct news *next;
};
struct inbox {
	pthread_mutex_t lock;
	pthread_cond_t room;
	struct news *first, **last;
	size_t n;
	bool closed;
	int fd; /* eventfd: something is in it */
};

/* How it stands with one watch. */
struct view {
	struct kube *k;
	int kind;
	struct kube_watch *watch;
	uint64_t generation;
	bool synced;
	bool troubled;     /* the server can't be asked */
	int64_t denied_ns; /* monotonic: since when it doesn't let us look (401, 403); 0: it does */
};

struct kube {
	struct runner base;
	struct loop *loop;
	struct runner_kubernetes_options o;
	int64_t save_within_ns; /* a store that is away is awaited so long: the profile's */
	struct kube_client *client;
	struct pool *pool;
	char *run_id; /* that is watched; NULL: none yet */
	struct view jobs, pods;
	char *trouble; /* why the server can't be asked, in words that stay until both are well;
			  NULL: it can */
	bool shut_out; /* and it won't tell us: nobody will see how an attempt ends */
	struct inbox inbox;
	struct loop_source *inbox_source, *ticker, *flusher;
	bool leaving;        /* what can go goes now */
	bool resumed;        /* earlier Jobs may be there: nothing is made before they are known */
	atomic_bool closing; /* workers begin nothing new */
	struct {
		struct map *members; /* attempt id → struct member * */
		struct map *jobs;    /* id of a first attempt → struct job * */
		struct map *holders; /* attempt id → struct bundle * that holds it */
		struct map *done; /* attempt id → DONE: its end is on record; DELETED: its Job is
				     gone, too */
	} by_id;
	VEC(struct member *) held;  /* submitted, not in a bundle yet */
	int64_t held_ns, joined_ns; /* since when the first of them is, and the last */
	size_t n_waiting;           /* members that are in Jobs and haven't started */
	struct {
		bool events, series; /* under way, on behalf of any bundle */
		int64_t asked_ns;    /* last; 0: never */
	} questions;
	int64_t skew_ns; /* added to our wall clock: the cluster's, as far as its time stamps tell
			  */
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
struct job *job_of(struct kube *k,
		   uint64_t id); /* by its first attempt; made when it isn't known */
struct bundle *job_bundle(struct job *j, unsigned index); /* made when it isn't there */
/* Which attempts are whose, as it stands on the Job. Members that it isn't made for are held again.
 */
void job_take_layout(struct job *j, const struct job_facts *f);
/* Forgets pods that its Job (whose uid is known now) doesn't control. */
void job_purge(struct job *j);
bool job_is_cancelled(const struct job *j); /* all that wait for it are */
/* Deletes it when the ends of all its attempts are on record, and else what isn't needed any more
 * of it. May free the job and its bundles. */
void job_settle(struct job *j);
/* Not while a worker has it (JOB_MAKING) or one of its bundles (BUNDLE_ENDING). */
void job_free(struct job *j);
void bundle_join(struct bundle *b, struct member *m);
bool bundle_hard(const struct bundle *b); /* all that wait for it were cancelled without grace */

/* runner.c */
void runner_hold(struct kube *k, struct member *m); /* puts it into a Job soon */
void runner_flush(struct kube *k); /* makes Jobs for what is held, or finds theirs */
void member_report(struct member *m, struct runner_result *r); /* finished(); frees it */

/* kubernetes/watch.c */
int runner_watch(struct kube *k, const char *run_id, struct err *err);
int inbox_open(struct kube *k, struct err *err);
void inbox_close(struct kube *k); /* after this nothing comes */

/* kubernetes/reconcile.c */
/* Both may free the job and its bundles when it is gone. */
void job_look(struct job *j);
void bundle_look(struct bundle *b);
void bundle_impose(struct bundle *b, enum failure_class class, const char *fmt, ...) _printf_(3, 4);
void runner_look_all(struct kube *k);

/* kubernetes/requests.c: blocking work */
void job_make(struct job *j); /* one that is paused, for at least one member */
/* Of a gang that waits for it: makes what an earlier engine didn't come to. */
void job_mend(struct job *j);
void job_delete(struct job *j);                          /* Background, precondition: its uid */
void bundle_delete_pods(struct bundle *b, bool at_once); /* those that live */
void bundle_forget_pods(struct bundle *b);               /* those that have ended */
/* Deletes Jobs of the run whose attempts' ends are on record; on the caller's thread. */
void runner_sweep(struct kube *k);

/* kubernetes/events.c: the newest warning becomes the `trouble` of the Job or of the bundle */
void kube_ask_events(struct job *j); /* or of Kueue's Workload for it */
/* On a worker: the last lines of a sidecar's log (before: of the one before its last start), which
 * the caller frees; NULL when there are none. */
char *kube_sidecar_log(struct kube *k, const char *pod, unsigned lines, bool before);
/* What the sidecar said last, or else the newest warning. */
void kube_ask_about_pod(struct bundle *b, const struct pod_facts *f);

/* kubernetes/gang.c: the log of several nodes. */
struct gang_part; /* what one node's pod left */
struct gang_part *
gang_parts(const struct bundle *b); /* on the loop's thread: of b->nodes nodes; NULL for one node */
void gang_parts_free(struct gang_part *parts, unsigned nodes);
/* On a worker: the logs of all nodes as one, each after a line that names its node, in the store;
 * NONE when there is none. `other`: of the pod `other_pod`, whose sidecar kept none. */
void gang_log(struct kube *k, const struct gang_part *parts, unsigned nodes, uint64_t attempt_id,
	      const char *other_pod, const struct content_id *other, struct content_id *ret);

/* kubernetes/series.c */
void runner_ask_series(struct kube *k);

/* kubernetes/end.c */
/* On a worker: kube_pod_result_read() of a sidecar's message, or of what it names in the store. */
int runner_read_result(struct kube *k, const char *message, struct arena *arena,
		       struct pod_result **ret, size_t *ret_n, struct err *err);
void bundle_end(struct bundle *b, const struct kube_verdict *v);

#endif
