/* engine/plan/internal.h — shared by the files of this folder; no file outside includes it. */
#ifndef CAIRN_PLAN_INTERNAL_H
#define CAIRN_PLAN_INTERNAL_H

#include <stdatomic.h>
#include "base/map.h"
#include "plan/environment.h"
#include "plan/plan.h"

/* How the tasks of one step wait for the tasks of another. Tasks are matched by the matrix axes
 * that both steps have: each combination of those is a group; all tasks of a group wait for all
 * needed tasks of it. No shared axis: one group. */
struct plan_dep {
	const struct step_dep *decl;
	uint32_t n_groups;
	struct dep_group {
		uint32_t remaining; /* needed tasks that haven't ended */
		bool failed;        /* some needed task failed */
		bool skipped;       /* all of them, at least one, were skipped */
	} * groups;
	/* Which tasks are in which group; NULL: one group with all of both steps. */
	struct dep_match {
		uint32_t *up_start, *up_tasks;     /* group → needed step's tasks */
		uint32_t *down_start, *down_tasks; /* group → this step's tasks */
		uint32_t *up_group, *down_group;   /* needed step's, this step's task → group */
	} * match;
	/* Per group × needed step's outputs, made when first wanted. */
	struct gathered {
		struct content_id id;
		bool is_stored; /* false: it has parts whose content is gone */
	} * gathered;
};

/* A step that waits for this one. */
struct plan_dependent {
	uint32_t step, dep; /* plan->steps[step].deps[dep] */
};

struct plan_item {
	const char *path;     /* path of the tree's member, or the value's text */
	struct content_id id; /* CONTENT_NONE for a value */
	const struct value *value;
};

/* Labels of tasks of a step, as a command line names them. */
struct task_names {
	const char **v;
	size_t n;
};

/* A step with the values of its settings, for the tasks that have these (settings.c). */
struct plan_variant {
	struct step step;
	const char *image, *platform; /* as in plan_step */
	struct plan_variant *next;
};

/* What the tasks of a step differ by. */
struct plan_fan {
	/* Newest first; NULL: the step has no settings that are expressions. */
	struct plan_variant *variants;
	struct plan_variant **variant_of; /* by task; NULL: none, or not known yet */
	struct {
		const struct value *v;
		size_t n, cap;
		/* `v` plus values that only included combinations have; NULL: none. */
		struct value *grown;
	} * axes;
	uint32_t *axis_index;    /* n_tasks × n_axes: which value each task has */
	struct plan_item *items; /* of `each`, one a task */
	uint32_t *newest;        /* loop → its last round so far; NULL without `repeat` */
};

/* Tasks of a step that the command line names. */
struct plan_named {
	struct task_names only, forced; /* as targets, by --force; none: all */
};

/* A step's code. */
struct plan_code {
	struct content_id tree;
	const struct plan_code_file *files; /* NULL in a resumed run */
	size_t n_files;
};

/* What else than inputs decides its results. */
struct plan_facts {
	const struct plan_code *code; /* NULL: none */
	const char *packages;         /* of the Python environments on PATH; NULL: not keyed */
	const char **tool_text;       /* the output of each declared tool; NULL: not keyed */
	const struct plan_environment *environment; /* NULL: none */
	const char *image,
		*platform; /* "registry/name@sha256:…" in which its commands run; NULL: none */
};

struct plan_step {
	const struct step *decl;
	struct plan_fan *fan; /* plan.no_fan, which stays empty, for a step of one task */
	struct plan_task *tasks;
	uint32_t n_tasks, n_ended;
	/* Of its tasks, so many are first rounds, and stand first; all without `repeat`. */
	uint32_t n_loops;
	uint32_t n_fanned; /* so many tasks will be made of its values or items */
	uint32_t rank;     /* place in topological order */
	bool fanned;       /* its values or items are known: plan_fan_out() */
	bool expanded;
	bool selected;    /* some of its tasks may be executed */
	bool lookup_only; /* before --from: its results must be on record */
	bool forced;      /* all of its tasks */
	bool whole;       /* another step needs all of its tasks, whatever the targets name */
	bool stands_in;   /* its one task replaces items that are unknown; it is never executed */
	struct plan_named *named; /* NULL: none of its tasks */
	struct plan_dep *deps;    /* as decl->deps */
	struct plan_dependent *dependents;
	uint32_t n_dependents;
	struct plan_facts facts;
};

/* Tasks in the order in which they became ready. A ring that grows; holds each task at most
 * once. */
struct task_queue {
	struct plan_task **v;
	size_t head, n, cap;
};

/* A task that must be executed, but needs content that is made again first. */
struct plan_wait {
	struct plan_task *waiter;
	uint32_t next; /* index + 1 of the next with this producer, 0 none (plan_task.last_wait) */
};

/* Hits whose content is gone (past/absent.c). */
struct plan_absent {
	size_t n; /* so far: usually 0 */
	VEC(struct plan_wait) waits;
};

/* Of the task whose key is being made. */
struct plan_key {
	struct str script, record;
};

struct replay; /* past/replay.c */

/* What the pipeline's inputs, its tools and images are pinned to. */
struct plan_pins {
	struct content_id *input_ids; /* pipeline inputs; CONTENT_NONE until pinned */
	const char **input_uris;      /* without credentials */
	VEC(struct plan_pin) all;
	struct map *by_name; /* → index + 1 */
	struct map *images;  /* image as steps name it → what its pin says: sources/image.c */
};

/* Whether the plan is the last run's once more: past/standing.c. */
struct plan_standing {
	bool known; /* digest: of what the plan was made from, with so many pins */
	struct digest digest;
	size_t n_pins;
	bool stands, told;
	struct content_id results; /* the last run's table */
};

/* This pipeline's last run. */
struct plan_previous {
	struct results *table; /* or NULL */
	struct previous_step *steps;
	struct map *by_name; /* → const struct step *; NULL: it had no step with `cache: false` */
};

/* The steps that aren't of `finally`; they are first in order. */
struct plan_ordinary {
	size_t n, n_expanded;
	uint64_t open;         /* steps without tasks yet, and tasks without end */
	uint64_t n_tolerated;  /* failures of steps with `continue_on_error` */
	bool must_stop;        /* a step with `fail_fast` failed */
	const char *run_state; /* set when `finally` begins; NULL before */
};

struct plan {
	struct step_sandbox sandbox; /* of steps that state none; never UNSTATED */
	struct plan_context ctx;
	struct plan_options options;
	struct arena *arena;
	struct plan_step *steps;
	size_t n_steps, n_expanded;
	struct plan_fan no_fan;
	struct plan_pins pins;
	struct code *code;        /* code/code.h */
	struct task_queue to_key; /* their needs have ended */
	struct task_queue ready;  /* to be executed */
	struct plan_absent absent;
	struct run_counts counts;
	struct plan_previous previous;
	struct plan_standing standing;
	const char *gate_message; /* of the first hit that fails its gate */
	struct map *values;       /* digest of a `values` file → what it says */
	struct map *lost;         /* task's label, or step's name → why; NULL: none */
	struct replay *replay;    /* NULL: this plan isn't one */
	bool stopped;
	bool cancelled; /* … and only `finally` may still begin */
	struct plan_ordinary ordinary;
	bool expand_again;  /* a step has ended: an `each` over it may expand now */
	struct str scratch; /* labels */
	struct plan_key key;
};

/* settings.c */
int plan_settle_known(struct plan *p, struct err *err);
int plan_settle(struct plan *p, struct plan_step *s, size_t n_tasks, struct err *err);

/* To those that wait for it, a failure that `continue_on_error` tolerates is like a skip. */
static inline bool task_tolerated(const struct plan *p, const struct plan_task *t)
{
	return t->state == TASK_STATE_FAILED && p->steps[t->step].decl->policy->continue_on_error;
}
static inline bool task_left_out(const struct plan *p, const struct plan_task *t)
{
	return t->state == TASK_STATE_SKIPPED || task_tolerated(p, t);
}
static inline bool task_went_wrong(const struct plan *p, const struct plan_task *t)
{
	return t->state == TASK_STATE_BLOCKED ||
	       (t->state == TASK_STATE_FAILED && !task_tolerated(p, t));
}
/* Call when an ordinary task has ended, or an ordinary step has got its tasks. */
void plan_count_open(struct plan *p, const struct step *s, int64_t change);

/* expand.c */
/* Finds the values or items that a step's tasks will have, if these aren't files. */
int plan_fan_out(struct plan *p, struct plan_step *s, struct err *err);
int plan_expand_step(struct plan *p, uint32_t step,
		     struct err *err);                          /* 1: not yet possible; 0: done */
bool plan_is_forced(struct plan *p, const struct plan_task *t); /* by --force */
uint32_t dep_group_of_upstream(const struct plan_dep *d, const struct plan_task *needed);
uint32_t dep_group_of(const struct plan_dep *d, const struct plan_task *t);
bool dep_gathers(const struct plan *p, const struct plan_dep *d);
/* The needed task of a dep that doesn't gather. */
struct plan_task *dep_single(const struct plan *p, const struct plan_dep *d, uint32_t group);
size_t dep_group_size(const struct plan *p, const struct plan_dep *d, uint32_t group);
struct plan_task *dep_group_task(const struct plan *p, const struct plan_dep *d, uint32_t group,
				 size_t i);
struct plan_dep *plan_dep_on(const struct plan *p, struct plan_step *s, uint32_t needed);

/* rounds.c: loops */
static inline struct plan_task *plan_newest(const struct plan_step *s, size_t loop)
{
	return &s->tasks[s->fan->newest ? s->fan->newest[loop] : loop];
}
/* The round whose outputs this one reads, or NULL. */
struct plan_task *plan_round_before(const struct plan *p, const struct plan_task *t);
/* Makes room for the rounds of a step that has its first ones. */
int plan_make_rounds(struct plan *p, struct plan_step *s, struct err *err);
/* Adds the loop's next round after this one, which has ended well, if there is one. */
int plan_next_round(struct plan *p, struct plan_task *t, struct err *err);
bool round_reads_itself(const struct step *s, bool below); /* … its bytes, with `below` */
bool round_until_reads_values(const struct step *s);

/* sources/sources.c: what comes from the project: code (code/), tools */
int plan_pin_sources(struct plan *p, struct err *err);
/* `below`: the root that the path lies in (model/external.h); NULL: the project. */
int plan_put_path(struct plan *p, const char *below, const char *path, int flags,
		  struct content_id *ret, struct err *err);
/* The same, with the root already open as `dir`. `flags`: enum content_put_flags. */
int plan_put_at(struct plan *p, const char *below, int dir, const char *path, int flags,
		struct content_id *ret, struct err *err);
const struct plan_pin *plan_pin_find(const struct plan *p, const char *name);
void plan_pin_add(struct plan *p, const char *name, const char *origin,
		  const struct content_id *id);
bool plan_is_resumed(const struct plan *p);
/* What the command prints; `*ret` is in the plan's arena. The run's pin decides, once there is one.
 */
int plan_pin_tool(struct plan *p, const char *command, const char **ret, struct err *err);

/* sources/environment.c: the lock files that environments are made from */
int plan_pin_environment(struct plan *p, struct plan_step *s, struct err *err);
void plan_environment_key(const struct plan_environment *e, struct str *record); /* NULL is fine */

/* sources/image.c: the images in which commands run */
int plan_pin_images(struct plan *p, struct err *err);
void plan_image_key(const struct plan *p, const struct plan_task *t, struct str *record);
/* For variants that came after plan_pin_images(). */
int plan_take_image_pins(struct plan *p, struct plan_step *s, struct err *err);

/* sources/pin.c: the pipeline's inputs, from the project and from outside */
int plan_pin_inputs(struct plan *p, struct err *err);

/* scope.c: values of references for one task. `inputs` is set once the task's inputs are known;
 * command.c and builtin.c need it. */
struct task_scope {
	struct plan *plan;
	const struct plan_task *task;
	struct arena *arena;
	const struct task_input *inputs; /* for REF_INPUT, or NULL */
	size_t n_inputs;
};
int scope_resolve(void *arg, const struct ref *ref, struct value *ret, struct err *err);
/* Content of an output that the task's step refers to; gathered when several tasks make it. */
int scope_content(struct task_scope *scope, const struct ref *ref, struct content_id *ret,
		  struct err *err);
/* `until` of a round; `t` has what it made. */
int scope_until(struct plan *p, const struct plan_task *t, bool *ret, struct err *err);
int scope_condition(struct plan *p, const struct plan_task *t, bool *ret, struct err *err);

/* inputs.c: content of a task's inputs */
int plan_task_inputs(struct plan *p, const struct plan_task *t, struct arena *arena,
		     struct task_input **ret, size_t *ret_n, struct err *err);
/* Makes a tree of paths ("a/b/c") with content. Entries may come in any order. `stored` (digests,
 * or NULL) names trees that were put before and aren't put again; what is put is added to it. */
struct path_entry {
	const char *path;
	struct content_id id;
	enum tree_entry_kind kind;
	const char *target; /* symlink */
};
int plan_tree_of_paths(struct store *s, struct map *stored, struct path_entry *entries, size_t n,
		       struct content_id *ret, struct err *err);

/* command.c: the script with its values written in, as people see it and as it is keyed */
int command_script(struct task_scope *sc, struct str *out, struct err *err);
int command_key_record(struct task_scope *sc, const char *script, struct str *record,
		       struct err *err);

/* past/absent.c: results on record whose content is gone */
/* Whether planning itself reads the bytes of this content for the step: an `each` ranges over them,
 * or a path below them is followed. `which`: the step of a REF_STEP_OUTPUT, the index of a
 * REF_PIPELINE_INPUT. */
bool plan_reads_bytes(const struct step *s, enum ref_kind kind, uint32_t which);
struct lookup_hit;
/* Whether it can be a hit, with this result, while no task needs its bytes. */
bool absent_may_stay(struct plan *p, const struct plan_task *t, const struct lookup_hit *hit);
/* Call before `t` is executed: 1 when it must wait for content that is made again first. */
int absent_needed(struct plan *p, struct plan_task *t, struct err *err);
void absent_returned(struct plan *p, struct plan_task *t); /* a revived task has ended */
/* plan.c */
int plan_make_ready(struct plan *p, struct plan_task *t, struct err *err);
/* 1: all of it is complete in the store; 0: some isn't. */
int plan_content_there(struct store *s, const struct content_id *ids, size_t n, struct err *err);

/* builtin.c: built-in steps, and the launcher of ranks */
int plan_builtin_key(struct task_scope *sc, struct str *record, struct err *err);
void plan_builtin_refs(const struct step *s, void (*fn)(void *arg, const struct ref *ref),
		       void *arg);
/* Replaces c->argv by the step's own command line. If the step wraps a command, the old argv stands
 * behind it. */
int plan_builtin_argv(struct task_scope *sc, struct task_command *c, struct err *err);

/* label.c */
void label_add_value(struct str *out, const struct value *v);
/* Its loop's name: the label without the round. */
void plan_loop_label(const struct plan *p, const struct plan_task *t, struct str *out);
/* The name of this task's entry in a gathered directory; axes that `d` matches are left out. */
void label_entry(const struct plan *p, const struct plan_dep *d, const struct plan_task *t,
		 const struct step_output *o, struct str *out);

/* past/lookup.c: results on record */
struct lookup_hit {
	bool found, from_store;
	struct content_id *outputs; /* in arena */
	struct metric_value *metrics;
	size_t n_metrics;
	int64_t duration_ns, attempt;
};
int lookup_open(struct plan *p, struct err *err);
void lookup_close(struct plan *p);
/* Looks up one task whose key is known; doesn't check whether the content is present. */
int lookup_expect(struct plan *p, struct plan_task *const *tasks, size_t n,
		  struct err *err); /* announces the tasks that are looked up next */
int lookup_task(struct plan *p, struct plan_task *t, struct lookup_hit *ret, struct err *err);
/* The same without the last results table: finds what others may have recorded meanwhile. */
int lookup_recorded(struct plan *p, struct plan_task *t, struct lookup_hit *ret, struct err *err);

int lookup_this_run(struct plan *p, const struct plan_task *t, struct lookup_hit *ret,
		    struct err *err); /* what this run did before its engine died */
/* Puts named outputs into the step's order. False when one is missing. */
bool lookup_order_outputs(struct plan *p, const struct step *s, const struct named_content *named,
			  size_t n, struct content_id **ret);

/* past/standing.c */
/* Counts the tasks of a table that the store has under this id: 1 all of them are hits or skipped;
 * their content and the table are there, and a collection that runs now keeps them; 0 not so, or
 * `stop` (NULL: none) was set meanwhile. Any thread. */
int standing_count(struct store *store, struct results *table, const struct content_id *id,
		   const atomic_bool *stop, struct run_counts *ret, struct err *err);
/* Opens the table of this row's run (p->previous.table), if it is in the store and whole, and makes
 * the plan stand if it is that run's. */
int standing_look(struct plan *p, const struct run_row *last, struct err *err);
void standing_tell(struct plan *p); /* reports its tasks as spared, once */

/* past/ahead.c */
/* The table of this run's results, if that is what was looked at ahead; NULL: it isn't, or nothing
 * was (`a` NULL). Then *ret_good is as of standing_count(), or -1: not known. may_stand false: what
 * the thread would still find is of no use. Once: what is there may change. */
struct results *ahead_take(struct plan_ahead *a, const struct run_row *last, bool may_stand,
			   struct run_counts *ret, int *ret_good);

/* past/replay.c */
void replay_new(struct plan *p);
void replay_free(struct plan *p);
/* The members that `each` ranged over, by the names of the tasks on record. */
void replay_items(struct plan *p, struct plan_step *s);
bool replay_goes(const struct plan *p); /* all ended as recorded: they are executed now */
bool replay_has(struct plan *p, const struct plan_task *t); /* whether it is on record */
int replay_resolve(struct plan *p, struct err *err);
void replay_end(struct plan *p, const struct plan_task *t,
		const struct task_result *made); /* copies */
/* What a task gave now. False: the replay left the task out. */
bool replay_result(const struct plan *p, const struct plan_task *t, struct task_result *ret);

/* each step that can expand */
int plan_expand_all(struct plan *p, struct err *err); /* that can be */
int plan_task_key(struct plan *p, struct plan_task *t, struct arena *arena, struct err *err);
void plan_end_task(struct plan *p, struct plan_task *t, enum task_state state);
void plan_mark_lost(struct plan *p, const char *name, const char *why);

/* select.c */
int plan_select_tasks(struct plan *p, struct err *err);

/* queue.c */
void queue_push(struct task_queue *q, struct plan_task *t);
struct plan_task *queue_pop(struct task_queue *q);

#endif
