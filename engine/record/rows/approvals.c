/* engine/record/rows/approvals.c — questions to people and their answers, in the rows of attempts.
 *
 * The column `approval` of an attempt holds one JSON object. Every change reads it, changes the
 * struct, and writes it back in one transaction, and only while it has no answer: so of several
 * people, and of a person and the time limit, exactly one answers. Invariant: an answer is never
 * changed. Threads: the thread of the handle. Not here: who a person is (cli/, serve/), what
 * follows from an answer (run/approve.c).
 */
#include "record/rows/approvals.h"
#include <assert.h>
#include "base/text/text.h"
#include "record/facts.h"
#include "record/rows/rows.h"

static const char *const answers[] = {
	[APPROVAL_APPROVED] = "approved", [APPROVAL_REFUSED] = "refused"
};

/* As JSON. */

static json_t *approval_json(const struct approval *a)
{
	json_t *o = json_object(), *by = json_array();

	for (size_t i = 0; i < a->n_by; i++)
		json_array_append_new(by, facts_text(a->by[i]));
	json_object_set_new(o, "message", facts_text(a->message));
	json_object_set_new(o, "by", by);
	json_object_set_new(o, "until", facts_time(a->until_ns));
	json_object_set_new(o, "at_limit", json_string(a->at_limit ? "approve" : "refuse"));
	json_object_set_new(o, "answer", facts_text(answers[a->answer]));
	json_object_set_new(o, "who", facts_text(a->who));
	json_object_set_new(o, "way", facts_text(a->way));
	json_object_set_new(o, "at", facts_time(a->at_ns));
	json_object_set_new(o, "said", facts_text(a->said));
	return o;
}

const char *approval_encode(const struct approval *a, struct arena *arena)
{
	_cleanup_(json_decrefp) json_t *j = approval_json(a);
	_cleanup_(str_deinit) struct str out = { 0 };

	json_add_canonical(&out, j);
	return arena_strndup(arena, out.s, out.len);
}

static bool read_time(const json_t *j, const char *key, int64_t *ret)
{
	const json_t *v = json_object_get(j, key);

	return json_is_null(v) ||
	       (json_is_string(v) && text_parse_time(json_string_value(v), ret, NULL) == 0);
}

bool approval_read(const json_t *j, struct arena *arena, struct approval *ret)
{
	const json_t *by = json_object_get(j, "by"), *answer = json_object_get(j, "answer");
	const char **names = arena_alloc(arena, (json_array_size(by) + 1) * sizeof(*names));

	*ret = (struct approval){
		.message = facts_get_text(j, "message", arena),
		.by = names,
		.at_limit = str_eq(json_string_value(json_object_get(j, "at_limit")), "approve"),
		.who = facts_get_text(j, "who", arena),
		.way = facts_get_text(j, "way", arena),
		.said = facts_get_text(j, "said", arena)
	};
	if (!json_is_array(by) || json_array_size(by) > APPROVAL_BY_MAX)
		return false;
	for (size_t i = 0; i < json_array_size(by); i++) {
		const char *name = json_string_value(json_array_get(by, i));

		names[i] = name ? facts_read_text(name, arena) : NULL;
		if (!names[i]) /* a list that can't be read must not become "everybody" */
			return false;
	}
	ret->n_by = json_array_size(by);
	for (int i = APPROVAL_APPROVED; i <= APPROVAL_REFUSED; i++)
		if (str_eq(json_string_value(answer), answers[i]))
			ret->answer = (enum approval_answer)i;
	return (json_is_null(answer) || ret->answer) && read_time(j, "until", &ret->until_ns) &&
	       read_time(j, "at", &ret->at_ns);
}

bool approval_parse(const char *text, struct arena *arena, struct approval *ret)
{
	_cleanup_(json_decrefp) json_t *j = text ? json_loads(text, 0, NULL) : NULL;

	return json_is_object(j) && approval_read(j, arena, ret);
}

const char *approval_text(const struct approval *a, struct arena *arena)
{
	if (a->answer == APPROVAL_OPEN)
		return NULL;
	if (!a->who)
		return arena_printf(arena, "%s: nobody answered within its time limit",
				    answers[a->answer]);
	return arena_printf(arena, "%s by %s%s%s", answers[a->answer], a->who, a->said ? ": " : "",
			    a->said ? a->said : "");
}

static bool approval_may(const struct approval *a, const char *who)
{
	const size_t n = who ? strcspn(who, "@") : 0;

	for (size_t i = 0; i < a->n_by; i++)
		if (str_eq(a->by[i], who) ||
		    (who && strlen(a->by[i]) == n && memcmp(a->by[i], who, n) == 0))
			return true;
	return a->n_by == 0;
}

/* Rows. */

int record_approval_ask(struct db *db, int64_t attempt, const char *approval, const char *waiting,
			struct err *err)
{
	return db_do(db, "UPDATE attempt SET approval = ?, waiting = ? WHERE id = ?",
		     DB_IN(approval, waiting, attempt), err);
}

static int unreadable(int64_t attempt, struct err *err)
{
	return err_set(err, ERR_CORRUPT, "what attempt %lld asks can't be read",
		       (long long)attempt);
}

int record_approval(struct db *db, int64_t attempt, struct arena *arena, struct approval *ret,
		    struct err *err)
{
	const char *text = NULL;
	int r = db_get(db, "SELECT approval FROM attempt WHERE id = ?", DB_IN(attempt), arena,
		       DB_OUT(&text), err);

	if (r <= 0 || !text)
		return MIN(r, 0);
	return approval_parse(text, arena, ret) ? 1 : unreadable(attempt, err);
}

int record_approvals_open(struct db *db, int64_t run, struct arena *arena, struct attempt_row **ret,
			  size_t *ret_n, struct err *err)
{
	return db_get_rows(db,
			   "SELECT " ATTEMPT_COLUMNS
			   " FROM attempt WHERE run = ? AND approval IS NOT NULL AND ended_ns = 0 "
			   "ORDER BY id",
			   DB_IN(run), arena, &attempt_of_columns, ret, ret_n, err);
}

static int write_answer(struct db *db, int64_t attempt, const struct approval *a,
			struct arena *arena, struct err *err)
{
	assert(a->answer != APPROVAL_OPEN);
	return db_do(db, "UPDATE attempt SET approval = ? WHERE id = ?",
		     DB_IN(approval_encode(a, arena), attempt), err);
}

int record_approval_end(struct db *db, int64_t attempt, int64_t now_ns, struct arena *arena,
			struct approval *ret, struct err *err)
{
	int r = record_approval(db, attempt, arena, ret, err);

	if (r <= 0 || ret->answer != APPROVAL_OPEN)
		return r < 0 ? -1 : 0;
	ret->answer = ret->at_limit ? APPROVAL_APPROVED : APPROVAL_REFUSED;
	ret->way = "time limit";
	ret->at_ns = now_ns;
	return write_answer(db, attempt, ret, arena, err) < 0 ? -1 : 1;
}

static bool is_open(const struct attempt_row *v, struct arena *arena)
{
	struct approval a;

	return v->ended_ns == 0 && approval_parse(v->approval, arena, &a) &&
	       a.answer == APPROVAL_OPEN;
}

/* The question that `task` means: the newest of that task, else the only open one of that step,
 * else the newest of that step. Each task of a fan-out has a question of its own. */
static int find(struct db *db, const struct run_row *run, const char *task, struct arena *arena,
		struct attempt_row *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str all = { 0 }, of_step = { 0 };
	const struct attempt_row *named = NULL, *open = NULL, *newest = NULL;
	struct attempt_row *v;
	size_t n, n_open = 0;

	if (db_get_rows(db,
			"SELECT " ATTEMPT_COLUMNS
			" FROM attempt WHERE run = ? AND approval IS NOT NULL ORDER BY id",
			DB_IN(run->rowid), arena, &attempt_of_columns, &v, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const bool waits = is_open(&v[i], arena);

		if (waits)
			str_addf(&all, "%s%s", all.len ? ", " : "", v[i].task);
		if (str_eq(v[i].task, task))
			named = &v[i];
		if (!str_eq(v[i].step, task))
			continue;
		newest = &v[i];
		if (!waits)
			continue;
		open = &v[i];
		str_addf(&of_step, "%s%s", n_open++ ? ", " : "", v[i].task);
	}
	if (!named && n_open > 1)
		return err_set(err, ERR_NOT_FOUND,
			       "several tasks of `%s` wait for approval: name one (%.1000s)", task,
			       of_step.s);
	named = named ? named : open ? open : newest;
	if (!named)
		return err_set(err, ERR_NOT_FOUND,
			       "`%.200s` of run %s doesn't wait for approval%s%.1000s", task,
			       run->id, all.len ? "; what does: " : "", all.len ? all.s : "");
	*ret = *named;
	return 0;
}

static int give(struct db *db, const struct run_row *run, const struct approval_given *g,
		struct arena *arena, struct attempt_row *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str names = { 0 };
	struct approval a;

	if (find(db, run, g->task, arena, ret, err) < 0)
		return -1;
	if (!approval_parse(ret->approval, arena, &a))
		return unreadable(ret->id, err);
	if (a.answer != APPROVAL_OPEN)
		return err_set(err, ERR_EXISTS, "%s of run %s has its answer: %s", ret->task,
			       run->id, approval_text(&a, arena));
	if (ret->ended_ns || (run->state != RUN_RUNNING && run->state != RUN_INTERRUPTED))
		return err_set(err, ERR_EXISTS,
			       "%s of run %s doesn't wait for approval any more: the run is %s",
			       ret->task, run->id, run_state_name(run->state));
	for (size_t i = 0; i < a.n_by; i++)
		str_addf(&names, "%s%s", i ? ", " : "", a.by[i]);
	if (!approval_may(&a, g->who))
		return err_set(err, ERR_INVALID, "%s may not answer for %s: that may %.1000s",
			       g->who, ret->task, names.s);
	if (a.until_ns && g->at_ns >= a.until_ns)
		return err_set(err, ERR_EXISTS, "the time limit of %s is over: it counts as %s",
			       ret->task,
			       answers[a.at_limit ? APPROVAL_APPROVED : APPROVAL_REFUSED]);
	a.answer = g->approved ? APPROVAL_APPROVED : APPROVAL_REFUSED;
	a.who = g->who;
	a.way = g->way;
	a.said = g->said && *g->said ? g->said : NULL;
	a.at_ns = g->at_ns;
	if (write_answer(db, ret->id, &a, arena, err) < 0)
		return -1;
	ret->approval = approval_encode(&a, arena);
	return 0;
}

int record_approval_give(struct db *db, const struct run_row *run, const struct approval_given *g,
			 struct arena *arena, struct attempt_row *ret, struct err *err)
{
	struct run_row now;
	int r;

	assert(g->task && g->who && g->way && g->at_ns);
	if (g->said && strlen(g->said) > APPROVAL_TEXT_MAX)
		return err_set(err, ERR_INVALID, "a message has at most %d bytes",
			       APPROVAL_TEXT_MAX);
	if (db_begin(db, err) < 0)
		return -1;
	r = record_run_by_id(db, run->id, arena, &now, err);
	if (r == 0)
		r = err_set(err, ERR_NOT_FOUND, "run %s is not on record any more", run->id);
	else if (r > 0)
		r = give(db, &now, g, arena, ret, err);
	return db_finish(db, r, err);
}
