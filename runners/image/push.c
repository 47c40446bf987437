/* runners/image/push.c — pushes a layout to a registry.
 *
 * Blobs go first, then the manifests of an index, and what the tag names last, so that a tag never
 * names missing content (OCI Distribution Specification, "Push"). A blob that the registry has
 * isn't sent (has_blob()).
 *
 * A large blob is sent in pieces of `chunk` bytes (PATCH), a small one with the last request (PUT).
 * `sent` is how much has arrived, as the registry says. After a failed piece, ask_progress() asks
 * for it, and the upload continues from there. `furthest` only grows, and each growth restarts the
 * patience. So an upload ends when it makes no progress for that long, not after a total time. Each
 * answer gives the URL for the next request.
 *
 * registry.c does authentication, redirects and retries of one request. A piece has `once` set,
 * because it can't be repeated unchanged. Any thread; only the registry client is shared.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "runners/image/layout.h"
#include "runners/image/registry_internal.h"

#define CHUNK_BYTES (16 * MIB)
#define CHUNK_MAX   (256 * MIB) /* even if a registry's minimum is larger */

struct push {
	struct registry *r;
	struct image_ref ref;
	const char *dir;
};

static struct registry_call call_of(struct push *p, const char *method, const char *below)
{
	return (struct registry_call){
		.r = p->r, .ref = &p->ref, .scope = "pull,push", .method = method, .below = below
	};
}

/* One blob. */

/* 1: the registry has it. */
static int has_blob(struct push *p, const struct image_blob *b, struct err *err)
{
	_cleanup_(freep) char *below = xasprintf("blobs/%s", b->digest);
	struct registry_call c = call_of(p, "HEAD", below);
	int r = registry_do(&c, err);

	if (r == 0)
		r = c.reply.reply.status == 200   ? 1
		    : c.reply.reply.status == 404 ? 0
						  : registry_refused(&c, err);
	registry_call_deinit(&c);
	return r;
}

struct upload {
	char *url; /* where the next piece goes */
	int fd;
	uint64_t sent, size, chunk;
	uint64_t furthest; /* the largest value of `sent` */
	struct registry_retry retry;
};

/* The answer has the next URL, and may say how much has arrived ("0-LAST"). */
static int note_progress(struct upload *u, const struct registry_call *c, struct err *err)
{
	size_t n;
	const char *range = http_header(&c->reply, "Range", &n),
		   *dash = range ? memchr(range, '-', n) : NULL;
	char *url = registry_location(c);
	int64_t last;

	if (!url)
		return err_set(err, ERR_INVALID, "%s doesn't say where the upload goes on",
			       c->ref->host);
	free(u->url);
	u->url = url;
	if (dash) {
		_cleanup_(freep) char *text = xstrndup(dash + 1, n - (size_t)(dash + 1 - range));

		/* Many registries send "0-0" when nothing has arrived, so it counts as nothing. */
		if (!text_parse_int(text, &last) || last < 0 ||
		    (last > 0 && (uint64_t)last >= u->size))
			return err_set(err, ERR_INVALID,
				       "%s says that `%.40s` of %llu bytes arrived", c->ref->host,
				       text, (unsigned long long)u->size);
		u->sent = last > 0 ? (uint64_t)last + 1 : 0;
	}
	return 0;
}

static int begin_upload(struct push *p, struct upload *u, struct err *err)
{
	struct registry_call c = call_of(p, "POST", "blobs/uploads/");
	const char *least;
	int64_t bytes;
	size_t n;
	int r = registry_do(&c, err);

	if (r == 0)
		r = c.reply.reply.status == 202 ? note_progress(u, &c, err)
						: registry_refused(&c, err);
	least = r == 0 ? http_header(&c.reply, "OCI-Chunk-Min-Length", &n) : NULL;
	if (least) {
		_cleanup_(freep) char *text = xstrndup(least, n);

		if (text_parse_int(text, &bytes) && bytes > 0)
			u->chunk = MAX(u->chunk, MIN((uint64_t)bytes, CHUNK_MAX));
	}
	u->sent = 0;
	registry_call_deinit(&c);
	return r;
}

/* Asks how much has arrived, after a failed piece. */
static int ask_progress(struct push *p, struct upload *u, struct err *err)
{
	struct registry_call c = call_of(p, "GET", NULL);
	int r;

	c.url = u->url;
	u->sent = 0;
	r = registry_do(&c, err);
	if (r == 0)
		r = c.reply.reply.status == 204 ? note_progress(u, &c, err)
						: registry_refused(&c, err);
	registry_call_deinit(&c);
	return r;
}

static int send_chunk(struct push *p, struct upload *u, struct err *err)
{
	uint64_t n = MIN(u->size - u->sent, u->chunk), from = u->sent;
	struct registry_call c = call_of(p, "PATCH", NULL);
	char range[64];
	struct err why = { 0 };
	int r;

	snprintf(range, sizeof(range), "%llu-%llu", (unsigned long long)from,
		 (unsigned long long)(from + n - 1));
	c.url = u->url;
	c.range = range;
	c.type = "application/octet-stream";
	c.body_from_fd = true;
	c.body_fd = u->fd;
	c.body_offset = from;
	c.body_len = (size_t)n;
	c.once = true;
	r = registry_do(&c, &why);
	if (r == 0 && (c.reply.reply.status == 202 || c.reply.reply.status == 204)) {
		u->sent = from + n;
		r = note_progress(u, &c, err);
		if (r == 0 && u->sent <= u->furthest && !registry_retry_wait(&u->retry, NULL))
			r = err_set(
				err, ERR_IO,
				"%s takes pieces, but says each time that %llu bytes have arrived",
				p->ref.host, (unsigned long long)u->sent);
	} else if (r == 0 ? http_is_transient(&c.reply) || c.reply.reply.status == 416
			  : why.code == ERR_IO) {
		if (registry_retry_wait(&u->retry, r == 0 ? &c.reply : NULL))
			r = ask_progress(p, u, err);
		else
			r = r == 0 ? registry_refused(&c, err) : (*err = why, -1);
	} else {
		r = r == 0 ? registry_refused(&c, err) : (*err = why, -1);
	}
	registry_call_deinit(&c);
	if (r == 0 && u->sent > u->furthest) {
		u->furthest = u->sent;
		registry_retry_begin(&u->retry, p->r); /* progress */
	}
	return r;
}

/* Without a body when pieces have sent everything; else with all of it. */
static int finish_upload(struct push *p, struct upload *u, const struct image_blob *b,
			 struct err *err)
{
	_cleanup_(freep) char *url =
		xasprintf("%s%cdigest=%s", u->url, strchr(u->url, '?') ? '&' : '?', b->digest);
	struct registry_call c = call_of(p, "PUT", NULL);
	int r;

	c.url = url;
	c.type = "application/octet-stream";
	if (u->sent < u->size) {
		c.body_from_fd = true;
		c.body_fd = u->fd;
		c.body_len = (size_t)u->size;
	}
	r = registry_do(&c, err);
	if (r == 0 && c.reply.reply.status != 201)
		r = registry_refused(&c, err);
	registry_call_deinit(&c);
	return r;
}

static int send_blob(struct push *p, const struct image_blob *b, struct err *err)
{
	_cleanup_(freep) char *path = image_blob_path(p->dir, b->digest);
	_cleanup_(fd_closep) int fd = -1;
	struct upload u = { .size = b->size, .chunk = CHUNK_BYTES };
	struct stat st;
	int r = has_blob(p, b, err);

	if (r != 0)
		return MIN(r, 0);
	u.fd = fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot read %s", path);
	if ((uint64_t)st.st_size != b->size)
		return err_set(err, ERR_CORRUPT, "%s has %lld bytes instead of %llu", path,
			       (long long)st.st_size, (unsigned long long)b->size);
	r = begin_upload(p, &u, err);
	registry_retry_begin(&u.retry, p->r);
	while (r == 0 && b->size > u.chunk && u.sent < u.size)
		r = send_chunk(p, &u, err);
	if (r == 0)
		r = finish_upload(p, &u, b, err);
	free(u.url);
	return r < 0 ? err_wrap(err, "sending %s", b->digest) : 0;
}

/* The manifest. */

/* at: the tag, or the digest. */
static int send_manifest(struct push *p, const struct image_blob *m, const char *at,
			 struct err *err)
{
	_cleanup_(freep) char *path = image_blob_path(p->dir, m->digest),
			      *below = xasprintf("manifests/%s", at);
	_cleanup_(str_deinit) struct str text = { 0 };
	struct registry_call c = call_of(p, "PUT", below);
	const char *said;
	size_t n;
	int r;

	if (fs_read_file(path, REGISTRY_DOCUMENT_MAX, &text, err) < 0)
		return -1;
	c.type = m->media_type;
	c.body = text.s;
	c.body_len = text.len;
	r = registry_do(&c, err);
	if (r == 0 && c.reply.reply.status != 201)
		r = registry_refused(&c, err);
	said = r == 0 ? http_header(&c.reply, "Docker-Content-Digest", &n) : NULL;
	if (said && (n != strlen(m->digest) || memcmp(said, m->digest, n) != 0))
		r = err_set(err, ERR_INVALID,
			    "%s took the manifest for one of digest %.*s instead of %s",
			    p->ref.host, (int)MIN(n, 80), said, m->digest);
	registry_call_deinit(&c);
	return r;
}

int registry_push(struct registry *r, const char *layout_dir, const char *ref,
		  char ret_digest[IMAGE_DIGEST_MAX], struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct push p = { .r = r, .dir = layout_dir };
	struct image_layout l;

	if (image_ref_parse(ref, arena, &p.ref, err) < 0 ||
	    image_layout_read(layout_dir, arena, &l, err) < 0)
		return -1;
	if (p.ref.digest && strcmp(p.ref.digest, l.top.digest) != 0)
		return err_set(err, ERR_INVALID, "%s names another digest than the image's, %s",
			       ref, l.top.digest);
	for (size_t i = 0; i < l.n_parts; i++) {
		const struct image_part *part = &l.parts[i];

		for (size_t j = 0; j < part->n_blobs; j++)
			if (send_blob(&p, &part->blobs[j], err) < 0)
				return -1;
		if (strcmp(part->manifest.digest, l.top.digest) != 0 &&
		    send_manifest(&p, &part->manifest, part->manifest.digest, err) < 0)
			return -1;
	}
	if (send_manifest(&p, &l.top, p.ref.digest ? p.ref.digest : p.ref.tag, err) < 0)
		return -1;
	memcpy(ret_digest, l.top.digest, sizeof(l.top.digest));
	return 0;
}
