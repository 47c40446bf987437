/* storage/bucket/s3/head.c — HEAD, one and many. */
#include "storage/bucket/s3/client.h"

/* Adds a header's value to `strings`; returns its offset. */
static size_t add_header(struct str *strings, const struct s3_call *c, const char *name)
{
	_cleanup_(freep) char *v = transfer_header(&c->reply, name, 1024);

	return bucket_add_string(strings, v ? v : "");
}

static int head_request(struct s3 *s, const char *key, struct s3_call *c, uint64_t *ret_size,
			struct err *err)
{
	*c = (struct s3_call){
		.method = "HEAD", .key = key, .body_fd = -1, .check = s3_check_etag
	};
	if (s3_send(s, c, err) < 0)
		return -1;
	if (!transfer_length(&c->reply, ret_size))
		return err_set(err, ERR_CORRUPT,
			       "s3://%s/%s: the server doesn't say how large it is", s->base.name,
			       key);
	return 0;
}

int s3_head(struct bucket *b, const char *key, struct bucket_object *ret, struct str *strings,
	    struct err *err)
{
	struct s3 *s = CONTAINER_OF(b, struct s3, base);
	struct s3_call c;
	size_t etag, version, encoding, n;
	const char *modified;
	uint64_t size;
	int r = head_request(s, key, &c, &size, err);

	if (r == 0) {
		etag = add_header(strings, &c, "ETag");
		version = add_header(strings, &c, "x-amz-version-id");
		encoding = add_header(strings, &c, S3_ENCODING_HEADER);
		*ret = (struct bucket_object){ .key = key,
					       .size = size,
					       .etag = strings->s + etag,
					       .version = strings->s + version,
					       .encoding = strings->s + encoding };
		modified = http_header(&c.reply, "Last-Modified", &n);
		if (modified && !http_parse_date(modified, n, &ret->mtime_ns))
			ret->mtime_ns = 0;
		if (str_eq(ret->version, "null"))
			ret->version = "";
	}
	s3_call_deinit(&c);
	return r;
}

struct head_batch {
	struct s3 *s;
	const char *const *keys;
	bool *there;
	uint64_t *sizes;
};

static int head_one(void *arg, size_t i, struct err *err)
{
	struct head_batch *b = arg;
	struct err e = { 0 };
	struct s3_call c;
	uint64_t size = 0;
	bool there = head_request(b->s, b->keys[i], &c, &size, &e) == 0;
	bool absent = !there && e.code == ERR_NOT_FOUND && !str_eq(c.error.code, "NoSuchBucket");

	b->there[i] = there;
	if (b->sizes)
		b->sizes[i] = there ? size : 0;
	s3_call_deinit(&c);
	return there || absent ? 0 : err_pass(err, &e);
}

int s3_head_many(struct bucket *b, const char *const *keys, size_t n, bool *ret_there,
		 uint64_t *ret_sizes, struct err *err)
{
	struct s3 *s = CONTAINER_OF(b, struct s3, base);
	struct head_batch batch = { .s = s, .keys = keys, .there = ret_there, .sizes = ret_sizes };

	return work_each(transfer_threads(s->transfer), n, true, head_one, &batch, err);
}
