/* storage/bucket/s3/head.c — HEAD, one and many. */
#include "storage/bucket/s3/client.h"

#include <errno.h>

static const char *keep(struct str *strings, size_t at)
{
	return strings->s + at;
}

/* Adds a header's value to `strings`; returns where. */
static size_t add_header(struct str *strings, const struct s3_call *c, const char *name)
{
	_cleanup_(freep) char *v = transfer_header(&c->reply, name, 1024);
	size_t at = strings->len;

	str_addn(strings, v ? v : "", (v ? strlen(v) : 0) + 1);
	return at;
}

static int content_length(const struct s3_call *c, uint64_t *ret)
{
	_cleanup_(freep) char *v = transfer_header(&c->reply, "Content-Length", 20);
	char *end;

	if (!v || !*v || strspn(v, "0123456789") != strlen(v))
		return -1;
	errno = 0;
	*ret = strtoull(v, &end, 10);
	return errno ? -1 : 0;
}

static int head_request(struct s3 *s, const char *key, struct s3_call *c, uint64_t *ret_size,
			struct err *err)
{
	*c = (struct s3_call){
		.method = "HEAD", .key = key, .body_fd = -1, .check = s3_check_etag
	};
	if (s3_send(s, c, err) < 0)
		return -1;
	if (content_length(c, ret_size) < 0)
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
					       .etag = keep(strings, etag),
					       .version = keep(strings, version),
					       .encoding = keep(strings, encoding) };
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
	pthread_mutex_t lock;
	struct err err;
};

static void head_one(struct work_queue *q, void *arg, size_t i)
{
	struct head_batch *b = arg;
	struct err err = { 0 };
	struct s3_call c;
	uint64_t size = 0;
	bool there = head_request(b->s, b->keys[i], &c, &size, &err) == 0;

	b->there[i] = there;
	if (b->sizes)
		b->sizes[i] = there ? size : 0;
	if (!there && (err.code != ERR_NOT_FOUND || str_eq(c.error.code, "NoSuchBucket"))) {
		pthread_mutex_lock(&b->lock);
		if (!b->err.code)
			b->err = err;
		pthread_mutex_unlock(&b->lock);
	}
	s3_call_deinit(&c);
}

int s3_head_many(struct bucket *b, const char *const *keys, size_t n, bool *ret_there,
		 uint64_t *ret_sizes, struct err *err)
{
	struct s3 *s = CONTAINER_OF(b, struct s3, base);
	struct head_batch batch = { .s = s, .keys = keys, .there = ret_there, .sizes = ret_sizes };

	pthread_mutex_init(&batch.lock, NULL);
	work_run(transfer_threads(s->transfer), (struct work){ head_one, &batch, n });
	pthread_mutex_destroy(&batch.lock);
	if (!batch.err.code)
		return 0;
	if (err)
		*err = batch.err;
	return -1;
}
