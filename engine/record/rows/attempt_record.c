/* engine/record/rows/attempt_record.c — everything on record of an attempt, from the database to a
 * line of JSON and back.
 *
 * Attempts are read in pages of RECORDS_A_PAGE; one query reads the inputs of a whole page, in the
 * attempts' order, one the outputs, one the metrics. Invariants: a record decodes to the same
 * record that was encoded, except for fields that no line has (run, workspace, waiting, metrics
 * that aren't numbers). A line that this version can't read is an error as a whole, because half a
 * lineage is wrong. Threads: the thread of the handle; encoding and decoding are pure. Not here:
 * writing rows (rows/attempts.c), blobs (manifest/).
 */
#include "record/rows/attempt_record.h"
#include <math.h>
#include "base/text/json.h"
#include "base/text/text.h"
#include "record/facts.h"
#include "record/rows/approvals.h"
#include "record/rows/rows.h"

/* Inputs or outputs of one attempt: more than the members of a gathered directory. */
#define IO_MAX           1000000
#define METRICS_READ_MAX 100000
#define RECORDS_A_PAGE   1000

/* From the database. */

/* Attempts of a run whose ids are higher than `after`, at most `most`. */
struct page {
	int64_t run, after, most;
};

#define OF_PAGE " WHERE attempt.run = ?1 AND attempt.id > ?2 AND attempt.id <= ?3"

/* Rows of several attempts come in the attempts' order. Returns the index in `v` of the row's
 * attempt, searching from `at`; n: none. */
static size_t owner(const struct attempt_record *v, size_t n, size_t at, int64_t id)
{
	while (at < n && v[at].row.id < id)
		at++;
	return at < n && v[at].row.id == id ? at : n;
}

static int read_io_of_all(struct db *db, const struct page *p, int dir, struct arena *arena,
			  struct attempt_record *v, size_t n, struct err *err)
{
	VEC(struct named_content) all = { 0 };
	VEC(size_t) owners = { 0 };
	struct named_content c = { 0 };
	struct db_query q;
	size_t at = 0;
	int64_t id;
	int r;

	if (db_query(db, &q,
		     "SELECT io.attempt, io.name, content.digest, content.kind, "
		     "content.size FROM attempt JOIN io ON io.attempt = attempt.id "
		     "JOIN content ON content.id = io.content" OF_PAGE
		     " AND io.dir = ?4 ORDER BY io.attempt, io.name",
		     DB_IN(p->run, p->after, v[n - 1].row.id, dir), arena, err) < 0)
		return -1;
	while ((r = db_next(&q, DB_OUT(&id, &c.name, &c.id.digest, &c.id.kind, &c.id.size_bytes),
			    err)) > 0) {
		size_t found = owner(v, n, at, id);

		if (found == n || q.missing || c.id.kind < CONTENT_BLOB ||
		    c.id.kind > CONTENT_KIND_MAX)
			continue;
		at = found;
		VEC_PUSH(&all, c);
		VEC_PUSH(&owners, at);
	}
	for (size_t i = 0, from; i < all.n;) {
		for (from = i; i < all.n && owners.v[i] == owners.v[from]; i++)
			;
		*(dir ? &v[owners.v[from]].outputs : &v[owners.v[from]].inputs) =
			arena_memdup(arena, all.v + from, (i - from) * sizeof(*all.v));
		*(dir ? &v[owners.v[from]].n_outputs : &v[owners.v[from]].n_inputs) = i - from;
	}
	VEC_FREE(&all);
	VEC_FREE(&owners);
	return r;
}

static int read_metrics_of_all(struct db *db, const struct page *p, struct arena *arena,
			       struct attempt_record *v, size_t n, struct err *err)
{
	VEC(struct metric_value) all = { 0 };
	VEC(size_t) owners = { 0 };
	struct metric_value m;
	struct db_query q;
	size_t at = 0;
	int64_t id;
	int r;

	if (db_query(db, &q,
		     "SELECT metric.attempt, metric.name, metric.value FROM "
		     "attempt JOIN metric ON metric.attempt = attempt.id" OF_PAGE
		     " ORDER BY metric.attempt, metric.name",
		     DB_IN(p->run, p->after, v[n - 1].row.id), arena, err) < 0)
		return -1;
	while ((r = db_next(&q, DB_OUT(&id, &m.name, &m.value), err)) > 0) {
		size_t found = owner(v, n, at, id);

		if (found == n)
			continue;
		at = found;
		VEC_PUSH(&all, m);
		VEC_PUSH(&owners, at);
	}
	for (size_t i = 0, from; i < all.n;) {
		for (from = i; i < all.n && owners.v[i] == owners.v[from]; i++)
			;
		v[owners.v[from]].metrics =
			arena_memdup(arena, all.v + from, (i - from) * sizeof(*all.v));
		v[owners.v[from]].n_metrics = i - from;
	}
	VEC_FREE(&all);
	VEC_FREE(&owners);
	return r;
}

static int read_results_of_all(struct db *db, const struct page *p, struct attempt_record *v,
			       size_t n, struct err *err)
{
	uint64_t key_record_bytes;
	struct db_query q;
	int cacheable, r;
	size_t at = 0;
	int64_t id;

	if (db_query(db, &q,
		     "SELECT attempt.id, result.cacheable, length(key_record.bytes) FROM attempt "
		     "LEFT "
		     "JOIN result ON result.attempt = attempt.id LEFT JOIN key_record ON "
		     "key_record.key "
		     "= attempt.key" OF_PAGE " ORDER BY attempt.id",
		     DB_IN(p->run, p->after, v[n - 1].row.id), NULL, err) < 0)
		return -1;
	while ((r = db_next(&q, DB_OUT(&id, &cacheable, &key_record_bytes), err)) > 0) {
		size_t found = owner(v, n, at, id);

		if (found == n)
			continue;
		at = found;
		v[at].has_result = db_has(&q, 1);
		v[at].cacheable = cacheable == 1;
		v[at].key_record_bytes = key_record_bytes;
	}
	return r;
}

static int read_page(struct db *db, const struct page *p, struct arena *arena,
		     struct attempt_record **ret, size_t *ret_n, struct err *err)
{
	struct attempt_record *v;
	struct attempt_row *rows;
	size_t n;

	if (db_get_rows(db,
			"SELECT " ATTEMPT_COLUMNS
			" FROM attempt WHERE run = ? AND id > ? ORDER BY id LIMIT ?",
			DB_IN(p->run, p->after, p->most), arena, &attempt_of_columns, &rows, &n,
			err) < 0)
		return -1;
	v = arena_alloc(arena, (n + 1) * sizeof(*v));
	for (size_t i = 0; i < n; i++)
		v[i].row = rows[i];
	if (n && (read_io_of_all(db, p, 0, arena, v, n, err) < 0 ||
		  read_io_of_all(db, p, 1, arena, v, n, err) < 0 ||
		  read_metrics_of_all(db, p, arena, v, n, err) < 0 ||
		  read_results_of_all(db, p, v, n, err) < 0))
		return -1;
	*ret = v;
	*ret_n = n;
	return 0;
}

int record_run_records(struct db *db, int64_t run, struct arena *arena, struct attempt_record **ret,
		       size_t *ret_n, struct err *err)
{
	const struct page all = { .run = run, .most = -1 };

	return read_page(db, &all, arena, ret, ret_n, err);
}

int record_each_record(struct db *db, int64_t run,
		       int (*fn)(void *arg, const struct attempt_record *r, struct err *err),
		       void *arg, struct err *err)
{
	struct page p = { .run = run, .most = RECORDS_A_PAGE };
	size_t n;
	int r;

	do {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		struct attempt_record *v;

		r = read_page(db, &p, arena, &v, &n, err);
		for (size_t i = 0; i < n && r == 0; i++) {
			r = fn(arg, &v[i], err);
			p.after = v[i].row.id;
		}
	} while (r == 0 && n == RECORDS_A_PAGE);
	return r;
}

struct content_id attempt_key_record(const struct attempt_record *r)
{
	if (!r->key_record_bytes)
		return (struct content_id){ 0 };
	return (struct content_id){ .digest = r->row.key,
				    .size_bytes = r->key_record_bytes,
				    .kind = CONTENT_BLOB };
}

/* As a line. */

static void add_name(struct str *out, const char *s)
{
	_cleanup_(str_deinit) struct str name = { 0 };

	json_name_encode(&name, s, strlen(s));
	json_add_string(out, name.len ? name.s : "", name.len);
}

static void add_text(struct str *out, const char *key, const char *s)
{
	str_addf(out, ",\"%s\":", key);
	if (s)
		add_name(out, s);
	else
		str_add(out, "null");
}

static void add_int(struct str *out, const char *key, int64_t v)
{
	str_addf(out, ",\"%s\":%lld", key, (long long)v);
}

static void add_id(struct str *out, const struct content_id *id)
{
	char hex[DIGEST_HEX_MAX];

	if (id->kind == CONTENT_NONE)
		str_add(out, "null");
	else
		str_addf(out, "\"%s:%llu:%s\"", content_kind_name(id->kind),
			 (unsigned long long)id->size_bytes, digest_hex(&id->digest, hex));
}

static void add_contents(struct str *out, const char *key, const struct named_content *v, size_t n)
{
	const char *comma = "";

	str_addf(out, ",\"%s\":{", key);
	for (size_t i = 0; i < n; i++) {
		if (v[i].id.kind == CONTENT_NONE)
			continue;
		str_add(out, comma);
		add_name(out, v[i].name);
		str_addc(out, ':');
		add_id(out, &v[i].id);
		comma = ",";
	}
	str_addc(out, '}');
}

/* JSON has no infinite numbers: those metrics are a list of their own, with their sign. */
static void add_infinite(struct str *out, const struct metric_value *v, size_t n)
{
	const char *comma = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!isinf(v[i].value))
			continue;
		str_add(out, comma ? comma : ",\"infinite\":{");
		add_name(out, v[i].name);
		str_add(out, v[i].value < 0 ? ":-1" : ":1");
		comma = ",";
	}
	if (comma) /* records without any keep their old form */
		str_addc(out, '}');
}

static void add_metrics(struct str *out, const struct metric_value *v, size_t n)
{
	const char *comma = "";

	str_add(out, ",\"metrics\":{");
	for (size_t i = 0; i < n; i++) {
		if (!isfinite(v[i].value))
			continue;
		str_add(out, comma);
		add_name(out, v[i].name);
		str_addc(out, ':');
		text_add_double(out, v[i].value);
		comma = ",";
	}
	str_addc(out, '}');
}

void attempt_record_encode(const struct attempt_record *r, struct str *out)
{
	const struct attempt_row *a = &r->row;
	char hex[DIGEST_HEX_MAX];

	str_addc(out, '{');
	if (a->approval) /* canonical JSON already */
		str_addf(out, "\"approval\":%s,", a->approval);
	str_addf(out, "\"class\":\"%s\"", failure_class_name(a->failure));
	add_text(out, "continues", a->continues);
	add_int(out, "cpu_ns", a->cpu_ns);
	add_int(out, "ended_ns", a->ended_ns);
	add_int(out, "exit_status", a->exit_status);
	add_int(out, "id", a->id);
	if (a->image) /* records without an image keep their old form */
		add_text(out, "image", a->image);
	add_infinite(out, r->metrics, r->n_metrics);
	add_contents(out, "inputs", r->inputs, r->n_inputs);
	add_text(out, "key", digest_hex(&a->key, hex));
	add_int(out, "key_record", (int64_t)r->key_record_bytes);
	str_add(out, ",\"log\":");
	add_id(out, &a->log);
	add_int(out, "max_rss_bytes", (int64_t)a->max_rss_bytes);
	add_text(out, "message", a->message);
	add_metrics(out, r->metrics, r->n_metrics);
	add_text(out, "node", a->node);
	add_int(out, "number", a->number);
	add_contents(out, "outputs", r->outputs, r->n_outputs);
	add_text(out, "reason", a->reason);
	add_text(out, "result", r->has_result ? r->cacheable ? "cacheable" : "kept" : NULL);
	add_int(out, "signal", a->signo);
	add_int(out, "started_ns", a->started_ns);
	add_text(out, "step", a->step);
	add_text(out, "task", a->task);
	str_add(out, "}\n");
}

/* Decoding. */

static bool read_id(const json_t *j, struct content_id *ret)
{
	const char *text = json_string_value(j), *at = text ? strchr(text, ':') : NULL;
	char kind[16] = "", *end;

	*ret = (struct content_id){ 0 };
	if (!at || (size_t)(at - text) >= sizeof(kind) || at[1] < '0' || at[1] > '9')
		return false;
	memcpy(kind, text, (size_t)(at - text));
	ret->size_bytes = strtoull(at + 1, &end, 10);
	at = end + 1;
	if (*end != ':' || strlen(at) != DIGEST_HEX_MAX - 1 ||
	    digest_parse(at, &ret->digest, NULL) < 0)
		return false;
	ret->kind = content_kind_parse(kind);
	return ret->kind != CONTENT_NONE;
}

static bool read_contents(const json_t *o, const char *key, struct arena *arena,
			  struct named_content **ret, size_t *ret_n)
{
	json_t *list = json_object_get(o, key), *v;
	size_t n = json_object_size(list);
	const char *name;

	*ret_n = 0;
	if (n > IO_MAX)
		return false;
	*ret = arena_alloc(arena, (n + 1) * sizeof(**ret));
	json_object_foreach(list, name, v)
	{
		struct named_content *c = &(*ret)[*ret_n];

		c->name = facts_read_text(name, arena);
		if (!c->name || !read_id(v, &c->id))
			return false;
		++*ret_n;
	}
	qsort(*ret, *ret_n, sizeof(**ret), named_content_by_name);
	return true;
}

static int by_metric_name(const void *a, const void *b)
{
	return strcmp(((const struct metric_value *)a)->name,
		      ((const struct metric_value *)b)->name);
}

static bool read_metrics(const json_t *o, struct arena *arena, struct attempt_record *ret)
{
	json_t *list = json_object_get(o, "metrics"), *infinite = json_object_get(o, "infinite"),
	       *v;
	size_t n = json_object_size(list) + json_object_size(infinite);
	const char *name;

	if (n > METRICS_READ_MAX)
		return false;
	ret->metrics = arena_alloc(arena, (n + 1) * sizeof(*ret->metrics));
	json_object_foreach(list, name, v)
	{
		struct metric_value *m = &ret->metrics[ret->n_metrics];

		m->name = facts_read_text(name, arena);
		m->value = json_number_value(v);
		if (!m->name || !json_is_number(v))
			return false;
		ret->n_metrics++;
	}
	json_object_foreach(infinite, name, v)
	{
		struct metric_value *m = &ret->metrics[ret->n_metrics];

		m->name = facts_read_text(name, arena);
		m->value = json_integer_value(v) < 0 ? -INFINITY : INFINITY;
		if (!m->name || !json_is_integer(v))
			return false;
		ret->n_metrics++;
	}
	qsort(ret->metrics, ret->n_metrics, sizeof(*ret->metrics), by_metric_name);
	return true;
}

static bool read_class(const json_t *o, enum failure_class *ret)
{
	const char *name;

	if (json_get_str(o, "class", &name, NULL) < 0)
		return false;
	for (int c = 0; c < FAILURE_CLASSES; c++)
		if (str_eq(name, failure_class_name((enum failure_class)c))) {
			*ret = (enum failure_class)c;
			return true;
		}
	return false;
}

static bool read_numbers(const json_t *o, struct attempt_record *ret)
{
	struct attempt_row *a = &ret->row;
	int64_t number = 0, exit_status = 0, signo = 0;

	if (json_get_int(o, "id", &a->id, NULL) < 0 ||
	    json_get_int(o, "number", &number, NULL) < 0 ||
	    json_get_int(o, "started_ns", &a->started_ns, NULL) < 0 ||
	    json_get_int(o, "ended_ns", &a->ended_ns, NULL) < 0 ||
	    json_get_int(o, "exit_status", &exit_status, NULL) < 0 ||
	    json_get_int(o, "signal", &signo, NULL) < 0 || a->id < 1 || number < 1 ||
	    number > UINT32_MAX)
		return false;
	a->number = (uint32_t)number;
	a->exit_status = (int32_t)exit_status;
	a->signo = (int32_t)signo;
	/* The first manifests lack these. */
	json_get_uint(o, "max_rss_bytes", &a->max_rss_bytes, NULL);
	json_get_int(o, "cpu_ns", &a->cpu_ns, NULL);
	json_get_uint(o, "key_record", &ret->key_record_bytes, NULL);
	return true;
}

/* Read and written again, so that the database has only what this version knows. */
static bool read_approval(const json_t *o, struct arena *arena, const char **ret)
{
	const json_t *j = json_object_get(o, "approval");
	struct approval a;

	if (!j)
		return true;
	if (!approval_read(j, arena, &a))
		return false;
	*ret = approval_encode(&a, arena);
	return true;
}

static bool read_record(const json_t *o, struct arena *arena, struct attempt_record *ret)
{
	struct attempt_row *a = &ret->row;
	json_t *log = json_object_get(o, "log");
	const char *key = facts_get_text(o, "key", arena),
		   *result = facts_get_text(o, "result", arena);

	a->task = facts_get_text(o, "task", arena);
	a->step = facts_get_text(o, "step", arena);
	a->node = facts_get_text(o, "node", arena);
	a->message = facts_get_text(o, "message", arena);
	a->reason = facts_get_text(o, "reason", arena);
	a->continues = facts_get_text(o, "continues", arena);
	a->image = facts_get_text(o, "image", arena);
	ret->has_result = result != NULL;
	ret->cacheable = str_eq(result, "cacheable");
	return a->task && a->step && key && digest_parse(key, &a->key, NULL) == 0 &&
	       read_class(o, &a->failure) && read_numbers(o, ret) &&
	       read_approval(o, arena, &a->approval) &&
	       (json_is_null(log) || json_is_object(log) || read_id(log, &a->log)) &&
	       read_contents(o, "inputs", arena, &ret->inputs, &ret->n_inputs) &&
	       read_contents(o, "outputs", arena, &ret->outputs, &ret->n_outputs) &&
	       read_metrics(o, arena, ret);
}

int attempt_record_decode(const char *line, size_t n, struct arena *arena,
			  struct attempt_record *ret, struct err *err)
{
	struct err why = { 0 };
	json_t *o;
	bool good;

	*ret = (struct attempt_record){ 0 };
	if (json_parse("attempts of a run", line, n, &o, &why) < 0)
		return err_set(err, ERR_INVALID, "%s", why.msg);
	good = json_is_object(o) && read_record(o, arena, ret);
	json_decref(o);
	return good ? 0
		    : err_set(err, ERR_INVALID,
			      "the record of an attempt is not one that this cairn can read");
}
