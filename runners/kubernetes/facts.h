/* runners/kubernetes/facts.h — what the cluster reports of a Job and its pods, as plain facts; and
 * the verdict on the attempt, a pure function of these facts.
 *
 * The watches turn objects into facts on their own threads. The runner (runner.h) keeps the newest
 * facts and asks for the verdict. The class of a failure comes from states, reasons that the API
 * documents as such (OOMKilled, Evicted, DeletionByTaintManager, ErrImagePull, Unschedulable …),
 * exit codes and conditions; messages are for people only.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_FACTS_H
#define CAIRN_RUNNERS_KUBERNETES_FACTS_H

#include "base/failure.h"
#include "base/mem.h"
#include "base/text/json.h"
#include "runners/kubernetes/job/kind.h"

enum pod_phase { POD_PENDING, POD_RUNNING, POD_SUCCEEDED, POD_FAILED, POD_UNKNOWN };

/* One container. */
struct container_facts {
	enum { CONTAINER_WAITING, CONTAINER_RUNNING, CONTAINER_TERMINATED } state;
	const char *reason; /* "ErrImagePull", "OOMKilled", "Error", …; NULL: none */
	char *message;      /* for people (for a terminated sidecar: its result), or NULL */
	int exit_code, signal;
	int64_t started_ns, ended_ns; /* wall clock; 0 unknown */
	unsigned restarts;
	bool ready;
	const char *last_reason; /* of the run before a restart; NULL: there was none */
	char *last_message;      /* or NULL */
	int64_t last_ended_ns;
	int last_exit_code;
};

/* Thousands may be kept. So its words, and those of its containers, are together in one piece of
 * memory, as long as they are. One that is absent, empty or too long is NULL. */
struct pod_facts {
	char *words;
	const char *uid, *name, *node;
	const struct kube_kind *kind; /* of the object that owns it, as its annotation says */
	const char *job_uid;          /* of the Job that controls it */
	/* KUBE_NOTE_OWNER of a pod that an operator made, which belongs to the object with the same
	 * one; NULL: of a Job. */
	char *owner;
	uint64_t attempt_id; /* KUBE_LABEL_ATTEMPT; 0: not ours */
	unsigned index;      /* in its Job; 0 */
	/* KUBE_NOTE_ATTEMPTS: each index executes other attempts; then `index` is below
	 * KUBE_JOB_ATTEMPTS_MAX. */
	bool array;
	enum pod_phase phase;
	const char *reason; /* status.reason: "Evicted", "NodeLost", … */
	char *message;      /* or NULL */
	bool scheduled, unschedulable;
	char *unschedulable_message; /* or NULL */
	/* Reason of the condition DisruptionTarget: "PreemptionByScheduler", … */
	const char *disruption;
	int64_t created_ns, scheduled_ns;
	int64_t deleted_ns; /* deletionTimestamp: when it should be gone, its grace time included */
	bool gone;          /* DELETED was seen */
	struct container_facts main, sidecar;
	const char *other_name; /* another container (a template's) that failed or can't start */
	struct container_facts other;
};
/* Its node reports its end. A pod may also disappear without that. */
static inline bool pod_is_over(const struct pod_facts *f)
{
	return f->phase == POD_SUCCEEDED || f->phase == POD_FAILED;
}
/* Of a Job, or of the object of another kind that owns the pods of an attempt. */
struct job_facts {
	const struct kube_kind *kind;
	char uid[64], name[254];
	uint64_t attempt_id;
	char *owner;        /* KUBE_NOTE_OWNER */
	char *spec;         /* KUBE_NOTE_SPEC */
	uint64_t *attempts; /* KUBE_NOTE_ATTEMPTS: its attempts, when there are several */
	/* per_pod: attempts of each pod, except that the last may have fewer; 0: there is one pod,
	 * or a gang. */
	size_t n_attempts, per_pod;
	char *over; /* of an array, status.completedIndexes and failedIndexes: "1,3-5,7"; NULL: none
		     */
	bool suspended, complete, failed, deleted; /* deleted: its deletion has begun */
	char reason[64]; /* of the condition Failed or FailureTarget: "PodFailurePolicy",
			    "BackoffLimitExceeded", "DeadlineExceeded" */
	char *message;
	int64_t created_ns, failed_ns; /* of the condition Failed */
	int64_t suspension_ns;         /* when it was last suspended or admitted; 0 never */
};
/* -1: not such an object (hostile or newer); callers skip it. Strings belong to the facts:
 * *_deinit. */
int pod_facts_of(const json_t *object, struct pod_facts *ret);
int job_facts_of(const struct kube_kind *kind, const json_t *object, struct job_facts *ret);
void pod_facts_deinit(struct pod_facts *f);
void job_facts_deinit(struct job_facts *f);
/* The index of the pod that executes the i-th of `attempts`; 0 for one pod or a gang. */
unsigned job_index_of(const struct job_facts *f, size_t i);
/* No more facts will come from this pod: the Job or its index is over. */
bool job_is_over(const struct job_facts *f, unsigned index);

/* The stage of an attempt. */
enum kube_stage {
	/* The Job is suspended: a queue (Kueue's) has not admitted it yet, without a time limit. */
	STAGE_QUEUED = -1,
	STAGE_CREATED,       /* no pod yet: a quota, or the controller is slow */
	STAGE_UNSCHEDULABLE, /* no node has the resources */
	STAGE_IMAGE,         /* an image can't be pulled */
	STAGE_REFUSED,       /* a container can't be created as described: a missing Secret, … */
	STAGE_STARTING,      /* scheduled; images, volumes and inputs are on their way */
	STAGE_RUNNING,       /* the program runs */
	STAGE_SAVING,        /* it has ended; outputs are uploaded */
	STAGE_ENDED,         /* all facts are known */
};
struct kube_verdict {
	enum kube_stage stage;
	int64_t since_ns; /* wall clock of the stage's beginning, if known */
	/* When ENDED, as the cluster sees it: NONE means that the sidecar's result counts. */
	enum failure_class class;
	/* … the class when the sidecar's result says that the program got a SIGTERM before its end.
	 */
	enum failure_class stopped;
	/* Of the program's container, when there is no result: -1 and 0 when unknown. */
	int exit_code, signal;
	char text[512];     /* for people: why it doesn't run yet, or how it ended; may be "" */
	const char *result; /* ENDED: the sidecar's message (lent by the facts), or NULL */
	bool program_ran;
	bool unexplained; /* its pod was deleted: the Job's condition may still say why */
	bool broken;      /* SAVING: one of several nodes has failed, others go on */
};
struct kube_observed {
	const struct job_facts *job; /* NULL: not seen */
	bool gone;                   /* it existed and is gone */
	bool podless; /* it (or this index of it) is over, and no facts of a pod will come */
	const struct pod_facts *const
		*pods; /* all pods so far, n of them; for an array those of one index */
	size_t n;
	unsigned nodes; /* how many pods there should be */
	/* An elastic gang: so many pods are enough. Others come, go and are replaced. 0: all are
	 * needed, and an end is final. */
	unsigned min_nodes;
	int64_t released_ns; /* wall clock: when we deleted its Job; 0: we didn't */
};
void kube_judge(const struct kube_observed *s, int64_t now_ns, struct kube_verdict *ret);

#endif
