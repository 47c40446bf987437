/* Random pipelines over values that steps write: what is executed, skipped and found on record, and
 * what each command is told, held against a naive model. It knows what every step wrote, and which
 * of it a task names; nothing of keys or of when things are known. */
#include <string.h>
#include "base/map.h"
#include "core/fixture.h"
#include "unit.h"

#define SEEDS  300
#define ROUNDS 5
#define NAMES  4 /* members of what `plan` writes */
#define USERS  5 /* steps that use them */
#define ITEMS  4

struct user {
	bool uses[NAMES]; /* in its command */
	bool each;        /* one task for each item of the list */
	unsigned condition;
	unsigned least; /* `if` its condition's value is at least that */
};

struct world {
	struct engine e;
	uint64_t dice;
	struct user users[USERS];
	unsigned values[NAMES], list[ITEMS], n_list, version;
	struct map *done;   /* "task|value|value" → w */
	struct map *wanted; /* likewise: of this round */
	unsigned executed;
};

static void roll(struct world *w)
{
	w->version++;
	for (unsigned i = 0; i < NAMES; i++)
		w->values[i] = pick(&w->dice, 3);
	w->n_list = pick(&w->dice, ITEMS + 1);
	for (unsigned i = 0, from = 0; i < w->n_list; i++)
		w->list[i] = from = from + 1 + pick(&w->dice, 2);
}

static void add_yaml(struct world *w, struct str *out)
{
	str_addf(out,
		 "pipeline: values\nsteps:\n"
		 "  plan: {run: work, values: v.json, salt: v%u}\n",
		 w->version);
	for (unsigned u = 0; u < USERS; u++) {
		const struct user *x = &w->users[u];

		/* Commands name the step, since keys don't. */
		str_addf(out, "  u%u:\n    values: out/v.json\n    run: work %u", u, u);
		for (unsigned i = 0; i < NAMES; i++)
			if (x->uses[i])
				str_addf(out, " ${{ steps.plan.values.deep.%u.k }}", i);
		str_addf(out, "%s\n", x->each ? " ${{ item.n }}" : "");
		if (x->each)
			str_add(out, "    each: ${{ steps.plan.values.list }}\n");
		if (x->condition < NAMES)
			str_addf(out, "    if: ${{ steps.plan.values.deep.%u.k >= %u }}\n",
				 x->condition, x->least);
	}
	/* Of several tasks: a list in their order, which is that of the list. */
	str_add(out, "  sum:\n    run: work ${{ count(steps.u0.values.n) }} "
		     "${{ sum(steps.u0.values.n) }} ${{ steps.u0.values.n }}\n");
}

static void add_plan(const struct world *w, struct str *out)
{
	str_add(out, "{\"deep\": [");
	for (unsigned i = 0; i < NAMES; i++)
		str_addf(out, "%s{\"k\": %u}", i ? ", " : "", w->values[i]);
	str_addf(out, "], \"unused\": %u, \"list\": [", w->version);
	for (unsigned i = 0; i < w->n_list; i++)
		str_addf(out, "%s{\"n\": %u}", i ? ", " : "", w->list[i]);
	str_add(out, "]}");
}

/* What a round makes of the steps. Returns the number of tasks; those that must run are in
 * `wanted`. */
static unsigned expect(struct world *w, unsigned *ret_skipped)
{
	unsigned total = 2, sum = 0;
	struct str what = { 0 };

	map_free(w->wanted);
	w->wanted = map_new();
	*ret_skipped = 0;
	str_addf(&what, "plan|v%u", w->version);
	map_slot_str(w->wanted, what.s);
	for (unsigned u = 0; u < USERS; u++) {
		const struct user *x = &w->users[u];
		bool skipped = x->condition < NAMES && w->values[x->condition] < x->least;

		for (unsigned t = 0; t < (x->each ? w->n_list : 1); t++) {
			total++;
			*ret_skipped += skipped;
			str_reset(&what);
			str_addf(&what, "u%u", u);
			if (x->each)
				str_addf(&what, "[n=%u]", w->list[t]);
			for (unsigned i = 0; i < NAMES; i++)
				if (x->uses[i])
					str_addf(&what, "|%u", w->values[i]);
			if (x->each)
				str_addf(&what, "|%u", w->list[t]);
			if (!skipped)
				map_slot_str(w->wanted, what.s);
		}
	}
	str_reset(&what);
	for (unsigned i = 0; i < w->n_list; i++)
		sum += w->list[i];
	str_addf(&what, "sum|%u|%u", w->n_list, sum);
	for (unsigned i = 0; i < w->n_list; i++)
		str_addf(&what, "|%u", w->list[i]);
	map_slot_str(w->wanted, what.s);
	str_deinit(&what);
	return total;
}

static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;
	struct str what = { 0 }, json = { 0 };
	const char *item = strstr(a->task, "[n=");
	bool is_new;

	str_add(&what, a->task);
	if (str_eq(a->task, "plan")) {
		str_addf(&what, "|v%u", w->version);
		add_plan(w, &json);
	} else {
		str_addf(&json, "{\"n\": %s}", item ? item + 3 : "0");
		if (item) { /* without the bracket behind it */
			json.s[json.len - 2] = '}';
			json.len--;
		}
	}
	for (const char *const *e = a->env; *e; e++)
		if (str_has_prefix(*e, "CAIRN_V"))
			str_addf(&what, "|%s", strchr(*e, '=') + 1);
	if (!map_has(w->wanted, what.s, what.len))
		fail_msg("executed, but not wanted: %s", what.s);
	map_slot(w->done, what.s, what.len, &is_new);
	if (!is_new)
		fail_msg("executed twice: %s", what.s);
	w->executed++;
	*ret_duration_ns = (int64_t)pick(&w->dice, 5000) * NS_PER_MS;
	if (!str_eq(a->task, "sum"))
		assert_int_equal(
			content_put_bytes(w->e.store, json.s, json.len, &ret_outputs[0], NULL), 0);
	str_deinit(&what);
	str_deinit(&json);
}

static void one_round(struct world *w, const char *dir)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct config config = engine_config(dir);
	struct run_context ctx = engine_context(&w->e, &config);
	struct run_options o = { .keep_going = true, .jobs = 1 + pick(&w->dice, 4) };
	struct str yaml = { 0 };
	struct err err = { 0 };
	struct run_row row;
	struct pipeline *p;
	unsigned total, skipped, known = 0;

	roll(w);
	add_yaml(w, &yaml);
	total = expect(w, &skipped);
	for (size_t i = 0; i < map_len(w->wanted); i++) {
		size_t len;
		const void *key;

		map_at(w->wanted, i, &key, &len);
		known += map_has(w->done, key, len);
	}
	w->executed = 0;
	p = engine_pipeline(dir, yaml.s);
	if (run_start(&ctx, p, &o, arena, &row, &err) < 0)
		fail_msg("%s\n%s", err.msg, yaml.s);
	assert_int_equal(row.state, RUN_SUCCEEDED);
	assert_int_equal(row.counts.total, total);
	assert_int_equal(row.counts.skipped, skipped);
	assert_int_equal(row.counts.hits, known);
	assert_int_equal(row.counts.executed, map_len(w->wanted) - known);
	assert_int_equal(w->executed, row.counts.executed);
	assert_int_equal(row.counts.failed + row.counts.blocked, 0);
	pipeline_free(p);
	str_deinit(&yaml);
}

static void one_seed(uint64_t seed, const char *dir)
{
	struct world w = { .dice = mix(seed, 3) };
	struct runner_fake_options o = { .seed = seed, .script = execute, .arg = &w };

	for (unsigned u = 0; u < USERS; u++) {
		struct user *x = &w.users[u];

		x->each = u == 0 || pick(&w.dice, 2);
		x->condition = u == 0 ? NAMES : pick(&w.dice, NAMES + 2);
		x->least = pick(&w.dice, 4);
		for (unsigned i = 0; i < NAMES; i++)
			x->uses[i] = pick(&w.dice, 2);
	}
	engine_open(&w.e, &o);
	w.done = map_new();
	for (unsigned i = 0; i < ROUNDS; i++)
		one_round(&w, dir);
	assert_int_equal(db_check(w.e.db, NULL), 0);
	map_free(w.done);
	map_free(w.wanted);
	engine_close(&w.e);
}

static void test_random_values(void **state)
{
	each_seed(SEEDS, one_seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_values) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
