/* engine/serve/api/content/content.c — content of the store: what it is, what is in a directory,
 * and bytes of a file.
 *
 * A content is named by its digest, a file in it by `path`. Bytes are answered as they are, as a
 * type that no browser shows; pages get them for display from the sandbox (views). What a file is
 * is guessed from its name and its first bytes, for people only.
 *
 * The listing of a directory is read whole, since it is verified whole. That of a large one is kept
 * for the next page, so that a million entries are read once. One is kept, with the lock held while
 * a page is made of it.
 *
 * Threads: the pool's. Not here: tables (rows.c), shards (shard.c).
 */
#include "serve/api/content/content.h"
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "record/facts.h"
#include "record/lineage/graph.h"
#include "serve/api/log.h"

#define LARGE_LISTING (256 * KIB) /* of which the next page is worth keeping it */
#define ENTRIES_MAX   1000
#define NAMES_MAX     20
#define HEAD_BYTES    512

/* Which content. */

static bool find_content(struct api *a, struct content_named *ret)
{
	const char *path = web_param(a->x, "path");
	struct tree_entry e;
	struct digest digest;
	struct err err = { 0 };

	*ret = (struct content_named){ .name = "" };
	if (digest_parse(a->x->captures[0], &digest, NULL) < 0) {
		web_problem(a->x, 400, "a content is named by sha256: and its 64 hex digits");
		return false;
	}
	if (project_store(a->project, &ret->store, &err) < 0 ||
	    content_find(ret->store, &digest, &ret->id, &err) < 0) {
		web_problem_err(a->x, &err);
		return false;
	}
	if (!path || !*path)
		return true;
	if (ret->id.kind != CONTENT_TREE) {
		web_problem(a->x, 404, "the content is a file: it has no `path`");
		return false;
	}
	if (tree_lookup(ret->store, &ret->id, path, a->arena, &e, &err) < 0) {
		web_problem_err(a->x, &err);
		return false;
	}
	if (!tree_entry_is_kept(&e)) {
		web_problem(a->x, 409, "`%.200s` is %s, and its bytes aren't in the store", path,
			    e.kind == TREE_SYMLINK ? "a symbolic link" : "kept by reference");
		return false;
	}
	ret->id = e.id;
	ret->name = arena_strndup(a->arena, e.name, e.name_len);
	return true;
}

bool api_content_open(struct api *a, struct content_named *ret, int *ret_fd, uint64_t *ret_size)
{
	struct err err = { 0 };
	struct stat st;
	int fd;

	if (!find_content(a, ret))
		return false;
	if (!content_is_file(&ret->id)) {
		web_problem(a->x, 409,
			    ret->id.kind == CONTENT_TREE
				    ? "it is a directory: name a file in it with `path`"
				    : "its bytes are kept by reference, not in the store");
		return false;
	}
	if (content_open(ret->store, &ret->id, &fd, &err) < 0) {
		web_problem_err(a->x, &err);
		return false;
	}
	*ret_fd = fd;
	*ret_size = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
	return true;
}

/* What it is. */

static const struct {
	const char *suffix, *type, *view;
} suffixes[] = {
	{ ".png", "image/png", "image" },
	{ ".jpg", "image/jpeg", "image" },
	{ ".jpeg", "image/jpeg", "image" },
	{ ".gif", "image/gif", "image" },
	{ ".webp", "image/webp", "image" },
	{ ".svg", "image/svg+xml", "svg" },
	{ ".pdf", "application/pdf", "pdf" },
	{ ".html", "text/html", "html" },
	{ ".htm", "text/html", "html" },
	{ ".json", "application/json", "json" },
	{ ".jsonl", "application/jsonl", "table" },
	{ ".ndjson", "application/jsonl", "table" },
	{ ".csv", "text/csv", "table" },
	{ ".tsv", "text/tab-separated-values", "table" },
	{ ".npy", "application/x-npy", "table" },
	{ ".tar", "application/x-tar", "shard" },
	{ ".wav", "audio/wav", "audio" },
	{ ".mp3", "audio/mpeg", "audio" },
	{ ".ogg", "audio/ogg", "audio" },
	{ ".flac", "audio/flac", "audio" },
	{ ".md", "text/markdown", "text" },
};

static const struct {
	const char *magic;
	size_t at;
	const char *type, *view;
} magics[] = {
	{ "\x89PNG\r\n\x1a\n", 0, "image/png", "image" },
	{ "\xff\xd8\xff", 0, "image/jpeg", "image" },
	{ "GIF8", 0, "image/gif", "image" },
	{ "WEBP", 8, "image/webp", "image" },
	{ "%PDF-", 0, "application/pdf", "pdf" },
	{ "\x93NUMPY", 0, "application/x-npy", "table" },
	{ "ustar", 257, "application/x-tar", "shard" },
	{ "<svg", 0, "image/svg+xml", "svg" },
	{ "<!DOCTYPE html", 0, "text/html", "html" },
	{ "<!doctype html", 0, "text/html", "html" },
	{ "<html", 0, "text/html", "html" },
	{ "RIFF", 0, "audio/wav", "audio" },
	{ "OggS", 0, "audio/ogg", "audio" },
	{ "fLaC", 0, "audio/flac", "audio" },
	{ "ID3", 0, "audio/mpeg", "audio" },
};

static bool is_text(const char *head, size_t n)
{
	uint32_t c;

	for (size_t at = 0; at < n;) {
		size_t len = text_utf8_decode(head + at, n - at, &c);

		if (!len)
			return n - at < 4 && n == HEAD_BYTES; /* a character that was cut */
		if (c < ' ' && !strchr("\t\n\r\f\x1b", (int)c))
			return false;
		at += len;
	}
	return true;
}

static void guess(const char *name, const char *head, size_t n, const char **ret_type,
		  const char **ret_view)
{
	for (size_t i = 0; i < ARRAY_LEN(magics); i++) {
		size_t len = strlen(magics[i].magic);

		if (n >= magics[i].at + len &&
		    memcmp(head + magics[i].at, magics[i].magic, len) == 0) {
			*ret_type = magics[i].type;
			*ret_view = magics[i].view;
			return;
		}
	}
	*ret_type = is_text(head, n) ? "text/plain" : "application/octet-stream";
	*ret_view = is_text(head, n) ? "text" : "binary";
	for (size_t i = 0; i < ARRAY_LEN(suffixes) && is_text(head, n); i++)
		if (str_has_suffix(name, suffixes[i].suffix)) {
			*ret_type = suffixes[i].type;
			*ret_view = suffixes[i].view;
		}
}

/* The attempts that made it, as names: {run, task, output}. */
static int add_makers(struct api *a, const struct content_id *id, json_t *list, struct err *err)
{
	struct attempt_row *rows;
	size_t n;

	if (lineage_neighbours(a->db, id, LINEAGE_UP, NAMES_MAX, a->arena, &rows, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct cached_result made;
		struct attempt_row row;
		struct run_row run;

		if (record_outputs(a->db, rows[i].id, a->arena, &made, err) < 0 ||
		    record_attempt(a->db, rows[i].id, a->arena, &row, &run, err) < 0)
			return -1;
		for (size_t k = 0; k < made.n_outputs; k++)
			if (digest_eq(&made.outputs[k].id.digest, &id->digest))
				json_array_append_new(list,
						      json_pack("{s:o, s:o, s:o}", "run",
								facts_text(run.id), "task",
								facts_text(row.task), "output",
								facts_text(made.outputs[k].name)));
	}
	return 0;
}

/* As an input of the first run that read it. */
static json_t *origin_json(struct api *a, const struct content_id *id)
{
	struct lineage_origin o;

	if (lineage_find_any_origin(a->db, id, a->arena, &o, NULL) <= 0)
		return json_null();
	return json_pack("{s:o, s:o, s:o}", "input", facts_text(o.input), "uri", facts_text(o.uri),
			 "run", facts_text(o.run));
}

void api_content(struct api *a)
{
	const char *type = "inode/directory", *view = "directory";
	char head[HEAD_BYTES];
	struct content_named c;
	struct err err = { 0 };
	json_t *o, *names;
	ssize_t n = 0;

	if (!find_content(a, &c))
		return;
	if (content_is_file(&c.id)) {
		_cleanup_(fd_closep) int fd = -1;

		if (content_open(c.store, &c.id, &fd, &err) < 0) {
			web_problem_err(a->x, &err);
			return;
		}
		n = fs_read_at(fd, head, sizeof(head), 0);
		guess(c.name, head, (size_t)MAX(n, 0), &type, &view);
	}
	names = json_array();
	if (add_makers(a, &c.id, names, &err) < 0) {
		json_decref(names);
		web_problem_err(a->x, &err);
		return;
	}
	o = json_object();
	json_object_set_new(o, "content", facts_id(&c.id));
	json_object_set_new(o, "kind", json_string(content_kind_name(c.id.kind)));
	json_object_set_new(o, "size", json_integer((json_int_t)c.id.size_bytes));
	json_object_set_new(o, "names", names);
	json_object_set_new(o, "origin", origin_json(a, &c.id));
	json_object_set_new(o, "type", json_string(type));
	json_object_set_new(o, "view", json_string(view));
	web_answer_json(a->x, 200, o);
}

/* Directories. */

struct listings {
	pthread_mutex_t lock;
	struct tree *tree; /* or NULL */
	struct content_id id;
};

struct listings *api_listings_new(void)
{
	struct listings *l = xcalloc(1, sizeof(*l));

	pthread_mutex_init(&l->lock, NULL);
	return l;
}

void api_listings_free(struct listings *l)
{
	if (!l)
		return;
	tree_free(l->tree);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static json_t *entry_json(const struct tree_entry *e)
{
	static const char *const kinds[] = { [TREE_FILE] = "file",
					     [TREE_EXECUTABLE] = "executable",
					     [TREE_SYMLINK] = "symlink",
					     [TREE_DIR] = "directory",
					     [TREE_REFERENCE] = "reference" };
	bool kept = tree_entry_is_kept(e);
	json_t *o = json_object();

	json_object_set_new(o, "name", json_name(e->name, e->name_len));
	json_object_set_new(o, "kind", json_string(kinds[e->kind]));
	json_object_set_new(o, "size",
			    kept ? json_integer((json_int_t)e->id.size_bytes) : json_null());
	json_object_set_new(o, "content", kept ? facts_id(&e->id) : json_null());
	if (e->kind == TREE_SYMLINK)
		json_object_set_new(o, "target", json_name(e->target, e->target_len));
	return o;
}

static void answer_entries(struct api *a, const struct tree *t, uint64_t from, uint64_t limit)
{
	size_t n = tree_len(t), end = (size_t)MIN(from + limit, n);
	json_t *list = json_array();

	for (size_t i = (size_t)MIN(from, n); i < end; i++)
		json_array_append_new(list, entry_json(tree_at(t, i)));
	web_answer_json(a->x, 200,
			json_pack("{s:o, s:o, s:I}", "entries", list, "next",
				  facts_text(api_cursor(a, end < n ? end : 0)), "total",
				  (json_int_t)n));
}

static void answer_kept(struct api *a, const struct content_named *c, uint64_t from, uint64_t limit)
{
	struct listings *l = a->d->http.listings;
	struct err err = { 0 };
	struct tree *t;

	pthread_mutex_lock(&l->lock);
	if (!l->tree || !content_id_eq(&l->id, &c->id)) {
		if (tree_load(c->store, &c->id, &t, &err) < 0) {
			web_problem_err(a->x, &err);
		} else {
			tree_free(l->tree);
			l->tree = t;
			l->id = c->id;
		}
	}
	if (!a->x->status)
		answer_entries(a, l->tree, from, limit);
	pthread_mutex_unlock(&l->lock);
}

void api_content_entries(struct api *a)
{
	_cleanup_(tree_freep) struct tree *t = NULL;
	uint64_t limit = API_LIMIT_DEFAULT, from = 0;
	struct content_named c;
	struct err err = { 0 };

	if (!api_uint(a, "limit", 1, ENTRIES_MAX, &limit) ||
	    !api_uint(a, "cursor", 1, API_CURSOR_MAX, &from) || !find_content(a, &c))
		return;
	if (c.id.kind != CONTENT_TREE)
		web_problem(a->x, 409, "it is no directory");
	else if (c.id.size_bytes >= LARGE_LISTING)
		answer_kept(a, &c, from, limit);
	else if (tree_load(c.store, &c.id, &t, &err) < 0)
		web_problem_err(a->x, &err);
	else
		answer_entries(a, t, from, limit);
}

void api_content_bytes(struct api *a)
{
	struct content_named c;
	uint64_t size, from, n;
	int fd;

	if (!api_content_open(a, &c, &fd, &size))
		return;
	if (api_range(a, size, &from, &n))
		api_answer_bytes(a, fd, from, n, "application/octet-stream");
	close(fd);
}
