/* record/results: what is written is read back; bytes that were cut or changed are refused, or
 * readable to their end. */
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "record/manifest/results.h"
#include "unit.h"

enum { STEPS = 5, TASKS_MAX = 7, OUTPUTS_MAX_ = 4, METRICS_MAX = 3 };

/* A table as plain data: what the writer was told. */
struct model_task {
	char label[32];
	enum result_state state;
	struct digest key;
	int64_t duration_ns, attempt;
	bool has_outputs;
	struct content_id outputs[OUTPUTS_MAX_];
	struct metric_value metrics[METRICS_MAX];
	size_t n_metrics;
};
struct model {
	size_t n_steps, n_outputs[STEPS], n_tasks[STEPS];
	char steps[STEPS][32];
	struct model_task tasks[STEPS][TASKS_MAX];
};

static const char *const output_names[] = { "a", "b", "longer name", "ü" };
static const char *const metric_names[] = { "accuracy", "val.loss", "" };
static const double metric_values[] = { 0.5, -1e300, 0 };

static uint32_t next(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static struct store *open_store(void)
{
	struct store *s;

	assert_int_equal(store_open("memory:", true, &s, NULL), 0);
	return s;
}

/* So that a sanitizer sees who reads behind it. */
static void *exact_copy(const void *bytes, size_t n)
{
	return n ? memcpy(xmalloc(n), bytes, n) : xmalloc(1);
}

static void make_task(struct model_task *t, uint32_t *seed)
{
	snprintf(t->label, sizeof(t->label), "t[i=%u]", next(seed) % 1000);
	t->state = (enum result_state)(next(seed) % 4 + 1);
	memset(t->key.b, (int)(next(seed) % 256), sizeof(t->key.b));
	t->duration_ns = (int64_t)next(seed) << 20;
	t->attempt = next(seed);
	t->has_outputs = next(seed) % 3 != 0;
	for (size_t i = 0; i < OUTPUTS_MAX_; i++) {
		t->outputs[i] = (struct content_id){
			.kind = (uint8_t)(next(seed) % 2 ? CONTENT_BLOB : CONTENT_TREE),
			.size_bytes = (uint64_t)next(seed) << 30
		};
		memset(t->outputs[i].digest.b, (int)(next(seed) % 256), DIGEST_BYTES);
	}
	t->n_metrics = next(seed) % (METRICS_MAX + 1);
	for (size_t i = 0; i < t->n_metrics; i++)
		t->metrics[i] = (struct metric_value){ metric_names[i], metric_values[i] };
}

static void make_model(struct model *m, uint32_t seed)
{
	memset(m, 0, sizeof(*m));
	m->n_steps = next(&seed) % (STEPS + 1);
	for (size_t s = 0; s < m->n_steps; s++) {
		snprintf(m->steps[s], sizeof(m->steps[s]), "step-%zu", s);
		m->n_outputs[s] = next(&seed) % (OUTPUTS_MAX_ + 1);
		m->n_tasks[s] = next(&seed) % (TASKS_MAX + 1);
		for (size_t t = 0; t < m->n_tasks[s]; t++)
			make_task(&m->tasks[s][t], &seed);
	}
}

static void write_like(const struct model *m, struct store *store, const struct results *like,
		       struct str *ret)
{
	struct results_writer *w = results_writer_new(like);
	struct content_id id;

	for (size_t s = 0; s < m->n_steps; s++) {
		results_writer_step(w, m->steps[s], m->n_outputs[s], output_names);
		for (size_t i = 0; i < m->n_tasks[s]; i++) {
			const struct model_task *t = &m->tasks[s][i];

			results_writer_task(w, t->label, t->state, &t->key, t->duration_ns,
					    t->attempt, t->has_outputs ? t->outputs : NULL,
					    t->metrics, t->n_metrics);
		}
	}
	assert_int_equal(results_writer_store(w, store, &id, NULL), 0);
	results_writer_free(w);
	str_reset(ret);
	assert_int_equal(content_read(store, &id, MIB, ret, NULL), 0);
}

static void write_model(const struct model *m, struct store *store, struct str *ret)
{
	write_like(m, store, NULL, ret);
}

static void same_task(const struct results *r, const struct result_entry *e,
		      const struct model_task *t, size_t n_outputs)
{
	assert_string_equal(e->task, t->label);
	assert_int_equal(e->state, t->state);
	assert_memory_equal(e->key.b, t->key.b, DIGEST_BYTES);
	assert_int_equal(e->duration_ns, t->duration_ns);
	assert_int_equal(e->attempt, t->attempt);
	assert_int_equal(e->n_outputs, t->has_outputs ? n_outputs : 0);
	for (size_t i = 0; i < e->n_outputs; i++) {
		struct content_id id;

		results_output(e, i, &id);
		assert_true(id.kind == t->outputs[i].kind &&
			    id.size_bytes == t->outputs[i].size_bytes);
		assert_memory_equal(id.digest.b, t->outputs[i].digest.b, DIGEST_BYTES);
		assert_string_equal(results_output_name(r, e, i), output_names[i]);
	}
	assert_int_equal(e->n_metrics, t->n_metrics);
	for (size_t i = 0; i < e->n_metrics; i++) {
		struct metric_value v;

		results_metric(e, i, &v);
		assert_string_equal(v.name, metric_names[i]);
		assert_true(memcmp(&v.value, &metric_values[i], sizeof(v.value)) == 0);
	}
}

static void same_steps(const struct results *r, const struct model *m)
{
	struct results_cursor c;
	struct result_entry e;

	assert_int_equal(results_n_steps(r), m->n_steps);
	for (size_t s = 0; s < m->n_steps; s++) {
		assert_true(results_seek_step(r, m->steps[s], &c));
		for (size_t i = 0; i < m->n_tasks[s]; i++) {
			assert_true(results_next(&c, &e));
			assert_string_equal(e.step, m->steps[s]);
			assert_int_equal(e.step_index, s);
			same_task(r, &e, &m->tasks[s][i], m->n_outputs[s]);
		}
	}
	assert_false(results_seek_step(r, "no-such-step", &c));
}

static size_t walk(const struct results *r)
{
	struct results_cursor c;
	struct result_entry e;
	struct content_id id;
	struct metric_value v;
	size_t n = 0;

	results_first(r, &c);
	while (results_next(&c, &e)) {
		assert_non_null(e.step);
		for (size_t i = 0; i < e.n_outputs; i++) {
			results_output(&e, i, &id);
			assert_true(id.kind <= CONTENT_KIND_MAX);
		}
		for (size_t i = 0; i < e.n_metrics; i++) {
			results_metric(&e, i, &v);
			assert_true(strlen(v.name) < 64);
		}
		n++;
	}
	return n;
}

static void what_is_written_is_read_back(void **state)
{
	struct store *store = open_store();
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct model *m = xcalloc(1, sizeof(*m));

	for (uint32_t seed = 0; seed < 300; seed++) {
		struct results *r;
		size_t n = 0;

		make_model(m, seed);
		write_model(m, store, &bytes);
		assert_int_equal(results_decode(bytes.s, bytes.len, &r, NULL), 0);
		same_steps(r, m);
		for (size_t s = 0; s < m->n_steps; s++)
			n += m->n_tasks[s];
		assert_int_equal(walk(r), n);
		results_free(r);
	}
	free(m);
	store_free(store);
}

/* 1 when it was taken. */
static int decode_and_walk(const void *bytes, size_t n)
{
	struct err err = { 0 };
	struct results *r;

	if (results_decode(bytes, n, &r, &err) < 0) {
		assert_int_equal(err.code, ERR_CORRUPT);
		return 0;
	}
	walk(r);
	results_free(r);
	return 1;
}

static void cut_and_changed_bytes_are_refused_or_readable(void **state)
{
	struct store *store = open_store();
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct model *m = xcalloc(1, sizeof(*m));
	size_t whole = 0, records = 0;

	make_model(m, 12);
	assert_true(m->n_steps >= 2);
	for (size_t s = 0; s < m->n_steps; s++)
		records += 1 + m->n_tasks[s];
	write_model(m, store, &bytes);
	for (size_t n = 0; n < bytes.len; n++) {
		void *cut = exact_copy(bytes.s, n);

		whole += (size_t)decode_and_walk(cut, n);
		free(cut);
	}
	assert_int_equal(whole,
			 records); /* an end is right only between records: once before each */
	for (size_t at = 0; at < bytes.len; at++)
		for (int bit = 0; bit < 8; bit++) {
			bytes.s[at] ^= (char)(1 << bit);
			decode_and_walk(bytes.s, bytes.len);
			bytes.s[at] ^= (char)(1 << bit);
		}
	assert_int_equal(decode_and_walk(bytes.s, bytes.len), 1);
	free(m);
	store_free(store);
}

static const struct {
	const char *bytes;
	size_t n;
} damaged[] = {
#define B(s)                     \
	{                        \
		s, sizeof(s) - 1 \
	}
	B(""),
	B("cairn-results/2\n"),
	B("cairn-results/1"),
	B("cairn-results/1\nX"),
	B("cairn-results/1\nT"), /* a task of no step */
	B("cairn-results/1\nS\1\0\0\0a"),
	B("cairn-results/1\nS\1\0\0\0a\1\0\0\0\0"),  /* no NUL behind the name */
	B("cairn-results/1\nS\1\0\0\0\0\0\0\0\0\0"), /* a NUL in the name */
	B("cairn-results/1\nS\xff\xff\xff\xff"
	  "a"),
	B("cairn-results/1\nS\1\0\0\0a\0\xff\xff\xff\xff"), /* four thousand million outputs */
	B("cairn-results/1\nS\1\0\0\0a\0\0\0\0\0Q"),
#undef B
};

#define MANY 30000

struct seen {
	uint64_t n, outputs;
};

static int see(void *arg, const struct result_entry *e)
{
	struct seen *seen = arg;

	assert_int_equal(e->duration_ns, (int64_t)seen->n);
	assert_int_equal(e->key.b[0], (uint8_t)seen->n);
	seen->n++;
	seen->outputs += e->n_outputs;
	return 0;
}

static void a_table_larger_than_the_window_is_read_task_by_task(void **state)
{
	static const char *const names[] = { "o", "p" };
	struct store *store = open_store();
	struct results_writer *w = results_writer_new(NULL);
	struct content_id outputs[2] = { { .kind = CONTENT_BLOB }, { .kind = CONTENT_TREE } }, id,
			  cut;
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct seen seen = { 0 };
	struct err err = { 0 };

	for (uint64_t i = 0; i < MANY; i++) {
		struct digest key = { .b = { (uint8_t)i } };

		if (i % 10000 == 0)
			results_writer_step(w, "step", 2, names);
		results_writer_task(
			w, "a label of some length, so that there is more than one window",
			RESULT_SUCCEEDED, &key, (int64_t)i, 0, i % 3 ? outputs : NULL, NULL, 0);
	}
	assert_int_equal(results_writer_store(w, store, &id, NULL), 0);
	results_writer_free(w);
	assert_true(id.size_bytes > 3 * MIB);
	assert_int_equal(results_each(store, &id, see, &seen, NULL), 0);
	assert_int_equal(seen.n, MANY);
	assert_int_equal(seen.outputs, 2 * (MANY - MANY / 3));

	assert_int_equal(content_read(store, &id, GIB, &bytes, NULL), 0);
	assert_int_equal(content_put_bytes(store, bytes.s, bytes.len - 1, &cut, NULL), 0);
	seen = (struct seen){ 0 };
	assert_int_equal(results_each(store, &cut, see, &seen, &err), -1);
	assert_int_equal(err.code, ERR_CORRUPT);
	assert_int_equal(seen.n, MANY - 1);
	store_free(store);
}

/* Whatever table the writer compares with, it writes the same bytes. */
static void a_table_doesn_t_depend_on_the_one_it_is_like(void **state)
{
	struct store *store = open_store();
	struct str bytes = { 0 }, alike = { 0 };

	for (uint32_t seed = 1; seed <= 200; seed++) {
		struct model m, other;
		struct results *like;

		make_model(&m, seed);
		other = m;
		switch (seed % 5) { /* 0: they are the same */
		case 1:
			make_model(&other, seed + 1000);
			break;
		case 2:
			other.n_steps /= 2;
			break;
		case 3:
			m.n_steps /= 2;
			break;
		case 4:
			other.tasks[m.n_steps / 2][0].duration_ns++;
			break;
		}
		write_model(&other, store, &alike);
		assert_int_equal(results_decode(alike.s, alike.len, &like, NULL), 0);
		write_model(&m, store, &bytes);
		write_like(&m, store, like, &alike);
		assert_int_equal(alike.len, bytes.len);
		assert_memory_equal(alike.s, bytes.s, bytes.len);
		results_free(like);
	}
	str_deinit(&bytes);
	str_deinit(&alike);
	store_free(store);
}

/* What no reader takes isn't written. */
static void a_table_is_as_large_as_is_read(void **state)
{
	static const char *const names[] = { "o" };
	struct store *store = open_store();
	struct results_writer *w = results_writer_new(NULL);
	struct results *r;
	struct content_id id;
	struct err err = { 0 };
	uint64_t size;

	results_writer_step(w, "step", 1, names);
	assert_int_equal(results_writer_store(w, store, &id, &err), 0);
	size = id.size_bytes;
	for (int over = -1; over <= 1; over++) {
		struct content_id far = { .kind = CONTENT_BLOB,
					  .size_bytes = RUN_RESULTS_MAX + (uint64_t)(int64_t)over };

		results_writer_set_max(w, size - (uint64_t)(int64_t)over);
		assert_int_equal(results_writer_store(w, store, &id, &err), over > 0 ? -1 : 0);
		if (over > 0)
			assert_int_equal(err.code, ERR_TOO_LARGE);
		err = (struct err){ 0 };
		assert_int_equal(results_open(store, &far, &r, &err), -1); /* nobody wrote it */
		assert_int_equal(err.code, over > 0 ? ERR_TOO_LARGE : ERR_NOT_FOUND);
	}
	results_writer_free(w);
	store_free(store);
}

static void damage_of_each_kind_is_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(damaged); i++) {
		void *exact = exact_copy(damaged[i].bytes, damaged[i].n);

		assert_int_equal(decode_and_walk(exact, damaged[i].n), 0);
		free(exact);
	}
	assert_int_equal(decode_and_walk("cairn-results/1\n", 16), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_back),
		cmocka_unit_test(cut_and_changed_bytes_are_refused_or_readable),
		cmocka_unit_test(a_table_doesn_t_depend_on_the_one_it_is_like),
		cmocka_unit_test(a_table_is_as_large_as_is_read),
		cmocka_unit_test(damage_of_each_kind_is_refused),
		cmocka_unit_test(a_table_larger_than_the_window_is_read_task_by_task),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
