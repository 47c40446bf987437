/* storage/action.c — encodes, signs, publishes and reads action records.
 *
 * The first record of a key is the object of that name in the action space. Observations beside it
 * are named by SHA-256 of ("observation", key, number), numbered from 1. gc and verify leave gaps
 * in the numbers when they remove one. A reader of all observations stops after ACTION_GAP_MAX
 * missing numbers, because in a bucket each try costs a request.
 *
 * A record ends with the digest of its bytes, because its name isn't their digest. A signed record
 * has its signature before that digest. Three formats are read (action/1 has no digest), and two
 * are written.
 *
 * Puts don't replace. If two engines publish at once, both see the first record, and the later one
 * compares its outputs with it. A first record that is damaged or not believed is replaced.
 */
#include "storage/action.h"
#include <assert.h>
#include "storage/internal.h"
#include "storage/signature.h"

/* The name of a record isn't the digest of its bytes, so the record carries it. Format 1 has no
 * digest, and is still read. Format 3 is format 2 with a signature before the digest. */
#define MAGIC        "cairn-action/2\n"
#define MAGIC_FIRST  "cairn-action/1\n"
#define MAGIC_SIGNED "cairn-action/3\n"
#define MAGIC_LEN    (sizeof(MAGIC) - 1)

#define ACTION_GAP_MAX 3   /* largest gap of unused numbers between two observations */
#define EXPECT_AT_ONCE 256 /* keys whose records are fetched in one batch */

static void add_id(struct str *out, const struct content_id *id)
{
	str_addc(out, (char)id->kind);
	str_add_u64(out, id->size_bytes);
	str_addn(out, id->digest.b, DIGEST_BYTES);
}

static void add_text(struct str *out, const char *s)
{
	str_add_field(out, s ? s : "", s ? strlen(s) : 0);
}

static void add_body(const struct action_record *r, const char *magic, struct str *ret)
{
	str_addn(ret, magic, MAGIC_LEN);
	str_addn(ret, r->key.b, DIGEST_BYTES);
	add_id(ret, &r->key_record);
	add_id(ret, &r->metrics);
	add_id(ret, &r->log);
	str_add_u64(ret, (uint64_t)r->started_ns);
	str_add_u64(ret, (uint64_t)r->ended_ns);
	add_text(ret, r->run_id);
	add_text(ret, r->task);
	add_text(ret, r->node);
	str_add_u32(ret, (uint32_t)r->n_outputs);
	for (size_t i = 0; i < r->n_outputs; i++) {
		add_text(ret, r->outputs[i].name);
		add_id(ret, &r->outputs[i].id);
	}
}

void action_encode(const struct action_record *r, struct str *ret)
{
	struct digest sum;
	size_t from = ret->len;

	add_body(r, r->signature ? MAGIC_SIGNED : MAGIC, ret);
	if (r->signature)
		str_addn(ret, r->signature, SIGNATURE_BYTES);
	digest_bytes(ret->s + from, ret->len - from, &sum);
	str_addn(ret, sum.b, DIGEST_BYTES);
}

void action_encode_signed(const struct store *s, const struct action_record *r, struct str *ret)
{
	_cleanup_(str_deinit) struct str body = { 0 };
	struct action_record with = *r;
	uint8_t signature[SIGNATURE_BYTES];

	add_body(r, MAGIC_SIGNED, &body);
	with.signature =
		signature_make(s, STORE_ACTION, body.s, body.len, signature) ? signature : NULL;
	action_encode(&with, ret);
}

int action_believe(struct store *s, const struct digest *name, const void *bytes, size_t n,
		   const struct action_record *r, struct err *err)
{
	size_t behind = r->signature ? SIGNATURE_BYTES + DIGEST_BYTES : 0;

	assert(n >= behind);
	return signature_check(s, STORE_ACTION, name, bytes, n - behind, r->signature, err);
}

bool action_is_own(const struct store *s, const void *bytes, size_t n,
		   const struct action_record *r)
{
	assert(n >= SIGNATURE_BYTES + DIGEST_BYTES);
	return r->signature && signature_is_own(s, STORE_ACTION, bytes,
						n - SIGNATURE_BYTES - DIGEST_BYTES, r->signature);
}

/* Checks the digest at the end, and reduces *n to the bytes before the digest and the signature.
 * False when the digest is wrong. */
static bool check_sum(const void *bytes, size_t *n, const uint8_t **ret_signature)
{
	struct digest sum;
	bool is_signed;

	*ret_signature = NULL;
	if (*n >= MAGIC_LEN && memcmp(bytes, MAGIC_FIRST, MAGIC_LEN) == 0)
		return true;
	is_signed =
		*n >= MAGIC_LEN + SIGNATURE_BYTES && memcmp(bytes, MAGIC_SIGNED, MAGIC_LEN) == 0;
	if (*n < MAGIC_LEN + DIGEST_BYTES || (!is_signed && memcmp(bytes, MAGIC, MAGIC_LEN) != 0))
		return false;
	*n -= DIGEST_BYTES;
	digest_bytes(bytes, *n, &sum);
	if (memcmp(sum.b, (const uint8_t *)bytes + *n, DIGEST_BYTES) != 0)
		return false;
	if (is_signed && *n < MAGIC_LEN + SIGNATURE_BYTES)
		return false;
	if (is_signed) {
		*n -= SIGNATURE_BYTES;
		*ret_signature = (const uint8_t *)bytes + *n;
	}
	return true;
}

struct reader {
	const uint8_t *at, *end;
	bool bad;
};

static const uint8_t *take(struct reader *r, size_t n)
{
	static const uint8_t zeros[64];
	const uint8_t *p = r->at;

	if (r->bad || (size_t)(r->end - r->at) < n) {
		r->bad = true;
		return zeros;
	}
	r->at += n;
	return p;
}

static uint64_t take_uint(struct reader *r, size_t n)
{
	const uint8_t *p = take(r, n);

	assert(n == 4 || n == 8);
	return n == 4 ? get_le32(p) : get_le64(p);
}

static void take_id(struct reader *r, struct content_id *ret)
{
	ret->kind = *take(r, 1);
	ret->size_bytes = take_uint(r, 8);
	memcpy(ret->digest.b, take(r, DIGEST_BYTES), DIGEST_BYTES);
	r->bad |= ret->kind > CONTENT_KIND_MAX;
}

static const char *take_text(struct reader *r, struct arena *arena)
{
	size_t n = (size_t)take_uint(r, 4);

	if (r->bad || (size_t)(r->end - r->at) < n || memchr(r->at, '\0', n)) {
		r->bad = true;
		return "";
	}
	r->at += n;
	return arena_strndup(arena, (const char *)r->at - n, n);
}

int action_decode(const void *bytes, size_t n, struct arena *arena, struct action_record *ret,
		  struct err *err)
{
	const uint8_t *signature;
	bool sound = check_sum(bytes, &n, &signature);
	struct reader r = { bytes, (const uint8_t *)bytes + n, !sound };
	struct action_record a = { 0 };

	take(&r, MIN(n, MAGIC_LEN));
	memcpy(a.key.b, take(&r, DIGEST_BYTES), DIGEST_BYTES);
	take_id(&r, &a.key_record);
	take_id(&r, &a.metrics);
	take_id(&r, &a.log);
	a.started_ns = (int64_t)take_uint(&r, 8);
	a.ended_ns = (int64_t)take_uint(&r, 8);
	a.run_id = take_text(&r, arena);
	a.task = take_text(&r, arena);
	a.node = take_text(&r, arena);
	a.n_outputs = (size_t)take_uint(&r, 4);
	if (r.bad || a.n_outputs > ACTION_OUTPUTS_MAX || a.n_outputs > n)
		return err_set(err, ERR_CORRUPT, "an action record is damaged");
	a.outputs = arena_alloc(arena, (a.n_outputs + 1) * sizeof(*a.outputs));
	for (size_t i = 0; i < a.n_outputs && !r.bad; i++) {
		a.outputs[i].name = take_text(&r, arena);
		take_id(&r, &a.outputs[i].id);
		r.bad |= a.outputs[i].id.kind == CONTENT_NONE || !*a.outputs[i].name ||
			 (i && strcmp(a.outputs[i - 1].name, a.outputs[i].name) >= 0);
	}
	if (r.bad || r.at != r.end)
		return err_set(err, ERR_CORRUPT, "an action record is damaged");
	if (signature)
		a.signature = arena_memdup(arena, signature, SIGNATURE_BYTES);
	*ret = a;
	return 0;
}

/* Reads a record without checking who signed it. *bytes: the whole record. */
static int read_named(struct store *s, const struct digest *name, struct arena *arena,
		      struct str *bytes, struct action_record *ret, struct err *err)
{
	if (store_get(s, STORE_ACTION, name, ACTION_RECORD_MAX, bytes, err) < 0)
		return -1;
	return action_decode(bytes->s ? bytes->s : "", bytes->len, arena, ret, err);
}

static int of_key(const struct action_record *a, const struct digest *key, struct err *err)
{
	return digest_eq(&a->key, key)
		       ? 0
		       : err_set(err, ERR_CORRUPT, "an action record belongs to another key");
}

static int get_named(struct store *s, const struct digest *name, const struct digest *key,
		     struct arena *arena, struct action_record *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };

	if (read_named(s, name, arena, &bytes, ret, err) < 0 || of_key(ret, key, err) < 0)
		return -1;
	return action_believe(s, name, bytes.s, bytes.len, ret, err);
}

/* Tells whether a read error means that the object is unusable for everybody. */
static bool is_damaged(const struct err *e)
{
	return e->code == ERR_CORRUPT || e->code == ERR_TOO_LARGE;
}

int action_get(struct store *s, const struct digest *key, struct arena *arena,
	       struct action_record *ret, struct err *err)
{
	return get_named(s, key, key, arena, ret, err);
}

void action_observation_name(const struct digest *key, unsigned number, struct digest *ret)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	str_add_field(&text, "observation", 11);
	str_addn(&text, key->b, DIGEST_BYTES);
	str_add_u32(&text, number);
	digest_bytes(text.s, text.len, ret);
}

/* Object name of a record. Number 0: the key's first record. */
static void action_name(const struct digest *key, unsigned number, struct digest *ret)
{
	if (number)
		action_observation_name(key, number, ret);
	else
		*ret = *key;
}

static bool same_outputs(const struct action_record *a, const struct action_record *b)
{
	if (a->n_outputs != b->n_outputs)
		return false;
	for (size_t i = 0; i < a->n_outputs; i++)
		if (strcmp(a->outputs[i].name, b->outputs[i].name) != 0 ||
		    !content_id_eq(&a->outputs[i].id, &b->outputs[i].id))
			return false;
	return true;
}

static int put_record(struct store *s, const struct digest *name, const struct action_record *r,
		      bool replace, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };

	action_encode_signed(s, r, &bytes);
	if (store_check_size(STORE_ACTION, bytes.len, err) < 0)
		return -1;
	return s->ops->put(s, STORE_ACTION, name, bytes.s, bytes.len, replace, err);
}

/* Returns 1 when an observation has these outputs, 2 when it was added as a new one. A number that
 * another engine took meanwhile, or whose record this user doesn't believe, keeps its record. So
 * each number is read, then tried, then read once more. */
static int add_observation(struct store *s, const struct action_record *r, struct arena *arena,
			   struct err *err)
{
	for (unsigned i = 1; i <= ACTION_OBSERVATIONS_MAX; i++) {
		struct action_record seen;
		struct err e = { 0 };
		struct digest name;
		int got, put;

		action_observation_name(&r->key, i, &name);
		got = get_named(s, &name, &r->key, arena, &seen, &e);
		if (got < 0 && e.code != ERR_NOT_FOUND && !is_damaged(&e))
			return err_pass(err, &e);
		if (got < 0) {
			put = put_record(s, &name, r, is_damaged(&e), err);
			if (put != 1)
				return put < 0 ? -1 : 2;
			got = get_named(s, &name, &r->key, arena, &seen, NULL);
		}
		if (got == 0 && same_outputs(&seen, r))
			return 1;
	}
	return 2;
}

/* Never write what readers refuse. */
static int check_outputs(const struct action_record *r, struct err *err)
{
	if (r->n_outputs <= ACTION_OUTPUTS_MAX)
		return 0;
	return err_set(
		err, ERR_TOO_LARGE,
		"task %s has %zu outputs; a record keeps %d at most: put them into a directory",
		r->task, r->n_outputs, ACTION_OUTPUTS_MAX);
}

int action_put(struct store *s, const struct action_record *r, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = NULL;
	struct action_record first;
	struct err e = { 0 };
	int put = check_outputs(r, err) < 0 ? -1 : put_record(s, &r->key, r, false, err);

	if (put <= 0)
		return put;
	arena = arena_new();
	if (action_get(s, &r->key, arena, &first, &e) < 0) {
		if (is_damaged(&e) || e.code == ERR_NOT_FOUND)
			return action_replace(s, r, err);
		if (err)
			*err = e;
		return -1;
	}
	if (same_outputs(&first, r))
		return 1;
	return add_observation(s, r, arena, err);
}

int action_prepare(struct store *s, const struct action_record *r, struct str *ret, struct err *err)
{
	bool there;

	if (check_outputs(r, err) < 0 ||
	    store_has_object(s, STORE_ACTION, &r->key, UINT64_MAX, &there, err) < 0)
		return -1;
	if (there)
		return 1;
	action_encode_signed(s, r, ret);
	return 0;
}

int action_replace(struct store *s, const struct action_record *r, struct err *err)
{
	return check_outputs(r, err) < 0 || put_record(s, &r->key, r, true, err) < 0 ? -1 : 0;
}

int action_observations(struct store *s, const struct digest *key, struct arena *arena,
			struct action_record **ret, struct digest **ret_names, size_t *ret_n,
			struct err *err)
{
	struct action_record *v = arena_alloc(arena, (ACTION_OBSERVATIONS_MAX + 1) * sizeof(*v));
	struct digest *names = arena_alloc(arena, (ACTION_OBSERVATIONS_MAX + 1) * sizeof(*names));
	unsigned absent = 0;
	size_t n = 0;

	for (unsigned i = 0; i <= ACTION_OBSERVATIONS_MAX && absent <= ACTION_GAP_MAX; i++) {
		_cleanup_(str_deinit) struct str bytes = { 0 };
		struct err e = { 0 };

		action_name(key, i, &names[n]);
		if (read_named(s, &names[n], arena, &bytes, &v[n], &e) == 0 &&
		    of_key(&v[n], key, &e) == 0)
			n++;
		else if (e.code != ERR_NOT_FOUND && !is_damaged(&e))
			return err_pass(err, &e);
		absent = i && e.code == ERR_NOT_FOUND ? absent + 1 : 0;
	}
	*ret = v;
	*ret_names = names;
	*ret_n = n;
	return 0;
}

void action_expect(struct store *s, const struct digest *keys, size_t n)
{
	struct digest names[EXPECT_AT_ONCE * (ACTION_GAP_MAX + 2)];

	for (size_t from = 0; from < n && store_is_shared(s); from += EXPECT_AT_ONCE) {
		size_t m = 0;

		for (size_t k = from; k < MIN(n, from + EXPECT_AT_ONCE); k++)
			for (unsigned i = 0; i < ACTION_GAP_MAX + 2; i++)
				action_name(&keys[k], i, &names[m++]);
		store_expect(s, STORE_ACTION, names, m);
	}
}
