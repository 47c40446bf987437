/* engine/run/publish.c — action records: results that other machines, and a later database, find by
 * key.
 *
 * One worker writes them in the background, a batch at a time. It first makes durable everything
 * that they name (one flush for many), then writes the records. Many of them go into a directory
 * store as one pack, with the records of their keys. The loop's thread fills the open
 * batch. The batch goes to the worker when it has BATCH records, and with a shared store also every
 * SHARE_EVERY_NS. With much to flush (EARLY_BYTES) the worker begins at once, while tasks run: what
 * is left to the run's end, its user waits for.
 *
 * Invariants: no record is in the store before its content. A batch belongs to the loop's thread
 * while it is open and to the worker afterwards; the counts come back in batch_done(). A record
 * that can't be written costs others a hit and nothing else: it is counted, and reported at the
 * end. A reproduction never replaces a record, and adds one only beside another.
 *
 * Threads: the loop's, except write_batch(), which runs on the worker. Not here: looking records up
 * (plan/past/lookup.c).
 */
#include "run/internal.h"
#include "storage/action.h"
#include "storage/remote/tier.h"

/* Others who share the store wait for results, so records are sent this often during the run. */
#define SHARE_EVERY_NS (5 * NS_PER_S)
/* Each batch costs one disk flush: many records make it cheap, few records make it early. */
#define BATCH 256
/* This much goes to a disk in the time of some flushes. */
#define EARLY_BYTES (32 * MIB)
/* So many records of a batch are put together with their keys' records: they are worth a pack. */
#define TOGETHER 32

struct batch {
	struct publisher *p;
	struct arena *arena;
	VEC(struct action_record) records;
	VEC(struct str) keys;    /* key records, to be stored as blobs */
	VEC(struct str) metrics; /* likewise; empty when the task has none */
	VEC(bool) replace;
	struct err err;
	uint64_t failed;
};

struct publisher {
	struct run *run;
	struct pool *pool;
	struct batch *open;
	bool shares;
	int64_t sent_off_ns;       /* monotonic; 0: nothing sent yet */
	struct loop_source *timer; /* sends the open batch */
	uint64_t failed;
	struct err first;
};

static void batch_free(struct batch *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->records.n; i++) {
		str_deinit(&b->keys.v[i]);
		str_deinit(&b->metrics.v[i]);
	}
	VEC_FREE(&b->records);
	VEC_FREE(&b->keys);
	VEC_FREE(&b->metrics);
	VEC_FREE(&b->replace);
	arena_free(b->arena);
	free(b);
}

/* A reproduction's result is never the answer to others' lookups. It is added beside the record
 * that is. */
static int write_record(struct batch *b, size_t i, struct err *err)
{
	struct store *s = b->p->run->ctx->store;
	struct action_record *rec = &b->records.v[i], first;

	if (b->p->run->past && action_get(s, &rec->key, b->arena, &first, NULL) < 0)
		return 0;
	return b->replace.v[i] ? action_replace(s, rec, err) : action_put(s, rec, err);
}

/* Puts the records of the keys and the metrics. With many results, and where nobody else puts
 * records of these keys, their action records are put together with them: written[i]. */
static int write_together(struct batch *b, bool *written, struct err *err)
{
	struct store *s = b->p->run->ctx->store;
	struct str *bytes = xcalloc(b->records.n, sizeof(*bytes));
	VEC(struct store_item) items = { 0 };
	int r = 0;

	for (size_t i = 0; i < b->records.n; i++) {
		const struct str *key = &b->keys.v[i], *metrics = &b->metrics.v[i];
		struct action_record *rec = &b->records.v[i];

		content_id_of_bytes(key->s, key->len, &rec->key_record);
		VEC_PUSH(&items, ((struct store_item){ STORE_BLOB, rec->key_record.digest, key->s,
						       key->len }));
		if (!metrics->len)
			continue;
		content_id_of_bytes(metrics->s, metrics->len, &rec->metrics);
		VEC_PUSH(&items, ((struct store_item){ STORE_BLOB, rec->metrics.digest, metrics->s,
						       metrics->len }));
	}
	for (size_t i = 0; i < b->records.n && r >= 0; i++) {
		if (b->records.n < TOGETHER || b->p->shares || b->p->run->past || b->replace.v[i])
			continue;
		r = action_prepare(s, &b->records.v[i], &bytes[i], err);
		written[i] = r == 0;
		if (r == 0)
			VEC_PUSH(&items, ((struct store_item){ STORE_ACTION, b->records.v[i].key,
							       bytes[i].s, bytes[i].len }));
	}
	if (r >= 0)
		r = store_put_many(s, items.v, items.n, err);
	for (size_t i = 0; i < b->records.n; i++)
		str_deinit(&bytes[i]);
	free(bytes);
	VEC_FREE(&items);
	return r < 0 ? -1 : 0;
}

static void write_batch(void *arg)
{
	struct batch *b = arg;
	struct store *s = b->p->run->ctx->store;
	_cleanup_(freep) bool *written = xcalloc(b->records.n + 1, sizeof(*written));

	if (write_together(b, written, &b->err) < 0 || store_sync(s, &b->err) < 0) {
		b->failed = b->records.n;
		return;
	}
	for (size_t i = 0; i < b->records.n; i++) {
		struct err e = { 0 };

		if (written[i] || write_record(b, i, &e) >= 0)
			continue;
		if (b->failed++ == 0)
			b->err = e;
	}
	/* The records themselves. */
	if (b->p->shares && b->failed == 0 && store_sync(s, &b->err) < 0)
		b->failed = b->records.n;
}

static void batch_done(void *arg)
{
	struct batch *b = arg;

	if (b->failed && b->p->failed == 0)
		b->p->first = b->err;
	b->p->failed += b->failed;
	batch_free(b);
}

static void send_off(struct publisher *p)
{
	if (!p->open)
		return;
	pool_submit(p->pool, write_batch, batch_done, p->open);
	p->open = NULL;
	p->sent_off_ns = run_mono_ns(p->run);
	loop_remove(p->run->ctx->loop, TAKE_PTR(p->timer));
}

static void time_is_up(void *arg)
{
	struct publisher *p = arg;

	p->timer = NULL;
	send_off(p);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct action_output *)a)->name,
		      ((const struct action_output *)b)->name);
}

static struct batch *open_batch(struct publisher *p)
{
	if (!p->open) {
		p->open = xcalloc(1, sizeof(*p->open));
		p->open->p = p;
		p->open->arena = arena_new();
	}
	return p->open;
}

/* … and nothing is being flushed, which may cover it. */
static bool has_much_to_flush(const struct publisher *p)
{
	return pool_pending(p->pool) == 0 && store_unsynced(p->run->ctx->store) >= EARLY_BYTES;
}

/* Takes key and metrics. */
static void add(struct publisher *p, struct action_record *rec, const struct str *key,
		const struct str *metrics, bool replace)
{
	struct batch *b = p->open;
	int64_t at_ns = p->sent_off_ns ? p->sent_off_ns + SHARE_EVERY_NS : 0;

	qsort(rec->outputs, rec->n_outputs, sizeof(*rec->outputs), by_name);
	VEC_PUSH(&b->records, *rec);
	VEC_PUSH(&b->keys, *key);
	VEC_PUSH(&b->metrics, *metrics);
	VEC_PUSH(&b->replace, replace);
	if (b->records.n >= BATCH || has_much_to_flush(p) ||
	    (p->shares && at_ns <= run_mono_ns(p->run)))
		send_off(p);
	else if (p->shares && !p->timer)
		p->timer = loop_add_timer(p->run->ctx->loop, at_ns, time_is_up, p);
}

void publisher_add(struct publisher *p, const struct attempt *a)
{
	struct batch *b = open_batch(p);
	struct action_record rec = { .key = a->task->plan->key,
				     .log = a->result->log,
				     .started_ns = a->result->started_ns,
				     .ended_ns = a->result->ended_ns };
	struct str key = { 0 }, metrics = { 0 };

	rec.run_id = p->run->row.id;
	rec.task = arena_strdup(b->arena, a->label);
	rec.node = a->result->node ? arena_strdup(b->arena, a->result->node) : NULL;
	rec.n_outputs = a->step->n_outputs;
	rec.outputs = arena_alloc(b->arena, (rec.n_outputs + 1) * sizeof(*rec.outputs));
	for (size_t i = 0; i < rec.n_outputs; i++)
		rec.outputs[i] =
			(struct action_output){ a->step->outputs[i].name, a->result->outputs[i] };
	str_addn(&key, a->command.key_record.s, a->command.key_record.len);
	if (a->n_metrics)
		metrics_json(a->metrics, a->n_metrics, &metrics);
	add(p, &rec, &key, &metrics, a->task->plan->miss == MISS_BLOBS_GONE && !p->run->past);
}

/* Results from the database. */

/* Adds an attempt as the database has it. Returns 1 when part of it is missing (another project's
 * database, or an old one). */
static int add_recorded(struct publisher *p, const struct plan_task *t, struct err *err)
{
	struct batch *b = open_batch(p);
	struct str key = { 0 }, metrics = { 0 };
	struct cached_result res;
	struct attempt_row a;
	struct run_row run;
	struct action_record rec;
	struct err e = { 0 };

	if (record_attempt(p->run->ctx->db, t->attempt, b->arena, &a, &run, &e) <= 0 ||
	    record_outputs(p->run->ctx->db, t->attempt, b->arena, &res, &e) < 0 ||
	    record_key_bytes(p->run->ctx->db, &t->key, &key, &e) < 0) {
		str_deinit(&key);
		return e.code && e.code != ERR_NOT_FOUND ? err_pass(err, &e) : 1;
	}
	rec = (struct action_record){ .key = t->key,
				      .log = a.log,
				      .started_ns = a.started_ns,
				      .ended_ns = a.ended_ns,
				      .run_id = run.id,
				      .task = a.task,
				      .node = a.node,
				      .n_outputs = res.n_outputs };
	rec.outputs = arena_alloc(b->arena, (res.n_outputs + 1) * sizeof(*rec.outputs));
	for (size_t i = 0; i < res.n_outputs; i++)
		rec.outputs[i] = (struct action_output){ res.outputs[i].name, res.outputs[i].id };
	if (res.n_metrics)
		metrics_json(res.metrics, res.n_metrics, &metrics);
	add(p, &rec, &key, &metrics, false);
	return 0;
}

int publisher_make_up(struct publisher *p, struct err *err)
{
	struct run *r = p->run;
	VEC(const struct plan_task *) hits = { 0 };
	VEC(struct digest) keys = { 0 };
	_cleanup_(freep) bool *there = NULL;
	int got = 0;

	if (!p->shares || r->past)
		return 0;
	for (size_t s = 0; s < plan_n_steps(r->plan); s++)
		for (size_t i = 0; plan_step_expanded(r->plan, s) && i < plan_n_tasks(r->plan, s);
		     i++) {
			const struct plan_task *t = plan_task_at(r->plan, s, i);

			if (t->state != TASK_STATE_HIT || t->from_store || t->absent ||
			    !t->attempt || !plan_pipeline(r->plan)->steps[t->step].cache)
				continue;
			VEC_PUSH(&hits, t);
			VEC_PUSH(&keys, t->key);
		}
	there = xcalloc(hits.n + 1, sizeof(*there));
	if (hits.n)
		got = tier_has_here(r->ctx->store, STORE_ACTION, keys.v, keys.n, there, err);
	for (size_t i = 0; i < hits.n && got >= 0; i++)
		if (!there[i])
			got = add_recorded(p, hits.v[i], err);
	VEC_FREE(&hits);
	VEC_FREE(&keys);
	return got < 0 ? -1 : 0;
}

int publisher_new(struct run *r, struct publisher **ret, struct err *err)
{
	struct publisher *p = xcalloc(1, sizeof(*p));

	p->run = r;
	p->shares = store_is_shared(r->ctx->store);
	if (pool_new(r->ctx->loop, loop_clock(r->ctx->loop)->is_virtual ? 0 : 1, &p->pool, err) <
	    0) {
		free(p);
		return -1;
	}
	*ret = p;
	return 0;
}

/* A flush that fails makes the next one of the store cover everything, and fail if that does. */
static void flush(void *arg)
{
	(void)store_sync(arg, NULL);
}

void publisher_begin(struct publisher *p)
{
	if (has_much_to_flush(p))
		pool_submit(p->pool, flush, NULL, p->run->ctx->store);
}

int publisher_finish(struct publisher *p, struct err *err)
{
	send_off(p);
	while (pool_pending(p->pool))
		if (loop_turn(p->run->ctx->loop, -1, err) < 0)
			return -1;
	return 0;
}

uint64_t publisher_failed(const struct publisher *p, struct err *ret_first)
{
	*ret_first = p->first;
	return p->failed;
}

void publisher_free(struct publisher *p)
{
	if (!p)
		return;
	loop_remove(p->run->ctx->loop, p->timer);
	pool_free(p->pool);
	batch_free(p->open);
	free(p);
}
