/* storage/bucket/s3/put.c — puts objects of up to 16 MiB in one request each; deletes.
 *
 * A batch is a queue of work: small objects are put here, larger ones become uploads in parts
 * (multipart.c), which push their parts onto the same queue.
 *
 * if_absent and retries: a try that got no answer may have been carried out, and the next one is
 * then refused with 412. is_ours() reads the object and compares, so that the winner of a lock
 * doesn't see it as lost. For a server that doesn't know If-None-Match, `no_if_absent` is set, and
 * the put is sent without it.
 *
 * One request deletes up to 1,000 keys. For a server that can't do that, `no_multi_delete` is set,
 * and keys are deleted one by one. So are keys that the answer says to try later.
 */
#include "storage/bucket/s3/client.h"

#include <openssl/evp.h>
#include <stdio.h>
#include "base/crypto/base64.h"

#define COMPARE_MAX MIB

/* Headers of a PUT (creating) or of starting an upload. Returns how many. */
int s3_put_headers(const struct s3 *s, const struct bucket_put *p, struct sigv4_header h[4],
		   bool creating)
{
	int n = 0;

	if (p->content_type)
		h[n++] = (struct sigv4_header){ "content-type", p->content_type };
	if (p->encoding && *p->encoding)
		h[n++] = (struct sigv4_header){ S3_ENCODING_HEADER, p->encoding };
	if (creating && p->if_absent && !s->no_if_absent)
		h[n++] = (struct sigv4_header){ "if-none-match", "*" };
	return n;
}

/* An earlier try got no answer, and now the object exists: tells whether it is ours. The taker of a
 * lock must not believe that he lost it to himself. */
static bool is_ours(struct s3 *s, const struct bucket_put *p)
{
	struct s3_call c = {
		.method = "GET", .key = p->key, .body_fd = -1, .max_bytes = COMPARE_MAX
	};
	struct str mine = { 0 };
	bool same = false;

	if (p->size > COMPARE_MAX || s3_send(s, &c, NULL) < 0)
		goto out;
	if (p->fd >= 0) {
		str_reserve(&mine, p->size + 1);
		if (pread(p->fd, mine.s, p->size, (off_t)p->offset) != (ssize_t)p->size)
			goto out;
		mine.len = p->size;
		same = c.reply.reply.body.len == mine.len &&
		       (!mine.len || memcmp(c.reply.reply.body.s, mine.s, mine.len) == 0);
	} else {
		same = c.reply.reply.body.len == p->size &&
		       (!p->size || memcmp(c.reply.reply.body.s, p->bytes, p->size) == 0);
	}
out:
	s3_call_deinit(&c);
	str_deinit(&mine);
	return same;
}

/* Every object storage sends an ETag. A proxy may answer with a 200 too, such as a login page,
 * although nothing was stored. */
int s3_check_etag(void *arg, const struct http_request *r, struct err *err)
{
	size_t n;

	return http_header(r, "ETag", &n) && n
		       ? 0
		       : err_set(err, ERR_IO,
				 "the answer has no ETag: it isn't an object storage's. Does a "
				 "proxy answer in its place?");
}

static int put_single(struct s3 *s, struct bucket_put *p)
{
	struct sigv4_header h[4];
	struct s3_call c = { .method = "PUT",
			     .key = p->key,
			     .headers = h,
			     .body_len = p->size,
			     .body_fd = p->fd,
			     .body_offset = p->offset,
			     .body = p->bytes,
			     .may = p->may,
			     .may_arg = p->may_arg,
			     .check = s3_check_etag };
	int r;

	c.n_headers = (size_t)s3_put_headers(s, p, h, true);
	r = s3_send(s, &c, &p->err);
	if (r < 0 && p->if_absent && s3_status(&c) == 412) {
		r = c.maybe_applied && is_ours(s, p) ? 0 : 1;
		p->err = (struct err){ 0 };
	} else if (r < 0 && p->if_absent && !s->no_if_absent &&
		   (s3_status(&c) == 501 || str_eq(c.error.code, "NotImplemented"))) {
		s->no_if_absent = true;
		p->err = (struct err){ 0 };
		s3_call_deinit(&c);
		return put_single(s, p);
	}
	s3_call_deinit(&c);
	return r;
}

struct put_batch {
	struct s3 *s;
	struct bucket_put *const *v;
};

static void put_one(struct work_queue *q, void *arg, size_t i)
{
	struct put_batch *b = arg;
	struct bucket_put *p = b->v[i];

	p->err = (struct err){ 0 };
	if (p->size > S3_SINGLE_MAX)
		s3_upload_begin(b->s, p, q);
	else
		p->result = put_single(b->s, p);
}

int s3_check_credentials(struct s3 *s, struct err *err)
{
	struct credentials c = { 0 };

	if (!s->chain)
		return 0;
	if (credentials_get(s->chain, NULL, &c, err) < 0)
		return -1;
	credentials_deinit(&c);
	return 0;
}

int s3_put_many(struct bucket *b, struct bucket_put *const *v, size_t n, struct err *err)
{
	struct s3 *s = CONTAINER_OF(b, struct s3, base);
	struct put_batch batch = { s, v };

	if (s3_check_credentials(s, err) < 0) {
		for (size_t i = 0; i < n; i++)
			v[i]->result = err_set(&v[i]->err, ERR_INVALID, "no credentials");
		return -1;
	}
	work_run(transfer_threads(s->transfer), (struct work){ put_one, &batch, n });
	return 0;
}

/* Delete. */

#define DELETE_BATCH 1000 /* the protocol's limit */

int s3_delete(struct s3 *s, const char *key, const char *query, const struct sigv4_header *h,
	      struct err *err)
{
	struct s3_call c = { .method = "DELETE",
			     .key = key,
			     .query = query,
			     .headers = h,
			     .n_headers = h ? 1 : 0,
			     .body_fd = -1 };
	struct err why = { 0 };
	int r = s3_send(s, &c, &why);

	if (r < 0 && s3_status(&c) == 404 && !str_eq(c.error.code, "NoSuchBucket"))
		r = 0;
	else if (r < 0 && h && s3_status(&c) == 412)
		r = 1;
	if (r < 0 && err)
		*err = why;
	s3_call_deinit(&c);
	return r;
}

static void add_xml_text(struct str *out, const char *s)
{
	for (; *s; s++) {
		if (*s == '&')
			str_add(out, "&amp;");
		else if (*s == '<')
			str_add(out, "&lt;");
		else if (*s == '>')
			str_add(out, "&gt;");
		else if ((unsigned char)*s < 0x20)
			str_addf(out, "&#%d;", (unsigned char)*s);
		else
			str_addc(out, *s);
	}
}

struct delete_batch {
	struct s3 *s;
	const char *const *keys;
	size_t n;
};

struct delete_answer {
	const char *const *keys;
	size_t n;
	bool *later; /* keys[i] must be deleted later */
	size_t at;   /* index of the key in the current element; n: not ours */
	struct xml_error first;
	char code[64], message[256];
};

static int delete_element(void *arg, const char *path, const char *text, struct err *err)
{
	struct delete_answer *a = arg;

	if (str_eq(path, "DeleteResult/Error/Code"))
		snprintf(a->code, sizeof(a->code), "%s", text);
	else if (str_eq(path, "DeleteResult/Error/Message"))
		snprintf(a->message, sizeof(a->message), "%s", text);
	else if (str_eq(path, "DeleteResult/Error/Key"))
		for (a->at = 0; a->at < a->n && !str_eq(a->keys[a->at], text); a->at++)
			;
	else if (str_eq(path, "DeleteResult/Error")) {
		if (a->at < a->n && s3_code_transient(a->code))
			a->later[a->at] = true;
		else if (!a->first.code[0] && !str_eq(a->code, "NoSuchKey")) {
			snprintf(a->first.code, sizeof(a->first.code), "%s",
				 *a->code ? a->code : "unknown");
			snprintf(a->first.message, sizeof(a->first.message), "%s", a->message);
		}
		a->at = a->n;
		a->code[0] = a->message[0] = '\0';
	}
	return 0;
}

/* 0, -1, or 1: the server can't delete many at once. later[i]: keys[i] still exists, and may be
 * deleted later. */
static int delete_page(struct s3 *s, const char *const *keys, size_t n, bool *later,
		       struct err *err)
{
	struct s3_call c = {
		.method = "POST", .query = "delete=", .body_fd = -1, .max_bytes = 8 * MIB
	};
	struct sigv4_header h[2] = { { "content-type", "application/xml" } };
	struct str body = { 0 };
	struct delete_answer a = { .keys = keys, .n = n, .later = later, .at = n };
	_cleanup_(str_deinit) struct str md5_text = { 0 };
	unsigned char md5[EVP_MAX_MD_SIZE];
	unsigned md5_n = 0;
	int r;

	str_add(&body, "<Delete xmlns=\"http://s3."
		       "amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>");
	for (size_t i = 0; i < n; i++) {
		str_add(&body, "<Object><Key>");
		add_xml_text(&body, keys[i]);
		str_add(&body, "</Key></Object>");
	}
	str_add(&body, "</Delete>");
	c.headers = h;
	c.n_headers = 1;
	if (EVP_Digest(body.s, body.len, md5, &md5_n, EVP_md5(), NULL) ==
	    1) { /* fails in FIPS mode; for most servers the signed SHA-256 is enough */
		base64_add(&md5_text, md5, md5_n);
		h[c.n_headers++] = (struct sigv4_header){ "content-md5", md5_text.s };
	}
	c.body = body.s;
	c.body_len = body.len;
	r = s3_send(s, &c, err);
	if (r < 0 &&
	    (s3_status(&c) == 501 || s3_status(&c) == 405 || s3_status(&c) == 404 ||
	     str_eq(c.error.code, "MalformedXML")) &&
	    !str_eq(c.error.code, "NoSuchBucket"))
		r = 1;
	if (r == 0)
		r = xml_read_as("DeleteResult", "deleting", &c.reply.reply.body, delete_element, &a,
				err);
	if (r == 0 && a.first.code[0]) {
		c.error = a.first;
		c.reply.reply.status = str_eq(a.first.code, "AccessDenied") ? 403 : 500;
		r = s3_error(s, &c, err);
	}
	s3_call_deinit(&c);
	str_deinit(&body);
	return r;
}

static int delete_single(void *arg, size_t i, struct err *err)
{
	struct delete_batch *b = arg;

	return s3_delete(b->s, b->keys[i], NULL, NULL, err);
}

/* Keys that a page couldn't delete are deleted one by one, because single requests are retried. */
static int delete_pages(void *arg, size_t i, struct err *err)
{
	struct delete_batch *b = arg;
	size_t first = i * DELETE_BATCH, n = MIN(b->n - first, (size_t)DELETE_BATCH);
	bool later[DELETE_BATCH] = { false }, failed = false;
	int r = b->s->no_multi_delete ? 1 : delete_page(b->s, b->keys + first, n, later, err);

	if (r < 0)
		return -1;
	if (r == 1)
		b->s->no_multi_delete = true;
	for (size_t k = 0; k < n && !(failed && r == 0); k++)
		if (r == 1 || later[k])
			failed |= s3_delete(b->s, b->keys[first + k], NULL, NULL,
					    failed ? NULL : err) < 0;
	return failed ? -1 : 0;
}

int s3_delete_many(struct bucket *b, const char *const *keys, size_t n, struct err *err)
{
	struct s3 *s = CONTAINER_OF(b, struct s3, base);
	struct delete_batch batch = { .s = s, .keys = keys, .n = n };
	unsigned threads = transfer_threads(s->transfer);

	if (n <= 2 || s->no_multi_delete)
		return work_each(threads, n, true, delete_single, &batch, err);
	return work_each(threads, (n + DELETE_BATCH - 1) / DELETE_BATCH, true, delete_pages, &batch,
			 err);
}

int s3_delete_if(struct bucket *b, const char *key, const char *version, struct err *err)
{
	struct s3 *s = CONTAINER_OF(b, struct s3, base);
	struct sigv4_header match = { "if-match", version };
	struct str query = { 0 }, strings = { 0 };
	struct bucket_object now;
	struct err why = { 0 };
	int r;

	if (*version != '"') {
		transfer_add_param(&query, "versionId", version);
		r = s3_delete(s, key, query.s, NULL, err);
		str_deinit(&query);
		return r;
	}
	/* Not every server obeys If-Match on DELETE. So check the version first; then only a race
	 * can go wrong. */
	r = s3_head(b, key, &now, &strings, &why);
	if (r == 0)
		r = str_eq(now.etag, version) ? s3_delete(s, key, NULL, &match, err) : 1;
	else if (why.code == ERR_NOT_FOUND)
		r = 1;
	else if (err)
		*err = why;
	str_deinit(&strings);
	return r;
}
