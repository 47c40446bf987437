/* engine/plan/plan.h — what has to happen: tasks, their keys, and whether each result is on record
 * already.
 *
 * A plan holds the tasks of one pipeline with given params. plan_resolve() works in waves. A task
 * whose needs have ended gets its key, and the key is looked up. A result on record (a hit) ends
 * the task at once, which readies others. This stops when the tasks left must be executed, or wait
 * for such a task. `cairn plan` shows that state. A run executes the ready tasks, calls
 * plan_task_end() for each, and resolves again. A step over run-time data (`each`) expands when the
 * step that makes the data has ended.
 *
 * No task is executed here; plan_new() runs the declared tools, to learn their versions. Memory is
 * at most 600 bytes a task; work is linear in tasks and edges. One thread.
 */
#ifndef CAIRN_PLAN_PLAN_H
#define CAIRN_PLAN_PLAN_H

#include "model/config/config.h"
#include "model/pipeline.h"
#include "plan/key/key.h"
#include "plan/metrics.h"
#include "record/manifest/results.h"
#include "storage/content/content.h"
#include "storage/local/statcache.h"

enum task_state {
	TASK_WAITING = 0, /* something it needs hasn't ended: key unknown */
	TASK_READY,       /* key known, not on record: must be executed */
	TASK_TAKEN,       /* the run has taken it: see its phases in run/task.h */
	TASK_STATE_HIT,   /* result on record and present */
	TASK_STATE_DONE,  /* executed */
	TASK_STATE_FAILED,
	TASK_STATE_SKIPPED,    /* `if` was false, or the content it needs was skipped */
	TASK_STATE_BLOCKED,    /* something it needs failed, or the run stopped before it began */
	TASK_STATE_UNSELECTED, /* not asked for */
};
static inline bool task_state_ended(enum task_state s)
{
	return s >= TASK_STATE_HIT;
}

/* Why a task that has a key isn't a hit. */
enum miss_cause {
	MISS_NONE = 0,
	MISS_NEW,        /* key never seen */
	MISS_NO_CACHE,   /* the step says cache: false */
	MISS_FORCED,     /* --force */
	MISS_BLOBS_GONE, /* it was on record, but its content is missing from the store */
};

struct plan_task {
	struct digest key;
	struct content_id
		*outputs; /* as many as the step has, in its order; NULL until it ended well */
	struct metric_value *metrics; /* sorted by name */
	uint32_t n_metrics;
	uint32_t step, index; /* index within the step */
	/* Of a step with `repeat`: which round this is, from 1, and the index of the round before
	 * and of its loop's first one. Of other steps: 0, 0, index. */
	uint32_t round, before, loop;
	uint32_t pending;    /* dependencies that haven't ended */
	int64_t duration_ns; /* of the execution that made the result */
	int64_t attempt;     /* that execution's attempt, 0 unknown */
	uint8_t state;       /* enum task_state */
	uint8_t miss;        /* enum miss_cause */
	bool need_failed;    /* something it waits for failed or was blocked */
	bool need_skipped;   /* content that it needs was skipped */
	bool forced;
	bool unselected;
	bool cancelled; /* BLOCKED because it was stopped on request */
	bool absent;    /* the hit's content is gone from the store; no task has needed it so far */
	bool revived;   /* a task needs the absent content: this one is made again */
	/* Its dependents know that it has ended; a revived one told them when it was a hit. */
	bool reported;
	bool from_store;    /* the hit came from the store's record, not the database */
	uint32_t last_wait; /* plan's own: the last task that waits for its content */
	struct task *task;  /* what the run knows of it (run/task.h); NULL: the run never took it */
};

struct plan_step;

/* Most tasks that one step may have: a label, a key and a row for each must stay affordable on a
 * laptop. */
#define PLAN_MAX_FAN_OUT 1048576

/* What of a pipeline is executed; zeroed: all of it. */
struct plan_selection {
	const char *const *targets; /* step or task names, with what they need; none: all */
	size_t n_targets;
	const char *from;  /* this step and everything after it; steps before must be cached */
	const char *until; /* everything up to this step, included */
	/* Steps to execute even if cached; "*": all that is selected. */
	const char *const *force;
	size_t n_force;
};
static inline bool plan_selects_all(const struct plan_selection *s)
{
	return !s->n_targets && !s->from && !s->until && !s->n_force;
}

struct plan_options {
	struct plan_selection select;
	/* In a replay: tasks or steps to execute (none: all of them), and those to leave out. */
	const char *const *only, *const *skip;
	size_t n_only, n_skip;
	/* For commands that only look, such as `cairn plan`. Inputs aren't copied into the store
	 * unless their listing is needed. Declared tools aren't run: the version that the last run
	 * learnt counts while the tool's program is the same file. Else the version is unknown and
	 * the tasks are no hits. */
	bool hash_only;
	unsigned hash_threads;
	/* The caller looks at no single task of a plan that stands (plan_stands()). */
	bool may_stand;
};

/* Content pinned at the start of a run, by name: "input:raw", "code:train", "tool:python3
 * --version", "image:team/train:2.4". A resumed run passes the pins of its start; then nothing is
 * read from the project. */
struct plan_pin {
	const char *name, *origin;
	struct content_id id;
};
/* What cairn.yaml says of sandboxes, and the packages of the Python environment on PATH. */
#define PLAN_PIN_SANDBOX  "environment:sandbox"
#define PLAN_PIN_PACKAGES "environment:packages"

/* Turns names of images into digests, where the programs of `run` steps run in containers. */
struct plan_image_wanted {
	const char *name;
	/* Of the steps that name it, besides those of cairn.yaml; NULL-terminated. */
	const char *const *pull_secrets;
};
struct plan_images {
	/* Sets *ret_refs for n different names: "registry/name@sha256:…" in `arena`. Called once a
	 * plan, for the names that have no pin. *ret_failed: index of the name that the error is
	 * about. */
	int (*resolve)(void *arg, const struct plan_image_wanted *wanted, size_t n,
		       struct arena *arena, const char **ret_refs, size_t *ret_failed,
		       struct err *err);
	const char *platform; /* "linux/amd64": of the nodes */
	void *arg;
};

struct plan_context {
	const struct config *config;
	const struct pipeline *pipeline;
	const struct value *params; /* resolved, pipeline_n_values() of them */
	struct store *store;
	struct db *db;
	struct plan_ahead *ahead; /* NULL: nothing was begun */
	struct statcache *cache;
	/* Path of the built-in steps' program where tasks run; NULL: found on PATH. */
	const char *steps_program;
	/* Path of the launcher of ranks, where that is a separate program; NULL: steps_program. */
	const char *launch_program;
	/* NULL: commands run on this machine, and declared tools are keyed instead of images. */
	const struct plan_images *images;
	const struct plan_pin *pins; /* of a resumed run, else NULL */
	size_t n_pins;
	/* Where the value of `run.id` stands once the run is on record; NULL: no run. */
	const char *const *run_id;
	const struct schedule_times
		*schedule; /* values of `schedule.*`; NULL: no schedule started this run */
	/* The result that this run already has for a task, on resume, where the cache may not
	 * answer (cache: false, --force): 1 known, 0 not. */
	int (*run_result)(void *arg, const char *task, const struct digest *key,
			  int64_t *ret_attempt);
	/* Whether a task already runs or has ended, in a run that goes on after its engine died.
	 * plan_stop() spares such tasks. NULL: no task has begun. */
	bool (*begun)(void *arg, const char *task);
	/* Called when a task has ended without being executed: HIT, SKIPPED or BLOCKED. NULL:
	 * nobody wants to know. */
	void (*spared)(void *arg, const char *task, enum task_state state, int64_t duration_ns);
	void *arg;
	/* A past run is made again: the pins are that run's, and content that is gone costs only
	 * the tasks that need it (plan_lost()). */
	bool again;
	/* The past run's results: then the plan is a replay. Every task ends as it is on record
	 * there, and its dependents read the recorded outputs, whatever the task makes now. Once
	 * all tasks have ended so, they become ready, independent of each other. NULL: dependents
	 * read what is made now. */
	struct results *recorded;
};

/* The value of a REF_SCHEDULE. ERR_INVALID without times. */
int plan_schedule_value(const struct schedule_times *t, const struct ref *ref, struct value *ret,
			struct err *err);

/* Begins to look, on a thread of its own, whether the content of the last run's results is there:
 * of the pipeline whose file has this path in its runs' rows. A plan that may stand takes the
 * answer (plan_context.ahead). Call store_use() before; `s` must outlive it. NULL: there is no such
 * run, or its table has less than min_bytes. */
struct plan_ahead *plan_ahead_begin(struct store *s, struct db *db, const char *path,
				    uint64_t min_bytes);
void plan_ahead_free(struct plan_ahead *a); /* ends it */

struct plan;
/* Selects the tasks, pins the pipeline's inputs, code and tools, and expands the steps that can be.
 * ERR_INVALID for unknown targets, ERR_UNSUPPORTED for what this build doesn't have, ERR_NOT_FOUND
 * for missing inputs. */
int plan_new(const struct plan_context *ctx, const struct plan_options *o, struct plan **ret,
	     struct err *err);
void plan_free(struct plan *p);
static inline void plan_freep(struct plan **p)
{
	plan_free(*p);
}

/* Resolves as far as results on record reach. */
int plan_resolve(struct plan *p, struct err *err);

/* How a task ended, and what it gave. */
struct task_result {
	enum task_state state;
	const struct content_id *outputs; /* in the order of its step's; or NULL */
	const struct metric_value *metrics;
	size_t n_metrics;
	int64_t duration_ns, attempt;
};
/* Tells the plan how a ready task ended: DONE with outputs (the arrays are copied), failed, or
 * never executed (SKIPPED, BLOCKED). Call plan_resolve() afterwards. */
void plan_task_end(struct plan *p, struct plan_task *t, const struct task_result *end);
/* Looks a taken task up again, after another engine or task may have made its result: 1 it is now a
 * hit and has ended, 0 it must still be executed. */
int plan_task_lookup(struct plan *p, struct plan_task *t, struct err *err);
/* Nothing new starts from now on. What isn't running ends as BLOCKED, except steps whose `if`
 * handles failure, and tasks that have begun (plan_context.begun). */
void plan_stop(struct plan *p);
/* The run was cancelled. Like plan_stop(), but only steps of `finally` may still begin. Tasks that
 * are TASK_TAKEN must be ended by the caller (plan_task_end(), with `cancelled` set). */
void plan_cancel(struct plan *p);
bool plan_has_finally(const struct plan *p); /* some step of `finally` is selected */
bool plan_in_finally(const struct plan *p);  /* all of `steps` have ended */
bool plan_must_stop(const struct plan *p);   /* a step with `fail_fast` failed, and that counts */
uint64_t plan_n_tolerated(const struct plan *p); /* of the failed tasks */
/* The labels of the failures that `continue_on_error` tolerated, or of the others. */
void plan_add_failed(struct plan *p, bool tolerated, struct str *out);
bool plan_may_begin(struct plan *p,
		    const struct plan_task *t); /* false: stopped, and the task is no exception */

/* Takes the next task to execute (TASK_TAKEN from now on), in the order in which they became ready;
 * NULL when there is none. */
struct plan_task *plan_take_ready(struct plan *p);
/* Gives back a taken task whose inputs couldn't be fetched. Content that is gone from the store is
 * made again first; then the task is ready again. */
int plan_give_back(struct plan *p, struct plan_task *t, struct err *err);
/* A need of the task that hasn't ended, or NULL. A ready task can have one only in a replay. */
struct plan_task *plan_pending_need(const struct plan *p, const struct plan_task *t);
/* For a run that is made again: ends the taken task as BLOCKED, because content that it (or a step,
 * by its name) needs is gone, or because of another lack that isn't its own fault. */
void plan_lose(struct plan *p, struct plan_task *t, const char *why);
const char *plan_lost(const struct plan *p, const char *task_or_step); /* why, or NULL */
/* At the end of a run, checks that each task has ended exactly once, and that the counts agree. 0
 * they do; else ERR_IO with a text that lists tasks without an end (at most ten). */
int plan_prove_ended(struct plan *p, struct err *err);
const char *plan_gate_message(
	const struct plan *p); /* which recorded result fails its gate, and how; NULL: none */
size_t plan_n_ready(const struct plan *p);
/* Whether tasks or steps have become resolvable since the last plan_resolve(). */
bool plan_unresolved(const struct plan *p);

/* Looking into a plan. */

/* All tasks of the pipeline's last run are hits or skipped once more. They are counted, and
 * plan_store_results() gives that run's table, but the plan has no tasks to look at. */
bool plan_stands(const struct plan *p);
/* What this plan was made from, as a digest to be recorded with the run's results. False: its tasks
 * haven't all succeeded or been skipped, or something else could decide the results of the same
 * plan. */
bool plan_digest(const struct plan *p, struct digest *ret);
const struct pipeline *plan_pipeline(const struct plan *p);
size_t plan_n_steps(const struct plan *p); /* the pipeline's, in its order */
bool plan_step_expanded(const struct plan *p, size_t step);
bool plan_step_selected(const struct plan *p, size_t step); /* some of its tasks may be executed */
size_t plan_n_tasks(const struct plan *p,
		    size_t step); /* 0 until expanded; a matrix's number is known from the start */
size_t plan_step_left(const struct plan *p, size_t step); /* tasks that haven't ended */
struct plan_task *plan_task_at(const struct plan *p, size_t step, size_t index);
/* For each step (plan_n_steps() places): whether a step that may yet be executed reads it. If so,
 * its hits whose content is gone from the store (plan_task.absent) are executed, too. */
void plan_may_return(const struct plan *p, bool *ret_steps);
void plan_count(const struct plan *p, struct run_counts *ret);
/* False: another round of its step follows this one. */
bool plan_is_last_round(const struct plan *p, const struct plan_task *t);
/* Judges a round that succeeded, with what it made; *ret_last: no other one follows. ERR_FAILED
 * when it was the last one that `max` allows, ERR_INVALID when `until` can't be evaluated. Without
 * `repeat`, each task is the last. */
int plan_judge_round(struct plan *p, const struct plan_task *t, const struct content_id *outputs,
		     const struct metric_value *metrics, size_t n_metrics, bool *ret_last,
		     struct err *err);
/* Whether all tasks of the step read the same content as their input of that index. False when that
 * can't be told without looking at each. */
bool plan_input_is_shared(const struct plan *p, size_t step, size_t input);
/* "train[fold=0]", into `out` (reset first). */
void plan_task_label(const struct plan *p, const struct plan_task *t, struct str *out);
/* Makes the part of a task's label that tells it from others ("fold=0") the name of this output of
 * it in a directory of all of them: a file keeps the suffix of its path. */
void plan_entry_add_suffix(const struct step_output *o, struct str *out);
const struct plan_pin *plan_pins(const struct plan *p, size_t *ret_n);
/* What the step's attempts see and reach: its own words, else those of cairn.yaml when the run
 * began. Never UNSTATED. */
struct step_sandbox plan_step_sandbox(const struct plan *p, size_t step);
/* The step as the task has it: with the values of settings that are expressions. */
const struct step *plan_task_step(const struct plan *p, const struct plan_task *t);
/* As in task_command. */
const char *plan_task_image(const struct plan *p, const struct plan_task *t);
/* Of all its tasks, and its name as the pipeline has it; NULL when there is none, or when they
 * differ. */
const char *plan_step_image(const struct plan *p, size_t step, const char **ret_name);
struct content_id plan_step_code(const struct plan *p,
				 size_t step); /* CONTENT_NONE when it has none */
/* The files of a step's code, sorted by path. A resumed run has none: its code is pinned. */
enum plan_code_why {
	PLAN_CODE_DECLARED, /* in `code` */
	PLAN_CODE_NAMED,    /* in its command */
	PLAN_CODE_IMPORTED, /* by line `line` of file `by` */
	PLAN_CODE_SOURCED,
	PLAN_CODE_ENV_FILE, /* in `env_file` */
};
struct plan_code_file {
	const char *path; /* or a directory, which is included whole */
	enum plan_code_why why;
	const char *by;
	unsigned line;
};
const struct plan_code_file *plan_step_code_files(const struct plan *p, size_t step, size_t *ret_n);
/* Stores every member of the results table, in expansion order. For a replay: what was made now, by
 * the tasks that it executed. */
int plan_store_results(struct plan *p, struct store *s, struct content_id *ret, struct err *err);

/* Everything needed to execute a task, rendered from the model and owned by `arena`, and the task's
 * key record. */
struct task_command {
	const char *const *argv;
	const char *const *env; /* "NAME=value": declared ones, CAIRN_INPUT_*, CAIRN_OUTPUT_*, and
				   the values that the script in argv names */
	const char *const *secrets; /* names */
	struct task_input {
		const char *name, *path;
		struct content_id id;
		const char *volume; /* of a cluster (storage/origin/reference.h); or NULL */
	} * inputs;
	size_t n_inputs;
	struct content_id code; /* or CONTENT_NONE */
	const char *script;     /* with its values written in: shown and keyed, never executed */
	const char *concurrency_group; /* rendered, or NULL */
	int64_t grace_ns;              /* between SIGTERM and SIGKILL; 0: the runner's default */
	const char *image;             /* "registry/name@sha256:…"; NULL: Cairn's own, or none */
	struct str key_record;         /* its digest is the key; the caller calls str_deinit */
};
/* Only for tasks whose needs have ended. */
int plan_task_command(struct plan *p, const struct plan_task *t, struct arena *arena,
		      struct task_command *ret, struct err *err);

/* The place to which this output of a task is exported, in `arena`; NULL: none. */
int plan_task_export(struct plan *p, const struct plan_task *t, size_t output, struct arena *arena,
		     const char **ret, struct err *err);

/* What the task's inputs come from, where no task made the input itself: members of gathered
 * directories, and the whole of which an item or a path below is a part. For lineage; at most a
 * thousand, in `arena`. */
int plan_task_sources(struct plan *p, const struct plan_task *t, struct arena *arena,
		      struct named_content **ret, size_t *ret_n, struct err *err);

/* Appends to `out` why this ready task runs: "first run", "param lr changed: 0.1 → 0.2", "input
 * data changed: …". */
int plan_task_reason(struct plan *p, const struct plan_task *t, const struct str *key_record,
		     struct str *out, struct err *err);

#endif
