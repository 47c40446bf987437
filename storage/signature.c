/* storage/signature.c — signs records, and decides whether a record is believed.
 *
 * signature_set_up() reads the user's key and the writers that he trusts for this store, once, when
 * the store is opened. message() makes the signed bytes. They include the store's URI and the
 * space, so that a signature holds for only one store and space.
 *
 * If no writers are configured, every record is believed. Otherwise the user's own key counts as a
 * writer too. A record that isn't believed counts as absent; its name goes into `ignored`, so that
 * it is counted once.
 *
 * Threads: s->lock guards `ignored`. The key and the writers stay as set_up made them, except that
 * signature_believe_all() empties the writers. gc calls it before it marks.
 */
#include "storage/signature.h"
#include <assert.h>
#include "base/crypto/base64.h"
#include "base/crypto/trust.h"
#include "storage/internal.h"

struct signing {
	struct sign_key *key; /* or NULL */
	VEC(uint8_t) writers; /* SIGN_KEY_BYTES each; none: everybody is believed */
	struct digest_set *ignored;
};

static int add_writer(void *arg, const char *text, size_t n, struct err *err)
{
	struct signing *g = arg;
	uint8_t key[SIGN_KEY_BYTES];

	if (!sign_parse_public(text, n, key))
		return err_set(err, ERR_INVALID,
			       "`%.*s` isn't a writer's public key (ed25519:…); `cairn doctor` "
			       "shows yours",
			       (int)MIN(n, (size_t)80), text);
	for (size_t i = 0; i < sizeof(key); i++)
		VEC_PUSH(&g->writers, key[i]);
	return 0;
}

int signature_set_up(struct store *s, struct err *err)
{
	_cleanup_(freep) char *path = trust_config_path("key");
	struct signing *g = xcalloc(1, sizeof(*g));
	struct err why = { 0 };

	assert(!s->signing);
	s->signing = g;
	g->ignored = digest_set_new();
	if (trust_each_writer(s->uri, add_writer, g, err) < 0)
		return -1;
	if (path && sign_key_load(path, &g->key, &why) < 0 && why.code != ERR_NOT_FOUND)
		return err_pass(err, &why);
	for (size_t i = 0; g->key && g->writers.n && i < SIGN_KEY_BYTES; i++)
		VEC_PUSH(&g->writers, sign_key_public(g->key)[i]);
	return 0;
}

void signature_tear_down(struct store *s)
{
	if (!s->signing)
		return;
	sign_key_free(s->signing->key);
	digest_set_free(s->signing->ignored);
	VEC_FREE(&s->signing->writers);
	free(s->signing);
	s->signing = NULL;
}

static void message(const struct store *s, enum store_space space, const void *bytes, size_t n,
		    struct str *out)
{
	size_t len = strlen(s->uri);

	while (len > 1 && s->uri[len - 1] == '/')
		len--;
	str_add_field(out, "cairn-signature/1", strlen("cairn-signature/1"));
	str_add_field(out, s->uri, len);
	str_add_field(out, store_space_names[space], strlen(store_space_names[space]));
	str_add_field(out, bytes, n);
}

bool signature_make(const struct store *s, enum store_space space, const void *bytes, size_t n,
		    uint8_t ret[SIGNATURE_BYTES])
{
	_cleanup_(str_deinit) struct str text = { 0 };

	if (!s->signing || !s->signing->key)
		return false;
	message(s, space, bytes, n, &text);
	memcpy(ret, sign_key_public(s->signing->key), SIGN_KEY_BYTES);
	sign_bytes(s->signing->key, text.s, text.len, ret + SIGN_KEY_BYTES);
	return true;
}

static bool holds(const struct store *s, enum store_space space, const void *bytes, size_t n,
		  const uint8_t signature[SIGNATURE_BYTES])
{
	_cleanup_(str_deinit) struct str text = { 0 };

	message(s, space, bytes, n, &text);
	return sign_verify(signature, text.s, text.len, signature + SIGN_KEY_BYTES);
}

bool signature_is_own(const struct store *s, enum store_space space, const void *bytes, size_t n,
		      const uint8_t signature[SIGNATURE_BYTES])
{
	return s->signing && s->signing->key &&
	       memcmp(sign_key_public(s->signing->key), signature, SIGN_KEY_BYTES) == 0 &&
	       holds(s, space, bytes, n, signature);
}

bool signature_is_wanted(const struct store *s)
{
	return s->signing && s->signing->writers.n;
}

int signature_check(struct store *s, enum store_space space, const struct digest *name,
		    const void *bytes, size_t n, const uint8_t *signature, struct err *err)
{
	static const char *const what[STORE_SPACES] = { [STORE_ACTION] = "a task's record",
							[STORE_RUN] = "the run",
							[STORE_TAG] = "the name" };

	bool known = false;

	assert(what[space]); /* contents aren't signed */
	if (!signature_is_wanted(s))
		return 0;
	for (size_t i = 0; signature && i < s->signing->writers.n; i += SIGN_KEY_BYTES)
		known |= memcmp(s->signing->writers.v + i, signature, SIGN_KEY_BYTES) == 0;
	if (known && holds(s, space, bytes, n, signature))
		return 0;
	pthread_mutex_lock(&s->lock);
	digest_set_add(s->signing->ignored, name);
	pthread_mutex_unlock(&s->lock);
	return err_set(err, ERR_NOT_FOUND,
		       "%s isn't signed by any writer that ~/.config/cairn/trust lists for %s",
		       what[space], s->uri);
}

/* All members but the signature, as canonical JSON. */
static void canonical(const json_t *record, struct str *out)
{
	json_t *rest = json_copy((json_t *)(uintptr_t)record);

	json_object_del(rest, "signature");
	json_add_canonical(out, rest);
	json_decref(rest);
}

void signature_make_json(const struct store *s, enum store_space space, json_t *record)
{
	_cleanup_(str_deinit) struct str bytes = { 0 }, text = { 0 };
	uint8_t signature[SIGNATURE_BYTES];

	if (!s->signing || !s->signing->key)
		return;
	canonical(record, &bytes);
	signature_make(s, space, bytes.s, bytes.len, signature);
	base64_add(&text, signature, sizeof(signature));
	json_object_set_new(record, "signature", json_stringn(text.s, text.len));
}

int signature_check_json(struct store *s, enum store_space space, const struct digest *name,
			 const json_t *record, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 }, raw = { 0 };
	const char *text = json_string_value(json_object_get(record, "signature"));
	bool has = text && base64_decode(&raw, text, strlen(text), NULL) == 0 &&
		   raw.len == SIGNATURE_BYTES;

	if (!signature_is_wanted(s))
		return 0;
	canonical(record, &bytes);
	return signature_check(s, space, name, bytes.s, bytes.len, has ? (uint8_t *)raw.s : NULL,
			       err);
}

void signature_believe_all(struct store *s)
{
	if (s->signing)
		s->signing->writers.n = 0;
}

size_t signature_n_ignored(struct store *s)
{
	size_t n = 0;

	if (!s->signing)
		return 0;
	pthread_mutex_lock(&s->lock);
	n = digest_set_len(s->signing->ignored);
	pthread_mutex_unlock(&s->lock);
	return n;
}
