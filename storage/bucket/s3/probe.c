/* storage/bucket/s3/probe.c — what a server can do, tried out with an object of our own that is
 * gone afterwards. */
#include "base/os/machine.h"
#include "storage/bucket/s3/client.h"

#include <stdio.h>

static char *probe_key(const struct s3 *s)
{
	return xasprintf("%scairn-probe-%016llx%016llx", s->base.prefix,
			 (unsigned long long)random_u64(), (unsigned long long)random_u64());
}

/* Puts eight bytes. Returns the status. */
static long put(struct s3 *s, const char *key, const char *bytes, bool if_absent, bool wrong,
		int64_t *ret_server_ns, struct err *err)
{
	struct sigv4_header h = { "if-none-match", "*" };
	struct s3_call c = { .method = "PUT",
			     .key = key,
			     .headers = &h,
			     .n_headers = if_absent,
			     .body = bytes,
			     .body_len = strlen(bytes),
			     .body_fd = -1,
			     .wrong_hash = wrong };
	struct err ignored = { 0 };
	long status;

	if (s3_send(s, &c, &ignored) < 0 && err)
		*err = ignored;
	status = s3_status(&c);
	if (ret_server_ns)
		*ret_server_ns = c.server_ns;
	s3_call_deinit(&c);
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

/* A DELETE that must not be carried out: is it there afterwards? */
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
	_cleanup_(freep) char *key = probe_key(s);
	struct clock *clock = clock_system();
	int64_t server_ns = 0;
	struct err why = { 0 };
	long status = put(s, key, "probe ok", true, false, &server_ns, &why);

	if (status == 501)
		status = put(s, key, "probe ok", false, false, &server_ns, &why);
	if ((status < 200 || status > 299) &&
	    status != 412) { /* 412: it is our own, whose answer was lost: nobody else makes one of
				this name */
		if (err)
			*err = why;
		return -1;
	}
	ret->if_absent = put(s, key, "probe no", true, false, NULL, NULL) == 412;
	ret->clock_skew_ns = server_ns ? clock->wall_ns(clock) - server_ns : 0;
	if (llabs(ret->clock_skew_ns) < 2 * NS_PER_S) /* the header has whole seconds */
		ret->clock_skew_ns = 0;
	put(s, key, "probe ok", false, false, NULL, NULL);
	ret->ranges = has_ranges(s, key);
	status = put(s, key, "probe no", false, true, NULL, NULL);
	ret->checks_body = status >= 400 && status < 500;
	ret->delete_if = has_delete_if(s, key);
	s3_delete(s, key, NULL, NULL, NULL);
	return 0;
}
