/* steps/spec/spec.h — describes each built-in step once. `cairn check` checks a pipeline with it,
 * the step reads its settings with it, and help, man page and schema are made from it.
 *
 * Plain constant tables, one file a step (shard.c, augment.c, ...). This folder includes nothing
 * but engine/base, so that the model may use it without knowing the steps' code.
 */
#ifndef CAIRN_STEPS_SPEC_SPEC_H
#define CAIRN_STEPS_SPEC_SPEC_H

#include "base/text/json.h"

enum spec_type {
	SPEC_BOOL,
	SPEC_INT,
	SPEC_FLOAT, /* an int is accepted */
	SPEC_STRING,
	SPEC_CHOICE,   /* one of `choices` */
	SPEC_BYTES,    /* "64Mi", or a number of bytes; an integer once complete */
	SPEC_DURATION, /* "90s", "2h"; in its shortest exact form once complete */
	SPEC_LIST,     /* of sub[0]; a single value counts as a list of one */
	SPEC_MAP,      /* any keys, values as sub[0] */
	SPEC_TABLE,    /* the keys of `sub` */
	/* NAME, or {NAME: ...}: one of `sub`, each a TABLE. {NAME: 3} fills the table's first key,
	 * {NAME: [1, 2]} too if that is a LIST. Once complete: {"NAME": {every key}}. */
	SPEC_VARIANT,
	SPEC_ANY, /* not checked here: the step reads it */
};

/* Limits of numbers and of list lengths; SPEC_UNBOUNDED_MIN and SPEC_UNBOUNDED_MAX where there is
 * none. */
#define SPEC_UNBOUNDED_MIN (-1e300)
#define SPEC_UNBOUNDED_MAX 1e300

struct spec_option {
	const char *name;
	enum spec_type type;
	/* JSON text; NULL: no default, so the key is absent from the complete form (or must be
	 * given, if required). */
	const char *def;
	bool required;
	bool engine;         /* not in `with`: the engine sets it from another key of the step */
	bool elsewhere;      /* says where and how it runs, not what comes out: not in the key */
	double min, max;     /* of an INT, FLOAT, BYTES, or of a LIST's length; both 0: unbounded */
	const char *choices; /* "a|b|c" */
	/* Ends with a row without name (LIST, MAP: one row, whose name is only for messages). */
	const struct spec_option *sub;
	const char *help; /* one line: meaning and unit */
};

struct spec_port {
	const char *name; /* "*": any name, any number */
	bool required;
	const char *help;
};

struct step_spec {
	const char *name;
	const char *summary; /* one line */
	const char *about;   /* paragraphs for --help and the man page */
	/* Increase it whenever output bytes change for the same input: part of the key. */
	unsigned version;
	const struct spec_port *inputs, *outputs; /* end with a row without name */
	const struct spec_option *options; /* the keys of `with`; end with a row without name */
	const char *metrics; /* the file in the workspace for its metrics; NULL: none */
	bool wraps_command;  /* runs the step's own `run` (train, ray, spark-submit) */
	bool ranks; /* … as ranks, whose lines give metrics over time; takes `distributed` */
	const char *example; /* YAML */
};

/* NULL when no step has that name. */
const struct step_spec *step_spec_find(const char *name);
/* In the order of the documentation. */
const struct step_spec *const *step_specs(size_t *ret_n);

/* One element of the path to a value: a key, or an index when key is NULL. */
struct spec_path {
	const struct spec_path *up;
	const char *key;
	size_t index;
};
/* "ops[2].random_resized_crop.scale" */
void spec_path_add(struct str *out, const struct spec_path *path);

typedef void (*spec_problem_fn)(void *arg, const struct spec_path *where, const char *message);
/* Checks `with` (an object, or NULL for an empty one) against the options. A JSON null stands for a
 * value that isn't known yet, and passes. Every problem goes to `fn`. Returns the number of
 * problems. */
size_t step_spec_check(const struct step_spec *s, const json_t *with, spec_problem_fn fn,
		       void *arg);
/* The complete form: defaults filled in, sizes as integers, variants and lists written out; keys as
 * in the table. The key holds it (canonically) and the step gets it. ERR_INVALID names the first
 * problem, with its path. */
int step_spec_complete(const struct step_spec *s, const json_t *with, json_t **ret,
		       struct err *err);

/* The options as JSON Schema, for pipelines/schema.json: adds `with-NAME` to its $defs, and the
 * `value-…` that it refers to. All steps are added to one object. */
void step_spec_schema(const struct step_spec *s, json_t *defs);

/* The words of a CHOICE's "a|b|c", in their order. */
struct spec_choices {
	char text[256];
	const char *v[32]; /* into text */
	size_t n;
};
void spec_choices_of(const struct spec_option *o, struct spec_choices *ret);

#endif
