/* A reproduction as text, JSON and HTML: the first divergence first, every verdict by its own name,
 * and nothing hostile in the page. */
#include <stdio.h>
#include "base/os/fs.h"
#include "cli/reproduce/reproduction.h"
#include "unit.h"

static struct reproduced_output outputs[] = {
	{ .name = "shards",
	  .was.kind = CONTENT_TREE,
	  .is.kind = CONTENT_TREE,
	  .result = { .verdict = VERDICT_IDENTICAL, .n_files = 3 } },
	{ .name = "archive",
	  .was.kind = CONTENT_BLOB,
	  .is.kind = CONTENT_BLOB,
	  .result = { .verdict = VERDICT_NORMALISED,
		      .normaliser = "gzip+tar",
		      .path = "",
		      .detail = "mtime of member a.txt",
		      .n_files = 1,
		      .n_normalised = 1 } },
	{ .name = "model<b>",
	  .was.kind = CONTENT_TREE,
	  .is.kind = CONTENT_TREE,
	  .result = { .verdict = VERDICT_DIFFERENT,
		      .path = "w.npz",
		      .has_offset = true,
		      .offset = 1234,
		      .detail = "npz: w.npy: value at [3]: 1 → 2",
		      .n_files = 5,
		      .n_different = 2 } },
	{ .name = "gone",
	  .was.kind = CONTENT_BLOB,
	  .result = { .verdict = VERDICT_MISSING, .detail = "only the old one has it" } },
};
static struct reproduced_metric metrics[] = {
	{ .name = "accuracy",
	  .had = true,
	  .has = true,
	  .was = 0.91,
	  .is = 0.92,
	  .tolerance = 0.02,
	  .verdict = VERDICT_TOLERATED },
	{ .name = "loss",
	  .had = true,
	  .has = true,
	  .was = 0.5,
	  .is = 0.7,
	  .verdict = VERDICT_DIFFERENT },
};
static struct reproduced_task tasks[] = {
	{ .task = "shard",
	  .step = "shard",
	  .verdict = REPRODUCED,
	  .outputs = outputs,
	  .n_outputs = 2,
	  .duration_ns = NS_PER_S,
	  .was_duration_ns = 2 * NS_PER_S },
	{ .task = "train[f=<script>]",
	  .step = "train",
	  .verdict = DIVERGED,
	  .outputs = outputs + 2,
	  .n_outputs = 2,
	  .metrics = metrics,
	  .n_metrics = 2 },
	{ .task = "publish",
	  .step = "publish",
	  .verdict = NOT_COMPARABLE,
	  .why = "input raw (sha256:12…) is not in the store" },
	{ .task = "other", .step = "other", .verdict = NOT_SELECTED },
};
static struct environment_difference environment[] = {
	{ "kernel", "6.1.0-18", "6.1.0-20<x>" }, { "tool python3 --version", "3.11", "3.12" }
};

static struct reproduction sample(void)
{
	return (struct reproduction){
		.was = { .id = "p-aaaaa", .pipeline = "p\"&", .started_ns = 1 },
		.is = { .id = "p-bbbbb", .pipeline = "p", .started_ns = 2 },
		.verdict = VERDICT_DIFFERENT,
		.tasks = tasks,
		.n_tasks = 4,
		.first = 1,
		.environment = environment,
		.n_environment = 2
	};
}

static void begin(struct cli *cli, char **text, size_t *n)
{
	cli_init(cli, open_memstream(text, n), stderr);
	cli->color_out = false;
	cli->utf8 = true;
}

static void end(struct cli *cli)
{
	FILE *f = cli->out;

	cli_deinit(cli);
	fclose(f);
}

static void as_text(void **state)
{
	struct reproduction r = sample();
	struct cli cli;
	char *text;
	size_t n;

	begin(&cli, &text, &n);
	reproduction_print(&cli, &r);
	end(&cli);
	assert_ptr_equal(strstr(text, "different: train[f=<script>] diverged first; 1 of 3 tasks"),
			 text);
	assert_non_null(strstr(text, "first divergence: train"));
	assert_non_null(strstr(text, "model<b> different: w.npz at byte 1234: npz: w.npy: value at "
				     "[3]: 1 → 2 (and 1 more of 5 files)"));
	assert_non_null(strstr(text, "gone missing: only the old one has it"));
	assert_non_null(strstr(text, "accuracy 0.91 → 0.92, within the tolerance of 0.02"));
	assert_non_null(strstr(text, "kernel: 6.1.0-18 → 6.1.0-20"));
	assert_non_null(strstr(text, "archive: identical after normalisation (gzip+tar): mtime of "
				     "member a.txt; 1 identical"));
	assert_non_null(strstr(text, "input raw (sha256:12…) is not in the store"));
	assert_true(strstr(text, "first divergence") < strstr(text, "different around it") &&
		    strstr(text, "different around it") < strstr(text, "shard "));
	assert_null(strstr(text, "other"));
	free(text);
}

static void all_the_same(void **state)
{
	struct reproduction r = sample();
	struct cli cli;
	char *text;
	size_t n;

	r.verdict = VERDICT_IDENTICAL;
	r.n_tasks = r.first = 1;
	tasks[0].n_outputs = 1;
	begin(&cli, &text, &n);
	reproduction_print(&cli, &r);
	end(&cli);
	tasks[0].n_outputs = 2;
	assert_ptr_equal(strstr(text, "identical: every output is the same bytes"), text);
	assert_null(strstr(text, "divergence"));
	assert_non_null(strstr(text, "without effect"));
	free(text);
}

static void as_json(void **state)
{
	struct reproduction r = sample();
	json_t *j, *t;
	struct cli cli;
	char *text;
	size_t n;

	begin(&cli, &text, &n);
	j = reproduction_json(&r);
	assert_string_equal(json_string_value(json_object_get(j, "verdict")), "different");
	assert_string_equal(json_string_value(json_object_get(j, "first")), "train[f=<script>]");
	assert_int_equal(json_array_size(json_object_get(j, "tasks")), 4);
	t = json_array_get(json_object_get(j, "tasks"), 1);
	assert_string_equal(json_string_value(json_object_get(t, "verdict")), "diverged");
	t = json_array_get(json_object_get(t, "outputs"), 0);
	assert_int_equal(json_integer_value(json_object_get(t, "offset")), 1234);
	assert_true(json_is_null(json_object_get(
		json_array_get(
			json_object_get(json_array_get(json_object_get(j, "tasks"), 1), "outputs"),
			1),
		"is")));
	json_decref(j);
	end(&cli);
	free(text);
}

static void as_html(void **state)
{
	char path[] = "/tmp/cairn-reproduction-XXXXXX";
	struct reproduction r = sample();
	struct str page = { 0 };
	struct err err = { 0 };
	struct cli cli;
	char *text;
	size_t n;

	close(mkstemp(path));
	begin(&cli, &text, &n);
	if (reproduction_write_html(&cli, &r, path, &err) < 0)
		fail_msg("%s", err.msg);
	end(&cli);
	assert_int_equal(fs_read_file(path, MIB, &page, &err), 0);
	assert_null(strstr(page.s, "<script"));
	assert_null(strstr(page.s, "<x>"));
	assert_null(strstr(page.s, "model<b>"));
	assert_null(strstr(page.s, "http")); /* nothing from elsewhere */
	assert_non_null(strstr(page.s, "&lt;script"));
	assert_non_null(strstr(page.s, "prefers-color-scheme:dark"));
	assert_non_null(strstr(page.s, "identical after normalisation (gzip+tar)"));
	assert_true(strstr(page.s, "First divergence") < strstr(page.s, "<h2>Tasks"));
	if (getenv("KEEP_PAGE"))
		fs_write_atomic(getenv("KEEP_PAGE"), page.s, page.len, NULL);
	str_deinit(&page);
	unlink(path);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(as_text),
					    cmocka_unit_test(all_the_same),
					    cmocka_unit_test(as_json), cmocka_unit_test(as_html) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
