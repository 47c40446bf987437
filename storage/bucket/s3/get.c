/* storage/bucket/s3/get.c — GET of a range. */
#include "storage/bucket/s3/client.h"

#include <stdio.h>
#include "storage/bucket/ranged.h"

static void copy_header(const struct s3_call *c, const char *name, char *out, size_t size)
{
	_cleanup_(freep) char *v = transfer_header(&c->reply, name, size - 1);

	snprintf(out, size, "%s", v ? v : "");
}

static int request(void *store, const struct bucket_get *g, struct ranged_part *p, struct err *err)
{
	struct sigv4_header h[2];
	struct str query = { 0 };
	struct s3_call c = { .method = "GET",
			     .key = g->key,
			     .headers = h,
			     .body_fd = -1,
			     .max_bytes = UINT64_MAX,
			     .sink = p->sink,
			     .piece_bytes = p->piece_bytes,
			     .rewind = p->rewind,
			     .check = p->check,
			     .arg = p };
	int r;

	p->reply = &c.reply;
	if (p->range)
		h[c.n_headers++] = (struct sigv4_header){ "range", p->range };
	if (g->version && *g->version == '"') {
		h[c.n_headers++] = (struct sigv4_header){ "if-match", g->version };
	} else if (g->version && *g->version) {
		transfer_add_param(&query, "versionId", g->version);
		c.query = query.s;
	}
	r = s3_send(store, &c, err);
	if (r < 0 && s3_status(&c) == 416)
		r = 1;
	if (r == 0) {
		copy_header(&c, "ETag", p->etag, sizeof(p->etag));
		copy_header(&c, S3_ENCODING_HEADER, p->encoding, sizeof(p->encoding));
	}
	s3_call_deinit(&c);
	str_deinit(&query);
	return r;
}

int s3_get_many(struct bucket *b, struct bucket_get *const *v, size_t n, struct err *err)
{
	struct s3 *s = CONTAINER_OF(b, struct s3, base);
	struct ranged ranged = { .request = request, .store = s, .no_ranges = &s->no_ranges };

	if (s3_check_credentials(s, err) < 0) {
		for (size_t i = 0; i < n; i++)
			v[i]->result = err_set(&v[i]->err, ERR_INVALID, "no credentials");
		return -1;
	}
	ranged_get_many(&ranged, transfer_threads(s->transfer), v, n);
	return 0;
}
