/* Pipelines: what a good file means, what is said about bad ones, the order of steps, params of a
 * run. The corpus: good/ must load without errors; each file of a folder of bad/ must say exactly
 * what stands in its .want file. */
#include "unit.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "unit/model/corpus.h"

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names here with this suffix that aren't hidden, sorted. */
static size_t list(const char *suffix, char ***ret)
{
	VEC(char *) names = { 0 };
	DIR *d = opendir(".");
	struct dirent *e;

	assert_non_null(d);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.' && str_has_suffix(e->d_name, suffix))
			VEC_PUSH(&names, xstrdup(e->d_name));
	closedir(d);
	if (names.n)
		qsort(names.v, names.n, sizeof(*names.v), by_name);
	*ret = names.v;
	return names.n;
}

static void free_names(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

static char *parse(const char *yaml, struct pipeline **ret)
{
	struct pipeline_source src = { "p", yaml, strlen(yaml) };
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	struct pipeline *p = NULL;
	struct str text = { 0 };
	int r = pipeline_parse(&src, 1, diags, &p, NULL);

	assert_true((r < 0) == (diag_errors(diags) > 0));
	str_add(&text, "");
	diag_render(diags, &text);
	if (ret)
		*ret = p;
	else
		pipeline_free(p);
	return str_take(&text);
}

/* The files of one folder of bad/; its own folders hold what they use. Returns how many are wrong.
 */
static size_t bad_folder(const char *folder)
{
	_cleanup_(freep) char *dir = xasprintf("%s/%s", CORPUS "bad", folder);
	char **names, **wants;
	size_t n, n_wants, wrong = 0;

	enter(dir);
	n = list(".yaml", &names);
	n_wants = list(".want", &wants);
	assert_true(n > 0);
	assert_int_equal(n, n_wants);
	for (size_t i = 0; i < n; i++) {
		_cleanup_(freep) char *got = load(names[i], NULL);
		_cleanup_(str_deinit) struct str want = { 0 };

		assert_int_equal(strlen(names[i]), strlen(wants[i]));
		assert_memory_equal(names[i], wants[i], strlen(names[i]) - strlen(".yaml"));
		assert_int_equal(fs_read_file(wants[i], MIB, &want, NULL), 0);
		assert_true(want.len > 0);
		if (strcmp(got, want.s) != 0) {
			print_message("--- %s/%s says:\n%s--- instead of:\n%s", folder, names[i],
				      got, want.s);
			wrong++;
		}
	}
	free_names(names, n);
	free_names(wants, n_wants);
	return wrong;
}

static void test_bad(void **state)
{
	char **folders;
	size_t n, wrong = 0;

	enter(CORPUS "bad");
	n = list("", &folders);
	assert_true(n > 4);
	for (size_t i = 0; i < n; i++) {
		if (str_has_suffix(folders[i], ".yaml") || str_has_suffix(folders[i], ".want"))
			fail_msg("bad/%s isn't read: put it into one of bad's folders", folders[i]);
		wrong += bad_folder(folders[i]);
	}
	free_names(folders, n);
	assert_int_equal(wrong, 0);
}

static void test_good(void **state)
{
	char **names;
	size_t n;

	enter(CORPUS "good");
	n = list(".yaml", &names);
	assert_true(n >= 3);
	for (size_t i = 0; i < n; i++) {
		struct pipeline *p = NULL;
		_cleanup_(freep) char *got = load(names[i], &p);

		if (!p)
			print_message("%s", got);
		assert_non_null(p);
		pipeline_free(p);
	}
	free_names(names, n);
}

/* What a model says. */

static void count_ref(void *arg, const struct ref *ref)
{
	*(unsigned *)arg |= 1U << ref->kind;
}

static unsigned kinds_in(const struct expr_template *t)
{
	unsigned kinds = 0;

	template_refs(t, count_ref, &kinds);
	return kinds;
}

static void test_fashion(void **state)
{
	struct pipeline *p = NULL;
	const struct step *s;

	enter(CORPUS "good");
	free(load("fashion.yaml", &p));
	assert_non_null(p);
	assert_string_equal(p->name, "fashion");
	assert_string_equal(p->path, "fashion.yaml");
	assert_string_equal(p->description, "Classify clothing images");
	assert_int_equal(p->n_steps, 5);
	assert_int_equal(p->n_inputs, 3);
	assert_string_equal(p->inputs[0].uri, "data/raw");
	assert_true(p->inputs[0].must_be_dir);
	assert_int_equal(p->inputs[1].origin, INPUT_S3);
	assert_int_equal(p->inputs[2].mode, INPUT_REFERENCE);

	s = pipeline_find_step(p, "shard");
	assert_string_equal(s->program.builtin, "shard");
	assert_int_equal(s->program.with->kind, WITH_MAP);
	assert_string_equal(s->program.with->keys[0], "samples_per_shard");
	assert_string_equal(s->program.with->keys[1], "seed");
	assert_int_equal(s->program.with->children[2].kind, WITH_MAP);
	assert_true(s->outputs[0].is_dir);
	assert_string_equal(s->outputs[0].path, "train");
	assert_int_equal(s->reads->n_env, 1);

	s = pipeline_find_step(p, "augment");
	assert_non_null(s->tasks->each);
	assert_false(s->tasks->each->is_list);
	assert_string_equal(s->tasks->each->glob, "*.tar");
	assert_int_equal(s->tasks->each->from.kind, REF_STEP_OUTPUT);
	assert_int_equal(s->inputs[0].from.kind, REF_ITEM);
	assert_false(s->outputs[0].is_dir);
	assert_true(dep_on(p, s, "shard")->data);

	s = pipeline_find_step(p, "train");
	assert_int_equal(kinds_in(s->program.run),
			 1U << REF_INPUT | 1U << REF_PARAM | 1U << REF_OUTPUT);
	assert_int_equal(s->reads->n_code, 2);
	assert_string_equal(s->reads->code[1], "lib");
	assert_int_equal(s->tasks->matrix.n_axes, 1);
	assert_int_equal(s->tasks->matrix.axes[0].n_values, 3);
	assert_int_equal(s->tasks->matrix.axes[0].values[2].i, 2);
	assert_string_equal(s->checkpoint, "ckpt");
	assert_string_equal(s->measured->metrics, "metrics.json");
	assert_int_equal(s->machine->resources.cpu_milli, 4000);
	assert_int_equal(s->machine->resources.memory_bytes, 8 * GIB);
	assert_int_equal(s->machine->resources.gpus, 2);
	assert_string_equal(s->machine->distributed.framework, "torch");
	assert_int_equal(s->machine->distributed.nodes, 4);
	assert_string_equal(s->machine->place.json,
			    "{\"spot\":{\"preempted\":3},\"volumes\":{\"scratch\":{\"claim\":"
			    "\"scratch-pvc\",\"mount\":\"/scratch\"}}}");
	assert_int_equal(s->machine->place.pack, PACK_AUTO);
	assert_int_equal(s->policy->retry.budget[FAILURE_FAILED], 2);
	assert_int_equal(s->policy->retry.budget[FAILURE_TIMEOUT], 2);
	assert_int_equal(s->policy->retry.budget[FAILURE_PREEMPTED], 20);
	assert_int_equal(s->policy->retry.budget[FAILURE_LOST], 3);
	assert_int_equal(s->policy->retry.budget[FAILURE_OOM], 1);
	assert_true(s->policy->retry.oom_memory_factor == 1.5);
	assert_int_equal(s->policy->retry.backoff_max_ns, 300 * NS_PER_S);
	assert_int_equal(s->policy->timeout_ns, 7200 * NS_PER_S);
	assert_string_equal(s->machine->place.image, "registry.example/train:2.4");

	s = pipeline_find_step(p, "evaluate");
	assert_int_equal(s->measured->n_gates, 1);
	assert_int_equal(s->measured->gates[0].op, COMPARE_GE);
	assert_true(s->measured->gates[0].bound == 0.85);

	s = pipeline_find_step(p, "publish");
	assert_false(s->cache);
	assert_non_null(s->condition);
	assert_true(dep_on(p, s, "evaluate")->metrics);
	assert_false(dep_on(p, s, "evaluate")->data);
	assert_true(dep_on(p, s, "train")->data);
	assert_string_equal(s->reads->secrets[0], "REGISTRY_TOKEN");

	assert_int_equal(p->n_schedules, 1);
	assert_string_equal(p->schedules[0].timezone, "Europe/Berlin");
	assert_int_equal(p->schedules[0].catch_up_window_ns, 2 * 86400 * NS_PER_S);
	pipeline_free(p);
}

static void test_everything(void **state)
{
	struct pipeline *p = NULL;
	const struct step *s;
	const struct step_dep *dep;

	enter(CORPUS "good");
	free(load("everything.yaml", &p));
	assert_non_null(p);
	assert_int_equal(p->n_files, 2);
	assert_string_equal(p->files[1], "steps/clean.yaml");
	assert_int_equal(p->params[1].has_default, false);
	assert_int_equal(p->params[3].type, VALUE_FLOAT);
	assert_int_equal(p->params[5].type, VALUE_LIST);
	assert_int_equal(p->params[7].type, VALUE_INT);
	/* declared ones, then: other/file.txt (once), s3://bucket/x, data/x.csv */
	assert_int_equal(p->n_inputs, 9 + 3);
	assert_string_equal(p->inputs[9].name, "other/file.txt");

	s = pipeline_find_step(p, "first");
	assert_string_equal(env_of(s, "LANG"), "de_DE.UTF-8");
	assert_string_equal(env_of(s, "DROPPED"), "x");
	assert_string_equal(env_of(s, "LEVEL"), "(expression)");
	assert_string_equal(env_of(s, "N"), "5");
	assert_string_equal(env_of(s, "T"), "true");
	for (size_t i = 1; i < s->reads->n_env; i++)
		assert_true(strcmp(s->reads->env[i - 1].name, s->reads->env[i].name) < 0);
	assert_string_equal(s->program.shell, "bash");
	assert_true(s->reads->no_imports);
	assert_int_equal(s->reads->n_env_files, 2);
	assert_string_equal(s->reads->env_files[1], "requirements.txt");
	assert_string_equal(s->reads->environment, "env/uv.lock");
	assert_string_equal(s->reads->tools[0], "python3 --version");
	assert_string_equal(s->reads->tools[1], "gcc --version");
	assert_string_equal(template_literal(s->outputs[1].export), "s3://bucket/log.txt");
	assert_int_equal(s->inputs[2].from.index, s->inputs[3].from.index);
	assert_non_null(s->inputs[1].subpath);
	assert_int_equal(s->measured->n_gates, 6);
	assert_int_equal(s->measured->n_tolerances, 5);
	assert_true(s->measured->tolerances[0].bound == 0.001 &&
		    !s->measured->tolerances[0].relative);
	assert_true(s->measured->tolerances[1].bound == 0.01 &&
		    s->measured->tolerances[1].relative);
	assert_int_equal(s->policy->retry.budget[FAILURE_FAILED], 1);
	assert_int_equal(s->policy->timeout_ns, 5400 * NS_PER_S);
	assert_true(s->keyed->resources);

	s = pipeline_find_step(p, "fan");
	assert_null(s->reads->environment);
	assert_non_null(s->tasks->matrix.axes[0].list);
	assert_int_equal(s->tasks->matrix.n_exclude, 2);
	assert_int_equal(s->tasks->matrix.exclude[1].by_axis[1].type, VALUE_NULL);
	assert_string_equal(s->tasks->matrix.include[0].by_axis[1].s, "lbfgs");
	assert_int_equal(s->policy->concurrency.max, 2);

	s = pipeline_find_step(p, "matched");
	dep = dep_on(p, s, "fan");
	assert_int_equal(dep->n_shared, 2);
	assert_int_equal(dep->shared[0].mine, 0);
	assert_int_equal(dep->shared[0].theirs, 0);

	s = pipeline_find_step(p, "values");
	assert_true(s->tasks->each->is_list);
	assert_int_equal(s->tasks->each->from.kind, REF_PARAM);
	s = pipeline_find_step(p, "literal-values");
	assert_int_equal(s->tasks->each->n_values, 4);
	s = pipeline_find_step(p, "all-members");
	assert_string_equal(s->tasks->each->glob, "*");
	s = pipeline_find_step(p, "gathered");
	assert_int_equal(s->n_deps, 2);
	assert_true(dep_on(p, s, "fan")->metrics && dep_on(p, s, "fan")->data);
	assert_true(dep_on(p, s, "values")->order);
	assert_true(expr_handles_failure(pipeline_find_step(p, "cleanup")->condition));

	s = pipeline_find_step(p, "shared");
	assert_string_equal(s->program.step_file, "steps/clean.yaml");
	assert_string_equal(s->program.shell, "sh");
	assert_false(s->reads->no_imports);
	assert_int_equal(s->reads->n_env_files, 0);
	assert_null(s->reads->environment);
	assert_int_equal(s->reads->n_tools, 0);
	assert_int_equal(s->reads->n_code, 2);
	assert_string_equal(s->reads->code[0], "steps/clean.py");
	assert_string_equal(s->reads->code[1], "lib");
	assert_int_equal(s->program.n_locals, 3);
	assert_non_null(s->program.locals[1].value);
	assert_null(s->program.locals[2].value);
	assert_int_equal(kinds_in(s->program.run), 1U << REF_INPUT | 1U << REF_LOCAL);
	assert_string_equal(env_of(s, "ROWS"), "(expression)");
	assert_string_equal(env_of(s, "EXTRA"), "(expression)");
	assert_int_equal(s->policy->timeout_ns, 5 * NS_PER_S);
	assert_string_equal(s->outputs[0].path, "clean.csv");
	pipeline_free(p);
}

/* Short ones. */

static const struct {
	const char *yaml, *want;
} short_ones[] = {
	{ P "steps: {a: {run: x, needs: [b]}}",
	  "p:2:29: step `a` needs `b`, which does not exist\n" },
	{ P "steps: {a: {run: x, timeuot: 1h}}",
	  "p:2:21: unknown key `timeuot` (did you mean `timeout`?)\n" },
	{ P "steps: {a: {run: x}}\nsteps: {b: {run: x}}",
	  "p:3:1: `steps` is given twice; the first is at line 2\n" },
	{ P "params: {n: 1}\nsteps: {a: {run: x}}",
	  "p:2:10: warning: param `n` is used nowhere\n" },
	{ P "steps: {a: {run: x, outputs: {o: o, q: q}}, b: {run: x, inputs: {i: \"${{ "
	    "steps.a.outputs.o }}\"}}}",
	  "p:2:37: warning: output `q` of step `a` is used by no step\n" },
	{ P "steps: {a: {run: x, uses: ./nowhere.yaml}}",
	  "p:2:13: step `a` has both `run` and `uses`\np:2:27: step file `nowhere.yaml` does not "
	  "exist\n" },
	{ P "steps: {a: {run: x, inputs: {i: \"${{ inputs['a'] }}\"}}}",
	  "p:2:38: the pipeline has no input `a`\n" },
	{ P "steps: {a: {run: x, if: true}, b: {run: x, if: \"${{ 1 == 1 }}\"}}", "" },
	{ P "steps: &s {a: {run: x}}", "" },
	{ P "steps: {a: {run: x}}\nschedules: {s: {cron: '@every 5s', jitter: 40s}}",
	  "p:3:44: warning: `jitter` is longer than the 5s between two firings of `@every 5s`: it "
	  "ends where the next one begins\n" },
	{ P "steps: {a: {run: x}}\nschedules: {s: {cron: '0 9,17 * * *', jitter: 9h}}",
	  "p:3:47: warning: `jitter` is longer than the 28800s between two firings of `0 9,17 * * "
	  "*`: it ends where the next one begins\n" },
	{ P "steps: {a: {run: x}}\nschedules: {s: {cron: '0 9,17 * * *', jitter: 8h}}", "" },
	{ P "steps: {a: &a {run: x, env: {A: \"${{ params.x }}\"}}, b: *a}",
	  "p:2:38: there is no param `x`\n" },
};

static void test_short(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(short_ones); i++) {
		_cleanup_(freep) char *got = parse(short_ones[i].yaml, NULL);

		assert_string_equal(got, short_ones[i].want);
	}
}

/* Order. */

static uint32_t rng = 1;

static uint32_t next_random(uint32_t n)
{
	rng = rng * 1664525 + 1013904223;
	return (rng >> 8) % n;
}

#define N_MAX 24

/* What the order must be: again and again the first step in the file whose needs are all there.
 * False: a cycle. */
static bool naive_order(bool needs[N_MAX][N_MAX], size_t n, uint32_t *order)
{
	bool done[N_MAX] = { 0 };

	for (size_t k = 0; k < n; k++) {
		size_t i, j;

		for (i = 0; i < n; i++) {
			for (j = 0; j < n && (!needs[i][j] || done[j]); j++)
				;
			if (!done[i] && j == n)
				break;
		}
		if (i == n)
			return false;
		done[i] = true;
		order[k] = (uint32_t)i;
	}
	return true;
}

static void random_graph(void)
{
	bool needs[N_MAX][N_MAX] = { 0 };
	size_t n = 1 + next_random(N_MAX), edges = next_random((uint32_t)(2 * n));
	uint32_t want[N_MAX];
	struct str yaml = { 0 };
	struct pipeline *p = NULL;
	bool acyclic = next_random(4) != 0;
	char *said;

	for (size_t e = 0; e < edges; e++) {
		uint32_t a = next_random((uint32_t)n), b = next_random((uint32_t)n);

		if (!acyclic || a != b)
			needs[acyclic ? MAX(a, b) : a][acyclic ? MIN(a, b) : b] = true;
	}
	str_add(&yaml, P "steps:\n");
	for (size_t i = 0; i < n; i++) {
		bool first = true;

		str_addf(&yaml, "  s%zu: {run: x, needs: [", i);
		for (size_t j = 0; j < n; j++)
			if (needs[i][j]) {
				str_addf(&yaml, "%ss%zu", first ? "" : ", ", j);
				first = false;
			}
		str_add(&yaml, "]}\n");
	}
	said = parse(yaml.s, &p);
	if (naive_order(needs, n, want)) {
		assert_string_equal(said, "");
		assert_memory_equal(p->order, want, n * sizeof(*want));
	} else {
		assert_null(p);
		assert_non_null(strstr(said, "steps form a cycle: s"));
	}
	free(said);
	pipeline_free(p);
	str_deinit(&yaml);
}

static void test_order(void **state)
{
	for (int i = 0; i < 2000; i++)
		random_graph();
}

#define CHAIN 100000

static void test_long_chain(void **state)
{
	struct str yaml = { 0 };
	struct pipeline *p = NULL;
	char *said;

	/* Each step needs the one behind it in the file. */
	str_add(&yaml, P "steps:\n");
	for (int i = 0; i < CHAIN; i++)
		str_addf(&yaml, "  s%d: {run: x, needs: [s%d]}\n", i, i + 1);
	str_addf(&yaml, "  s%d: {run: x", CHAIN);
	str_add(&yaml, "}\n");
	said = parse(yaml.s, &p);
	assert_string_equal(said, "");
	for (int i = 0; i <= CHAIN; i++)
		assert_int_equal(p->order[i], CHAIN - i);
	free(said);
	pipeline_free(p);

	/* And the last one the first: one long cycle, told shortly. */
	yaml.len -= 2;
	str_add(&yaml, ", needs: [s0]}\n");
	said = parse(yaml.s, &p);
	assert_string_equal(said, "p:3:24: steps form a cycle: s0 -> s1 -> s2 -> s3 -> s4 -> s5 -> "
				  "s6 -> s7 -> s8 -> s9 -> … (99990 more) -> s100000 -> s0\n");
	free(said);
	str_deinit(&yaml);
}

/* Params of a run. */

static const char params_yaml[] =
	P "params:\n"
	  "  lr: {type: float, default: 0.1, min: 0, max: 1}\n"
	  "  n: 5\n"
	  "  opt: {enum: [sgd, adam], default: sgd}\n"
	  "  flag: false\n"
	  "  tag: {type: string}\n"
	  "  folds: [0, 1]\n"
	  "steps: {a: {run: \"${{ params.lr }} ${{ params.n }} ${{ params.opt }} ${{ params.flag "
	  "}} ${{ params.tag }} ${{ params.folds }}\"}}\n";

static const struct {
	const char *name[3], *text[3];
	const char *want; /* values, or messages */
} overrides[] = {
	{ { "tag" }, { "x" }, "0.1 5 sgd false x 0 1" },
	{ { "tag", "lr", "n" }, { "", "1", "-3" }, "1 -3 sgd false  0 1" },
	{ { "tag", "tag", "folds" }, { "a", "1.10", "[2, 3, 4]" }, "0.1 5 sgd false 1.10 2 3 4" },
	{ { "tag", "opt", "flag" }, { "x", "adam", "true" }, "0.1 5 adam true x 0 1" },
	{ { "lr" }, { "0.2" }, "p:7:3: param `tag` has no default: give it with -p tag=VALUE\n" },
	{ { "tag", "lr" }, { "x", "2" }, "-p: param `lr` must be at most 1, not 2\n" },
	{ { "tag", "lr" }, { "x", "abc" }, "-p: param `lr` must be a number, not `abc`\n" },
	{ { "tag", "opt" },
	  { "x", "adm" },
	  "-p: param `opt` must be one of sgd, adam, not `adm`\n" },
	{ { "tag", "flga" },
	  { "x", "1" },
	  "-p: pipeline `p` has no param `flga` (did you mean `flag`?)\n" },
	{ { "tag", "n" }, { "x", "1.0" }, "-p: param `n` must be an integer, not `1.0`\n" },
};

static void test_params(void **state)
{
	struct pipeline *p = NULL;

	free(parse(params_yaml, &p));
	assert_non_null(p);
	for (size_t i = 0; i < ARRAY_LEN(overrides); i++) {
		struct param_override o[3] = { 0 };
		struct value v[6];
		struct arena *arena = arena_new();
		struct diag_list *diags = diag_list_new();
		struct str got = { 0 };
		size_t n = 0;

		for (; n < 3 && overrides[i].name[n]; n++)
			o[n] = (struct param_override){ .name = overrides[i].name[n],
							.text = overrides[i].text[n],
							.where = "-p" };
		if (params_resolve(p, o, n, arena, v, diags, NULL) < 0)
			diag_render(diags, &got);
		else
			value_add_text(&got, &(struct value){ VALUE_LIST, { .list = { v, 6 } } });
		assert_string_equal(got.s, overrides[i].want);
		str_deinit(&got);
		diag_list_free(diags);
		arena_free(arena);
	}
	pipeline_free(p);
}

static void test_params_file(void **state)
{
	char dir[TEST_DIR_MAX];
	struct arena *arena = arena_new();
	struct diag_list *diags = diag_list_new();
	struct param_override *o = NULL;
	struct pipeline *p = NULL;
	struct value v[6];
	struct str got = { 0 };
	size_t n = 0;
	static const char good[] = "lr: 1\ntag: 1.10\nfolds: [7, a]\nflag: true\n",
			  bad[] = "lr: {a: 1}\ntag:\na.b: 1\n";

	free(parse(params_yaml, &p));
	test_dir(dir, sizeof(dir), "params");
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(fs_write_atomic("good.yaml", good, strlen(good), NULL), 0);
	assert_int_equal(fs_write_atomic("bad.yaml", bad, strlen(bad), NULL), 0);
	assert_int_equal(params_load_file("good.yaml", arena, &o, &n, diags, NULL), 0);
	assert_int_equal(n, 4);
	assert_string_equal(o[2].where, "good.yaml:3:1");
	assert_int_equal(params_resolve(p, o, n, arena, v, diags, NULL), 0);
	value_add_text(&got, &(struct value){ VALUE_LIST, { .list = { v, 6 } } });
	assert_string_equal(got.s, "1 5 sgd true 1.10 7 a");
	assert_int_equal(v[0].type, VALUE_FLOAT);

	str_reset(&got);
	assert_int_equal(params_load_file("bad.yaml", arena, &o, &n, diags, NULL), -1);
	diag_render(diags, &got);
	assert_string_equal(
		got.s, "bad.yaml:2:5: param `tag` must be text or a number, not nothing\n"
		       "bad.yaml:3:1: `a.b`: a param of a group is written as a mapping, a: {…}\n");
	assert_int_equal(params_load_file("nowhere.yaml", arena, &o, &n, diags, NULL), -1);
	enter(".");
	fs_remove_tree(dir, NULL);
	str_deinit(&got);
	pipeline_free(p);
	diag_list_free(diags);
	arena_free(arena);
}

/* What depends on the rest of a step. */

/* Groups of params. */

typedef VEC(uint32_t) uint32_list;

/* What the params must be, one "path=value" a line, while the mapping is written. */
static void add_random_group(struct str *yaml, struct str *want, const char *path, int depth)
{
	/* Names with a meaning elsewhere, and those of a declaration's keys. */
	static const char *const names[] = { "lr", "type", "params", "min", "x-1", "steps" };
	size_t n = 1 + next_random(3);

	str_addc(yaml, '{');
	for (size_t i = 0; i < n; i++) {
		const char *name = names[(next_random(2) + 2 * i) % ARRAY_LEN(names)];
		_cleanup_(freep) char *full = xasprintf("%s%s%s", path, *path ? "." : "", name);
		uint32_t value = next_random(100), form = next_random(depth ? 3 : 2);

		str_addf(yaml, "%s%s: ", i ? ", " : "", name);
		if (form == 2) {
			add_random_group(yaml, want, full, depth - 1);
			continue;
		}
		if (form == 0 && !str_eq(name, "type") && !str_eq(name, "min"))
			str_addf(yaml, "%u", value);
		else
			str_addf(yaml, form ? "{default: %u}" : "{type: int, default: %u, max: 99}",
				 value);
		str_addf(want, "%s=%u\n", full, value);
	}
	str_addc(yaml, '}');
}

static void take_index(void *arg, const struct ref *ref)
{
	VEC_PUSH((uint32_list *)arg, ref->index);
}

static void random_groups(void)
{
	struct str yaml = { 0 }, want = { 0 }, got = { 0 };
	struct pipeline *p = NULL;
	uint32_list used = { 0 };
	char *said;

	str_add(&yaml, P "params: ");
	add_random_group(&yaml, &want, "", 4);
	str_add(&yaml, "\nsteps: {a: {run: \"x");
	for (char *line = want.s; *line; line = strchr(line, '\n') + 1)
		str_addf(&yaml, " ${{ params.%.*s + 1 }}", (int)strcspn(line, "="), line);
	str_add(&yaml, "\"}}\n");
	said = parse(yaml.s, &p);
	assert_string_equal(said, "");
	template_refs(p->steps[0].program.run, take_index, &used);
	assert_int_equal(used.n, p->n_params);
	for (size_t i = 0; i < p->n_params; i++) {
		assert_int_equal(p->params[i].def.type, VALUE_INT);
		assert_int_equal(used.v[i], i);
		str_addf(&got, "%s=%lld\n", p->params[i].name, (long long)p->params[i].def.i);
	}
	assert_string_equal(got.s, want.s);
	VEC_FREE(&used);
	free(said);
	pipeline_free(p);
	str_deinit(&yaml);
	str_deinit(&want);
	str_deinit(&got);
}

static void test_groups(void **state)
{
	for (int i = 0; i < 2000; i++)
		random_groups();
}

static void test_gang_retry(void **state)
{
	static const struct {
		const char *defaults, *step;
		uint32_t want;
	} cases[] = {
		{ "", "", 0 },
		{ "", "distributed: {framework: torch}", 0 },
		{ "", "distributed: {framework: torch, nodes: 2}", 3 },
		{ "", "distributed: {framework: torch, nodes: {min: 1, max: 2}}", 3 },
		{ "", "distributed: {framework: torch, nodes: 2}, retry: 5", 3 },
		{ "", "retry: {max: 1}, distributed: {framework: torch, nodes: 2}", 3 },
		{ "", "retry: {unschedulable: 0}, distributed: {framework: torch, nodes: 2}", 0 },
		{ "", "distributed: {framework: torch, nodes: 2}, retry: {unschedulable: 7}", 7 },
		{ "", "retry: {unschedulable: 7}", 7 },
		{ "defaults: {retry: {unschedulable: 1}}\n",
		  "distributed: {framework: torch, nodes: 2}", 1 },
		{ "defaults: {retry: 1}\n", "distributed: {framework: torch, nodes: 2}", 3 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(freep) char *yaml =
			xasprintf(P "%ssteps:\n  a: {run: x%s%s}\n", cases[i].defaults,
				  *cases[i].step ? ", " : "", cases[i].step);
		struct pipeline *p = NULL;

		free(parse(yaml, &p));
		assert_non_null(p);
		assert_int_equal(p->steps[0].policy->retry.budget[FAILURE_UNSCHEDULABLE],
				 cases[i].want);
		pipeline_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad),         cmocka_unit_test(test_good),
		cmocka_unit_test(test_fashion),     cmocka_unit_test(test_everything),
		cmocka_unit_test(test_short),       cmocka_unit_test(test_order),
		cmocka_unit_test(test_long_chain),  cmocka_unit_test(test_params),
		cmocka_unit_test(test_params_file),

		cmocka_unit_test(test_gang_retry),  cmocka_unit_test(test_groups),
	};

	return cmocka_run_group_tests(tests, remember_home, forget_home);
}
