/* storage/checkpoint.c — checkpoints as action records in two slots.
 *
 * The record's key is made of the task's key and the node's index, its output is the tree, and its
 * metrics are a note in JSON with epoch, sequence and attempts. The two slots are the first record
 * and the first observation of that key. So all code for action records (gc, verify, push, pull)
 * works on checkpoints too.
 *
 * checkpoint_save() finds the newest record, stops if its epoch is higher, and overwrites the other
 * slot. The content arrives before the record does (arrived()). A record that is damaged, not
 * believed, or whose tree is incomplete counts as absent. Each call refreshes the records first,
 * because other machines write them.
 */
#include "storage/checkpoint.h"
#include <assert.h>
#include <string.h>
#include "base/text/json.h"
#include "storage/internal.h"

#define SLOTS    2
#define NOTE_MAX (256 * KIB)
/* Nodes whose records are read in one batch. */
#define AT_ONCE 16

static void record_key(const struct digest *key, unsigned index, struct digest *ret)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	str_add_field(&text, "checkpoint", 10);
	str_addn(&text, key->b, DIGEST_BYTES);
	str_add_u32(&text, index);
	digest_bytes(text.s, text.len, ret);
}

static void slot_name(const struct digest *key, unsigned index, unsigned slot, struct digest *ret)
{
	struct digest record;

	record_key(key, index, &record);
	*ret = record;
	if (slot)
		action_observation_name(&record, slot, ret);
}

bool checkpoint_is_record(const struct action_record *a)
{
	return a->n_outputs == 1 && strcmp(a->outputs[0].name, CHECKPOINT_OUTPUT) == 0;
}

/* Reading. */

static int read_note(struct store *s, const struct action_record *a, struct arena *arena,
		     struct checkpoint *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	_cleanup_(json_decrefp) json_t *note = NULL;
	uint64_t index;
	const char *attempts;

	if (!content_is_file(&a->metrics) ||
	    content_read(s, &a->metrics, NOTE_MAX, &text, err) < 0 ||
	    json_parse("the note of a checkpoint", text.s ? text.s : "", text.len, &note, err) <
		    0 ||
	    json_get_uint(note, "epoch", &ret->epoch, err) < 0 ||
	    json_get_uint(note, "sequence", &ret->sequence, err) < 0 ||
	    json_get_uint(note, "index", &index, err) < 0 ||
	    json_get_str(note, "attempts", &attempts, err) < 0)
		return -1;
	ret->index = (unsigned)index;
	ret->attempts = arena_strdup(arena, attempts);
	return 0;
}

/* 1: the slot holds nothing usable. A record that is damaged, or whose content is gone, counts as
 * absent. `node`: its key and index say which to read. */
static int read_slot(struct store *s, const struct checkpoint *node, unsigned slot,
		     struct arena *arena, struct checkpoint *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct checkpoint c = { .key = node->key };
	struct action_record a;
	struct err e = { 0 };
	struct digest name, record;
	bool whole = false;

	slot_name(&node->key, node->index, slot, &name);
	record_key(&node->key, node->index, &record);
	if (store_get(s, STORE_ACTION, &name, ACTION_RECORD_MAX, &bytes, &e) < 0)
		return e.code == ERR_NOT_FOUND ? 1 : err_pass(err, &e);
	if (action_decode(bytes.s ? bytes.s : "", bytes.len, arena, &a, NULL) < 0 ||
	    !digest_eq(&a.key, &record) || !checkpoint_is_record(&a) ||
	    a.outputs[0].id.kind != CONTENT_TREE ||
	    action_believe(s, &name, bytes.s, bytes.len, &a, NULL) < 0)
		return 1;
	if (read_note(s, &a, arena, &c, &e) < 0)
		return e.code == ERR_IO ? err_pass(err, &e) : 1;
	if (content_complete(s, &a.outputs[0].id, 1, &whole, err) < 0)
		return -1;
	c.tree = a.outputs[0].id;
	c.run_id = a.run_id;
	c.task = a.task;
	c.node = a.node;
	c.saved_ns = a.ended_ns;
	c.index = node->index;
	*ret = c;
	return whole ? 0 : 1;
}

/* Finds the newest checkpoint of the node that *ret names by key and index. Returns its slot, or
 * -1. */
static int newest_of(struct store *s, struct checkpoint *ret, struct arena *arena, struct err *err)
{
	int newest = SLOTS - 1; /* so the first save goes to slot 0 */

	for (int slot = 0; slot < SLOTS; slot++) {
		struct checkpoint c;
		int r = read_slot(s, ret, (unsigned)slot, arena, &c, err);

		if (r < 0)
			return -1;
		if (r == 0 && (ret->tree.kind == CONTENT_NONE || c.epoch > ret->epoch ||
			       (c.epoch == ret->epoch && c.sequence > ret->sequence))) {
			*ret = c;
			newest = slot;
		}
	}
	return newest;
}

static int refresh(struct store *s, const struct digest *key, unsigned first, unsigned n,
		   struct err *err)
{
	_cleanup_(freep) struct digest *names = xcalloc((size_t)n * SLOTS, sizeof(*names));

	for (unsigned i = 0; i < n * SLOTS; i++)
		slot_name(key, first + i / SLOTS, i % SLOTS, &names[i]);
	return store_refresh(s, STORE_ACTION, names, (size_t)n * SLOTS, err);
}

int checkpoint_newest(struct store *s, const struct digest *key, unsigned n, struct arena *arena,
		      struct checkpoint *ret, struct err *err)
{
	assert(n > 0);
	if (refresh(s, key, 0, n, err) < 0)
		return err_wrap(err, "looking for a checkpoint");
	for (unsigned i = 0; i < n; i++) {
		ret[i] = (struct checkpoint){ .key = *key, .index = i };
		if (newest_of(s, &ret[i], arena, err) < 0)
			return err_wrap(err, "looking for a checkpoint");
	}
	return 0;
}

/* Writing. */

static int arrived(struct store *s, struct err *err)
{
	struct err why = { 0 };

	if (store_sync(s, err) < 0)
		return -1;
	return store_unsent(s, &why) ? err_set(err, why.code ? why.code : ERR_IO, "%s", why.msg)
				     : 0;
}

static int put_record(struct store *s, const struct checkpoint *c, unsigned slot, struct err *err)
{
	_cleanup_(json_decrefp) json_t *note = json_pack(
		"{s:I, s:I, s:I, s:s}", "epoch", (json_int_t)c->epoch, "sequence",
		(json_int_t)c->sequence, "index", (json_int_t)c->index, "attempts", c->attempts);
	struct action_output output = { CHECKPOINT_OUTPUT, c->tree };
	struct action_record a = { .outputs = &output,
				   .n_outputs = 1,
				   .started_ns = c->saved_ns,
				   .ended_ns = c->saved_ns,
				   .run_id = c->run_id,
				   .task = c->task,
				   .node = c->node };
	_cleanup_(str_deinit) struct str text = { 0 }, bytes = { 0 };
	struct digest name;

	record_key(&c->key, c->index, &a.key);
	json_add_canonical(&text, note);
	if (content_put_bytes(s, text.s, text.len, &a.metrics, err) < 0 ||
	    arrived(s, err) < 0) /* a record must never name content that isn't durable */
		return -1;
	action_encode_signed(s, &a, &bytes);
	slot_name(&c->key, c->index, slot, &name);
	if (s->ops->put(s, STORE_ACTION, &name, bytes.s, bytes.len, true, err) < 0)
		return -1;
	return arrived(s, err);
}

int checkpoint_save(struct store *s, const struct checkpoint *c, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct checkpoint there = { .key = c->key, .index = c->index };
	int slot;

	assert(c->tree.kind == CONTENT_TREE && c->attempts);
	if (refresh(s, &c->key, c->index, 1, err) < 0 ||
	    (slot = newest_of(s, &there, arena, err)) < 0)
		return err_wrap(err, "saving a checkpoint");
	if (there.epoch > c->epoch)
		return 1;
	return put_record(s, c, ((unsigned)slot + 1) % SLOTS, err) < 0
		       ? err_wrap(err, "saving a checkpoint")
		       : 0;
}

/* The number of nodes isn't known, so this continues until a whole batch of nodes has no record. */
int checkpoint_forget(struct store *s, const struct digest *key, struct err *err)
{
	bool any = true;

	for (unsigned first = 0; any; first += AT_ONCE) {
		any = false;
		if (refresh(s, key, first, AT_ONCE, err) < 0)
			return err_wrap(err, "dropping a checkpoint");
		for (unsigned i = 0; i < AT_ONCE * SLOTS; i++) {
			struct digest name;
			bool there;

			slot_name(key, first + i / SLOTS, i % SLOTS, &name);
			if (store_has_object(s, STORE_ACTION, &name, UINT64_MAX, &there, err) < 0 ||
			    (there && store_drop(s, STORE_ACTION, &name, err) < 0))
				return err_wrap(err, "dropping a checkpoint");
			any |= there;
		}
	}
	return 0;
}
