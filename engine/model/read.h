/* engine/model/read.h — shared by the files of this folder while they turn YAML into a model; no
 * file outside includes it.
 *
 * A loader makes one pipeline. Every YAML file that takes part (the pipeline, its step files) is a
 * doc. Readers take a node, put what they read into the loader's arena and report errors in it.
 * After an error they continue with a harmless value, so that all errors of a file are reported at
 * once. After any error the whole result is dropped.
 */
#ifndef CAIRN_MODEL_READ_H
#define CAIRN_MODEL_READ_H

#include <stdio.h>
#include <string.h>
#include "base/map.h"
#include "base/text/text.h"
#include "model/internal.h"

#define MATRIX_AXES_MAX 16
#define MATRIX_TASKS_MAX \
	1048576 /* tasks of one step: each costs a label, a key and a row (PLAN_MAX_FAN_OUT) */
#define RETRY_MAX     1000
#define PATH_TEXT_MAX 4096

struct doc {
	struct loader *l;
	struct yaml_tree *tree;
	const char *file; /* for messages; lives as long as the model */
	const char *path; /* from the project root, normalised; with `root`, which it begins with */
	const char *root; /* what it lies in (model/external.h); NULL: the project */
	const char *origin;        /* with `root`: how messages name it, as `uses` does */
	const char *dir;           /* the directory of `path`, from the root; "." at the root */
	const struct map *content; /* in the root of a run: path or URI of an input → "artifact:…",
				      as EXTERNAL_RUN_FILE says */
	const char *bytes;
	size_t len;
	struct source_index *index; /* made at its first use */
};

/* A file that a step names by `uses`: a step file, or a whole pipeline (use.c). */
struct step_file {
	struct doc doc;
	bool is_pipeline;
	const char *name; /* `step:`, `pipeline:` */
	struct param_decl *params;
	size_t n_params;
	bool broken;          /* it can't be read; already reported */
	struct pos first_use; /* where the first step that names it does */
};

/* Name → index + 1. A step that uses a pipeline has USE_BIT | index of the use; an input that a
 * step gives has BOUND_BIT. */
struct use_names {
	struct map *params, *inputs, *steps;
};

/* One use of a pipeline file. The first is the pipeline itself (no parent). Others belong to steps
 * (`uses: ./other.yaml`), whose place in the model their own steps take. use.c has the design. */
struct use {
	struct use *parent;
	struct doc *doc;
	const char *prefix; /* of its steps' names in the model: "", "sub/", "sub/inner/" */
	unsigned depth;
	/* The step that uses it, in the parent; NULL for the pipeline itself. Its step isn't in the
	 * model. */
	struct build *by;
	struct use_names names;
	size_t first_param, n_params; /* its params in loader.params */
	struct step defaults;
	struct step_parts *default_parts;
	struct step_input *bound; /* what `by` gives to inputs; loader.names.inputs points there */
	struct build *offers;     /* `outputs` as inputs of a step that isn't in the model */
	struct offered_metric {
		const char *name;
		const struct expr_template *from;
		struct ref ref;
		struct pos pos;
	} * metrics;
	size_t n_metrics;
	uint32_t first_step, end_step; /* its steps, and those of the pipelines that it uses */
	bool broken;                   /* it couldn't be read; already reported */
};

struct need {
	const char *name;
	struct pos pos;
};

/* What steps may share, as long as it can be changed. */
struct step_parts {
	struct step_reads reads;
	struct step_tasks tasks;
	struct step_keyed keyed;
	struct step_policy policy;
	struct step_machine machine;
	struct step_measured measured;
	const struct expr_template *settings[STEP_SETTINGS];
};

/* What is known of a step besides the model, until all references are resolved. */
struct build {
	struct step *s;
	struct step_parts *parts; /* s->reads and so on point into it */
	struct use *use;          /* the use of a pipeline that it is a step of */
	bool finally;             /* stands in `finally` */
	struct doc *doc;          /* of that pipeline */
	struct step_file *file;   /* or NULL */
	const struct yaml_node *key, *node;
	VEC(struct need) needs;
	struct need *file_inputs; /* names that the step file declares, in its order */
	size_t n_file_inputs;
	bool *output_used;
	uint64_t axes_used;                     /* of its matrix, by index */
	bool round_used;                        /* `round`, or what the round before made */
	struct map *input_names, *output_names; /* made when there are many */
	struct pos metrics_pos, values_pos, series_pos, checkpoint_pos;
	const char *series; /* as written: a file, or a directory of event files */
	bool series_is_dir;
	VEC(struct step_dep) deps;
};

/* Reads a step file: 0, 1 when there is no such file, -1 with *err. `path` is relative to the
 * project root; *ret_bytes lives as long as the loader. */
typedef int (*fetch_fn)(void *arg, const char *path, const char **ret_bytes, size_t *ret_len,
			struct err *err);

/* Where other files come from, and those that were read. */
struct loader_files {
	fetch_fn fetch;
	void *arg;
	/* Makes the root of what lies outside, if it isn't there; NULL: nobody need be asked. */
	int (*bring)(void *arg, const struct external *what, struct err *err);
	struct map *contents; /* root of a run → its map of contents */
	struct map *steps;    /* path → struct step_file * */
	VEC(struct step_file *) list;
};

struct loader_using {
	const struct use *at;     /* the one that is being read */
	VEC(struct build) opened; /* steps that are found, until all are */
	bool is_full;             /* USE_STEPS_MAX is reached */
};

struct loader {
	struct arena *arena;   /* of the model */
	struct arena *scratch; /* freed when the model is done */
	struct diag_list *diags;
	struct pipeline *p;
	struct doc doc;
	const char *root; /* of the project, absolute; NULL: unknown */
	struct loader_files files;

	VEC(struct param_decl) params; /* the pipeline's own, then those of the pipelines it uses */
	size_t n_own_params;
	const struct expr_template **given; /* of each of `params` behind the own ones */
	VEC(struct input_decl) inputs;
	size_t n_declared_inputs;
	struct map *implicit_inputs; /* URI as written in a step → index + 1 */
	struct map *input_names;     /* of declared inputs in the model */
	struct use_names names;      /* of the use that is being read (use_enter()) */
	VEC(struct use *) uses;      /* each after the use that it is in */
	struct loader_using using;
	bool *param_used, *input_used;
	struct step *steps;
	struct build *builds;
	size_t n_steps;
	VEC(struct schedule_decl) schedules;
	VEC(struct sweep_decl) sweeps;
};

/* read.c: reports and simple values. */

void doc_error(const struct doc *d, const struct yaml_node *at, const char *fmt, ...)
	_printf_(3, 4);
void doc_error_at(struct diag_list *l, const struct pos *at, const char *fmt, ...) _printf_(3, 4);
void diag_warn_at(struct diag_list *l, const struct pos *at, const char *fmt, ...) _printf_(3, 4);
struct pos doc_pos(const struct doc *d, const struct yaml_node *n);
/* " (did you mean `x`?)" or "", in the scratch arena. */
const char *loader_suggest(struct loader *l, const char *word, const char *const *names, size_t n);
/* The same for an unknown key. For a word of another tool: " (here it is `inputs`)". */
const char *loader_suggest_key(struct loader *l, const char *word, const char *const *names,
			       size_t n);
/* Our word for that of another tool among `names`, or NULL. */
const char *loader_our_word(const char *word, const char *const *names, size_t n);
/* The same among the keys of a map. */
const char *doc_suggest_key(struct loader *l, const char *word, const struct map *names);
const char *doc_text(const struct doc *d, const struct yaml_node *n);
/* What messages call the file itself. */
const char *doc_name(const struct doc *d);

/* All return false, after a report that starts with `what`, when the node is of another kind; *ret
 * is unchanged then. */
bool doc_want_map(const struct doc *d, const struct yaml_node *n, const char *what);
bool doc_want_list(const struct doc *d, const struct yaml_node *n, const char *what);
bool doc_want_scalar(const struct doc *d, const struct yaml_node *n,
		     const char *what); /* anything but null, map, list */
bool doc_want_text(const struct doc *d, const struct yaml_node *n,
		   const char *what); /* a string, not empty */
void read_text(const struct doc *d, const struct yaml_node *n, const char *what, const char **ret);
void read_bool(const struct doc *d, const struct yaml_node *n, const char *what, bool *ret);
bool read_count(const struct doc *d, const struct yaml_node *n, const char *what, int64_t min,
		int64_t max, int64_t *ret);
bool read_duration(const struct doc *d, const struct yaml_node *n, const char *what,
		   int64_t *ret_ns);
bool read_choice(const struct doc *d, const struct yaml_node *n, const char *what,
		 const char *const *names, size_t n_names, const char **ret);
/* The values of `sandbox` and `network`, of a step and of cairn.yaml. */
void read_strictness(const struct doc *d, const struct yaml_node *n, struct step_sandbox *s);
void read_network(const struct doc *d, const struct yaml_node *n, struct step_sandbox *s);
/* A scalar, not null, where the reader knows what type it takes. */
bool read_number_or_text(const struct doc *d, const struct yaml_node *n, const char *what,
			 struct value *ret);
/* A scalar, not null, whose type is what it looks like: a number that isn't written as a command
 * would get it (3.10, 010) is an error. */
bool read_value(const struct doc *d, const struct yaml_node *n, const char *what,
		struct value *ret);
bool read_list_value(const struct doc *d, const struct yaml_node *n, const char *what,
		     struct value *ret); /* of scalars */
bool read_any_value(const struct doc *d, const struct yaml_node *n, const char *what,
		    struct value *ret); /* a scalar or a list of scalars */
/* The same for something that is declared with this type: a number may have any form then. */
bool read_value_as(const struct doc *d, const struct yaml_node *n, enum value_type type,
		   const char *what, struct value *ret);
bool read_bytes(const struct doc *d, const struct yaml_node *n, const char *what, uint64_t *ret);
void read_backoff(const struct doc *d, const struct yaml_node *n, int64_t *ret_min_ns,
		  int64_t *ret_max_ns);
/* `cpu` and `memory` of a map; `otherwise` ends the message about a 0. */
void read_cpu(const struct doc *d, const struct yaml_node *n, const char *otherwise,
	      uint32_t *ret_milli);
void read_memory(const struct doc *d, const struct yaml_node *n, const char *otherwise,
		 uint64_t *ret_bytes);
void read_machine(const struct doc *d, const struct yaml_node *n, const char *otherwise,
		  uint32_t *ret_cpu_milli, uint64_t *ret_memory_bytes);
const struct expr_template *read_template(const struct doc *d, const struct yaml_node *n);
struct expr_template *doc_literal_template(const struct doc *d, const struct yaml_node *n,
					   const char *text, size_t len);

bool doc_check_image_name(const struct doc *d,
			  const struct yaml_node *n); /* registry/name:tag, or @sha256:… */
bool has_space_or_control(const char *s);
enum name_kind { NAME_PIPELINE, NAME_STEP, NAME_IDENT, NAME_ENV };
bool doc_check_name(const struct doc *d, const struct yaml_node *n, enum name_kind kind,
		    const char *what);
/* Reports unknown keys of a map that has few fixed ones. */
void doc_check_keys(const struct doc *d, const struct yaml_node *map, const char *const *names,
		    size_t n);

/* A path below `dir` (relative to the project root), normalised; NULL after a report. "." is
 * allowed only with `allow_root`. */
const char *read_path(const struct doc *d, const struct yaml_node *at, const char *text,
		      const char *dir, const char *what, bool allow_root, bool *ret_is_dir);

/* params.c */

void read_params(const struct doc *d, const struct yaml_node *n, struct param_decl **ret,
		 size_t *ret_n);
/* Values for params, in groups: `model: {lr: 0.1}` is one for "model.lr". *ret is in the scratch
 * arena. */
struct param_node {
	const char *name;
	const struct yaml_node *key, *value; /* `key` is the last one of the path */
};
void flatten_params(const struct doc *d, const struct yaml_node *map, struct param_node **ret,
		    size_t *ret_n);
#define SUGGEST_PARAMS_MAX 4096 /* candidates: an error message isn't worth a second */
/* What to say behind "there is no param `x`": that it is a group, or the nearest name; or "". */
const char *param_hint(const char *word, const struct param_decl *params, size_t n,
		       struct arena *arena);

/* inputs.c */

/* Inputs that the step which uses this pipeline gives are only named. */
void read_pipeline_inputs(struct loader *l, struct use *use, const struct yaml_node *n);
/* The pipeline input for a step's literal path or URI, created when it is new; UINT32_MAX after a
 * report. */
uint32_t step_implicit_input(struct loader *l, const struct doc *d, const struct yaml_node *n);
/* The URL that an output is exported to; NULL after a report. */
const struct expr_template *read_export(const struct doc *d, const struct yaml_node *n);

/* step/: step.c has the table of keys, the other files read the values. */

void read_defaults(struct loader *l, struct use *use, const struct yaml_node *n);
void read_step(struct loader *l, struct build *b);
/* Gives the step parts of its own: a copy of `like`, or, for NULL, what holds where nothing is
 * said. */
void step_begin_parts(struct loader *l, struct build *b, const struct step_parts *like);
/* Copies the step's parts into the model. `kept` has those of the steps before, which it shares if
 * they are equal. */
void step_keep_parts(struct loader *l, struct map *kept, struct step *s);
/* A step that uses a pipeline: `with`, `inputs`, `needs`, `if`. */
void read_using_step(struct loader *l, struct use *use);

struct reader { /* what the reader of a key works on */
	struct loader *l;
	struct build *b;
	struct step *s;
	const struct doc *d; /* of the node: the pipeline's or the step file's */
	unsigned context;    /* one CONTEXT_* */
	const struct yaml_node *key;
};
enum {
	CONTEXT_RUN = 1 << 0,
	CONTEXT_BUILTIN = 1 << 1,
	CONTEXT_USE = 1 << 2,  /* the step that uses a step file */
	CONTEXT_FILE = 1 << 3, /* inside of a step file */
	CONTEXT_DEFAULTS = 1 << 4,
	CONTEXT_WRAP = 1 << 5,     /* a built-in step that runs the step's own command */
	CONTEXT_PIPELINE = 1 << 6, /* the step that uses a pipeline */
	CONTEXT_APPROVE = 1 << 7,  /* a step that waits for a person */
};
void step_read_inputs(struct reader *r, const struct yaml_node *n);
void step_read_outputs(struct reader *r, const struct yaml_node *n);
void step_read_code(struct reader *r, const struct yaml_node *n);
void step_read_env_file(struct reader *r, const struct yaml_node *n);
void step_read_environment(struct reader *r, const struct yaml_node *n);
void step_read_metrics(struct reader *r, const struct yaml_node *n);
void step_read_values(struct reader *r, const struct yaml_node *n);
void step_read_series(struct reader *r, const struct yaml_node *n);
void step_finish_series(struct build *b);
/* Adds an output that the pipeline doesn't list. An output of that name that it does list is an
 * error: `whose` says what the name stands for. */
void step_add_output(struct build *b, const struct step_output *o, const char *whose);
void step_read_checkpoint(struct reader *r, const struct yaml_node *n);
void step_match_file_inputs(struct build *b);
void step_check_paths(struct build *b);
void step_read_matrix(struct reader *r, const struct yaml_node *n);
void step_read_each(struct reader *r, const struct yaml_node *n);
void step_read_repeat(struct reader *r, const struct yaml_node *n);
/* Rules about rounds that span several keys. */
void step_check_repeat(struct build *b);
/* One expression that gives true or false; NULL after a report that starts with `what`. */
const struct expr *step_read_condition(struct reader *r, const struct yaml_node *n,
				       const char *what);
void step_read_retry(struct reader *r, const struct yaml_node *n);
void step_read_gate(struct reader *r, const struct yaml_node *n);
void step_read_tolerance(struct reader *r, const struct yaml_node *n);
void step_read_resources(struct reader *r, const struct yaml_node *n);
void step_read_concurrency(struct reader *r, const struct yaml_node *n);
void step_read_distributed(struct reader *r, const struct yaml_node *n);
void step_read_volumes(struct reader *r, const struct yaml_node *n);
void step_read_spot(struct reader *r, const struct yaml_node *n);
void step_read_kubernetes(struct reader *r, const struct yaml_node *n);
/* step/settings.c: reads the value of a setting, or keeps its expression. `placement` is for
 * resources. */
void setting_read(struct reader *r, enum step_setting which, const struct yaml_node *n,
		  json_t *placement);
/* Rules about two resources, as far as their values are known. */
void resources_check(const struct doc *d, const struct yaml_node *n, const struct step *s,
		     const json_t *placement);
/* Checks an expression whose references are resolved, and whose type is `t`: the type, what it
 * uses, and the values that the file itself has for it. */
void setting_check(struct loader *l, const struct step *s, enum step_setting which,
		   enum expr_type t);
/* A budget that `max` of `retry` sets, where that is an expression. */
#define RETRY_AS_MAX (UINT32_MAX - 1)
void step_read_env(struct reader *r, const struct yaml_node *n);
void step_read_params(struct reader *r, const struct yaml_node *n);
void step_read_secrets(struct reader *r, const struct yaml_node *n);
void step_read_tools(struct reader *r, const struct yaml_node *n);
void step_read_approve(struct reader *r, const struct yaml_node *n);
void step_read_timeout(struct reader *r, const struct yaml_node *n);
void step_read_with(struct reader *r, const struct yaml_node *n);
/* step/builtin.c; `n` may be NULL: no `with` */
void step_check_with(struct reader *r, const struct yaml_node *n);
void step_finish_builtin(struct build *b);
void step_make_locals(struct build *b);
void step_check_locals(struct build *b);
void retry_defaults(struct retry_policy *p);
void retry_finish(struct step_parts *p); /* the defaults that depend on the rest of the step */
/* Reads a list of names, each of which may stand once. */
size_t read_name_list(const struct doc *d, const struct yaml_node *n, const char *what,
		      const struct yaml_node ***ret);

/* step/stepfile.c */

/* The file that `uses` names, which stands in `d`. Never NULL; it is `broken` when it can't be
 * used. */
struct step_file *step_file_get(const struct doc *d, const struct yaml_node *uses);
bool step_file_looks_like(const char *uses);

/* use.c */

#define USE_BIT       (1U << 31)
#define BOUND_BIT     (1U << 31)
#define USE_DEPTH_MAX 16
#define USE_STEPS_MAX 100000 /* steps of a pipeline with those of all that it uses */

/* Reads the whole pipeline and all that it uses. */
void read_pipeline(struct loader *l);
/* From now on names are looked up in this use. */
void use_enter(struct loader *l, const struct use *use);
void use_deinit(struct use *use);
/* Adds to the problems behind the first `since` ones who uses the file. */
void use_note(struct loader *l, size_t since);

/* after.c */

/* Files of the project: 0 found, 1 not there. The bytes live as long as the search. */
struct after_files {
	fetch_fn fetch;
	void *arg;
};
/* Reports pipelines named by `on` that aren't there, and circles of them. */
void after_check(const struct pipeline *p, const struct after_files *files,
		 struct diag_list *diags);

/* schedule.c, notify.c */

void read_schedules(struct loader *l, const struct yaml_node *n);
/* scheduled: of a schedule, which may miss runs. */
void read_notify(struct loader *l, const struct yaml_node *n, bool scheduled,
		 const struct notify_decl **ret, size_t *ret_n);

/* sweep.c: after the steps */

void read_sweeps(struct loader *l, const struct yaml_node *n);

/* resolve.c, across.c, graph.c */

void resolve_defaults(struct loader *l, struct use *use);
void resolve_all(struct loader *l);
void resolve_schedule_params(struct loader *l, struct schedule_decl *s);
void resolve_warn_unused(struct loader *l);
void resolve_check_temp(struct loader *l);
void resolve_check_exports(struct loader *l);
/* Topological order into p->order; reports cycles. */
void loader_order_steps(struct loader *l);

#endif
