/* storage/bucket/gcs/object.c — reads, lists and deletes objects of Google Cloud Storage, and
 * probes what the service can do.
 *
 * A get goes through ranged.c, whose request() is here. Versions are generations; an ETag in quotes
 * is accepted too, because other stores have nothing else. A conditional deletion first reads the
 * version, because emulators ignore the condition.
 *
 * A page of a listing has separate lists of objects and prefixes; page_objects() merges them in
 * order.
 */
#include "storage/bucket/gcs/client.h"

#include <stdio.h>
#include "base/text/json.h"
#include "storage/bucket/ranged.h"

/* Get. */

static void note_facts(const struct gcs_call *c, struct ranged_part *p)
{
	_cleanup_(freep) char *generation =
		transfer_header(&c->reply, "x-goog-generation", sizeof(p->etag) - 1);
	_cleanup_(freep) char *etag = transfer_header(&c->reply, "ETag", sizeof(p->etag) - 1);
	_cleanup_(freep) char *encoding = transfer_header(
		&c->reply, "x-goog-meta-" GCS_ENCODING_KEY, sizeof(p->encoding) - 1);
	_cleanup_(freep) char *type = transfer_header(&c->reply, "Content-Type", 64);
	const char *e = encoding ? encoding
			: type && str_has_prefix(type, GCS_ENCODED_TYPE)
				? type + strlen(GCS_ENCODED_TYPE)
				: "";

	snprintf(p->etag, sizeof(p->etag), "%s", generation ? generation : etag ? etag : "");
	snprintf(p->encoding, sizeof(p->encoding), "%.*s", (int)sizeof(p->encoding) - 1, e);
}

static int request(void *store, const struct bucket_get *get, struct ranged_part *p,
		   struct err *err)
{
	struct gcs *g = store;
	_cleanup_(freep) char *range = p->range ? xasprintf("Range: %s", p->range) : NULL;
	_cleanup_(freep) char *match = get->version && *get->version == '"'
					       ? xasprintf("If-Match: %s", get->version)
					       : NULL;
	const char *headers[3] = { 0 };
	struct gcs_call c = { .method = "GET",
			      .key = get->key,
			      .headers = headers,
			      .body_fd = -1,
			      .max_bytes = UINT64_MAX,
			      .sink = p->sink,
			      .piece_bytes = p->piece_bytes,
			      .rewind = p->rewind,
			      .check = p->check,
			      .arg = p };
	struct str url = { 0 };
	size_t n = 0;
	int r;

	gcs_object_url(g, get->key, &url);
	gcs_add_param(&url, "alt", "media");
	if (range)
		headers[n++] = range;
	if (match)
		headers[n++] = match;
	else if (get->version && *get->version)
		gcs_add_param(&url, "generation", get->version);
	c.url = url.s;
	p->reply = &c.reply;
	r = gcs_send(g, &c, err);
	if (r < 0 && gcs_status(&c) == 416)
		r = 1;
	if (r == 0)
		note_facts(&c, p);
	gcs_call_deinit(&c);
	str_deinit(&url);
	return r;
}

int gcs_get_many(struct bucket *b, struct bucket_get *const *v, size_t n, struct err *err)
{
	struct gcs *g = CONTAINER_OF(b, struct gcs, base);
	struct ranged ranged = { .request = request, .store = g, .no_ranges = &g->no_ranges };
	_cleanup_(freep) char *token = NULL;

	if (g->tokens && token_get(g->tokens, NULL, &token, err) < 0) {
		for (size_t i = 0; i < n; i++)
			v[i]->result = err_set(&v[i]->err, ERR_INVALID, "no credentials");
		return -1;
	}
	ranged_get_many(&ranged, transfer_threads(g->transfer), v, n);
	return 0;
}

/* Head. */

int gcs_resource(struct gcs *g, const char *key, struct gcs_object *ret, json_t **ret_json,
		 struct err *err)
{
	struct gcs_call c = { .method = "GET", .key = key, .body_fd = -1 };
	struct str url = { 0 };
	int r;

	gcs_object_url(g, key, &url);
	c.url = url.s;
	r = gcs_send(g, &c, err);
	if (r == 0)
		r = json_parse("an object's resource", c.reply.reply.body.s, c.reply.reply.body.len,
			       ret_json, err);
	if (r == 0 && (r = gcs_read_object(*ret_json, ret, err)) < 0) {
		json_decref(*ret_json);
		*ret_json = NULL;
	}
	gcs_call_deinit(&c);
	str_deinit(&url);
	return r;
}

int gcs_head(struct bucket *b, const char *key, struct bucket_object *ret, struct str *strings,
	     struct err *err)
{
	struct gcs_object o;
	json_t *j = NULL;
	size_t etag, version, encoding;

	if (gcs_resource(CONTAINER_OF(b, struct gcs, base), key, &o, &j, err) < 0)
		return -1;
	etag = bucket_add_string(strings, o.etag);
	version = bucket_add_string(strings, o.generation);
	encoding = bucket_add_string(strings, o.encoding);
	*ret = (struct bucket_object){ .key = key,
				       .size = o.size,
				       .mtime_ns = o.mtime_ns,
				       .etag = strings->s + etag,
				       .version = strings->s + version,
				       .encoding = strings->s + encoding };
	json_decref(j);
	return 0;
}

struct batch {
	struct gcs *g;
	const char *const *keys;
	bool *there;
	uint64_t *sizes;
};

static int head_one(void *arg, size_t i, struct err *err)
{
	struct batch *b = arg;
	struct gcs_object o = { 0 };
	struct err e = { 0 };
	json_t *j = NULL;
	bool there = gcs_resource(b->g, b->keys[i], &o, &j, &e) == 0;

	b->there[i] = there;
	if (b->sizes)
		b->sizes[i] = there ? o.size : 0;
	json_decref(j);
	return there || e.code == ERR_NOT_FOUND ? 0 : err_pass(err, &e);
}

int gcs_head_many(struct bucket *b, const char *const *keys, size_t n, bool *ret_there,
		  uint64_t *ret_sizes, struct err *err)
{
	struct batch batch = { .g = CONTAINER_OF(b, struct gcs, base),
			       .keys = keys,
			       .there = ret_there,
			       .sizes = ret_sizes };

	return work_each(transfer_threads(batch.g->transfer), n, true, head_one, &batch, err);
}

/* Delete. */

int gcs_delete(struct gcs *g, const char *key, const char *generation, struct err *err)
{
	struct gcs_call c = { .method = "DELETE", .key = key, .body_fd = -1 };
	struct str url = { 0 };
	struct err why = { 0 };
	int r;

	gcs_object_url(g, key, &url);
	if (generation)
		gcs_add_param(&url, "ifGenerationMatch", generation);
	c.url = url.s;
	r = gcs_send(g, &c, &why);
	if (r < 0 && gcs_status(&c) == 404)
		r = generation && !c.maybe_applied ? 1 : 0;
	else if (r < 0 && gcs_status(&c) == 412)
		r = 1;
	if (r < 0 && err)
		*err = why;
	gcs_call_deinit(&c);
	str_deinit(&url);
	return r;
}

static int delete_one(void *arg, size_t i, struct err *err)
{
	struct batch *b = arg;

	return gcs_delete(b->g, b->keys[i], NULL, err);
}

int gcs_delete_many(struct bucket *b, const char *const *keys, size_t n, struct err *err)
{
	struct batch batch = { .g = CONTAINER_OF(b, struct gcs, base), .keys = keys };

	return work_each(transfer_threads(batch.g->transfer), n, true, delete_one, &batch, err);
}

/* `version`: a generation, or an ETag in quotes, as other stores have. Reads the version first,
 * because emulators ignore the condition. */
int gcs_delete_if(struct bucket *b, const char *key, const char *version, struct err *err)
{
	struct gcs *g = CONTAINER_OF(b, struct gcs, base);
	struct gcs_object o;
	struct err why = { 0 };
	json_t *j = NULL;
	int r = gcs_resource(g, key, &o, &j, &why);

	if (r < 0 && why.code == ERR_NOT_FOUND)
		return 1;
	if (r == 0)
		r = str_eq(*version == '"' ? o.etag : o.generation, version)
			    ? gcs_delete(g, key, o.generation, err)
			    : 1;
	else if (err)
		*err = why;
	json_decref(j);
	return r;
}

/* List. */

static int compare_objects(const void *a, const void *b)
{
	const struct bucket_object *x = a, *y = b;

	return strcmp(x->key, y->key);
}

/* Objects and common prefixes of a page, in order. The keys are borrowed from j. */
static int page_objects(const json_t *j, struct bucket_object **ret, size_t *ret_n, struct err *err)
{
	json_t *items = json_object_get(j, "items"), *prefixes = json_object_get(j, "prefixes"), *v;
	struct bucket_object *o =
		xcalloc(json_array_size(items) + json_array_size(prefixes) + 1, sizeof(*o));
	size_t i, n = 0;
	struct gcs_object x;

	*ret = o;
	json_array_foreach(items, i, v)
	{
		if (gcs_read_object(v, &x, err) < 0)
			return -1;
		o[n++] = (struct bucket_object){ .key = x.name,
						 .size = x.size,
						 .mtime_ns = x.mtime_ns,
						 .version = x.generation,
						 .etag = x.etag,
						 .encoding = "" };
	}
	json_array_foreach(prefixes, i, v)
	{
		if (!json_is_string(v))
			return err_set(err, ERR_CORRUPT, "listing: a prefix is no string");
		o[n++] = (struct bucket_object){
			.key = json_string_value(v), .version = "", .etag = "", .encoding = ""
		};
	}
	if (n)
		qsort(o, n, sizeof(*o), compare_objects);
	*ret_n = n;
	return 0;
}

struct listing {
	struct gcs *g;
	const struct bucket_listing *asked;
	char *token, *last; /* of the previous page */
};

/* An empty listing has a `kind`. Other JSON, such as an error with a success status, would else
 * look like an empty listing. */
static bool is_listing(const json_t *j)
{
	static const char *const fields[] = { "kind", "items", "prefixes", "nextPageToken" };
	bool any = false;

	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		any = any || json_object_get(j, fields[i]);
	return any && !json_object_get(j, "error");
}

static int read_page(struct listing *l, json_t **ret, struct err *err)
{
	struct gcs_call c = { .method = "GET", .body_fd = -1, .max_bytes = 32 * MIB };
	struct str url = { 0 };
	int r;

	gcs_object_url(l->g, NULL, &url);
	gcs_add_param(&url, "prefix", l->asked->prefix);
	gcs_add_param(&url, "fields",
		      "kind,prefixes,nextPageToken,items(name,size,updated,generation,etag)");
	if (l->asked->delimiter)
		gcs_add_param(&url, "delimiter", (const char[]){ l->asked->delimiter, '\0' });
	if (l->asked->start_after)
		gcs_add_param(&url, "startOffset", l->asked->start_after);
	if (l->token)
		gcs_add_param(&url, "pageToken", l->token);
	c.url = url.s;
	r = gcs_send(l->g, &c, err);
	if (r == 0)
		r = json_parse("listing", c.reply.reply.body.s, c.reply.reply.body.len, ret, err);
	if (r == 0 && !is_listing(*ret)) {
		json_decref(*ret);
		r = err_set(err, ERR_CORRUPT, "listing gs://%s: the answer is no listing",
			    l->g->base.name);
	}
	gcs_call_deinit(&c);
	str_deinit(&url);
	return r;
}

/* Lists one page; sets l->token to the next page's. */
static int list_page(struct listing *l, struct err *err)
{
	struct bucket_object *v = NULL;
	const char *token = "";
	json_t *j = NULL;
	size_t n = 0;
	int r = read_page(l, &j, err);

	if (r < 0)
		return -1;
	r = json_get_str_opt(j, "nextPageToken", "", &token, err);
	if (r == 0)
		r = page_objects(j, &v, &n, err);
	/* A page may be empty, and still have a next page. */
	if (r == 0 && *token &&
	    (str_eq(token, l->token) || (n && l->last && strcmp(v[n - 1].key, l->last) <= 0)))
		r = err_set(err, ERR_CORRUPT, "listing gs://%s: the server repeats itself",
			    l->g->base.name);
	if (r == 0 && n) {
		free(l->last);
		l->last = xstrdup(v[n - 1].key);
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		if (!(l->asked->start_after && strcmp(v[i].key, l->asked->start_after) <= 0))
			r = l->asked->fn(l->asked->arg, &v[i]);
	free(l->token);
	l->token = r == 0 && *token ? xstrdup(token) : NULL;
	free(v);
	json_decref(j);
	return r;
}

int gcs_list(struct bucket *b, const struct bucket_listing *asked, struct err *err)
{
	struct listing l = { .g = CONTAINER_OF(b, struct gcs, base), .asked = asked };
	int r;

	do
		r = list_page(&l, err);
	while (r == 0 && l.token);
	free(l.token);
	free(l.last);
	return r;
}

/* Probe. */

/* Our clock minus the server's, from an answer's Date. */
static int64_t skew(struct gcs *g, const char *key)
{
	struct gcs_call c = { .method = "GET", .key = key, .body_fd = -1 };
	struct clock *clock = clock_system();
	struct str url = { 0 };
	int64_t d = 0;

	gcs_object_url(g, key, &url);
	c.url = url.s;
	if (gcs_send(g, &c, NULL) == 0 && c.server_ns)
		d = clock->wall_ns(clock) - c.server_ns;
	gcs_call_deinit(&c);
	str_deinit(&url);
	return llabs(d) < 2 * NS_PER_S ? 0 : d; /* the header has whole seconds */
}

int gcs_probe(struct bucket *b, struct bucket_abilities *ret, struct err *err)
{
	struct gcs *g = CONTAINER_OF(b, struct gcs, base);
	_cleanup_(freep) char *key = bucket_probe_key(b);
	struct bucket_put p = {
		.key = key, .bytes = "probe ok", .size = 8, .fd = -1, .if_absent = true
	};
	struct bucket_put *puts[] = { &p };
	struct bucket_get get = { .key = key, .offset = 2, .size = 2, .fd = -1 };
	struct bucket_get *gets[] = { &get };

	if (gcs_put_many(b, puts, 1, err) < 0)
		return -1;
	if (p.result < 0) {
		if (err)
			*err = p.err;
		return -1;
	}
	gcs_put_many(b, puts, 1, NULL);
	ret->if_absent = p.result == 1;
	ret->checks_body = true; /* we check: the CRC-32C of the stored object */
	gcs_get_many(b, gets, 1, NULL);
	ret->ranges = get.result == 0 && get.n == 2 && !g->no_ranges;
	str_deinit(&get.body);
	ret->delete_if = gcs_delete(g, key, "1", NULL) == 1;
	ret->clock_skew_ns = skew(g, key);
	gcs_delete(g, key, NULL, NULL);
	return 0;
}
