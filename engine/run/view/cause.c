/* engine/run/view/cause.c — why two runs differ.
 *
 * causes_open() indexes both sides: tasks by name, outputs by content, attempts by task. A task is
 * explained when it is first asked for, and the answer is kept in `explained`.
 *
 * Explaining a task compares its two key records fact by fact (compare_keys()). A fact that isn't
 * an input is a cause by itself. For an input, trace_input() compares what the two attempts read:
 * content that differs was made by a task of the run (CAUSE_MADE), or pinned when the run began
 * (CAUSE_PINNED); where neither is known, the input itself is the cause. The same key with other
 * results is nondeterminism.
 *
 * by_root() sorts causes where a difference begins before those that come from another task.
 * causes_sentence() prints such roots; when there are none, it follows the first CAUSE_MADE upward,
 * at most CHAIN_MAX steps.
 *
 * Invariants: a producer that is found by its bytes stands before its reader in the order of tasks,
 * so that a step that only copies isn't named as the source of its own input. A missing key record
 * is CAUSE_UNKNOWN, never an error. Without a store everything works except the names of differing
 * files.
 *
 * Threads: one. What it doesn't do: choose the tasks that are explained (cli/past/cmd_diff.c).
 */
#include "run/view/cause.h"
#include <assert.h>
#include "base/compare.h"
#include "base/text/text.h"
#include "model/expr/value.h"
#include "plan/key/difference.h"

#define VALUE_SHOWN  80
#define CHAIN_MAX    12 /* steps upward that a sentence follows */
#define CAUSES_SHOWN 3

struct producer {
	const struct facts_task *task;
	const char *output;
};

static const char *cause_kind_name(enum cause_kind k)
{
	static const char *const names[] = { "fact",    "made",   "pinned", "nondeterminism",
					     "outcome", "absent", "unknown" };

	assert(k < ARRAY_LEN(names));
	return names[k];
}

static const char *printable(struct arena *arena, const char *text)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	if (!text)
		return "-";
	text_add_printable(&s, text, strlen(text));
	return s.len ? arena_strndup(arena, s.s, s.len) : "";
}

#define HASH_SHOWN 12

/* The two sides. */

static int open_side(struct causes *c, struct cause_side *s, struct err *err)
{
	struct attempt_row *attempts;
	size_t n;

	s->by_name = map_new();
	s->by_content = map_new();
	s->attempts = map_new();
	for (size_t i = 0; i < s->n_tasks; i++) {
		*map_slot_str(s->by_name, s->tasks[i].task) = &s->tasks[i];
		for (size_t k = 0; k < s->tasks[i].n_outputs; k++) {
			bool is_new;
			void **slot = map_slot(s->by_content, s->tasks[i].outputs[k].id.digest.b,
					       DIGEST_BYTES, &is_new);
			struct producer m = { &s->tasks[i], s->tasks[i].outputs[k].name };

			if (is_new)
				*slot = arena_memdup(c->arena, &m, sizeof(m));
		}
	}
	if (record_run_attempts(c->db, s->run.rowid, c->arena, &attempts, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		*map_slot_str(s->attempts, attempts[i].task) = &attempts[i];
	return 0;
}

int causes_open(struct causes *c, struct arena *arena, struct db *db, struct store *store,
		struct cause_side *a, struct cause_side *b, struct err *err)
{
	assert(a != b && !a->by_name && !b->by_name);
	*c = (struct causes){
		.arena = arena, .db = db, .store = store, .a = a, .b = b, .explained = map_new()
	};
	return open_side(c, a, err) < 0 ? -1 : open_side(c, b, err);
}

void causes_close(struct causes *c)
{
	struct cause_side *sides[] = { c->a, c->b };

	for (size_t i = 0; i < 2 && c->explained; i++) {
		map_free(sides[i]->by_name);
		map_free(sides[i]->by_content);
		map_free(sides[i]->attempts);
	}
	map_free(c->explained);
}

/* What a task read. */

/* What the task's attempt read; for a hit, what the attempt read that made the result. */
static int inputs_of(struct causes *c, struct cause_side *s, const struct facts_task *t,
		     struct named_content **ret, size_t *ret_n, struct err *err)
{
	const struct attempt_row *a = map_get_str(s->attempts, t->task);
	struct cached_result hit = { 0 };

	*ret_n = 0;
	if (!a && record_lookup(c->db, &t->key, c->arena, &hit, err) < 0)
		return -1;
	return a || hit.attempt
		       ? record_inputs(c->db, a ? a->id : hit.attempt, c->arena, ret, ret_n, err)
		       : 0;
}

/* Whether the row belongs to the input. "data" belongs to `data`; where there are parts,
 * "data:(whole)" and "data:train[fold=0]" belong to it instead. */
static bool belongs(const char *row, const char *input, bool parts)
{
	size_t n = strlen(input);

	return strncmp(row, input, n) == 0 && row[n] == (parts ? ':' : '\0');
}

static bool has_parts(const struct named_content *v, size_t n, const char *input)
{
	for (size_t i = 0; i < n; i++)
		if (belongs(v[i].name, input, true))
			return true;
	return false;
}

static const struct content_id *same_row(const struct named_content *v, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(v[i].name, name))
			return &v[i].id;
	return NULL;
}

typedef VEC(struct cause) cause_list;

struct comparing {
	struct causes *c;
	const struct facts_task *a, *b;
	const struct named_content *in_a, *in_b;
	size_t n_a, n_b;
	cause_list *list;
};

static const char *short_id(struct causes *c, const struct content_id *id)
{
	char hex[DIGEST_HEX_MAX];

	return id ? arena_printf(c->arena, "sha256:%.*s", HASH_SHOWN, digest_hex(&id->digest, hex))
		  : NULL;
}

/* The first file in which two trees differ; NULL: the same, or no store. */
static const char *first_difference(struct causes *c, const struct content_id *a,
				    const struct content_id *b)
{
	_cleanup_(str_deinit) struct str where = { 0 };

	if (c->store)
		tree_first_difference(c->store, a, b, &where);
	return where.len ? arena_strndup(c->arena, where.s, where.len) : NULL;
}

/* The producer of a row's content. A part of a gathered directory names it: "data:train[fold=0]".
 * Otherwise it is the first task that gave these bytes, if it stands before the reader: a step that
 * only copies gives bytes that it read. */
static const struct producer *maker_of(struct causes *c, const struct cause_side *s,
				       const struct named_content *row,
				       const struct facts_task *reader)
{
	const char *colon = strchr(row->name, ':');
	const struct facts_task *named = colon ? map_get_str(s->by_name, colon + 1) : NULL;
	const struct producer *m = map_get(s->by_content, row->id.digest.b, DIGEST_BYTES);
	struct producer exact;

	for (size_t i = 0; named && i < named->n_outputs; i++)
		if (content_id_eq(&named->outputs[i].id, &row->id)) {
			exact = (struct producer){ named, named->outputs[i].name };
			return arena_memdup(c->arena, &exact, sizeof(exact));
		}
	return m && m->task < reader ? m : NULL;
}

/* Finds where a content came from that only this side read, or whose row differs on the other
 * side. */
static void trace(const struct comparing *cmp, bool is_a, const struct named_content *row,
		  const struct content_id *other)
{
	struct causes *c = cmp->c;
	const struct cause_side *s = is_a ? c->a : c->b;
	const struct content_id *a = is_a ? &row->id : other, *b = is_a ? other : &row->id;
	const struct producer *m = maker_of(c, s, row, is_a ? cmp->a : cmp->b);
	struct cause cause = { .what = "input", .a = short_id(c, a), .b = short_id(c, b) };

	if (m) {
		cause.kind = CAUSE_MADE;
		cause.task = m->task;
		cause.name = arena_printf(c->arena, "%s/%s", m->task->task, m->output);
	} else {
		cause.kind = CAUSE_PINNED;
		for (size_t i = 0; i < s->n_pins && !cause.name; i++)
			if (str_has_prefix(s->pins[i].name, "input:") &&
			    content_id_eq(&s->pins[i].id, &row->id))
				cause.name = s->pins[i].name + strlen("input:");
	}
	if (!cause.name)
		return;
	if (other)
		cause.detail = first_difference(c, a, b);
	for (size_t i = 0; i < cmp->list->n; i++)
		if (cmp->list->v[i].kind == cause.kind && str_eq(cmp->list->v[i].name, cause.name))
			return;
	VEC_PUSH(cmp->list, cause);
}

/* Traces everything that was read for `input` and differs between the sides. Members of a list are
 * named by the whole that they are taken from, gathered directories by their parts. Rows that are
 * neither an output of a task nor an input of the pipeline are skipped. */
static void trace_input(const struct comparing *cmp, const char *input)
{
	const struct named_content *a = cmp->in_a, *b = cmp->in_b;
	size_t n_a = cmp->n_a, n_b = cmp->n_b, before = cmp->list->n;
	bool parts = has_parts(a, n_a, input) || has_parts(b, n_b, input);

	for (size_t i = 0; i < n_a; i++) {
		const struct content_id *other = same_row(b, n_b, a[i].name);

		if (belongs(a[i].name, input, parts) && (!other || !content_id_eq(other, &a[i].id)))
			trace(cmp, true, &a[i], other);
	}
	for (size_t i = 0; i < n_b; i++)
		if (belongs(b[i].name, input, parts) && !same_row(a, n_a, b[i].name))
			trace(cmp, false, &b[i], NULL);
	if (cmp->list->n == before)
		VEC_PUSH(cmp->list,
			 ((struct cause){ .kind = CAUSE_FACT, .what = "input", .name = input }));
}

/* Key records. */

static const char *value_text(struct causes *c, const struct key_fact *f)
{
	_cleanup_(str_deinit) struct str s = { 0 }, shown = { 0 };

	if (!f)
		return NULL;
	if (f->kind == KEY_PARAM || f->kind == KEY_SEED)
		value_canonical_text(f->value, f->value_len, &s);
	else
		str_addn(&s, f->value, MIN(strcspn(f->value, "\n"), f->value_len));
	text_add_printable(&shown, s.s ? s.s : "", MIN(s.len, VALUE_SHOWN));
	if (s.len > VALUE_SHOWN)
		str_add(&shown, "…");
	return arena_strndup(c->arena, shown.s ? shown.s : "", shown.len);
}

static void compare_fact(void *arg, const struct key_fact *was, const struct key_fact *now)
{
	struct comparing *cmp = arg;
	const struct key_fact *f = was ? was : now;
	struct cause cause = { .kind = CAUSE_FACT, .what = key_fact_kind_name(f->kind) };
	struct content_id a, b;
	const char *path;

	cause.name = arena_strndup(cmp->c->arena, f->name, f->name_len);
	if (f->kind == KEY_INPUT) {
		trace_input(cmp, cause.name);
		return;
	}
	if (f->kind == KEY_CODE && was && now && key_fact_content(was, &path, &a) &&
	    key_fact_content(now, &path, &b)) {
		cause.a = short_id(cmp->c, &a);
		cause.b = short_id(cmp->c, &b);
		cause.detail = first_difference(cmp->c, &a, &b);
	} else if (f->kind != KEY_CODE && f->kind != KEY_SCRIPT) {
		cause.a = value_text(cmp->c, was);
		cause.b = value_text(cmp->c, now);
	}
	VEC_PUSH(cmp->list, cause);
}

static int compare_keys(struct causes *c, const struct facts_task *a, const struct facts_task *b,
			cause_list *list, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes_a = { 0 }, bytes_b = { 0 };
	_cleanup_(freep) struct key_fact *facts_a = NULL, *facts_b = NULL;
	struct comparing cmp = { .c = c, .a = a, .b = b, .list = list };
	struct named_content *in_a = NULL, *in_b = NULL;
	size_t n_a, n_b;

	if (record_key_bytes(c->db, &a->key, &bytes_a, NULL) < 0 ||
	    record_key_bytes(c->db, &b->key, &bytes_b, NULL) < 0 ||
	    key_record_decode(bytes_a.s, bytes_a.len, &facts_a, &n_a, NULL) < 0 ||
	    key_record_decode(bytes_b.s, bytes_b.len, &facts_b, &n_b, NULL) < 0) {
		VEC_PUSH(list,
			 ((struct cause){ .kind = CAUSE_UNKNOWN, .what = "key", .name = a->task }));
		return 0;
	}
	if (inputs_of(c, c->a, a, &in_a, &cmp.n_a, err) < 0 ||
	    inputs_of(c, c->b, b, &in_b, &cmp.n_b, err) < 0)
		return -1;
	cmp.in_a = in_a;
	cmp.in_b = in_b;
	key_differences(facts_a, n_a, facts_b, n_b, compare_fact, &cmp);
	return 0;
}

/* A task. */

/* A task that was blocked or skipped has no key: the state of its needs explains it. */
static int explain(struct causes *c, const char *task, cause_list *list, struct err *err)
{
	const struct facts_task *a = map_get_str(c->a->by_name, task),
				*b = map_get_str(c->b->by_name, task);
	struct cause outcomes = { .kind = CAUSE_OUTCOME, .what = "task", .name = task };
	static const struct digest no_key;

	if (!a || !b) {
		VEC_PUSH(list, ((struct cause){ .kind = CAUSE_ABSENT,
						.what = "task",
						.name = task,
						.a = a ? "there" : NULL,
						.b = b ? "there" : NULL }));
		return 0;
	}
	outcomes.a = facts_result_state(a->state);
	outcomes.b = facts_result_state(b->state);
	if (!digest_eq(&a->key, &no_key) && !digest_eq(&b->key, &no_key) &&
	    !digest_eq(&a->key, &b->key) && compare_keys(c, a, b, list, err) < 0)
		return -1;
	if (a->state != b->state)
		VEC_PUSH(list, outcomes);
	else if (list->n == 0)
		VEC_PUSH(list,
			 ((struct cause){
				 .kind = CAUSE_NONDETERMINISM, .what = "task", .name = task }));
	return 0;
}

/* Causes where a difference begins come before those that other tasks passed on. */
static int by_root(const void *pa, const void *pb)
{
	const struct cause *a = pa, *b = pb;

	return (a->kind == CAUSE_MADE) - (b->kind == CAUSE_MADE);
}

static int causes_of(struct causes *c, const char *task, const struct explanation **ret,
		     struct err *err)
{
	bool is_new;
	void **slot = map_slot(c->explained, task, strlen(task), &is_new);
	struct explanation *e;
	cause_list list = { 0 };
	int r = 0;

	if (is_new) {
		e = arena_alloc(c->arena, sizeof(*e));
		*slot = e;
		r = explain(c, task, &list, err);
		if (list.n > 1)
			qsort(list.v, list.n, sizeof(*list.v), by_root);
		VEC_TO_ARENA(&list, c->arena, &e->v, &e->n);
	}
	*ret = map_get_str(c->explained, task);
	return r;
}

/* As text. */

const char *cause_text(struct arena *arena, const struct cause *c)
{
	const char *name = printable(arena, c->name),
		   *at = c->detail ? arena_printf(arena, ": %s", printable(arena, c->detail)) : "";

	switch (c->kind) {
	case CAUSE_MADE:
		return name;
	case CAUSE_PINNED:
		return arena_printf(arena, "input %s changed%s", name, at);
	case CAUSE_NONDETERMINISM:
		return arena_printf(arena, "%s is not deterministic: the same key gave other bytes",
				    name);
	case CAUSE_OUTCOME:
		return arena_printf(arena, "%s %s → %s", name, c->a, c->b);
	case CAUSE_ABSENT:
		return arena_printf(arena, "task %s is only in the %s run", name,
				    c->a ? "first" : "second");
	case CAUSE_UNKNOWN:
		return arena_printf(
			arena, "the key of %s changed, but what it was made of is not on record",
			name);
	default:
		break;
	}
	if (!c->a && !c->b)
		return arena_printf(arena, "%s%s%s changed", c->what, *name ? " " : "", name);
	if (str_has_prefix(c->what, "code"))
		return arena_printf(arena, "code changed%s", at);
	return arena_printf(arena, "%s%s%s %s → %s", c->what, *name ? " " : "", name,
			    c->a ? c->a : "absent", c->b ? c->b : "absent");
}

static int add_sentence(struct causes *c, const char *task, unsigned depth, struct str *s,
			struct err *err)
{
	const struct explanation *e;
	size_t roots = 0;

	if (causes_of(c, task, &e, err) < 0)
		return -1;
	while (roots < e->n && e->v[roots].kind != CAUSE_MADE)
		roots++;
	for (size_t i = 0; i < roots && i < CAUSES_SHOWN; i++)
		str_addf(s, "%s%s", i ? " and " : "", cause_text(c->arena, &e->v[i]));
	if (roots > CAUSES_SHOWN)
		str_addf(s, " and %zu more", roots - CAUSES_SHOWN);
	/* Nothing began here: follow what other tasks passed on. The first of several stands for
	 * the rest. */
	if (roots)
		return 0;
	for (size_t i = 0; i < e->n && i < CAUSES_SHOWN; i++)
		str_addf(s, "%s%s", i ? ", " : "", cause_text(c->arena, &e->v[i]));
	if (e->n > CAUSES_SHOWN)
		str_addf(s, " and %zu more", e->n - CAUSES_SHOWN);
	str_addf(s, e->n > 1 ? " differ" : " differs");
	if (depth >= CHAIN_MAX || !e->v[0].task)
		return 0;
	str_add(s, " because ");
	return add_sentence(c, e->v[0].task->task, depth + 1, s, err);
}

static int causes_sentence(struct causes *c, const char *subject, const char *task,
			   const char **ret, struct err *err)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	str_addf(&s, "%s differs because ", printable(c->arena, subject));
	if (add_sentence(c, task, 0, &s, err) < 0)
		return -1;
	*ret = arena_strndup(c->arena, s.s, s.len);
	return 0;
}

/* As JSON. */

json_t *cause_json(const char *task, const struct cause *c)
{
	json_t *o = json_object();

	json_object_set_new(o, "task", facts_text(task));
	json_object_set_new(o, "kind", json_string(cause_kind_name(c->kind)));
	json_object_set_new(o, "what", facts_text(c->what));
	json_object_set_new(o, "name", facts_text(c->name));
	json_object_set_new(o, "a", facts_text(c->a));
	json_object_set_new(o, "b", facts_text(c->b));
	json_object_set_new(o, "detail", facts_text(c->detail));
	return o;
}

/* Whether the other task has this output, with the same content. */
static bool has_output(const struct facts_task *t, const struct named_content *o)
{
	for (size_t i = 0; t && i < t->n_outputs; i++)
		if (str_eq(t->outputs[i].name, o->name))
			return content_id_eq(&t->outputs[i].id, &o->id);
	return false;
}

static bool has_metric(const struct facts_task *t, const struct metric_value *m)
{
	for (size_t i = 0; t && i < t->n_metrics; i++)
		if (str_eq(t->metrics[i].name, m->name))
			return compare_same(t->metrics[i].value, m->value);
	return false;
}

static bool names_output(const struct facts_task *t, const char *name)
{
	for (size_t i = 0; t && i < t->n_outputs; i++)
		if (str_eq(t->outputs[i].name, name))
			return true;
	return false;
}

/* "train/model" or "train/model, train/log": the parts of the task that differ; NULL when none
 * does. */
static const char *differing(struct causes *c, const struct facts_task *a,
			     const struct facts_task *b)
{
	const struct facts_task *const sides[] = { a, b }, *t = a ? a : b;
	_cleanup_(str_deinit) struct str s = { 0 };

	for (size_t side = 0; side < 2; side++)
		for (size_t i = 0; sides[side] && i < sides[side]->n_outputs; i++) {
			const struct named_content *o = &sides[side]->outputs[i];

			if (!has_output(sides[!side], o) && !(side && names_output(a, o->name)))
				str_addf(&s, "%s%s/%s", s.len ? ", " : "", t->task, o->name);
		}
	for (size_t side = 0; s.len == 0 && side < 2; side++)
		for (size_t i = 0; s.len == 0 && sides[side] && i < sides[side]->n_metrics; i++)
			if (!has_metric(sides[!side], &sides[side]->metrics[i]))
				str_addf(&s, "%s@metric.%s", t->task, sides[side]->metrics[i].name);
	if (s.len == 0 && (!a || !b || a->state != b->state))
		str_add(&s, t->task);
	return s.len ? arena_strndup(c->arena, s.s, s.len) : NULL;
}

int causes_explain(struct causes *c, const struct facts_task *a, const struct facts_task *b,
		   json_t **ret, const struct explanation **ret_causes, struct err *err)
{
	const char *task = a ? a->task : b->task, *subject = differing(c, a, b), *sentence;
	const struct explanation *e;
	json_t *list;

	if (!subject)
		return 0;
	if (causes_of(c, task, &e, err) < 0 ||
	    causes_sentence(c, subject, task, &sentence, err) < 0)
		return -1;
	list = json_array();
	for (size_t i = 0; i < e->n; i++)
		json_array_append_new(list, cause_json(task, &e->v[i]));
	*ret = json_pack("{s:o, s:o, s:o, s:o}", "task", facts_text(task), "differs",
			 facts_text(subject), "sentence", facts_text(sentence), "causes", list);
	*ret_causes = e;
	return 1;
}
