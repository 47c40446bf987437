/* A directory in front of a bucket that is away, refuses, forgets or lies: what is told, what is
 * made good, and what waits for the next process. */
#include "unit/storage/remote/team.h"

static void test_failures_are_counted_and_made_good(void **state)
{
	struct store *a = team_machine("a", STORE_READ_WRITE), *b;
	struct content_id id, got;
	struct err first = { 0 };

	team_faults((struct bucket_memory_faults){ .down = true });
	id = team_put_dir(a, "in", 5);
	team_publish(a, 1, &id);
	assert_true(store_unsent(a, &first) > 5);
	assert_non_null(strstr(first.msg, "reset"));
	assert_true(team_finds(a, 1, &got));
	store_free(a);
	team_faults((struct bucket_memory_faults){ 0 });
	b = team_machine("b", STORE_READ_WRITE);
	assert_false(team_finds(b, 1, &got));
	store_free(b);
}

/* Whoever may only read still hits, and is told that nothing was sent. */
static void test_read_only_credentials(void **state)
{
	struct store *a = team_machine("a", STORE_READ_WRITE), *b;
	struct content_id id = team_put_dir(a, "in", 5), got;
	struct err first = { 0 };

	team_publish(a, 1, &id);
	store_free(a);
	team_faults((struct bucket_memory_faults){ .refuses_writes = true });
	b = team_machine("b", STORE_READ_WRITE);
	assert_true(team_finds(b, 1, &got));
	team_publish(b, 2, &id);
	assert_true(store_unsent(b, &first) > 0);
	assert_int_equal(first.code, ERR_READ_ONLY);
	store_free(b);
	team_faults((struct bucket_memory_faults){ 0 });
}

/* Cut off after each number of writes: whatever record arrived, all that it names had arrived
 * before. */
static void test_cut_off_anywhere(void **state)
{
	for (uint64_t after = 1;; after++) {
		struct store *a, *b;
		struct content_id id, got;
		struct err first;
		bool sent;
		char name[16];

		bucket_memory_forget("team");
		team_faults((struct bucket_memory_faults){ .fail_after_writes = after });
		snprintf(name, sizeof(name), "a%llu", (unsigned long long)after);
		a = team_machine(name, STORE_READ_WRITE);
		snprintf(name, sizeof(name), "in%llu", (unsigned long long)after);
		id = team_put_dir(a, name, 5);
		team_publish(a, 1, &id);
		sent = store_unsent(a, &first) == 0;
		store_free(a);
		team_faults((struct bucket_memory_faults){ 0 });
		b = team_machine("b", STORE_READ_WRITE);
		{
			_cleanup_(arena_freep) struct arena *arena = arena_new();
			struct action_record rec;
			struct digest key;

			memset(key.b, 1, sizeof(key.b));
			if (action_get(b, &key, arena, &rec, NULL) == 0)
				assert_true(team_finds(b, 1, &got));
			else
				assert_false(sent);
		}
		store_free(b);
		{
			_cleanup_(freep) char *dir = fs_join(team_root, "b");

			fs_remove_tree(dir, NULL);
		}
		if (sent)
			break;
		assert_true(after < 50);
	}
}

/* Whoever has it finds what is damaged there, and sends it again. */
static void repair_from(char name[16], size_t i, const struct content_id *id)
{
	struct tier_verify v = { .sample = 1 };
	struct content_id got;
	struct err err = { 0 };
	struct store *s;

	snprintf(name, 16, "a%zu", i);
	s = team_machine(name, STORE_READ_WRITE);
	ok(tier_verify(s, &v, &err), &err);
	assert_int_equal(v.repaired, v.problems);
	if (i == 1 || i == 2)
		assert_true(v.problems > 0);
	store_free(s);
	snprintf(name, 16, "c%zu", i);
	s = team_machine(name, STORE_READ_WRITE);
	assert_true(team_finds(s, 1, &got));
	{
		_cleanup_(freep) char *out = xasprintf("%s/out%zu", team_root, i);

		ok(content_materialise_at(s, id, CONTENT_COPY_WRITABLE, AT_FDCWD, out, &err), &err);
	}
	ok(content_verify(s, id, &err), &err);
	store_free(s);
}

/* One wrong byte, anywhere in what lies in the bucket: never content that doesn't match. */
static void test_damage_is_seen(void **state)
{
	static const uint64_t places[] = { 0, 30, 100, 200, 5000 };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct store *a, *b;
		struct content_id id, got;
		char name[16];

		bucket_memory_forget("team");
		snprintf(name, sizeof(name), "a%zu", i);
		a = team_machine(name, STORE_READ_WRITE);
		snprintf(name, sizeof(name), "in%zu", i);
		id = team_put_dir(a, name, 60);
		team_publish(a, 1, &id);
		store_free(a);
		team_damage("packs/", places[i]);
		team_damage("blobs/", places[i]);
		snprintf(name, sizeof(name), "b%zu", i);
		b = team_machine(name, STORE_READ_WRITE);
		if (team_finds(b, 1, &got)) {
			struct err err = { 0 };

			assert_int_equal(content_verify(b, &id, &err), -1);
			assert_true(err.code == ERR_NOT_FOUND || err.code == ERR_CORRUPT);
		}
		store_free(b);
		repair_from(name, i, &id);
	}
}

/* The object that says what it is: damaged, it is written anew by whoever may, and others read on.
 * A bucket that holds something else stays as it is. */
static void test_a_damaged_version(void **state)
{
	struct bucket_put p = { .key = "version",
				.bytes = "cairn bucket st0re 1",
				.fd = -1,
				.size = 20 },
			  *v = &p;
	struct store *a = team_machine("a", STORE_READ_WRITE);
	struct content_id id = team_put_dir(a, "in", 5), got;
	struct err err = { 0 };
	struct bucket *b;

	team_publish(a, 1, &id);
	store_free(a);
	assert_int_equal(bucket_open(TEAM_BUCKET, NULL, &b, NULL), 0);
	assert_int_equal(bucket_put_many(b, &v, 1, NULL), 0);
	a = team_machine("reader", STORE_READ_ONLY);
	assert_true(team_finds(a, 1, &got));
	assert_int_equal(store_healed(a), 0);
	store_free(a);
	a = team_machine("writer", STORE_READ_WRITE);
	ok(store_attach(a, &err), &err);
	assert_int_equal(store_healed(a), 1);
	store_free(a);
	a = team_machine("next", STORE_READ_WRITE);
	assert_true(team_finds(a, 1, &got));
	assert_int_equal(store_healed(a), 0);
	store_free(a);
	bucket_free(b);

	bucket_memory_forget("team");
	assert_int_equal(bucket_open(TEAM_BUCKET, NULL, &b, NULL), 0);
	assert_int_equal(bucket_put_many(b, &v, 1, NULL), 0);
	a = team_machine("elsewhere", STORE_READ_WRITE);
	assert_int_equal(store_attach(a, &err), -1);
	assert_int_equal(err.code, ERR_CORRUPT);
	store_free(a);
	bucket_free(b);
}

/* A name that was given while the bucket was away reaches it with the next process, as runs and
 * results do. */
static void test_tags_arrive_later(void **state)
{
	static const char text[] = "a change of a name";
	_cleanup_(str_deinit) struct str got = { 0 };
	struct store *s = team_machine("a", STORE_READ_WRITE), *other;
	struct remote_sent sent;
	struct err err = { 0 };
	struct digest name;

	digest_bytes(text, sizeof(text), &name);
	team_faults((struct bucket_memory_faults){ .down = true });
	ok(store_put(s, STORE_TAG, &name, text, sizeof(text), &err), &err);
	ok(store_sync(s, &err), &err);
	assert_int_equal(store_unsent(s, &err), 1);
	store_free(s);
	team_faults((struct bucket_memory_faults){ 0 });
	s = team_machine("a", STORE_READ_WRITE);
	ok(tier_send_unsent(s, &team_names, &sent, &err), &err);
	assert_int_equal(sent.objects, 1);
	store_free(s);
	other = team_machine("b", STORE_READ_WRITE);
	ok(store_get(other, STORE_TAG, &name, 100, &got, &err), &err);
	assert_int_equal(got.len, sizeof(text));
	store_free(other);
}

/* A record that can't be read today (a bad disk, no descriptors) isn't one that is gone: it waits.
 */
static void test_unread_records_wait(void **state)
{
	_cleanup_(freep) char *path = NULL, *aside = fs_join(team_root, "aside");
	struct store *s = team_machine("a", STORE_READ_WRITE), *other;
	char hex[DIGEST_HEX_MAX];
	_cleanup_(str_deinit) struct str got = { 0 };
	struct remote_sent sent;
	struct err err = { 0 };
	struct content_id id;
	struct digest hash;

	team_faults((struct bucket_memory_faults){ .down = true });
	ok(content_put_bytes(s, "text", 4, &id, &err), &err);
	team_publish(s, 7, &id);
	memset(hash.b, 7, sizeof(hash.b));
	store_free(s);
	team_faults((struct bucket_memory_faults){ 0 });
	digest_hex(&hash, hex);
	path = xasprintf("%s/a/%s/%.2s/%s", team_root, store_space_names[STORE_ACTION], hex, hex);
	assert_int_equal(rename(path, aside), 0);
	assert_int_equal(symlink(hex, path), 0);
	s = team_machine("a", STORE_READ_WRITE);
	assert_int_equal(tier_send_unsent(s, &team_names, &sent, &err), -1);
	store_free(s);
	assert_int_equal(rename(aside, path), 0);
	s = team_machine("a", STORE_READ_WRITE);
	ok(tier_send_unsent(s, &team_names, &sent, &err), &err);
	store_free(s);
	other = team_machine("b", STORE_READ_WRITE);
	ok(store_get(other, STORE_ACTION, &hash, 1000, &got, &err), &err);
	store_free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_failures_are_counted_and_made_good, team_setup,
						team_teardown),
		cmocka_unit_test_setup_teardown(test_read_only_credentials, team_setup,
						team_teardown),
		cmocka_unit_test_setup_teardown(test_cut_off_anywhere, team_setup, team_teardown),
		cmocka_unit_test_setup_teardown(test_damage_is_seen, team_setup, team_teardown),
		cmocka_unit_test_setup_teardown(test_a_damaged_version, team_setup, team_teardown),
		cmocka_unit_test_setup_teardown(test_tags_arrive_later, team_setup, team_teardown),
		cmocka_unit_test_setup_teardown(test_unread_records_wait, team_setup,
						team_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
