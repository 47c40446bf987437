/* Pipelines of several files: step files, pipelines as steps, what lies in a repository or a past
 * run. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include "model/external.h"
#include "unit/model/corpus.h"

static void test_sources(void **state)
{
	static const char main_yaml[] =
		P "steps:\n  a: {uses: ./steps/x.yaml, inputs: {i: d/}}\n  b: {uses: steps/x.yaml, "
		  "inputs: {i: d/}, with: {k: 2}}\n";
	static const char step_yaml[] =
		"step: x\nparams: {k: 1}\ninputs: [i]\noutputs: {o: o}\nrun: x ${{ params.k }} ${{ "
		"inputs.i }} ${{ step.dir }}\ncode: [../a.py]\n";
	struct pipeline_source src[] = { { "sub/p.yaml", main_yaml, strlen(main_yaml) },
					 { "sub/steps/x.yaml", step_yaml, strlen(step_yaml) } };
	struct diag_list *diags = diag_list_new();
	struct pipeline *p = NULL, *again = NULL;
	struct digest before;

	assert_int_equal(pipeline_parse(src, 2, diags, &p, NULL), 0);
	assert_int_equal(p->n_files, 2);
	assert_string_equal(p->files[0], "sub/p.yaml");
	assert_string_equal(p->files[1], "sub/steps/x.yaml");
	assert_string_equal(p->steps[0].reads->code[0], "sub/a.py");
	assert_int_equal(p->n_inputs, 1);
	assert_ptr_equal(p->steps[0].program.locals[0].decl, p->steps[1].program.locals[0].decl);
	before = p->digest;
	src[1].len -= strlen("code: [../a.py]\n");
	assert_int_equal(pipeline_parse(src, 2, diags, &again, NULL), 0);
	assert_false(digest_eq(&before, &again->digest));
	assert_int_equal(pipeline_parse(src, 1, diags, &again, NULL), -1);
	pipeline_free(p);
	pipeline_free(again);
	diag_list_free(diags);
}

/* What lies elsewhere, as a run's files in the store have it: a commit's files have its root, and
 * a past run's inputs are what it read. */
static void test_elsewhere(void **state)
{
#define COMMIT "git@0000000000000000000000000000000000000001"
#define HASH   "0000000000000000000000000000000000000000000000000000000000000002"
#define TREE   "abababababababababababababababababababababababababababababababab"
	static const char *const texts[] = {
		"lib/p.yaml",
		P "steps:\n"
		  "  sub: {uses: 'git+https://git.test/t@0000000000000000000000000000000000000001#"
		  "lib/t.yaml'}\n"
		  "  past: {uses: 'run:" HASH "'}\n"
		  "  own: {run: 'cat ${{ inputs.d }}', inputs: {d: data/}, code: [x]}\n",
		COMMIT "/lib/t.yaml",
		"pipeline: t\nsteps:\n  a: {uses: ../s/x.yaml, inputs: {i: data/}}\n"
		"  b: {run: 'true', code: [lib], environment: uv.lock}\n",
		COMMIT "/s/x.yaml",
		"step: x\ninputs: [i]\ncode: [x.sh]\nrun: sh ${{ step.dir }}/x.sh ${{ inputs.i "
		"}}\n",
		"run@" HASH "/.cairn/run.yaml",
		"{\"content\":{\"data\":\"artifact:" TREE "\"},\"pipeline\":\"lib/p.yaml\"}",
		"run@" HASH "/lib/p.yaml",
		"pipeline: q\nsteps:\n  c: {run: 'cat ${{ inputs.d }} ${{ inputs.e }}', inputs: "
		"{d: "
		"data/, e: other}}\n",
	};
	struct pipeline_source src[ARRAY_LEN(texts) / 2];
	struct diag_list *diags = diag_list_new();
	struct pipeline *p = NULL, *none = NULL;
	const struct input_decl *in;
	const struct step *s;

	for (size_t i = 0; i < ARRAY_LEN(src); i++)
		src[i] = (struct pipeline_source){ texts[2 * i], texts[2 * i + 1],
						   strlen(texts[2 * i + 1]) };
	assert_int_equal(pipeline_parse(src, ARRAY_LEN(src), diags, &p, NULL), 0);
	assert_int_equal(p->n_files, ARRAY_LEN(src));
	s = pipeline_find_step(p, "sub/a");
	assert_string_equal(s->root, COMMIT);
	assert_string_equal(s->reads->code[0], "s/x.sh");
	in = &p->inputs[s->inputs[0].from.index];
	assert_string_equal(in->root, COMMIT);
	assert_string_equal(in->uri, "data");
	s = pipeline_find_step(p, "sub/b");
	assert_string_equal(s->root, COMMIT);
	assert_string_equal(s->reads->environment, "uv.lock");
	s = pipeline_find_step(p, "past/c");
	assert_string_equal(s->root, "run@" HASH);
	in = &p->inputs[s->inputs[0].from.index];
	assert_int_equal(in->origin, INPUT_ARTIFACT);
	assert_string_equal(in->uri, "artifact:" TREE);
	assert_null(in->root);
	in = &p->inputs[s->inputs[1].from.index]; /* the run didn't read it */
	assert_int_equal(in->origin, INPUT_PATH);
	assert_string_equal(in->root, "run@" HASH);
	s = pipeline_find_step(p, "own");
	assert_null(s->root);
	in = &p->inputs[s->inputs[0].from.index];
	assert_int_equal(in->origin, INPUT_PATH);
	assert_null(in->root);
	assert_null(export_place_meets(p->inputs, p->n_inputs, "other", false));
	assert_int_equal(pipeline_parse(src, 3, diags, &none, NULL), -1);
	pipeline_free(p);
	diag_list_free(diags);
#undef COMMIT
#undef HASH
#undef TREE
}

/* The digits of an id and the lengths of a name, each at its limit and one beside it. */
static void test_elsewhere_limits(void **state)
{
	enum { URL = 2000, COMMIT = 40, HASH = 64 };
	static const struct {
		size_t url, digits, path;
		const char *problem;
	} git[] = {
		{ URL, COMMIT, URL - 1, NULL },
		{ URL + 1, COMMIT, 1, "it is too long" },
		{ URL, COMMIT, URL, "it is too long" },
		{ 100, COMMIT - 1, 1, "it isn't pinned" },
		{ 100, COMMIT + 1, 1, "it isn't pinned" },
		{ 100, COMMIT, 0, "which file of the repository?" },
		{ 100, COMMIT, 1, NULL },
	};
	struct arena *arena = arena_new();
	struct external got;

	for (size_t i = 0; i < ARRAY_LEN(git); i++) {
		_cleanup_(str_deinit) struct str text = { 0 };
		const char *problem;

		str_add(&text, "git+https://git.test/");
		while (text.len < git[i].url - 1 - git[i].digits)
			str_addc(&text, 'r');
		str_addc(&text, '@');
		for (size_t k = 0; k < git[i].digits; k++)
			str_addc(&text, 'a');
		assert_int_equal(text.len, git[i].url);
		str_addc(&text, '#');
		for (size_t k = 0; k < git[i].path; k++)
			str_addc(&text, 'p');
		problem = external_parse(text.s, arena, &got);
		if (!git[i].problem) {
			assert_null(problem);
			assert_int_equal(strlen(got.path), git[i].path);
			assert_int_equal(external_root_len(got.root), strlen(got.root));
		} else {
			assert_non_null(problem);
			assert_ptr_equal(strstr(problem, git[i].problem), problem);
		}
	}
	for (size_t digits = HASH - 1; digits <= HASH + 1; digits++) {
		_cleanup_(str_deinit) struct str text = { 0 };

		str_add(&text, "run:");
		for (size_t k = 0; k < digits; k++)
			str_addc(&text, '0');
		assert_int_equal(external_parse(text.s, arena, &got) == NULL, digits == HASH);
		memcpy(text.s, "run@", 4);
		assert_int_equal(external_root_len(text.s), digits == HASH ? 4 + HASH : 0);
	}
	arena_free(arena);
}

/* Steps that use pipelines. */

static void test_uses(void **state)
{
	static const char *const names[] = {
		"clean",       "first/prep",       "first/inner/fit", "first/score", "first/tidy",
		"second/prep", "second/inner/fit", "second/score",    "second/tidy", "pick",
		"last"
	};
	_cleanup_(freep) char *said = NULL;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	const struct param_override over[] = { { .name = "rate", .text = "3" } };
	struct pipeline *p = NULL;
	const struct step *s;
	struct value values[32];
	struct err err = { 0 };
	size_t n;

	enter(CORPUS "good");
	said = load("uses.yaml", &p);
	assert_string_equal(said, "");
	assert_int_equal(p->n_files, 3);
	assert_string_equal(p->files[1], "uses/train.yaml");
	assert_string_equal(p->files[2], "uses/fit.yaml");
	assert_int_equal(p->n_schedules, 0);
	assert_int_equal(p->n_steps, ARRAY_LEN(names));
	for (size_t i = 0; i < p->n_steps; i++)
		assert_string_equal(p->steps[i].name, names[i]);
	assert_ptr_equal(pipeline_find_steps(p, "second", &n), &p->steps[5]);
	assert_int_equal(n, 4);
	assert_ptr_equal(pipeline_find_steps(p, "first/inner", &n), &p->steps[2]);
	assert_int_equal(n, 1);
	assert_null(pipeline_find_steps(p, "firs", &n));
	assert_null(pipeline_find_steps(p, "", &n));

	/* Inputs: given ones are references, others are declared with the step's name. */
	assert_int_equal(p->n_inputs, 4);
	assert_string_equal(p->inputs[1].name, "first/extra");
	assert_string_equal(p->inputs[2].name, "second/raw");
	s = &p->steps[1];
	assert_int_equal(s->inputs[0].from.kind, REF_STEP_OUTPUT);
	assert_int_equal(s->inputs[0].from.step, 0);
	assert_int_equal(s->inputs[0].subpath->n_parts, 2);
	assert_string_equal(s->inputs[0].subpath->parts[0].text, "/part");
	assert_string_equal(s->inputs[0].subpath->parts[1].text, "/a");
	assert_int_equal(s->inputs[1].from.kind, REF_PIPELINE_INPUT);
	assert_non_null(dep_on(p, s, "clean"));
	assert_string_equal(env_of(s, "LR"), "(expression)");
	assert_int_equal(s->reads->n_env, 1); /* the outer pipeline's defaults don't hold */

	/* Across the border no axes are matched, though both have `fold`. */
	s = pipeline_find_step(p, "pick");
	assert_int_equal(dep_on(p, s, "first/inner/fit")->n_shared, 0);
	assert_string_equal(template_literal(s->inputs[1].subpath), "/deep");

	/* `if` and `needs` hold for each of its steps; what ends it is needed. */
	for (size_t i = 5; i < 9; i++) {
		s = &p->steps[i];
		assert_non_null(s->condition);
		assert_int_equal(expr_handles_failure(s->condition), i == 8);
		assert_true(dep_on(p, s, "first/score")->metrics);
		assert_true(dep_on(p, s, "first/score")->order);
		assert_true(dep_on(p, s, "first/tidy")->order);
		assert_null(dep_on(p, s, "first/prep"));
	}
	s = pipeline_find_step(p, "last");
	assert_int_equal(s->n_deps, 2);
	assert_true(dep_on(p, s, "second/score")->order);
	assert_true(dep_on(p, s, "second/tidy")->order);

	/* Params. */
	assert_int_equal(p->n_params, 3);
	assert_int_equal(p->n_given, 2 * (4 + 2));
	assert_int_equal(params_resolve(p, NULL, 0, arena, values, diags, &err), 0);
	assert_string_equal(p->params[3].name, "lr");
	assert_string_equal(p->given[0].by, "first");
	assert_true(values[3].type == VALUE_FLOAT && values[3].f == 0.25);
	assert_int_equal(values[4].list.n, 3);
	assert_int_equal(values[5].i, 5);
	assert_int_equal(values[7].list.n, 3); /* of first/inner */
	assert_int_equal(values[8].i, 5);
	assert_true(values[9].f == 0.1);
	assert_int_equal(params_resolve(p, over, 1, arena, values, diags, &err), -1);
	assert_string_equal(err.msg,
			    "uses.yaml:13:16: step `first`, with.lr: must be at most 1, not 1.5");
	pipeline_free(p);
}

/* 100 uses of a file with 1,000 steps are one too many; 90 aren't. An error in it is one. */
static void test_many_uses(void **state)
{
	struct str outer = { 0 }, inner = { 0 };

	for (size_t uses = 90; uses <= 100; uses += 10) {
		struct pipeline_source src[2] = { { .path = "p" }, { .path = "s.yaml" } };
		_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
		struct pipeline *p = NULL;

		str_reset(&outer);
		str_reset(&inner);
		str_add(&outer, P "steps:\n");
		str_add(&inner, P "steps:\n");
		for (size_t i = 0; i < uses; i++)
			str_addf(&outer, "  u%zu: {uses: ./s.yaml}\n", i);
		for (size_t i = 0; i < 1000; i++)
			str_addf(&inner, "  s%zu: {run: x}\n", i);
		src[0].bytes = outer.s, src[0].len = outer.len;
		src[1].bytes = inner.s, src[1].len = inner.len;
		assert_int_equal(pipeline_parse(src, 2, diags, &p, NULL), uses == 90 ? 0 : -1);
		assert_int_equal(diag_errors(diags), uses != 90);
		if (p)
			assert_int_equal(p->n_steps, 90000);
		pipeline_free(p);
		str_add(&inner, "  bad: {run: x, needs: [y]}\n");
		src[1].bytes = inner.s, src[1].len = inner.len;
		if (uses == 90) {
			assert_int_equal(pipeline_parse(src, 2, diags, &p, NULL), -1);
			assert_int_equal(diag_errors(diags), 1);
			assert_string_equal(diag_at(diags, 0)->message,
					    "step `bad` needs `y`, which does not exist (used by "
					    "p:3)");
		}
	}
	str_deinit(&outer);
	str_deinit(&inner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sources),          cmocka_unit_test(test_elsewhere),
		cmocka_unit_test(test_elsewhere_limits), cmocka_unit_test(test_uses),
		cmocka_unit_test(test_many_uses),
	};

	return cmocka_run_group_tests(tests, remember_home, forget_home);
}
