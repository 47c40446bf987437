/* runners/kubernetes/pod_spec and init/protocol: what goes in comes out; what is hostile is
 * refused, and the field is named. */
#include <string.h>
#include "base/mem.h"
#include "runners/kubernetes/init/protocol.h"
#include "runners/kubernetes/job/pod_spec.h"
#include "unit.h"

static const char *const argv[] = { "python", "train.py", "--name", "a b\n\"q\" \xff\\", "", NULL };
static const char *const env[] = { "A=1", "EMPTY=", "UML=\xc3\xa4", NULL };
static const char *const secrets[] = { "TOKEN=hush-hush", "OTHER=also hidden", NULL };

static struct content_id id_of(const char *text, enum content_kind kind)
{
	struct content_id id = { .kind = kind, .size_bytes = strlen(text) };

	digest_bytes(text, strlen(text), &id.digest);
	return id;
}

static struct runner_attempt example(struct runner_input *in, struct runner_output *out,
				     struct content_id *code, struct digest *key)
{
	*in = (struct runner_input){ "data", "in/d\xc3\xa4ta set", id_of("input", CONTENT_TREE),
				     "claim://data/a b" };
	*out = (struct runner_output){ "model", "model", true };
	*code = id_of("code", CONTENT_TREE);
	digest_bytes("k", 1, key);
	return (struct runner_attempt){ .id = 42,
					.run_id = "r1",
					.task = "train[fold=0]",
					.number = 3,
					.key = key,
					.argv = argv,
					.env = env,
					.secrets = secrets,
					.inputs = in,
					.n_inputs = 1,
					.code = code,
					.outputs = out,
					.n_outputs = 1,
					.metrics_path = "m.json",
					.series_path = "series.jsonl",
					.checkpoint_path = "ckpt",
					.timeout_ns = 5,
					.grace_ns = 7,
					.forwards_signals = true,
					.on.step = "train",
					.on.gang = { "torch", 4, 2, 1 } };
}

static void same_list(const char *const *a, const char *const *b)
{
	for (; *a; a++, b++)
		assert_string_equal(*a, *b);
	assert_null(*b);
}

static void a_specification_comes_back(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str text = { 0 }, again = { 0 };
	const char *names[] = { "TOKEN", "OTHER", NULL };
	struct runner_input in;
	struct runner_output out;
	struct content_id code;
	struct digest key;
	struct runner_attempt a = example(&in, &out, &code, &key), *got;
	const struct runner_attempt *both[] = { &a, &a }, *read[2];
	size_t n;

	assert_int_equal(pod_spec_write(both, 2, 0, &text, NULL), 0);
	assert_null(strstr(text.s, "hush"));
	assert_int_equal(pod_spec_read(text.s, text.len, 0, arena, &got, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_int_equal(got[1].id, 42);
	assert_int_equal(got[1].number, 3);
	assert_string_equal(got[1].task, a.task);
	same_list(argv, got[1].argv);
	same_list(env, got[1].env);
	same_list(names, got[1].secrets);
	assert_true(digest_eq(got[1].key, &key) && content_id_eq(got[1].code, &code) &&
		    content_id_eq(&got[1].inputs[0].id, &in.id));
	assert_string_equal(got[1].inputs[0].path, in.path);
	assert_string_equal(got[1].inputs[0].volume, in.volume);
	assert_true(got[1].outputs[0].is_dir && got[1].forwards_signals);
	assert_string_equal(got[1].checkpoint_path, "ckpt");
	assert_int_equal(got[1].on.gang.nodes, 4);
	read[0] = &got[0];
	read[1] = &got[1];
	assert_int_equal(pod_spec_write(read, 2, 0, &again, NULL), 0);
	assert_string_equal(again.s, text.s);
}

/* Of an array each pod has its own, the last one what is left. */
static void each_pod_reads_its_own(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str text = { 0 };
	struct runner_input in;
	struct runner_output out;
	struct content_id code;
	struct digest key;
	struct runner_attempt a[5], *got;
	const struct runner_attempt *all[5];
	struct err err = { 0 };
	size_t n;

	for (size_t i = 0; i < 5; i++) {
		a[i] = example(&in, &out, &code, &key);
		a[i].id = 10 + i;
		all[i] = &a[i];
	}
	assert_int_equal(pod_spec_write(all, 5, 2, &text, NULL), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(pod_spec_read(text.s, text.len, i, arena, &got, &n, NULL), 0);
		assert_int_equal(n, i < 2 ? 2 : 1);
		assert_int_equal(got[0].id, 10 + 2 * i);
	}
	assert_int_equal(pod_spec_read(text.s, text.len, 3, arena, &got, &n, &err), -1);
	assert_non_null(strstr(err.msg, "nothing for pod 3"));
	assert_int_equal(pod_spec_read(text.s, text.len, UINT32_MAX, arena, &got, &n, &err), -1);
}

/* Inputs of a pod's attempts that are mounted: the sidecar relies on the order. */
static void views_come_in_order(void **state)
{
	static const struct {
		uint32_t views[3];
		const char *contents;
		const char *want; /* NULL: it is good */
	} rows[] = {
		{ { 1, 2, 3 }, "abc", NULL },
		{ { 1, 1, 2 }, "aab", NULL },
		{ { 0, 1, 0 }, "aaa", NULL },
		{ { 1, 2, 1 }, "aba", NULL },
		{ { 2, 1, 0 }, "aaa", "attempt 0: input 0: `mounted` is out of order" },
		{ { 1, 3, 0 }, "aaa", "attempt 1: input 0: `mounted` is out of order" },
		{ { 1, 1, 0 },
		  "aba",
		  "attempt 1: input 0: `mounted` names a view of other content" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		_cleanup_(str_deinit) struct str text = { 0 };
		struct runner_input in[3];
		struct runner_output out;
		struct content_id code;
		struct digest key;
		struct runner_attempt a[3], *got;
		const struct runner_attempt *all[3];
		struct err err = { 0 };
		size_t n;
		int r;

		for (size_t k = 0; k < 3; k++) {
			char content[2] = { rows[i].contents[k] };

			a[k] = example(&in[k], &out, &code, &key);
			in[k].id = id_of(content, CONTENT_BLOB);
			in[k].view = rows[i].views[k];
			all[k] = &a[k];
		}
		assert_int_equal(pod_spec_write(all, 3, 0, &text, NULL), 0);
		r = pod_spec_read(text.s, text.len, 0, arena, &got, &n, &err);
		assert_int_equal(r, rows[i].want ? -1 : 0);
		if (rows[i].want)
			assert_non_null(strstr(err.msg, rows[i].want));
		for (size_t k = 0; k < 3 && r == 0; k++)
			assert_int_equal(got[k].inputs[0].view, rows[i].views[k]);
	}
}

/* The example with one text in place of another. */
static char *spoiled(const char *old, const char *new)
{
	struct str text = { 0 }, out = { 0 };
	struct runner_input in;
	struct runner_output o;
	struct content_id code;
	struct digest key;
	struct runner_attempt a = example(&in, &o, &code, &key);
	const struct runner_attempt *one = &a;
	char *at;

	assert_int_equal(pod_spec_write(&one, 1, 0, &text, NULL), 0);
	at = strstr(text.s, old);
	assert_non_null(at);
	str_addn(&out, text.s, (size_t)(at - text.s));
	str_add(&out, new);
	str_add(&out, at + strlen(old));
	str_deinit(&text);
	return str_take(&out);
}

static void a_hostile_specification_is_refused(void **state)
{
	static const struct {
		const char *old, *new, *want;
	} cases[] = {
		{ "\"cairn_pod\":1", "\"cairn_pod\":2", "version 2" },
		{ "\"cairn_pod\":1", "\"x\":1", "was not written by cairn" },
		{ "\"cairn_pod\":1", "\"cairn_pod\":1,\"per_pod\":-1", "`per_pod`" },
		{ "\"cairn_pod\":1", "\"cairn_pod\":1,\"per_pod\":9999999", "`per_pod`" },
		{ "\"path\":\"model\"", "\"path\":\"../model\"",
		  "inside of the working directory" },
		{ "\"path\":\"model\"", "\"path\":\"/etc\"", "inside of the working directory" },
		{ "\"path\":\"model\"", "\"path\":\"a//b\"", "inside of the working directory" },
		{ "\"path\":\"model\"", "\"path\":\"a/./b\"", "inside of the working directory" },
		{ "\"checkpoint\":\"ckpt\"", "\"checkpoint\":\"..\"", "`checkpoint`" },
		{ "\"metrics\":\"m.json\"", "\"metrics\":7", "`metrics`" },
		{ "\"A=1\"", "\"A\"", "`env`" },
		{ "\"TOKEN\"", "\"TOKEN=x\"", "`secrets`" },
		{ "\"python\"", "\"\"", "`argv`" },
		{ "\"python\"", "\"a\\\\x00b\"", "`argv`" },
		{ "\"number\":3", "\"number\":-3", "`number`" },
		{ "\"timeout_ns\":5", "\"timeout_ns\":-5", "`timeout_ns`" },
		{ "\"id\":\"tree:", "\"id\":\"bush:", "content id" },
		{ "\"id\":\"tree:", "\"id\":\"tree:9", "" }, /* another size: an id all the same */
		{ "\"code\":\"tree:", "\"code\":\"blob:", "`code`" },
		{ "\"key\":\"", "\"key\":\"z", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		_cleanup_(freep) char *text = spoiled(cases[i].old, cases[i].new);
		struct runner_attempt *got;
		struct err err = { 0 };
		size_t n;

		if (pod_spec_read(text, strlen(text), 0, arena, &got, &n, &err) == 0)
			assert_string_equal(cases[i].new, "\"id\":\"tree:9");
		else if (!strstr(err.msg, cases[i].want) ||
			 (*cases[i].want && err.code != ERR_INVALID))
			fail_msg("%s: %s", cases[i].new, err.msg);
	}
}

static void any_cut_of_a_specification_is_refused(void **state)
{
	_cleanup_(freep) char *text = spoiled("train.py", "train.py");

	for (size_t len = 0; len < strlen(text); len += 7) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		struct runner_attempt *got;
		size_t n;

		assert_int_equal(pod_spec_read(text, len, 0, arena, &got, &n, NULL), -1);
	}
}

/* Results. */

static struct str stored;

static int put(void *arg, const void *bytes, size_t n, struct content_id *ret, struct err *err)
{
	str_reset(&stored);
	str_addn(&stored, bytes, n);
	*ret = (struct content_id){ .kind = CONTENT_BLOB, .size_bytes = n };
	digest_bytes(bytes, n, &ret->digest);
	return arg ? err_set(err, ERR_IO, "no store today") : 0;
}

static struct pod_result failed(struct content_id *outputs)
{
	struct pod_result r = {
		.attempt_id = 9, .index = 2, .ran = true, .stopped = true, .n_outputs = 2
	};

	outputs[0] = id_of("out", CONTENT_BLOB);
	outputs[1] = (struct content_id){ 0 };
	r.r = (struct runner_result){ .failure = FAILURE_FAILED,
				      .exit_status = -1,
				      .signo = 11,
				      .started_ns = 100,
				      .ended_ns = 200,
				      .cpu_ns = 50,
				      .max_rss_bytes = 1 << 20,
				      .outputs = outputs,
				      .metrics_json = "{\"a\": 1}\n",
				      .log = id_of("log", CONTENT_BLOB),
				      .log_tail = "last \xfe words\n",
				      .continues = "12 15" };
	err_set(&r.r.err, ERR_FAILED, "killed by SIGSEGV");
	return r;
}

static void a_result_comes_back(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str text = { 0 };
	struct content_id outputs[2], where;
	struct pod_result r = failed(outputs), *got;
	size_t n;

	assert_int_equal(pod_result_write(&r, 1, put, NULL, &text, NULL), 0);
	assert_int_equal(kube_pod_result_read(text.s, text.len, arena, &got, &n, &where, NULL), 0);
	assert_int_equal(n, 1);
	assert_true(got->attempt_id == 9 && got->index == 2 && got->ran && got->stopped &&
		    !got->main_died && got->n_outputs == 2);
	assert_true(got->r.failure == FAILURE_FAILED && got->r.exit_status == -1 &&
		    got->r.signo == 11 && got->r.started_ns == 100 && got->r.ended_ns == 200);
	assert_true(got->r.cpu_ns == 50 && got->r.max_rss_bytes == 1 << 20 &&
		    content_id_eq(&got->r.log, &r.r.log));
	assert_true(content_id_eq(&got->r.outputs[0], &outputs[0]) &&
		    got->r.outputs[1].kind == CONTENT_NONE);
	assert_string_equal(got->r.metrics_json, r.r.metrics_json);
	assert_string_equal(got->r.log_tail, r.r.log_tail);
	assert_string_equal(got->r.continues, "12 15");
	assert_string_equal(got->r.err.msg, "killed by SIGSEGV");
}

static void a_long_result_goes_through_the_store(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str text = { 0 };
	_cleanup_(freep) char *metrics = xmalloc(5001);
	struct content_id outputs[2], where;
	struct pod_result r = failed(outputs), *got;
	struct err err = { 0 };
	size_t n;

	memset(metrics, ' ', 5000);
	metrics[5000] = '\0';
	r.r.metrics_json = metrics;
	assert_int_equal(pod_result_write(&r, 1, put, NULL, &text, NULL), 0);
	assert_true(text.len <= POD_MESSAGE_MAX);
	assert_int_equal(kube_pod_result_read(text.s, text.len, arena, &got, &n, &where, NULL), 1);
	assert_int_equal(where.size_bytes, stored.len);
	assert_int_equal(kube_pod_result_read(stored.s, stored.len, arena, &got, &n, &where, NULL),
			 0);
	assert_string_equal(got->r.metrics_json, metrics);
	str_deinit(&stored);
	assert_int_equal(pod_result_write(&r, 1, put, "fails", &text, &err), -1);
	assert_int_equal(err.code, ERR_IO);
	str_deinit(&stored);
}

static void a_hostile_result_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"7",
		"{}",
		"{\"cairn_result\":1}",
		"{\"cairn_result\":1,\"results\":{}}",
		"{\"cairn_result\":1,\"results\":[7]}",
		"{\"cairn_result\":1,\"results\":[{\"failure\":\"cancelled\"}]}",
		"{\"cairn_result\":1,\"results\":[{\"failure\":\"gate\"}]}",
		"{\"cairn_result\":1,\"results\":[{\"exit\":256}]}",
		"{\"cairn_result\":1,\"results\":[{\"signal\":-1}]}",
		"{\"cairn_result\":1,\"results\":[{\"outputs\":[7]}]}",
		"{\"cairn_result\":1,\"results\":[{\"error_code\":99,\"error\":\"x\"}]}",
		"{\"cairn_result\":1,\"result\":\"tree:1:"
		"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"}",
		"{\"cairn_result\":1,\"result\":\"blob:99999999999:"
		"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"}",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		struct content_id where;
		struct pod_result *got;
		struct err err = { 0 };
		size_t n;

		if (kube_pod_result_read(bad[i], strlen(bad[i]), arena, &got, &n, &where, &err) !=
			    -1 ||
		    err.code != ERR_INVALID)
			fail_msg("%s: %s", bad[i], err.msg);
	}
}

/* Protocol. */

static void a_plan_comes_back(void **state)
{
	const struct init_program in[] = {
		{ "/a b", "/tmp", argv, env, secrets, 5, 7, true },
		{ "/c", "/tmp2", argv + 1, env + 3, secrets + 2, 0, 1, false },
	};
	struct init_program *got;
	size_t len, n;
	_cleanup_(freep) char *bytes = init_plan_encode(in, 2, &len);

	assert_int_equal(init_plan_decode(bytes, len, &got, &n), 0);
	assert_int_equal(n, 2);
	assert_string_equal(got[0].dir, "/a b");
	same_list(argv, got[0].argv);
	same_list(env, got[0].env);
	same_list(secrets, got[0].redact);
	assert_true(got[0].timeout_ns == 5 && got[0].grace_ns == 7 && got[0].forwards_signals &&
		    !got[1].forwards_signals);
	assert_string_equal(got[1].tmp, "/tmp2");
	assert_null(got[1].env[0]);
	init_plan_free(got, n);
}

static void a_hostile_plan_is_refused(void **state)
{
	const struct init_program in = { "/a b", "/tmp", argv, env, secrets, 5, 7, true };
	size_t len, n;
	_cleanup_(freep) char *bytes = init_plan_encode(&in, 1, &len), *copy = xmalloc(len + 1);
	struct init_program *got;

	for (size_t cut = 0; cut < len && cut < 40; cut++) {
		memcpy(copy, bytes, cut);
		assert_int_equal(init_plan_decode(copy, cut, &got, &n), -1);
	}
	memcpy(copy, bytes, len);
	copy[13] = 9; /* the length of the number of programs */
	assert_int_equal(init_plan_decode(copy, len, &got, &n), -1);
	memcpy(copy, bytes, len);
	copy[17] = 0; /* no program */
	assert_int_equal(init_plan_decode(copy, len, &got, &n), -1);
}

static void an_exit_comes_back(void **state)
{
	struct init_exit e = { -1, 9, true, false, true, 1, 2, 3, 4 }, got;
	static const char *const bad[] = {
		"",
		"exit",
		"exit 0",
		"exit 0 signal 0 timeout 2 told 0 oom 0 started 1 ended 1 cpu 1 rss 1\n",
		"exit 0 signal 0 timeout 0 told 0 oom 0 started 1 ended 1 cpu 1 rss 1\nx",
		"exit  0 signal 0\n",
		"exit 256 signal 0 timeout 0 told 0 oom 0 started 1 ended 1 cpu 1 rss 1\n"
	};
	char buf[256];

	assert_true(init_exit_encode(&e, buf, sizeof(buf)) == strlen(buf));
	assert_int_equal(init_exit_decode(buf, &got), 0);
	assert_true(got.status == -1 && got.signo == 9 && got.timed_out && !got.told_to_end &&
		    got.oom && got.started_ns == 1 && got.ended_ns == 2 && got.cpu_ns == 3 &&
		    got.max_rss_bytes == 4);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(init_exit_decode(bad[i], &got), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_specification_comes_back),
		cmocka_unit_test(each_pod_reads_its_own),
		cmocka_unit_test(views_come_in_order),
		cmocka_unit_test(a_hostile_specification_is_refused),
		cmocka_unit_test(any_cut_of_a_specification_is_refused),
		cmocka_unit_test(a_result_comes_back),
		cmocka_unit_test(a_long_result_goes_through_the_store),
		cmocka_unit_test(a_hostile_result_is_refused),
		cmocka_unit_test(a_plan_comes_back),
		cmocka_unit_test(a_hostile_plan_is_refused),
		cmocka_unit_test(an_exit_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
