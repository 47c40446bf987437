#include "run/project/store.h"
#include "base/text/text.h"
#include "record/manifest/manifest.h"
#include "storage/bucket/bucket.h"
#include "storage/origin/origin.h"

/* A user waits for these, less than a second unless packets are lost. One refusal may be an
 * accident. */
#define FIRST_TRIES 3

static struct bucket_options bucket_of(const struct config *c)
{
	return (struct bucket_options){
		.endpoint = c->store.options.endpoint,
		.region = c->store.options.region,
		.profile = c->store.options.profile,
		.ca_file = c->store.options.ca,
		.anonymous = c->store.options.anonymous,
		.style = str_eq(c->store.options.style, "path")      ? BUCKET_STYLE_PATH
			 : str_eq(c->store.options.style, "virtual") ? BUCKET_STYLE_VIRTUAL
								     : BUCKET_STYLE_AUTO,
	};
}

int run_try_store(const struct config *c, struct err *err)
{
	_cleanup_(str_deinit) struct str strings = { 0 };
	struct bucket_options o = bucket_of(c);
	struct bucket_object found;
	struct err why = { 0 };
	struct bucket *b;
	int r;

	if (!config_store_is_shared(c))
		return 0;
	o.tries = 2;
	o.max_connections = 1;
	if (bucket_open(c->store.uri, &o, &b, err) < 0)
		return -1;
	r = bucket_head(b, "version", &found, &strings, &why);
	bucket_free(b);
	if (r < 0 && why.code == ERR_NOT_FOUND)
		return 1;
	return r < 0 ? err_pass(err, &why) : 0;
}

/* For tests, which don't wait for hours. 0: not set. */
static int64_t test_duration(const char *name)
{
	const char *text = getenv(name);
	int64_t ns;

	return text && text_parse_duration(text, &ns, NULL) == 0 ? MAX(ns, 1) : 0;
}

int run_open_store(const struct config *c, bool create, struct store **ret, struct err *err)
{
	struct bucket_options bucket = bucket_of(c);
	/* Outputs of pods come through the store, even when the cache is off. */
	bool is_off = str_eq(c->store.cache, "off") && !str_eq(c->runner, "kubernetes");
	struct store_options o = {
		.local = c->store.local,
		.cache_max = c->store.cache_bytes,
		.mode = is_off                                ? STORE_OFF
			: str_eq(c->store.cache, "read-only") ? STORE_READ_ONLY
							      : STORE_READ_WRITE,
		.bucket = &bucket,
		.names = &manifest_names,
		.lease_ns = test_duration("CAIRN_TEST_LEASE"),
		.mark_gap_ns = test_duration("CAIRN_TEST_MARK_GAP"),
	};

	/* Nobody waits for a run of `cairn serve`: it has the patience of a store in use. */
	bucket.first_tries = getenv("CAIRN_SERVED") ? 0 : FIRST_TRIES;
	if (store_open_with(c->store.uri, &o, create, ret, err) < 0)
		return -1;
	bucket.first_tries = 0;
	store_set_origins(*ret, &bucket);
	return create ? store_attach(*ret, err) : 0;
}
