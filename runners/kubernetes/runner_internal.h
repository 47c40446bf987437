/* runners/kubernetes/runner_internal.h — the runner's state, for its files.
 *
 * A bundle is a Job and what we know of it: the attempts that it executes (one, or a pack), its facts, its pods'. It is found by the id of its first attempt, which is its
 * label, and by each attempt that it holds. Facts come in through the inbox (runner_watch.c); look() holds them against what was told so far and acts (runner_look.c); what
 * takes time or the network is a job on a worker (runner_make.c, runner_end.c) that owns all that it touches.
 *
 * A bundle lives from its submission, or from the first event that tells of it, until its Job is deleted. */
#ifndef CAIRN_RUNNERS_KUBERNETES_RUNNER_INTERNAL_H
#define CAIRN_RUNNERS_KUBERNETES_RUNNER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/clock.h"
#include "base/map.h"
#include "runners/kubernetes/facts.h"
#include "runners/kubernetes/pod_spec.h"
#include "runners/kubernetes/runner.h"
#include "runners/kubernetes/watch.h"

#define PACK_MAX 256 /* attempts in a pod, as init/protocol.h has it */

struct kube;

/* An attempt that the engine waits for. */
struct member {
	struct kube *k;
	struct arena *arena;
	const struct runner_attempt *a; /* in it */
	struct bundle *b; /* NULL: not in a Job yet */
	bool started;	  /* told */
	bool cancelled, hard;
	char *waiting;	  /* what was told last; NULL: nothing */
};

struct pod {
	struct pod_facts f;
	uint64_t generation; /* of the list that told of it */
};

enum bundle_state {
	BUNDLE_SEEN,	 /* an event told of it; nobody has submitted it (yet) */
	BUNDLE_MAKING,	 /* on a worker */
	BUNDLE_PAUSED,	 /* could not be made; tried again at `again_ns` */
	BUNDLE_THERE,	 /* the Job is, or was */
	BUNDLE_ENDING,	 /* its result is being read, on a worker */
	BUNDLE_REPORTED, /* all members have been told */
};

struct bundle {
	struct kube *k;
	uint64_t id;	  /* of the first attempt */
	VEC(uint64_t) ids; /* of all that the Job was made for */
	VEC(struct member *) members;
	enum bundle_state state;
	char name[64];	/* of the Job */
	char uid[64];	/* "" unknown */
	unsigned nodes;
	struct content_id spec; /* once published */

	struct job_facts job;
	uint64_t generation;
	bool has_job, gone; /* seen; and not there any more */
	VEC(struct pod *) pods;

	/* how far we are */
	enum kube_stage stage;
	int64_t stage_ns; /* monotonic: when it came there, as far as we saw */
	int64_t first_running_ns; /* of several nodes: when the first one ran; 0 */
	unsigned tries;
	int64_t again_ns;
	int64_t asked_ns;  /* for events, last */
	int64_t series_ns; /* for numbers of a training, last */
	char *trouble;	   /* why it couldn't be made, or the events' words; NULL: none */
	bool no_quota, cancelled, deleting, deleted, hard_done;
	enum failure_class imposed; /* ended by us: its time was up */
	enum err_code imposed_code;
	char imposed_text[512];
};

/* From a watch's thread to the loop's. */
struct news {
	enum { NEWS_JOB, NEWS_POD } kind;
	enum kube_event event;
	bool trouble; /* instead: whether the server answers */
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

/* What one watch has told. */
struct view {
	struct kube *k;
	int kind;
	struct kube_watch *watch;
	uint64_t generation;
	bool synced;
	bool troubled; /* the server can't be asked */
};

struct kube {
	struct runner base;
	struct loop *loop;
	struct runner_kubernetes_options o;
	struct kube_client *client;
	struct pool *pool;
	char *run_id; /* that is watched; NULL: none yet */
	struct view jobs, pods;
	char *trouble; /* why the server can't be asked, as the first of the two said it: words that stay until both are well; NULL: it can */
	struct inbox inbox;
	struct loop_source *inbox_source, *ticker, *flusher;
	bool resumed;	     /* earlier Jobs may be there: nothing is made before they are known */
	atomic_bool closing; /* workers begin nothing new */
	struct map *members; /* attempt id → struct member * */
	struct map *bundles; /* id of a first attempt → struct bundle * */
	struct map *holders; /* attempt id → struct bundle * that holds it */
	struct map *done;    /* attempt id → DONE: its end is on record; DELETED: its Job is gone, too */
	VEC(struct member *) held; /* submitted, not in a bundle yet */
	bool asking, asking_series; /* for events, for numbers: on behalf of any bundle */
	int64_t asked_ns;    /* last; 0: never */
	int64_t skew_ns;     /* added to our wall clock: the cluster's, as far as its time stamps tell */
	char node[256];
};

#define DONE	((void *)1)
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

/* runner.c */
struct bundle *bundle_of(struct kube *k, uint64_t id); /* by its first attempt; made when it isn't known */
void bundle_hold(struct bundle *b, uint64_t attempt_id); /* one more of `ids` */
void bundle_free(struct bundle *b);
bool bundle_hard(const struct bundle *b); /* all that wait for it were cancelled without grace */
void bundle_settle(struct bundle *b); /* deletes the Job when the ends of all its attempts are on record */
void runner_flush(struct kube *k);    /* makes Jobs for what is held, or finds theirs */
void member_report(struct member *m, struct runner_result *r); /* finished(); frees it */

/* runner_watch.c */
int runner_watch(struct kube *k, const char *run_id, struct err *err);
int inbox_open(struct kube *k, struct err *err);
void inbox_close(struct kube *k); /* after this nothing comes */

/* runner_look.c */
void bundle_look(struct bundle *b);
void runner_look_all(struct kube *k);

/* runner_make.c: blocking work of a bundle */
void bundle_make(struct bundle *b);
void bundle_delete(struct bundle *b); /* Background, precondition: its uid */
void bundle_delete_pods(struct bundle *b); /* at once */
void bundle_ask_events(struct bundle *b, const char *of_uid);
/* Deletes Jobs of the run whose attempts' ends are on record; on the caller's thread. */
void runner_sweep(struct kube *k);

/* runner_gang.c: the log of several nodes. */
struct gang_part; /* what one node's pod left */
struct gang_part *gang_parts(const struct bundle *b); /* on the loop's thread: of b->nodes nodes; NULL for one node */
void gang_parts_free(struct gang_part *parts, unsigned nodes);
/* On a worker: the logs of all nodes as one, each after a line that names its node, in the store; NONE when there is none. `other`: of the pod `other_pod`, whose
 * sidecar kept none. */
void gang_log(struct kube *k, const struct gang_part *parts, unsigned nodes, uint64_t attempt_id, const char *other_pod, const struct content_id *other,
	      struct content_id *ret);

/* runner_series.c */
void runner_ask_series(struct kube *k);

/* runner_end.c */
/* On a worker: pod_result_read() of a sidecar's message, or of what it names in the store. */
int runner_read_result(struct kube *k, const char *message, struct arena *arena, struct pod_result **ret, size_t *ret_n, struct err *err);
void bundle_end(struct bundle *b, const struct kube_verdict *v);

#endif
