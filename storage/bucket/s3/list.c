/* storage/bucket/s3/list.c — lists objects (version 2) and uploads, page by page.
 *
 * Names are percent-encoded (encoding-type=url), because XML can't hold every byte. If a server
 * doesn't report the encoding, it didn't encode. A page has separate lists of keys and common
 * prefixes; read_page() decodes and merges them in order.
 *
 * A page that doesn't advance is an error, not an endless loop (note_progress(),
 * check_next_uploads()). Each call has its own state; pages are fetched one after another.
 */
#include "storage/bucket/s3/client.h"

#include <assert.h>
#include <stdio.h>
#include "base/text/text.h"

#define PAGE_BYTES_MAX \
	(32 *          \
	 MIB) /* 1,000 keys of 1 KiB with all of their bytes encoded, and the XML around them */
#define PAGE_KEYS_MAX 10000

struct entry {
	size_t key, etag; /* offsets in strings */
	uint64_t size;
	int64_t mtime_ns;
	bool prefix;
};

struct page {
	struct str strings; /* NUL-terminated texts */
	VEC(struct entry) v;
	struct entry now;
	char *token;
	bool truncated, encoded;
};

static size_t keep(struct page *p, const char *text)
{
	size_t at = p->strings.len;

	str_addn(&p->strings, text, strlen(text) + 1);
	return at;
}

static int add_entry(struct page *p, bool prefix, struct err *err)
{
	if (p->v.n == PAGE_KEYS_MAX)
		return err_set(err, ERR_CORRUPT, "listing: a page has more than %d keys",
			       PAGE_KEYS_MAX);
	p->now.prefix = prefix;
	VEC_PUSH(&p->v, p->now);
	p->now = (struct entry){ 0 };
	return 0;
}

static int parse_size(const char *text, uint64_t *ret, struct err *err)
{
	int64_t v;

	if (!text_parse_int(text, &v) || v < 0)
		return err_set(err, ERR_CORRUPT, "listing: an object's size is no number");
	*ret = (uint64_t)v;
	return 0;
}

/* The order of an entry's members isn't defined, so they are collected in p->now until the entry's
 * element ends.
 */
static int object_element(struct page *p, const char *name, const char *text, struct err *err)
{
	if (str_eq(name, "Key")) {
		p->now.key = keep(p, text);
	} else if (str_eq(name, "ETag")) {
		char *quoted = *text == '"' || !*text
				       ? NULL
				       : xasprintf("\"%s\"", text); /* as HEAD gives it */

		p->now.etag = keep(p, quoted ? quoted : text);
		free(quoted);
	} else if (str_eq(name, "Size")) {
		return parse_size(text, &p->now.size, err);
	} else if (str_eq(name, "LastModified")) {
		return text_parse_time(text, &p->now.mtime_ns, err);
	}
	return 0;
}

static int list_element(void *arg, const char *path, const char *text, struct err *err)
{
	struct page *p = arg;

	if (str_has_prefix(path, "ListBucketResult/Contents/"))
		return object_element(p, path + strlen("ListBucketResult/Contents/"), text, err);
	if (str_eq(path, "ListBucketResult/CommonPrefixes/Prefix"))
		return object_element(p, "Key", text, err);
	if (str_eq(path, "ListBucketResult/Contents") ||
	    str_eq(path, "ListBucketResult/CommonPrefixes"))
		return p->now.key ? add_entry(p, str_has_suffix(path, "CommonPrefixes"), err)
				  : err_set(err, ERR_CORRUPT, "listing: an object without a key");
	if (str_eq(path, "ListBucketResult/EncodingType"))
		p->encoded = str_eq(text, "url");
	else if (str_eq(path, "ListBucketResult/IsTruncated"))
		p->truncated = str_eq(text, "true");
	else if (str_eq(path, "ListBucketResult/NextContinuationToken")) {
		free(p->token);
		p->token = xstrdup(text);
	}
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 32);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes in place: %41 → A, + → blank (as S3 encodes). Malformed escapes stay, and so does %00. */
static void decode(char *s)
{
	char *out = s;

	for (; *s; s++) {
		int hi = *s == '%' ? hex_digit(s[1]) : -1, lo = hi >= 0 ? hex_digit(s[2]) : -1;

		if (lo >= 0 && (hi || lo)) {
			*out++ = (char)(hi * 16 + lo);
			s += 2;
		} else {
			*out++ = *s == '+' ? ' ' : *s;
		}
	}
	*out = '\0';
}

static int compare_entries(const void *a, const void *b, void *arg)
{
	const struct entry *x = a, *y = b;
	const char *strings = arg;

	return strcmp(strings + x->key, strings + y->key);
}

static int read_page(struct s3 *s, const char *query, struct page *p, struct err *err)
{
	struct s3_call c = { .method = "GET",
			     .query = query,
			     .body_fd = -1,
			     .error_in_200 = true,
			     .max_bytes = PAGE_BYTES_MAX };
	int r = s3_send(s, &c, err);

	if (r == 0)
		r = xml_read_as("ListBucketResult", "listing", &c.reply.reply.body, list_element, p,
				err);
	if (r == 0 && p->truncated && (!p->token || !*p->token))
		r = err_set(err, ERR_CORRUPT,
			    "listing s3://%s: the server says there is more, but not where",
			    s->base.name);
	s3_call_deinit(&c);
	for (size_t i = 0; r == 0 && p->encoded && i < p->v.n; i++)
		decode(p->strings.s + p->v.v[i].key);
	if (r == 0 && p->v.n)
		qsort_r(p->v.v, p->v.n, sizeof(*p->v.v), compare_entries, p->strings.s);
	return r;
}

static void make_query(struct str *q, const struct bucket_listing *l, const char *token)
{
	str_reset(q);
	if (token)
		transfer_add_param(q, "continuation-token", token);
	if (l->delimiter)
		transfer_add_param(q, "delimiter", (const char[]){ l->delimiter, '\0' });
	transfer_add_param(q, "encoding-type", "url");
	transfer_add_param(q, "list-type", "2");
	transfer_add_param(q, "prefix", l->prefix);
	if (l->start_after && !token)
		transfer_add_param(q, "start-after", l->start_after);
}

/* Calls fn for a page's objects; returns what fn returned. */
static int give_page(const struct page *p, const struct bucket_listing *l)
{
	for (size_t i = 0; i < p->v.n; i++) {
		const struct entry *e = &p->v.v[i];
		struct bucket_object o = { .key = p->strings.s + e->key,
					   .size = e->size,
					   .mtime_ns = e->mtime_ns,
					   .version = "",
					   .etag = p->strings.s + e->etag,
					   .encoding = "" };
		int r;

		if (l->start_after &&
		    strcmp(o.key, l->start_after) <= 0) /* not every server knows start-after */
			continue;
		r = l->fn(l->arg, &o);
		if (r)
			return r;
	}
	return 0;
}

/* The page's last key must be after the previous page's last key. */
static int note_progress(struct s3 *s, char **last, const struct page *p, struct err *err)
{
	const char *end = p->v.n ? p->strings.s + p->v.v[p->v.n - 1].key : NULL;

	if (p->truncated && (!end || (*last && strcmp(end, *last) <= 0)))
		return err_set(err, ERR_CORRUPT, "listing s3://%s: the server repeats itself",
			       s->base.name);
	free(*last);
	*last = end ? xstrdup(end) : NULL;
	return 0;
}

int s3_list(struct bucket *b, const struct bucket_listing *l, struct err *err)
{
	struct s3 *s = CONTAINER_OF(b, struct s3, base);
	struct str query = { 0 };
	char *token = NULL, *last = NULL;
	int r;

	do {
		struct page p = { 0 };

		keep(&p, ""); /* offset 0: none */
		make_query(&query, l, token);
		free(token);
		token = NULL;
		r = read_page(s, query.s, &p, err);
		if (r == 0)
			r = note_progress(s, &last, &p, err);
		if (r == 0)
			r = give_page(&p, l);
		if (r == 0 && p.truncated)
			token = TAKE_PTR(p.token);
		str_deinit(&p.strings);
		VEC_FREE(&p.v);
		free(p.token);
	} while (token);
	free(last);
	str_deinit(&query);
	return r;
}

/* Uploads. */

struct found_upload {
	char *key, *id;
	int64_t begun_ns;
};

struct uploads_page {
	VEC(struct found_upload) v;
	struct found_upload now;
	char *next_key, *next_id;
	bool truncated, encoded;
};

static void set(char **slot, const char *text)
{
	free(*slot);
	*slot = xstrdup(text);
}

/* As with objects, an upload is collected in p->now until its element ends, and the encoding of
 * names may be reported last. */
static int upload_element(void *arg, const char *path, const char *text, struct err *err)
{
	struct uploads_page *p = arg;
	const char *name = str_has_prefix(path, "ListMultipartUploadsResult/")
				   ? path + strlen("ListMultipartUploadsResult/")
				   : path;

	if (str_eq(name, "Upload/Key")) {
		set(&p->now.key, text);
	} else if (str_eq(name, "Upload/UploadId")) {
		set(&p->now.id, text);
	} else if (str_eq(name, "Upload/Initiated")) {
		return text_parse_time(text, &p->now.begun_ns, err);
	} else if (str_eq(name, "Upload")) {
		if (!p->now.key || !p->now.id)
			return err_set(err, ERR_CORRUPT, "an upload without a key or an id");
		if (p->v.n == PAGE_KEYS_MAX)
			return err_set(err, ERR_CORRUPT, "a page has more than %d uploads",
				       PAGE_KEYS_MAX);
		VEC_PUSH(&p->v, p->now);
		p->now = (struct found_upload){ 0 };
	} else if (str_eq(name, "EncodingType")) {
		p->encoded = str_eq(text, "url");
	} else if (str_eq(name, "IsTruncated")) {
		p->truncated = str_eq(text, "true");
	} else if (str_eq(name, "NextKeyMarker")) {
		set(&p->next_key, text);
	} else if (str_eq(name, "NextUploadIdMarker")) {
		set(&p->next_id, text);
	}
	return 0;
}

static void uploads_page_deinit(struct uploads_page *p)
{
	for (size_t i = 0; i < p->v.n; i++) {
		free(p->v.v[i].key);
		free(p->v.v[i].id);
	}
	VEC_FREE(&p->v);
	free(p->now.key);
	free(p->now.id);
	free(p->next_key);
	free(p->next_id);
}

static int read_uploads(struct s3 *s, const char *prefix, const char *key_marker,
			const char *id_marker, struct uploads_page *p, struct err *err)
{
	struct s3_call c = {
		.method = "GET", .body_fd = -1, .error_in_200 = true, .max_bytes = PAGE_BYTES_MAX
	};
	struct str query = { 0 };
	int r;

	if (key_marker)
		transfer_add_param(&query, "key-marker", key_marker);
	transfer_add_param(&query, "prefix", prefix);
	if (key_marker && id_marker)
		transfer_add_param(&query, "upload-id-marker", id_marker);
	transfer_add_param(&query, "uploads", NULL);
	c.query = query.s;
	r = s3_send(s, &c, err);
	if (r == 0)
		r = xml_read_as("ListMultipartUploadsResult", "listing uploads",
				&c.reply.reply.body, upload_element, p, err);
	for (size_t i = 0; r == 0 && p->encoded && i < p->v.n; i++)
		decode(p->v.v[i].key);
	if (r == 0 && p->encoded && p->next_key)
		decode(p->next_key);
	s3_call_deinit(&c);
	str_deinit(&query);
	return r;
}

/* The next page must begin after this one's start: at a later key, or at another upload of the same
 * key (upload ids have no order). */
static int check_next_uploads(struct s3 *s, const struct uploads_page *p, const char *key_marker,
			      const char *id_marker, struct err *err)
{
	int order = key_marker && p->next_key ? strcmp(p->next_key, key_marker) : 1;

	if (!p->truncated)
		return 0;
	if (p->v.n == 0 || !p->next_key)
		return err_set(
			err, ERR_CORRUPT,
			"listing uploads of s3://%s: the server says there is more, but not where",
			s->base.name);
	return order > 0 || (order == 0 && p->next_id && !str_eq(p->next_id, id_marker))
		       ? 0
		       : err_set(err, ERR_CORRUPT,
				 "listing uploads of s3://%s: the server repeats itself",
				 s->base.name);
}

int s3_list_uploads(struct s3 *s, const char *prefix, s3_upload_fn *fn, void *arg, struct err *err)
{
	char *key = NULL, *id = NULL;
	bool more;
	int r;

	do {
		struct uploads_page p = { 0 };

		r = read_uploads(s, prefix, key, id, &p, err);
		if (r == 0)
			r = check_next_uploads(s, &p, key, id, err);
		for (size_t i = 0; r == 0 && i < p.v.n; i++)
			r = fn(arg,
			       &(struct s3_upload_info){ p.v.v[i].key, p.v.v[i].id,
							 p.v.v[i].begun_ns },
			       err);
		more = p.truncated;
		free(key);
		free(id);
		key = TAKE_PTR(p.next_key);
		id = TAKE_PTR(p.next_id);
		uploads_page_deinit(&p);
	} while (r == 0 && more);
	free(key);
	free(id);
	return r;
}
