/* storage/checkpoint: two machines and one bucket. */
#include <stdio.h>
#include "base/mem.h"
#include "base/time/clock.h"
#include "storage/checkpoint.h"
#include "unit.h"
#include "unit/storage/remote/machine.h"

#define NAME   "checkpoint"
#define BUCKET "mem-bucket://checkpoint/p"

static struct store *open_machine(void)
{
	return machine_open(BUCKET, STORE_READ_WRITE, NULL);
}

static struct digest the_key(void)
{
	struct digest d;

	digest_bytes("key", 3, &d);
	return d;
}

static struct checkpoint make(struct store *s, unsigned index, uint64_t epoch, uint64_t sequence,
			      const char *text)
{
	return (struct checkpoint){ .key = the_key(),
				    .index = index,
				    .epoch = epoch,
				    .sequence = sequence,
				    .tree = machine_put_model(s, text),
				    .attempts = "12 15",
				    .run_id = "r",
				    .task = "train",
				    .node = "n",
				    .saved_ns = 7 };
}

static void must_save(struct store *s, unsigned index, uint64_t epoch, uint64_t sequence,
		      const char *text, int want)
{
	struct checkpoint c = make(s, index, epoch, sequence, text);
	struct err err = { 0 };
	int r = checkpoint_save(s, &c, &err);

	if (r != want)
		fail_msg("%d: %s", r, err.msg);
}

/* The text of the newest, or "". */
static void must_find(struct store *s, unsigned index, const char *want, uint64_t sequence)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str text = { 0 };
	_cleanup_(tree_freep) struct tree *t = NULL;
	struct checkpoint c[4];
	struct digest key = the_key();
	struct err err = { 0 };

	if (checkpoint_newest(s, &key, 4, arena, c, &err) < 0)
		fail_msg("%s", err.msg);
	if (!*want) {
		assert_int_equal(c[index].tree.kind, CONTENT_NONE);
		return;
	}
	assert_int_equal(c[index].tree.kind, CONTENT_TREE);
	assert_int_equal(c[index].sequence, sequence);
	assert_string_equal(c[index].attempts, "12 15");
	assert_int_equal(tree_load(s, &c[index].tree, &t, NULL), 0);
	assert_int_equal(content_read(s, &tree_at(t, 0)->id, 100, &text, NULL), 0);
	assert_string_equal(text.s, want);
}

static void the_newest_counts_wherever_it_was_saved(void **state)
{
	struct store *a = open_machine(), *b = open_machine();

	must_find(b, 0, "", 0);
	must_save(a, 0, 1, 1, "one", 0);
	must_find(b, 0, "one", 1);
	must_save(a, 0, 1, 2, "two", 0);
	must_find(b, 0, "two", 2);
	must_save(a, 0, 1, 3, "three", 0);
	must_save(a, 2, 1, 1, "another node", 0);
	must_find(b, 0, "three", 3);
	must_find(b, 1, "", 0);
	must_find(b, 2, "another node", 1);
	/* b takes over; a doesn't know that it is dead. */
	must_save(b, 0, 2, 1, "four", 0);
	must_save(a, 0, 1, 4, "too late", 1);
	must_find(a, 0, "four", 1);
	store_free(a);
	store_free(b);
	bucket_memory_forget(NAME);
}

static void what_is_forgotten_is_gone_for_all(void **state)
{
	struct store *a = open_machine(), *b = open_machine();
	struct digest key = the_key();

	must_save(a, 0, 1, 1, "one", 0);
	must_save(a, 0, 1, 2, "two", 0);
	must_save(a, 17, 1, 1, "far", 0);
	must_save(a, 3, 1, 1, "near", 0);
	must_find(b, 0, "two", 2);
	assert_int_equal(checkpoint_forget(b, &key, NULL), 0);
	must_find(b, 0, "", 0);
	must_find(a, 0, "", 0);
	must_find(a, 3, "", 0);
	must_save(a, 0, 1, 1, "again", 0);
	must_find(b, 0, "again", 1);
	store_free(a);
	store_free(b);
	bucket_memory_forget(NAME);
}

/* Of two slots one is whole at any time: whatever write is the last that succeeds. */
static void a_cut_off_save_leaves_the_one_before(void **state)
{
	for (uint64_t n = 1; n < 12; n++) {
		struct bucket_memory_faults f = { .fail_after_writes = n };
		struct store *a = open_machine(), *b;
		struct checkpoint c;
		int r;

		must_save(a, 0, 1, 1, "one", 0);
		must_save(a, 0, 1, 2, "two", 0);
		bucket_memory_faults(NAME, &f);
		c = make(a, 0, 1, 3, "three");
		r = checkpoint_save(a, &c, NULL);
		bucket_memory_faults(NAME, &(struct bucket_memory_faults){ 0 });
		store_free(a);
		b = open_machine();
		if (r == 0)
			must_find(b, 0, "three", 3);
		else
			must_find(b, 0, "two", 2);
		store_free(b);
		bucket_memory_forget(NAME);
		if (r == 0)
			return;
	}
	fail_msg("it never succeeded");
}

static void an_unreachable_bucket_is_said(void **state)
{
	struct bucket_memory_faults f = { .down = true };
	struct store *a = open_machine();
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct checkpoint c = make(a, 0, 1, 1, "one"), got;
	struct digest key = the_key();
	struct err err = { 0 };

	bucket_memory_faults(NAME, &f);
	assert_int_equal(checkpoint_save(a, &c, &err), -1);
	assert_int_equal(err.code, ERR_IO);
	assert_int_equal(checkpoint_newest(a, &key, 1, arena, &got, &err), -1);
	bucket_memory_faults(NAME, &(struct bucket_memory_faults){ 0 });
	store_free(a);
	bucket_memory_forget(NAME);
}

static bool gc_leaves(struct store *s, int64_t age_ns)
{
	struct store_gc_options o = { .grace_ns = NS_PER_S, .mark_gap_ns = 1 };
	struct store_gc_result res;
	struct digest_set *live[STORE_SPACES] = { 0 }, *held[STORE_SPACES] = { 0 };
	uint64_t n;

	o.now_ns = clock_system()->wall_ns(clock_system()) + age_ns;
	assert_int_equal(store_mark(s, &o, live, held, &res, NULL), 0);
	n = digest_set_len(live[STORE_TREE]);
	for (int i = 0; i < STORE_SPACES; i++) {
		digest_set_free(live[i]);
		digest_set_free(held[i]);
	}
	return n == 1;
}

static void gc_keeps_it_for_a_month(void **state)
{
	struct store *s = store_memory_new();

	must_save(s, 0, 1, 1, "one", 0);
	assert_true(gc_leaves(s, CHECKPOINT_KEEP_NS - 60 * NS_PER_S));
	assert_false(gc_leaves(s, CHECKPOINT_KEEP_NS + 60 * NS_PER_S));
	assert_int_equal(store_verify(s, NULL, NULL, NULL, NULL, NULL), 0);
	store_free(s);
}

/* FORMAT.md: where it lies, and its bytes. */
static void the_format_stays(void **state)
{
	static const char want_a[] = "d90cce840f4fb27b88dc98ec2b78b4bb",
			  want_bytes[] = "c6660c8c0d28d7e7251b3bf5eec91a8c";
	struct store *s = store_memory_new();
	_cleanup_(str_deinit) struct str bytes = { 0 }, text = { 0 };
	struct digest key = the_key(), name, d;
	char hex[DIGEST_HEX_MAX];

	must_save(s, 5, 2, 1, "one", 0);
	str_add_field(&text, "checkpoint", 10);
	str_addn(&text, key.b, DIGEST_BYTES);
	str_add_u32(&text, 5);
	digest_bytes(text.s, text.len, &name);
	assert_int_equal(store_get(s, STORE_ACTION, &name, 1 << 20, &bytes, NULL), 0);
	assert_memory_equal(digest_hex(&name, hex), want_a, 32);
	/* The record of the first format, which has no digest at its end. */
	assert_int_equal(bytes.s[13], '2');
	bytes.s[13] = '1';
	digest_bytes(bytes.s, bytes.len - DIGEST_BYTES, &d);
	assert_memory_equal(digest_hex(&d, hex), want_bytes, 32);
	store_free(s);
}

struct again {
	struct store *s;
	struct digest name;
	bool done;
};

static void put_again(void *arg, const char *what, const char *key)
{
	struct again *g = arg;

	if (g->done || !str_eq(what, "put") || !strstr(key, "actions/"))
		return;
	g->done = true;
	assert_true(g->s->ops->put(g->s, STORE_ACTION, &g->name, "two", 3, true, NULL) >= 0);
}

/* The last try to send a record failed. While another thread's sync sends it, a newer one is put.
 */
static void what_is_put_again_while_it_is_sent_is_sent_again(void **state)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct store *a = open_machine(), *b;
	struct again g = { .s = a, .name = the_key() };

	assert_true(a->ops->put(a, STORE_ACTION, &g.name, "one", 3, true, NULL) >= 0);
	bucket_memory_faults(NAME,
			     &(struct bucket_memory_faults){ .before = put_again, .arg = &g });
	assert_int_equal(store_sync(a, NULL), 0);
	bucket_memory_faults(NAME, &(struct bucket_memory_faults){ 0 });
	assert_true(g.done);
	assert_int_equal(store_sync(a, NULL), 0);
	b = open_machine();
	assert_int_equal(store_get(b, STORE_ACTION, &g.name, 100, &text, NULL), 0);
	assert_string_equal(text.s, "two");
	store_free(a);
	store_free(b);
	bucket_memory_forget(NAME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_newest_counts_wherever_it_was_saved),
		cmocka_unit_test(what_is_forgotten_is_gone_for_all),
		cmocka_unit_test(a_cut_off_save_leaves_the_one_before),
		cmocka_unit_test(an_unreachable_bucket_is_said),
		cmocka_unit_test(gc_keeps_it_for_a_month),
		cmocka_unit_test(the_format_stays),
		cmocka_unit_test(what_is_put_again_while_it_is_sent_is_sent_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
