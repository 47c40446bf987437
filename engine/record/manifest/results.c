/* engine/record/manifest/results.c — the bytes of the results table: writing and reading.
 *
 * "cairn-results/1" and a newline, then records. A step record: 'S', name, u32 number of outputs,
 * their names. A task record: 'T', label, state (1 byte), key (32), duration (u64), attempt (u64),
 * flag (1 byte) whether outputs follow: per output of the step kind (1), size (u64), digest (32);
 * u32 number of metrics, each name and f64 bits (u64). Texts: u32 length, bytes, NUL. Integers are
 * little-endian.
 *
 * Writing a table that begins as an earlier one takes no memory as long as the two are equal: a
 * record is made, compared and dropped. At the first difference the equal part is copied.
 *
 * Invariants: results_decode() walks the whole table once and checks every bound, so that cursors
 * don't have to. A table in memory is its bytes and the place of each step's record: a table has as
 * many steps as tasks when a pipeline is written out. Borrowed names point into the bytes.
 *
 * Threads: any; of a decoded table only the memo changes, under its lock. Not here: which tasks
 * there are (plan/), metrics in the database (run_query.c).
 */
#include "record/manifest/results.h"
#include <assert.h>
#include <pthread.h>
#include "base/map.h"
#include "base/mem.h"
#include "storage/bucket/window.h"

#define MAGIC        "cairn-results/1\n"
#define MAGIC_LEN    (sizeof(MAGIC) - 1)
#define OUTPUT_BYTES (1 + 8 + DIGEST_BYTES)

/* What was found once. */
struct results_memo {
	pthread_mutex_t lock;
	struct map *steps; /* name → index + 1; NULL until somebody seeks a step by its name */
	/* The name of an output that was asked for last: mostly, the next one is wanted next. */
	size_t step, output;
	const char *output_name;
};

struct results {
	uint8_t *bytes;
	size_t n;
	VEC(size_t) steps; /* of each, where its record begins, behind the 'S' */
	struct results_memo *memo;
};

/* Writing. */

struct results_writer {
	/* All bytes so far are its first `n_same` ones; NULL: `out` has all. */
	const struct results *like;
	size_t n_same;
	struct str out; /* with `like`: of the current record only */
	size_t n_outputs;
	uint64_t max_bytes;
};

static void add_text(struct str *out, const char *s)
{
	size_t n = strlen(s);

	str_add_u32(out, (uint32_t)n);
	str_addn(out, s, n + 1);
}

/* From here on all bytes are in `out`. */
static void stop_comparing(struct results_writer *w)
{
	struct str all = { 0 };

	str_addn(&all, w->like->bytes, w->n_same);
	str_addn(&all, w->out.len ? w->out.s : "", w->out.len);
	str_deinit(&w->out);
	w->out = all;
	w->like = NULL;
}

static void end_record(struct results_writer *w)
{
	if (!w->like)
		return;
	if (w->out.len > w->like->n - w->n_same ||
	    memcmp(w->like->bytes + w->n_same, w->out.s, w->out.len) != 0) {
		stop_comparing(w);
		return;
	}
	w->n_same += w->out.len;
	str_reset(&w->out);
}

struct results_writer *results_writer_new(const struct results *like)
{
	struct results_writer *w = xcalloc(1, sizeof(*w));

	w->like = like;
	w->max_bytes = RUN_RESULTS_MAX;
	str_addn(&w->out, MAGIC, MAGIC_LEN);
	end_record(w);
	return w;
}

/* lint: unused but by tests: none writes 4 GiB */
void results_writer_set_max(struct results_writer *w, uint64_t max_bytes)
{
	w->max_bytes = max_bytes;
}

void results_writer_free(struct results_writer *w)
{
	if (!w)
		return;
	str_deinit(&w->out);
	free(w);
}

void results_writer_step(struct results_writer *w, const char *step, size_t n_outputs,
			 const char *const *output_names)
{
	str_addc(&w->out, 'S');
	add_text(&w->out, step);
	str_add_u32(&w->out, (uint32_t)n_outputs);
	for (size_t i = 0; i < n_outputs; i++)
		add_text(&w->out, output_names[i]);
	w->n_outputs = n_outputs;
	end_record(w);
}

void results_writer_task(struct results_writer *w, const char *task, enum result_state state,
			 const struct digest *key, int64_t duration_ns, int64_t attempt,
			 const struct content_id *outputs, const struct metric_value *metrics,
			 size_t n_metrics)
{
	struct str *out = &w->out;

	str_addc(out, 'T');
	add_text(out, task);
	str_addc(out, (char)state);
	str_addn(out, key->b, DIGEST_BYTES);
	str_add_u64(out, (uint64_t)duration_ns);
	str_add_u64(out, (uint64_t)attempt);
	str_addc(out, outputs ? 1 : 0);
	for (size_t i = 0; outputs && i < w->n_outputs; i++) {
		str_addc(out, (char)outputs[i].kind);
		str_add_u64(out, outputs[i].size_bytes);
		str_addn(out, outputs[i].digest.b, DIGEST_BYTES);
	}
	str_add_u32(out, (uint32_t)n_metrics);
	for (size_t i = 0; i < n_metrics; i++) {
		uint64_t bits;

		add_text(out, metrics[i].name);
		memcpy(&bits, &metrics[i].value, sizeof(bits));
		str_add_u64(out, bits);
	}
	end_record(w);
}

int results_writer_store(struct results_writer *w, struct store *s, struct content_id *ret,
			 struct err *err)
{
	const char *bytes;
	size_t n;

	if (w->like && w->n_same < w->like->n) /* it has only the beginning of that table */
		stop_comparing(w);
	bytes = w->like ? (const char *)w->like->bytes : w->out.s;
	n = w->like ? w->like->n : w->out.len;
	if (n > w->max_bytes)
		return err_set(err, ERR_TOO_LARGE,
			       "the results of a run are %zu bytes; at most %llu are kept", n,
			       (unsigned long long)w->max_bytes);
	if (content_put_bytes(s, bytes, n, ret, err) < 0)
		return err_wrap(err, "keeping the run's results");
	return 0;
}

/* Reading. */

static uint64_t get_uint(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | p[n];
	return v;
}

static bool skip(const struct results *r, size_t *at, size_t n)
{
	if (r->n - *at < n)
		return false;
	*at += n;
	return true;
}

static bool get_u32(const struct results *r, size_t *at, uint32_t *ret)
{
	if (!skip(r, at, 4))
		return false;
	*ret = (uint32_t)get_uint(r->bytes + *at - 4, 4);
	return true;
}

static bool get_text(const struct results *r, size_t *at, const char **ret)
{
	uint32_t n;

	if (!get_u32(r, at, &n) || !skip(r, at, (size_t)n + 1) || r->bytes[*at - 1] != '\0')
		return false;
	*ret = (const char *)r->bytes + *at - n - 1;
	return memchr(*ret, '\0', n) == NULL;
}

/* Names of steps and outputs become parts of paths, so others are refused. */
static bool get_name(const struct results *r, size_t *at, const char **ret)
{
	return get_text(r, at, ret) && **ret && **ret != '.' && !strchr(*ret, '/');
}

/* A step of a used pipeline is named `step/inner`. */
static bool get_step_name(const struct results *r, size_t *at, const char **ret)
{
	if (!get_text(r, at, ret))
		return false;
	for (const char *s = *ret;; s = strchr(s, '/') + 1) {
		if (!*s || *s == '.' || *s == '/')
			return false;
		if (!strchr(s, '/'))
			return true;
	}
}

static bool check_step(struct results *r, size_t *at)
{
	const char *text;
	uint32_t n;

	VEC_PUSH(&r->steps, *at);
	if (!get_step_name(r, at, &text) || !get_u32(r, at, &n) || n > ACTION_OUTPUTS_MAX ||
	    n > r->n)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (!get_name(r, at, &text))
			return false;
	return true;
}

/* Reads the task record after its 'T'; false when it is damaged. */
static bool read_task(const struct results *r, size_t n_outputs, size_t *at, struct result_entry *e)
{
	const char *text;
	uint32_t n;

	if (!get_text(r, at, &e->task) || !skip(r, at, 1 + DIGEST_BYTES + 8 + 8 + 1))
		return false;
	e->state = (enum result_state)r->bytes[*at - (1 + DIGEST_BYTES + 8 + 8 + 1)];
	memcpy(e->key.b, r->bytes + *at - (DIGEST_BYTES + 17), DIGEST_BYTES);
	e->duration_ns = (int64_t)get_uint(r->bytes + *at - 17, 8);
	e->attempt = (int64_t)get_uint(r->bytes + *at - 9, 8);
	e->n_outputs = r->bytes[*at - 1] == 1 ? n_outputs : 0;
	e->outputs_raw = r->bytes + *at;
	if (e->state < RESULT_SUCCEEDED || e->state > RESULT_BLOCKED || r->bytes[*at - 1] > 1 ||
	    !skip(r, at, e->n_outputs * OUTPUT_BYTES) || !get_u32(r, at, &n))
		return false;
	e->n_metrics = n;
	e->metrics_raw = r->bytes + *at;
	for (uint32_t i = 0; i < n; i++)
		if (!get_text(r, at, &text) || !skip(r, at, 8))
			return false;
	return true;
}

/* The record of the i-th step: its name, *ret_outputs names of outputs behind one another. */
static const char *step_record(const struct results *r, size_t i, const char **ret_names,
			       size_t *ret_outputs)
{
	size_t at = r->steps.v[i];
	const size_t len = (size_t)get_uint(r->bytes + at, 4);

	*ret_outputs = (size_t)get_uint(r->bytes + at + 4 + len + 1, 4);
	*ret_names = (const char *)r->bytes + at + 4 + len + 1 + 4;
	return (const char *)r->bytes + at + 4;
}

static size_t n_outputs_of(const struct results *r, size_t step)
{
	const char *names;
	size_t n;

	step_record(r, step, &names, &n);
	return n;
}

/* Takes ownership of `bytes`. */
static int decode(uint8_t *bytes, size_t n, struct results **ret, struct err *err)
{
	struct results *r = xcalloc(1, sizeof(*r));
	bool good = n >= MAGIC_LEN && memcmp(bytes, MAGIC, MAGIC_LEN) == 0;
	struct result_entry e;

	r->memo = xcalloc(1, sizeof(*r->memo));
	pthread_mutex_init(&r->memo->lock, NULL);
	r->bytes = bytes;
	r->n = n;
	for (size_t at = MAGIC_LEN; good && at < n;) {
		uint8_t tag = r->bytes[at++];

		good = tag == 'S' ? check_step(r, &at)
				  : tag == 'T' && r->steps.n &&
					    read_task(r, n_outputs_of(r, r->steps.n - 1), &at, &e);
	}
	if (!good) {
		results_free(r);
		return err_set(err, ERR_CORRUPT, "a results table is damaged");
	}
	*ret = r;
	return 0;
}

/* lint: unused but by tests: fuzzing begins here */
int results_decode(const void *bytes, size_t n, struct results **ret, struct err *err)
{
	uint8_t *copy = xmalloc(n + 1);

	memcpy(copy, bytes, n);
	return decode(copy, n, ret, err);
}

int results_open(struct store *s, const struct content_id *id, struct results **ret,
		 struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };

	if (content_read(s, id, RUN_RESULTS_MAX, &bytes, err) < 0)
		return -1;
	str_add(&bytes, "");
	return decode((uint8_t *)TAKE_PTR(bytes.s), bytes.len, ret, err);
}

/* Skips a step record; reads only how many outputs its tasks have. */
static bool skip_step(const struct results *r, size_t *at, size_t *ret_outputs)
{
	const char *text;
	uint32_t n;

	if (!get_text(r, at, &text) || !get_u32(r, at, &n) || n > ACTION_OUTPUTS_MAX)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (!get_text(r, at, &text))
			return false;
	*ret_outputs = n;
	return true;
}

/* Calls fn for the complete records in the window; *at stops at the incomplete one. -1: fn
 * failed. */
static int each_whole(const struct results *r, size_t *at, size_t *n_outputs,
		      int (*fn)(void *arg, const struct result_entry *e), void *arg)
{
	for (size_t next = *at; next < r->n; *at = next) {
		struct result_entry e = { 0 };
		uint8_t tag = r->bytes[next++];

		if (tag == 'S' ? !skip_step(r, &next, n_outputs)
			       : tag != 'T' || *n_outputs == SIZE_MAX ||
					 !read_task(r, *n_outputs, &next, &e))
			return 0;
		if (tag == 'T' && fn(arg, &e) < 0)
			return -1;
	}
	return 0;
}

int results_each(struct store *s, const struct content_id *id,
		 int (*fn)(void *arg, const struct result_entry *e), void *arg, struct err *err)
{
	size_t n_outputs = SIZE_MAX, at = MAGIC_LEN;
	struct results r = { 0 };
	struct window w;
	int got = 0;

	if (window_open(s, id, &w, err) < 0)
		return -1;
	if (w.n < MAGIC_LEN || memcmp(w.bytes, MAGIC, MAGIC_LEN) != 0)
		got = err_set(err, ERR_CORRUPT, "a results table is damaged");
	while (got == 0) {
		r.bytes = (uint8_t *)w.bytes;
		r.n = w.n;
		got = each_whole(&r, &at, &n_outputs, fn, arg);
		if (got < 0 || w.is_last)
			break;
		got = window_move(&w, at, err);
		at = 0;
	}
	if (got == 0 && at != w.n)
		got = err_set(err, ERR_CORRUPT, "a results table is damaged");
	window_close(&w);
	return got;
}

void results_free(struct results *r)
{
	if (!r)
		return;
	VEC_FREE(&r->steps);
	map_free(r->memo->steps);
	pthread_mutex_destroy(&r->memo->lock);
	free(r->memo);
	free(r->bytes);
	free(r);
}

void results_first(const struct results *r, struct results_cursor *c)
{
	*c = (struct results_cursor){ .r = r, .at = r->n };
	if (r->steps.n)
		results_nth_step(r, 0, c);
}

void results_nth_step(const struct results *r, size_t i, struct results_cursor *c)
{
	size_t at, n;
	bool good;

	assert(i < r->steps.n);
	at = r->steps.v[i];
	good = skip_step(r, &at, &n);
	assert(good);
	*c = (struct results_cursor){ .r = r, .at = at, .step = i };
}

bool results_next(struct results_cursor *c, struct result_entry *ret)
{
	const struct results *r = c->r;
	const char *names;
	size_t n_outputs;

	while (c->at < r->n && r->bytes[c->at] == 'S')
		results_nth_step(r, c->step + 1, c);
	if (c->at >= r->n)
		return false;
	c->at++;
	ret->step = step_record(r, c->step, &names, &n_outputs);
	ret->step_index = c->step;
	return read_task(r, n_outputs, &c->at, ret);
}

bool results_seek_step(const struct results *r, const char *step, struct results_cursor *c)
{
	struct results_memo *m = r->memo;
	size_t i;

	pthread_mutex_lock(&m->lock);
	if (!m->steps) {
		m->steps = map_new();
		for (size_t k = 0; k < r->steps.n; k++)
			*map_slot_str(m->steps, results_step_name(r, k)) =
				(void *)(uintptr_t)(k + 1);
	}
	i = (size_t)(uintptr_t)map_get_str(m->steps, step);
	pthread_mutex_unlock(&m->lock);
	if (i == 0)
		return false;
	results_nth_step(r, i - 1, c);
	return true;
}

size_t results_n_steps(const struct results *r)
{
	return r->steps.n;
}

const char *results_step_name(const struct results *r, size_t i)
{
	return (const char *)r->bytes + r->steps.v[i] + 4;
}

const char *results_output_name(const struct results *r, const struct result_entry *e, size_t i)
{
	struct results_memo *m = r->memo;
	const char *name;
	size_t n, at = 0;

	step_record(r, e->step_index, &name, &n);
	if (i >= n)
		return "";
	if (i == 0)
		return name + 4;
	pthread_mutex_lock(&m->lock);
	if (m->output_name && m->step == e->step_index && m->output <= i) {
		name = m->output_name;
		at = m->output;
	}
	for (; at < i; at++)
		name += get_uint((const uint8_t *)name, 4) + 4 + 1;
	m->step = e->step_index;
	m->output = i;
	m->output_name = name;
	pthread_mutex_unlock(&m->lock);
	return name + 4;
}

void results_output(const struct result_entry *e, size_t i, struct content_id *ret)
{
	const uint8_t *p = (const uint8_t *)e->outputs_raw + i * OUTPUT_BYTES;

	ret->kind = p[0] <= CONTENT_KIND_MAX ? p[0] : CONTENT_NONE;
	ret->size_bytes = get_uint(p + 1, 8);
	memcpy(ret->digest.b, p + 9, DIGEST_BYTES);
}

void results_metric(const struct result_entry *e, size_t i, struct metric_value *ret)
{
	const uint8_t *p = e->metrics_raw;
	uint64_t bits;

	for (;; i--) {
		size_t n = (size_t)get_uint(p, 4);

		ret->name = (const char *)p + 4;
		bits = get_uint(p + 4 + n + 1, 8);
		memcpy(&ret->value, &bits, sizeof(bits));
		if (i == 0)
			return;
		p += 4 + n + 1 + 8;
	}
}
