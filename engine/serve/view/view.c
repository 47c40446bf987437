/* engine/serve/view/view.c — from a ticket and a path to a part of a file.
 *
 * The path is walked in the tree's listings, name by name: no part of it reaches the file system,
 * and a symbolic link in a tree leads nowhere. A directory's own page is its index.html.
 *
 * Other origins may read the answer (Access-Control-Allow-Origin): a sandboxed page is one, and
 * needs that for its fonts and modules. The ticket is the right; a page that hasn't got it learns
 * nothing.
 *
 * Threads: the pool's. */
#include "serve/view/view.h"
#include <string.h>
#include "base/net/http.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "record/facts.h"
#include "serve/view/ticket.h"
#include "storage/content/content.h"

#define PREFIX "/view/"

/* Making a ticket. */

void api_view_begin(struct api *a)
{
	_cleanup_(str_deinit) struct str base = { 0 };
	struct ticket t = { .proof = a->x->caller->proof,
			    .until_ns = clock_wall_ns() + TICKET_S * NS_PER_S };
	struct err err = { 0 };
	struct store *store;
	const char *text;

	if (json_get_str(a->body, "content", &text, &err) < 0 ||
	    digest_parse(text, &t.content.digest, &err) < 0) {
		web_problem(a->x, 400, "body: %s", err.msg);
		return;
	}
	if (project_store(a->project, &store, &err) < 0 ||
	    content_find(store, &t.content.digest, &t.content, &err) < 0) {
		web_problem_err(a->x, &err);
		return;
	}
	while (a->d->projects[t.project] != a->project)
		t.project++;
	str_add(&base, PREFIX);
	ticket_write(&t, &base);
	str_addc(&base, '/');
	web_answer_json(a->x, 201,
			json_pack("{s:s, s:o, s:s}", "base", base.s, "expires",
				  facts_time(t.until_ns), "kind",
				  content_kind_name(t.content.kind)));
}

/* The file. */

struct part {
	struct api *a;
	struct store *store;
	struct content_id id;
	const char *name; /* the last of its path */
};

/* One of several names that a tree's path has; slashes at its end don't count. */
static bool find_entry(struct part *p, const struct ticket *t, const char *path, struct err *err)
{
	size_t n = strlen(path);
	struct tree_entry e;

	while (n && path[n - 1] == '/')
		n--;
	path = arena_strndup(p->a->arena, path, n);
	if (content_is_file(&t->content)) {
		p->id = t->content;
		p->name = path;
		return n && !strchr(path, '/');
	}
	p->id = t->content;
	if (n) {
		if (tree_lookup(p->store, &t->content, path, p->a->arena, &e, err) < 0 ||
		    !tree_entry_is_kept(&e))
			return false;
		p->id = e.id;
	}
	p->name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	return true;
}

/* A directory's page; its address ends with a slash, so that relative links lead into it. */
static bool find_index(struct part *p, const char *path, struct err *err)
{
	struct content_id directory = p->id;
	struct tree_entry e;
	size_t n = strlen(path);

	if (n && path[n - 1] != '/') {
		_cleanup_(str_deinit) struct str to = { 0 };

		http_escape(&to, p->name, strlen(p->name), false);
		p->a->x->head.location = arena_printf(p->a->arena, "./%s/", to.s);
		p->a->x->status = 308;
		return false;
	}
	if (tree_lookup(p->store, &directory, "index.html", p->a->arena, &e, err) < 0 ||
	    !tree_entry_is_kept(&e) || !content_is_file(&e.id))
		return false;
	p->id = e.id;
	p->name = "index.html";
	return true;
}

/* RFC 9110, 14.1.2: one range; any other header is ignored, as it may be. 1: *from and *n are set;
 * 0: the whole; -1: there are no such bytes. */
static int read_range(const char *h, uint64_t size, uint64_t *from, uint64_t *n)
{
	const char *dash;
	int64_t first = -1, last = -1;

	if (!h || !str_has_prefix(h, "bytes=") || strchr(h, ','))
		return 0;
	h += strlen("bytes=");
	dash = strchr(h, '-');
	if (!dash || strspn(h, "0123456789") != (size_t)(dash - h) ||
	    strspn(dash + 1, "0123456789") != strlen(dash + 1) || strlen(h) > 40)
		return 0;
	if (dash > h && sscanf(h, "%18lld", (long long *)&first) != 1)
		return 0;
	if (dash[1] && sscanf(dash + 1, "%18lld", (long long *)&last) != 1)
		return 0;
	if (first < 0 && last < 0)
		return 0;
	if (first < 0) { /* the last so many bytes */
		*n = MIN((uint64_t)last, size);
		*from = size - *n;
		return *n ? 1 : -1;
	}
	if ((uint64_t)first >= size)
		return -1;
	if (last >= 0 && last < first)
		return 0;
	*from = (uint64_t)first;
	*n = MIN(last < 0 ? size : (uint64_t)last + 1, size) - *from;
	return 1;
}

static void add_disposition(struct web_exchange *x, const char *name, bool attached)
{
	_cleanup_(str_deinit) struct str escaped = { 0 };

	str_add(&escaped, "");
	http_escape(&escaped, name, strlen(name), false); /* RFC 8187 */
	web_add_header(x, "Content-Disposition",
		       arena_printf(x->arena, "%s; filename*=UTF-8''%s",
				    attached ? "attachment" : "inline", escaped.s));
}

static void send_part(struct part *p, bool download)
{
	struct web_exchange *x = p->a->x;
	struct view_type type = view_type_of(p->name);
	const char *if_range = web_header(x, "If-Range");
	uint64_t from = 0, n = p->id.size_bytes;
	char hex[DIGEST_HEX_MAX];
	struct err err = { 0 };
	int range, fd;

	x->head.etag = arena_printf(x->arena, "\"%.32s\"", digest_hex(&p->id.digest, hex));
	range = if_range && !str_eq(if_range, x->head.etag)
			? 0
			: read_range(web_header(x, "Range"), p->id.size_bytes, &from, &n);
	web_add_header(x, "Accept-Ranges", "bytes");
	web_add_header(x, "Access-Control-Allow-Origin", "*");
	if (range < 0) {
		web_add_header(x, "Content-Range",
			       arena_printf(x->arena, "bytes */%llu",
					    (unsigned long long)p->id.size_bytes));
		web_problem(x, 416, "the file has %llu bytes",
			    (unsigned long long)p->id.size_bytes);
		return;
	}
	if (content_open(p->store, &p->id, &fd, &err) < 0) {
		web_problem_err(x, &err);
		return;
	}
	x->file = (struct web_file){ .fd = fd, .at = from, .n = n };
	x->status = range ? 206 : 200;
	if (range)
		web_add_header(x, "Content-Range",
			       arena_printf(x->arena, "bytes %llu-%llu/%llu",
					    (unsigned long long)from,
					    (unsigned long long)(from + n - 1),
					    (unsigned long long)p->id.size_bytes));
	x->type = type.type;
	x->head.policy = type.policy;
	x->head.cache = "private, max-age=300";
	x->head.shared = true;
	add_disposition(x, p->name, type.attached || download);
}

static void answer_view(struct api *a)
{
	const char *rest = a->x->path + strlen(PREFIX), *slash = strchr(rest, '/');
	const char *download = web_param(a->x, "download");
	struct part p = { .a = a };
	struct err err = { 0 };
	struct ticket t;

	if (!slash || !ticket_read(arena_strndup(a->arena, rest, (size_t)(slash - rest)), &t) ||
	    t.project >= a->d->n_projects || !access_still(a->d->http.access, &t.proof)) {
		web_problem(a->x, 403,
			    "this address has no valid ticket, or its time is over: open the "
			    "artifact again");
		return;
	}
	if (project_store(a->d->projects[t.project], &p.store, &err) < 0) {
		web_problem_err(a->x, &err);
		return;
	}
	if (find_entry(&p, &t, slash + 1, &err) &&
	    (content_is_file(&p.id) || find_index(&p, slash + 1, &err)))
		send_part(&p, download && str_eq(download, "1"));
	else if (!a->x->status && (!err.code || err.code == ERR_NOT_FOUND || err.code == ERR_USAGE))
		web_problem(a->x, 404, "there is no such file in this artifact");
	else if (!a->x->status)
		web_problem_err(a->x, &err);
}

const struct api_route *view_route(const struct web_exchange *x)
{
	static const struct api_route route = { "GET",    PREFIX,      "viewed",     "",
						API_OPEN, answer_view, .status = 200 };

	return str_has_prefix(x->path, PREFIX) && str_eq(x->method, "GET") ? &route : NULL;
}
