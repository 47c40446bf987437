/* What publishing costs when thousands of attempts end elsewhere: requests to the shared store,
 * counted. */
#include <stdio.h>
#include "base/mem.h"
#include "run/task/staging.h"
#include "unit.h"
#include "unit/storage/remote/machine.h"

#define NAME   "staging"
#define BUCKET "mem-bucket://staging/p"

static struct store *open_machine(void)
{
	return machine_open(BUCKET, STORE_READ_WRITE, NULL);
}

/* A directory with one file, made and sent by a pod of its own. */
static struct content_id made_by_pod(unsigned i)
{
	struct store *s = open_machine();
	struct content_id id;
	char text[32];
	struct err err = { 0 };

	snprintf(text, sizeof(text), "made by pod %u", i);
	id = machine_put_model(s, text);
	assert_int_equal(store_sync(s, &err), 0);
	assert_int_equal(store_unsent(s, &err), 0);
	store_free(s);
	return id;
}

/* For an attempt that reads it. */
static int publish(struct store *s, const struct content_id *id, unsigned i, struct err *err)
{
	const struct runner_staging staging = staging_of(s);
	struct runner_input in = { .name = "data", .path = "data", .id = *id };
	struct runner_attempt a = { .id = i, .task = "down", .inputs = &in, .n_inputs = 1 };
	const struct runner_attempt *v[] = { &a };
	struct content_id spec;
	char bytes[32];

	snprintf(bytes, sizeof(bytes), "specification %u", i);
	return staging.publish(staging.arg, v, 1, bytes, strlen(bytes), &spec, err);
}

static uint64_t lists(void)
{
	struct bucket_memory_counts c;

	bucket_memory_count(NAME, &c);
	return c.lists;
}

static uint64_t fetches(void)
{
	struct bucket_memory_counts c;

	bucket_memory_count(NAME, &c);
	return c.gets;
}

#define PODS 200

/* Each end of a chain's first half starts its second half: what the pod said it made isn't asked
 * for. */
static void test_chains_list_nothing(void **state)
{
	struct store *s = open_machine();
	uint64_t lists_before, gets_before, by_engine_lists = 0, by_engine_gets = 0;
	struct err err = { 0 };

	assert_int_equal(store_attach(s, &err), 0);
	for (unsigned i = 0; i < PODS; i++) {
		struct content_id id = made_by_pod(i);

		lists_before = lists();
		gets_before = fetches();
		store_refresh(s, STORE_ACTION, NULL, 0, NULL); /* as run_on_finished() does */
		store_note_present(s, &id, 1);
		if (publish(s, &id, i, &err) < 0)
			fail_msg("%s", err.msg);
		by_engine_lists += lists() - lists_before;
		by_engine_gets += fetches() - gets_before;
	}
	assert_true(by_engine_lists <= 2);
	assert_true(by_engine_gets <= 2);
	store_free(s);
	bucket_memory_forget(NAME);
}

/* Nobody said that it is there: it is looked for and found, by one list for all that is missing. */
static void test_what_nobody_told_of_is_found(void **state)
{
	struct store *s = open_machine();
	struct content_id ids[8];
	uint64_t before;
	struct err err = { 0 };

	assert_int_equal(store_attach(s, &err), 0);
	for (unsigned i = 0; i < 8; i++)
		ids[i] = made_by_pod(i);
	before = lists();
	for (unsigned i = 0; i < 8; i++)
		if (publish(s, &ids[i], i, &err) < 0)
			fail_msg("%s", err.msg);
	assert_int_equal(lists() - before, 1);
	store_free(s);
	bucket_memory_forget(NAME);
}

/* What was said and isn't so is found out when a pod misses it: then nothing is believed. */
static void test_what_was_not_so(void **state)
{
	struct store *s = open_machine();
	struct content_id id = { 0 };
	struct err err = { 0 };

	content_id_of_bytes("nobody made it", 14, &id);
	assert_int_equal(store_attach(s, &err), 0);
	store_note_present(s, &id, 1);
	assert_int_equal(publish(s, &id, 1, &err), 0);
	store_note_present(s, NULL, 0);
	assert_int_equal(publish(s, &id, 2, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(err.msg, "input `data` of down is gone"));
	store_free(s);
	bucket_memory_forget(NAME);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_chains_list_nothing),
					    cmocka_unit_test(test_what_nobody_told_of_is_found),
					    cmocka_unit_test(test_what_was_not_so) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
