/* storage/bucket/s3/probe.c — probes what a server can do, with an object of our own that is
 * deleted afterwards. */
#include "storage/bucket/s3/client.h"

#include <stdio.h>

/* Puts eight bytes; `how` gives body and headers. Returns the status. */
static long put(struct s3 *s, const char *key, struct s3_call how, int64_t *ret_server_ns,
		struct err *err)
{
	struct err why = { 0 };
	long status;

	how.method = "PUT";
	how.key = key;
	how.body_len = strlen(how.body);
	how.body_fd = -1;
	if (s3_send(s, &how, &why) < 0 && err)
		*err = why;
	status = s3_status(&how);
	if (ret_server_ns)
		*ret_server_ns = how.server_ns;
	s3_call_deinit(&how);
	return status;
}

static bool has_ranges(struct s3 *s, const char *key)
{
	struct sigv4_header h = { "range", "bytes=2-3" };
	struct s3_call c = {
		.method = "GET", .key = key, .headers = &h, .n_headers = 1, .body_fd = -1
	};
	bool yes = s3_send(s, &c, NULL) == 0 && c.reply.reply.body.len == 2 &&
		   memcmp(c.reply.reply.body.s, "ob", 2) == 0;

	s3_call_deinit(&c);
	return yes;
}

/* Sends a DELETE whose condition fails, and checks that the object still exists. */
static bool has_delete_if(struct s3 *s, const char *key)
{
	struct sigv4_header match = { "if-match", "\"00000000000000000000000000000000\"" };
	struct str strings = { 0 };
	struct bucket_object o;
	int r = s3_delete(s, key, NULL, &match, NULL);
	bool there = s3_head(&s->base, key, &o, &strings, NULL) == 0;

	str_deinit(&strings);
	return r == 1 && there;
}

int s3_probe(struct bucket *b, struct bucket_abilities *ret, struct err *err)
{
	struct s3 *s = CONTAINER_OF(b, struct s3, base);
	_cleanup_(freep) char *key = bucket_probe_key(b);
	const struct sigv4_header absent = { "if-none-match", "*" };
	const struct s3_call plain = { .body = "probe ok" };
	struct s3_call if_absent = { .body = "probe ok", .headers = &absent, .n_headers = 1 };
	struct clock *clock = clock_system();
	int64_t server_ns = 0;
	struct err why = { 0 };
	long status = put(s, key, if_absent, &server_ns, &why);

	if (status == 501)
		status = put(s, key, plain, &server_ns, &why);
	if ((status < 200 || status > 299) &&
	    status != 412) { /* 412: our own put, whose answer was lost; the name is unique */
		if (err)
			*err = why;
		return -1;
	}
	if_absent.body = "probe no";
	ret->if_absent = put(s, key, if_absent, NULL, NULL) == 412;
	ret->clock_skew_ns = server_ns ? clock->wall_ns(clock) - server_ns : 0;
	if (llabs(ret->clock_skew_ns) < 2 * NS_PER_S) /* the header has whole seconds */
		ret->clock_skew_ns = 0;
	put(s, key, plain, NULL, NULL);
	ret->ranges = has_ranges(s, key);
	status =
		put(s, key, (struct s3_call){ .body = "probe no", .wrong_hash = true }, NULL, NULL);
	ret->checks_body = status >= 400 && status < 500;
	ret->delete_if = has_delete_if(s, key);
	s3_delete(s, key, NULL, NULL, NULL);
	return 0;
}
