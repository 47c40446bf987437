/* storage/s3/list.c — listing objects (version 2) and uploads, page by page.
 *
 * Names come percent-encoded (encoding-type=url), since XML can't hold every byte; a server that doesn't say that it encoded, didn't. A page's keys and common prefixes
 * come apart and are merged. A page that doesn't go beyond the one before is an error, not an endless loop. */
#include "storage/s3/client.h"

#include <assert.h>
#include <stdio.h>
#include "base/text.h"

#define PAGE_BYTES_MAX (32 * MIB) /* of 1,000 keys of 1 KiB, each of their bytes encoded, and what is around them */
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

static void page_deinit(struct page *p)
{
	str_deinit(&p->strings);
	VEC_FREE(&p->v);
	free(p->token);
}

static size_t keep(struct page *p, const char *text)
{
	size_t at = p->strings.len;

	str_addn(&p->strings, text, strlen(text) + 1);
	return at;
}

static int add_entry(struct page *p, bool prefix, struct err *err)
{
	if (p->v.n == PAGE_KEYS_MAX)
		return err_set(err, ERR_CORRUPT, "listing: a page has more than %d keys", PAGE_KEYS_MAX);
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

/* The key comes before the rest in no promised order: an entry is put together until its element ends. */
static int object_element(struct page *p, const char *name, const char *text, struct err *err)
{
	if (str_eq(name, "Key")) {
		p->now.key = keep(p, text);
	} else if (str_eq(name, "ETag")) {
		char *quoted = *text == '"' || !*text ? NULL : xasprintf("\"%s\"", text); /* as HEAD gives it */

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
	if (str_eq(path, "ListBucketResult/Contents") || str_eq(path, "ListBucketResult/CommonPrefixes"))
		return p->now.key ? add_entry(p, str_has_suffix(path, "CommonPrefixes"), err) : err_set(err, ERR_CORRUPT, "listing: an object without a key");
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

/* In place: %41 → A, + → blank (as S3 encodes). What is malformed stays; a NUL isn't taken. */
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

static void settle_page(struct page *p)
{
	if (p->encoded)
		for (size_t i = 0; i < p->v.n; i++)
			decode(p->strings.s + p->v.v[i].key);
	if (p->v.n)
		qsort_r(p->v.v, p->v.n, sizeof(*p->v.v), compare_entries, p->strings.s);
}

static int read_page(struct s3 *s, const char *query, struct page *p, struct err *err)
{
	struct s3_call c = { .method = "GET", .query = query, .body_fd = -1, .error_in_200 = true,
			     .max_bytes = PAGE_BYTES_MAX };
	int r = s3_send(s, &c, err);

	if (r == 0)
		r = xml_read_as("ListBucketResult", "listing", c.reply.reply.body.s,
				c.reply.reply.body.len, list_element, p, err);
	if (r == 0 && p->truncated && (!p->token || !*p->token))
		r = err_set(err, ERR_CORRUPT, "listing s3://%s: the server says there is more, but not where", s->base.name);
	s3_call_deinit(&c);
	if (r == 0)
		settle_page(p);
	return r;
}

static void make_query(struct str *q, const char *prefix, const char *start_after, char delimiter, const char *token)
{
	str_reset(q);
	if (token)
		s3_add_param(q, "continuation-token", token);
	if (delimiter)
		s3_add_param(q, "delimiter", (const char[]){ delimiter, '\0' });
	s3_add_param(q, "encoding-type", "url");
	s3_add_param(q, "list-type", "2");
	s3_add_param(q, "prefix", prefix);
	if (start_after && !token)
		s3_add_param(q, "start-after", start_after);
}

/* Gives a page's objects; returns what fn did. */
static int give_page(const struct page *p, const char *start_after, int (*fn)(void *arg, const struct bucket_object *o), void *arg)
{
	for (size_t i = 0; i < p->v.n; i++) {
		const struct entry *e = &p->v.v[i];
		struct bucket_object o = { .key = p->strings.s + e->key, .size = e->size, .mtime_ns = e->mtime_ns, .version = "", .etag = p->strings.s + e->etag, .encoding = "" };
		int r;

		if (start_after && strcmp(o.key, start_after) <= 0) /* not every server knows start-after */
			continue;
		r = fn(arg, &o);
		if (r)
			return r;
	}
	return 0;
}

/* The last key of the page must be beyond the last one of the page before. */
static int note_progress(struct s3 *s, char **last, const struct page *p, struct err *err)
{
	const char *end = p->v.n ? p->strings.s + p->v.v[p->v.n - 1].key : NULL;

	if (p->truncated && (!end || (*last && strcmp(end, *last) <= 0)))
		return err_set(err, ERR_CORRUPT, "listing s3://%s: the server repeats itself", s->base.name);
	free(*last);
	*last = end ? xstrdup(end) : NULL;
	return 0;
}

int s3_list(struct bucket *b, const char *prefix, const char *start_after, char delimiter, int (*fn)(void *arg, const struct bucket_object *o), void *arg, struct err *err)
{
	struct s3 *s = CONTAINER_OF(b, struct s3, base);
	struct str query = { 0 };
	char *token = NULL, *last = NULL;
	int r;

	do {
		struct page p = { 0 };

		keep(&p, ""); /* offset 0: none */
		make_query(&query, prefix, start_after, delimiter, token);
		free(token);
		token = NULL;
		r = read_page(s, query.s, &p, err);
		if (r == 0)
			r = note_progress(s, &last, &p, err);
		if (r == 0)
			r = give_page(&p, start_after, fn, arg);
		if (r == 0 && p.truncated)
			token = TAKE_PTR(p.token);
		page_deinit(&p);
	} while (token);
	free(last);
	str_deinit(&query);
	return r;
}

/* --- uploads ------------------------------------------------------------------------------------------------------------------- */

struct uploads {
	int (*fn)(void *arg, const struct s3_upload_info *u, struct err *err);
	void *arg;
	char *key, *id, *next_key, *next_id;
	int64_t begun_ns;
	bool truncated, encoded;
	size_t n;
};

static void set(char **slot, const char *text)
{
	free(*slot);
	*slot = xstrdup(text);
}

static int upload_element(void *arg, const char *path, const char *text, struct err *err)
{
	struct uploads *u = arg;
	const char *name = str_has_prefix(path, "ListMultipartUploadsResult/") ? path + strlen("ListMultipartUploadsResult/") : path;
	struct s3_upload_info info;

	if (str_eq(name, "Upload/Key")) {
		set(&u->key, text);
		if (u->encoded)
			decode(u->key);
	} else if (str_eq(name, "Upload/UploadId")) {
		set(&u->id, text);
	} else if (str_eq(name, "Upload/Initiated")) {
		return text_parse_time(text, &u->begun_ns, err);
	} else if (str_eq(name, "Upload")) {
		if (!u->key || !u->id)
			return err_set(err, ERR_CORRUPT, "an upload without a key or an id");
		info = (struct s3_upload_info){ u->key, u->id, u->begun_ns };
		u->n++;
		return u->fn(u->arg, &info, err);
	} else if (str_eq(name, "EncodingType")) {
		u->encoded = str_eq(text, "url");
	} else if (str_eq(name, "IsTruncated")) {
		u->truncated = str_eq(text, "true");
	} else if (str_eq(name, "NextKeyMarker")) {
		set(&u->next_key, text);
	} else if (str_eq(name, "NextUploadIdMarker")) {
		set(&u->next_id, text);
	}
	return 0;
}

static int read_uploads(struct s3 *s, const char *prefix, struct uploads *u, struct err *err)
{
	struct s3_call c = { .method = "GET", .body_fd = -1, .error_in_200 = true, .max_bytes = PAGE_BYTES_MAX };
	struct str query = { 0 };
	int r;

	if (u->next_key)
		s3_add_param(&query, "key-marker", u->next_key);
	s3_add_param(&query, "prefix", prefix);
	if (u->next_key && u->next_id)
		s3_add_param(&query, "upload-id-marker", u->next_id);
	s3_add_param(&query, "uploads", NULL);
	c.query = query.s;
	u->truncated = false;
	u->n = 0;
	r = s3_send(s, &c, err);
	if (r == 0)
		r = xml_read_as("ListMultipartUploadsResult", "listing uploads", c.reply.reply.body.s,
				c.reply.reply.body.len, upload_element, u, err);
	if (r == 0 && u->truncated && (!u->n || !u->next_key))
		r = err_set(err, ERR_CORRUPT, "listing uploads of s3://%s: the server says there is more, but not where", s->base.name);
	s3_call_deinit(&c);
	str_deinit(&query);
	return r;
}

int s3_list_uploads(struct s3 *s, const char *prefix, int (*fn)(void *arg, const struct s3_upload_info *u, struct err *err), void *arg, struct err *err)
{
	struct uploads u = { .fn = fn, .arg = arg };
	int r;

	do
		r = read_uploads(s, prefix, &u, err);
	while (r == 0 && u.truncated);
	free(u.key);
	free(u.id);
	free(u.next_key);
	free(u.next_id);
	return r;
}
