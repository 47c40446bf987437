/* engine/record/manifest/import.c — one run's manifest as rows of the database.
 *
 * The order: the run's row, its pins (inputs and code), then each attempt as
 * manifest_each_attempt() streams it: row, end, key record, result, metrics. All of it is inside
 * the caller's transaction; after a clash or a failure the caller rolls back.
 *
 * Numbers of attempts: add_row() first tries the number on record (not with IMPORT_NEW_IDS), then,
 * with IMPORT_IDS_IF_FREE, a new one. A number above ATTEMPT_ID_MAX is never kept: SQLite counts on
 * from the highest one, and a table at the largest number takes no more rows. Each changed number
 * is kept in `renamed`, because `continues` of a later attempt names earlier ones by number.
 *
 * Invariants: two rows are the same run when id, start and pipeline are equal. When another run has
 * the id, the beginning of the run hash is added to it. Damage in a manifest, or in content that it
 * names, affects only that part (unless_damaged()), and never makes a row of a running run.
 *
 * Threads: the thread of the handle. Not here: choosing manifests, dropping superseded ones,
 * transactions (reindex.c).
 */
#include "record/manifest/import.h"
#include "record/rows/rows.h"
#include "record/run_query.h"

#define KEY_RECORD_MAX (16 * MIB)
#define ATTEMPT_ID_MAX (1ll << 53) /* JSON's limit for exact numbers */

struct renaming {
	int64_t was, is;
};

struct import {
	struct db *db;
	struct store *s;
	enum import_ids ids;
	struct arena *arena;
	int64_t run;
	enum run_state state;
	int64_t ended_ns;             /* of the run */
	VEC(struct renaming) renamed; /* only changed ones, in order */
	uint64_t attempts;
	bool clash;
};

/* Missing or damaged content is left out; any other error is passed on. */
static int unless_damaged(const struct err *e, struct err *err)
{
	return manifest_is_damage(e) ? 0 : err_pass(err, e);
}

/* The run. */

/* When the id is taken: by this run (returns 1), or by a run of another project with the same
 * random letters. */
static int insert_run(struct db *db, struct run_row *r, struct arena *arena, struct err *err)
{
	static const int digits[] = { 6, DIGEST_HEX_MAX - 1 };
	const char *id = r->id;
	char hex[DIGEST_HEX_MAX];

	for (size_t i = 0;; i++) {
		struct run_row other;
		int taken = record_run_insert(db, r, err);

		if (taken > 0)
			taken = record_run_by_id(db, r->id, arena, &other, err);
		if (taken <= 0)
			return taken;
		if (other.started_ns == r->started_ns && str_eq(other.pipeline, r->pipeline)) {
			*r = other;
			return 1;
		}
		if (i == ARRAY_LEN(digits)) /* crafted ids: give it a random one */
			return record_run_add(db, r, arena, err);
		r->id = arena_printf(arena, "%s-%.*s", id, digits[i], digest_hex(&r->hash, hex));
	}
}

static int add_run(struct db *db, struct store *s, struct run_row *r, struct arena *arena,
		   struct err *err)
{
	struct err e = { 0 };
	int known = insert_run(db, r, arena, err);

	if (known != 0)
		return known;
	if (record_run_update(db, r, err) < 0)
		return -1;
	return record_run_results(db, s, r, &e) < 0 ? unless_damaged(&e, err) : 0;
}

/* Attempts. */

static int64_t renamed(const struct import *im, int64_t was)
{
	for (size_t i = im->renamed.n; i-- > 0;)
		if (im->renamed.v[i].was == was)
			return im->renamed.v[i].is;
	return im->ids == IMPORT_NEW_IDS ? 0 : was;
}

/* "12 15": numbers of earlier attempts, of this run or of others. Numbers that aren't known any
 * more are left out. */
static const char *renamed_all(const struct import *im, const char *ids)
{
	_cleanup_(str_deinit) struct str out = { 0 };
	char *end;

	if (!ids || im->ids == IMPORT_KEEP_IDS)
		return ids;
	for (const char *at = ids; *at; at = end) {
		long long was = strtoll(at, &end, 10);

		if (end == at)
			break;
		if (was > 0 && renamed(im, was))
			str_addf(&out, "%s%lld", out.len ? " " : "", (long long)renamed(im, was));
	}
	return out.len ? arena_strndup(im->arena, out.s, out.len) : NULL;
}

/* 1: its number is taken, and it may not get another. */
static int add_row(struct import *im, struct attempt_row *a, struct err *err)
{
	int64_t was = a->id;
	bool kept = was <= ATTEMPT_ID_MAX;
	int r = !kept && im->ids == IMPORT_KEEP_IDS
			? 1
			: attempt_insert(im->db, a, kept && im->ids != IMPORT_NEW_IDS ? was : 0,
					 err);

	if (r > 0 && im->ids == IMPORT_IDS_IF_FREE)
		r = attempt_insert(im->db, a, 0, err);
	if (r != 0 || a->id == was)
		return r;
	VEC_PUSH(&im->renamed, ((struct renaming){ was, a->id }));
	return 0;
}

static int add_key(struct import *im, const struct attempt_record *rec, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct content_id id = attempt_key_record(rec);
	struct err e = { 0 };

	if (!id.kind || rec->row.number > 1)
		return 0;
	if (content_read(im->s, &id, KEY_RECORD_MAX, &bytes, &e) < 0)
		return unless_damaged(&e, err);
	return record_key(im->db, &rec->row.key, bytes.s, bytes.len, err);
}

static int add_attempt(void *arg, const struct attempt_record *rec, struct err *err)
{
	struct import *im = arg;
	struct attempt_row a = rec->row;
	struct observation o = { .key = &a.key,
				 .cacheable = rec->cacheable,
				 .inputs = rec->inputs,
				 .n_inputs = rec->n_inputs,
				 .outputs = rec->outputs,
				 .n_outputs = rec->n_outputs };
	int r;

	a.run = im->run;
	r = add_row(im, &a, err);
	if (r != 0) {
		im->clash = r > 0;
		return -1;
	}
	a.continues = renamed_all(im, a.continues);
	/* Only an interrupted run may have left an attempt that goes on, on a cluster. */
	if (a.ended_ns == 0 && im->state != RUN_INTERRUPTED) {
		a.ended_ns = im->ended_ns;
		a.failure = FAILURE_LOST;
	}
	im->attempts++;
	if (record_attempt_end(im->db, &a, err) < 0 || add_key(im, rec, err) < 0)
		return -1;
	o.attempt = a.id;
	if (rec->has_result && record_result(im->db, &o, err) < 0)
		return -1;
	return record_metrics(im->db, a.id, rec->metrics, rec->n_metrics, err);
}

int manifest_import(struct db *db, struct store *s, struct manifest *m, enum import_ids ids,
		    struct arena *arena, uint64_t *ret_attempts, const char **ret_lost,
		    struct err *err)
{
	struct run_row row = *m->run;
	struct import im = { .db = db, .s = s, .ids = ids, .arena = arena };
	struct err e = { 0 };
	int r = add_run(db, s, &row, arena, err);

	if (r < 0)
		return -1;
	m->run = arena_memdup(arena, &row, sizeof(row));
	if (r > 0)
		return IMPORT_KNOWN;
	im.run = row.rowid;
	im.state = row.state;
	im.ended_ns = row.ended_ns;
	for (size_t i = 0; i < m->n_inputs; i++)
		if (record_run_input(db, row.rowid, m->inputs[i].name, m->inputs[i].origin,
				     &m->inputs[i].id, err) < 0)
			return -1;
	for (size_t i = 0; i < m->n_code; i++)
		if (record_run_input(db, row.rowid, arena_printf(arena, "code:%s", m->code[i].step),
				     "code", &m->code[i].tree, err) < 0)
			return -1;
	r = m->attempts_blob.kind
		    ? manifest_each_attempt(s, &m->attempts_blob, add_attempt, &im, &e)
		    : 0;
	VEC_FREE(&im.renamed);
	*ret_attempts += im.attempts;
	if (im.clash)
		return IMPORT_CLASH;
	if (r < 0 && unless_damaged(&e, err) < 0)
		return -1;
	if (r < 0)
		*ret_lost = arena_strdup(arena, e.msg);
	return IMPORT_DONE;
}
