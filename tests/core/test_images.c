/* Images of steps where they run in containers: asked for once a run, by digest in keys, attempts
 * and manifests; pinned for a resumed run and a reproduction; named by `why`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/fixture.h"
#include "plan/plan.h"
#include "record/manifest/manifest.h"
#include "run/reproduce/reproduce.h"
#include "unit.h"

#define A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

static const char yaml[] = "pipeline: boxes\n"
			   "defaults: {image: \"team/train:2.4\"}\n"
			   "inputs: {raw: raw/}\n"
			   "steps:\n"
			   "  a: {run: work a, outputs: {o: o}}\n"
			   "  b: {run: work b, image: \"team/other:1\", outputs: {o: o}}\n"
			   "  again: {run: work again, tools: [\"exit 9\"], outputs: {o: o}}\n"
			   "  cut: {uses: shard, with: {samples_per_shard: 2}, inputs: {data: "
			   "\"${{ inputs.raw }}\"}, outputs: {train: t/}}\n";

/* A registry, and a world around it. */

struct hub {
	const char *train, *other; /* digests */
	unsigned calls, names;
	bool gone;
	char secrets[64]; /* of the last one that was asked for */
};

static int resolve(void *arg, const struct plan_image_wanted *wanted, size_t n, struct arena *arena,
		   const char **ret_refs, size_t *ret_failed, struct err *err)
{
	struct hub *h = arg;

	h->calls++;
	h->names += (unsigned)n;
	for (size_t i = 0; i < n; i++) {
		const char *name = wanted[i].name;
		bool other = str_has_prefix(name, "team/other");

		h->secrets[0] = '\0';
		for (size_t k = 0; wanted[i].pull_secrets[k]; k++)
			strncat(strncat(h->secrets, wanted[i].pull_secrets[k], 8), " ", 2);
		*ret_failed = i;
		if (h->gone || !(str_has_prefix(name, "team/train") || other))
			return err_set(err, ERR_NOT_FOUND, "there is no %s", name);
		ret_refs[i] = arena_printf(arena, "docker.io/team/%s@%s", other ? "other" : "train",
					   other ? h->other : h->train);
	}
	return 0;
}

struct world {
	char dir[TEST_DIR_MAX];
	struct hub hub;
	struct plan_images images;
	struct engine e;
	struct arena *arena;
	struct config config;
	unsigned executed;
	bool has_images;
	char a[200], cut[200]; /* images that attempts of these steps were given */
};

static void execute(void *arg, const struct runner_attempt *at, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;
	struct content_id file = { .kind = 0 };

	w->executed++;
	if (str_eq(at->task, "a"))
		snprintf(w->a, sizeof(w->a), "%s", at->on.image ? at->on.image : "none");
	if (str_eq(at->task, "cut"))
		snprintf(w->cut, sizeof(w->cut), "%s", at->on.image ? at->on.image : "none");
	assert_int_equal(content_put_bytes(w->e.store, at->task, strlen(at->task), &file, NULL), 0);
	for (size_t i = 0; i < at->n_outputs; i++)
		ret_outputs[i] = file;
}

static void put_file(struct world *w, const char *name, const char *text)
{
	_cleanup_(freep) char *path = xasprintf("%s/%s", w->dir, name), *dir = fs_dirname(path);

	assert_int_equal(fs_mkdir_p(dir, NULL), 0);
	assert_int_equal(fs_write_atomic(path, text, strlen(text), NULL), 0);
}

static int set_up(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct runner_fake_options o = { .script = execute, .arg = w };

	test_dir(w->dir, sizeof(w->dir), "images");
	w->arena = arena_new();
	engine_open(&w->e, &o);
	w->config = (struct config){ .project_root = w->dir,
				     .state_dir = w->dir,
				     .runner = "kubernetes",
				     .limits.cpu_milli = 8000,
				     .limits.memory_bytes = GIB };
	w->hub = (struct hub){ .train = A, .other = B };
	w->images = (struct plan_images){ resolve, "linux/amd64", &w->hub };
	w->has_images = true;
	put_file(w, "raw/x.txt", "x");
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	engine_close(&w->e);
	arena_free(w->arena);
	fs_remove_tree(w->dir, NULL);
	free(w);
	return 0;
}

static struct run_row run(struct world *w, const char *text)
{
	_cleanup_(pipeline_freep) struct pipeline *p = engine_pipeline(w->dir, text);
	struct run_context ctx = engine_context(&w->e, &w->config);
	struct run_row row = { 0 };
	struct err err = { 0 };

	ctx.images = w->has_images ? &w->images : NULL;
	w->executed = 0;
	if (run_start(&ctx, p, &(struct run_options){ .jobs = 2 }, w->arena, &row, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(row.state, RUN_SUCCEEDED);
	return row;
}

/* A plan by itself, with or without pins. */
static int plan(struct world *w, struct pipeline *p, const struct plan_pin *pins, size_t n_pins,
		struct plan **ret, struct err *err)
{
	struct plan_context c = { .config = &w->config,
				  .pipeline = p,
				  .store = w->e.store,
				  .db = w->e.db,
				  .images = &w->images,
				  .pins = pins,
				  .n_pins = n_pins };

	if (plan_new(&c, &(struct plan_options){ .hash_only = false }, ret, err) < 0)
		return -1;
	return plan_resolve(*ret, err);
}

static void key_of(const struct plan *p, size_t step, struct digest *ret)
{
	*ret = plan_task_at(p, step, 0)->key;
}

/* One run. */

static void test_attempts_and_manifest(void **state)
{
	struct world *w = *state;
	struct run_row row = run(w, yaml);
	struct attempt_row *attempts;
	struct manifest m;
	size_t n, found = 0;

	assert_int_equal(w->hub.calls, 1);
	assert_int_equal(w->hub.names, 2); /* three steps, two names */
	assert_string_equal(w->a, "docker.io/team/train@" A);
	assert_string_equal(w->cut, "none");
	assert_int_equal(record_run_attempts(w->e.db, row.rowid, w->arena, &attempts, &n, NULL), 0);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < n; i++)
		if (str_eq(attempts[i].task, "b"))
			assert_string_equal(attempts[i].image, "docker.io/team/other@" B);
		else if (str_eq(attempts[i].task, "cut"))
			assert_null(attempts[i].image);
	assert_int_equal(manifest_load(w->e.store, &row.hash, w->arena, &m, NULL), 0);
	for (size_t i = 0; i < m.n_steps; i++)
		if (str_eq(m.steps[i].name, "a")) {
			assert_string_equal(m.steps[i].image, "team/train:2.4");
			assert_string_equal(m.steps[i].image_digest, "docker.io/team/train@" A);
			found++;
		} else if (str_eq(m.steps[i].name, "cut")) {
			assert_null(m.steps[i].image_digest);
			found++;
		}
	assert_int_equal(found, 2);
}

/* Keys and reasons. */

static const char *reason_of(struct world *w, const struct run_row *row, const char *task)
{
	struct attempt_row *attempts;
	size_t n;

	assert_int_equal(record_run_attempts(w->e.db, row->rowid, w->arena, &attempts, &n, NULL),
			 0);
	for (size_t i = 0; i < n; i++)
		if (str_eq(attempts[i].task, task))
			return attempts[i].reason;
	return "not executed";
}

static char *replaced(const char *text, const char *was, const char *is)
{
	struct str out = { 0 };
	const char *at = strstr(text, was);

	assert_non_null(at);
	str_addn(&out, text, (size_t)(at - text));
	str_add(&out, is);
	str_add(&out, at + strlen(was));
	return str_take(&out);
}

static void test_what_a_key_depends_on(void **state)
{
	struct world *w = *state;
	_cleanup_(freep) char *other_tag = replaced(yaml, "train:2.4", "train:3.0");
	struct run_row row;

	run(w, yaml);
	assert_int_equal(w->executed, 4);
	run(w, yaml);
	assert_int_equal(w->executed, 0);
	run(w, other_tag); /* the same image by another name */
	assert_int_equal(w->executed, 0);
	w->hub.train = C;
	row = run(w, yaml);
	assert_int_equal(w->executed, 2); /* a and again, not b, not the built-in step */
	assert_string_equal(
		reason_of(w, &row, "a"),
		"image team/train:2.4 changed: sha256:aaaaaaaaaaaa → sha256:cccccccccccc");
	w->images.platform = "linux/arm64";
	row = run(w, yaml);
	assert_int_equal(w->executed, 3);
	assert_string_equal(reason_of(w, &row, "a"),
			    "image team/train:2.4 changed: sha256:cccccccccccc linux/amd64 → "
			    "sha256:cccccccccccc linux/arm64");
	w->images.platform = "linux/amd64";
	w->hub.train = A;
	run(w, yaml);
	assert_int_equal(w->executed, 0);
}

/* Its nodes are others than those of the project, and so are its results. */
static void test_a_step_that_selects_its_processor(void **state)
{
	struct world *w = *state;
	_cleanup_(freep) char *arm =
		replaced(yaml, "run: work b,",
			 "run: work b, kubernetes: {node_selector: {kubernetes.io/arch: arm64}},");
	_cleanup_(freep) char *amd =
		replaced(yaml, "run: work b,",
			 "run: work b, kubernetes: {node_selector: {kubernetes.io/arch: amd64}},");
	struct run_row row;

	run(w, yaml);
	assert_int_equal(w->executed, 4);
	row = run(w, arm);
	assert_int_equal(w->executed, 1);
	assert_non_null(strstr(reason_of(w, &row, "b"), "linux/amd64 → "));
	run(w, amd); /* as all of them */
	assert_int_equal(w->executed, 0);
	run(w, arm);
	assert_int_equal(w->executed, 0);
}

/* On this machine images count for nothing, and tools do. */
static void test_without_containers(void **state)
{
	struct world *w = *state;
	_cleanup_(freep) char *tool = replaced(yaml, "exit 9", "echo 1");
	_cleanup_(freep) char *other_image = replaced(tool, "train:2.4", "elsewhere:1");

	run(w, yaml);
	w->has_images = false;
	w->config.runner = "local";
	run(w, tool);
	assert_int_equal(w->executed, 3); /* the built-in step has the same key everywhere */
	assert_string_equal(w->a, "none");
	run(w, other_image);
	assert_int_equal(w->executed, 0);
	assert_int_equal(w->hub.calls, 1);
}

/* Of an image that several steps name, those of all. */
static void test_pull_secrets(void **state)
{
	struct world *w = *state;

	run(w,
	    "pipeline: secret\n"
	    "defaults: {image: \"team/train:1\"}\n"
	    "steps:\n"
	    "  a: {run: work a, outputs: {o: o}, kubernetes: {image_pull_secrets: [mine, ours]}}\n"
	    "  b: {run: work b, outputs: {o: o}}\n"
	    "  c: {run: work c, outputs: {o: o}, kubernetes: {image_pull_secrets: [ours, "
	    "theirs]}}\n");
	assert_int_equal(w->hub.names, 1);
	assert_string_equal(w->hub.secrets, "mine ours theirs ");
	run(w, yaml);
	assert_string_equal(w->hub.secrets, "");
}

/* Pins. */

static void test_a_resumed_run_takes_its_pins(void **state)
{
	struct world *w = *state;
	_cleanup_(pipeline_freep) struct pipeline *p = engine_pipeline(w->dir, yaml);
	_cleanup_(plan_freep) struct plan *first = NULL;
	_cleanup_(plan_freep) struct plan *resumed = NULL;
	_cleanup_(plan_freep) struct plan *later = NULL;
	const struct plan_pin *pins;
	struct digest k1, k2, k3;
	struct err err = { 0 };
	size_t n;

	if (plan(w, p, NULL, 0, &first, &err) < 0)
		fail_msg("%s", err.msg);
	pins = plan_pins(first, &n);
	w->hub = (struct hub){ .gone = true };
	w->images.platform = "linux/arm64";
	if (plan(w, p, pins, n, &resumed, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(w->hub.calls, 0);
	assert_string_equal(plan_step_image(resumed, 0, &(const char *){ NULL }),
			    "docker.io/team/train@" A);
	key_of(first, 0, &k1);
	key_of(resumed, 0, &k2);
	assert_true(digest_eq(&k1, &k2));
	w->hub = (struct hub){ .train = C, .other = B };
	assert_int_equal(plan(w, p, NULL, 0, &later, NULL), 0);
	key_of(later, 0, &k3);
	assert_false(digest_eq(&k1, &k3));
}

/* Images by expressions: each is resolved once, is in the key of its own tasks, and stays for a
 * resumed run. */
static void test_each_task_has_its_image(void **state)
{
	static const char text[] =
		"pipeline: p\n"
		"steps:\n"
		"  a: {run: x, matrix: {of: [train, other], k: [1, 2]}, outputs: {o: o},\n"
		"      image: \"team/${{ matrix.of }}:2.4\"}\n"
		"  b: {run: y, each: ['train:2.4'], image: \"team/${{ item }}\"}\n";
	struct world *w = *state;
	_cleanup_(pipeline_freep) struct pipeline *p = engine_pipeline(w->dir, text);
	_cleanup_(plan_freep) struct plan *first = NULL;
	_cleanup_(plan_freep) struct plan *resumed = NULL;
	const char *name = NULL;
	const struct plan_pin *pins;
	struct err err = { 0 };
	size_t n;

	if (plan(w, p, NULL, 0, &first, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(w->hub.calls, 1);
	assert_int_equal(w->hub.names, 2);
	pins = plan_pins(first, &n);
	w->hub = (struct hub){ .gone = true };
	if (plan(w, p, pins, n, &resumed, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(w->hub.calls, 0);
	for (size_t i = 0; i < 4; i++) {
		const struct plan_task *t = plan_task_at(resumed, 0, i);

		assert_string_equal(plan_task_image(resumed, t),
				    i < 2 ? "docker.io/team/train@" A : "docker.io/team/other@" B);
		assert_string_equal(plan_task_step(resumed, t)->machine->place.image,
				    i < 2 ? "team/train:2.4" : "team/other:2.4");
		/* The command is the same, so the image alone tells the keys apart. */
		assert_int_equal(digest_eq(&t->key, &plan_task_at(resumed, 0, 0)->key), i < 2);
		assert_true(digest_eq(&t->key, &plan_task_at(first, 0, i)->key));
	}
	assert_null(plan_step_image(resumed, 0, &name));
	assert_string_equal(plan_step_image(resumed, 1, &name), "docker.io/team/train@" A);
	assert_string_equal(name, "team/train:2.4");
}

static void test_a_reproduction_takes_the_recorded_images(void **state)
{
	struct world *w = *state;
	struct run_row first = run(w, yaml), row;
	struct run_context ctx = engine_context(&w->e, &w->config);
	struct reproduction *rep = NULL;
	struct err err = { 0 };

	ctx.images = &w->images;
	w->hub = (struct hub){ .gone = true };
	w->executed = 0;
	w->a[0] = '\0';
	if (run_reproduce(&ctx, &first.hash,
			  &(struct reproduce_options){ .mode = REPRODUCE_ISOLATED, .jobs = 2 },
			  w->arena, &row, &rep, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(w->executed, 4);
	assert_int_equal(w->hub.calls, 0);
	assert_string_equal(w->a, "docker.io/team/train@" A);
	assert_int_equal(rep->verdict, VERDICT_IDENTICAL);
}

/* Many steps of one image. */

static unsigned pins_read, steps_sought;

int __real_content_read(struct store *s, const struct content_id *id, uint64_t max, struct str *out,
			struct err *err);
int __wrap_content_read(struct store *s, const struct content_id *id, uint64_t max, struct str *out,
			struct err *err)
{
	int r = __real_content_read(s, id, max, out, err);

	pins_read += r == 0 && out->len && strstr(out->s, "@" A " linux/amd64");
	return r;
}

const struct step *__real_pipeline_find_step(const struct pipeline *p, const char *name);
const struct step *__wrap_pipeline_find_step(const struct pipeline *p, const char *name)
{
	steps_sought++;
	return __real_pipeline_find_step(p, name);
}

/* A search for each step, or a read for each, would make a plan of 10,000 steps wait. */
static void test_many_steps_cost_one_pin_and_no_search(void **state)
{
	enum { STEPS = 50 };
	_cleanup_(str_deinit) struct str text = { 0 };
	struct world *w = *state;

	str_add(&text, "pipeline: many\ndefaults: {image: \"team/train:2.4\"}\nsteps:\n");
	for (int i = 0; i < STEPS; i++)
		str_addf(&text, "  s%d: {run: work %d, cache: false, outputs: {o: o}}\n", i, i);
	run(w, text.s);
	pins_read = steps_sought = 0;
	run(w, text.s); /* the last table has all of them, and none may be used */
	assert_int_equal(w->executed, STEPS);
	assert_int_equal(pins_read, 1);
	assert_int_equal(steps_sought, 0);
}

/* Errors. */

static void refused(struct world *w, const char *text, const char *want)
{
	_cleanup_(pipeline_freep) struct pipeline *p = engine_pipeline(w->dir, text);
	_cleanup_(plan_freep) struct plan *none = NULL;
	struct err err = { 0 };

	assert_int_equal(plan(w, p, NULL, 0, &none, &err), -1);
	if (!strstr(err.msg, want))
		fail_msg("`%s` is not in `%s`", want, err.msg);
}

static void test_errors_say_where(void **state)
{
	struct world *w = *state;
	_cleanup_(freep) char *unknown = replaced(yaml, "team/other:1", "team/nobody:1"),
			      *without =
				      replaced(yaml, "defaults: {image: \"team/train:2.4\"}\n", "");

	refused(w, unknown,
		"pipeline.yaml:6:3: step `b`: image `team/nobody:1`: there is no team/nobody:1");
	refused(w, without,
		"pipeline.yaml:4:3: step `a` has no `image`, and on Kubernetes its command needs "
		"one");
}

int main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = { ONE(test_pull_secrets),
					    ONE(test_attempts_and_manifest),
					    ONE(test_what_a_key_depends_on),
					    ONE(test_a_step_that_selects_its_processor),
					    ONE(test_without_containers),
					    ONE(test_a_resumed_run_takes_its_pins),
					    ONE(test_each_task_has_its_image),
					    ONE(test_a_reproduction_takes_the_recorded_images),
					    ONE(test_many_steps_cost_one_pin_and_no_search),
					    ONE(test_errors_say_where) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
