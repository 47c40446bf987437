/* unit/storage/remote/machine.h — what tests of several machines on one bucket stand on.
 *
 * Include it after cmocka.h. What goes wrong here fails the test.
 */
#ifndef CAIRN_TESTS_UNIT_STORAGE_REMOTE_MACHINE_H
#define CAIRN_TESTS_UNIT_STORAGE_REMOTE_MACHINE_H

#include <string.h>
#include "storage/bucket/memory.h"
#include "storage/internal.h"
#include "storage/remote/tier.h"
#include "unit.h"

/* A machine's store: a directory in memory in front of the bucket. It renews no leases by itself.
 * `clock`: NULL for the system's; `names`: what manifests name, or NULL. */
static inline struct store *machine_open_with(const char *bucket, enum store_mode mode,
					      struct clock *clock,
					      const struct closure_names *names)
{
	const struct remote_options ro = { .writes = mode == STORE_READ_WRITE,
					   .clock = clock,
					   .lease_every_ns = -1 };
	const struct store_options o = { .mode = mode, .names = names };
	struct remote *r = NULL;
	struct bucket *b;
	struct err err = { 0 };

	if (bucket_open(bucket, NULL, &b, &err) < 0 || remote_open(b, &ro, &r, &err) < 0)
		fail_msg("%s", err.msg);
	return tier_new(store_memory_new(), r, &o);
}

static inline struct store *machine_open(const char *bucket, enum store_mode mode,
					 struct clock *clock)
{
	return machine_open_with(bucket, mode, clock, NULL);
}

/* A directory with one file, `model`. */
static inline struct content_id machine_put_model(struct store *s, const char *text)
{
	struct tree_builder *b = tree_builder_new();
	struct tree_entry e = { .name = "model", .name_len = 5, .kind = TREE_FILE };
	struct content_id id = { 0 };

	assert_int_equal(content_put_bytes(s, text, strlen(text), &e.id, NULL), 0);
	assert_int_equal(tree_builder_add(b, &e, NULL), 0);
	assert_int_equal(tree_builder_store(b, s, &id, NULL), 0);
	tree_builder_free(b);
	return id;
}

#endif
