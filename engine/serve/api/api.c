/* engine/serve/api/api.c — from a request to a handler: the route, access, and the parameters.
 *
 * api_route() runs when the headers have arrived: it finds the route in api_routes, asks
 * who calls and whether he may (access/), and refuses requests while the server can't answer yet.
 * api_handle() runs when the body is complete: it chooses the project, parses the body, opens a
 * reader with a snapshot, calls the handler, and closes both. The rest are checks that handlers
 * share.
 *
 * Invariants: access is decided before a 404, so that a client without access learns nothing about
 * routes. Every query parameter must be in the route's table. An exchange whose status is set has
 * its answer, and nothing after it runs. openapi.c makes OpenAPI from the same table.
 *
 * Threads: api_route() on the server's I/O threads, where it may not wait; api_handle() on the
 * pool's. Neither touches what the loop owns; api_call() runs functions there.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "record/facts.h"
#include "serve/api/log.h"
#include "serve/event.h"
#include "serve/internal.h"
#include "serve/page/page.h"
#include "serve/view/view.h"

/* Of many projects, the error names a few as examples; /api/v1/projects has all. */
#define NAMES_MAX 20

/* Routes. */

/* Matches a path with "/api/v1/runs/{run}"; captures point into the arena. */
static bool path_matches(struct web_exchange *x, const char *pattern)
{
	const char *path = x->path;
	size_t n = 0;

	memset(x->captures, 0, sizeof(x->captures));
	while (*pattern) {
		if (*pattern == '{') {
			size_t len = strcspn(path, "/");

			if (len == 0 || n == WEB_CAPTURES_MAX)
				return false;
			x->captures[n++] = arena_strndup(x->arena, path, len);
			path += len;
			pattern = strchr(pattern, '}') + 1;
		} else if (*pattern++ != *path++) {
			return false;
		}
	}
	return *path == '\0';
}

static const struct api_route *find_route(struct web_exchange *x, struct str *allow)
{
	for (const struct api_route *r = api_routes; r->method; r++) {
		if (!path_matches(x, r->path))
			continue;
		if (strcmp(r->method, x->method) == 0)
			return r;
		if (!strstr(allow->s ? allow->s : "", r->method))
			str_addf(allow, "%s%s", allow->len ? ", " : "",
				 strcmp(r->method, "GET") == 0 ? "GET, HEAD" : r->method);
	}
	return NULL;
}

/* A mistyped parameter must be an error, not be ignored. */
static void check_params(const struct api_route *r, struct web_exchange *x)
{
	const char *names[WEB_PARAMS_MAX + 1];
	size_t n = 0;

	if (r->flags & API_PROJECT)
		names[n++] = "project";
	for (const struct api_param *p = r->params; p && p->name; p++)
		if (p->in == API_QUERY)
			names[n++] = p->name;
	for (size_t i = 0; i < x->n_params && !x->status; i++) {
		_cleanup_(str_deinit) struct str hint = { 0 };
		size_t k = 0;

		while (k < n && !str_eq(names[k], x->params[i].name))
			k++;
		if (k < n)
			continue;
		str_add(&hint, "");
		text_add_suggestion(&hint, x->params[i].name, names, n);
		web_problem(x, 400, "unknown parameter `%s`%s", x->params[i].name, hint.s);
	}
}

/* Before the server serves, it may not touch the projects. */
static void not_yet(struct daemon *d, struct web_exchange *x)
{
	char holder[256];

	pthread_mutex_lock(&d->lock);
	memcpy(holder, d->leader.holder, sizeof(holder));
	pthread_mutex_unlock(&d->lock);
	x->head.retry_after_s = 5;
	web_problem(x, 503, "this server stands by: %s%s",
		    *holder ? "the lease is held by " : "it is about to take over", holder);
}

enum role api_role(const struct api_route *r)
{
	const unsigned says = API_CHANGES | API_ADMIN | API_ASKS | API_OPEN | API_SIGNED;

	assert(strcmp(r->method, "GET") == 0 || (r->flags & says));
	if (r->flags & (API_OPEN | API_SIGNED | API_HEALTH))
		return ROLE_NONE;
	return r->flags & API_ADMIN     ? ROLE_ADMIN
	       : r->flags & API_CHANGES ? ROLE_OPERATOR
					: ROLE_VIEWER;
}

void api_route(void *arg, struct web_exchange *x)
{
	_cleanup_(str_deinit) struct str allow = { 0 };
	struct daemon *d = arg;
	const struct api_route *view = view_route(x), *r = view ? view : find_route(x, &allow);

	if (!access_enter(d->http.access, x) || (!r && page_answer(x)))
		return;
	if (!access_may(d->http.access, x, r ? api_role(r) : ROLE_VIEWER) ||
	    (!view && !access_comes_from_here(d->http.access, x))) {
		/* It is on record, unless nobody is known who made it: such requests would only
		 * push out other entries. */
		if (x->caller->role != ROLE_NONE || (x->caller->wrong && x->status == 401))
			access_log(d->http.access, x);
		return;
	}
	if (!r && !allow.len) {
		web_problem(x, 404,
			    "there is nothing at this path; /api/v1/openapi.json lists the paths");
		return;
	}
	if (!r) {
		x->head.allow = arena_strdup(x->arena, allow.s);
		web_problem(x, 405, "this path answers to %s", allow.s);
		return;
	}
	if (atomic_load(&d->phase) < DAEMON_SERVING && !(r->flags & API_HEALTH)) {
		not_yet(d, x);
		return;
	}
	x->route = r;
	x->health = (r->flags & API_HEALTH) != 0;
	if (r->body && x->content_type && strncasecmp(x->content_type, "application/json", 16) != 0)
		web_problem(x, 415, "the body must be application/json");
	if (!view)
		check_params(r, x);
}

/* Handling. */

/* "a, b, c and 3 more". */
static const char *project_names(struct api *a)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	size_t n = a->d->n_projects, shown = MIN(n, NAMES_MAX);

	for (size_t i = 0; i < shown; i++)
		str_addf(&text, "%s%s", i ? ", " : "", a->d->projects[i]->name);
	if (shown < n)
		str_addf(&text, " and %zu more", n - shown);
	return arena_strdup(a->arena, text.s);
}

static void choose_project(struct api *a)
{
	const char *name = web_param(a->x, "project");

	for (size_t i = 0; i < a->d->n_projects && !a->project; i++)
		if (name ? str_eq(a->d->projects[i]->name, name) : a->d->n_projects == 1)
			a->project = a->d->projects[i];
	if (a->project)
		return;
	if (name)
		web_problem(a->x, 404, "no project `%.80s` is served here: there is %s", name,
			    project_names(a));
	else
		web_problem(a->x, 400,
			    "several projects are served here: %s; name one (--project NAME, the "
			    "parameter `project`)",
			    project_names(a));
}

/* A missing body counts as an empty object. */
static void parse_body(struct api *a)
{
	struct err err = { 0 };

	if (a->x->body.len == 0)
		a->body = json_object();
	else if (!a->x->content_type)
		web_problem(a->x, 415, "the body must be application/json, and say so");
	else if (json_parse("body", a->x->body.s, a->x->body.len, &a->body, &err) < 0)
		web_problem(a->x, 400, "%s", err.msg);
	else if (!json_is_object(a->body))
		web_problem(a->x, 400, "body: must be an object, not %s", json_describe(a->body));
}

void api_handle(void *arg, struct web_exchange *x)
{
	const struct api_route *r = x->route;
	struct api a = { .d = arg, .x = x, .arena = x->arena };
	struct err err = { 0 };

	assert(r && !x->status); /* api_route() let it through */

	if (r->flags & API_PROJECT)
		choose_project(&a);
	if (!x->status && r->body)
		parse_body(&a);
	if (!x->status && (r->flags & API_DB)) {
		if (project_reader(a.project, &a.db, &err) < 0)
			web_problem_err(x, &err);
		else
			db_snapshot(a.db);
	}
	if (!x->status)
		r->handle(&a);
	if (a.db) {
		db_snapshot_end(a.db);
		project_reader_return(a.project, a.db);
	}
	json_decref(a.body);
	/* A standby server answers 503 to each health request: not logged. */
	if (strcmp(x->method, "GET") != 0)
		access_log(a.d->http.access, x);
	if (x->status >= 500 && !(r->flags & API_HEALTH))
		event(EVENT_ERROR, "request-failed", "{s:s, s:o, s:i, s:o}", "method", x->method,
		      "path", json_name(x->path, strlen(x->path)), "status", (int)x->status,
		      "answer", json_name(x->out.s ? x->out.s : "", x->out.len));
	else if (strcmp(x->method, "GET") != 0)
		event(EVENT_INFO, "request", "{s:s, s:o, s:i, s:o}", "method", x->method, "path",
		      json_name(x->path, strlen(x->path)), "status", (int)x->status, "user",
		      facts_text(x->caller->user));
}

void api_ask(struct daemon *d, struct web_exchange *x)
{
	_cleanup_(str_deinit) struct str allow = { 0 };
	const struct api_route *r = find_route(x, &allow);

	assert(r && str_eq(x->method, "GET"));
	x->route = r;
	check_params(r, x);
	if (!x->status)
		api_handle(d, x);
}

/* What handlers share. */

bool api_uint(struct api *a, const char *name, uint64_t min, uint64_t max, uint64_t *ret)
{
	const char *text = web_param(a->x, name);
	int64_t v;

	if (!text)
		return true;
	if (!text_parse_int(text, &v) || v < 0 || (uint64_t)v < min || (uint64_t)v > max) {
		web_problem(a->x, 400, "parameter `%s` must be a whole number from %llu to %llu",
			    name, (unsigned long long)min, (unsigned long long)max);
		return false;
	}
	*ret = (uint64_t)v;
	return true;
}

bool api_range(struct api *a, uint64_t size, uint64_t *ret_from, uint64_t *ret_n)
{
	const char *text = web_param(a->x, "offset");
	uint64_t n = API_BYTES_MAX;
	int64_t from = 0;

	if (!api_uint(a, "bytes", 1, API_BYTES_MAX, &n))
		return false;
	if (text && !text_parse_int(text, &from)) {
		web_problem(a->x, 400,
			    "parameter `offset` must be a whole number; a negative one counts "
			    "from the end");
		return false;
	}
	if (from < 0)
		from = (uint64_t)-from < size ? (int64_t)size + from : 0;
	*ret_from = MIN((uint64_t)from, size);
	*ret_n = MIN(n, size - *ret_from);
	return true;
}

void api_answer_bytes(struct api *a, int fd, uint64_t from, uint64_t n, const char *type)
{
	char *buf = n ? arena_alloc(a->arena, n) : NULL;
	ssize_t got = n ? fs_read_at(fd, buf, n, (off_t)from) : 0;
	struct err err = { 0 };

	if (got < 0) {
		err_errno(&err, "cannot read it");
		web_problem_err(a->x, &err);
		return;
	}
	str_addn(&a->x->out, got ? buf : "", (size_t)got);
	a->x->type = type;
	a->x->status = 200;
}

json_t *api_lossy_text(const char *bytes, size_t n)
{
	_cleanup_(str_deinit) struct str out = { 0 };
	uint32_t c;

	str_add(&out, "");
	for (size_t at = 0; at < n;) {
		size_t len = text_utf8_decode(bytes + at, n - at, &c);

		if (len && c)
			str_addn(&out, bytes + at, len);
		else
			str_add(&out, "\xef\xbf\xbd");
		at += len ? len : 1;
	}
	return json_stringn(out.s, out.len);
}

bool api_time(struct api *a, const char *name, int64_t *ret_ns)
{
	const char *text = web_param(a->x, name);
	struct err err = { 0 };

	if (!text || text_parse_time(text, ret_ns, &err) == 0)
		return true;
	web_problem(a->x, 400, "parameter `%s`: %s", name, err.msg);
	return false;
}

bool api_known_keys(struct api *a, const char *const *keys, size_t n)
{
	const char *key;
	json_t *v;

	json_object_foreach(a->body, key, v)
	{
		bool known = false;

		for (size_t i = 0; i < n && !known; i++)
			known = str_eq(keys[i], key);
		if (!known) {
			_cleanup_(str_deinit) struct str hint = { 0 };

			str_add(&hint, "");
			text_add_suggestion(&hint, key, keys, n);
			web_problem(a->x, 400, "body: unknown key `%s`%s", key, hint.s);
			return false;
		}
	}
	return true;
}

bool api_bool(struct api *a, const char *name, bool *ret)
{
	const char *text = web_param(a->x, name);

	if (!text)
		return true;
	if (!str_eq(text, "true") && !str_eq(text, "false")) {
		web_problem(a->x, 400, "parameter `%s` must be true or false", name);
		return false;
	}
	*ret = str_eq(text, "true");
	return true;
}

bool api_run(struct api *a, struct run_row *ret)
{
	struct err err = { 0 };

	if (record_find_run(a->db, a->x->captures[0], a->arena, ret, &err) == 0)
		return true;
	/* Several runs begin with this id: a client's error. */
	web_problem_err(a->x, &err);
	return false;
}

void api_answer_page(struct api *a, const char *key, json_t *list, const char *next)
{
	web_answer_json(a->x, 200, json_pack("{s:o, s:o}", key, list, "next", facts_text(next)));
}

const char *api_cursor(struct api *a, uint64_t next)
{
	return next ? arena_printf(a->arena, "%llu", (unsigned long long)next) : NULL;
}

bool api_call(struct api *a, loop_fn fn, void *arg)
{
	if (calls_run(a->d->calls, fn, arg))
		return true;
	a->x->head.retry_after_s = 5;
	web_problem(a->x, 503, "the server is stopping");
	return false;
}
