/* The end of a run: results table, manifest, run hash. Write order: content, records, manifest, and only then the row that names it. */
#include "base/text.h"
#include "record/manifest.h"
#include "run/internal.h"
#include "storage/remote/tier.h"

static enum run_state end_state(const struct run *r, bool cancelled)
{
	if (r->interrupted)
		return cancelled ? RUN_CANCELLED : RUN_INTERRUPTED;
	return r->failed ? RUN_FAILED : RUN_SUCCEEDED;
}

static int write_manifest(struct run *r, struct err *err)
{
	const struct run_context *ctx = r->ctx;
	size_t n_pins;
	const struct plan_pin *pins = plan_pins(r->plan, &n_pins);
	struct manifest_input *in = arena_alloc(r->arena, (n_pins + 1) * sizeof(*in));
	struct manifest_code *code = arena_alloc(r->arena, (n_pins + 1) * sizeof(*code));
	struct manifest m = { .run = &r->row, .pipeline_tree = r->row.pipeline_blob, .inputs = in, .code = code, .results = r->row.results };
	struct attempt_row *attempts;

	for (size_t i = 0; i < n_pins; i++) {
		if (str_has_prefix(pins[i].name, "code:"))
			code[m.n_code++] = (struct manifest_code){ pins[i].name + 5, pins[i].id };
		else
			in[m.n_inputs++] = (struct manifest_input){ pins[i].name, pins[i].origin, pins[i].id };
	}
	if (record_run_attempts(ctx->db, r->row.rowid, r->arena, &attempts, &m.n_attempts, err) < 0)
		return -1;
	m.attempts = attempts;
	if (manifest_store(ctx->store, &m, &r->row.hash, err) < 0)
		return -1;
	r->row.has_hash = true;
	return 0;
}

static void tell_cache_failures(struct run *r)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err first;
	uint64_t n = publisher_failed(r->publisher, &first);

	r->row.cache_failures += n;
	if (n == 0)
		return;
	str_addf(&text, "%llu result%s could not be written to the store's records (others won't find them): %s", (unsigned long long)n,
		 n == 1 ? "" : "s", first.msg);
	OBSERVE(r, notice, text.s);
}

/* A run that went well stays well: others only don't find what it made. */
static void tell_unsent(struct run *r)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err first = { 0 };
	uint64_t n = store_unsent(r->ctx->store, &first);

	r->row.cache_failures += n;
	if (n == 0)
		return;
	str_addf(&text, "%llu object%s could not be sent to %s (`cairn store push` tries again): %s", (unsigned long long)n, n == 1 ? "" : "s",
		 store_uri(r->ctx->store), first.msg);
	OBSERVE(r, notice, text.s);
}

/* Of earlier runs of this directory. When that fails, it is told with the rest. */
static void send_what_was_left(struct run *r)
{
	static const struct store_gc_options walk = { .manifest_refs = manifest_refs, .manifest_walk = manifest_walk };
	_cleanup_(str_deinit) struct str text = { 0 };
	struct remote_sent sent;
	struct err e = { 0 };

	if (!store_is_shared(r->ctx->store) || tier_send_unsent(r->ctx->store, &walk, &sent, &e) == 0)
		return;
	str_addf(&text, "what earlier runs could not send to %s is still here: %s", store_uri(r->ctx->store), e.msg);
	OBSERVE(r, notice, text.s);
}

static bool was_cancelled(struct run *r)
{
	struct run_row now;

	return record_find_run(r->ctx->db, r->row.id, r->arena, &now, NULL) == 0 && now.cancel_requested;
}

static int write_end(struct run *r, struct err *err)
{
	const struct run_context *ctx = r->ctx;

	if (!r->interrupted && plan_store_results(r->plan, ctx->store, &r->row.results, err) < 0)
		return -1;
	if (store_sync(ctx->store, err) < 0 || write_manifest(r, err) < 0 || store_sync(ctx->store, err) < 0)
		return -1;
	if (db_begin(ctx->db, err) < 0)
		return -1;
	if (record_run_update(ctx->db, &r->row, err) < 0) {
		db_rollback(ctx->db);
		return -1;
	}
	return db_commit_durable(ctx->db, err);
}

int run_finish(struct run *r, struct err *err)
{
	struct clock *c = loop_clock(r->ctx->loop);

	if (publisher_make_up(r->publisher, err) < 0 || publisher_finish(r->publisher, err) < 0)
		return -1;
	plan_count(r->plan, &r->row.counts);
	r->row.ended_ns = c->wall_ns(c);
	r->row.state = end_state(r, r->interrupted && was_cancelled(r));
	r->row.pid = 0;
	r->row.pid_start = 0;
	if (write_end(r, err) < 0)
		return -1;
	send_what_was_left(r);
	tell_cache_failures(r);
	tell_unsent(r);
	return 0;
}
