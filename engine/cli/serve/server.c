/* engine/cli/serve/server.c — HTTP requests to a remote `cairn serve`.
 *
 * server_open() finds URL, project and token, and decides whether the token may be sent there:
 * never to a URL that only the project's own files name, unless the user trusts it, and never over
 * plain HTTP to another machine.
 *
 * server_ask() sends one request and parses the answer. With `again` it is repeated up to TRIES
 * times with growing pauses, when no answer came or the server is busy or on standby.
 * server_stream() is sent once; a trailer says why a stream ended too early.
 *
 * Invariants: the token is in memory and in a header, never in a URL or message; its header is
 * wiped. Answers are bounded (ANSWER_MAX); streams aren't, since they go straight to the output.
 *
 * Threads: the caller's. print_bytes() runs on the HTTP client's thread, while the caller waits in
 * http_do(). What it doesn't do: know commands or their paths (run.c, runs.c, follow.c).
 */
#include "cli/serve/server.h"

#include <assert.h>
#include <string.h>
#include <time.h>
#include "base/crypto/trust.h"
#include "base/os/fs.h"
#include "base/text/text.h"
#include "serve/web/web.h"

#define TOKEN_FILE_MAX 4096
#define ANSWER_MAX     (16 * MIB)
#define ASK_NS         (60 * NS_PER_S)
#define TRIES          6
#define PAUSE_MIN_NS   (500 * NS_PER_MS)
#define PAUSE_MAX_NS   (16 * NS_PER_S)

int server_token(struct cli *cli, const struct cli_args *args, const char **ret, struct err *err)
{
	const char *file = cli_value(args, "token-file"), *token = getenv("CAIRN_SERVE_TOKEN");
	_cleanup_(str_deinit) struct str text = { 0 };

	*ret = NULL;
	if (file) {
		if (fs_read_file(file, TOKEN_FILE_MAX, &text, err) < 0)
			return err_wrap(err, "--token-file");
		while (text.len && strchr("\r\n \t", text.s[text.len - 1]))
			text.s[--text.len] = '\0';
		token = text.len ? text.s : "";
	}
	if (!token || (!*token && !file))
		return 0;
	if (strlen(token) < WEB_TOKEN_MIN)
		return err_set(
			err, ERR_USAGE,
			"the token has fewer than %d characters: `openssl rand -hex 32` makes one",
			WEB_TOKEN_MIN);
	for (const char *c = token; *c; c++)
		if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f)
			return err_set(err, ERR_USAGE,
				       "the token must be one line of printable characters");
	*ret = arena_strdup(cli->arena, token);
	return 0;
}

static int find_server(struct cli *cli, const struct cli_args *args, struct server *ret,
		       struct err *err)
{
	const char *given = cli_value(args, "server");
	const struct config *c;

	if (given && *given) {
		ret->url = config_server_url(cli->arena, given, err);
		return ret->url ? 0 : err_wrap(err, "--server");
	}
	if (cli_config(cli, &c, err) < 0)
		return -1;
	if (!c->serve.url)
		return err_set(
			err, ERR_USAGE,
			"name the server: --server URL, CAIRN_SERVER, or serve.url in cairn.yaml");
	ret->url = c->serve.url;
	ret->project = c->serve.project;
	return 0;
}

int server_open(struct cli *cli, const struct cli_args *args, struct server *ret, struct err *err)
{
	const struct http_options o = { .max_connections = 2 };
	const char *env = getenv("CAIRN_SERVER");
	bool of_project;

	*ret = (struct server){ 0 };
	if (find_server(cli, args, ret, err) < 0 || server_token(cli, args, &ret->token, err) < 0)
		return -1;
	/* With the token one can execute things on the server: it isn't sent to a URL that only the
	 * project names, and never unencrypted over a network. */
	of_project = cli->config && ret->url == cli->config->serve.url && !(env && *env);
	if (ret->token && of_project && trust_check_endpoint(ret->url, err) < 0)
		return err_wrap(err, "serve.url");
	if (ret->token && !str_has_prefix(ret->url, "https://") && !trust_is_loopback(ret->url))
		return err_set(err, ERR_INVALID, "%s must be https: requests carry the token",
			       ret->url);
	if (cli_value(args, "project"))
		ret->project = cli_value(args, "project");
	return http_client_new(&o, &ret->http, err);
}

int server_unused(const struct cli_args *args, struct err *err)
{
	return cli_count(args, "project")
		       ? err_set(err, ERR_USAGE,
				 "--project names a project of a server: --server is missing")
		       : 0;
}

void server_close(struct server *s)
{
	http_client_free(s->http);
	s->http = NULL;
}

/* Asking. */

/* The error in the server's words (RFC 9457), else by its status. */
static int refused(const struct server *s, const struct http_request *r, struct err *err)
{
	_cleanup_(json_decrefp) json_t *j = NULL;
	const char *detail = NULL;
	enum err_code code = ERR_IO;

	if (json_parse("answer", r->reply.body.s ? r->reply.body.s : "", r->reply.body.len, &j,
		       NULL) == 0)
		detail = json_string_value(json_object_get(j, "detail"));
	switch (r->reply.status) {
	case 401:
		return err_set(err, ERR_INVALID,
			       "%s: the token is %s: give the server's in CAIRN_SERVE_TOKEN or "
			       "with --token-file",
			       s->url, s->token ? "wrong" : "missing");
	case 400:
	case 403:
	case 409:
	case 413:
		code = ERR_INVALID;
		break;
	case 404:
		code = ERR_NOT_FOUND;
		break;
	case 429:
	case 503:
		code = ERR_BUSY;
		break;
	default:
		break;
	}
	if (detail)
		return err_set(err, code, "%s: %.800s", s->url, detail);
	return err_set(err, code, "%s: status %ld: is it a `cairn serve`?", s->url,
		       r->reply.status);
}

static int ask_once(struct server *s, struct http_request *r, struct err *err)
{
	_cleanup_(str_wipe) struct str auth = { 0 };
	const char *headers[6] = { "Accept: application/json" };
	size_t n = 1;
	int result;

	if (r->body)
		headers[n++] = "Content-Type: application/json";
	if (r->sink) { /* a stream may report at its end why it ended early */
		headers[n++] = "TE: trailers";
		headers[n++] = "Connection: TE";
	}
	if (s->token) {
		str_addf(&auth, "Authorization: Bearer %s", s->token);
		headers[n++] = auth.s;
	}
	r->headers = headers;
	result = http_do(s->http, r, err);
	r->headers = NULL;
	if (result < 0)
		return err_wrap(err, "the server %s", s->url);
	return r->reply.status >= 200 && r->reply.status < 300 ? 0 : refused(s, r, err);
}

void server_add_param(struct str *path, const char *name, const char *value)
{
	if (!value)
		return;
	assert(path->len);
	str_addf(path, "%c%s=", strchr(path->s, '?') ? '&' : '?', name);
	http_escape(path, value, strlen(value), false);
}

static char *url_of(const struct server *s, const char *path)
{
	struct str url = { 0 };

	str_addf(&url, "%s%s", s->url, path);
	server_add_param(&url, "project", s->project);
	return url.s;
}

int server_ask(struct server *s, const char *method, const char *path, const json_t *body,
	       bool again, json_t **ret, struct err *err)
{
	_cleanup_(freep) char *url = url_of(s, path);
	_cleanup_(str_deinit) struct str text = { 0 };
	int result = -1;

	assert(s->http && path[0] == '/');
	if (body)
		json_add_canonical(&text, body);
	for (unsigned tries = 0; tries < TRIES; tries++) {
		struct http_request r = { .method = method,
					  .url = url,
					  .body = text.len ? text.s : NULL,
					  .body_len = text.len,
					  .body_fd = -1,
					  .max_bytes = ANSWER_MAX,
					  .timeout_ns = ASK_NS };
		struct err why = { 0 };
		bool go_on;

		result = ask_once(s, &r, &why);
		if (result == 0)
			result = json_parse("the server's answer",
					    r.reply.body.s ? r.reply.body.s : "", r.reply.body.len,
					    ret, &why);
		/* A second try may succeed when no answer came, or when the server was busy or on
		 * standby. */
		go_on = result < 0 && again && tries + 1 < TRIES &&
			(why.code == ERR_IO ? r.reply.status == 0 || r.reply.status >= 500
					    : r.reply.status == 503);
		http_request_deinit(&r);
		if (!go_on) {
			if (result < 0)
				*err = why;
			break;
		}
		clock_sleep(backoff_ns(PAUSE_MIN_NS, PAUSE_MAX_NS, tries + 1));
	}
	return result;
}

int server_next_page(const struct server *s, const char *next, struct str *cursor, struct err *err)
{
	if (next && cursor->len && str_eq(next, cursor->s))
		return err_set(err, ERR_IO,
			       "%s: its list repeats: the next page is the one that it gave",
			       s->url);
	str_reset(cursor);
	if (next)
		str_add(cursor, next);
	return 0;
}

struct printed_log {
	struct cli *cli;
	struct cli_log text;
};

static int print_bytes(void *arg, const void *bytes, size_t n, struct err *err)
{
	struct printed_log *l = arg;
	struct cli *cli = l->cli;

	cli_print_log(cli, &l->text, bytes, n);
	if (fflush(cli->out) != 0 || ferror(cli->out))
		return err_errno(err, "cannot write");
	return 0;
}

int server_stream(struct server *s, struct cli *cli, const char *path, struct err *err)
{
	_cleanup_(freep) char *url = url_of(s, path);
	struct printed_log log = { .cli = cli };
	struct http_request r = { .method = "GET",
				  .url = url,
				  .body_fd = -1,
				  .max_bytes = UINT64_MAX,
				  .sink = print_bytes,
				  .arg = &log,
				  .quiet_timeout_ns = INT64_MAX / 4 };
	const char *why;
	int result;
	size_t n;

	assert(s->http && path[0] == '/');
	result = ask_once(s, &r, err);
	cli_end_log(cli, &log.text);
	if (result == 0 && (why = http_trailer(&r, WEB_PROBLEM_TRAILER, &n))) {
		_cleanup_(str_deinit) struct str text = { 0 };

		text_add_printable(&text, why, n);
		result = err_set(err, ERR_IO, "%s: the log breaks off: %.*s", s->url,
				 WEB_PROBLEM_MAX, text.s ? text.s : "");
	}
	http_request_deinit(&r);
	return result;
}
