/* record/lineage, lineage_graph: walks against a naive model, prefixes, bounds. */
#include <stdio.h>
#include <string.h>
#include "record/lineage/graph.h"
#include "unit.h"

enum { CONTENTS = 40, ATTEMPTS = 60, IO_MAX = 3 };

struct model {
	int64_t id[ATTEMPTS];
	unsigned in[ATTEMPTS][IO_MAX], out[ATTEMPTS];
	unsigned n_in[ATTEMPTS];
};

static uint32_t next(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static struct content_id content(unsigned n)
{
	struct content_id id;

	memset(&id, 0, sizeof(id));
	memset(id.digest.b, 0x11, sizeof(id.digest.b));
	id.digest.b[0] = (uint8_t)(n + 1);
	id.kind = CONTENT_BLOB;
	id.size_bytes = n;
	return id;
}

static void fill(struct db *db, struct arena *arena, struct model *m, uint32_t seed)
{
	struct run_row run = { .pipeline = "p", .started_ns = 1, .params_json = "{}" };
	struct err err = { 0 };

	assert_int_equal(db_begin(db, &err), 0);
	assert_int_equal(record_run_add(db, &run, arena, &err), 0);
	for (unsigned i = 0; i < ATTEMPTS; i++) {
		static const char *const names[IO_MAX] = { "a", "b", "c" };
		struct attempt_row a = {
			.run = run.rowid, .task = "t", .step = "t", .number = 1, .started_ns = 1
		};
		struct named_content in[IO_MAX], out = { .name = "o" };

		a.key.b[0] = (uint8_t)i;
		m->out[i] = next(&seed) % CONTENTS;
		m->n_in[i] = next(&seed) % (IO_MAX + 1);
		out.id = content(m->out[i]);
		for (unsigned k = 0; k < m->n_in[i]; k++) {
			m->in[i][k] = next(&seed) % CONTENTS;
			in[k] = (struct named_content){ .name = names[k],
							.id = content(m->in[i][k]) };
		}
		assert_int_equal(record_attempt_start(db, &a, &err), 0);
		assert_true(record_result(db,
					  &(struct observation){ .attempt = a.id,
								 .key = &a.key,
								 .cacheable = true,
								 .inputs = in,
								 .n_inputs = m->n_in[i],
								 .outputs = &out,
								 .n_outputs = 1 },
					  &err) >= 0);
		m->id[i] = a.id;
	}
	assert_int_equal(db_commit(db, &err), 0);
}

static bool reads_any(const struct model *m, unsigned i, const bool *reach)
{
	for (unsigned k = 0; k < m->n_in[i]; k++)
		if (reach[m->in[i][k]])
			return true;
	return false;
}

/* Until nothing is added any more: no queue, no recursion, nothing shared with what is tested. */
static void naive(const struct model *m, unsigned from, bool up, bool *member)
{
	bool reach[CONTENTS] = { false }, more = true;

	reach[from] = true;
	memset(member, 0, ATTEMPTS * sizeof(*member));
	while (more) {
		more = false;
		for (unsigned i = 0; i < ATTEMPTS; i++) {
			if (member[i] || !(up ? reach[m->out[i]] : reads_any(m, i, reach)))
				continue;
			member[i] = more = true;
			if (!up)
				reach[m->out[i]] = true;
			for (unsigned k = 0; up && k < m->n_in[i]; k++)
				reach[m->in[i][k]] = true;
		}
	}
}

/* Attempts of a graph, by their place in the model; each once. */
static void members(const struct lineage_graph *g, const struct model *m, bool *ret)
{
	memset(ret, 0, ATTEMPTS * sizeof(*ret));
	for (size_t n = 0; n < g->nodes.n; n++) {
		unsigned i = 0;

		if (!g->nodes.v[n].is_attempt)
			continue;
		while (i < ATTEMPTS && m->id[i] != g->nodes.v[n].attempt.id)
			i++;
		assert_true(i < ATTEMPTS && !ret[i]);
		ret[i] = true;
	}
}

/* Every edge is one of the model, and every input and output of an attempt that is there has its
 * edge. */
static void check_edges(const struct lineage_graph *g, const struct model *m, const bool *member)
{
	size_t want = 0;

	for (unsigned i = 0; i < ATTEMPTS; i++)
		want += member[i] ? m->n_in[i] + 1 : 0;
	assert_int_equal(g->edges.n, want);
	for (size_t e = 0; e < g->edges.n; e++) {
		const struct lineage_node *from = &g->nodes.v[g->edges.v[e].from],
					  *to = &g->nodes.v[g->edges.v[e].to];

		assert_true(from->is_attempt != to->is_attempt);
		assert_true(from->is_attempt ? str_eq(g->edges.v[e].name, "o")
					     : strlen(g->edges.v[e].name) == 1 &&
						       strchr("abc", *g->edges.v[e].name));
	}
}

static void compare(struct db *db, struct arena *arena, const struct model *m, unsigned from,
		    bool up)
{
	struct content_id id = content(from);
	struct lineage_graph g;
	struct err err = { 0 };
	bool want[ATTEMPTS], got[ATTEMPTS];

	naive(m, from, up, want);
	lineage_graph_init(&g, up ? LINEAGE_UP : LINEAGE_DOWN, arena);
	assert_int_equal(lineage_graph_of_content(&g, db, &id, "it", LINEAGE_DEPTH_ALL, &err), 0);
	members(&g, m, got);
	assert_memory_equal(want, got, sizeof(got));
	check_edges(&g, m, got);
	assert_true(g.nodes.n && !g.nodes.v[0].is_attempt && content_id_eq(&g.nodes.v[0].id, &id) &&
		    !g.truncated);
	lineage_graph_deinit(&g);

	/* One step: those next to it, and no further. */
	lineage_graph_init(&g, up ? LINEAGE_UP : LINEAGE_DOWN, arena);
	assert_int_equal(lineage_graph_of_content(&g, db, &id, "it", 1, &err), 0);
	members(&g, m, got);
	for (unsigned i = 0; i < ATTEMPTS; i++) {
		bool reach[CONTENTS] = { false };

		reach[from] = true;
		assert_int_equal(got[i], up ? reach[m->out[i]] : reads_any(m, i, reach));
	}
	lineage_graph_deinit(&g);
}

static void test_closure(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct arena *arena = arena_new();
		struct err err = { 0 };
		struct model m;
		struct db *db;

		assert_int_equal(db_open(":memory:", DB_WRITE, &db, &err), 0);
		fill(db, arena, &m, seed);
		for (unsigned c = 0; c < CONTENTS; c++) {
			compare(db, arena, &m, c, true);
			compare(db, arena, &m, c, false);
		}
		db_close(db);
		arena_free(arena);
	}
}

static void test_find(void **state)
{
	struct arena *arena = arena_new();
	struct err err = { 0 };
	struct content_id id;
	char hex[65];
	struct model m;
	struct db *db;

	(void)state;
	assert_int_equal(db_open(":memory:", DB_WRITE, &db, &err), 0);
	fill(db, arena, &m, 7);
	snprintf(hex, sizeof(hex), "%02x111", m.out[0] + 1);
	assert_int_equal(lineage_find(db, hex, &id, &err), 0);
	assert_int_equal(id.digest.b[0], m.out[0] + 1);
	assert_int_equal(lineage_find(db, "ffff", &id, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	for (unsigned i = 0; i < 4; i++) {
		static const char *const bad[] = { "", "111", "11zz", "1111'--" };

		err = (struct err){ 0 };
		assert_int_equal(lineage_find(db, bad[i], &id, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
	}
	db_close(db);
	arena_free(arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_closure),
					    cmocka_unit_test(test_find) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
