/* storage/bucket/s3/multipart.c — objects larger than 16 MiB: uploads in parallel parts. Each part
 * is hashed, signed and retried separately.
 *
 * begin() resumes the newest cut-off upload of this key, else it starts a new one. A part of the
 * old upload counts if its size and MD5 match our bytes. Then the parts go onto the queue of work,
 * and the last one to end completes the upload (finish()).
 *
 * Another process may work on the same upload id. If it sends the same content, work is saved; if
 * not, completing notices the wrong ETag. If another process completed or aborted our upload, we
 * start a new one, at most RESTARTS_MAX times, and don't resume any more. An upload that failed for
 * a transient reason stays, to be resumed next time; gc aborts old ones.
 *
 * u->lock guards the fields that the parts share; a part writes only its own place in `parts`.
 * end_upload() frees the upload, so nothing may use it afterwards.
 */
#include "storage/bucket/s3/client.h"

#include <openssl/evp.h>
#include <stdio.h>

#define RESTARTS_MAX 3
#define ETAG_MAX     128
#define PIECE        (256 * KIB)

struct upload {
	struct s3 *s;
	struct bucket_put *p;
	char *id;
	uint64_t part_bytes;
	size_t n_parts;
	struct upload_part {
		char etag[ETAG_MAX]; /* "": not uploaded yet */
		uint64_t size;       /* of a resumed part that isn't checked yet; 0: none */
	} * parts;
	pthread_mutex_t lock; /* guards the fields below */
	size_t left;
	struct err err;
	bool failed, gone; /* gone: the server doesn't know the upload any more */
	unsigned restarts;
};

static void end_upload(struct upload *u, int result, const struct err *err)
{
	u->p->result = result;
	if (result < 0)
		u->p->err = *err;
	pthread_mutex_destroy(&u->lock);
	free(u->parts);
	free(u->id);
	free(u);
}

static uint64_t part_size(const struct upload *u, size_t i)
{
	return MIN(u->part_bytes, u->p->size - i * u->part_bytes);
}

static void upload_query(struct str *q, size_t part, const char *id)
{
	char number[24];

	if (part) {
		snprintf(number, sizeof(number), "%zu", part);
		transfer_add_param(q, "partNumber", number);
	}
	transfer_add_param(q, "uploadId", id);
}

static int s3_abort_upload(struct s3 *s, const char *key, const char *id, struct err *err)
{
	struct str q = { 0 };
	int r;

	upload_query(&q, 0, id);
	r = s3_delete(s, key, q.s, NULL, err);
	str_deinit(&q);
	return r;
}

/* Resuming. */

struct newest {
	const char *key;
	char *id;
	int64_t begun_ns;
};

static int note_upload(void *arg, const struct s3_upload_info *u, struct err *err)
{
	struct newest *n = arg;

	if (str_eq(u->key, n->key) && (!n->id || u->begun_ns > n->begun_ns)) {
		free(n->id);
		n->id = xstrdup(u->id);
		n->begun_ns = u->begun_ns;
	}
	return 0;
}

struct part_list {
	struct upload *u;
	uint64_t number, size, next;
	char etag[ETAG_MAX];
	bool truncated;
};

static uint64_t number_of(const char *text)
{
	return *text >= '0' && *text <= '9' ? strtoull(text, NULL, 10) : 0;
}

static int part_element(void *arg, const char *path, const char *text, struct err *err)
{
	struct part_list *l = arg;
	const char *name =
		str_has_prefix(path, "ListPartsResult/") ? path + strlen("ListPartsResult/") : path;

	if (str_eq(name, "Part/PartNumber"))
		l->number = number_of(text);
	else if (str_eq(name, "Part/Size"))
		l->size = number_of(text);
	else if (str_eq(name, "Part/ETag"))
		snprintf(l->etag, sizeof(l->etag), "%s", strlen(text) < ETAG_MAX ? text : "");
	else if (str_eq(name, "NextPartNumberMarker"))
		l->next = number_of(text);
	else if (str_eq(name, "IsTruncated"))
		l->truncated = str_eq(text, "true");
	else if (str_eq(name, "Part")) {
		if (l->number >= 1 && l->number <= l->u->n_parts &&
		    l->size == part_size(l->u, l->number - 1)) {
			struct upload_part *p = &l->u->parts[l->number - 1];

			p->size = l->size;
			memcpy(p->etag, l->etag, ETAG_MAX);
		}
		l->number = l->size = 0;
	}
	return 0;
}

static int list_parts(struct upload *u, const char *id, struct err *err)
{
	struct part_list l = { .u = u };
	uint64_t before;
	int r;

	do {
		struct str q = { 0 };
		struct s3_call c = { .method = "GET",
				     .key = u->p->key,
				     .body_fd = -1,
				     .error_in_200 = true,
				     .max_bytes = 8 * MIB };
		char marker[24];

		before = l.next;
		l.truncated = false;
		if (before) {
			snprintf(marker, sizeof(marker), "%llu", (unsigned long long)before);
			transfer_add_param(&q, "part-number-marker", marker);
		}
		upload_query(&q, 0, id);
		c.query = q.s;
		r = s3_send(u->s, &c, err);
		if (r == 0)
			r = xml_read_as("ListPartsResult", "listing parts", &c.reply.reply.body,
					part_element, &l, err);
		s3_call_deinit(&c);
		str_deinit(&q);
	} while (r == 0 && l.truncated && l.next > before);
	return r;
}

/* A failure here is ignored, because a new upload does as well. */
static void take_on(struct upload *u)
{
	struct newest n = { .key = u->p->key };
	struct err ignored = { 0 };

	if (s3_list_uploads(u->s, u->p->key, note_upload, &n, &ignored) < 0 || !n.id)
		goto out;
	if (list_parts(u, n.id, &ignored) == 0)
		u->id = TAKE_PTR(n.id);
	else
		memset(u->parts, 0, u->n_parts * sizeof(*u->parts));
out:
	free(n.id);
}

/* Tells whether an existing part has our bytes. Works only with a server whose ETags are MD5.
 */
static bool is_ours(const struct upload *u, size_t i)
{
	const struct bucket_put *p = u->p;
	uint64_t from = i * u->part_bytes, n = part_size(u, i);
	uint8_t md[EVP_MAX_MD_SIZE];
	unsigned md_n = 0;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	_cleanup_(freep) char *piece = p->fd >= 0 ? xmalloc(PIECE) : NULL;
	struct str hex = { 0 };
	bool same = ctx && EVP_DigestInit_ex(ctx, EVP_md5(), NULL) == 1;

	for (uint64_t done = 0; same && done < n;) {
		ssize_t k = (ssize_t)(n - done);

		if (piece)
			k = pread(p->fd, piece, MIN(PIECE, n - done),
				  (off_t)(p->offset + from + done));
		same = k > 0 &&
		       EVP_DigestUpdate(ctx, piece ? piece : (const char *)p->bytes + from + done,
					(size_t)k) == 1;
		done += k > 0 ? (uint64_t)k : 0;
	}
	same = same && EVP_DigestFinal_ex(ctx, md, &md_n) == 1;
	sigv4_add_hex(&hex, md, md_n);
	same = same && strlen(u->parts[i].etag) == hex.len + 2 &&
	       memcmp(u->parts[i].etag + 1, hex.s, hex.len) == 0;
	str_deinit(&hex);
	EVP_MD_CTX_free(ctx);
	return same;
}

/* Starting. */

static int id_element(void *arg, const char *path, const char *text, struct err *err)
{
	char **id = arg;

	if (str_has_suffix(path, "/UploadId") &&
	    *text) { /* not every server names the root element like AWS */
		free(*id);
		*id = xstrdup(text);
	}
	return 0;
}

static int start_upload(struct upload *u, struct err *err)
{
	struct sigv4_header h[4];
	struct s3_call c = {
		.method = "POST", .key = u->p->key, .query = "uploads=", .headers = h, .body_fd = -1
	};
	int r;

	c.n_headers = (size_t)s3_put_headers(u->s, u->p, h, false);
	r = s3_send(u->s, &c, err);
	if (r == 0)
		r = xml_read("starting an upload", c.reply.reply.body.s, c.reply.reply.body.len,
			     id_element, &u->id, err);
	if (r == 0 && !u->id)
		r = err_set(err, ERR_CORRUPT,
			    "s3://%s/%s: the server started an upload without an id",
			    u->s->base.name, u->p->key);
	s3_call_deinit(&c);
	return r;
}

/* Ending. */

static bool is_there(struct upload *u)
{
	struct bucket_object o;
	struct str strings = { 0 };
	bool there =
		s3_head(&u->s->base, u->p->key, &o, &strings, NULL) == 0 && o.size == u->p->size;

	str_deinit(&strings);
	return there;
}

static int complete_check(void *arg, const struct http_request *r, struct err *err)
{
	if (!r->reply.body.len ||
	    !memmem(r->reply.body.s, r->reply.body.len, "CompleteMultipartUploadResult", 29))
		return err_set(err, ERR_IO, "the server ends an upload without saying so");
	return 0;
}

static void complete_body(const struct upload *u, struct str *body)
{
	str_add(body, "<CompleteMultipartUpload xmlns=\"http://s3."
		      "amazonaws.com/doc/2006-03-01/\">");
	for (size_t i = 0; i < u->n_parts; i++) {
		str_addf(body, "<Part><PartNumber>%zu</PartNumber><ETag>", i + 1);
		for (const char *p = u->parts[i].etag; *p; p++) {
			if (*p == '"')
				str_add(body, "&quot;");
			else if (*p != '<' && *p != '&' && *p != '>')
				str_addc(body, *p);
		}
		str_add(body, "</ETag></Part>");
	}
	str_add(body, "</CompleteMultipartUpload>");
}

static bool is_gone(const struct s3_call *c)
{
	return str_eq(c->error.code, "NoSuchUpload") ||
	       (s3_status(c) == 404 && !str_eq(c->error.code, "NoSuchBucket"));
}

/* 0: done, 1: existed, 2: begin anew, -1: failed */
static int complete(struct upload *u, struct err *err)
{
	struct s3_call c = { .method = "POST",
			     .key = u->p->key,
			     .body_fd = -1,
			     .check = complete_check,
			     .may = u->p->may,
			     .may_arg = u->p->may_arg };
	struct sigv4_header match = { "if-none-match", "*" };
	struct str q = { 0 }, body = { 0 };
	int r;

	upload_query(&q, 0, u->id);
	complete_body(u, &body);
	c.query = q.s;
	c.body = body.s;
	c.body_len = body.len;
	c.headers = &match;
	c.n_headers = u->p->if_absent && !u->s->no_if_absent;
	r = s3_send(u->s, &c, err);
	if (r < 0 && c.n_headers &&
	    (s3_status(&c) == 501 || str_eq(c.error.code, "NotImplemented"))) {
		u->s->no_if_absent = true;
		c.n_headers = 0;
		r = s3_send(u->s, &c, err);
	}
	if (r < 0 && (s3_status(&c) == 412 || str_eq(c.error.code, "PreconditionFailed")))
		r = c.maybe_applied ? 0 : 1;
	else if (r < 0 && is_gone(&c))
		r = c.maybe_applied && is_there(u) ? 0 : 2;
	else if (r < 0 && (str_eq(c.error.code, "InvalidPart") ||
			   str_eq(c.error.code, "ConditionalRequestConflict")))
		r = 2;
	s3_call_deinit(&c);
	str_deinit(&q);
	str_deinit(&body);
	return r;
}

static void begin(struct upload *u, struct work_queue *q);

static void restart(struct upload *u, struct work_queue *q, const struct err *err)
{
	if (++u->restarts > RESTARTS_MAX) {
		end_upload(u, -1, err);
		return;
	}
	if (u->p->if_absent && is_there(u)) { /* the other process has completed it */
		end_upload(u, 1, NULL);
		return;
	}
	free(u->id);
	u->id = NULL;
	u->failed = u->gone = false;
	u->err = (struct err){ 0 };
	memset(u->parts, 0, u->n_parts * sizeof(*u->parts));
	begin(u, q);
}

/* All parts have ended, one way or another. */
static void finish(struct upload *u, struct work_queue *q)
{
	struct err err = u->err;
	int r = u->gone ? 2 : u->failed ? -1 : complete(u, &err);

	if (r == 2) {
		restart(u, q, &err);
		return;
	}
	/* After a transient failure the upload stays, to be resumed. Otherwise it is aborted. */
	if (r == 1 || (r < 0 && err.code != ERR_IO && err.code != ERR_CANCELLED))
		s3_abort_upload(u->s, u->p->key, u->id, NULL);
	end_upload(u, r, &err);
}

/* Parts. */

static int send_part(struct upload *u, size_t i, struct s3_call *c, struct err *err)
{
	const struct bucket_put *p = u->p;
	uint64_t from = i * u->part_bytes;
	struct str q = { 0 };
	char *etag;
	int r;

	upload_query(&q, i + 1, u->id);
	*c = (struct s3_call){ .method = "PUT",
			       .key = p->key,
			       .query = q.s,
			       .body_fd = p->fd,
			       .body_offset = p->offset + from,
			       .body_len = part_size(u, i),
			       .body = p->fd >= 0 ? NULL : (const char *)p->bytes + from,
			       .check = s3_check_etag };
	r = s3_send(u->s, c, err);
	if (r == 0) {
		etag = transfer_header(&c->reply, "ETag", ETAG_MAX - 1);
		snprintf(u->parts[i].etag, ETAG_MAX, "%s", etag ? etag : "");
		free(etag);
		if (!u->parts[i].etag[0])
			r = err_set(err, ERR_CORRUPT,
				    "s3://%s/%s: the server took a part without giving its ETag",
				    u->s->base.name, p->key);
	}
	str_deinit(&q);
	return r;
}

static void upload_part(struct work_queue *q, void *arg, size_t i)
{
	struct upload *u = arg;
	struct s3_call c = { 0 };
	struct err err = { 0 };
	bool stop, last;

	pthread_mutex_lock(&u->lock);
	stop = u->failed;
	pthread_mutex_unlock(&u->lock);
	if (!stop && !(u->parts[i].size && is_ours(u, i)) && send_part(u, i, &c, &err) < 0) {
		pthread_mutex_lock(&u->lock);
		if (!u->failed) {
			u->failed = true;
			u->gone = is_gone(&c);
			u->err = err;
		}
		pthread_mutex_unlock(&u->lock);
	}
	s3_call_deinit(&c);
	pthread_mutex_lock(&u->lock);
	last = --u->left == 0;
	pthread_mutex_unlock(&u->lock);
	if (last)
		finish(u, q);
}

static void begin(struct upload *u, struct work_queue *q)
{
	struct err err = { 0 };

	if (u->restarts == 0)
		take_on(u);
	if (!u->id && start_upload(u, &err) < 0) {
		end_upload(u, -1, &err);
		return;
	}
	u->left = u->n_parts;
	work_push(q, (struct work){ upload_part, u, u->n_parts });
}

void s3_upload_begin(struct s3 *s, struct bucket_put *p, struct work_queue *q)
{
	struct upload *u = xcalloc(1, sizeof(*u));

	*u = (struct upload){ .s = s, .p = p, .part_bytes = content_part_bytes(p->size) };
	pthread_mutex_init(&u->lock, NULL);
	u->n_parts = (size_t)((p->size + u->part_bytes - 1) / u->part_bytes);
	u->parts = xcalloc(u->n_parts, sizeof(*u->parts));
	if (p->if_absent && is_there(u))
		end_upload(u, 1, NULL);
	else
		begin(u, q);
}

/* Leftovers. */

struct stale {
	struct s3 *s;
	int64_t before_ns;
	VEC(char *) v; /* key, id, key, id */
};

static int note_stale(void *arg, const struct s3_upload_info *u, struct err *err)
{
	struct stale *t = arg;

	if (u->begun_ns < t->before_ns && str_has_prefix(u->key, t->s->base.prefix)) {
		VEC_PUSH(&t->v, xstrdup(u->key));
		VEC_PUSH(&t->v, xstrdup(u->id));
	}
	return 0;
}

int s3_abort_stale(struct bucket *b, int64_t before_ns, uint64_t *ret_n, struct err *err)
{
	struct s3 *s = CONTAINER_OF(b, struct s3, base);
	struct stale t = { .s = s, .before_ns = before_ns };
	int r = s3_list_uploads(s, b->prefix, note_stale, &t, err);

	for (size_t i = 0; r == 0 && i < t.v.n; i += 2) {
		r = s3_abort_upload(s, t.v.v[i], t.v.v[i + 1], err);
		*ret_n += r == 0;
	}
	for (size_t i = 0; i < t.v.n; i++)
		free(t.v.v[i]);
	VEC_FREE(&t.v);
	return r;
}
