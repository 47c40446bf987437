/* Content out of a store: what is to be there as a list and a mark, then into a bucket or a directory. See export.h for the order. */
#include "storage/export.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/fs.h"
#include "base/json.h"
#include "storage/origin_internal.h"

#define MARK_MAX (256 * MIB)
#define BATCH 64		 /* objects under way: descriptors */
#define SMALL_MAX (128 * KIB) /* held in memory: 8 MiB in all */

struct file {
	const char *path; /* below the destination; "" for a single file */
	struct content_id id;
	struct digest sha256; /* of the bytes, whatever their number */
	bool executable, there;
};

struct link {
	const char *path, *target;
};

struct export {
	struct store *s;
	const struct export_ask *ask;
	struct arena *arena;
	VEC(struct file) files;
	VEC(struct link) links;
	char *place;
	struct export_done done;
};

/* --- what there is -------------------------------------------------------------------------------------------------------- */

static int add_listing(struct export *x, const char *dir, const struct content_id *id, int depth, struct err *err)
{
	_cleanup_(tree_freep) struct tree *t = NULL;

	if (depth > CONTENT_DEPTH_MAX)
		return err_set(err, ERR_TOO_LARGE, "directories are nested deeper than %d levels", CONTENT_DEPTH_MAX);
	if (tree_load(x->s, id, &t, err) < 0)
		return -1;
	for (size_t i = 0; i < tree_len(t); i++) {
		const struct tree_entry *e = tree_at(t, i);
		const char *path = arena_printf(x->arena, "%s%s%s", dir, *dir ? "/" : "", e->name);

		if (e->kind == TREE_DIR && add_listing(x, path, &e->id, depth + 1, err) < 0)
			return -1;
		if (e->kind == TREE_REFERENCE)
			return err_set(err, ERR_INVALID, "`%s` is a reference, which isn't exported", path);
		if (e->kind == TREE_SYMLINK)
			VEC_PUSH(&x->links, ((struct link){ path, arena_strdup(x->arena, e->target) }));
		if (e->kind == TREE_FILE || e->kind == TREE_EXECUTABLE)
			VEC_PUSH(&x->files, ((struct file){ .path = path, .id = e->id, .executable = e->kind == TREE_EXECUTABLE }));
	}
	return 0;
}

/* Up to one part, the content's own digest is that of its bytes. */
static int hash_file(struct export *x, struct file *f, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct digester *d;
	char buf[65536];
	ssize_t n;

	f->sha256 = f->id.digest;
	if (f->id.size_bytes <= CONTENT_PART_BYTES)
		return 0;
	if (content_open(x->s, &f->id, &fd, err) < 0)
		return -1;
	d = digester_new();
	while ((n = read(fd, buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			digester_update(d, buf, (size_t)n);
	digester_final(d, &f->sha256);
	digester_free(d);
	return n < 0 ? err_errno(err, "cannot read from the store") : 0;
}

static int collect(struct export *x, struct err *err)
{
	const struct content_id *id = &x->ask->id;

	if (x->s->ops->bring && x->s->ops->bring(x->s, id, 1, false, err) < 0)
		return -1;
	if (id->kind == CONTENT_TREE && add_listing(x, "", id, 0, err) < 0)
		return -1;
	if (id->kind == CONTENT_BLOB)
		VEC_PUSH(&x->files, ((struct file){ .path = "", .id = *id }));
	for (size_t i = 0; i < x->files.n; i++) {
		if (hash_file(x, &x->files.v[i], err) < 0)
			return -1;
		x->done.bytes += x->files.v[i].id.size_bytes;
	}
	x->done.files = x->files.n;
	return 0;
}

/* --- the mark --------------------------------------------------------------------------------------------------------------- */

static json_t *mark_file(const struct export *x, const struct file *f)
{
	char hex[DIGEST_HEX_MAX];
	const char *name = *f->path ? f->path : fs_basename(x->place);
	json_t *j = json_pack("{s:o, s:I, s:s}", "name", json_name(name, strlen(name)), "bytes", (json_int_t)f->id.size_bytes, "sha256", digest_hex(&f->sha256, hex));

	if (f->executable)
		json_object_set_new(j, "executable", json_true());
	return j;
}

static void make_mark(const struct export *x, struct str *out)
{
	const struct export_ask *a = x->ask;
	char hex[DIGEST_HEX_MAX];
	json_t *files = json_array(), *links = json_array(), *mark;

	for (size_t i = 0; i < x->files.n; i++)
		json_array_append_new(files, mark_file(x, &x->files.v[i]));
	for (size_t i = 0; i < x->links.n; i++)
		json_array_append_new(links, json_pack("{s:o, s:o}", "name", json_name(x->links.v[i].path, strlen(x->links.v[i].path)), "target",
						       json_name(x->links.v[i].target, strlen(x->links.v[i].target))));
	mark = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s+, s:I, s:o, s:o}", "cairn_export", 1, "pipeline", a->pipeline, "task", a->task, "output", a->output, "run", a->run,
			 "content", "sha256:", digest_hex(&a->id.digest, hex), "exported_ns", (json_int_t)a->now_ns, "files", files, "links", links);
	if (mark)
		json_add_canonical(out, mark);
	str_addc(out, '\n');
	json_decref(mark);
}

static bool is_mark(const json_t *j)
{
	int64_t version;

	return json_is_object(j) && json_get_int(j, "cairn_export", &version, NULL) == 0 && version == 1 && json_is_array(json_object_get(j, "files"));
}

/* --- a bucket ------------------------------------------------------------------------------------------------------------------- */

struct target {
	struct bucket *bucket;
	const char *key, *mark; /* key: of the single file, or with a slash at its end */
};

static const char *key_of(const struct export *x, const struct target *t, const char *path)
{
	return arena_printf(x->arena, "%s%s", t->key, path);
}

static int find_target(struct export *x, struct target *t, struct err *err)
{
	if (origin_locate(x->s, x->place, "", x->arena, &t->bucket, &t->key, err) < 0)
		return -1;
	if (!*t->key)
		return err_set(err, ERR_INVALID, "a name in the bucket is missing");
	if (x->ask->id.kind == CONTENT_TREE)
		t->key = arena_printf(x->arena, "%s/", t->key);
	t->mark = arena_printf(x->arena, "%s%s", t->key, x->ask->id.kind == CONTENT_TREE ? EXPORT_MARK : EXPORT_MARK_SUFFIX);
	return 0;
}

/* NULL: there is none, or it isn't ours. */
static json_t *old_mark(const struct target *t)
{
	struct bucket_get g = { .key = t->mark, .size = UINT64_MAX, .fd = -1, .max_bytes = MARK_MAX };
	struct bucket_get *v = &g;
	json_t *mark = NULL;

	if (bucket_get_many(t->bucket, &v, 1, NULL) == 0 && g.result == 0)
		json_parse("the mark", g.body.s ? g.body.s : "", g.body.len, &mark, NULL);
	str_deinit(&g.body);
	if (mark && !is_mark(mark)) {
		json_decref(mark);
		mark = NULL;
	}
	return mark;
}

/* What the old mark names with the same bytes is there already, if the bucket says so too. Its other names, sorted out: *ret_stale. */
static int compare_old(struct export *x, const struct target *t, const json_t *old, struct map *stale, struct err *err)
{
	json_t *list = json_object_get(old, "files"), *j;
	_cleanup_(map_freep) struct map *by_name = map_new();
	const char **keys = arena_alloc(x->arena, (x->files.n + 1) * sizeof(*keys));
	struct file **same = arena_alloc(x->arena, (x->files.n + 1) * sizeof(*same));
	_cleanup_(freep) bool *there = xcalloc(x->files.n + 1, sizeof(*there));
	_cleanup_(freep) uint64_t *sizes = xcalloc(x->files.n + 1, sizeof(*sizes));
	size_t i, n = 0;

	for (i = 0; i < x->files.n; i++)
		*map_slot_str(by_name, *x->files.v[i].path ? x->files.v[i].path : fs_basename(x->place)) = &x->files.v[i];
	json_array_foreach(list, i, j) {
		_cleanup_(str_deinit) struct str name = { 0 };
		const char *text, *sha256;
		struct digest d;
		struct file *f;

		if (json_get_str(j, "name", &text, NULL) < 0 || json_get_str(j, "sha256", &sha256, NULL) < 0 || json_name_decode(&name, text, NULL) < 0 ||
		    digest_parse(sha256, &d, NULL) < 0 || !name.s || strlen(name.s) != name.len)
			continue;
		f = map_get_str(by_name, name.s);
		if (!f && x->ask->id.kind == CONTENT_TREE) {
			map_slot_str(stale, name.s);
		} else if (f && digest_eq(&d, &f->sha256)) {
			keys[n] = key_of(x, t, f->path);
			same[n++] = f;
		}
	}
	if (n && bucket_head_many(t->bucket, keys, n, there, sizes, err) < 0)
		return -1;
	for (i = 0; i < n; i++)
		same[i]->there = there[i] && sizes[i] == same[i]->id.size_bytes;
	return 0;
}

static int begin_put(struct export *x, const struct target *t, const struct file *f, struct bucket_put *p, struct str *bytes, struct err *err)
{
	*p = (struct bucket_put){ .key = key_of(x, t, f->path), .fd = -1, .size = f->id.size_bytes };
	if (f->id.size_bytes > SMALL_MAX)
		return content_open(x->s, &f->id, &p->fd, err);
	if (content_read(x->s, &f->id, SMALL_MAX, bytes, err) < 0)
		return -1;
	p->bytes = bytes->s ? bytes->s : "";
	return 0;
}

static int put_batch(struct export *x, const struct target *t, struct file *const *files, size_t n, struct err *err)
{
	struct bucket_put puts[BATCH], *v[BATCH] = { NULL };
	struct str bytes[BATCH] = { 0 };
	size_t begun = 0;
	int r = 0;

	for (; begun < n && r == 0; begun++) {
		v[begun] = &puts[begun];
		r = begin_put(x, t, files[begun], &puts[begun], &bytes[begun], err);
	}
	if (r == 0)
		r = bucket_put_many(t->bucket, v, n, err);
	for (size_t i = 0; i < begun; i++) {
		if (r == 0 && puts[i].result < 0)
			r = err_set(err, puts[i].err.code, "%s", puts[i].err.msg);
		if (puts[i].fd >= 0)
			close(puts[i].fd);
		str_deinit(&bytes[i]);
	}
	x->done.sent += r == 0 ? n : 0;
	return r;
}

static int put_files(struct export *x, const struct target *t, struct err *err)
{
	struct file *batch[BATCH];
	size_t n = 0;

	for (size_t i = 0; i < x->files.n; i++) {
		if (!x->files.v[i].there)
			batch[n++] = &x->files.v[i];
		if (n && (n == BATCH || i + 1 == x->files.n)) {
			if (put_batch(x, t, batch, n, err) < 0)
				return -1;
			n = 0;
		}
	}
	return 0;
}

static int put_mark(struct export *x, const struct target *t, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct bucket_put p = { .key = t->mark, .fd = -1, .content_type = "application/json" }, *v = &p;

	make_mark(x, &text);
	p.bytes = text.s;
	p.size = text.len;
	if (bucket_put_many(t->bucket, &v, 1, err) < 0)
		return -1;
	return p.result < 0 ? err_set(err, p.err.code, "%s", p.err.msg) : 0;
}

/* Failing here leaves objects that no mark names: no reason to fail. */
static void delete_stale(struct export *x, const struct target *t, struct map *stale)
{
	size_t n = map_len(stale);
	const char **keys = arena_alloc(x->arena, (n + 1) * sizeof(*keys));

	for (size_t i = 0; i < n; i++) {
		const void *name;
		size_t len;

		map_at(stale, i, &name, &len);
		keys[i] = key_of(x, t, arena_strndup(x->arena, name, len));
	}
	if (n)
		bucket_delete_many(t->bucket, keys, n, NULL);
}

static int to_bucket(struct export *x, struct err *err)
{
	_cleanup_(map_freep) struct map *stale = map_new();
	struct target t;
	json_t *old;
	bool marked;
	int r;

	if (find_target(x, &t, err) < 0)
		return -1;
	old = old_mark(&t);
	marked = old != NULL;
	r = old ? compare_old(x, &t, old, stale, err) : 0;
	json_decref(old);
	if (r == 0 && marked)
		r = bucket_delete_many(t.bucket, &t.mark, 1, err);
	if (r == 0)
		r = put_files(x, &t, err);
	if (r == 0)
		r = put_mark(x, &t, err);
	if (r == 0)
		delete_stale(x, &t, stale);
	return r;
}

/* --- a directory of this machine ---------------------------------------------------------------------------------------------------- */

static bool is_ours(const char *mark)
{
	json_t *j = NULL;
	bool ours = json_read_file(mark, MARK_MAX, &j, NULL) == 0 && is_mark(j);

	json_decref(j);
	return ours;
}

/* `temp` gets the name of the place; what was there goes. */
static int replace_dir(const char *temp, const char *place, struct err *err)
{
	if (renameat2(AT_FDCWD, temp, AT_FDCWD, place, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno == EINVAL && access(place, F_OK) < 0 && rename(temp, place) == 0) /* a file system that knows no flags */
		return 0;
	if (renameat2(AT_FDCWD, temp, AT_FDCWD, place, RENAME_EXCHANGE) < 0)
		return err_errno(err, "cannot put %s in the place of what is there", place);
	return fs_remove_tree(temp, err);
}

static int write_mark(struct export *x, const char *path, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	make_mark(x, &text);
	return fs_write_atomic(path, text.s, text.len, err);
}

static int to_dir(struct export *x, const char *temp, struct err *err)
{
	_cleanup_(freep) char *mark = fs_join(x->place, EXPORT_MARK), *own = fs_join(temp, EXPORT_MARK);

	if (access(x->place, F_OK) == 0 && !is_ours(mark))
		return err_set(err, ERR_EXISTS, "%s is there already, and cairn didn't export it; remove it, or export to another place", x->place);
	if (content_materialise_at(x->s, &x->ask->id, false, CONTENT_COPY_WRITABLE, AT_FDCWD, temp, err) < 0 || write_mark(x, own, err) < 0)
		return -1;
	return replace_dir(temp, x->place, err);
}

static int to_file(struct export *x, const char *temp, struct err *err)
{
	_cleanup_(freep) char *mark = xasprintf("%s%s", x->place, EXPORT_MARK_SUFFIX);

	if (access(x->place, F_OK) == 0 && !is_ours(mark))
		return err_set(err, ERR_EXISTS, "%s is there already, and cairn didn't export it; remove it, or export to another place", x->place);
	if (content_materialise_at(x->s, &x->ask->id, false, CONTENT_COPY_WRITABLE, AT_FDCWD, temp, err) < 0)
		return -1;
	/* A mark that is there goes on being true until the name changes hands: then it is older than the file for a moment, and its digest tells. */
	if (rename(temp, x->place) < 0)
		return err_errno(err, "cannot make %s", x->place);
	return write_mark(x, mark, err);
}

static int to_machine(struct export *x, struct err *err)
{
	_cleanup_(freep) char *parent = fs_dirname(x->place), *temp = xasprintf("%s/.cairn-export-%ld-%s", parent, (long)getpid(), fs_basename(x->place));
	int r;

	if (fs_mkdir_p(parent, err) < 0)
		return -1;
	fs_remove_tree(temp, NULL); /* of a dead process with this number */
	r = x->ask->id.kind == CONTENT_TREE ? to_dir(x, temp, err) : to_file(x, temp, err);
	if (r < 0)
		fs_remove_tree(temp, NULL);
	x->done.sent = r == 0 ? x->files.n : 0;
	return r;
}

/* --- all -------------------------------------------------------------------------------------------------------------------------------- */

char *export_place(const struct export_ask *ask)
{
	const char *path = str_has_prefix(ask->uri, "file://") ? ask->uri + strlen("file://") : ask->uri;
	size_t n = strlen(path), scheme = *path == '/' ? 1 : 5;
	bool under = n && path[n - 1] == '/' && ask->id.kind != CONTENT_TREE;
	_cleanup_(freep) char *plain = NULL, *whole = NULL;

	while (n > scheme && path[n - 1] == '/')
		n--;
	plain = xstrndup(path, n);
	whole = under ? xasprintf("%s/%s", plain, ask->name) : xstrdup(plain);
	return *path == '/' ? fs_normalise(whole) : TAKE_PTR(whole);
}

int content_export(struct store *s, const struct export_ask *ask, struct export_done *ret, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct export x = { .s = s, .ask = ask, .arena = arena };
	int r;

	x.place = export_place(ask);
	r = ask->id.kind == CONTENT_NONE || ask->id.kind == CONTENT_REFERENCE ? err_set(err, ERR_INVALID, "there is no content to export") : collect(&x, err);
	if (r == 0)
		r = *x.place == '/' ? to_machine(&x, err) : to_bucket(&x, err);
	if (r == 0)
		*ret = x.done;
	VEC_FREE(&x.files);
	VEC_FREE(&x.links);
	free(x.place);
	return r;
}
