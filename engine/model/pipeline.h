/* engine/model/pipeline.h — what a pipeline says, checked and with every reference resolved.
 *
 * pipeline_load() reads a file, collects every error in it, and gives an immutable model in one
 * arena, or none. Steps are in file order; `order` is a topological one (stable: file order among
 * equals). What only a cluster uses (image, volumes, placement) is validated and kept here,
 * whatever runner is chosen.
 *
 * With a cache_dir, a parsed pipeline is kept there under the digest of its bytes, together with
 * the digests of its step files, and is loaded without parsing; a cache file that doesn't decode is
 * ignored (model/cache/cache.h).
 *
 * What names mean. In a step's `inputs` and `each`, inputs.X is an input of the pipeline. In run,
 * env, with, seed and concurrency it is the path of the step's own input X, and outputs.X that of
 * its own output. A step's input may also be a path or URI: it becomes a pipeline input named by
 * that path ("data/raw.csv", "data/" for a directory). `item` is content in `inputs` (members of a
 * directory) or a value elsewhere (lists); item.name, .path and .stem are text. schedule.* may
 * stand in commands and in the params of a schedule.
 *
 * A step file (`uses: ./steps/clean.yaml`) is one step with its own params: `step: NAME`, `params`,
 * `inputs` (names), and a step's keys. It sees its own params (REF_LOCAL), inputs and outputs, and
 * nothing of the pipeline. Paths in its `code` are relative to its own directory, as is usual for
 * shared steps; `${{ step.dir }}` is that directory, relative to the project root (a constant in
 * the model). The pipeline's defaults for code, shell and tools don't apply to step files and
 * built-in steps. A caller that evaluates a step_local's template checks the value against its
 * declaration with param_check_value().
 *
 * A step that uses a whole pipeline (`uses: ./other.yaml`) isn't in the model: the steps of that
 * pipeline stand in its place, named `step/inner`, with their own params, defaults and paths as if
 * the file stood alone, and so with the same keys (model/use.c). The file may lie in a git commit,
 * or be that of a past run (model/external.h): then its paths are below a root of its own.
 *
 * Paths are inside the project (or the workspace) and normalised; none is absolute or leads out
 * with `..`.
 */
#ifndef CAIRN_MODEL_PIPELINE_H
#define CAIRN_MODEL_PIPELINE_H

#include "base/compare.h"
#include "base/crypto/digest.h"
#include "base/diag.h"
#include "base/failure.h"
#include "model/expr/expr.h"
#include "model/external.h"

#define PIPELINE_NAME_MAX 40
#define PACK_MAX          256
#define PACK_AUTO         0

struct pos {
	const char *file; /* as the user named it */
	int line, col;
};

struct param_decl {
	const char *name, *help;
	enum value_type type;
	bool has_default;
	struct value def;
	bool has_min, has_max;
	double min, max;
	const struct value *choices; /* enum */
	size_t n_choices;
	struct pos pos;
};

/* Auto: by reference when it is larger than cairn.yaml's reference_above, else a copy. Link: a path
 * of the project that won't change, linked into the store. */
enum input_mode { INPUT_AUTO, INPUT_COPY, INPUT_REFERENCE, INPUT_LINK };
/* Volume: of a cluster, which only its pods can read. */
enum input_origin {
	INPUT_PATH,
	INPUT_S3,
	INPUT_GS,
	INPUT_HTTPS,
	INPUT_ARTIFACT,
	INPUT_VOLUME,
};

struct input_decl {
	const char *name;
	enum input_origin origin;
	/* For INPUT_PATH: relative to the project root, normalised, never outside of it. */
	const char *uri;
	/* INPUT_VOLUME, whose `uri` is as in storage/origin/reference.h: what stands for the
	 * content in keys. Else NULL. */
	const char *pin;
	enum input_mode mode;
	struct {
		/* NULL: not given. Without all three and `anonymous`: cairn.yaml's
		 * store_options. */
		const char *endpoint, *region, *profile;
		bool anonymous;
	} access;
	bool must_be_dir; /* written with a trailing slash, which `uri` lacks */
	const char *root; /* INPUT_PATH: what `uri` lies in (model/external.h); NULL: the project */
	/* INPUT_ARTIFACT that a past run read (model/external.h): the path or URI that it was
	 * written as, and what the digest is of: CONTENT_NONE, CONTENT_EXECUTABLE or
	 * CONTENT_REFERENCE. Else NULL and CONTENT_NONE. */
	const char *taken_from;
	uint8_t taken_kind;
	struct pos pos;
};

/* A step's input: content from somewhere, and perhaps a path below it. */
struct step_input {
	const char *name;
	struct ref from;                     /* REF_PIPELINE_INPUT, REF_STEP_OUTPUT or REF_ITEM */
	const struct expr_template *subpath; /* "/a/b.csv" after the reference, or NULL */
	/* From the second round on: an output of this step, as the round before made it, with no
	 * `then` of its own. NULL: the same in each round. */
	const struct step_input *then;
	struct pos pos;
};

struct step_output {
	const char *name;
	const char *path; /* relative, normalised, without the trailing slash */
	bool is_dir;
	/* No record of a run keeps its content: gc frees it, and it is made again when a task needs
	 * it. */
	bool temp;
	/* Exported to: s3://, gs://, a path in the project, or an absolute one (file://); or
	 * NULL. */
	const struct expr_template *export;
	struct pos pos;
};

struct named_template {
	const char *name;
	const struct expr_template *value;
	struct pos pos;
};

/* A param of a step file as the step that uses the file sets it. */
struct step_local {
	const struct param_decl *decl;
	const struct expr_template *value; /* from `with`; NULL: the default */
};

struct matrix_axis {
	const char *name;
	const struct value *values; /* literal values (scalars, no two with equal text), or NULL */
	size_t n_values;
	/* Else an expression that gives a list; only params in it. */
	const struct expr_template *list;
};
/* One entry of matrix.include / matrix.exclude: axis index → value; axes not named have type
 * VALUE_NULL. */
struct matrix_rule {
	struct value *by_axis; /* n_axes of them */
};

struct each_decl {
	/* REF_PIPELINE_INPUT or REF_STEP_OUTPUT: members of a tree; or REF_PARAM, REF_STEP_VALUE: a
	 * list. */
	struct ref from;
	const char *glob;           /* for trees: "*.tar"; never NULL there */
	const struct value *values; /* a literal list instead of a reference, or NULL */
	size_t n_values;
	bool is_list; /* item is a value, not content */
};

/* Whether a step makes what it ranges over; then its items are known when that step has ended. */
static inline bool each_is_made(const struct each_decl *e)
{
	return !e->values && (e->from.kind == REF_STEP_OUTPUT || e->from.kind == REF_STEP_VALUE);
}

/* Whether its items are known before anything is read. */
static inline bool each_is_known(const struct each_decl *e)
{
	return e->is_list && !each_is_made(e);
}

/* The step runs again until a condition holds. Each round is a task; other steps see the last one
 * only. */
#define REPEAT_MAX 10000
struct step_repeat {
	/* Judged after each round; in it, metrics and values of this step are those of that round.
	 */
	const struct expr *until;
	uint32_t max; /* when it doesn't hold after so many rounds, the last one fails */
	struct pos pos;
};

struct retry_policy {
	/* Extra attempts per class; `max` sets failed and timeout. Without a retry block, lost,
	 * preempted and store still have 3, 20 and 2, and unschedulable has 3 for a gang on several
	 * nodes. */
	uint32_t budget[FAILURE_CLASSES];
	int64_t backoff_min_ns, backoff_max_ns; /* doubles from min to max, full jitter */
	double oom_memory_factor;               /* 1 when not stated */
};

struct gate_rule {
	const char *metric; /* flattened name: "val.accuracy" */
	enum compare_op op;
	double bound;
	const char *text; /* ">= 0.85" */
	struct pos pos;
};

/* How far a metric may differ in a reproduced run and still count as the same; never keyed. */
struct tolerance_rule {
	const char *metric;
	double bound;  /* >= 0 */
	bool relative; /* the bound is a part of the recorded value, not a distance */
	struct pos pos;
};

struct resources_decl {
	uint32_t cpu_milli; /* 0: not given, which means one cpu locally and little on a cluster */
	uint64_t memory_bytes;
	uint32_t gpus;
};
static inline uint32_t resources_cpu_milli(const struct resources_decl *r)
{
	return r->cpu_milli ? r->cpu_milli : 1000;
}

struct concurrency_decl {
	const struct expr_template *group; /* or NULL: none */
	/* Running at once in the group, over all runs of the project on this machine. */
	uint32_t max;
};

struct distributed_decl {
	const char *framework; /* torch, tensorflow, jax, mpi, horovod, ps; NULL: not distributed */
	uint32_t nodes, procs_per_node;
	/* elastic: from so many to `nodes`, as they come and go; torch only. 0: exactly `nodes`. */
	uint32_t min_nodes;
	uint32_t servers; /* parameter servers in addition to the workers; ps and tensorflow only */
};
/* On one machine no node comes or goes: an elastic step has its minimum there. */
static inline uint32_t distributed_nodes_here(const struct distributed_decl *d)
{
	return d->min_nodes ? d->min_nodes : MAX(d->nodes, 1U);
}

/* One dependency of a step on another, all references folded into one. */
struct step_dep {
	uint32_t step; /* the step needed */
	/* why: outputs and values, metrics, `needs`, `steps.X.state`. */
	bool data, metrics, order, state;
	bool values; /* planning reads what it wrote to its `values` file */
	/* Matrix axes with the same name in both steps: tasks are matched by their values, and the
	 * needed step's other axes are gathered. Pairs of axis indices (mine, theirs). With none
	 * shared, a task needs all of its tasks. */
	struct axis_pair {
		uint32_t mine, theirs;
	} * shared;
	size_t n_shared;
	struct pos pos;
};

/* A value of `with`: scalars are templates. */
struct with_node {
	enum { WITH_SCALAR, WITH_LIST, WITH_MAP } kind;
	const struct expr_template *scalar;
	size_t n;
	struct with_node *children;
	const char **keys; /* for WITH_MAP, sorted */
};

/* What is executed. */
struct step_program {
	/* Command for the shell; NULL for a built-in that wraps none (train wraps one). */
	const struct expr_template *run;
	const struct shell_place *places; /* of the expressions in `run`, in order */
	const char *shell;                /* "sh" (default) or "bash" */
	const char *builtin;              /* "shard", "train", "ray", …; or NULL */
	const struct with_node *with;
	const char *step_file; /* of this step, relative to the project root; or NULL */
	const struct step_local *locals;
	size_t n_locals;
};

/* It executes nothing: it waits until a person approves or refuses (run/approve.c). */
#define APPROVE_BY_MAX 100
struct step_approve {
	const struct expr_template *message; /* or NULL */
	const char *const *by;               /* who may answer; none: everybody */
	size_t n_by;
	bool at_limit; /* when the step's `timeout` is over: approved, else refused */
};

/* What it reads besides its inputs. */
#define STEP_PARAMS_VARIABLE "CAIRN_PARAMS" /* the step's `params`, as an object in JSON */
struct step_reads {
	/* Defaults merged in, sorted by name. `params` is one of them. */
	const struct named_template *env;
	size_t n_env;
	/* Paths relative to the project root, normalised; the planner adds files named in `run`,
	 * and what scripts import. */
	const char *const *code;
	size_t n_code;
	bool no_imports; /* the planner doesn't add what scripts import */
	/* In the same form: lock files of the environment that it runs in. */
	const char *const *env_files;
	size_t n_env_files;
	const char *environment; /* lock file of the environment that is made for it; or NULL */
	const char *const *secrets;
	size_t n_secrets;
	const char *const *tools; /* commands whose output is keyed: "python3 --version" */
	size_t n_tools;
};

/* Which tasks it has. */
struct step_tasks {
	/* One per combination. */
	struct step_matrix {
		const struct matrix_axis *axes;
		size_t n_axes;
		const struct matrix_rule *include, *exclude;
		size_t n_include, n_exclude;
	} matrix;
	const struct each_decl *each; /* or NULL; never together with a matrix */
	/* Or NULL; never together with `each`. In each combination of a matrix for itself. */
	const struct step_repeat *repeat;
};

/* Parts of the key that are no inputs. */
struct step_keyed {
	const char *salt;                 /* or NULL */
	const struct expr_template *seed; /* or NULL */
	bool resources;
};

struct step_measured {
	const char *metrics; /* file in the workspace, or NULL */
	const char *values;  /* likewise; it is also the output STEP_VALUES_OUTPUT */
	const char *series;  /* likewise, of STEP_SERIES_OUTPUT, to be read while it grows */
	const struct gate_rule *gates;
	size_t n_gates;
	const struct tolerance_rule *tolerances;
	size_t n_tolerances;
};

/* What its attempts see and reach. UNSTATED: as cairn.yaml says, else none and host. */
enum step_strictness { STRICTNESS_UNSTATED, STRICTNESS_NONE, STRICTNESS_STRICT };
enum step_network { NETWORK_UNSTATED, NETWORK_HOST, NETWORK_LOOPBACK, NETWORK_NONE };
struct step_sandbox {
	uint32_t strictness; /* enum step_strictness */
	uint32_t network;    /* enum step_network */
};

/* Placement on a cluster. */
struct step_place {
	const char *image;
	const char *json; /* placement and pod settings (model/step/placement.h); or NULL */
	uint32_t pack;    /* at most this many of its tasks share a pod; 1: none; or PACK_AUTO */
};

/* When its attempts are made and ended, and what a failure means. */
struct step_policy {
	int64_t timeout_ns; /* 0: none */
	struct retry_policy retry;
	struct concurrency_decl concurrency;
	bool fail_fast;         /* its failure keeps other steps from starting */
	bool continue_on_error; /* its failure doesn't fail the run */
};

/* What its attempts run on. */
struct step_machine {
	struct resources_decl resources;
	struct distributed_decl distributed;
	struct step_place place;
	struct step_sandbox sandbox;
	bool copies; /* `workspace: copy`: the local runner never links its inputs */
};

/* What may be an expression, so that each task has its own value. */
enum step_setting {
	SETTING_IMAGE,
	SETTING_CPU,
	SETTING_MEMORY,
	SETTING_GPU,
	SETTING_GPU_TYPE,
	SETTING_SHM,
	SETTING_DISK,
	SETTING_TIMEOUT,
	SETTING_RETRY,  /* `max` of `retry` */
	SETTING_PLACES, /* `max` of `concurrency` */
	STEP_SETTINGS
};

/* `reads`, `tasks`, `keyed`, `policy`, `machine`, `measured` and `settings` are never NULL. Steps
 * that say the same there share one: most say little, and a pipeline may have 100,000. */
struct step {
	const char *name;
	uint32_t index; /* in pipeline->steps */
	bool finally;   /* from `finally`: begins when all of `steps` have ended */
	bool cache;
	struct pos pos;
	/* What its code, lock files and scripts lie in (model/external.h); NULL: the project. */
	const char *root;
	const char *description;
	struct step_program program;
	const struct step_approve *approve; /* instead of a program; NULL: none */
	const struct step_input *inputs;
	size_t n_inputs;
	const struct step_output *outputs;
	size_t n_outputs;
	struct step_dep *deps;
	size_t n_deps;
	const struct expr *condition; /* `if`, or NULL */
	const char *checkpoint;       /* or NULL */
	const struct step_reads *reads;
	const struct step_tasks *tasks;
	const struct step_keyed *keyed;
	const struct step_policy *policy;
	const struct step_machine *machine;
	const struct step_measured *measured;
	/* STEP_SETTINGS of them, instead of a plain value in `policy` or `machine`, which means
	 * nothing then; NULL: no expression. */
	const struct expr_template *const *settings;
};

bool step_has_settings(const struct step *s);
/* The step as one task has it: `values` has the values of its settings (STEP_SETTINGS of them; of
 * those that are no expressions they are ignored). *ret has no settings, and borrows from *s and
 * `arena`. ERR_INVALID with the place of a wrong value. */
int step_settle(const struct step *s, const struct value *values, struct arena *arena,
		struct step *ret, struct err *err);

/* The output that `values` adds: a JSON object whose members other steps use. */
#define STEP_VALUES_OUTPUT "values"

/* The output that `series` adds, and the launcher of ranks: the metrics over time. A launcher
 * writes one JSON object a line ({"step": 3, "loss": 0.2}); run/view/series.c reads what others
 * write. */
#define STEP_SERIES_OUTPUT "series"
#define STEP_SERIES_PATH   "series.jsonl"

/* Its command is run by a launcher: as a gang of ranks, or on a cluster that exists (ray,
 * spark-submit). Locally that is the built-in step of that name, or `train`; in a pod the program
 * cairn-launch. */
static inline bool step_is_launched(const struct step *s)
{
	return s->program.run && (s->program.builtin || s->machine->distributed.framework);
}
/* … as ranks. */
bool step_has_ranks(const struct step *s);

/* Which notices of a schedule, or of runs without one, go where. engine/serve/notify sends them. */
enum notify_kind { NOTIFY_COMMAND, NOTIFY_WEBHOOK, NOTIFY_EMAIL };
enum notify_event {
	/* A run failed, after its last retry; or the schedule itself has a problem. */
	NOTIFY_FAILURE = 1 << 0,
	NOTIFY_RECOVERY = 1 << 1, /* the first success after a failure or a missed run */
	NOTIFY_MISSED = 1 << 2,   /* `alert_after` went by without a success */
	NOTIFY_SUCCESS = 1 << 3,
	NOTIFY_METRIC = 1 << 4,   /* a rule of `metrics` holds for a run that succeeded */
	NOTIFY_APPROVAL = 1 << 5, /* a step of the run waits for a person */
};

/* `metric: "accuracy < last"`, `metric: "val.loss >= 0.3"`: compares with the schedule's previous
 * successful run, or with a number. */
struct notify_metric {
	const char *metric; /* flattened name */
	enum compare_op op;
	bool last;
	double bound; /* without `last` */
	const char *text;
};
/* Parses "accuracy < last", "val.loss >= 0.3"; strings go into `arena`. False: it is no rule. */
bool notify_metric_parse(const char *text, struct arena *arena, struct notify_metric *ret);

struct notify_decl {
	enum notify_kind kind;
	unsigned on; /* NOTIFY_* bits; never 0 */
	const struct notify_metric *metrics;
	size_t n_metrics;
	const char *command; /* for the shell */
	const char *url;     /* webhook: http(s)://; email: smtp(s)://[user@]host[:port] */
	/* Name of the secret that signs the webhook, or of the mail server's password; or NULL. */
	const char *secret;
	const char *const *to; /* email */
	size_t n_to;
	const char *from; /* email */
	struct pos pos;
};

/* `on` of a schedule: what fires it instead of a time. One of `pipeline` and `webhook` is set, or
 * neither for a schedule without `on`. */
struct event_decl {
	const char *pipeline; /* the end of a run of this file: from the project root, normalised */
	const char *state;    /* "succeeded", "failed" or "any" */
	const char *webhook;  /* a delivery to the server's hook of this name */
	const char *secret;   /* name of the secret that signs it */
	struct pos pos;
};

struct schedule_decl {
	const char *name;
	const char *cron; /* NULL: only `on_change` or `on` fires it */
	struct event_decl on;
	const char *timezone, *overlap, *catch_up, *dst;
	int64_t catch_up_window_ns;
	/* A firing starts up to this much later; the delay of one nominal time is always the same.
	 */
	int64_t jitter_ns;
	int64_t start_ns, end_ns;  /* nominal times are in [start, end); 0: no bound */
	const uint32_t *on_change; /* indices into pipeline->inputs */
	size_t n_on_change;
	int64_t poll_ns;                    /* how often on_change inputs are checked */
	uint32_t retry_max;                 /* further runs for a firing whose run failed */
	int64_t retry_min_ns, retry_max_ns; /* backoff: doubles from min to max */
	/* Send NOTIFY_MISSED when no run succeeds within this time after a nominal time; 0: never.
	 */
	int64_t alert_after_ns;
	const struct notify_decl *notify;
	size_t n_notify;
	/* Values (already of the param's type), or text that uses schedule.* */
	const struct named_template *params;
	size_t n_params;
	struct pos pos;
};

/* A search over params: which values to try, and by what number to judge. The search itself is
 * run/sweep/search.h. */
enum sweep_search { SWEEP_GRID, SWEEP_RANDOM, SWEEP_SOBOL, SWEEP_TPE, SWEEP_HALVING, SWEEP_ASHA };
#define SWEEP_SEARCHES    6
#define SWEEP_PARAMS_MAX  21 /* dimensions of the published Sobol numbers (run/sweep/sobol.c) */
#define SWEEP_GRID_MAX    1000
#define SWEEP_TRIALS_MAX  10000
#define SWEEP_AT_ONCE_MAX 256

struct sweep_param {
	uint32_t param; /* index into pipeline->params */
	/* A list, each of the param's type; NULL: a range of an int or a float. */
	const struct value *values;
	size_t n_values;
	double min, max; /* included */
	bool log;        /* uniform in the logarithm */
};

struct sweep_decl {
	const char *name;
	const struct sweep_param *params;
	size_t n_params;
	const char *objective; /* "evaluate.accuracy", as written */
	uint32_t step;         /* the objective: this step's metric of this name */
	const char *metric;
	bool maximize;
	enum sweep_search search;
	uint32_t trials; /* with rungs: on the first one; of a grid: the number of its points */
	uint64_t seed;
	uint32_t parallel;     /* trials at once */
	uint32_t max_failures; /* the sweep stops when more trials than that failed */
	/* Trials whose best value so far is worse than the median of those before are stopped: from
	 * step `after` of the series on, when `trials` of them (0: never) have come so far. */
	struct sweep_early_stop {
		uint32_t trials;
		uint64_t after;
	} early_stop;
	/* Halving and asha: the param that says how long a trial runs; each rung multiplies it. */
	struct sweep_rungs {
		uint32_t param;
		int64_t min, max;
		uint32_t factor;
	} rungs;
	struct pos pos;
};
const char *sweep_search_name(enum sweep_search s);
static inline bool sweep_has_rungs(const struct sweep_decl *d)
{
	return d->search == SWEEP_HALVING || d->search == SWEEP_ASHA;
}

/* The values of `schedule.*` in a run. Times are text in UTC, ISO 8601. */
struct schedule_times {
	const char *name;
	const char *time; /* the nominal time */
	/* The data interval: from the nominal time before this one to this one. */
	const char *interval_start, *interval_end;
	/* What fired it, of a schedule with `on`: the id of a run, or of a delivery; or NULL. */
	const char *run, *delivery;
};

struct pipeline {
	const char *name, *description;
	const char *path;     /* as the user named it */
	struct digest digest; /* of the file's bytes and of those that it uses */
	/* Relative to the project root, normalised: the pipeline's own, then step files and
	 * pipelines that it uses. */
	const char *const *files;
	size_t n_files;
	/* Its own params, and behind them n_given ones of the pipelines that its steps use: nobody
	 * sets those by name, their values are made from the own ones (params_give()). A REF_PARAM
	 * may point at both. */
	const struct param_decl *params;
	size_t n_params, n_given;
	const struct given_param {
		const struct expr_template *value; /* from `with`; NULL: the default */
		const char *by;                    /* the step that uses the pipeline */
	} * given;
	const struct input_decl *inputs;
	size_t n_inputs;
	const struct step *steps;
	size_t n_steps;
	const uint32_t *order; /* n_steps indices, topological */
	const struct schedule_decl *schedules;
	size_t n_schedules;
	const struct sweep_decl *sweeps;
	size_t n_sweeps;
	const struct notify_decl *notify; /* of runs that no schedule began */
	size_t n_notify;
	/* Of what decides a run of these files: `digest` without the pipeline's `sweeps`,
	 * `schedules`, `notify` and `description`. All 0 without sweeps. */
	struct digest core_digest;
	struct arena *arena;
};

struct pipeline_load_options {
	const char *project_root; /* absolute; paths in the file are relative to it */
	const char *cache_dir;    /* absolute; NULL: parsed pipelines aren't kept */
	/* What steps use from elsewhere: the directory of its roots, absolute; NULL: there is none,
	 * so nothing can be used. `bring` makes such a root when it isn't there, whole or not at
	 * all; NULL: only what is there is used. */
	const char *uses_dir;
	int (*bring)(void *arg, const struct external *what, struct err *err);
	void *bring_arg;
};

/* A `bring` for those who can't wait: brings nothing, and sets the bool at `arg` when something
 * isn't there. */
int pipeline_note_lack(void *arg, const struct external *what, struct err *err);

/* All problems go to `diags`. 0 with *ret, or -1 with ERR_INVALID ("pipeline.yaml: 3 errors") or
 * another code. Warnings (an unused output or param) don't fail. */
int pipeline_load(const char *path, const struct pipeline_load_options *o, struct diag_list *diags,
		  struct pipeline **ret, struct err *err);
/* The same from bytes, for tests, fuzzing and runs whose file is in the store: `files` as in
 * pipeline->files, the pipeline first. The bytes may be freed when this returns. */
struct pipeline_source {
	const char *path;
	const char *bytes;
	size_t len;
};
int pipeline_parse(const struct pipeline_source *files, size_t n_files, struct diag_list *diags,
		   struct pipeline **ret, struct err *err);
void pipeline_free(struct pipeline *p);
static inline void pipeline_freep(struct pipeline **p)
{
	pipeline_free(*p);
}
/* Whether a place of an export is a path in the project. */
bool export_place_is_path(const char *text);
/* What is wrong with a place that has its values; NULL: nothing. */
const char *export_place_problem(const char *text);
/* The input with a path in the project that is `path`, or contains it, or with `above` lies in it;
 * NULL: none. */
const struct input_decl *export_place_meets(const struct input_decl *inputs, size_t n,
					    const char *path, bool above);

/* NULL when absent. */
const struct sweep_decl *pipeline_find_sweep(const struct pipeline *p, const char *name);
const struct step *pipeline_find_step(const struct pipeline *p,
				      const char *name); /* NULL when absent */
/* Name → const struct step *, for who looks for many. The caller frees the map. */
struct map *pipeline_steps_by_name(const struct pipeline *p);
/* Whether `name` is this step, or a step that uses the pipeline which it comes from: `sub` for
 * `sub/train`. */
bool step_name_is_in(const char *step, const char *name);
/* The steps that `name` means so, which stand next to one another. NULL when there are none. */
const struct step *pipeline_find_steps(const struct pipeline *p, const char *name, size_t *ret_n);

/* Param values of one run: defaults, then each override in order. `-P params.yaml` first, then `-p
 * name=value`. */
struct param_override {
	/* As typed; a file's scalars have both, so that `1.10` stays `1.10` for a string. */
	const char *name, *text;
	const struct value *value;
	const char *where; /* "-p" or "params.yaml:3:1", for the error */
};
/* ret_values has pipeline_n_values() places; strings live in `arena`. For an unknown name the error
 * suggests the nearest known one. */
int params_resolve(const struct pipeline *p, const struct param_override *overrides, size_t n,
		   struct arena *arena, struct value *ret_values, struct diag_list *diags,
		   struct err *err);
static inline size_t pipeline_n_values(const struct pipeline *p)
{
	return p->n_params + p->n_given;
}
/* Sets the values of the params of used pipelines, which stand behind the own ones, from those. An
 * error has the place in the file. */
int params_give(const struct pipeline *p, struct arena *arena, struct value *values,
		struct err *err);
/* Checks a value against a declaration: type (an int passes for a float), choices, range. The text
 * of ERR_INVALID follows a name: "must be at least 0, not -1". Also for values of REF_LOCAL, whose
 * template is evaluated in the step that uses the step file. *ret borrows from *in. */
int param_check_value(const struct param_decl *decl, const struct value *in, struct value *ret,
		      struct err *err);
int params_load_file(const char *path, struct arena *arena, struct param_override **ret,
		     size_t *ret_n, struct diag_list *diags, struct err *err);

#endif
