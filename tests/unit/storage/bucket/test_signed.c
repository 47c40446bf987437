/* Records of several writers in one store: what who reads makes of a record that he doesn't
 * believe, and what `store verify` may change in one. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/crypto/base64.h"
#include "base/crypto/sign.h"
#include "base/os/fs.h"
#include "storage/action.h"
#include "storage/bucket/memory.h"
#include "storage/internal.h"
#include "storage/local/maintain.h"
#include "storage/remote/tier.h"
#include "unit.h"

/* What ends a call that goes round for ever. */
#define TOO_LONG_S 60

struct fixture {
	char dir[TEST_DIR_MAX];
	struct store *s; /* as the last user() opened it */
};

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	test_dir(f->dir, sizeof(f->dir), "signed");
	alarm(TOO_LONG_S);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	store_free(f->s);
	fs_remove_tree(f->dir, NULL);
	free(f);
	alarm(0);
	return 0;
}

/* A key whose secret is 32 times this letter, in PKCS #8 (RFC 8410). */
static void write_key(const char *path, char letter, struct str *ret_public)
{
	static const char head[] = "\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04"
				   "\x20";
	_cleanup_(str_deinit) struct str der = { 0 }, text = { 0 };
	_cleanup_(sign_key_freep) struct sign_key *key = NULL;

	str_addn(&der, head, sizeof(head) - 1);
	for (int i = 0; i < 32; i++)
		str_addc(&der, letter);
	str_add(&text, "-----BEGIN "
		       "PRIVATE KEY-----\n");
	base64_add(&text, der.s, der.len);
	str_add(&text, "\n-----END "
		       "PRIVATE KEY-----\n");
	assert_int_equal(fs_write_atomic_at(AT_FDCWD, path, text.s, text.len, 0600, 0, NULL), 0);
	assert_int_equal(sign_key_load(path, &key, NULL), 0);
	sign_add_public(ret_public, sign_key_public(key));
}

/* From now on f->s is the store as this user sees it. `local`: the directory in front of a bucket;
 * `key`: the letter of his, or 0; `trusts`: that of the only writer whom he believes, or 0. */
static void user_of(struct fixture *f, const char *uri, const char *local, char key, char trusts)
{
	_cleanup_(freep) char *config = xasprintf("%s/%c-%c", f->dir, key ? key : '0',
						  trusts ? trusts : '0'),
			      *own = fs_join(config, "cairn/key"),
			      *list = fs_join(config, "cairn/trust"),
			      *other = fs_join(config, "cairn/other"),
			      *cairn = fs_join(config, "cairn");
	_cleanup_(str_deinit) struct str public_key = { 0 }, line = { 0 };

	assert_int_equal(fs_mkdir_p(cairn, NULL), 0);
	if (key)
		write_key(own, key, &public_key);
	str_reset(&public_key);
	if (trusts) {
		write_key(other, trusts, &public_key);
		str_addf(&line, "writer %s %s\n", uri, public_key.s);
		assert_int_equal(
			fs_write_atomic_at(AT_FDCWD, list, line.s, line.len, 0600, 0, NULL), 0);
	}
	assert_int_equal(setenv("XDG_CONFIG_HOME", config, 1), 0);
	store_free(f->s);
	f->s = NULL;
	assert_int_equal(
		store_open_with(uri, &(struct store_options){ .local = local }, true, &f->s, NULL),
		0);
}

static void user(struct fixture *f, char key, char trusts)
{
	_cleanup_(freep) char *store = fs_join(f->dir, "store");

	user_of(f, store, NULL, key, trusts);
}

static struct content_id blob(struct fixture *f, const char *text)
{
	struct content_id id;

	assert_true(content_put_bytes(f->s, text, strlen(text), &id, NULL) >= 0);
	return id;
}

static struct action_record record(struct action_output *out)
{
	return (struct action_record){ .key.b = { 7 },
				       .outputs = out,
				       .n_outputs = 1,
				       .run_id = "r",
				       .task = "t",
				       .node = "n" };
}

static void put(struct fixture *f, const char *output, int want)
{
	struct action_output out = { "o", blob(f, output) };
	struct action_record a = record(&out);

	assert_int_equal(action_put(f->s, &a, NULL), want);
}

static size_t n_observations(struct fixture *f)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct action_record *v;
	struct digest key = { .b = { 7 } }, *names;
	size_t n;

	assert_int_equal(action_observations(f->s, &key, arena, &v, &names, &n, NULL), 0);
	return n;
}

static void lose(struct fixture *f, unsigned number)
{
	struct digest key = { .b = { 7 } }, name = key;

	if (number)
		action_observation_name(&key, number, &name);
	assert_int_equal(store_delete(f->s, STORE_ACTION, &name, NULL), 0);
}

static void an_observation_that_is_not_believed(void **state)
{
	struct fixture *f = *state;

	user(f, 'a', 0);
	put(f, "first", 0);
	user(f, 'b', 0);
	put(f, "second", 2); /* number 1 */
	user(f, 'r', 'a');
	put(f, "third", 2); /* beside it */
	put(f, "third", 1);
	put(f, "second", 2); /* said by who is believed */
	put(f, "second", 1);
	assert_int_equal(n_observations(f), 4);
}

static void all_numbers_are_of_others(void **state)
{
	struct fixture *f = *state;

	user(f, 'b', 0);
	put(f, "first", 0);
	for (int i = 0; i < ACTION_OBSERVATIONS_MAX; i++) {
		char text[16];

		snprintf(text, sizeof(text), "%d", i);
		put(f, text, 2);
	}
	user(f, 'a', 0);
	lose(f, 0);
	put(f, "first", 0);
	user(f, 'r', 'a');
	put(f, "other", 2);
	assert_int_equal(n_observations(f), ACTION_OBSERVATIONS_MAX + 1);
}

/* Whoever moves a key's records moves them all: others' too, over gaps, without a first one. */
static void gaps_between_observations(void **state)
{
	struct fixture *f = *state;

	user(f, 'a', 0);
	put(f, "first", 0);
	user(f, 'b', 0);
	put(f, "second", 2);
	put(f, "third", 2);
	put(f, "fourth", 2);
	user(f, 'r', 'a');
	assert_int_equal(n_observations(f), 4);
	lose(f, 1);
	assert_int_equal(n_observations(f), 3);
	lose(f, 2);
	assert_int_equal(n_observations(f), 2);
	lose(f, 0);
	assert_int_equal(n_observations(f), 1);
	put(f, "fifth", 0);
	lose(f, 3);
	assert_int_equal(n_observations(f), 1);
}

/* A manifest of this test is one key. */
static int key_of(const void *bytes, size_t n, int (*emit)(void *arg, const struct digest *key),
		  void *arg, struct err *err)
{
	return emit(arg, bytes);
}

static int no_refs(const void *bytes, size_t n, int (*emit)(void *arg, const struct content_id *id),
		   void *arg, struct err *err)
{
	return 0;
}

/* Who fetches a run gets all of it, whoever signed its records; what to believe is another
 * question. */
static void a_pull_of_what_others_signed(void **state)
{
	static const struct closure_names names = { .refs = no_refs, .keys = key_of };
	static const char bucket[] = "mem-bucket://signed/p";
	struct fixture *f = *state;
	_cleanup_(freep) char *there = fs_join(f->dir, "there"), *here = fs_join(f->dir, "here");
	struct digest key = { .b = { 7 } }, run;
	const struct tier_wanted wanted = { .manifests = &run, .n_manifests = 1, .names = &names };
	struct content_id output;
	struct tier_pulled pulled;
	struct err err = { 0 };
	bool present[1];

	user_of(f, bucket, there, 'b', 0);
	put(f, "first", 0);
	put(f, "second", 2);
	put(f, "third", 2);
	digest_bytes(&key, sizeof(key), &run);
	assert_int_equal(store_put(f->s, STORE_RUN, &run, &key, sizeof(key), NULL), 0);
	assert_int_equal(store_sync(f->s, NULL), 0);
	assert_int_equal(store_unsent(f->s, &err), 0);
	user_of(f, bucket, here, 'r', 'a');
	if (tier_pull(f->s, &wanted, &pulled, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(pulled.missing, 0);
	for (unsigned i = 0; i < 3; i++) {
		struct digest name = key;

		if (i)
			action_observation_name(&key, i, &name);
		assert_int_equal(tier_has_here(f->s, STORE_ACTION, &name, 1, present, NULL), 0);
		assert_true(present[0]);
		content_id_of_bytes(i == 0   ? "first"
				    : i == 1 ? "second"
					     : "third",
				    i == 1 ? 6 : 5, &output);
		assert_int_equal(tier_has_here(f->s, STORE_BLOB, &output.digest, 1, present, NULL),
				 0);
		assert_true(present[0]);
	}
	store_free(TAKE_PTR(f->s));
	bucket_memory_forget("signed");
}

/* Puts a record whose log is then lost, and gives its bytes; `forge`: with this signature. */
static void put_without_log(struct fixture *f, const uint8_t *forge, struct str *ret)
{
	struct action_output out = { "o", blob(f, "output") };
	struct action_record a = record(&out);

	a.log = blob(f, "log");
	a.signature = forge;
	str_reset(ret);
	if (forge)
		action_encode(&a, ret);
	else
		action_encode_signed(f->s, &a, ret);
	assert_int_equal(f->s->ops->put(f->s, STORE_ACTION, &a.key, ret->s, ret->len, true, NULL),
			 0);
	assert_int_equal(store_delete(f->s, STORE_BLOB, &a.log.digest, NULL), 0);
}

/* Verifies; `want`: how many problems. True when the record is as it was. */
static bool verify_leaves(struct fixture *f, const struct str *was, int64_t want)
{
	struct digest key = { .b = { 7 } };
	_cleanup_(str_deinit) struct str is = { 0 };

	assert_int_equal(store_verify(f->s, NULL, NULL, NULL, NULL, NULL), want);
	assert_int_equal(store_get(f->s, STORE_ACTION, &key, MIB, &is, NULL), 0);
	return is.len == was->len && memcmp(is.s, was->s, is.len) == 0;
}

static bool believes(struct fixture *f, bool *ret_signed)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct digest key = { .b = { 7 } };
	struct action_record a;

	if (action_get(f->s, &key, arena, &a, NULL) < 0)
		return false;
	assert_int_equal(a.log.kind, CONTENT_NONE);
	*ret_signed = a.signature;
	return true;
}

static void verify_signs_nothing_of_others(void **state)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	uint8_t forged[SIGN_KEY_BYTES + SIGN_SIGNATURE_BYTES] = { 0 };
	struct fixture *f = *state;
	bool is_signed = false;

	user(f, 'a', 0);
	put_without_log(f, NULL, &bytes);
	user(f, 'b', 0); /* with a key of his own, and without */
	assert_true(verify_leaves(f, &bytes, 1));
	user(f, 0, 0);
	assert_true(verify_leaves(f, &bytes, 1));
	user(f, 'a', 0); /* its writer */
	assert_false(verify_leaves(f, &bytes, 1));
	assert_int_equal(store_verify(f->s, NULL, NULL, NULL, NULL, NULL), 0);
	user(f, 'r', 'a');
	assert_true(believes(f, &is_signed) && is_signed);

	user(f, 0, 0); /* an unsigned one stays so */
	put_without_log(f, NULL, &bytes);
	user(f, 'a', 0);
	assert_false(verify_leaves(f, &bytes, 1));
	assert_true(believes(f, &is_signed) && !is_signed);

	memcpy(forged, bytes.s, sizeof(forged)); /* with her key, but not by her */
	{
		_cleanup_(str_deinit) struct str path = { 0 };
		_cleanup_(sign_key_freep) struct sign_key *key = NULL;

		str_addf(&path, "%s/a-0/cairn/key", f->dir);
		assert_int_equal(sign_key_load(path.s, &key, NULL), 0);
		memcpy(forged, sign_key_public(key), SIGN_KEY_BYTES);
	}
	put_without_log(f, forged, &bytes);
	assert_true(verify_leaves(f, &bytes, 1));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(an_observation_that_is_not_believed), T(all_numbers_are_of_others),
		T(gaps_between_observations),           T(a_pull_of_what_others_signed),
		T(verify_signs_nothing_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
