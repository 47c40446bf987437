/* Plans that are the last run's once more (plan/past/standing.c): after a first run, one thing
 * changes, and a second run follows. Its plan may stand only if nothing that decides a result has
 * changed. The second run's counts are right in either case; with a sanitizer, the engine also
 * makes each plan that stands once more, task by task (CAIRN_PROVE).
 */
#include <errno.h>
#include <unistd.h>
#include "core/fixture.h"
#include "record/db_sql.h"
#include "storage/content/content.h"
#include "storage/store.h"
#include "unit.h"

#define PLAIN                                                                             \
	"pipeline: standing\nparams: {n: 1, unused: 1}\ninputs: {data: in.txt}\nsteps:\n" \
	"  a: {run: \"sh tool.sh ${{ inputs.d }} ${{ params.n }}\","                      \
	" inputs: {d: \"${{ inputs.data }}\"}, outputs: {o: o}}\n"                        \
	"  many: {run: \"work ${{ matrix.x }} ${{ inputs.i }}\", matrix: {x: [0, 1, 2]}," \
	" inputs: {i: \"${{ steps.a.outputs.o }}\"}, outputs: {o: o}}\n"                  \
	"  never: {run: work, if: \"${{ params.n > 5 }}\", needs: [many]}\n"

struct world {
	char dir[TEST_DIR_MAX];
	struct config config;
	struct engine e;
	struct arena *arena;
	bool fails; /* task `a` */
};

static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;

	*ret_duration_ns = NS_PER_MS;
	if (w->fails && str_eq(a->task, "a"))
		*ret_failure = FAILURE_FAILED;
	for (size_t i = 0; i < a->n_outputs; i++)
		assert_int_equal(content_put_bytes(w->e.store, a->task, strlen(a->task),
						   &ret_outputs[i], NULL),
				 0);
}

static void write_file(const struct world *w, const char *name, const char *text)
{
	_cleanup_(freep) char *path = xasprintf("%s/%s", w->dir, name);

	assert_int_equal(fs_write_atomic_at(AT_FDCWD, path, text, strlen(text), 0644,
					    FS_WRITE_NO_SYNC, NULL),
			 0);
}

static void remove_file(const struct world *w, const char *name)
{
	_cleanup_(freep) char *path = xasprintf("%s/%s", w->dir, name);

	assert_true(unlink(path) == 0 || errno == ENOENT);
}

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	test_dir(w->dir, sizeof(w->dir), "standing");
	w->config = engine_config(w->dir);
	w->arena = arena_new();
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	arena_free(w->arena);
	fs_remove_tree(w->dir, NULL);
	free(w);
	return 0;
}

/* What changes between the runs. */

static void change_input(struct world *w, struct run_options *o)
{
	write_file(w, "in.txt", "other");
}

static void change_code(struct world *w, struct run_options *o)
{
	write_file(w, "tool.sh", "echo other\n");
}

/* A word of the command becomes the name of a file. */
static void add_code(struct world *w, struct run_options *o)
{
	write_file(w, "work", "echo\n");
}

static void touch(struct world *w, struct run_options *o)
{
	write_file(w, "in.txt", "data");
	write_file(w, "tool.sh", "echo\n");
	write_file(w, "another", "x");
}

static void change_salt(struct world *w, struct run_options *o)
{
	w->config.salt = "v2";
}

static void change_sandbox(struct world *w, struct run_options *o)
{
	w->config.sandbox.network = NETWORK_NONE;
}

static void change_param(struct world *w, struct run_options *o)
{
	static const struct param_override n = { .name = "n", .text = "2" };

	o->overrides = &n;
	o->n_overrides = 1;
}

static void set_param_as_it_is(struct world *w, struct run_options *o)
{
	static const struct param_override n = { .name = "n", .text = "1" };

	o->overrides = &n;
	o->n_overrides = 1;
}

static void force(struct world *w, struct run_options *o)
{
	static const char *const steps[] = { "many" };

	o->select.force = steps;
	o->select.n_force = 1;
}

static void target(struct world *w, struct run_options *o)
{
	static const char *const steps[] = { "a" };

	o->select.targets = steps;
	o->select.n_targets = 1;
}

static void lose_content(struct world *w, struct run_options *o)
{
	struct content_id id;

	assert_int_equal(content_put_bytes(w->e.store, "many[x=1]", 9, &id, NULL), 0);
	assert_int_equal(store_delete(w->e.store, STORE_BLOB, &id.digest, NULL), 0);
}

static void lose_table(struct world *w, struct run_options *o)
{
	struct run_row last;

	assert_int_equal(record_find_run(w->e.db, "last", w->arena, &last, NULL), 0);
	assert_int_equal(store_delete(w->e.store, STORE_BLOB, &last.results.digest, NULL), 0);
}

static void fail_then(struct world *w, struct run_options *o)
{
	w->fails = false;
}

/* The second run's digest beside the first's. NEVER: neither has one; NOT_NOW: only the first. */
enum stands { STANDS, ANOTHER, NOT_NOW, NEVER };
static const struct {
	const char *what, *yaml, *then; /* then NULL: the same file */
	void (*change)(struct world *w, struct run_options *o);
	bool fails;                       /* the first run */
	enum stands want;                 /* of the second run's digest, beside the first's */
	unsigned executed, hits, skipped; /* of the second */
} rows[] = {
	{ "nothing", PLAIN, NULL, NULL, false, STANDS, 0, 4, 1 },
	{ "times of files, other files", PLAIN, NULL, touch, false, STANDS, 0, 4, 1 },
	{ "a param said as it is", PLAIN, NULL, set_param_as_it_is, false, STANDS, 0, 4, 1 },
	{ "a comment", PLAIN, PLAIN "# more\n", NULL, false, ANOTHER, 0, 4, 1 },
	{ "a param", PLAIN, NULL, change_param, false, ANOTHER, 1, 3, 1 },
	{ "an input", PLAIN, NULL, change_input, false, ANOTHER, 1, 3, 1 },
	{ "code", PLAIN, NULL, change_code, false, ANOTHER, 1, 3, 1 },
	{ "a new file that commands name", PLAIN, NULL, add_code, false, ANOTHER, 3, 1, 1 },
	{ "the project's salt", PLAIN, NULL, change_salt, false, ANOTHER, 4, 0, 1 },
	{ "the project's sandbox", PLAIN, NULL, change_sandbox, false, ANOTHER, 4, 0, 1 },
	{ "--force", PLAIN, NULL, force, false, NOT_NOW, 3, 1, 1 },
	{ "a target", PLAIN, NULL, target, false, NOT_NOW, 0, 1, 0 },
	{ "content is lost", PLAIN, NULL, lose_content, false, STANDS, 1, 3, 1 },
	{ "the table is lost", PLAIN, NULL, lose_table, false, STANDS, 0, 4, 1 },
	{ "after a failure", PLAIN, NULL, fail_then, true, ANOTHER, 4, 0, 1 },
	{ "cache: false", PLAIN "  now: {run: work now, cache: false}\n", NULL, NULL, false, NEVER,
	  1, 4, 1 },
	{ "temp",
	  PLAIN "  b: {run: work b, outputs: {o: {path: o, temp: true}}}\n"
		"  c: {run: \"work ${{ inputs.i }}\", inputs: {i: \"${{ "
		"steps.b.outputs.o }}\"}}\n",
	  NULL, NULL, false, NEVER, 0, 6, 1 },
	{ "repeat",
	  PLAIN
	  "  r: {run: \"work ${{ round }}\", repeat: {max: 1, until: \"${{ params.n == 1 }}\"}}\n",
	  NULL, NULL, false, NEVER, 0, 5, 1 },
	{ "finally", PLAIN "finally:\n  say: {run: \"work ${{ run.state }}\"}\n", NULL, NULL, false,
	  NEVER, 1, 4, 1 },
};

/* `ahead`: the content of the last run was looked at before; NULL: it wasn't. */
static void run(struct world *w, const char *yaml, const struct run_options *o,
		struct plan_ahead *ahead, struct run_row *ret)
{
	_cleanup_(pipeline_freep) struct pipeline *p = engine_pipeline(w->dir, yaml);
	struct run_context ctx = engine_context(&w->e, &w->config);
	struct err err = { 0 };

	ctx.ahead = ahead;
	if (run_start(&ctx, p, o, w->arena, ret, &err) < 0)
		fail_msg("%s", err.msg);
}

static void test_changes(void **state)
{
	struct world *w = *state;

	for (size_t n = 0; n < 2 * ARRAY_LEN(rows); n++) {
		const size_t i = n / 2;
		struct plan_ahead *ahead = NULL;
		struct runner_fake_options fake = { .script = execute, .arg = w };
		struct run_options first = { .jobs = 1 }, second = { .jobs = 1 };
		struct run_row a, b;
		bool same;

		w->config = engine_config(w->dir);
		w->fails = rows[i].fails;
		write_file(w, "in.txt", "data");
		write_file(w, "tool.sh", "echo\n");
		remove_file(w, "work");
		engine_open(&w->e, &fake);
		run(w, rows[i].yaml, &first, NULL, &a);
		assert_int_equal(a.state, rows[i].fails ? RUN_FAILED : RUN_SUCCEEDED);
		if (a.has_plan_digest != (!rows[i].fails && rows[i].want != NEVER))
			fail_msg("%s: digest of the first run: %d", rows[i].what,
				 a.has_plan_digest);
		if (rows[i].change)
			rows[i].change(w, &second);
		if (n % 2) {
			ahead = plan_ahead_begin(w->e.store, w->e.db, a.path, 0);
			assert_int_equal(ahead != NULL, a.has_plan_digest);
		}
		run(w, rows[i].then ? rows[i].then : rows[i].yaml, &second, ahead, &b);
		plan_ahead_free(ahead);
		same = b.has_plan_digest && digest_eq(&a.plan_digest, &b.plan_digest);
		if (b.state != RUN_SUCCEEDED || b.counts.executed != rows[i].executed ||
		    b.counts.hits != rows[i].hits || b.counts.skipped != rows[i].skipped ||
		    b.has_plan_digest != (rows[i].want <= ANOTHER) ||
		    (b.has_plan_digest && same != (rows[i].want == STANDS)))
			fail_msg("%s: executed %llu, hits %llu, skipped %llu; digest %d, same %d",
				 rows[i].what, (unsigned long long)b.counts.executed,
				 (unsigned long long)b.counts.hits,
				 (unsigned long long)b.counts.skipped, b.has_plan_digest, same);
		if (rows[i].want == STANDS && !b.counts.executed)
			assert_true(content_id_eq(&a.results, &b.results));
		engine_close(&w->e);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_changes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
