/* storage/bucket/gcs/put.c — uploads to Google Cloud Storage: up to 16 MiB in one request, larger
 * ones by a resumable session, chunk by chunk.
 *
 * The service reports size and CRC-32C of what it stored; check_taken() compares them. A wrong
 * object is deleted, and the upload is tried CORRUPT_TRIES times.
 *
 * After a failed chunk, or a crash (session.h), we query how far the session came and resume there.
 * An emulator may treat that query as the end; with one, the session starts anew. A session is sent
 * only to the service's own host, because its address grants access like a token.
 *
 * Objects are sent in parallel, each on one thread of the queue of work; the chunks of one object
 * are sent one after another. if_absent and retries: after a try without an answer, a 412 may mean
 * our own object, so is_ours() compares it.
 */
#include "storage/bucket/gcs/client.h"

#include <stdio.h>
#include "base/text/json.h"
#include "storage/bucket/gcs/crc32c.h"
#include "storage/bucket/gcs/session.h"

#define SINGLE_MAX    CONTENT_PART_BYTES
#define CHUNK_BYTES   CONTENT_PART_BYTES /* a multiple of 256 KiB, as the service requires */
#define PIECE         (256 * KIB)
#define CORRUPT_TRIES 3

static int crc_of(const struct bucket_put *p, char out[9], struct err *err)
{
	_cleanup_(freep) char *piece = NULL;
	uint32_t crc = 0;

	if (p->fd < 0) {
		crc32c_base64(crc32c(0, p->size ? p->bytes : "", p->size), out);
		return 0;
	}
	piece = xmalloc(PIECE);
	for (uint64_t done = 0; done < p->size;) {
		ssize_t n =
			pread(p->fd, piece, MIN(PIECE, p->size - done), (off_t)(p->offset + done));

		if (n < 0)
			return err_errno(err, "reading what is sent");
		if (n == 0)
			return err_set(err, ERR_CHANGED, "the file got shorter while it was sent");
		crc = crc32c(crc, piece, (size_t)n);
		done += (uint64_t)n;
	}
	crc32c_base64(crc, out);
	return 0;
}

static void upload_url(const struct gcs *g, const struct bucket_put *p, const char *type,
		       struct str *url)
{
	str_addf(url, "%s/upload/storage/v1/b/", g->endpoint);
	http_escape(url, g->base.name, strlen(g->base.name), false);
	str_add(url, "/o");
	gcs_add_param(url, "uploadType", type);
	gcs_add_param(url, "name", p->key);
	if (p->if_absent)
		gcs_add_param(url, "ifGenerationMatch", "0");
}

static char *type_header(const struct bucket_put *p, const char *name)
{
	if (p->encoding && *p->encoding)
		return xasprintf("%s: " GCS_ENCODED_TYPE "%s", name, p->encoding);
	return xasprintf("%s: %s", name,
			 p->content_type ? p->content_type : "application/octet-stream");
}

/* An earlier try got no answer, and now the object exists: tells whether it is ours. */
static bool is_ours(struct gcs *g, const struct bucket_put *p, const char *crc)
{
	_cleanup_(json_decrefp) json_t *j = NULL;
	struct gcs_object o;

	return gcs_resource(g, p->key, &o, &j, NULL) == 0 && o.size == p->size &&
	       str_eq(o.crc32c, crc);
}

/* Checks what the service stored. 0; 1: wrong bytes, now deleted. */
static int check_taken(struct gcs *g, const struct bucket_put *p, const struct gcs_call *c,
		       const char *crc, struct err *err)
{
	struct gcs_object o;
	json_t *j = NULL;
	int r = -1;

	if (json_parse("the answer to an upload", c->reply.reply.body.s, c->reply.reply.body.len,
		       &j, err) < 0)
		return -1;
	if (gcs_read_object(j, &o, err) == 0) {
		r = o.size == p->size && (!o.crc32c || str_eq(o.crc32c, crc)) ? 0 : 1;
		if (r == 1) {
			gcs_delete(g, p->key, o.generation, NULL);
			err_set(err, ERR_CORRUPT,
				"gs://%s/%s: the server got other bytes than were sent, several "
				"times",
				g->base.name, p->key);
		}
	}
	json_decref(j);
	return r;
}

/* 0: written, 1: existed, 2: the server stored wrong bytes, -1 */
static int put_single(struct gcs *g, struct bucket_put *p, const char *crc, struct err *err)
{
	_cleanup_(freep) char *type = type_header(p, "Content-Type");
	const char *headers[] = { type, NULL };
	struct gcs_call c = { .method = "POST",
			      .key = p->key,
			      .headers = headers,
			      .body = p->bytes,
			      .body_len = p->size,
			      .body_fd = p->fd,
			      .body_offset = p->offset,
			      .may = p->may,
			      .may_arg = p->may_arg };
	struct str url = { 0 };
	int r;

	upload_url(g, p, "media", &url);
	c.url = url.s;
	r = gcs_send(g, &c, err);
	if (r == 0) {
		r = check_taken(g, p, &c, crc, err);
		r = r == 1 ? 2 : r;
	} else if (p->if_absent && gcs_status(&c) == 412) {
		r = c.maybe_applied && is_ours(g, p, crc) ? 0 : 1;
	}
	gcs_call_deinit(&c);
	str_deinit(&url);
	return r;
}

/* Resumable sessions. */

bool gcs_same_host(const struct gcs *g, const char *url)
{
	const char *path = strstr(url, "://") ? strchr(strstr(url, "://") + 3, '/') : NULL;
	const char *own = strstr(g->endpoint, "://") + 3;
	size_t own_n = strcspn(own, "/");

	return path && str_has_prefix(url, g->endpoint[4] == 's' ? "https://" : "http://") &&
	       (size_t)(path - strstr(url, "://") - 3) == own_n &&
	       strncmp(strstr(url, "://") + 3, own, own_n) == 0;
}

/* The fields of the new object's resource that we set. */
static void add_resource(struct str *out, const struct bucket_put *p)
{
	_cleanup_(freep) char *type = type_header(p, "");
	json_t *j = json_pack("{s:s}", "contentType", type + 2);

	if (!j) /* the type isn't UTF-8 */
		j = json_object();
	if (p->encoding && *p->encoding)
		json_object_set_new(j, "metadata",
				    json_pack("{s:s}", GCS_ENCODING_KEY, p->encoding));
	json_add_canonical(out, j);
	json_decref(j);
}

static int start_session(struct gcs *g, struct bucket_put *p, char **ret, struct err *err)
{
	_cleanup_(freep) char *type = type_header(p, "X-Upload-Content-Type"),
			      *length = xasprintf("X-Upload-Content-Length: %llu",
						  (unsigned long long)p->size);
	const char *headers[] = { type, length, "Content-Type: application/json", NULL };
	struct gcs_call c = { .method = "POST", .key = p->key, .headers = headers, .body_fd = -1 };
	struct str url = { 0 }, resource = { 0 };
	int r;

	upload_url(g, p, "resumable", &url);
	add_resource(&resource, p);
	c.url = url.s;
	c.body = resource.s;
	c.body_len = resource.len;
	r = gcs_send(g, &c, err);
	if (r < 0 && p->if_absent && gcs_status(&c) == 412)
		r = 1;
	if (r == 0) {
		*ret = transfer_header(&c.reply, "Location", 8192);
		if (!*ret || !gcs_same_host(g, *ret)) {
			free(*ret);
			*ret = NULL;
			r = err_set(err, ERR_INVALID,
				    "gs://%s/%s: the server sends the upload to another host",
				    g->base.name, p->key);
		}
	}
	gcs_call_deinit(&c);
	str_deinit(&url);
	str_deinit(&resource);
	return r;
}

/* Interprets a session's answer. 0: complete, 1: continue at *at, 2: session is gone, 3: a
 * condition failed, -1 */
static int read_session(struct gcs_call *c, int sent, uint64_t *at)
{
	long status = gcs_status(c);
	_cleanup_(freep) char *range = NULL;
	unsigned long long last;

	if (sent == 0 && status != 308)
		return 0;
	if (status == 404 || status == 410)
		return 2;
	if (status == 412)
		return 3;
	if (status != 308)
		return -1;
	range = transfer_header(&c->reply, "Range", 64);
	*at = range && sscanf(range, "bytes=0-%20llu", &last) == 1 ? last + 1 : 0;
	return 1;
}

/* A running resumable session. */
struct session {
	struct gcs *g;
	const struct bucket_put *p;
	const char *url;
	uint64_t at; /* bytes that the server has */
	struct gcs_call c;
};

/* Sends the next chunk of n bytes; n 0: queries how far the session came. Returns as
 * read_session().
 */
static int session_step(struct session *s, uint64_t n, struct err *err)
{
	const struct bucket_put *p = s->p;
	unsigned long long first = s->at, last = s->at + n - 1, size = p->size;
	_cleanup_(freep) char *range =
		n ? xasprintf("Content-Range: bytes %llu-%llu/%llu", first, last, size)
		  : xasprintf("Content-Range: bytes */%llu", size);
	const char *headers[] = { range, NULL };
	int sent;

	gcs_call_deinit(&s->c);
	s->c = (struct gcs_call){ .method = "PUT",
				  .url = s->url,
				  .key = p->key,
				  .headers = headers,
				  .body_fd = -1,
				  .accept_308 = true,
				  .once = n > 0 };
	if (n) {
		s->c.may = p->may;
		s->c.may_arg = p->may_arg;
		s->c.body_len = n;
		s->c.body_fd = p->fd;
		s->c.body_offset = p->offset + s->at;
		s->c.body = p->fd >= 0 ? NULL : (const char *)p->bytes + s->at;
	}
	sent = gcs_send(s->g, &s->c, err);
	s->c.headers = NULL;
	return read_session(&s->c, sent, &s->at);
}

/* 0: written, 1: existed, 2: begin anew, -1. `ask`: first query how far it came, because an earlier
 * process may have sent some. */
static int run_session(struct session *s, bool ask, struct err *err)
{
	const struct gcs *g = s->g;
	unsigned tries = 0;

	for (;;) {
		uint64_t before = s->at;
		int r = 1;

		if (ask)
			r = session_step(s, 0, err);
		if (ask && r != 1)
			return r == 0 ? 0 : 2;
		ask = false;
		if (s->at >= s->p->size)
			return 2;
		r = session_step(s, MIN(CHUNK_BYTES, s->p->size - s->at), err);
		if (r == -1 && http_is_transient(&s->c.reply)) {
			if (!transfer_retry(g->transfer, ++tries, &s->c.reply))
				return -1;
			if (g->emulator)
				return 2;
			r = session_step(s, 0, err);
		}
		if (r == 1 && s->at > before)
			tries = 0;
		else if (r == 1 && ++tries >= transfer_tries(g->transfer))
			return err_set(err, ERR_IO,
				       "gs://%s/%s: the server doesn't continue the upload",
				       g->base.name, s->p->key);
		if (r == 1 && s->at < s->p->size)
			continue;
		if (r == 1) /* all bytes sent, but not complete */
			return err_set(err, ERR_CORRUPT,
				       "gs://%s/%s: the server has all bytes, but no object",
				       g->base.name, s->p->key);
		return r == 3 ? 1 : r;
	}
}

static int put_by_session(struct gcs *g, struct bucket_put *p, const char *crc, const char *url,
			  bool ask, struct err *err)
{
	struct session s = { .g = g, .p = p, .url = url };
	int r = run_session(&s, ask, err);

	if (r == 0) {
		r = check_taken(g, p, &s.c, crc, err);
		r = r == 1 ? 2 : r;
	}
	gcs_call_deinit(&s.c);
	return r;
}

static int put_resumable(struct gcs *g, struct bucket_put *p, const char *crc, struct err *err)
{
	struct session_file file;
	char *session;
	int r = 2;

	session_take(g, p, crc, &file, &session);
	if (session && !g->emulator)
		r = put_by_session(g, p, crc, session, true, err);
	for (unsigned i = 0; r == 2 && i < CORRUPT_TRIES; i++) {
		free(TAKE_PTR(session));
		r = start_session(g, p, &session, err);
		if (r == 0) {
			session_write(&file, p, crc, session);
			r = put_by_session(g, p, crc, session, false, err);
		}
	}
	free(session);
	session_give_back(&file, r != -1); /* a failed session may be resumed later */
	return r == 2 ? -1 : r;
}

/* Leftovers. */

struct stale_sessions {
	struct gcs *g;
	uint64_t n;
};

/* The service answers 499 when it gives up a session, 404 or 410 when it has none of that name. */
static int cancel_session(void *arg, const char *url, struct err *err)
{
	struct stale_sessions *s = arg;
	const char *headers[] = { "Content-Length: 0", NULL };
	struct gcs_call c = { .method = "DELETE", .url = url, .headers = headers, .body_fd = -1 };
	struct err why = { 0 };
	int r = gcs_send(s->g, &c, &why);
	long status = gcs_status(&c);

	c.headers = NULL;
	gcs_call_deinit(&c);
	if (r < 0 && status != 499 && status != 404 && status != 410)
		return err_set(err, why.code, "ending an upload that was cut off: %s", why.msg);
	s->n++;
	return 0;
}

/* Cancels sessions that this machine began. The service ends all sessions after a week. */
int gcs_abort_stale(struct bucket *b, int64_t before_ns, uint64_t *ret_n, struct err *err)
{
	struct stale_sessions s = { .g = CONTAINER_OF(b, struct gcs, base) };
	int r = session_each_stale(s.g, before_ns, cancel_session, &s, err);

	*ret_n = s.n;
	return r;
}

/* Batches. */

struct put_batch {
	struct gcs *g;
	struct bucket_put *const *v;
};

static void put_one(struct work_queue *q, void *arg, size_t i)
{
	struct put_batch *b = arg;
	struct bucket_put *p = b->v[i];
	char crc[9];
	int r;

	p->err = (struct err){ 0 };
	r = crc_of(p, crc, &p->err);
	if (r == 0 && p->size > SINGLE_MAX) {
		r = put_resumable(b->g, p, crc, &p->err);
	} else if (r == 0) {
		r = 2;
		for (unsigned k = 0; r == 2 && k < CORRUPT_TRIES; k++)
			r = put_single(b->g, p, crc, &p->err);
		r = r == 2 ? -1 : r;
	}
	p->result = r;
	if (r >= 0)
		p->err = (struct err){ 0 };
}

int gcs_put_many(struct bucket *b, struct bucket_put *const *v, size_t n, struct err *err)
{
	struct gcs *g = CONTAINER_OF(b, struct gcs, base);
	struct put_batch batch = { g, v };
	_cleanup_(freep) char *token = NULL;

	if (g->tokens && token_get(g->tokens, NULL, &token, err) < 0) {
		for (size_t i = 0; i < n; i++)
			v[i]->result = err_set(&v[i]->err, ERR_INVALID, "no credentials");
		return -1;
	}
	work_run(transfer_threads(g->transfer), (struct work){ put_one, &batch, n });
	return 0;
}
