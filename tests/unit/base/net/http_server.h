/* unit/base/net/http_server.h — the hostile server of tests/net as a child, and what tests of HTTP
 * clients ask of answers. Group set-up and tear-down are start_server() and stop_server().
 */
#ifndef CAIRN_TESTS_BASE_HTTP_SERVER_H
#define CAIRN_TESTS_BASE_HTTP_SERVER_H

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include "base/mem.h"
#include "base/net/http.h"
#include "base/text/json.h"
#include "base/time/clock.h"
#include "unit.h"

#define SECRET "Signature=seekrit"
#define SECOND NS_PER_S

/* The server of tests/net; it ends when its standard input does. */
static struct {
	pid_t pid;
	int in;
	char dir[TEST_DIR_MAX];
	char *ca;
	int http, https, wrong_name, expired, self_signed, silent, refused;
} server;

static inline int spawn_server(int *ret_out)
{
	char *argv[] = { "python3", "tests/net/hostile.py", server.dir, NULL };
	posix_spawn_file_actions_t actions;
	int in[2], out[2], rc;

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		return -1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	rc = posix_spawnp(&server.pid, "python3", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(in[0]);
	close(out[1]);
	server.in = in[1];
	*ret_out = out[0];
	return rc ? -1 : 0;
}

static inline int port_of(json_t *ready, const char *name)
{
	return (int)json_integer_value(json_object_get(ready, name));
}

static inline int start_server(void **state)
{
	char line[4096];
	FILE *f;
	int out;
	json_t *ready;

	test_dir(server.dir, sizeof(server.dir), "http");
	if (spawn_server(&out) < 0 || !(f = fdopen(out, "r")) || !fgets(line, sizeof(line), f))
		return -1;
	fclose(f);
	ready = json_loads(line, 0, NULL);
	server.ca = xstrdup(json_string_value(json_object_get(ready, "ca")));
	server.http = port_of(ready, "http");
	server.https = port_of(ready, "https");
	server.wrong_name = port_of(ready, "wrong_name");
	server.expired = port_of(ready, "expired");
	server.self_signed = port_of(ready, "self_signed");
	server.silent = port_of(ready, "silent");
	server.refused = port_of(ready, "refused");
	json_decref(ready);
	return 0;
}

static inline int stop_server(void **state)
{
	_cleanup_(freep) char *rm = xasprintf("rm -rf %s", server.dir);

	close(server.in);
	waitpid(server.pid, NULL, 0);
	free(server.ca);
	return system(rm);
}

/* Helpers. */

static inline struct http_client *client(struct http_options o)
{
	struct http_client *c;

	o.ca_file = o.ca_file ? o.ca_file : server.ca;
	o.proxy = o.proxy ? o.proxy : "";
	assert_int_equal(http_client_new(&o, &c, NULL), 0);
	return c;
}

static inline char *url(const char *path)
{
	return xasprintf("http://127.0.0.1:%d%s?" SECRET, server.http, path);
}

static inline struct http_request request(const char *method, const char *u)
{
	return (struct http_request){ .method = method, .url = u, .body_fd = -1 };
}

static inline void assert_status(const struct http_request *r, long status)
{
	if (r->err.code)
		fail_msg("%s: %s", r->url, r->err.msg);
	assert_int_equal(r->reply.status, status);
}

static inline void assert_error(const struct http_request *r, enum err_code code, const char *words)
{
	if (r->err.code != code)
		fail_msg("%s: code %d, status %ld, %s", r->url, r->err.code, r->reply.status,
			 r->err.msg);
	if (!strstr(r->err.msg, words))
		fail_msg("%s: no `%s` in: %s", r->url, words, r->err.msg);
	assert_null(strstr(r->err.msg, "seekrit"));
	assert_null(strstr(r->err.msg, "?"));
}

/* Bytes of /bytes/N: each run of 8 says its offset. */
static inline void assert_pattern(const struct str *s, size_t n)
{
	assert_int_equal(s->len, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal((unsigned char)s->s[i],
				 (unsigned char)((uint64_t)(i & ~7ULL) >> (8 * (7 - i % 8))));
}

static inline void assert_header(const struct http_request *r, const char *name, const char *want)
{
	size_t n;
	const char *v = http_header(r, name, &n);

	if (!want) {
		assert_null(v);
		return;
	}
	assert_non_null(v);
	assert_int_equal(n, strlen(want));
	assert_memory_equal(v, want, n);
}

#endif
