/* engine/run/finish.c — the end of a run: results table, manifest, run hash, and the row that names
 * it.
 *
 * run_finish() keeps this order, so that each part relies only on durable ones: it publishes
 * action records, exports outputs and proves the end (prove.c). It then stores content and manifest
 * and calls store_sync(). One durable transaction then writes the run's row, its metrics and its
 * firing. Notices about the store come last.
 *
 * Invariants: no row names a manifest that isn't durable. An interrupted run has a manifest, but no
 * results in its row: it can go on. Content that couldn't be sent or published costs a notice,
 * never the run.
 *
 * Threads: the loop's, when nothing of the run executes any more. Not here: deciding how tasks
 * ended (turn.c).
 */
#include <assert.h>
#include "base/text/text.h"
#include "record/manifest/manifest.h"
#include "record/rows/firings.h"
#include "record/run_query.h"
#include "run/internal.h"
#include "storage/remote/tier.h"

/* Thread and device settings that the manifest shows for a step. */

static const char *const thread_variables[] = { "OMP_NUM_THREADS",        "MKL_NUM_THREADS",
						"OPENBLAS_NUM_THREADS",   "NUMEXPR_NUM_THREADS",
						"BLIS_NUM_THREADS",       "TF_NUM_INTRAOP_THREADS",
						"TF_NUM_INTEROP_THREADS", "RAYON_NUM_THREADS",
						"CUDA_VISIBLE_DEVICES" };

/* Moves a vector's items into the run's arena. NULL when there are none: of many thousand steps,
 * most have nothing to say here. */
static void *kept(struct run *r, void *items, size_t n, size_t size)
{
	void *copy = n ? arena_memdup(r->arena, items, n * size) : NULL;

	free(items);
	return copy;
}

/* Only variables that a step declares reach its tasks. A value that is computed for each task is in
 * the task's key record. */
static void add_threads(struct run *r, const struct step *s, struct manifest_step *ret)
{
	VEC(struct manifest_variable) found = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(thread_variables); i++)
		for (size_t k = 0; k < s->reads->n_env; k++) {
			const char *value = str_eq(s->reads->env[k].name, thread_variables[i])
						    ? template_literal(s->reads->env[k].value)
						    : NULL;

			if (value)
				VEC_PUSH(&found, ((struct manifest_variable){ thread_variables[i],
									      value }));
		}
	ret->n_threads = found.n;
	ret->threads = kept(r, found.v, found.n, sizeof(*found.v));
}

/* Whether the input is what another step made as `temp`, or a part of that. */
static bool is_temp(const struct pipeline *p, const struct step *s, const struct step_input *in)
{
	const struct ref *from =
		in->from.kind == REF_ITEM && s->tasks->each ? &s->tasks->each->from : &in->from;

	return from->kind == REF_STEP_OUTPUT && p->steps[from->step].outputs[from->index].temp;
}

static void add_temp(struct run *r, const struct step *s, struct manifest_step *ret)
{
	VEC(const char *) inputs = { 0 };
	VEC(struct manifest_place) outputs = { 0 };

	for (size_t i = 0; i < s->n_inputs; i++)
		if (is_temp(r->pipeline, s, &s->inputs[i]) ||
		    (s->inputs[i].then && is_temp(r->pipeline, s, s->inputs[i].then)))
			VEC_PUSH(&inputs, s->inputs[i].name);
	for (size_t i = 0; i < s->n_outputs; i++)
		if (s->outputs[i].temp)
			VEC_PUSH(&outputs,
				 ((struct manifest_place){ s->outputs[i].name, (uint32_t)i }));
	ret->n_temp_inputs = inputs.n;
	ret->temp_inputs = kept(r, inputs.v, inputs.n, sizeof(*inputs.v));
	ret->n_temp_outputs = outputs.n;
	ret->temp_outputs = kept(r, outputs.v, outputs.n, sizeof(*outputs.v));
}

static void add_steps(struct run *r, struct manifest *m)
{
	VEC(struct manifest_step) steps = { 0 };

	for (size_t i = 0; i < r->pipeline->n_steps; i++) {
		const struct step *s = &r->pipeline->steps[i];
		struct manifest_step e = { .name = s->name,
					   .builtin = s->program.builtin,
					   .code = plan_step_code(r->plan, i),
					   .secrets = s->reads->secrets,
					   .n_secrets = s->reads->n_secrets };

		add_threads(r, s, &e);
		add_temp(r, s, &e);
		e.image_digest = plan_step_image(r->plan, i, &e.image);
		if (e.builtin || e.code.kind || e.n_secrets || e.n_threads || e.image_digest ||
		    e.n_temp_inputs || e.n_temp_outputs)
			VEC_PUSH(&steps, e);
	}
	m->n_steps = steps.n;
	m->steps = kept(r, steps.v, steps.n, sizeof(*steps.v));
}

/* The full output of a tool's version command is pinned content. The manifest shows its
 * beginning. */
#define TOOL_SHOWN_BYTES 1000

static int add_tools(struct run *r, const struct plan_pin *pins, size_t n, struct manifest *m,
		     struct err *err)
{
	struct manifest_variable *v = arena_alloc(r->arena, (n + 1) * sizeof(*v));

	for (size_t i = 0; i < n; i++) {
		_cleanup_(str_deinit) struct str text = { 0 };

		if (!str_has_prefix(pins[i].name, "tool:"))
			continue;
		if (content_read(r->ctx->store, &pins[i].id, MIB, &text, err) < 0)
			return err_wrap(err, "%s", pins[i].name);
		while (text.len && text.s[text.len - 1] == '\n')
			text.len--;
		v[m->n_tools++] = (struct manifest_variable){
			pins[i].name + 5, arena_strndup(r->arena, text.len ? text.s : "",
							MIN(text.len, TOOL_SHOWN_BYTES))
		};
	}
	m->tools = v;
	return 0;
}

/* The manifest. */

struct key_keeper {
	struct run *r;
	bool published; /* this engine published every record that others may use */
	struct str bytes;
};

static int keep_key_record(void *arg, const struct attempt_record *a, struct err *err)
{
	struct key_keeper *k = arg;
	const struct run_context *ctx = k->r->ctx;
	struct content_id id;

	if (!a->key_record_bytes || (a->cacheable && k->published))
		return 0;
	str_reset(&k->bytes);
	return record_key_bytes(ctx->db, &a->row.key, &k->bytes, err) < 0
		       ? -1
		       : content_put_bytes(ctx->store, k->bytes.s, k->bytes.len, &id, err);
}

/* Stores the attempts, and the key records that `why` compares. Key records of shared results are
 * in the store already, unless an engine died before it published them. */
static int keep_attempts(struct run *r, struct content_id *ret, struct err *err)
{
	struct err first;
	struct key_keeper k = { .r = r,
				.published = r->earlier.n == 0 &&
					     publisher_failed(r->publisher, &first) == 0 };
	int result = manifest_put_attempts(r->ctx->db, r->ctx->store, r->row.rowid, keep_key_record,
					   &k, ret, err);

	str_deinit(&k.bytes);
	return result;
}

/* A stopped run can go on and has no results table in the database. Its manifest lists the results
 * so far. */
static int write_manifest(struct run *r, struct err *err)
{
	const struct run_context *ctx = r->ctx;
	struct manifest m = { .run = &r->row, .pipeline_tree = r->row.pipeline_blob };
	size_t n_pins;
	const struct plan_pin *pins = plan_pins(r->plan, &n_pins);
	struct manifest_input *in = arena_alloc(r->arena, (n_pins + 1) * sizeof(*in));
	struct manifest_code *code = arena_alloc(r->arena, (n_pins + 1) * sizeof(*code));

	for (size_t i = 0; i < n_pins; i++) {
		if (str_has_prefix(pins[i].name, "code:"))
			code[m.n_code++] = (struct manifest_code){ pins[i].name + 5, pins[i].id };
		else
			in[m.n_inputs++] =
				(struct manifest_input){ pins[i].name, pins[i].origin, pins[i].id };
	}
	m.inputs = in;
	m.code = code;
	add_steps(r, &m);
	if (plan_store_results(r->plan, ctx->store, &m.results, err) < 0 ||
	    add_tools(r, pins, n_pins, &m, err) < 0 ||
	    keep_attempts(r, &m.attempts_blob, err) < 0 ||
	    manifest_store(ctx->store, &m, &r->row.hash, err) < 0)
		return -1;
	if (!r->end.interrupted) {
		r->row.results = m.results;
		r->row.has_plan_digest = plan_digest(r->plan, &r->row.plan_digest);
	}
	r->row.has_hash = true;
	return 0;
}

/* Content that others won't find, or that was damaged. The run succeeds, but users should know. */
static void report_store(struct run *r)
{
	struct store *s = r->ctx->store;
	const char *uri = store_uri(s);
	struct err first = { 0 };
	struct remote_sent sent;
	unsigned long long n;

	if (store_is_shared(s) && tier_send_unsent(s, &manifest_names, &sent, &first) != 0)
		run_notice(r, "what earlier runs could not send to %s is still here: %s", uri,
			   first.msg);
	n = publisher_failed(r->publisher, &first);
	r->row.cache_failures += n;
	if (n)
		run_notice(r,
			   "%llu result%s could not be written to the store's records (others "
			   "won't find them): %s",
			   n, n == 1 ? "" : "s", first.msg);
	n = store_unsent(s, &first);
	r->row.cache_failures += n;
	if (n)
		run_notice(r,
			   "%llu object%s could not be sent to %s (`cairn store push` tries "
			   "again): %s",
			   n, n == 1 ? "" : "s", uri, first.msg);
	n = store_healed(s);
	if (n)
		run_notice(r,
			   "%llu object%s of the store %s damaged and %s been replaced by what "
			   "this run made (`cairn store verify` looks for more)",
			   n, n == 1 ? "" : "s", n == 1 ? "was" : "were", n == 1 ? "has" : "have");
}

int run_finish(struct run *r, struct err *err)
{
	const struct run_context *ctx = r->ctx;
	int result;

	assert(r->tasks.in[PHASE_RUNNING].n == 0);

	if (publisher_make_up(r->publisher, err) < 0 || publisher_finish(r->publisher, err) < 0 ||
	    run_export(r, err) < 0)
		return -1;
	if (!r->end.interrupted && run_prove_end(r, err) < 0)
		return -1;
	plan_count(r->plan, &r->row.counts);
	if (plan_n_tolerated(r->plan) && !r->row.message) {
		_cleanup_(str_deinit) struct str names = { 0 };

		plan_add_failed(r->plan, true, &names);
		r->row.message =
			arena_printf(r->arena, "failed, but `continue_on_error`: %.2000s", names.s);
	}
	r->row.ended_ns = run_wall_ns(r);
	r->row.only_store_failed = r->end.failed && !r->end.itself && !plan_gate_message(r->plan);
	if (r->end.interrupted)
		r->row.state = r->end.stopped_early || run_cancel_requested(r) ? RUN_CANCELLED
									       : RUN_INTERRUPTED;
	else
		r->row.state = r->end.failed ? RUN_FAILED : RUN_SUCCEEDED;
	r->row.engine.pid = 0;
	r->row.engine.start = 0;
	if (write_manifest(r, err) < 0 || store_sync(ctx->store, err) < 0 ||
	    db_begin(ctx->db, err) < 0)
		return -1;
	result = record_run_update(ctx->db, &r->row, err);
	if (result == 0)
		result = record_run_results(ctx->db, ctx->store, &r->row, err);
	if (result == 0 && r->row.schedule)
		result = record_firing_ended(ctx->db, &r->row, r->arena, err);
	if (result == 0 && run_notices_of(r))
		result = run_notices_of(r)->ended(run_notices_of(r)->arg, &r->row, err);
	if (db_finish_durable(ctx->db, result, err) < 0)
		return -1;
	report_store(r);
	return 0;
}
