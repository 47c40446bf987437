/* A directory in front of a bucket: what one machine puts another one gets, in how many requests;
 * runs that are pushed and pulled; threads. */
#include <pthread.h>
#include "unit/storage/remote/team.h"

static void test_a_colleague_gets_it(void **state)
{
	struct store *a = team_machine("a", STORE_READ_WRITE), *b;
	struct content_id id = team_put_dir(a, "in", 300), got;
	struct err err = { 0 }, first;
	struct bucket_memory_counts c;

	team_publish(a, 7, &id);
	assert_int_equal(store_unsent(a, &first), 0);
	store_free(a);
	c = team_counts();
	assert_true(c.puts < 20); /* 300 files in one pack */

	b = team_machine("b", STORE_READ_WRITE);
	assert_true(team_finds(b, 7, &got));
	assert_true(content_id_eq(&got, &id));
	assert_false(team_finds(b, 8, &got));
	{
		_cleanup_(freep) char *out = fs_join(team_root, "out");

		ok(content_materialise_at(b, &id, CONTENT_COPY_WRITABLE, AT_FDCWD, out, &err),
		   &err);
	}
	team_same_dir("in", "out");
	assert_true(team_counts().gets - c.gets < 20);
	ok(content_verify(b, &id, &err), &err);
	store_free(b);
	assert_true(team_counts().deletes >= 2); /* both leases were given back */
}

static void test_nothing_is_sent_twice(void **state)
{
	struct store *a = team_machine("a", STORE_READ_WRITE), *b;
	struct content_id id = team_put_dir(a, "in", 50), again;
	struct bucket_memory_counts c;

	team_publish(a, 1, &id);
	store_free(a);
	c = team_counts();
	b = team_machine("b", STORE_READ_WRITE);
	again = team_put_dir(b, "in2", 50);
	assert_false(content_id_eq(&id, &again)); /* other names in the files */
	team_publish(b, 2, &again);
	store_free(b);
	assert_true(team_counts().bytes_in - c.bytes_in < MIB); /* the large files were there */
}

/* Only the trees, the record and what small content is: packs say it without a request for each. */
static void test_existence_is_cheap(void **state)
{
	struct store *a = team_machine("a", STORE_READ_WRITE), *b;
	struct content_id id = team_put_dir(a, "in", 2000), got;
	struct bucket_memory_counts c;

	team_publish(a, 1, &id);
	store_free(a);
	b = team_machine("b", STORE_READ_WRITE);
	c = team_counts();
	assert_true(team_finds(b, 1, &got));
	assert_true(team_counts().heads - c.heads < 8);
	assert_true(team_counts().gets - c.gets < 8);
	store_free(b);
	b = team_machine("b", STORE_READ_WRITE); /* remembers */
	c = team_counts();
	assert_true(team_finds(b, 1, &got));
	assert_true(team_counts().heads - c.heads <=
		    2); /* the lease and the list of the condemned */
	store_free(b);
}

static void test_modes(void **state)
{
	struct store *a = team_machine("a", STORE_READ_WRITE), *b;
	struct content_id id = team_put_dir(a, "in", 5), got;
	struct bucket_memory_counts c;

	team_publish(a, 1, &id);
	store_free(a);
	c = team_counts();
	b = team_machine("b", STORE_READ_ONLY);
	assert_true(team_finds(b, 1, &got));
	team_publish(b, 2, &id);
	store_free(b);
	assert_int_equal(team_counts().puts, c.puts);
	b = team_machine("c", STORE_OFF);
	c = team_counts();
	assert_false(team_finds(b, 1, &got));
	team_publish(b, 2, &(struct content_id){ .kind = CONTENT_BLOB });
	store_free(b);
	assert_int_equal(team_counts().puts, c.puts);
	assert_int_equal(team_counts().gets, c.gets);
}

static bool materialises(struct store *s, const struct content_id *id, const char *name)
{
	_cleanup_(freep) char *out = fs_join(team_root, name);
	struct err err = { 0 };
	int r = content_materialise_at(s, id, CONTENT_COPY_WRITABLE, AT_FDCWD, out, &err);

	assert_true(r == 0 || err.code == ERR_CORRUPT);
	return r == 0;
}

static bool take_arrived(struct store *s, const struct content_id *id)
{
	_cleanup_(fd_closep) int fd = -1;

	assert_int_equal(content_open(s, id, &fd, NULL), 0);
	return store_take_arrived(s, &id->digest, fd);
}

/* What was hashed as it came in is laid out without another look, once; from then on each copy is
 * hashed. */
static void test_what_arrives_is_hashed_once(void **state)
{
	struct store *a = team_machine("a", STORE_READ_WRITE), *b;
	_cleanup_(freep) char *bytes = xmalloc(MIB), *blob = NULL;
	struct err err = { 0 };
	struct content_id id;
	char hex[DIGEST_HEX_MAX];

	team_fill(bytes, MIB, 1, false);
	ok(content_put_bytes(a, bytes, MIB, &id, &err), &err);
	team_publish(a, 3, &id);
	store_free(a);

	b = team_machine("b", STORE_READ_WRITE);
	ok(store_bring(b, &id, 1, BRING_ALL, &err), &err);
	assert_true(store_is_verified(b->here, &id.digest));
	assert_true(materialises(b, &id, "out1"));
	assert_false(take_arrived(b, &id));
	digest_hex(&id.digest, hex);
	blob = xasprintf("%s/b/blobs/%.2s/%s", team_root, hex, hex);
	assert_int_equal(chmod(blob, 0644), 0);
	bytes[4711] ^= 1;
	ok(fs_write_atomic(blob, bytes, MIB, &err), &err);
	assert_false(materialises(b, &id, "out2"));
	assert_true(materialises(b, &id, "out3")); /* the damaged one was set aside */
	ok(store_delete(b, STORE_BLOB, &id.digest, &err), &err);
	ok(store_bring(b, &id, 1, BRING_ALL, &err), &err);
	assert_true(take_arrived(b, &id));
	assert_false(take_arrived(b, &id));
	store_free(b);
}

/* How many of the blobs of files named PREFIX0, PREFIX1, … in `in` the directory has. */
static size_t blobs_here(struct store *s, const char *prefix, size_t from, size_t to)
{
	size_t n = 0;

	for (size_t i = from; i < to; i++) {
		_cleanup_(freep) char *path = xasprintf("%s/in/%s%zu", team_root, prefix, i);
		_cleanup_(str_deinit) struct str bytes = { 0 };
		struct content_id id;
		bool there;

		assert_int_equal(fs_read_file(path, MIB, &bytes, NULL), 0);
		content_id_of_bytes(bytes.s, bytes.len, &id);
		assert_int_equal(
			store_has_object(s->here, STORE_BLOB, &id.digest, bytes.len, &there, NULL),
			0);
		n += there;
	}
	return n;
}

/* Neither a file nor a directory is left of what can't be had whole. */
static void assert_nothing_is_made(struct store *s, const struct content_id *id)
{
	_cleanup_(freep) char *out = fs_join(team_root, "nothing");
	struct err err = { 0 };

	assert_int_equal(content_materialise_at(s, id, CONTENT_COPY_WRITABLE, AT_FDCWD, out, &err),
			 -1);
	assert_true(err.code == ERR_NOT_FOUND || err.code == ERR_CORRUPT);
	assert_int_equal(access(out, F_OK), -1);
}

/* What a user gets is written once: the directory in front has no copy of large blobs, unless they
 * were compressed on the way. Damage is found all the same. */
static void test_large_blobs_go_into_their_place(void **state)
{
	enum { MANY = 70 }; /* more than are fetched at once */
	_cleanup_(freep) char *in = team_make_dir("in", 4), *bytes = xmalloc(REMOTE_LOOSE_MIN);
	_cleanup_(freep) char *big = fs_join(in, "big1"), *out = fs_join(team_root, "out"),
			      *one = fs_join(team_root, "one");
	struct store *a = team_machine("a", STORE_READ_WRITE), *b;
	struct content_id id, file;
	struct err err = { 0 };
	struct stat st;

	assert_int_equal(chmod(big, 0755), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		_cleanup_(freep) char *path = xasprintf("%s/many%u", in, i);

		team_fill(bytes, REMOTE_LOOSE_MIN, i + 1000, false);
		ok(fs_write_atomic(path, bytes, REMOTE_LOOSE_MIN, &err), &err);
	}
	ok(content_put_at(a, AT_FDCWD, in, NULL, &id, &err), &err);
	ok(content_put_at(a, AT_FDCWD, big, NULL, &file, &err), &err);
	team_publish(a, 1, &id);
	store_free(a);

	b = team_machine("b", STORE_READ_WRITE);
	ok(content_materialise_at(b, &id, CONTENT_COPY_WRITABLE, AT_FDCWD, out, &err), &err);
	team_same_dir("in", "out");
	ok(content_materialise_at(b, &file, CONTENT_COPY_WRITABLE, AT_FDCWD, one, &err), &err);
	team_same_dir("in/big1", "one");
	assert_int_equal(stat(one, &st), 0);
	assert_true(st.st_mode & 0100);
	assert_int_equal(blobs_here(b, "many", 0, MANY) + blobs_here(b, "big", 1, 3), 0);
	assert_int_equal(blobs_here(b, "big", 0, 1), 1);
	store_free(b);

	/* A listing that says another size than the blob has is wrong, and so is its copy. */
	b = team_machine("c", STORE_READ_WRITE);
	file.size_bytes--;
	assert_nothing_is_made(b, &file);
	file.size_bytes++;
	ok(store_delete(b, STORE_BLOB, &file.digest, &err), &err); /* it was fetched to be judged */
	team_damage("blobs/", 4711);
	assert_nothing_is_made(b, &id);
	assert_nothing_is_made(b, &file);
	assert_int_equal(blobs_here(b, "many", 0, MANY), 0);
	team_faults((struct bucket_memory_faults){ .down = true });
	assert_nothing_is_made(b, &file);
	team_faults((struct bucket_memory_faults){ 0 });
	store_free(b);
}

/* A listing that no record names and whose member is gone, as a collection leaves it in a pack that
 * others need. */
static struct content_id put_dead_listing(struct store *s)
{
	struct content_id id = team_put_dir(s, "dead", 2), member;
	struct tree *t = NULL;

	assert_int_equal(tree_load(s, &id, &t, NULL), 0);
	member = tree_at(t, 0)->id;
	assert_int_equal(store_delete(s, content_space(&member), &member.digest, NULL), 0);
	tree_free(t);
	return id;
}

static void test_push_and_pull_of_runs(void **state)
{
	struct store *plain = team_machine("a", STORE_OFF), *a,
		     *b; /* was used for itself before the team shared a store */
	struct content_id one = team_put_dir(plain, "one", 30),
			  two = team_put_dir(plain, "two", 30), dead, got;
	struct digest runs[2];
	bool here;
	struct remote_sent sent;
	struct tier_pulled pulled;
	struct err err = { 0 };

	team_publish(plain, 1, &one);
	team_publish(plain, 2, &two);
	runs[0] = team_put_manifest(plain, 1, &one);
	runs[1] = team_put_manifest(plain, 2, &two);
	dead = put_dead_listing(plain);
	store_free(plain);

	a = team_machine("a", STORE_READ_WRITE);
	ok(tier_push(a,
		     &(struct tier_wanted){
			     .manifests = &runs[0], .n_manifests = 1, .names = &team_names },
		     &sent, &err),
	   &err);
	assert_int_equal(sent.missing, 0);
	assert_true(sent.objects >= 34);
	b = team_machine("b", STORE_READ_WRITE);
	assert_true(team_finds(b, 1, &got));
	assert_false(team_finds(b, 2, &got));
	ok(tier_push(a, &(struct tier_wanted){ .names = &team_names }, &sent, &err), &err);
	assert_int_equal(sent.missing, 0);
	ok(tier_push(a, &(struct tier_wanted){ .names = &team_names }, &sent, &err), &err);
	assert_int_equal(sent.objects, 0);
	store_free(a);

	ok(tier_pull(b,
		     &(struct tier_wanted){
			     .manifests = &runs[1], .n_manifests = 1, .names = &team_names },
		     &pulled, &err),
	   &err);
	assert_int_equal(pulled.missing, 0);
	team_faults((struct bucket_memory_faults){ .down = true });
	assert_true(team_finds(b, 2, &got)); /* all of it is here */
	ok(content_verify(b, &two, &err), &err);
	team_faults((struct bucket_memory_faults){ 0 });
	store_free(b);

	b = team_machine("c", STORE_READ_WRITE);
	ok(tier_pull(b, &(struct tier_wanted){ .names = &team_names }, &pulled, &err), &err);
	assert_int_equal(pulled.missing, 0);
	assert_int_equal(pulled.objects, pulled.fetched);
	store_free(b);
	b = team_machine("c", STORE_OFF);
	ok(store_has_object(b, STORE_TREE, &dead.digest, UINT64_MAX, &here, &err), &err);
	assert_false(here);
	ok(content_verify(b, &one, &err), &err);
	ok(content_verify(b, &two, &err), &err);
	assert_int_equal(store_verify(b, &team_names, NULL, NULL, NULL, &err), 0);
	store_free(b);
}

struct hand {
	struct store *s;
	uint32_t number;
	struct content_id ids[40];
	pthread_t thread;
	bool failed;
};

static void *work(void *arg)
{
	struct hand *h = arg;
	struct err err = { 0 };

	for (uint32_t i = 0; i < 40 && !h->failed; i++) {
		char text[64];
		int n = snprintf(text, sizeof(text), "%u of %u", i / 2 * 2,
				 h->number % 3); /* some by several threads */
		bool there = false;

		h->failed |= content_put_bytes(h->s, text, (size_t)n, &h->ids[i], &err) < 0;
		h->failed |= store_has(h->s, &h->ids[i / 2], 1, &there, &err) < 0 || !there;
		if (i % 10 == h->number % 10)
			h->failed |= store_sync(h->s, &err) < 0 ||
				     remote_renew(tier_remote(h->s), &err) < 0;
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct store *s = team_bounded("a", GIB),
		     *b; /* so that each sync looks at what was added */
	struct hand hands[6];
	struct err err = { 0 };

	for (uint32_t i = 0; i < 6; i++) {
		hands[i] = (struct hand){ .s = s, .number = i };
		assert_int_equal(pthread_create(&hands[i].thread, NULL, work, &hands[i]), 0);
	}
	for (size_t i = 0; i < 6; i++) {
		pthread_join(hands[i].thread, NULL);
		assert_false(hands[i].failed);
	}
	ok(store_sync(s, &err), &err);
	assert_int_equal(store_unsent(s, &err), 0);
	store_free(s);
	b = team_machine("b", STORE_READ_WRITE);
	for (size_t i = 0; i < 6; i++)
		for (size_t k = 0; k < 40; k++)
			ok(content_verify(b, &hands[i].ids[k], &err), &err);
	store_free(b);
}

struct other {
	struct store *s;
	struct content_id news;
	bool went;
};

/* Another thread of ours, which reads what is new, and so lists the packs. */
static void other_reads(void *arg, const char *what, const char *key)
{
	struct other *o = arg;
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct err err = { 0 };

	if (o->went || !str_eq(what, "get"))
		return;
	o->went = true;
	ok(content_read(o->s, &o->news, 100, &bytes, &err), &err);
}

/* That the news were listed by somebody else meanwhile is no reason not to look again. */
static void test_news_that_another_found(void **state)
{
	struct store *w = team_machine("a", STORE_READ_WRITE), *s, *to = store_memory_new();
	struct other o = { 0 };
	struct content_id old, news[2];
	struct remote_object v[2] = { { 0 } };
	struct err err = { 0 };

	ok(content_put_bytes(w, "old", 3, &old, &err), &err);
	ok(store_sync(w, &err), &err);
	o.s = s = team_machine("b", STORE_READ_WRITE);
	v[0] = (struct remote_object){ .space = STORE_BLOB, .name = old.digest, .size = 3 };
	ok(remote_has(tier_remote(s), v, 1, &err), &err);
	assert_true(v[0].there);

	for (int i = 0; i < 2; i++)
		ok(content_put_bytes(w, i ? "new1" : "new0", 4, &news[i], &err), &err);
	ok(store_sync(w, &err), &err);
	ok(store_refresh(s, STORE_ACTION, NULL, 0, &err), &err); /* news are expected */
	o.news = news[1];
	v[1] = (struct remote_object){ .space = STORE_BLOB, .name = news[0].digest, .size = 4 };
	team_faults((struct bucket_memory_faults){ .before = other_reads, .arg = &o });
	ok(remote_fetch(tier_remote(s), to, v, 2, &err), &err);
	team_faults((struct bucket_memory_faults){ 0 });
	assert_true(o.went && v[0].there && v[1].there);
	store_free(to);
	store_free(s);
	store_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_colleague_gets_it, team_setup,
						team_teardown),
		cmocka_unit_test_setup_teardown(test_nothing_is_sent_twice, team_setup,
						team_teardown),
		cmocka_unit_test_setup_teardown(test_existence_is_cheap, team_setup, team_teardown),
		cmocka_unit_test_setup_teardown(test_modes, team_setup, team_teardown),
		cmocka_unit_test_setup_teardown(test_what_arrives_is_hashed_once, team_setup,
						team_teardown),
		cmocka_unit_test_setup_teardown(test_large_blobs_go_into_their_place, team_setup,
						team_teardown),
		cmocka_unit_test_setup_teardown(test_push_and_pull_of_runs, team_setup,
						team_teardown),
		cmocka_unit_test_setup_teardown(test_threads, team_setup, team_teardown),
		cmocka_unit_test_setup_teardown(test_news_that_another_found, team_setup,
						team_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
