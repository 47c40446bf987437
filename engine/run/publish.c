/* Action records: what other machines, and a later life of this database, find under a key.
 *
 * Written behind the run's back by one worker, a batch at a time: first everything they name is made durable (one flush for many), then
 * the records. A record that can't be written costs others a hit and nothing else: it is counted and told at the end.
 */
#include "run/internal.h"
#include "storage/action.h"

/* A batch costs one flush of the disk: enough records to make it cheap, few enough to be soon. */
#define BATCH 256

struct batch {
	struct publisher *p;
	struct arena *arena;
	VEC(struct action_record) records;
	VEC(struct str) keys;	 /* key records, to be stored as blobs */
	VEC(struct str) metrics; /* likewise; empty when the task has none */
	VEC(bool) replace;
	struct err err;
	uint64_t failed;
};

struct publisher {
	struct run *run;
	struct pool *pool;
	struct batch *open;
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

static int write_record(struct batch *b, size_t i, struct err *err)
{
	struct store *s = b->p->run->ctx->store;

	return (b->replace.v[i] ? action_replace(s, &b->records.v[i], err) : action_put(s, &b->records.v[i], err)) < 0 ? -1 : 0;
}

static void write_batch(void *arg)
{
	struct batch *b = arg;
	struct store *s = b->p->run->ctx->store;
	int r = 0;

	for (size_t i = 0; i < b->records.n && r == 0; i++) {
		r = content_put_bytes(s, b->keys.v[i].s, b->keys.v[i].len, &b->records.v[i].key_record, &b->err);
		if (r == 0 && b->metrics.v[i].len)
			r = content_put_bytes(s, b->metrics.v[i].s, b->metrics.v[i].len, &b->records.v[i].metrics, &b->err);
	}
	if (r == 0)
		r = store_sync(s, &b->err);
	if (r < 0) {
		b->failed = b->records.n;
		return;
	}
	for (size_t i = 0; i < b->records.n; i++) {
		struct err e = { 0 };

		if (write_record(b, i, &e) == 0)
			continue;
		if (b->failed++ == 0)
			b->err = e;
	}
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
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct action_output *)a)->name, ((const struct action_output *)b)->name);
}

void publisher_add(struct publisher *p, const struct active *a)
{
	struct batch *b = p->open;
	struct action_record rec = { .key = a->task->key, .log = a->result.log, .started_ns = a->result.started_ns, .ended_ns = a->result.ended_ns };
	struct str key = { 0 }, metrics = { 0 };

	if (!b) {
		b = p->open = xcalloc(1, sizeof(*b));
		b->p = p;
		b->arena = arena_new();
	}
	rec.run_id = p->run->row.id;
	rec.task = arena_strdup(b->arena, a->label);
	rec.node = a->result.node ? arena_strdup(b->arena, a->result.node) : NULL;
	rec.n_outputs = a->step->n_outputs;
	rec.outputs = arena_alloc(b->arena, (rec.n_outputs + 1) * sizeof(*rec.outputs));
	for (size_t i = 0; i < rec.n_outputs; i++)
		rec.outputs[i] = (struct action_output){ a->step->outputs[i].name, a->result.outputs[i] };
	qsort(rec.outputs, rec.n_outputs, sizeof(*rec.outputs), by_name);
	str_addn(&key, a->command.key_record.s, a->command.key_record.len);
	if (a->n_metrics)
		metrics_json(a->metrics, a->n_metrics, &metrics);
	VEC_PUSH(&b->records, rec);
	VEC_PUSH(&b->keys, key);
	VEC_PUSH(&b->metrics, metrics);
	VEC_PUSH(&b->replace, a->task->miss == MISS_BLOBS_GONE);
	if (b->records.n >= BATCH)
		send_off(p);
}

int publisher_new(struct run *r, struct publisher **ret, struct err *err)
{
	struct publisher *p = xcalloc(1, sizeof(*p));

	p->run = r;
	if (pool_new(r->ctx->loop, loop_clock(r->ctx->loop)->is_virtual ? 0 : 1, &p->pool, err) < 0) {
		free(p);
		return -1;
	}
	*ret = p;
	return 0;
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
	pool_free(p->pool);
	batch_free(p->open);
	free(p);
}
