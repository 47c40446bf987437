/* runners/kubernetes/facts.h — what the cluster says of a Job and its pods, as plain facts; and
 * what that means for the attempt: pure functions of them.
 *
 * The watches make facts of objects on their own threads; the runner (runner.h) keeps the newest of
 * each and asks for the verdict. The class of a failure comes from states, reasons that the API
 * documents as such (OOMKilled, Evicted, DeletionByTaintManager, ErrImagePull, Unschedulable …),
 * exit codes and conditions; messages are for people only.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_FACTS_H
#define CAIRN_RUNNERS_KUBERNETES_FACTS_H

#include "base/failure.h"
#include "base/mem.h"
#include "base/text/json.h"

enum pod_phase { POD_PENDING, POD_RUNNING, POD_SUCCEEDED, POD_FAILED, POD_UNKNOWN };

/* One container. */
struct container_facts {
	enum { CONTAINER_WAITING, CONTAINER_RUNNING, CONTAINER_TERMINATED } state;
	char reason[64]; /* "ErrImagePull", "OOMKilled", "Error", … */
	char *message;   /* for people (of a terminated sidecar: its result), or NULL */
	int exit_code, signal;
	int64_t started_ns, ended_ns; /* wall clock; 0 unknown */
	unsigned restarts;
	bool ready;
	char last_reason[64]; /* of the time before a restart; "" when there was none */
	char *last_message;   /* or NULL */
	int64_t last_ended_ns;
	int last_exit_code;
};

struct pod_facts {
	char uid[64], name[254], node[254];
	char job_uid[64];    /* of the Job that controls it; "" none does */
	uint64_t attempt_id; /* KUBE_LABEL_ATTEMPT; 0: not ours */
	unsigned index;      /* in its Job; 0 */
	bool array;          /* KUBE_NOTE_ATTEMPTS: each index executes others; then `index` is
				below KUBE_JOB_ATTEMPTS_MAX */
	enum pod_phase phase;
	char reason[64]; /* status.reason: "Evicted", "NodeLost", … */
	char *message;   /* or NULL */
	bool scheduled, unschedulable;
	char *unschedulable_message; /* or NULL */
	char disruption[64]; /* reason of the condition DisruptionTarget: "PreemptionByScheduler", …
				or "" */
	int64_t created_ns, scheduled_ns;
	int64_t deleted_ns; /* deletionTimestamp: when it was to be gone, its grace time included */
	bool gone;          /* DELETED was seen */
	struct container_facts main, sidecar;
	char other_name[64]; /* of another container (a template's) that failed, or can't start; ""
				none */
	struct container_facts other;
};
/* Its node says so; it may be gone without. */
static inline bool pod_is_over(const struct pod_facts *f)
{
	return f->phase == POD_SUCCEEDED || f->phase == POD_FAILED;
}
struct job_facts {
	char uid[64], name[254];
	uint64_t attempt_id;
	char *owner; /* KUBE_NOTE_OWNER */
	char *spec;  /* KUBE_NOTE_SPEC */
	uint64_t *
		attempts; /* KUBE_NOTE_ATTEMPTS: all that it was made for, when there are several */
	size_t n_attempts, per_pod; /* per_pod: of the first pod, all but the last have as many; 0:
				       there is one pod, or a gang */
	char *over; /* of an array, status.completedIndexes and failedIndexes: "1,3-5,7"; NULL: none
		     */
	bool suspended, complete, failed, deleted; /* deleted: it is on its way out */
	char reason[64]; /* of the condition Failed or FailureTarget: "PodFailurePolicy",
			    "BackoffLimitExceeded", "DeadlineExceeded" */
	char *message;
	int64_t created_ns, failed_ns; /* of the condition Failed */
	int64_t suspension_ns;         /* when it was last suspended, or let in again; 0 never */
};
/* -1: it isn't such an object (hostile or newer): it is passed over. Strings belong to the facts:
 * *_deinit. */
int pod_facts_of(const json_t *object, struct pod_facts *ret);
int job_facts_of(const json_t *object, struct job_facts *ret);
void pod_facts_deinit(struct pod_facts *f);
void job_facts_deinit(struct job_facts *f);
/* Of the pod that executes the i-th of `attempts`; 0 where one pod, or a gang, does. */
unsigned job_index_of(const struct job_facts *f, size_t i);
/* Nothing more will come of this pod of it: the Job is over, or its index is. */
bool job_is_over(const struct job_facts *f, unsigned index);

/* How it stands with an attempt. */
enum kube_stage {
	STAGE_QUEUED = -1,   /* the Job is suspended: a queue (Kueue's) has not let it in yet, which
				may take as long as it takes */
	STAGE_CREATED,       /* no pod yet: a quota, or the controller is slow */
	STAGE_UNSCHEDULABLE, /* no node has what it asks for */
	STAGE_IMAGE,         /* an image can't be had */
	STAGE_REFUSED, /* a container can't be made as it is described: a Secret that isn't there, …
			*/
	STAGE_STARTING, /* scheduled: images, volumes, inputs */
	STAGE_RUNNING,  /* the program runs */
	STAGE_SAVING,   /* it has ended; outputs go up */
	STAGE_ENDED,    /* all that there will be is known */
};
struct kube_verdict {
	enum kube_stage stage;
	int64_t since_ns;           /* wall clock of the stage's beginning, as far as it is known */
	enum failure_class class;   /* when ENDED, from the cluster's side: NONE means that the
				       sidecar's result counts */
	enum failure_class stopped; /* … what it is when that says that the program got a SIGTERM
				       before it had ended */
	int exit_code, signal; /* of the program as its container ended, when there is no result: -1
				  and 0 when unknown */
	char text[512];     /* for people: why it doesn't run yet, or how it ended. "" when there is
			       nothing to say */
	const char *result; /* ENDED: the sidecar's message (lent by the facts), or NULL */
	bool program_ran;
	bool unexplained; /* its pod was deleted: the Job's condition may still say why */
};
struct kube_seen {
	const struct job_facts *job; /* NULL: not seen */
	bool gone;                   /* it was there and isn't any more */
	bool podless; /* it (or this index of it) is over, and no pod of it will be heard of any
			 more */
	const struct pod_facts *const
		*pods; /* all that there are or were, n of them; of an array those of one index */
	size_t n;
	unsigned nodes; /* how many there should be */
};
void kube_judge(const struct kube_seen *s, int64_t now_ns, struct kube_verdict *ret);

#endif
